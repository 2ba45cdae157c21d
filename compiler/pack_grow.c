/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spanning trees in a network without switches, of all roots at once (Edmonds 1973; many equal
 * ones at a time, Bérczi and Frank 2010). While trees are unfinished, some link can be added to
 * some of them; a link that cannot be added to a batch now cannot be later either.
 *
 * For short trees all batches grow level by level together, so that none takes every short way.
 * In a level, links come first that all trees of a batch can take, then those that only part of
 * them can, which cuts the batch; wide links before narrow ones, which others need more.
 */
#include "pack.h"

#include <string.h>

/* Who goes next in a level: which is better depends on the network, so both are tried. */
enum order { BY_BATCH, BY_LINK };

struct grow {
    struct pack_net *net;
    struct pack_batches *batches;
    enum order order;
    uint32_t n;
    struct pack_ask ask;
    size_t nwords;
    uint32_t *words; /* the arrays that follow */
    uint32_t *first; /* links out of x: from[first[x]..first[x + 1]) */
    uint32_t *from;
    uint32_t *list; /* candidates of the batch at hand */
    uint32_t *sorted;
    int took;
};

/* ---- batches ----------------------------------------------------------------------------- */

void peal_pack_batches_free(struct pack_batches *batches, peal_ctx *ctx)
{
    for (uint32_t i = 0; i < batches->count; i++)
        peal_free(ctx, batches->batch[i].order, batches->words * sizeof(uint32_t));
    peal_free(ctx, batches->batch, batches->room * sizeof *batches->batch);
    *batches = (struct pack_batches){0};
}

static peal_status new_batch(struct grow *grow, uint32_t *index)
{
    struct pack_batches *batches = grow->batches;
    size_t n = grow->n;
    PEAL_TRY(peal_grow(grow->net->ctx, (void **)&batches->batch, &batches->room,
                       (size_t)batches->count + 1, sizeof *batches->batch, PACK_TREES_MAX));
    uint32_t *block = peal_calloc(grow->net->ctx, batches->words, sizeof *block);
    if (!block)
        return PEAL_ERR_MEMORY;
    *index = batches->count++;
    batches->batch[*index] = (struct pack_batch){.order = block,
                                                 .parent = block + n,
                                                 .link = block + 2 * n,
                                                 .depth = block + 3 * n,
                                                 .dead = block + 4 * n};
    return PEAL_OK;
}

static peal_status plant(struct grow *grow, uint32_t root, uint64_t mult)
{
    uint32_t i;
    PEAL_TRY(new_batch(grow, &i));
    struct pack_batch *batch = &grow->batches->batch[i];
    batch->root = root;
    batch->mult = mult;
    batch->size = 1;
    batch->order[0] = root;
    memset(batch->depth, 0xff, grow->n * sizeof *batch->depth);
    batch->depth[root] = 0;
    return PEAL_OK;
}

static uint32_t depth_of(const struct grow *grow, const struct pack_batch *batch)
{
    return batch->depth[batch->order[grow->n - 1]];
}

/* ---- taking a link -------------------------------------------------------------------------- */

/* All but `mult` of a batch's trees go on as a batch of their own. */
static peal_status part(struct grow *grow, uint32_t i, uint64_t mult)
{
    uint32_t rest;
    PEAL_TRY(new_batch(grow, &rest));
    struct pack_batch *from = &grow->batches->batch[i];
    struct pack_batch *to = &grow->batches->batch[rest];
    memcpy(to->order, from->order, grow->batches->words * sizeof *to->order);
    to->root = from->root;
    to->size = from->size;
    to->mult = from->mult - mult;
    from->mult = mult;
    return peal_pack_ask_add(&grow->ask, rest);
}

static peal_status take(struct grow *grow, uint32_t i, uint32_t link, uint64_t trees)
{
    struct pack_link *l = &grow->net->links[link];
    if (trees < grow->batches->batch[i].mult)
        PEAL_TRY(part(grow, i, trees));
    struct pack_batch *batch = &grow->batches->batch[i];
    l->units -= trees;
    batch->order[batch->size] = l->to;
    batch->parent[batch->size] = l->from;
    batch->link[batch->size] = link;
    batch->depth[l->to] = batch->depth[l->from] + 1;
    batch->size++;
    grow->took = 1;
    return peal_pack_ask_took(&grow->ask, i, link);
}

/* Can the batch still use the link, as far as is known? */
static int is_open(const struct grow *grow, const struct pack_batch *batch, uint32_t link)
{
    return batch->depth[grow->net->links[link].to] == PACK_NONE && grow->net->links[link].units &&
           !(batch->dead[link / 32] >> link % 32 & 1);
}

/* Adds the link to the trees of batch i, if it can be added to all of them, or some will do. */
static peal_status try_link(struct grow *grow, uint32_t i, uint32_t link, int some)
{
    struct pack_batch *batch = &grow->batches->batch[i];
    uint64_t trees;
    if (!is_open(grow, batch, link) || (!some && grow->net->links[link].units < batch->mult))
        return PEAL_OK;
    PEAL_TRY(peal_pack_ask(&grow->ask, i, link, &trees));
    if (!trees)
        batch->dead[link / 32] |= 1u << link % 32;
    if (!trees || (!some && trees < batch->mult))
        return PEAL_OK;
    return take(grow, i, link, trees);
}

/* ---- candidates -------------------------------------------------------------------------------
 */

/* Merges two sorted runs of the list; wide links first, else in the order they are in. */
static void merge(const struct grow *grow, const uint32_t *in, uint32_t *out, uint32_t first,
                  uint32_t middle, uint32_t last)
{
    const struct pack_link *links = grow->net->links;
    uint32_t left = first;
    uint32_t right = middle;
    for (uint32_t i = first; i < last; i++) {
        int take_left =
            right == last || (left < middle && links[in[left]].units >= links[in[right]].units);
        out[i] = take_left ? in[left++] : in[right++];
    }
}

static void sort_list(struct grow *grow, uint32_t count)
{
    for (uint32_t run = 1; run < count; run *= 2) {
        for (uint32_t first = 0; first < count; first += 2 * run) {
            uint32_t middle = count - first < run ? count : first + run;
            uint32_t last = count - middle < run ? count : middle + run;
            merge(grow, grow->list, grow->sorted, first, middle, last);
        }
        uint32_t *swap = grow->list;
        grow->list = grow->sorted;
        grow->sorted = swap;
    }
}

/* The links that leave nodes of one depth. */
static uint32_t list_links(struct grow *grow, uint32_t i, uint32_t depth)
{
    const struct pack_batch *batch = &grow->batches->batch[i];
    uint32_t count = 0;
    for (uint32_t j = 0; j < batch->size; j++) {
        uint32_t x = batch->order[j];
        if (batch->depth[x] != depth)
            continue;
        for (uint32_t k = grow->first[x]; k < grow->first[x + 1]; k++)
            if (is_open(grow, batch, grow->from[k]))
                grow->list[count++] = grow->from[k];
    }
    sort_list(grow, count);
    return count;
}

/* ---- growing ------------------------------------------------------------------------------------
 */

/* What batch i can add below its nodes of one depth: one link, or all. */
static peal_status grow_batch(struct grow *grow, uint32_t i, uint32_t depth, int some)
{
    uint32_t size = grow->batches->batch[i].size;
    uint32_t enough = grow->order == BY_BATCH ? grow->n : size + 1;
    if (size == grow->n)
        return PEAL_OK;
    uint32_t count = list_links(grow, i, depth);
    for (uint32_t j = 0; j < count && grow->batches->batch[i].size < enough; j++)
        PEAL_TRY(try_link(grow, i, grow->list[j], some));
    return PEAL_OK;
}

static peal_status grow_level(struct grow *grow, uint32_t depth, int some)
{
    do {
        grow->took = 0;
        for (uint32_t i = 0; i < grow->batches->count; i++)
            PEAL_TRY(grow_batch(grow, i, depth, some));
    } while (grow->took && grow->order == BY_LINK);
    return PEAL_OK;
}

static int all_finished(const struct grow *grow)
{
    for (uint32_t i = 0; i < grow->batches->count; i++)
        if (grow->batches->batch[i].size < grow->n)
            return 0;
    return 1;
}

static peal_status grow_all(struct grow *grow, const struct pack_rate *rate)
{
    for (uint32_t v = 0; v < grow->n; v++)
        if (rate->root == PACK_EVERY_ROOT || rate->root == v)
            PEAL_TRY(plant(grow, v, rate->trees));
    PEAL_TRY(peal_pack_ask_build(&grow->ask));
    for (uint32_t depth = 0; !all_finished(grow); depth++) {
        if (depth == grow->n)
            return PEAL_ERR_INTERNAL; /* cannot be, if every node is fed */
        PEAL_TRY(grow_level(grow, depth, 0));
        PEAL_TRY(grow_level(grow, depth, 1));
    }
    return PEAL_OK;
}

/* ---- twice, for the shorter trees
 * ------------------------------------------------------------------ */

/* Links by their tail; those of x begin with the nodes after x, so that roots spread. */
static void index_links(struct grow *grow)
{
    const struct pack_net *net = grow->net;
    uint32_t n = grow->n;
    for (uint32_t i = 0; i < net->nlinks; i++)
        if (net->links[i].units)
            grow->first[net->links[i].from + 1]++;
    for (uint32_t x = 0; x < n; x++)
        grow->first[x + 1] += grow->first[x];
    for (uint32_t i = 0; i < net->nlinks; i++) {
        const struct pack_link *link = &net->links[i];
        uint32_t x = link->from;
        if (!link->units)
            continue;
        uint32_t k = grow->first[x] + grow->list[x]++;
        for (; k > grow->first[x]; k--) {
            uint32_t before = net->links[grow->from[k - 1]].to;
            if ((before + n - x) % n < (link->to + n - x) % n)
                break;
            grow->from[k] = grow->from[k - 1];
        }
        grow->from[k] = i;
    }
}

/* How far the farthest node is from a root, over links alone: no tree is less deep. */
static uint32_t reach_of(struct grow *grow, uint32_t root)
{
    uint32_t *depth = grow->sorted;
    uint32_t last = 1;
    memset(depth, 0xff, grow->n * sizeof *depth);
    depth[root] = 0;
    grow->list[0] = root;
    for (uint32_t i = 0; i < last; i++) {
        uint32_t x = grow->list[i];
        for (uint32_t k = grow->first[x]; k < grow->first[x + 1]; k++) {
            uint32_t y = grow->net->links[grow->from[k]].to;
            if (depth[y] != PACK_NONE)
                continue;
            depth[y] = depth[x] + 1;
            grow->list[last++] = y;
        }
    }
    return depth[grow->list[last - 1]];
}

/* The deepest tree counts most, then the sum over all trees, then how many differ. */
struct score {
    uint32_t deepest;
    uint64_t sum;
    uint32_t count;
};

static struct score score_of(const struct grow *grow)
{
    struct score score = {0, 0, grow->batches->count};
    for (uint32_t i = 0; i < grow->batches->count; i++) {
        const struct pack_batch *batch = &grow->batches->batch[i];
        uint32_t depth = depth_of(grow, batch);
        score.sum += depth * batch->mult;
        if (depth > score.deepest)
            score.deepest = depth;
    }
    return score;
}

static int is_better(const struct score *a, const struct score *b)
{
    if (a->deepest != b->deepest)
        return a->deepest < b->deepest;
    return a->sum != b->sum ? a->sum < b->sum : a->count < b->count;
}

static peal_status grow_in_order(struct grow *grow, const struct pack_rate *rate, enum order order,
                                 struct pack_batches *batches)
{
    *batches = (struct pack_batches){.words = 4 * (size_t)grow->n + grow->net->nlinks / 32 + 1};
    grow->batches = batches;
    grow->order = order;
    peal_status status = peal_pack_ask_init(&grow->ask, grow->net, batches);
    if (status == PEAL_OK)
        status = grow_all(grow, rate);
    peal_pack_ask_free(&grow->ask);
    if (status != PEAL_OK)
        peal_pack_batches_free(batches, grow->net->ctx);
    return status;
}

/* The links get their units back, for another try. */
static void ungrow(struct grow *grow)
{
    for (uint32_t i = 0; i < grow->batches->count; i++) {
        const struct pack_batch *batch = &grow->batches->batch[i];
        for (uint32_t j = 1; j < batch->size; j++)
            grow->net->links[batch->link[j]].units += batch->mult;
    }
}

static peal_status grow_best(struct grow *grow, const struct pack_rate *rate,
                             struct pack_batches *best)
{
    struct pack_batches other;
    uint32_t reach = 0;
    index_links(grow);
    for (uint32_t v = 0; v < grow->n; v++)
        if (rate->root == PACK_EVERY_ROOT || rate->root == v) {
            uint32_t far = reach_of(grow, v);
            reach = far > reach ? far : reach;
        }
    PEAL_TRY(grow_in_order(grow, rate, BY_BATCH, best));
    struct score score = score_of(grow);
    if (score.deepest == reach)
        return PEAL_OK;
    ungrow(grow);
    peal_status status = grow_in_order(grow, rate, BY_LINK, &other);
    if (status != PEAL_OK) {
        peal_pack_batches_free(best, grow->net->ctx);
        return status;
    }
    struct score other_score = score_of(grow);
    int better = is_better(&other_score, &score);
    peal_pack_batches_free(better ? best : &other, grow->net->ctx);
    if (better)
        *best = other;
    return PEAL_OK;
}

peal_status peal_pack_grow(struct pack_net *net, const struct pack_rate *rate, peal_diag *diag,
                           struct pack_batches *batches_out)
{
    struct grow grow = {.net = net, .n = net->compute};
    size_t lists = (size_t)net->nlinks + net->compute;
    grow.nwords = net->compute + 1 + 3 * lists;
    grow.words = peal_calloc(net->ctx, grow.nwords, sizeof *grow.words);
    if (!grow.words)
        return PEAL_ERR_MEMORY;
    grow.first = grow.words;
    grow.from = grow.first + net->compute + 1;
    grow.list = grow.from + lists;
    grow.sorted = grow.list + lists;
    peal_status status = grow_best(&grow, rate, batches_out);
    peal_free(net->ctx, grow.words, grow.nwords * sizeof *grow.words);
    if (status == PEAL_ERR_INTERNAL)
        return peal_fail(diag, status, "trees could not be finished");
    if (status == PEAL_ERR_LIMIT)
        return peal_fail(diag, status, "more than %u different trees", PACK_TREES_MAX);
    return status;
}
