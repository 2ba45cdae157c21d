/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: threads */
/* Calls on the stand-in for the CUDA driver: alone, mixed, captured and replayed. That every
 * collective is right on it is what tests/cli/gpu.sh runs. */
#include "cuda_comm.h"
#include "cuda_nic.h"
#include "cuda_pages.h"
#include "test_cuda_graphs.h"
#include "test_fixture.h"
#include "test_suite.h"

static struct graphs graphs;

/* ---- calls of both kinds */

static void mixed_body(struct rank *rank)
{
    peal_diag diag = PEAL_DIAG_INIT;
    for (uint32_t i = 0; i < 24; i++) {
        put_input(rank, i);
        SAY_OK(rank, gather(rank, i % 3 == 1, i % 2, &diag), diag);
        check_output(rank, i);
    }
}

/* Back to back, nobody waits for anything but in the end. */
static void queued_body(struct rank *rank)
{
    peal_diag diag = PEAL_DIAG_INIT;
    put_input(rank, 1);
    for (uint32_t i = 0; i < 40; i++)
        SAY_OK(rank, gather(rank, i % 5 == 3, 1, &diag), diag);
    check_output(rank, 1);
}

static void run(peal_collective collective, const char *algorithm, int zero_sm,
                void (*body)(struct rank *), uint32_t queues)
{
    static struct team team;
    memset(&team, 0, sizeof team);
    peal_cuda_params params = PEAL_CUDA_PARAMS_INIT;
    team.params = params;
    team.params.heap_bytes = 4u << 20;
    team.params.queues = queues;
    team.body = body;
    team.table = plan_for(ctx, collective, algorithm, zero_sm);
    const char *problem = run_team(ctx, &team, 20000);
    peal_table_destroy(team.table);
    ck_assert_msg(!problem[0], "%s", problem);
}

static const char *const gathers[] = {"direct", "ring", "halving"};

START_TEST(test_mixed)
{
    run(PEAL_ALLGATHER, gathers[_i], 1, mixed_body, 0);
}
END_TEST

START_TEST(test_queued)
{
    run(PEAL_ALLGATHER, gathers[_i], 1, queued_body, (uint32_t)_i);
}
END_TEST

/* ---- slots that are given back, and the last of them unheard */

#define CREDIT(r)                                                                                  \
    "wait r" r ".1 lag 2 put c0: in[0] -> r" r ".s0[0]@" r " ce e" r " signal r" r                 \
    ".1 ce after e" r " "
#define TAKER(r)                                                                                   \
    "rank " r " host 0 lane pre signal r0.0 ce *0 body wait r0.1 copy c0: s0[0] -> out[0] ce e0 "  \
    "await e0 delivered signal r0.1 ce "
static const char credits_text[] =
    "peal-table 1 plan broadcast ranks 4 root 0 bytes 8..65536 algorithm credits channels 1 "
    "chunks 1 tile 256 semaphores 92 region scratch width 1 depth 2 slot 256 "
    "link r0 -> r1 nvlink direct link r0 -> r2 nvlink direct link r0 -> r3 nvlink direct "
    "link r1 -> r0 nvlink direct link r2 -> r0 nvlink direct link r3 -> r0 nvlink direct "
    "rank 0 host 0 lane pre wait r1.0 wait r2.0 wait r3.0 +1 +2 +3 "
    "body " CREDIT("1") CREDIT("2")
        CREDIT("3") "await e1 free await e2 free await e3 free "
                    "copy c0: in[0] -> out[0] ce e4 await e4 delivered " TAKER("1") TAKER("2")
                        TAKER("3");

/* The next call begins with counts of 0. */
static void check_cells(struct rank *rank)
{
    const struct peal_cuda_comm *comm = rank->comm;
    for (uint32_t r = 0; r < RANKS; r++)
        for (uint32_t i = 0; i < comm->layout.nsems; i++) {
            uint64_t at = cuda_zero_cell(comm, r, CUDA_CELL_SEM + i);
            uint32_t cell = *(const uint32_t *)(uintptr_t)(comm->arena.at + at);
            SAY(rank, cell == 0, "a count of %u of rank %u is left", cell, r);
        }
}

static void credits_body(struct rank *rank)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_cuda_call call = PEAL_CUDA_CALL_INIT;
    call.collective = PEAL_BROADCAST;
    call.dtype = PEAL_UINT32;
    call.count = 1000;
    call.in = rank->in;
    call.out = rank->out;
    call.zero_sm = call.symmetric = 1;
    for (uint32_t i = 0; i < 5; i++) {
        put_input(rank, i);
        SAY_OK(rank, peal_cuda_enqueue(rank->comm, &call, rank->stream, &diag), diag);
        SAY_OK(rank, peal_cuda_copy(rank->comm, rank->host, rank->out, 4000, rank->stream, &diag),
               diag);
        SAY_OK(rank, peal_cuda_stream_wait(rank->comm, rank->stream, &diag), diag);
        for (uint32_t k = 0; k < 1000; k++)
            SAY(rank, rank->host[k] == value_of(0, k, i), "call %u: element %u is %#x", i, k,
                rank->host[k]);
        (void)pthread_barrier_wait(&rank->team->meet);
        check_cells(rank);
        (void)pthread_barrier_wait(&rank->team->meet);
    }
}

/* In the place of +r so many signals to the rank, of *r as many waits for it: what a driver takes
 * in one call is not all that a call has between two copies. */
static void with_signals(char *text, size_t room, int count)
{
    size_t used = 0;
    for (const char *from = credits_text; *from; from++) {
        int sends = *from == '+';
        if (!sends && *from != '*') {
            text[used++] = *from;
            continue;
        }
        from++;
        for (int i = 2; i < 2 + count; i++)
            used += (size_t)snprintf(text + used, room - used,
                                     sends ? "signal r%c.%d ce " : "wait r%c.%d ", *from, i);
    }
    text[used] = '\0';
}

START_TEST(test_credits)
{
    static struct team team;
    static char text[16384];
    peal_diag diag = PEAL_DIAG_INIT;
    peal_cuda_params params = PEAL_CUDA_PARAMS_INIT;
    with_signals(text, sizeof text, _i * 90);
    memset(&team, 0, sizeof team);
    team.params = params;
    team.params.heap_bytes = 4u << 20;
    team.body = credits_body;
    ck_assert_msg(peal_table_assemble(ctx, text, strlen(text), "credits", &diag, &team.table) ==
                      PEAL_OK,
                  "%s", diag.text);
    const char *problem = run_team(ctx, &team, 20000);
    peal_table_destroy(team.table);
    ck_assert_msg(!problem[0], "%s", problem);
}
END_TEST

/* ---- captured */

static void *capture(struct rank *rank, int zero_sm)
{
    peal_diag diag = PEAL_DIAG_INIT;
    void *graph = NULL, *exec = NULL, *context = NULL;
    SAY(rank, graphs.retain(&context, (int)rank->number) == 0, "no context");
    (void)graphs.push(context);
    (void)graphs.begin(rank->stream, 0);
    SAY_OK(rank, gather(rank, zero_sm, 1, &diag), diag);
    SAY_OK(rank, gather(rank, 0, 1, &diag), diag);
    SAY_OK(rank, gather(rank, zero_sm, 1, &diag), diag);
    SAY(rank, graphs.end(rank->stream, &graph) == 0, "the capture did not end");
    SAY(rank, graphs.make(&exec, graph, 0) == 0, "no graph");
    (void)graphs.drop(graph);
    (void)graphs.pop(&context);
    return exec;
}

/* Three calls a graph: an odd number, so that what it captured meets both parities. */
static void replay_body(struct rank *rank)
{
    peal_diag diag = PEAL_DIAG_INIT;
    void *context = NULL;
    /* A thread that captures forbids others what captures do not allow. */
    (void)pthread_barrier_wait(&rank->team->meet);
    void *exec[2] = {capture(rank, 0), capture(rank, 1)};
    (void)pthread_barrier_wait(&rank->team->meet);
    (void)graphs.retain(&context, (int)rank->number);
    for (uint32_t i = 0; i < 12; i++) {
        put_input(rank, i);
        (void)graphs.push(context);
        SAY(rank, graphs.launch(exec[i % 2], rank->stream) == 0, "no launch");
        (void)graphs.pop(&context);
        if (i % 3 == 0) /* and one beside it */
            SAY_OK(rank, gather(rank, i % 2, 1, &diag), diag);
        check_output(rank, i);
    }
    (void)graphs.drop_exec(exec[0]);
    (void)graphs.drop_exec(exec[1]);
    for (unsigned i = 0; i < 3; i++)
        (void)graphs.release((int)rank->number);
}

START_TEST(test_replay)
{
    load_graphs(&graphs);
    run(PEAL_ALLGATHER, gathers[_i % 3], 1, replay_body, _i < 3 ? 0 : 2);
}
END_TEST

/* ---- arguments */

static void arguments_body(struct rank *rank)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_cuda_call call = PEAL_CUDA_CALL_INIT;
    peal_cuda_comm_info info = {.size = sizeof info};
    call.collective = PEAL_ALLREDUCE;
    call.count = RANKS * COUNT;
    call.in = rank->in;
    call.out = rank->out;
    call.zero_sm = 1;
    peal_status status = peal_cuda_enqueue(rank->comm, &call, rank->stream, &diag);
    SAY(rank, status == PEAL_ERR_UNSUPPORTED && strstr(diag.text, "no zero-SM call"), "zero-SM: %s",
        diag.text);
    call.zero_sm = 0;
    call.max_sms = 1;
    status = peal_cuda_enqueue(rank->comm, &call, rank->stream, &diag);
    SAY(rank, status == PEAL_ERR_UNSUPPORTED && strstr(diag.text, "SMs"), "SMs: %s", diag.text);
    call.max_sms = 0;
    call.in = NULL;
    status = peal_cuda_enqueue(rank->comm, &call, rank->stream, &diag);
    SAY(rank, status == PEAL_ERR_ARG, "NULL: %s", diag.text);
    call.in = rank->in;
    call.collective = PEAL_BROADCAST;
    status = peal_cuda_enqueue(rank->comm, &call, rank->stream, &diag);
    SAY(rank, status == PEAL_ERR_RANGE, "not of the table: %s", diag.text);
    /* None of these was a call. */
    call.collective = PEAL_ALLREDUCE;
    SAY_OK(rank, peal_cuda_enqueue(rank->comm, &call, rank->stream, &diag), diag);
    SAY_OK(rank, peal_cuda_stream_wait(rank->comm, rank->stream, &diag), diag);
    SAY(rank,
        peal_cuda_comm_get(rank->comm, &info) == PEAL_OK && info.calls == 1 && info.driver_stand_in,
        "%u calls", (unsigned)info.calls);
    char *peer = peal_cuda_mem_peer(rank->comm, rank->in, (rank->number + 1) % RANKS);
    SAY(rank, peer && peer != (char *)rank->in, "a peer's memory is the own");
    SAY(rank, !peal_cuda_mem_peer(rank->comm, rank->host, 0), "host memory is symmetric");
    /* In one process also the caller's own memory is reached, of whatever kind the arena is. */
    uint32_t (*peers)(int device) = NULL;
    find(&graphs, "peal_stand_in_peers", &peers);
    SAY(rank, peers((int)rank->number) == (0xfu & ~(1u << rank->number)), "peers: %#x",
        peers((int)rank->number));
    SAY(rank, !peal_cuda_mem_alloc(rank->comm, 64u << 20), "more than the heap");
}

START_TEST(test_arguments)
{
    load_graphs(&graphs);
    run(PEAL_ALLREDUCE, "oneshot", 0, arguments_body, 0);
}
END_TEST

START_TEST(test_no_driver)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_cuda *cuda = NULL;
    ck_assert_int_eq(peal_cuda_open(ctx, "libthere-is-none.so.1", &diag, &cuda),
                     PEAL_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(diag.text, "no CUDA driver"));
    ck_assert_int_eq(peal_cuda_open(ctx, "libm.so.6", &diag, &cuda), PEAL_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(diag.text, "cuInit"));
    ck_assert_int_eq(peal_cuda_open(NULL, NULL, &diag, &cuda), PEAL_ERR_ARG);
    peal_cuda_close(NULL);
    peal_cuda_comm_destroy(NULL);
}
END_TEST

START_TEST(test_device)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_cuda *cuda = NULL;
    peal_cuda_device_info info = {.size = sizeof info};
    ck_assert_msg(peal_cuda_open(ctx, fake_path(), &diag, &cuda) == PEAL_OK, "%s", diag.text);
    ck_assert_int_eq(peal_cuda_device(cuda, 1, &diag, &info), PEAL_OK);
    ck_assert_str_eq(info.busid, "0000:11:00.0");
    ck_assert_uint_eq(info.arch, 90);
    ck_assert(info.stand_in && info.vmm && info.mem_ops && !info.fabric);
    ck_assert_int_eq(peal_cuda_device(cuda, info.devices, &diag, &info), PEAL_ERR_ARG);
    peal_cuda_close(cuda);
}
END_TEST

/* Memory that others allocated: each page is registered once, and given back. */
START_TEST(test_pages)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_cuda *cuda = NULL;
    cu_handle context;
    uint64_t one, other;
    char *memory = aligned_alloc(4096, 5 * 4096);
    ck_assert_msg(peal_cuda_open(ctx, fake_path(), &diag, &cuda) == PEAL_OK, "%s", diag.text);
    ck_assert_int_eq(cuda->call.context_retain(&context, 0), CU_SUCCESS);
    ck_assert_int_eq(cuda->call.context_push(context), CU_SUCCESS);
    struct cuda_pages pages = {.cuda = cuda};
    ck_assert_int_eq(cuda_pages_map(&pages, memory + 100, 8, 1, &one, &diag), PEAL_OK);
    ck_assert_int_eq(cuda_pages_map(&pages, memory + 4000, 96, 0, &other, &diag), PEAL_OK);
    ck_assert_uint_eq(other - one, 3900);
    ck_assert_ptr_null(pages.runs->next);
    ck_assert_int_eq(cuda_pages_map(&pages, memory + 4096, 2 * 4096, 0, &one, &diag), PEAL_OK);
    ck_assert_int_eq(cuda_pages_map(&pages, memory + 3 * 4096 - 4, 4, 0, &other, &diag), PEAL_OK);
    ck_assert_uint_eq(other - one, 2 * 4096 - 4);
    /* Of what is there in part, no driver makes one piece. */
    ck_assert_int_eq(cuda_pages_map(&pages, memory + 2 * 4096, 2 * 4096, 0, &one, &diag),
                     PEAL_ERR_IO);
    ck_assert_ptr_nonnull(strstr(diag.text, "cuMemHostRegister"));
    cuda_pages_free(&pages);
    ck_assert_int_eq(cuda_pages_map(&pages, memory, 5 * 4096, 0, &one, &diag), PEAL_OK);
    cuda_pages_free(&pages);
    ck_assert_int_eq(cuda->call.context_pop(&context), CU_SUCCESS);
    ck_assert_int_eq(cuda->call.context_release(0), CU_SUCCESS);
    peal_cuda_close(cuda);
    free(memory);
}
END_TEST

/* What makes queue pairs for kernels, as far as it comes without a NIC: it says what is missing,
 * and leaves nothing behind. */
START_TEST(test_no_nic)
{
    char why[128] = "";
    void *nic = NULL;
    peal_world *world = NULL;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    peal_table *table = plan_for(ctx, PEAL_ALLGATHER, "direct", 0);
    params.ranks = RANKS;
    ck_assert_int_eq(peal_world_create(ctx, &params, table, &diag, &world), PEAL_OK);
    struct peal_comm host = {.world = world};
    static struct peal_cuda_comm comm;
    comm.ctx = ctx;
    comm.host = &host;
    ck_assert_int_ne(cuda_nic_mlx5.open(&comm, table, &nic, why, sizeof why), 0);
    ck_assert_ptr_null(nic);
    ck_assert_msg(strstr(why, "not joined") || strstr(why, "libmlx5") || strstr(why, "mlx5dv.h"),
                  "%s", why);
    peal_world_destroy(world);
    peal_table_destroy(table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cuda");
    TCase *tests = tcase_create("cuda");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, test_no_driver);
    tcase_add_test(tests, test_device);
    tcase_add_test(tests, test_pages);
    tcase_add_test(tests, test_no_nic);
    tcase_add_loop_test(tests, test_mixed, 0, 3);
    tcase_add_loop_test(tests, test_queued, 0, 3);
    tcase_add_loop_test(tests, test_replay, 0, 6);
    tcase_add_loop_test(tests, test_credits, 0, 2);
    tcase_add_test(tests, test_arguments);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
