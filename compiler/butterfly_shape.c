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
 * swing    Swing (De Sensi et al. 2024), n even: partners at ring distance 1, 1, 3, 5, 11 ... in
 *          rising order, one to the left, the next to the right; on a torus along one way after
 *          the other. What a partner collects later is the set of places it reaches in later
 *          rounds. Of a power of two these sets nest, and places are numbered along that nest.
 *          Else they overlap: each block takes one way to its place, that of the latest rounds.
 */
#include "compiler.h"

static int is_power_of_two(uint32_t n)
{
    return (n & (n - 1)) == 0;
}

/* ---- swing ---------------------------------------------------------------------------------- */

/* Swing's partner of index r among n in round k: (1 - (-2)^(k+1)) / 3 up or down. */
static uint32_t ring_partner(uint32_t n, uint32_t r, uint32_t k, int mirror)
{
    int64_t power = -2;
    for (uint32_t i = 0; i < k; i++)
        power *= -2;
    int64_t far = (1 - power) / 3;
    int64_t at = ((int64_t)r + (r % 2 == (mirror ? 0 : 1) ? -far : far)) % (int64_t)n;
    return (uint32_t)(at < 0 ? at + n : at);
}

/* Along the round's way of the torus. */
static uint32_t swing_partner(const struct butterfly *shape, uint32_t index, uint32_t k)
{
    uint32_t way = shape->way[k], size = shape->torus.size[way], stride = 1;
    for (uint32_t w = way + 1; w < shape->torus.ways; w++)
        stride *= shape->torus.size[w];
    uint32_t own = index / stride % size;
    uint32_t other = ring_partner(size, own, shape->step[k], shape->torus.mirror);
    return index - own * stride + other * stride;
}

/* By turns the ways that still have steps to go. */
static void deal_rounds(struct butterfly *shape)
{
    const struct butterfly_torus *torus = &shape->torus;
    uint32_t done[TORUS_WAYS] = {0}, way = torus->first;
    for (uint32_t k = 0; k < shape->rounds; k++) {
        while (torus->ways > 1 && 1u << done[way] >= torus->size[way])
            way = (way + 1) % torus->ways;
        shape->way[k] = way;
        shape->step[k] = done[way]++;
        way = (way + 1) % torus->ways;
    }
}

/* The index of a place: a bit for each round, set on the partner's side of the nest. */
static uint32_t index_of(const struct butterfly *shape, uint32_t place)
{
    uint32_t r = 0;
    for (uint32_t k = 0; k < shape->rounds; k++)
        if (place >> (shape->rounds - 1 - k) & 1)
            r = swing_partner(shape, r, k);
    return r;
}

/* Whoever knows where 0's block goes tells its partner of the round, who hands it over to it: from
 * the last round to the first all are told, of any even number, and each once. */
static void tell_leaves(struct butterfly *shape)
{
    uint32_t n = shape->n, *told = shape->at_ring, count = 1;
    for (uint32_t r = 0; r < n; r++)
        shape->leaves[r] = NO_RANK;
    shape->leaves[0] = shape->rounds;
    told[0] = 0;
    for (uint32_t k = shape->rounds; k-- > 0;) {
        uint32_t before = count;
        for (uint32_t i = 0; i < before; i++) {
            uint32_t other = swing_partner(shape, told[i], k);
            if (shape->leaves[other] != NO_RANK)
                continue;
            shape->leaves[other] = k;
            told[count++] = other;
        }
        shape->reach[k] = count;
    }
}

/* Powers of two along the nest, so that gifts are ranges; others first the even indices, then the
 * odd ones, for gifts are runs of each. */
static uint32_t numbered(const struct butterfly *shape, uint32_t place)
{
    uint32_t even = (shape->n + 1) / 2;
    if (!shape->leaves)
        return index_of(shape, place);
    return place < even ? 2 * place : 2 * (place - even) + 1;
}

static void number_swing(struct butterfly *shape, const uint32_t *order)
{
    for (uint32_t place = 0; place < shape->n; place++) {
        uint32_t r = numbered(shape, place);
        shape->ring[place] = r;
        shape->at_ring[r] = place;
        shape->member[place] = order[r];
    }
}

int peal_butterfly_gives(const struct butterfly *shape, uint32_t place, uint32_t k, uint32_t other)
{
    uint32_t n = shape->n, self = shape->ring[place], block = shape->ring[other];
    uint32_t behind = block % 2 ? block + n - self : self + n - block;
    return shape->leaves[behind % n] == k;
}

/* ---- all ------------------------------------------------------------------------------------ */

#define BUTTERFLY_LISTS 5u

static peal_status begin(struct butterfly *shape, peal_ctx *ctx, enum butterfly_kind kind,
                         uint32_t n)
{
    *shape = (struct butterfly){.ctx = ctx, .kind = kind, .n = n};
    shape->member = peal_calloc(ctx, BUTTERFLY_LISTS * (size_t)n, sizeof *shape->member);
    if (!shape->member)
        return PEAL_ERR_MEMORY;
    shape->place = shape->member + n;
    shape->ring = shape->place + n;
    shape->at_ring = shape->ring + n;
    for (uint32_t reach = n; reach > 1; reach = (reach + 1) / 2)
        shape->reach[shape->rounds++] = reach;
    shape->reach[shape->rounds] = 1;
    return PEAL_OK;
}

static void find_places(struct butterfly *shape)
{
    for (uint32_t place = 0; place < shape->n; place++)
        shape->place[shape->member[place]] = place;
}

peal_status peal_butterfly_make(struct butterfly *shape, peal_ctx *ctx, enum butterfly_kind kind,
                                uint32_t n, const uint32_t *order)
{
    struct butterfly_torus ring = {.ways = 1, .size = {n}};
    if (kind == BUTTERFLY_SWING)
        return peal_butterfly_swing(shape, ctx, &ring, order);
    PEAL_TRY(begin(shape, ctx, kind, n));
    for (uint32_t place = 0; place < n; place++)
        shape->member[place] = order[place];
    find_places(shape);
    return PEAL_OK;
}

peal_status peal_butterfly_swing(struct butterfly *shape, peal_ctx *ctx,
                                 const struct butterfly_torus *torus, const uint32_t *order)
{
    uint32_t n = 1;
    for (uint32_t w = 0; w < torus->ways; w++)
        n *= torus->size[w];
    PEAL_TRY(begin(shape, ctx, BUTTERFLY_SWING, n));
    shape->torus = *torus;
    deal_rounds(shape);
    if (!is_power_of_two(n)) {
        shape->leaves = shape->at_ring + n;
        tell_leaves(shape);
    }
    number_swing(shape, order);
    find_places(shape);
    return PEAL_OK;
}

void peal_butterfly_free(struct butterfly *shape)
{
    if (shape->ctx)
        peal_free(shape->ctx, shape->member,
                  BUTTERFLY_LISTS * (size_t)shape->n * sizeof *shape->member);
}

int peal_butterfly_possible(enum butterfly_kind kind, uint32_t n)
{
    if (n < 2 || kind == BUTTERFLY_CIRCULANT)
        return n >= 2;
    return kind == BUTTERFLY_SWING ? n % 2 == 0 : is_power_of_two(n);
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
                   ? shape->at_ring[swing_partner(shape, shape->ring[place], k)]
                   : place ^ half;
    round.from = round.to;
    if (shape->leaves)
        return round;
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
