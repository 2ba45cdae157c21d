/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree in which an element is added up, taken out of an execution. What its leaves stand for
 * is said when its digest is asked for: so the orders of several systems make that of a plan.
 */
#include "verify.h"

#include <string.h>

/* Marks what the value is made of; numbers are higher than those of their terms. */
static uint32_t mark(const struct verify_values *values, uint32_t root, uint8_t *used)
{
    uint32_t count = 0;
    used[root] = 1;
    for (uint32_t i = root; i > 0; i--) {
        const struct verify_node *node = &values->nodes[i];
        if (!used[i])
            continue;
        count++;
        if (!(node->a & VALUE_LEAF))
            used[node->a] = 1;
        if (!(node->b & VALUE_LEAF))
            used[node->b] = 1;
    }
    return count;
}

static uint32_t rename_term(const struct verify_values *values, const uint32_t *name,
                            uint32_t value)
{
    if (value & VALUE_LEAF)
        return VALUE_LEAF | peal_verify_leaf_rank(values, value);
    return value == VALUE_NONE ? VALUE_NONE : name[value];
}

/* Terms are numbered from 1, each behind its own. */
static void fill(struct verify_tree *tree, const struct verify_values *values, uint32_t root,
                 const uint8_t *used, uint32_t *name)
{
    uint32_t count = 0;
    for (uint32_t i = 1; i <= root; i++) {
        const struct verify_node *node = &values->nodes[i];
        if (!used[i])
            continue;
        tree->terms[count] =
            (struct verify_term){rename_term(values, name, node->a),
                                 rename_term(values, name, node->b), node->rounded, 0};
        name[i] = ++count;
    }
    tree->root = count;
}

static peal_status take(struct verify_tree *tree, const struct verify_values *values, uint32_t root,
                        uint8_t *used, uint32_t *name)
{
    if (!used || !name)
        return PEAL_ERR_MEMORY;
    uint32_t count = mark(values, root, used);
    PEAL_TRY(peal_grow(values->ctx, (void **)&tree->terms, &tree->capacity, count,
                       sizeof *tree->terms, UINT32_MAX / 2));
    fill(tree, values, root, used, name);
    return PEAL_OK;
}

peal_status peal_verify_tree_take(struct verify_tree *tree, const struct verify_values *values,
                                  uint32_t value)
{
    if (peal_verify_value_final(values, value))
        value = values->nodes[value].a;
    if (value & VALUE_LEAF) {
        tree->root = VALUE_LEAF | peal_verify_leaf_rank(values, value);
        return PEAL_OK;
    }
    size_t room = (size_t)value + 1;
    uint8_t *used = peal_calloc(values->ctx, room, 1);
    uint32_t *name = peal_calloc(values->ctx, room, sizeof(uint32_t));
    peal_status status = take(tree, values, value, used, name);
    peal_free(values->ctx, used, room);
    peal_free(values->ctx, name, room * sizeof(uint32_t));
    return status;
}

void peal_verify_tree_free(peal_ctx *ctx, struct verify_tree *tree)
{
    peal_free(ctx, tree->terms, tree->capacity * sizeof *tree->terms);
}

static uint64_t shape_of(const struct verify_tree *tree, uint32_t term, uint32_t first)
{
    if (term & VALUE_LEAF)
        return peal_verify_rank_shape(first + (term & ~VALUE_LEAF));
    return term == VALUE_NONE ? 0 : tree->terms[term - 1].shape;
}

uint64_t peal_verify_tree_shape(struct verify_tree *tree, uint32_t first)
{
    for (uint32_t i = 0; !(tree->root & VALUE_LEAF) && i < tree->root; i++) {
        struct verify_term *term = &tree->terms[i];
        term->shape = peal_verify_sum_shape(shape_of(tree, term->a, first),
                                            shape_of(tree, term->b, first), term->rounded);
    }
    return shape_of(tree, tree->root, first);
}
