/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What plans are predicted to take, and what they are simulated to:
 *
 *   cost_points [-c COLLECTIVE] [-a ALGORITHM] [-k] [-r RANKS] TOPOLOGY BYTES...
 *
 * A line for each collective, algorithm and size, between tabs: collective, algorithm, bytes,
 * predicted and simulated microseconds, detail. -k: of every candidate, not of the chosen one
 * alone. TOPOLOGY "host:N" is N ranks of one memory. Everything in one process, planned once for
 * all sizes and not proven, so that as many plans can be compared as there are. Exits with 3 where
 * the topology does not load.
 */
#include "compiler.h"
#include "select.h"
#include "support.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZES_MAX 32
#define NOT_LOADED 3
#define RANKS_MAX 64u /* of a sendrecv by a list */

struct points {
    peal_ctx *ctx;
    peal_fabric *fabric;
    const char *collective; /* NULL: all */
    const char *algorithm;
    int every; /* candidate */
    uint32_t ranks;
    uint32_t sizes;
    uint64_t size[SIZES_MAX]; /* rising */
};

/* What a list of pairs has everyone do. */
enum shape { ONE_PAIR, SHIFT, BOTH_SIDES, MANY_TO_ONE, SHAPES };
static const char *const shape_names[SHAPES] = {"one", "shift", "sides", "incast"};

static uint32_t list_pairs(enum shape shape, uint32_t n, uint32_t *pairs)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < n; r++) {
        uint32_t to[2] = {(r + 1) % n, (r + n - 1) % n};
        for (uint32_t i = 0; i < (shape == BOTH_SIDES && n > 2 ? 2u : 1u); i++) {
            if (shape == MANY_TO_ONE && r == 0)
                continue;
            pairs[2 * count] = r;
            pairs[2 * count++ + 1] = shape == MANY_TO_ONE ? 0 : to[i];
        }
    }
    return count;
}

static void simulate(const struct points *p, const char *what, const struct planner *planner,
                     uint32_t index, uint64_t bytes)
{
    const struct candidate *candidate = &planner->candidates[index];
    peal_table *table;
    peal_sim *sim;
    peal_sim_info info = {.size = sizeof info};
    struct cost cost;
    peal_candidate_cost(candidate, bytes, &cost);
    if (peal_table_create(p->ctx, 1, &table) != PEAL_OK)
        exit(1);
    table->nranks = planner->group.n;
    if (peal_lower(planner, candidate, bytes, bytes, NULL, &table->rows[0].plan) == PEAL_OK &&
        peal_simulate(p->ctx, p->fabric, table, 0, NULL, NULL, &sim) == PEAL_OK) {
        if (peal_sim_get(sim, &info) == PEAL_OK && info.time_us > 0)
            printf("%s\t%s\t%" PRIu64 "\t%.4f\t%.4f\t%s, tile %" PRIu64 "\n", what,
                   peal_candidate_name(planner, candidate), bytes, cost.time_us, info.time_us,
                   table->rows[0].plan->detail, candidate->tile_bytes);
        peal_sim_destroy(sim);
    }
    (void)fflush(stdout);
    peal_table_destroy(table);
}

static void plan(const struct points *p, const char *what, const peal_request *request)
{
    peal_table *table;
    if (peal_table_plan(p->ctx, p->fabric, request, NULL, &table) != PEAL_OK)
        return; /* it does not serve these ranks */
    struct planner *planner = table->planner;
    planner->fabric = planner->group.fabric = p->fabric;
    for (uint32_t s = 0; s < p->sizes; s++) {
        uint32_t best = peal_select_best(planner, p->size[s]);
        for (uint32_t i = p->every ? 0 : best; i < (p->every ? planner->count : best + 1); i++)
            if (peal_select_fits(planner, i, p->size[s]))
                simulate(p, what, planner, i, p->size[s]);
        if (request->collective == PEAL_BARRIER)
            break;
    }
    planner->fabric = planner->group.fabric = NULL;
    peal_table_destroy(table);
}

static void each_shape(const struct points *p, peal_request *request, uint32_t n)
{
    uint32_t pairs[4 * RANKS_MAX];
    char what[64];
    for (int shape = 0; shape < SHAPES && n <= RANKS_MAX; shape++) {
        request->peer = shape == ONE_PAIR ? n - 1 : 0;
        request->npairs = shape == ONE_PAIR ? 0 : list_pairs((enum shape)shape, n, pairs);
        request->pairs = shape == ONE_PAIR ? NULL : pairs;
        (void)snprintf(what, sizeof what, "sendrecv-%s", shape_names[shape]);
        plan(p, what, request);
    }
}

static void each_algorithm(const struct points *p, peal_collective collective)
{
    peal_fabric_info info = {.size = sizeof info};
    if (peal_fabric_get(p->fabric, &info) != PEAL_OK)
        return;
    for (int a = 0; a < ALGO_COUNT; a++) {
        const struct algo *algo = peal_algo_get((enum algorithm)a);
        peal_request request = PEAL_REQUEST_INIT;
        if (!(algo->collectives >> collective & 1) ||
            (p->algorithm && strcmp(p->algorithm, algo->name) != 0))
            continue;
        request.collective = collective;
        request.algorithm = algo->name;
        request.ranks = p->ranks;
        request.min_bytes = p->size[0];
        request.max_bytes = p->size[p->sizes - 1];
        request.wire = a == ALGO_COMPRESSED ? PEAL_WIRE_BF16 : PEAL_WIRE_NONE;
        if (collective == PEAL_SENDRECV)
            each_shape(p, &request, p->ranks ? p->ranks : info.ranks);
        else
            plan(p, peal_collective_name(collective), &request);
    }
}

static int usage(void)
{
    (void)fputs("cost_points [-c COLLECTIVE] [-a ALGORITHM] [-k] [-r RANKS] TOPOLOGY BYTES...\n",
                stderr);
    return 2;
}

static int read_arguments(int argc, char **argv, struct points *p, const char **topology)
{
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (argv[i][1] == 'k')
            p->every = 1;
        else if (i + 1 < argc && argv[i][1] == 'c')
            p->collective = argv[++i];
        else if (i + 1 < argc && argv[i][1] == 'a')
            p->algorithm = argv[++i];
        else if (i + 1 < argc && argv[i][1] == 'r')
            p->ranks = (uint32_t)strtoul(argv[++i], NULL, 10);
        else
            return 0;
    }
    if (argc - i < 2 || argc - i > SIZES_MAX + 1)
        return 0;
    *topology = argv[i];
    for (i++; i < argc; i++)
        p->size[p->sizes++] = strtoull(argv[i], NULL, 10);
    return 1;
}

int main(int argc, char **argv)
{
    struct test_heap heap;
    struct points p = {.ctx = test_ctx(&heap)};
    peal_diag diag = PEAL_DIAG_INIT;
    const char *topology;
    if (!read_arguments(argc, argv, &p, &topology))
        return usage();
    peal_status status =
        strncmp(topology, "host:", 5) == 0
            ? peal_fabric_host(p.ctx, (uint32_t)strtoul(topology + 5, NULL, 10), &diag, &p.fabric)
            : peal_fabric_load(p.ctx, topology, &diag, &p.fabric);
    if (status != PEAL_OK) {
        (void)fprintf(stderr, "%s:%u: %s\n", diag.path, diag.line, diag.text);
        return NOT_LOADED;
    }
    for (int c = 0; c < PEAL_CUSTOM; c++)
        if (!p.collective || strcmp(p.collective, peal_collective_name((peal_collective)c)) == 0)
            each_algorithm(&p, (peal_collective)c);
    peal_fabric_destroy(p.fabric);
    peal_ctx_destroy(p.ctx);
    return heap.blocks != 0;
}
