/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One tree of an allreduce: partial sums climb in one lane, results descend in another, so that
 * a rank passes one tile up while it passes an earlier one down. A result may be stored straight
 * into a child's output: the child's partial sum has come up before, so the child has entered the
 * call and its own input of the tile is read.
 */
#include "compiler.h"

#define SEM_UP 0u
#define SEM_CREDIT 1u
#define SEM_DOWN 2u

struct place {
    uint32_t parent; /* ranks; NO_RANK */
    uint32_t parent_slot;
    uint32_t child[TREE_CHILDREN];
    uint32_t children;
};

static uint32_t rank_of(const struct tree_part *part, uint32_t position)
{
    return position == NO_RANK ? NO_RANK : peal_member(part->members, part->of, position);
}

static struct tree_place tree_place(const struct tree_part *part, uint32_t position)
{
    return peal_chained_place(part->n, part->chain ? part->chain : 1, part->tree, position);
}

static struct place place_of(const struct tree_part *part)
{
    struct tree_place tree = tree_place(part, part->self);
    struct place place = {.parent = rank_of(part, tree.parent)};
    for (uint32_t i = 0; i < TREE_CHILDREN; i++)
        if (tree.child[i] != NO_RANK)
            place.child[place.children++] = rank_of(part, tree.child[i]);
    if (tree.parent == NO_RANK)
        return place;
    /* The parent's slots are numbered like its children, without gaps. */
    struct tree_place above = tree_place(part, tree.parent);
    for (uint32_t i = 0; above.child[i] != part->self; i++)
        place.parent_slot += above.child[i] != NO_RANK;
    return place;
}

/* Stores the current tile of `out` to the children, behind which each is told. */
static void descend(struct build *b, const struct tree_part *part, const struct place *place,
                    uint32_t chunk)
{
    struct plan_operand own = peal_op_user(b->self, PLAN_BUF_OUT, chunk);
    for (uint32_t i = 0; i < place->children; i++)
        peal_build_push(b, chunk, own, peal_op_user(place->child[i], PLAN_BUF_OUT, chunk),
                        part->sem0 + SEM_DOWN);
}

/* The root's fold, into its own output and, where stores reach them, its children's. */
static void fold_root(struct build *b, const struct tree_part *part, const struct place *place,
                      uint32_t chunk, const struct plan_operand *src)
{
    struct plan_operand dst[1 + TREE_CHILDREN] = {peal_op_user(b->self, PLAN_BUF_OUT, chunk)};
    int direct = 1;
    for (uint32_t i = 0; i < place->children; i++) {
        struct hop hop;
        peal_planner_hop(b->planner, b->self, place->child[i], &hop);
        direct = direct && hop.engine == PEAL_ENGINE_SM;
        dst[1 + i] = peal_op_user(place->child[i], PLAN_BUF_OUT, chunk);
    }
    peal_build_move(b, chunk, 1 + place->children, src, direct ? 1 + place->children : 1, dst,
                    PEAL_ENGINE_SM, 1);
    if (!direct)
        descend(b, part, place, chunk);
    for (uint32_t i = 0; direct && i < place->children; i++)
        peal_build_signal(b, place->child[i], part->sem0 + SEM_DOWN);
}

static uint32_t pieces_of(const struct tree_part *part)
{
    return part->pieces ? part->pieces : 1;
}

static void fold_inner(struct build *b, const struct tree_part *part, const struct place *place,
                       uint32_t piece, const struct plan_operand *src)
{
    uint32_t chunk = part->chunk + piece;
    struct plan_operand slot = peal_op_slot(place->parent, PLAN_BUF_SCRATCH, part->region,
                                            piece * part->width + place->parent_slot);
    struct plan_operand own = peal_op_user(b->self, PLAN_BUF_OUT, chunk);
    if (part->credits)
        peal_build_wait(b, place->parent, part->sem0 + SEM_CREDIT, part->depth * pieces_of(part));
    if (place->children == 0) {
        peal_build_push(b, chunk, src[0], slot, part->sem0 + SEM_UP);
    } else if (peal_build_direct(b, place->parent)) {
        peal_build_move(b, chunk, 1 + place->children, src, 1, &slot, PEAL_ENGINE_SM, 0);
        peal_build_signal(b, place->parent, part->sem0 + SEM_UP);
    } else {
        peal_build_move(b, chunk, 1 + place->children, src, 1, &own, PEAL_ENGINE_SM, 0);
        peal_build_push(b, chunk, own, slot, part->sem0 + SEM_UP);
    }
}

static void up_piece(struct build *b, const struct tree_part *part, const struct place *place,
                     uint32_t piece)
{
    uint32_t chunk = part->chunk + piece;
    struct plan_operand src[1 + TREE_CHILDREN] = {peal_op_user(b->self, part->in_buffer, chunk)};
    for (uint32_t i = 0; i < place->children; i++) {
        peal_build_wait(b, place->child[i], part->sem0 + SEM_UP, 0);
        src[1 + i] = peal_op_slot(b->self, PLAN_BUF_SCRATCH, part->region, piece * part->width + i);
    }
    if (place->parent == NO_RANK)
        fold_root(b, part, place, chunk, src);
    else
        fold_inner(b, part, place, piece, src);
    for (uint32_t i = 0; part->credits && i < place->children; i++)
        peal_build_signal(b, place->child[i], part->sem0 + SEM_CREDIT);
}

static void up_lane(struct build *b, const struct tree_part *part, const struct place *place)
{
    peal_build_lane(b);
    peal_build_section(b, 1);
    if (part->before != NO_RANK)
        peal_build_wait(b, b->self, part->before, 0);
    for (uint32_t i = 0; i < pieces_of(part); i++)
        up_piece(b, part, place, i);
    if (place->parent == NO_RANK && part->after != NO_RANK)
        peal_build_signal(b, b->self, part->after);
    peal_build_drain(b);
}

static void down_lane(struct build *b, const struct tree_part *part, const struct place *place)
{
    peal_build_lane(b);
    peal_build_section(b, 1);
    for (uint32_t i = 0; i < pieces_of(part); i++) {
        peal_build_wait(b, place->parent, part->sem0 + SEM_DOWN, 0);
        descend(b, part, place, part->chunk + i);
    }
    if (part->after != NO_RANK)
        peal_build_signal(b, b->self, part->after);
    peal_build_drain(b);
}

void peal_tree_lanes(struct build *b, const struct tree_part *part)
{
    struct place place = place_of(part);
    if (pieces_of(part) > 1)
        b->in_flight = BURST_EVENTS; /* a transfer to each child for each piece */
    up_lane(b, part, &place);
    if (place.parent != NO_RANK)
        down_lane(b, part, &place);
}
