/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peal-rdma-rank PLAN bad-key: one rank of those that the environment says, as peal run is. After
 * a call that goes well, rank 0 takes keys for its peers' memory that they never gave. All ranks
 * have to hear of it in good time, as of a peer's error, and end. Exit code 0: so it was.
 */
#include "rdma.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT (64u << 10)
#define TIMEOUT_MS 30000u

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int complain(const char *what, const peal_diag *diag)
{
    (void)fprintf(stderr, "%s: %s\n", what, diag->text);
    return 1;
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

static peal_status read_plan(peal_ctx *ctx, const char *path, peal_table **table, peal_diag *diag)
{
    FILE *file = fopen(path, "rb");
    char *data = malloc(16u << 20);
    size_t bytes = file && data ? fread(data, 1, 16u << 20, file) : 0;
    peal_status status = peal_table_load(ctx, data, bytes, path, diag, table);
    if (file)
        (void)fclose(file);
    free(data);
    return status;
}

static peal_status reduce(peal_comm *comm, peal_diag *diag, int *wrong)
{
    static int32_t in[COUNT], out[COUNT];
    for (uint32_t i = 0; i < COUNT; i++)
        in[i] = (int32_t)i;
    peal_status status = peal_allreduce(comm, in, out, COUNT, PEAL_INT32, PEAL_SUM, diag);
    for (uint32_t i = 0; i < COUNT && status == PEAL_OK; i++)
        *wrong += out[i] != (int32_t)(4 * i);
    return status;
}

static int spoil_keys(peal_world *world)
{
    struct rdma *rdma = rdma_of(world->job->far->transport);
    int spoiled = 0;
    for (uint32_t r = 0; r < world->job->nranks; r++) {
        if (!world->job->far->by_rdma[r])
            continue;
        rdma->peers[r].scratch_key ^= 0x5a5a00;
        spoiled++;
    }
    return spoiled;
}

/* rank 0: what its device said; the others: that they heard. */
static int play(peal_world *world, peal_comm *comm, uint32_t rank)
{
    peal_diag diag = PEAL_DIAG_INIT;
    int wrong = 0;
    if (reduce(comm, &diag, &wrong) != PEAL_OK || wrong)
        return complain("the good call", &diag);
    if (rank == 0 && !spoil_keys(world))
        return complain("no rank is reached by RDMA", &diag);
    double start = now();
    peal_status status = reduce(comm, &diag, &wrong);
    double took = now() - start;
    (void)fprintf(stderr, "rank %u: %d after %.1f s: %s\n", rank, status, took, diag.text);
    int fine = status == PEAL_ERR_PEER && took < TIMEOUT_MS / 1e3 + 5 && !wrong;
    return !fine || (rank == 0 && !strstr(diag.text, "refused"));
}

int main(int argc, char **argv)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_ctx *ctx;
    peal_table *table = NULL;
    peal_world *world = NULL;
    peal_comm *comm = NULL;
    peal_join_params params = PEAL_JOIN_PARAMS_INIT;
    if (argc != 3 || strcmp(argv[2], "bad-key") != 0 || peal_ctx_create(NULL, &ctx) != PEAL_OK)
        return 2;
    params.rank = (uint32_t)atoi(variable("RANK"));
    params.ranks = (uint32_t)atoi(variable("WORLD_SIZE"));
    params.address = variable("MASTER_ADDR");
    params.port = (uint32_t)atoi(variable("MASTER_PORT"));
    params.key = variable("PEAL_JOB_KEY");
    params.key_bytes = strlen(variable("PEAL_JOB_KEY"));
    params.host = variable("PEAL_HOST_ID");
    params.heap_bytes = 4 << 20;
    params.timeout_ms = TIMEOUT_MS;
    peal_status status = read_plan(ctx, argv[1], &table, &diag);
    if (status == PEAL_OK)
        status = peal_world_join(ctx, &params, table, &diag, &world);
    if (status == PEAL_OK)
        status = peal_comm_create(world, table, params.rank, &diag, &comm);
    int code = status == PEAL_OK ? play(world, comm, params.rank) : complain("joining", &diag);
    peal_comm_destroy(comm);
    peal_world_destroy(world);
    peal_table_destroy(table);
    peal_ctx_destroy(ctx);
    return code;
}
