/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_table RANKS TOPOLOGY [DRIVER [BUSY]]: what peal bench does not measure of ranks on GPUs,
 * one line each: a copy on the device, small allreduces call by call and as a replayed graph, and,
 * engine by engine, how much of a call hides behind a kernel like a matrix product (BUSY: its code;
 * without, none of that) and by how much that takes longer, as peal bench --overlap says it of
 * hosts.
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
#define SMALL 256u       /* elements of a small allreduce */
#define LARGE (1u << 20) /* and of one to hide */
#define ROUNDS 50u
#define IN_GRAPH 10u
#define OVERLAPS 10u

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
    char *busy; /* code; NULL: none */
    const struct setup *setup;
    pthread_barrier_t meet;
    double us[8][MOST];
} all;
enum { COPY, CALLS, GRAPH, PRODUCT, CALL, SERIAL, TOGETHER, BESIDE };

/* What hides behind the kernel; the first one's small calls are timed, too. */
static const struct setup {
    const char *name;
    peal_collective collective;
    peal_engine engine;
    int zero_sm;
} setups[] = {{"allreduce-sm", PEAL_ALLREDUCE, PEAL_ENGINE_SM, 0},
              {"allgather-sm", PEAL_ALLGATHER, PEAL_ENGINE_SM, 0},
              {"allgather-tma", PEAL_ALLGATHER, PEAL_ENGINE_TMA, 0},
              {"allgather-ce", PEAL_ALLGATHER, PEAL_ENGINE_CE, 0},
              {"allgather-no-SM", PEAL_ALLGATHER, PEAL_ENGINE_CE, 1}};
#define SETUPS (sizeof setups / sizeof *setups)

struct rank {
    uint32_t number;
    peal_cuda_comm *comm;
    void *stream;
    void *other; /* stream of the kernel */
    char *in;
    char *out;
    cu_handle kernel;
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

/* count: elements of the message. */
static void call_once(struct rank *rank, size_t count)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_cuda_call call = PEAL_CUDA_CALL_INIT;
    call.collective = all.setup->collective;
    call.dtype = PEAL_FLOAT32;
    call.op = PEAL_SUM;
    call.count = call.collective == PEAL_ALLGATHER ? count / all.ranks : count;
    call.in = rank->in;
    call.out = rank->out;
    call.zero_sm = all.setup->zero_sm;
    call.symmetric = call.zero_sm;
    must(peal_cuda_enqueue(rank->comm, &call, rank->stream, &diag), &diag);
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
    call_once(rank, SMALL);
    finish(rank, rank->stream);
    double start = began();
    for (unsigned i = 0; i < ROUNDS * IN_GRAPH; i++)
        call_once(rank, SMALL);
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
        call_once(rank, SMALL);
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

static void launch_busy(struct rank *rank)
{
    struct {
        unsigned long long at, count, loops;
    } busy = {(uintptr_t)rank->in + COPY_BYTES / 2, LARGE / 4, 256};
    void *arguments[] = {&busy};
    driver(
        all.cuda->call.launch(rank->kernel, 64, 1, 1, 256, 1, 1, 0, rank->other, arguments, NULL),
        "cuLaunchKernel");
}

/* The kernel, the call, one behind the other, and both at once; also how long the kernel takes
 * then. */
static void measure_overlap(struct rank *rank, int which)
{
    const struct cuda_calls *call = &all.cuda->call;
    double start = began(), beside = 0;
    driver(call->context_push(rank->context), "cuCtxPushCurrent");
    for (unsigned i = 0; i < OVERLAPS; i++) {
        double one = now_us();
        if (which != CALL)
            launch_busy(rank);
        if (which == SERIAL)
            driver(call->stream_synchronize(rank->other), "cuStreamSynchronize");
        if (which != PRODUCT)
            call_once(rank, LARGE);
        driver(call->stream_synchronize(rank->other), "cuStreamSynchronize");
        beside += now_us() - one;
        driver(call->stream_synchronize(rank->stream), "cuStreamSynchronize");
    }
    driver(call->context_pop(&rank->context), "cuCtxPopCurrent");
    all.us[which][rank->number] = (now_us() - start) / OVERLAPS;
    if (which == TOGETHER)
        all.us[BESIDE][rank->number] = beside / OVERLAPS;
}

/* ---- ranks */

static void open_rank(struct rank *rank)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_cuda_params params = PEAL_CUDA_PARAMS_INIT;
    cu_handle module;
    params.device = rank->number % all.devices;
    params.heap_bytes = 2ull * COPY_BYTES + (1u << 20);
    must(peal_cuda_comm_create(all.cuda, all.world, all.table, rank->number, &params, &diag,
                               &rank->comm),
         &diag);
    must(peal_cuda_stream_create(rank->comm, &diag, &rank->stream), &diag);
    must(peal_cuda_stream_create(rank->comm, &diag, &rank->other), &diag);
    rank->in = peal_cuda_mem_alloc(rank->comm, COPY_BYTES);
    rank->out = peal_cuda_mem_alloc(rank->comm, COPY_BYTES);
    driver(all.cuda->call.context_retain(&rank->context, (cu_device)params.device), "a context");
    if (!all.busy)
        return;
    driver(all.cuda->call.context_push(rank->context), "cuCtxPushCurrent");
    driver(all.cuda->call.module_load(&module, all.busy), "cuModuleLoadData");
    driver(all.cuda->call.module_function(&rank->kernel, module, "device_busy"), "device_busy");
    driver(all.cuda->call.context_pop(&rank->context), "cuCtxPopCurrent");
}

static void *run(void *user)
{
    struct rank *rank = user;
    open_rank(rank);
    if (all.setup == setups) {
        measure_copy(rank);
        measure_calls(rank);
        measure_graph(rank);
    }
    call_once(rank, LARGE); /* what is done for the first time takes longer */
    if (all.busy)
        measure_overlap(rank, PRODUCT);
    finish(rank, rank->stream);
    for (int which = PRODUCT; all.busy && which <= TOGETHER; which++)
        measure_overlap(rank, which);
    (void)began();
    peal_cuda_stream_destroy(rank->comm, rank->stream);
    peal_cuda_stream_destroy(rank->comm, rank->other);
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
    request.collective = all.setup->collective;
    request.move_engine[PEAL_LINK_NVLINK] = (uint8_t)(all.setup->engine + 1);
    request.zero_sm = all.setup->zero_sm;
    request.max_bytes = 4ull * LARGE;
    request.max_sms = request.zero_sm ? 0 : 8;
    params.heap_bytes = 1u << 16;
    must(peal_fabric_load(ctx, topology, &diag, &fabric), &diag);
    must(peal_table_plan(ctx, fabric, &request, &diag, &all.table), &diag);
    must(peal_table_compile(all.table, fabric, &diag), &diag);
    must(peal_world_create(ctx, &params, all.table, &diag, &all.world), &diag);
    peal_fabric_destroy(fabric);
}

static char *read_code(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *code = malloc(16u << 20);
    if (!file || !code || fread(code, 1, 16u << 20, file) == 0)
        driver(CU_NOT_FOUND, path);
    (void)fclose(file);
    return code;
}

static double slowest(int which)
{
    double most = 0;
    for (uint32_t r = 0; r < all.ranks; r++)
        most = all.us[which][r] > most ? all.us[which][r] : most;
    return most;
}

static void print_first(const peal_cuda_device_info *about)
{
    printf("device     %s%s\n", about->name, about->stand_in ? " (times mean nothing)" : "");
    printf("copy       %.1f GB/s on the device, 32 MiB\n", COPY_BYTES / 2 / (slowest(COPY) * 1e3));
    printf("small      %.2f us a call of allreduce, %u B, %u ranks\n", slowest(CALLS), SMALL * 4,
           all.ranks);
    printf("replayed   %.2f us a call, %u calls a graph\n", slowest(GRAPH), IN_GRAPH);
}

static void print_overlap(void)
{
    printf("overlap-%s %.0f us the kernel, %.0f the call, %.0f one after the other, %.0f at once: "
           "%.0f %% of the call hidden, the kernel takes %.0f %% longer\n",
           all.setup->name, slowest(PRODUCT), slowest(CALL), slowest(SERIAL), slowest(TOGETHER),
           100 * (slowest(SERIAL) - slowest(TOGETHER)) / slowest(CALL),
           100 * (slowest(BESIDE) / slowest(PRODUCT) - 1));
}

static void run_setup(peal_ctx *ctx, const char *topology)
{
    struct rank ranks[MOST] = {{0}};
    pthread_t threads[MOST];
    plan(ctx, topology);
    for (uint32_t r = 0; r < all.ranks; r++) {
        ranks[r].number = r;
        if (pthread_create(&threads[r], NULL, run, &ranks[r]) != 0)
            driver(CU_OUT_OF_MEMORY, "a thread");
    }
    for (uint32_t r = 0; r < all.ranks; r++)
        (void)pthread_join(threads[r], NULL);
    peal_world_destroy(all.world);
    peal_table_destroy(all.table);
}

int main(int argc, char **argv)
{
    peal_ctx *ctx = NULL;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_cuda_device_info about = {.size = sizeof about};
    const char *library = argc > 3 && argv[3][0] ? argv[3] : "libcuda.so.1";
    all.ranks = argc > 2 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    if (all.ranks < 2 || all.ranks > MOST)
        return 2;
    must(peal_ctx_create(NULL, &ctx), &diag);
    must(peal_cuda_open(ctx, library, &diag, &all.cuda), &diag);
    must(peal_cuda_device(all.cuda, 0, &diag, &about), &diag);
    all.devices = about.devices;
    all.busy = argc > 4 ? read_code(argv[4]) : NULL;
    find(all.cuda->library, "cuStreamBeginCapture_v2", &all.graphs.begin);
    find(all.cuda->library, "cuStreamEndCapture", &all.graphs.end);
    find(all.cuda->library, "cuGraphInstantiateWithFlags", &all.graphs.make);
    find(all.cuda->library, "cuGraphLaunch", &all.graphs.launch);
    (void)pthread_barrier_init(&all.meet, NULL, all.ranks);
    for (size_t i = 0; i < SETUPS && (i == 0 || all.busy); i++) {
        all.setup = &setups[i];
        if (all.setup->engine == PEAL_ENGINE_TMA && about.arch < 90)
            continue;
        run_setup(ctx, argv[2]);
        if (i == 0)
            print_first(&about);
        if (all.busy)
            print_overlap();
    }
    return 0;
}
