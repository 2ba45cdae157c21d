/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that embeds peal: two processes of one host sum their vectors.
 *
 *   cc embed_min.c $(pkg-config --cflags --libs peal) -o embed_min && ./embed_min
 *
 * Where peal is installed in a place of its own, PKG_CONFIG_PATH says where peal.pc is, and
 * -Wl,-rpath,$(pkg-config --variable=libdir peal) lets the program find the library.
 */
#include <peal/peal.h>

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS 2
#define COUNT 1000

/* Chooses schedules for a host of RANKS processes and proves them. */
static peal_status make_table(peal_ctx *ctx, peal_diag *diag, peal_table **table)
{
    peal_request request = PEAL_REQUEST_INIT;
    peal_fabric *fabric = NULL;
    request.max_bytes = 1 << 20;
    peal_status status = peal_fabric_host(ctx, RANKS, diag, &fabric);
    if (status == PEAL_OK)
        status = peal_table_plan(ctx, fabric, &request, diag, table);
    if (status == PEAL_OK)
        status = peal_table_compile(*table, fabric, diag);
    peal_fabric_destroy(fabric);
    return status;
}

/* What one process does. */
static peal_status sum_up(peal_world *world, peal_table *table, uint32_t rank, peal_diag *diag)
{
    peal_comm *comm = NULL;
    peal_status status = peal_comm_create(world, table, rank, diag, &comm);
    if (status != PEAL_OK)
        return status;
    /* Registered memory is what peers read without a copy. Any other would do: then
     * private_buffers, below, asks for it to be staged. */
    float *data = peal_mem_alloc(comm, COUNT * sizeof *data);
    if (!data) {
        peal_comm_destroy(comm);
        return PEAL_ERR_MEMORY;
    }
    for (size_t i = 0; i < COUNT; i++)
        data[i] = (float)(rank + 1);
    status = peal_allreduce(comm, data, data, COUNT, PEAL_FLOAT32, PEAL_SUM, diag);
    if (status == PEAL_OK)
        printf("rank %u: %g ... %g\n", (unsigned)rank, (double)data[0], (double)data[COUNT - 1]);
    peal_comm_destroy(comm);
    return status;
}

int main(void)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_ctx *ctx = NULL;
    peal_table *table = NULL;
    peal_world *world = NULL;
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.ranks = RANKS;
    params.heap_bytes = 1 << 20;
    params.private_buffers = 1;

    peal_status status = peal_ctx_create(NULL, &ctx);
    if (status == PEAL_OK)
        status = make_table(ctx, &diag, &table);
    if (status == PEAL_OK)
        status = peal_world_create(ctx, &params, table, &diag, &world);
    pid_t child = status == PEAL_OK ? fork() : -1;
    if (child >= 0)
        status = sum_up(world, table, child == 0 ? 1 : 0, &diag);
    if (status != PEAL_OK)
        fprintf(stderr, "%s: %s\n", peal_status_name(status), diag.text);
    if (child > 0)
        (void)waitpid(child, NULL, 0);
    peal_world_destroy(world);
    peal_table_destroy(table);
    peal_ctx_destroy(ctx);
    return status == PEAL_OK ? 0 : 1;
}
