/* SPDX-License-Identifier: Apache-2.0 */
/* Private buffers of processes: staged, taking turns with the places of an area, or attached to;
 * the same results either way, and whichever way a call goes through them. */
#include "comm.h"
#include "support.h"
#include "test_suite.h"

#include <check.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS 3u
#define COUNT 140001u /* elements of the larger buffer: more than 512 KiB */
#define CALLS 40u     /* many times round the area */

static const struct {
    peal_collective collective;
    const char *algorithm;
} cases[] = {
    {PEAL_ALLREDUCE, "twoshot"},     {PEAL_ALLREDUCE, "pull"},      {PEAL_ALLREDUCE, "ring"},
    {PEAL_REDUCE_SCATTER, "direct"}, {PEAL_ALLGATHER, "pull"},      {PEAL_ALLGATHER, "direct"},
    {PEAL_ALLTOALL, "pull"},         {PEAL_ALLTOALL, "direct"},     {PEAL_BROADCAST, "pull"},
    {PEAL_BROADCAST, "tree"},        {PEAL_REDUCE_SCATTER, "ring"}, {PEAL_SCATTER, "pull"}};
#define CASES (sizeof cases / sizeof *cases)

struct shared {
    _Atomic uint64_t staged; /* by all ranks */
    _Atomic uint64_t attached;
    uint32_t dear; /* ns a KiB, as if the gauge had said so */
    int crowded;   /* as if ranks shared processors */
    char text[RANKS][700];
};

static peal_table *plan(peal_ctx *ctx, unsigned number)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_fabric *fabric;
    peal_table *table;
    peal_request request = PEAL_REQUEST_INIT;
    request.collective = cases[number].collective;
    request.algorithm = cases[number].algorithm;
    request.max_bytes = 1u << 20;
    request.private_buffers = 1;
    ck_assert_int_eq(peal_fabric_host(ctx, RANKS, &diag, &fabric), PEAL_OK);
    ck_assert_msg(peal_table_plan(ctx, fabric, &request, &diag, &table) == PEAL_OK, "%s",
                  diag.text);
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
    peal_fabric_destroy(fabric);
    return table;
}

static int32_t value(uint32_t rank, size_t i, unsigned call)
{
    return (int32_t)(rank * 101 + i * 3 + call);
}

static int32_t wanted(peal_collective collective, uint32_t rank, size_t i, size_t count,
                      unsigned call)
{
    int32_t sum = 101 * (int32_t)(RANKS * (RANKS - 1) / 2);
    switch (collective) {
    case PEAL_ALLREDUCE:
        return (int32_t)RANKS * value(0, i, call) + sum;
    case PEAL_REDUCE_SCATTER:
        return (int32_t)RANKS * value(0, rank * count + i, call) + sum;
    case PEAL_ALLGATHER:
        return value((uint32_t)(i / count), i % count, call);
    case PEAL_BROADCAST:
        return value(0, i, call);
    case PEAL_SCATTER:
        return value(0, rank * count + i, call);
    default:
        return value((uint32_t)(i / count), rank * count + i % count, call);
    }
}

/* From now on calls are cut into many parts, on all ranks. */
static void cut_finely(peal_comm *comm)
{
    comm->part_bytes = comm->part_bytes ? 4096 : 0;
    comm->part_folds = comm->part_moves;
    comm->last = NULL;
    for (uint32_t i = 0; i < comm->nrows; i++)
        comm->rows[i].known = 0;
}

/* Backwards the same steps, those that only move to the own output the other way round. */
static const char *check_orders(const struct rt_row *row, peal_collective kind)
{
    uint32_t seen = 0, first = 0;
    if (!row->back)
        return strcmp(row->algorithm, "pull") == 0 &&
                       (kind == PEAL_ALLTOALL || kind == PEAL_ALLGATHER)
                   ? "no way back"
                   : NULL;
    for (uint32_t i = 0; i < row->nsteps; i++)
        seen |= 1u << row->back[i].number;
    while (first < row->nsteps && row->back[first].kind != RT_MOVE)
        first++;
    for (uint32_t i = first + 1; i < row->nsteps; i++)
        if (row->back[i].kind == RT_MOVE && row->back[i].number > row->back[first].number)
            return "backwards not the last move comes first";
    return seen + 1 == 1u << row->nsteps ? NULL : "backwards some steps are not made";
}

/* Every second call in place, where there is that. NULL: all right. */
static const char *check_calls(peal_comm *comm, uint32_t rank, unsigned number, peal_diag *diag)
{
    static int32_t in[COUNT], out[COUNT];
    peal_collective kind = cases[number].collective;
    int whole = kind == PEAL_ALLREDUCE || kind == PEAL_BROADCAST;
    size_t count = whole ? COUNT : COUNT / RANKS;
    size_t ins = kind == PEAL_ALLGATHER ? count : whole ? count : count * RANKS;
    size_t outs = kind == PEAL_ALLGATHER || kind == PEAL_ALLTOALL ? count * RANKS : count;
    for (unsigned c = 0; c < CALLS; c++) {
        int in_place = c % 2 && kind == PEAL_ALLREDUCE;
        peal_call call = PEAL_CALL_INIT;
        peal_pending *pending;
        if (c == CALLS / 2)
            cut_finely(comm);
        for (size_t i = 0; i < ins; i++)
            (in_place ? out : in)[i] = value(rank, i, c);
        call.collective = kind;
        call.in = in_place ? out : in;
        call.out = out;
        call.count = count;
        call.dtype = PEAL_INT32;
        if (peal_pending_create(comm, &call, diag, &pending) != PEAL_OK)
            return diag->text;
        peal_status status = peal_start(pending, diag);
        if (status == PEAL_OK)
            status = peal_wait(pending, diag);
        peal_pending_destroy(pending);
        if (status != PEAL_OK)
            return diag->text;
        for (size_t i = 0; i < outs; i++)
            if (out[i] != wanted(kind, rank, i, count, c))
                return "a wrong element";
    }
    return NULL;
}

static void rank_process(struct shared *shared, peal_world *world, peal_table *table, uint32_t rank,
                         unsigned number)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_comm *comm;
    peal_counter counter = {.size = sizeof counter};
    const char *problem = diag.text;
    if (peal_comm_create(world, table, rank, &diag, &comm) == PEAL_OK) {
        comm->dear = shared->dear;
        atomic_store(&comm->board->dear[RT_GAUGE_LOAD], shared->dear);
        if (shared->dear || shared->crowded) {
            comm->crowded = shared->crowded;
            comm->attach_early = comm->attaches && !shared->crowded;
            comm->attach_crowded = comm->attaches && shared->crowded;
        }
        problem = check_orders(comm->rows, cases[number].collective);
        if (!problem)
            problem = check_calls(comm, rank, number, &diag);
    }
    (void)snprintf(shared->text[rank], sizeof shared->text[0], "%s", problem ? problem : "");
    if (problem)
        _exit(1);
    for (uint32_t i = 0; peal_comm_counter(comm, i, &counter) == PEAL_OK; i++) {
        atomic_fetch_add(&shared->staged, counter.staged);
        atomic_fetch_add(&shared->attached, counter.attached);
    }
    peal_comm_destroy(comm);
    _exit(0);
}

/* attach_bytes 0: it is left to the runtime, which finds staging dear, or ranks crowded. */
static void run_case(unsigned number, uint64_t attach_bytes, int crowded, struct shared *shared)
{
    struct test_heap heap;
    peal_ctx *ctx = test_ctx(&heap);
    peal_table *table = plan(ctx, number);
    peal_diag diag = PEAL_DIAG_INIT;
    peal_world *world;
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.ranks = RANKS;
    params.heap_bytes = 8u << 20;
    params.private_buffers = 1;
    params.attach_bytes = attach_bytes;
    ck_assert_msg(peal_world_create(ctx, &params, table, &diag, &world) == PEAL_OK, "%s",
                  diag.text);
    memset(shared, 0, sizeof *shared);
    shared->dear = attach_bytes == 0 && !crowded ? 1000 : 0;
    shared->crowded = crowded;
    pid_t pid[RANKS];
    for (uint32_t r = 0; r < RANKS; r++)
        if ((pid[r] = fork()) == 0)
            rank_process(shared, world, table, r, number);
    int how, bad = 0;
    for (uint32_t r = 0; r < RANKS; r++)
        bad |= waitpid(pid[r], &how, 0) != pid[r] || how != 0;
    for (uint32_t r = 0; r < RANKS; r++)
        ck_assert_msg(!shared->text[r][0], "%s %s: rank %u: %s", cases[number].algorithm,
                      peal_collective_name(cases[number].collective), r, shared->text[r]);
    ck_assert_int_eq(bad, 0);
    peal_world_destroy(world);
    peal_table_destroy(table);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}

static struct shared *make_shared(void)
{
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    return shared;
}

/* Rings of reductions reach nobody's buffers. */
static int reaches(unsigned number)
{
    return strcmp(cases[number].algorithm, "ring") != 0;
}

START_TEST(test_staged)
{
    struct shared *shared = make_shared();
    run_case((unsigned)_i, UINT64_MAX, 0, shared);
    ck_assert_uint_eq(shared->attached, 0);
    if (reaches((unsigned)_i))
        ck_assert_uint_ge(shared->staged, CALLS);
    (void)munmap(shared, sizeof *shared);
}
END_TEST

START_TEST(test_attached)
{
    struct shared *shared = make_shared();
    run_case((unsigned)_i, 1, 0, shared);
    if (shared->staged)
        printf("this machine's kernel lets no process attach to another\n");
    else if (reaches((unsigned)_i))
        ck_assert_uint_ge(shared->attached, CALLS);
    (void)munmap(shared, sizeof *shared);
}
END_TEST

/* By default, where staging is dear. Where ranks share processors, what each reads for himself. */
START_TEST(test_by_default)
{
    static const struct {
        unsigned number;
        int crowded;
        int attached;
    } some[] = {{0, 0, 1}, {5, 0, 1}, {6, 0, 1}, {8, 0, 1},
                {0, 1, 0}, {6, 1, 1}, {7, 1, 1}, {8, 1, 0}};
    struct shared *shared = make_shared();
    run_case(some[_i].number, 0, some[_i].crowded, shared);
    if (!some[_i].attached)
        ck_assert_uint_eq(shared->attached, 0);
    else if (shared->attached == 0)
        printf("this machine's kernel lets no process attach to another\n");
    else /* some call may have been timed in its last part, and therefore staged */
        ck_assert_uint_ge(shared->attached, CALLS - 2);
    (void)munmap(shared, sizeof *shared);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attach");
    TCase *tests = tcase_create("attach");
    tcase_add_loop_test(tests, test_staged, 0, (int)CASES);
    tcase_add_loop_test(tests, test_attached, 0, (int)CASES);
    tcase_add_loop_test(tests, test_by_default, 0, 8);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
