/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_table RANKS TOPOLOGY [DRIVER]: what peal bench does not measure of ranks on GPUs, one line
 * each: a copy on the device, small allreduces call by call and as a replayed graph.
 */
#include "cuda_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST 8u
#define COPY_BYTES (64u << 20)
#define SMALL 256u /* elements of a small allreduce */
#define ROUNDS 50u
#define IN_GRAPH 10u

/* What peal itself does not need of the driver. */
struct graphs {
    cu_result (*begin)(cu_handle stream, int mode);
    cu_result (*end)(cu_handle stream, cu_handle *graph);
    cu_result (*make)(cu_handle *exec, cu_handle graph, unsigned long long flags);
    cu_result (*launch)(cu_handle exec, cu_handle stream);
};

static struct {
    uint32_t ranks;
    uint32_t devices;
    peal_cuda *cuda;
    peal_world *world;
    peal_table *table;
    struct graphs graphs;
    pthread_barrier_t meet;
    double us[3][MOST];
} all;
enum { COPY, CALLS, GRAPH };

struct rank {
    uint32_t number;
    peal_cuda_comm *comm;
    void *stream;
    char *in;
    char *out;
    cu_handle context;
};

static void must(peal_status status, const peal_diag *diag)
{
    if (status == PEAL_OK)
        return;
    fprintf(stderr, "device_table: %s\n", diag->text);
    exit(1);
}

static void driver(cu_result result, const char *what)
{
    if (result == CU_SUCCESS)
        return;
    fprintf(stderr, "device_table: %s: error %d\n", what, result);
    exit(1);
}

static double now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void finish(struct rank *rank, void *stream)
{
    peal_diag diag = PEAL_DIAG_INIT;
    must(peal_cuda_stream_wait(rank->comm, stream, &diag), &diag);
}

static void reduce(struct rank *rank, size_t count)
{
    peal_diag diag = PEAL_DIAG_INIT;
    must(peal_cuda_allreduce(rank->comm, rank->in, rank->out, count, PEAL_FLOAT32, PEAL_SUM,
                             rank->stream, &diag),
         &diag);
}

static double began(void)
{
    (void)pthread_barrier_wait(&all.meet);
    return now_us();
}

/* ---- measurements; each rank notes what it took */

static void measure_copy(struct rank *rank)
{
    peal_diag diag = PEAL_DIAG_INIT;
    double start = began();
    for (unsigned i = 0; i < 10 && rank->number == 0; i++)
        must(peal_cuda_copy(rank->comm, rank->out, rank->in, COPY_BYTES / 2, rank->stream, &diag),
             &diag);
    finish(rank, rank->stream);
    all.us[COPY][rank->number] = (now_us() - start) / 10;
}

static void measure_calls(struct rank *rank)
{
    reduce(rank, SMALL);
    finish(rank, rank->stream);
    double start = began();
    for (unsigned i = 0; i < ROUNDS * IN_GRAPH; i++)
        reduce(rank, SMALL);
    finish(rank, rank->stream);
    all.us[CALLS][rank->number] = (now_us() - start) / (ROUNDS * IN_GRAPH);
}

static void measure_graph(struct rank *rank)
{
    cu_handle graph, exec;
    const struct cuda_calls *call = &all.cuda->call;
    (void)began(); /* nobody does what captures forbid */
    driver(call->context_push(rank->context), "cuCtxPushCurrent");
    driver(all.graphs.begin(rank->stream, 1), "cuStreamBeginCapture");
    for (unsigned i = 0; i < IN_GRAPH; i++)
        reduce(rank, SMALL);
    driver(all.graphs.end(rank->stream, &graph), "cuStreamEndCapture");
    (void)began();
    driver(all.graphs.make(&exec, graph, 0), "cuGraphInstantiate");
    double start = began();
    for (unsigned i = 0; i < ROUNDS; i++)
        driver(all.graphs.launch(exec, rank->stream), "cuGraphLaunch");
    driver(call->context_pop(&rank->context), "cuCtxPopCurrent");
    finish(rank, rank->stream);
    all.us[GRAPH][rank->number] = (now_us() - start) / (ROUNDS * IN_GRAPH);
}

/* ---- ranks */

static void open_rank(struct rank *rank)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_cuda_params params = PEAL_CUDA_PARAMS_INIT;
    params.device = rank->number % all.devices;
    params.heap_bytes = 2ull * COPY_BYTES + (1u << 20);
    must(peal_cuda_comm_create(all.cuda, all.world, all.table, rank->number, &params, &diag,
                               &rank->comm),
         &diag);
    must(peal_cuda_stream_create(rank->comm, &diag, &rank->stream), &diag);
    rank->in = peal_cuda_mem_alloc(rank->comm, COPY_BYTES);
    rank->out = peal_cuda_mem_alloc(rank->comm, COPY_BYTES);
    driver(all.cuda->call.context_retain(&rank->context, (cu_device)params.device), "a context");
}

static void *run(void *user)
{
    struct rank *rank = user;
    open_rank(rank);
    measure_copy(rank);
    measure_calls(rank);
    measure_graph(rank);
    (void)began();
    peal_cuda_stream_destroy(rank->comm, rank->stream);
    peal_cuda_comm_destroy(rank->comm);
    return NULL;
}

/* ---- */

static void find(void *library, const char *name, void *to)
{
    void *symbol = dlsym(library, name);
    memcpy(to, &symbol, sizeof symbol);
    if (!symbol)
        driver(CU_NOT_FOUND, name);
}

static void plan(peal_ctx *ctx, const char *topology)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_fabric *fabric = NULL;
    peal_request request = PEAL_REQUEST_INIT;
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    request.ranks = params.ranks = all.ranks;
    request.max_bytes = 4 * SMALL;
    request.max_sms = 8;
    params.heap_bytes = 1u << 16;
    must(peal_fabric_load(ctx, topology, &diag, &fabric), &diag);
    must(peal_table_plan(ctx, fabric, &request, &diag, &all.table), &diag);
    must(peal_table_compile(all.table, fabric, &diag), &diag);
    must(peal_world_create(ctx, &params, all.table, &diag, &all.world), &diag);
    peal_fabric_destroy(fabric);
}

static double slowest(int which)
{
    double most = 0;
    for (uint32_t r = 0; r < all.ranks; r++)
        most = all.us[which][r] > most ? all.us[which][r] : most;
    return most;
}

static void print_table(const peal_cuda_device_info *about)
{
    printf("device     %s%s\n", about->name, about->stand_in ? " (times mean nothing)" : "");
    printf("copy       %.1f GB/s on the device, 32 MiB\n", COPY_BYTES / 2 / (slowest(COPY) * 1e3));
    printf("small      %.2f us a call of allreduce, %u B, %u ranks\n", slowest(CALLS), SMALL * 4,
           all.ranks);
    printf("replayed   %.2f us a call, %u calls a graph\n", slowest(GRAPH), IN_GRAPH);
}

int main(int argc, char **argv)
{
    peal_ctx *ctx = NULL;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_cuda_device_info about = {.size = sizeof about};
    struct rank ranks[MOST] = {{0}};
    pthread_t threads[MOST];
    const char *library = argc > 3 && argv[3][0] ? argv[3] : "libcuda.so.1";
    all.ranks = argc > 2 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    if (all.ranks < 2 || all.ranks > MOST)
        return 2;
    must(peal_ctx_create(NULL, &ctx), &diag);
    must(peal_cuda_open(ctx, library, &diag, &all.cuda), &diag);
    must(peal_cuda_device(all.cuda, 0, &diag, &about), &diag);
    all.devices = about.devices;
    find(all.cuda->library, "cuStreamBeginCapture_v2", &all.graphs.begin);
    find(all.cuda->library, "cuStreamEndCapture", &all.graphs.end);
    find(all.cuda->library, "cuGraphInstantiateWithFlags", &all.graphs.make);
    find(all.cuda->library, "cuGraphLaunch", &all.graphs.launch);
    plan(ctx, argv[2]);
    (void)pthread_barrier_init(&all.meet, NULL, all.ranks);
    for (uint32_t r = 0; r < all.ranks; r++) {
        ranks[r].number = r;
        if (pthread_create(&threads[r], NULL, run, &ranks[r]) != 0)
            return 1;
    }
    for (uint32_t r = 0; r < all.ranks; r++)
        (void)pthread_join(threads[r], NULL);
    print_table(&about);
    return 0;
}
