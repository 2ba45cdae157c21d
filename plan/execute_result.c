/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank holds when it returns from a call. */
#include "execute.h"

/* Whether all elements are added up in one order. */
static peal_status note_shape(struct machine *m, uint32_t value)
{
    struct verify_tree *tree = m->run->orders ? m->run->orders->tree : NULL;
    uint64_t shape = peal_verify_value_blocked(&m->values, value)
                         ? VERIFY_SHAPES_DIFFER
                         : peal_verify_value_shape(&m->values, value);
    if (!m->run->shape)
        m->run->shape = shape;
    else if (m->run->shape != shape)
        m->run->shape = VERIFY_SHAPES_DIFFER;
    return tree && tree->root == VALUE_NONE ? peal_verify_tree_take(tree, &m->values, value)
                                            : PEAL_OK;
}

static void note_wires(struct machine *m, uint32_t value)
{
    uint32_t wires = peal_verify_value_wires(&m->values, value);
    if (wires > m->run->wires)
        m->run->wires = wires;
}

static peal_status check_reduced(struct machine *m, uint32_t rank, uint32_t t, uint32_t value)
{
    uint32_t call = m->ranks[rank].call;
    uint32_t *expected = &m->expected[(size_t)call * m->tiles + t];
    uint32_t chunk = m->chunk[t / m->trips], tile = t % m->trips;
    int final =
        value != VALUE_NONE && (m->plan->nranks == 1 || peal_verify_value_final(&m->values, value));
    if (!final)
        peal_verify_find(m->out, "result", rank, -1, -1, "out[%u] tile %u %s", chunk, tile,
                         value == VALUE_NONE ? "is never written"
                                             : "holds a value that was never made final");
    else if (peal_verify_value_cell(&m->values, value) != t ||
             peal_verify_value_call(&m->values, value) != call)
        peal_verify_find(m->out, "result", rank, -1, -1,
                         "out[%u] tile %u holds another tile, or one of an earlier call", chunk,
                         tile);
    else if (*expected != VALUE_NONE && *expected != value)
        peal_verify_find(m->out, "numbers", rank, -1, -1,
                         "out[%u] tile %u is added up in another order than on another rank", chunk,
                         tile);
    if (!final || *expected != VALUE_NONE)
        return PEAL_OK;
    *expected = value;
    note_wires(m, value);
    return note_shape(m, value);
}

/* One rank's input, unchanged, or rounded alike on all ranks that get it. */
static void check_moved(struct machine *m, uint32_t rank, uint32_t t, uint32_t value)
{
    uint32_t call = m->ranks[rank].call;
    uint32_t chunk = m->chunk[t / m->trips];
    uint32_t origin = peal_plan_origin(m->plan, chunk);
    uint32_t *expected = &m->expected[(size_t)call * m->tiles + t];
    int whole = value != VALUE_NONE && peal_verify_value_unpacked(&m->values, value) ==
                                           peal_verify_leaf(&m->values, call, origin, t);
    if (whole && *expected != VALUE_NONE && *expected != value)
        peal_verify_find(m->out, "numbers", rank, -1, -1,
                         "out[%u] tile %u is rounded otherwise than on another rank", chunk,
                         t % m->trips);
    if (whole) {
        *expected = value;
        note_wires(m, value);
    } else
        peal_verify_find(m->out, "result", rank, -1, -1,
                         "out[%u] tile %u %s, not the input of rank %u", chunk, t % m->trips,
                         value == VALUE_NONE ? "is never written" : "holds something else", origin);
}

peal_status peal_execute_check_result(struct machine *m, uint32_t rank)
{
    const struct held_cells *held = &m->held[2 * rank + 1];
    for (uint32_t i = 0; i < held->held.blocks; i++) {
        uint32_t block = peal_execute_held_block(held, i);
        for (uint32_t t = m->of_block[block] * m->trips; t < m->of_block[block + 1] * m->trips;
             t++) {
            uint32_t value =
                peal_execute_user_cell(m, rank, PLAN_BUF_OUT, m->chunk[t / m->trips], t % m->trips)
                    ->value;
            if (peal_plan_adds(m->plan, m->chunk[t / m->trips]))
                PEAL_TRY(check_reduced(m, rank, t, value));
            else
                check_moved(m, rank, t, value);
        }
    }
    return PEAL_OK;
}
