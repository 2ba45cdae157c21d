/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Butterflies: who hands what to whom so that after ceil(log2 n) rounds each place has collected
 * its own block from all others, every round about half as much as the one before, (n - 1) / n of
 * the message altogether. Places are numbered so that what is handed over in a round is a range.
 *
 * halving  recursive halving, n a power of two: in round k with half = n / 2^(k+1), place p and
 *          p xor half swap the halves of their common range.
 * circulant  for any n (Traeff 2023): the rounds' skips are n halved again and again, rounded up.
 *          Place p hands the blocks [p + skip, p + last skip) to p + skip. No rank is left over
 *          that would have to fold in first, and no byte travels more than with a power of two.
 * swing    Swing (De Sensi et al. 2024), n a power of two: partners at ring distance
 *          1, 1, 3, 5, 11 ... in rising order, one to the left, the next to the right. What a
 *          partner collects later is the set of places it reaches in later rounds; these sets
 *          nest, and places are numbered along that nest.
 */
#include "compiler.h"

static int is_power_of_two(uint32_t n)
{
    return (n & (n - 1)) == 0;
}

/* Swing's partner of ring index r in round k: (1 - (-2)^(k+1)) / 3 to the right or left. */
static uint32_t swing_partner(uint32_t n, uint32_t r, uint32_t k)
{
    int64_t power = -2;
    for (uint32_t i = 0; i < k; i++)
        power *= -2;
    int64_t far = (1 - power) / 3;
    int64_t at = ((int64_t)r + (r % 2 ? -far : far)) % (int64_t)n;
    return (uint32_t)(at < 0 ? at + n : at);
}

/* The ring index of a place: a bit for each round, set on the partner's side of the nest. */
static uint32_t swing_ring_index(const struct butterfly *shape, uint32_t place)
{
    uint32_t r = 0;
    for (uint32_t k = 0; k < shape->rounds; k++)
        if (place >> (shape->rounds - 1 - k) & 1)
            r = swing_partner(shape->n, r, k);
    return r;
}

static void number_swing(struct butterfly *shape, const uint32_t *order)
{
    for (uint32_t place = 0; place < shape->n; place++) {
        uint32_t r = swing_ring_index(shape, place);
        shape->ring[place] = r;
        shape->at_ring[r] = place;
        shape->member[place] = order[r];
    }
}

peal_status peal_butterfly_make(struct butterfly *shape, peal_ctx *ctx, enum butterfly_kind kind,
                                uint32_t n, const uint32_t *order)
{
    *shape = (struct butterfly){.ctx = ctx, .kind = kind, .n = n};
    shape->member = peal_calloc(ctx, 4 * (size_t)n, sizeof *shape->member);
    if (!shape->member)
        return PEAL_ERR_MEMORY;
    shape->place = shape->member + n;
    shape->ring = shape->place + n;
    shape->at_ring = shape->ring + n;
    for (uint32_t reach = n; reach > 1; reach = (reach + 1) / 2)
        shape->reach[shape->rounds++] = reach;
    shape->reach[shape->rounds] = 1;
    if (kind == BUTTERFLY_SWING)
        number_swing(shape, order);
    for (uint32_t place = 0; place < n; place++) {
        if (kind != BUTTERFLY_SWING)
            shape->member[place] = order[place];
        shape->place[shape->member[place]] = place;
    }
    return PEAL_OK;
}

void peal_butterfly_free(struct butterfly *shape)
{
    if (shape->ctx)
        peal_free(shape->ctx, shape->member, 4 * (size_t)shape->n * sizeof *shape->member);
}

int peal_butterfly_possible(enum butterfly_kind kind, uint32_t n)
{
    return n >= 2 && (kind == BUTTERFLY_CIRCULANT || is_power_of_two(n));
}

struct butterfly_round peal_butterfly_round(const struct butterfly *shape, uint32_t place,
                                            uint32_t k)
{
    uint32_t n = shape->n, reach = shape->reach[k], half = shape->reach[k + 1];
    struct butterfly_round round = {.count = reach - half};
    if (shape->kind == BUTTERFLY_CIRCULANT) {
        round.to = (place + half) % n;
        round.from = (place + n - half) % n;
        round.give = round.to;
        round.keep = place;
        return round;
    }
    round.to = shape->kind == BUTTERFLY_SWING
                   ? shape->at_ring[swing_partner(n, shape->ring[place], k)]
                   : place ^ half;
    round.from = round.to;
    round.give = round.to & ~(half - 1);
    round.keep = place & ~(half - 1);
    return round;
}

/* ---- from a root to all places by halves: the tree whose branches the allgather goes, too */

/* Places seen from the root, so that a place `half` beyond the one it gets its part from is the
 * one that place writes to in an allgather. Applied twice it leads back. */
static uint32_t seen_from(const struct butterfly *shape, uint32_t root, uint32_t place)
{
    if (shape->kind == BUTTERFLY_CIRCULANT)
        return (root + shape->n - place) % shape->n;
    return root ^ place;
}

/* The places that are seen at `count` places from `at` on are a range, too. */
static uint32_t range_of(const struct butterfly *shape, uint32_t root, uint32_t at, uint32_t count)
{
    if (shape->kind == BUTTERFLY_CIRCULANT)
        return seen_from(shape, root, at + count - 1);
    return seen_from(shape, root, at) & ~(count - 1);
}

struct butterfly_branch peal_butterfly_branch(const struct butterfly *shape, uint32_t root,
                                              uint32_t place)
{
    uint32_t at = seen_from(shape, root, place), start = 0, count = shape->n;
    struct butterfly_branch branch = {.from = NO_RANK, .count = count};
    for (uint32_t k = 0; k < shape->rounds; k++) {
        uint32_t half = shape->reach[k + 1];
        if (at - start >= half) {
            branch.from = seen_from(shape, root, start);
            branch.next = k + 1;
            start += half;
            branch.count = count -= half;
        } else if (count > half) {
            count = half;
        }
    }
    branch.first = range_of(shape, root, at, branch.count);
    return branch;
}

int peal_butterfly_hand_on(const struct butterfly *shape, uint32_t root, uint32_t place, uint32_t k,
                           struct butterfly_branch *branch, struct butterfly_round *round)
{
    uint32_t half = shape->reach[k + 1], at = seen_from(shape, root, place);
    if (branch->count <= half)
        return 0;
    *round = (struct butterfly_round){.to = seen_from(shape, root, at + half),
                                      .count = branch->count - half};
    round->give = range_of(shape, root, at + half, round->count);
    branch->count = half;
    return 1;
}
