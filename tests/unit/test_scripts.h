/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shipped algorithms in Lua against those in C: planned for the same ranks with the same
 * channels and tiles, proven, and simulated.
 */
#ifndef PEAL_TESTS_SCRIPTS_H
#define PEAL_TESTS_SCRIPTS_H

#include "machines.h"
#include "support.h"
#include <peal/peal.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCRIPTS_RANKS 64u

struct scripts_case {
    const char *file; /* examples/algorithms/ */
    const char *name; /* of the one in C */
    uint32_t ranks;
    uint32_t local;    /* of a host, that take part */
    uint32_t channels; /* of the script, and how many of those in C each of them is */
    uint32_t times;
    uint64_t tile;
    uint64_t bytes;
};

static peal_schedule *scripts_load(peal_ctx *context, const peal_fabric *fabric,
                                   const peal_request *request, const char *file)
{
    static char text[1 << 16];
    char path[4096];
    peal_diag diag = PEAL_DIAG_INIT;
    peal_schedule *script;
    (void)snprintf(path, sizeof path, "%s/%s", test_source_path("examples/algorithms"), file);
    FILE *in = fopen(path, "rb");
    ck_assert_msg(in != NULL, "%s", path);
    size_t bytes = fread(text, 1, sizeof text, in);
    (void)fclose(in);
    ck_assert_msg(peal_schedule_load(context, fabric, request, text, bytes, file, &diag, &script) ==
                      PEAL_OK,
                  "%s:%u: %s", diag.path, diag.line, diag.text);
    return script;
}

/* The first `local` ranks of as many hosts of 8 as it takes; of a single host, the first ones. */
static void scripts_group(const struct scripts_case *c, uint32_t *group)
{
    for (uint32_t i = 0; i < c->ranks; i++)
        group[i] = c->local ? i / c->local * 8 + i % c->local : i;
}

/* Compiles, which proves, and simulates: us. */
static double scripts_time(peal_ctx *context, const peal_fabric *fabric,
                           const peal_request *request, double *model)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table;
    peal_sim *sim;
    peal_sim_params params = PEAL_SIM_PARAMS_INIT;
    peal_sim_info info = {.size = sizeof info};
    peal_row_info row = {.size = sizeof row};
    peal_status status = peal_table_plan(context, fabric, request, &diag, &table);
    ck_assert_msg(status == PEAL_OK, "%s", diag.text);
    status = peal_table_compile(table, fabric, &diag);
    ck_assert_msg(status == PEAL_OK, "%s by %u: %s", request->algorithm, request->ranks, diag.text);
    status = peal_simulate(context, fabric, table, 0, &params, &diag, &sim);
    ck_assert_msg(status == PEAL_OK, "%s", diag.text);
    ck_assert(peal_sim_get(sim, &info) == PEAL_OK && peal_table_row(table, 0, &row) == PEAL_OK);
    *model = row.time_us;
    peal_sim_destroy(sim);
    peal_table_destroy(table);
    return info.time_us;
}

/* How much longer the script's plan takes than the one in C, simulated; predicted: by the planner.
 */
static double scripts_compare(peal_ctx *context, const peal_fabric *fabric,
                              const struct scripts_case *c, double *predicted)
{
    uint32_t group[SCRIPTS_RANKS];
    double own_model, model;
    peal_request request = PEAL_REQUEST_INIT;
    scripts_group(c, group);
    request.group = group;
    request.group_size = c->ranks;
    request.ranks = c->ranks;
    request.min_bytes = request.max_bytes = c->bytes;
    request.channels = c->channels;
    request.tile_bytes = c->tile;
    request.scratch_limit = 1ull << 40;
    peal_schedule *script = scripts_load(context, fabric, &request, c->file);
    request.schedule = script;
    request.algorithm = peal_schedule_name(script);
    double own = scripts_time(context, fabric, &request, &own_model);
    peal_schedule_destroy(script);
    request.schedule = NULL;
    request.algorithm = c->name;
    request.channels *= c->times;
    if (strcmp(c->name, "hierarchical") == 0) {
        request.inner = "direct";
        request.outer = c->ranks > c->local ? "direct" : NULL;
        request.levels = "host";
        request.gateways = c->local;
    }
    double other = scripts_time(context, fabric, &request, &model);
    if (getenv("PEAL_TEST_TELL"))
        printf("%s by %u (%u a host) of %lu, %u channels, tile %lu: %.3f us, %s %.3f us: "
               "%+.2f %%; predicted %.3f and %.3f us: %+.2f %%\n",
               c->file, c->ranks, c->local, (unsigned long)c->bytes, c->channels,
               (unsigned long)c->tile, own, c->name, other, 100 * (own / other - 1), own_model,
               model, 100 * (own_model / model - 1));
    *predicted = own_model / model - 1;
    return own / other - 1;
}

/* So many ranks on hosts of at most 8, all with as many. */
static uint32_t scripts_local(uint32_t ranks)
{
    uint32_t local = 8;
    while (ranks % local)
        local--;
    return local;
}

/* Compiled, and so proven. */
static void scripts_prove(peal_ctx *context, const peal_fabric *fabric, const char *file,
                          uint32_t ranks, uint32_t local)
{
    const struct scripts_case c = {.file = file, .ranks = ranks, .local = local};
    uint32_t group[SCRIPTS_RANKS];
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table;
    peal_request request = PEAL_REQUEST_INIT;
    scripts_group(&c, group);
    request.group = group;
    request.group_size = request.ranks = ranks;
    request.min_bytes = request.max_bytes = 1u << 20;
    request.channels = 1;
    request.tile_bytes = 16384;
    peal_schedule *script = scripts_load(context, fabric, &request, file);
    request.schedule = script;
    request.algorithm = peal_schedule_name(script);
    ck_assert_msg(peal_table_plan(context, fabric, &request, &diag, &table) == PEAL_OK,
                  "%s by %u: %s", file, ranks, diag.text);
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s by %u: %s", file, ranks,
                  diag.text);
    peal_table_destroy(table);
    peal_schedule_destroy(script);
}

/* The three of them by so many ranks, at a small and a large size, on whole hosts. */
static void scripts_all(peal_ctx *context, const peal_fabric *cluster, const peal_fabric *host,
                        uint32_t n, size_t nsizes)
{
    static const uint64_t sizes[] = {65536, 8u << 20};
    uint32_t local = n < 8 ? n : 8, hosts = n / local;
    for (size_t i = 0; i < nsizes; i++) {
        const struct scripts_case cases[] = {
            {"ring.lua", "ring", n, local, 1, hosts > 1 ? local : 1, i ? 65536 : 0, sizes[i]},
            {"two-level.lua", "hierarchical", n, local, 1, 1, i ? 65536 : 0, sizes[i]},
            {"all-pairs.lua", "twoshot", n, 0, 1, 1, 0, sizes[i]}};
        for (size_t k = 0; k < 3; k++) {
            double predicted;
            double more = scripts_compare(context, k == 2 ? host : cluster, &cases[k], &predicted);
            /* A ring of two gives its slots back a tile earlier here, and lanes that send to more
             * than four hosts have more transfers under way. */
            int faster = (k == 0 && n == 2) || (k == 1 && hosts > 5);
            ck_assert_msg(more < 0.01 && (faster || more > -0.01), "%s by %u of %lu: %+.2f %%",
                          cases[k].file, n, (unsigned long)sizes[i], 100 * more);
            /* Between hosts the closed forms of those in C are further from what is simulated. */
            if (hosts == 1 || k == 2)
                ck_assert_msg(predicted < 0.01 && predicted > -0.01,
                              "%s by %u of %lu: predicted %+.2f %%", cases[k].file, n,
                              (unsigned long)sizes[i], 100 * predicted);
        }
    }
}

#endif
