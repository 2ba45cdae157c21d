/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions over contributions. Equal expressions, up to commutativity of each addition, have
 * equal numbers (hash consing), so that ranks can be compared bit for bit. Where a sum is rounded
 * is part of it: float16 accumulates in float32 within a step and rounds when stored. */
#include "verify.h"

#include <string.h>

#define NODES_MAX 0x40000000u
#define VALUE_ROUNDED 1u                     /* above it: packed, */
#define VALUE_UNORDERED (VALUE_ROUNDED + 8u) /* or, from here on, folded in an order of its own */

static int packed(uint32_t rounded)
{
    return rounded > VALUE_ROUNDED && rounded < VALUE_UNORDERED;
}

peal_status peal_verify_values_init(struct verify_values *values, peal_ctx *ctx, uint32_t nranks,
                                    uint32_t cells)
{
    memset(values, 0, sizeof *values);
    values->ctx = ctx;
    values->nranks = nranks;
    values->cells = cells;
    values->words = (nranks + 63) / 64;
    values->bucket_count = 1024;
    values->buckets = peal_calloc(ctx, values->bucket_count, sizeof(uint32_t));
    values->count = 1; /* number 0 is VALUE_NONE */
    peal_status status = values->buckets ? PEAL_OK : PEAL_ERR_MEMORY;
    if (status == PEAL_OK)
        status = peal_grow(ctx, (void **)&values->nodes, &values->capacity, 1,
                           sizeof *values->nodes, NODES_MAX);
    if (status == PEAL_OK)
        memset(&values->nodes[0], 0, sizeof values->nodes[0]);
    return status;
}

void peal_verify_values_free(struct verify_values *values)
{
    peal_free(values->ctx, values->nodes, values->capacity * sizeof *values->nodes);
    peal_free(values->ctx, values->sets,
              (size_t)values->sets_capacity * values->words * sizeof(uint64_t));
    peal_free(values->ctx, values->buckets, values->bucket_count * sizeof(uint32_t));
}

uint32_t peal_verify_leaf(const struct verify_values *values, uint32_t call, uint32_t rank,
                          uint32_t cell)
{
    return VALUE_LEAF | ((call * values->nranks + rank) * values->cells + cell);
}

uint32_t peal_verify_value_cell(const struct verify_values *values, uint32_t value)
{
    return value & VALUE_LEAF ? (value & ~VALUE_LEAF) % values->cells : values->nodes[value].cell;
}

uint32_t peal_verify_leaf_rank(const struct verify_values *values, uint32_t leaf)
{
    return (leaf & ~VALUE_LEAF) / values->cells % values->nranks;
}

uint32_t peal_verify_value_call(const struct verify_values *values, uint32_t value)
{
    while (!(value & VALUE_LEAF))
        value = values->nodes[value].a;
    return (value & ~VALUE_LEAF) / values->cells / values->nranks;
}

uint32_t peal_verify_value_ranks(const struct verify_values *values, uint32_t value)
{
    return value & VALUE_LEAF ? 1 : values->nodes[value].ranks;
}

static uint64_t mix(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t words[3] = {a, b, c};
    unsigned char bytes[sizeof words];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(words[i / 8] >> i % 8 * 8);
    return peal_hash64(bytes, sizeof bytes) | 2; /* neither none nor VERIFY_SHAPES_DIFFER */
}

uint64_t peal_verify_rank_shape(uint32_t rank)
{
    return mix(rank, 0, 0);
}

uint64_t peal_verify_sum_shape(uint64_t a, uint64_t b, uint32_t rounded)
{
    return a < b ? mix(a, b, 1 + rounded) : mix(b, a, 1 + rounded);
}

uint64_t peal_verify_value_shape(const struct verify_values *values, uint32_t value)
{
    if (!(value & VALUE_LEAF))
        return values->nodes[value].shape;
    uint32_t rank = peal_verify_leaf_rank(values, value);
    return values->leaf_shape ? values->leaf_shape[rank] : peal_verify_rank_shape(rank);
}

static uint64_t shape_of(const struct verify_values *values, uint32_t a, uint32_t b,
                         uint32_t rounded)
{
    return peal_verify_sum_shape(peal_verify_value_shape(values, a),
                                 b == VALUE_NONE ? 0 : peal_verify_value_shape(values, b), rounded);
}

int peal_verify_value_final(const struct verify_values *values, uint32_t value)
{
    return !(value & VALUE_LEAF) && value != VALUE_NONE && values->nodes[value].final;
}

uint32_t peal_verify_value_wires(const struct verify_values *values, uint32_t value)
{
    return value & VALUE_LEAF ? 0 : values->nodes[value].wires;
}

int peal_verify_value_blocked(const struct verify_values *values, uint32_t value)
{
    return !(value & VALUE_LEAF) && values->nodes[value].blocked;
}

uint32_t peal_verify_value_unpacked(const struct verify_values *values, uint32_t value)
{
    while (!(value & VALUE_LEAF) && packed(values->nodes[value].rounded))
        value = values->nodes[value].a;
    return value;
}

static const uint64_t *set_of(const struct verify_values *values, uint32_t node)
{
    return values->sets + (size_t)node * values->words;
}

int peal_verify_value_has(const struct verify_values *values, uint32_t value, uint32_t rank)
{
    if (value & VALUE_LEAF)
        return peal_verify_leaf_rank(values, value) == rank;
    return (int)(set_of(values, value)[rank / 64] >> (rank % 64) & 1);
}

static uint32_t common_rank(const struct verify_values *values, uint32_t a, uint32_t b)
{
    if (a & VALUE_LEAF) {
        uint32_t rank = peal_verify_leaf_rank(values, a);
        return peal_verify_value_has(values, b, rank) ? rank : values->nranks;
    }
    if (b & VALUE_LEAF)
        return common_rank(values, b, a);
    const uint64_t *x = set_of(values, a), *y = set_of(values, b);
    for (uint32_t i = 0; i < values->words; i++)
        for (uint32_t bit = 0; (x[i] & y[i]) && bit < 64; bit++)
            if (x[i] & y[i] & (1ull << bit))
                return i * 64 + bit;
    return values->nranks;
}

static uint32_t bucket_of(const struct verify_values *values, uint32_t a, uint32_t b,
                          uint32_t rounded)
{
    uint64_t h = (((uint64_t)a << 32 | b) + rounded) * 0x9E3779B97F4A7C15ull;
    return (uint32_t)(h >> 33) & (values->bucket_count - 1);
}

static peal_status rehash(struct verify_values *values)
{
    uint32_t count = values->bucket_count * 2;
    uint32_t *buckets = peal_calloc(values->ctx, count, sizeof(uint32_t));
    if (!buckets)
        return PEAL_ERR_MEMORY;
    peal_free(values->ctx, values->buckets, values->bucket_count * sizeof(uint32_t));
    values->buckets = buckets;
    values->bucket_count = count;
    for (uint32_t i = 1; i < values->count; i++) {
        const struct verify_node *node = &values->nodes[i];
        uint32_t slot = bucket_of(values, node->a, node->b, node->rounded);
        while (buckets[slot])
            slot = (slot + 1) & (count - 1);
        buckets[slot] = i;
    }
    return PEAL_OK;
}

static void set_add(const struct verify_values *values, uint64_t *set, uint32_t value)
{
    if (value & VALUE_LEAF) {
        uint32_t rank = peal_verify_leaf_rank(values, value);
        set[rank / 64] |= 1ull << (rank % 64);
        return;
    }
    for (uint32_t i = 0; i < values->words; i++)
        set[i] |= set_of(values, value)[i];
}

static peal_status grow_node(struct verify_values *values)
{
    PEAL_TRY(peal_grow(values->ctx, (void **)&values->nodes, &values->capacity,
                       (size_t)values->count + 1, sizeof *values->nodes, NODES_MAX));
    return peal_grow(values->ctx, (void **)&values->sets, &values->sets_capacity,
                     (size_t)values->count + 1, values->words * sizeof(uint64_t), NODES_MAX);
}

/* What a node has of the terms it is made of. */
static void note_roundings(const struct verify_values *values, struct verify_node *node)
{
    int packs = packed(node->rounded), alone = node->b == VALUE_NONE;
    int unordered = node->rounded >= VALUE_UNORDERED;
    uint32_t a = peal_verify_value_wires(values, node->a);
    uint32_t b = alone ? 0 : peal_verify_value_wires(values, node->b);
    node->wires = (a > b ? a : b) + (packs ? 1 : 0);
    node->final = alone && !unordered && (!packs || peal_verify_value_final(values, node->a));
    node->blocked = unordered || node->rounded == VALUE_ROUNDED + PLAN_WIRE_FP8 ||
                    peal_verify_value_blocked(values, node->a) ||
                    (!alone && peal_verify_value_blocked(values, node->b));
}

/* The number of expression (a, b), made when it is new. */
static peal_status intern(struct verify_values *values, uint32_t a, uint32_t b, uint32_t rounded,
                          uint32_t *number)
{
    uint32_t slot = bucket_of(values, a, b, rounded);
    for (; values->buckets[slot]; slot = (slot + 1) & (values->bucket_count - 1)) {
        const struct verify_node *node = &values->nodes[values->buckets[slot]];
        if (node->a == a && node->b == b && node->rounded == rounded) {
            *number = values->buckets[slot];
            return PEAL_OK;
        }
    }
    PEAL_TRY(grow_node(values));
    uint32_t at = values->count++;
    uint64_t *set = values->sets + (size_t)at * values->words;
    memset(set, 0, values->words * sizeof(uint64_t));
    set_add(values, set, a);
    if (b != VALUE_NONE)
        set_add(values, set, b);
    uint32_t ranks = peal_verify_value_ranks(values, a) +
                     (b == VALUE_NONE ? 0 : peal_verify_value_ranks(values, b));
    struct verify_node node = {.a = a,
                               .b = b,
                               .cell = peal_verify_value_cell(values, a),
                               .ranks = ranks,
                               .rounded = rounded,
                               .shape = shape_of(values, a, b, rounded)};
    note_roundings(values, &node);
    values->nodes[at] = node;
    values->buckets[slot] = at;
    *number = at;
    return values->count * 2 > values->bucket_count ? rehash(values) : PEAL_OK;
}

peal_status peal_verify_value_add(struct verify_values *values, uint32_t a, uint32_t b, int rounded,
                                  uint32_t *sum, uint32_t *twice)
{
    *twice = common_rank(values, a, b);
    return a < b ? intern(values, a, b, rounded != 0, sum)
                 : intern(values, b, a, rounded != 0, sum);
}

peal_status peal_verify_value_finish(struct verify_values *values, uint32_t a, uint32_t *final)
{
    return intern(values, a, VALUE_NONE, VALUE_ROUNDED, final);
}

peal_status peal_verify_value_unorder(struct verify_values *values, uint32_t a, uint32_t serial,
                                      uint32_t *sum)
{
    if (serial >= UINT32_MAX - VALUE_UNORDERED)
        return PEAL_ERR_LIMIT;
    return intern(values, a, VALUE_NONE, VALUE_UNORDERED + serial, sum);
}

peal_status peal_verify_value_pack(struct verify_values *values, uint32_t a, uint8_t wire,
                                   uint32_t *packed)
{
    return intern(values, a, VALUE_NONE, VALUE_ROUNDED + wire, packed);
}
