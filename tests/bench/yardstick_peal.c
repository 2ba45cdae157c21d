/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal as a contender of the yardstick (bench.h, outside of this tree): public interface only.
 * Environment:
 *   BENCH_ID            names the shared segment, as it names the yardstick's own
 *   PEAL_BENCH_PRIVATE  1: the caller's buffers are private and staged
 *   PEAL_BENCH_TABLE    a table's text form instead of what peal_table_plan chooses
 *   PEAL_BENCH_ALGO     the algorithm to plan with, and
 *   PEAL_BENCH_TILE     the tile in bytes
 *   PEAL_BENCH_ATTACH   private buffers of messages from this size on are attached to, not staged
 */
#include "bench.h"

#include <peal/peal.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST (64u << 20)

static peal_ctx *ctx;
static peal_world *world;
static peal_comm *comm;
static peal_diag diag = PEAL_DIAG_INIT;

static void check(peal_status status, const char *what)
{
    if (status == PEAL_OK)
        return;
    fprintf(stderr, "yardstick_peal: %s: %s: %s\n", what, peal_status_name(status), diag.text);
    exit(1);
}

static peal_table *read_table(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = malloc(LARGEST);
    if (!file || !text) {
        perror(path);
        exit(1);
    }
    size_t bytes = fread(text, 1, LARGEST, file);
    (void)fclose(file);
    peal_table *table;
    check(peal_table_assemble(ctx, text, bytes, path, &diag, &table), "assembling");
    free(text);
    return table;
}

static int is_private(void)
{
    const char *word = getenv("PEAL_BENCH_PRIVATE");
    return word && strcmp(word, "0") != 0;
}

static peal_table *plan_one(const peal_fabric *fabric, peal_collective collective)
{
    peal_request request = PEAL_REQUEST_INIT;
    peal_table *table;
    request.collective = collective;
    request.max_bytes = LARGEST;
    request.private_buffers = is_private();
    const char *tile = getenv("PEAL_BENCH_TILE");
    request.algorithm = getenv("PEAL_BENCH_ALGO");
    request.tile_bytes = tile ? strtoull(tile, NULL, 10) : 0;
    check(peal_table_plan(ctx, fabric, &request, &diag, &table), "planning");
    check(peal_table_compile(table, fabric, &diag), "compiling");
    return table;
}

/* A table of the collectives that BENCH_SETS names. */
static peal_table *plan_table(void)
{
    static const struct {
        const char *set;
        peal_collective collective;
    } known[] = {{"ar", PEAL_ALLREDUCE},
                 {"rs", PEAL_REDUCE_SCATTER},
                 {"ag", PEAL_ALLGATHER},
                 {"aa", PEAL_ALLTOALL},
                 {"bc", PEAL_BROADCAST}};
    const char *sets = getenv("BENCH_SETS");
    peal_fabric *fabric;
    peal_table *table = NULL;
    check(peal_fabric_host(ctx, (uint32_t)g_size, &diag, &fabric), "fabric");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (sets && !strstr(sets, known[i].set))
            continue;
        peal_table *one = plan_one(fabric, known[i].collective);
        if (table) {
            check(peal_table_join(table, one, &diag), "joining");
            peal_table_destroy(one);
        } else {
            table = one;
        }
    }
    peal_fabric_destroy(fabric);
    return table;
}

static void init(int *argc, char ***argv, int *rank, int *size)
{
    (void)argc;
    (void)argv;
    char name[64];
    const char *path = getenv("PEAL_BENCH_TABLE");
    (void)snprintf(name, sizeof name, "/peal_yardstick_%s", getenv("BENCH_ID"));
    check(peal_ctx_create(NULL, &ctx), "context");
    peal_table *table = path ? read_table(path) : plan_table();
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.ranks = (uint32_t)*size;
    params.heap_bytes = 4ull * LARGEST + (1u << 20);
    params.shm_name = name;
    params.attach = *rank != 0;
    params.private_buffers = is_private();
    const char *attach = getenv("PEAL_BENCH_ATTACH");
    params.attach_bytes = attach ? strtoull(attach, NULL, 10) : 0;
    check(peal_world_create(ctx, &params, table, &diag, &world), "world");
    check(peal_comm_create(world, table, (uint32_t)*rank, &diag, &comm), "comm");
    peal_table_destroy(table);
    if (params.private_buffers)
        BE.alloc = NULL;
}

static void *allocate(size_t bytes)
{
    return peal_mem_alloc(comm, bytes);
}

static void allreduce(void *in, void *out, size_t bytes)
{
    check(peal_allreduce(comm, in, out, bytes / 4, PEAL_FLOAT32, PEAL_SUM, &diag), "allreduce");
}

static void reduce_scatter(void *in, void *out, size_t bytes)
{
    size_t count = bytes / 4 / (size_t)g_size;
    check(peal_reduce_scatter(comm, in, out, count, PEAL_FLOAT32, PEAL_SUM, &diag),
          "reduce-scatter");
}

static void allgather(void *in, void *out, size_t bytes)
{
    check(peal_allgather(comm, in, out, bytes / 4, PEAL_FLOAT32, &diag), "allgather");
}

static void alltoall(void *in, void *out, size_t bytes)
{
    check(peal_alltoall(comm, in, out, bytes / 4, PEAL_FLOAT32, &diag), "alltoall");
}

static void broadcast(void *buffer, size_t bytes)
{
    check(peal_broadcast(comm, buffer, buffer, bytes / 4, PEAL_FLOAT32, 0, &diag), "broadcast");
}

static void finish(void)
{
    peal_comm_destroy(comm);
    peal_world_destroy(world);
    peal_ctx_destroy(ctx);
}

backend BE = {.name = "peal",
              .init = init,
              .alloc = allocate,
              .allreduce = allreduce,
              .bcast = broadcast,
              .allgather = allgather,
              .alltoall = alltoall,
              .redscat = reduce_scatter,
              .fini = finish};
