/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: slow threads */
/* Every collective by every algorithm that serves it, over shared memory and over a simulated
 * cluster with each engine, against the reference: all roots, types, operations, in place and
 * not, counts from none to many. */
#include "compiler.h"
#include "support.h"
#include "test_fixture.h"
#include "test_forks.h"
#include "test_run_moves.h"
#include "test_suite.h"

#include <check.h>

#ifdef PEAL_SANITIZED
#define THOROUGH 0 /* calls take long */
#define LARGE 20011u
#else
#define THOROUGH 1
#define LARGE 50021u
#endif
#define HALF ((size_t)RANKS_MAX * LARGE * 8 + 4 * GUARD)

/* ---- the machines */

enum machine { HOST, SM, CE, TMA, NETWORK, MACHINES, MESH = MACHINES, PCIE };

static peal_fabric *fabric_of(enum machine machine, unsigned ranks)
{
    peal_fabric *fabric = NULL;
    if (machine == MESH || machine == PCIE)
        ck_assert_int_eq(
            peal_fabric_load(ctx,
                             test_source_path(machine == MESH
                                                  ? "examples/topologies/dgx1-v100.xml"
                                                  : "examples/topologies/pcie-8gpu.xml"),
                             NULL, &fabric),
            PEAL_OK);
    else if (machine == HOST)
        ck_assert_int_eq(peal_fabric_host(ctx, ranks, NULL, &fabric), PEAL_OK);
    else if (machine == NETWORK)
        fabric = coll_cluster(ctx, RANKS_MAX, 1);
    else
        fabric = coll_cluster(ctx, 2, 4);
    return fabric;
}

static peal_request request_for(enum machine machine, unsigned ranks)
{
    static const peal_engine engines[MACHINES] = {
        [SM] = PEAL_ENGINE_SM, [CE] = PEAL_ENGINE_CE, [TMA] = PEAL_ENGINE_TMA};
    peal_request request = PEAL_REQUEST_INIT;
    request.ranks = ranks;
    request.max_bytes = (uint64_t)ranks * LARGE * 8;
    if (machine == SM || machine == CE || machine == TMA)
        request.move_engine[PEAL_LINK_NVLINK] = (uint8_t)(engines[machine] + 1);
    return request;
}

/* ---- the calls */

struct grid {
    const peal_table *table;
    unsigned roots;
    unsigned turn; /* to begin with: another one for each table */
    unsigned calls;
};

#define EVERY 7u /* the count that takes all types and operations, in every third turn */
static const size_t counts[] = {0, 1, EVERY, 8, 1003, LARGE};
#define COUNTS (sizeof counts / sizeof *counts)

/* The others take each type with an operation by turns, and the largest takes one. */
static int taken(peal_collective collective, unsigned d, unsigned o, size_t count, unsigned turn)
{
    unsigned combination = d * PEAL_OP_COUNT + o;
    if (!coll_reduces(collective) &&
        (o != PEAL_SUM || (d != PEAL_FLOAT32 && d != PEAL_INT8 && d != PEAL_UINT64)))
        return 0;
    if (!coll_reduces(collective))
        return count < LARGE || d == PEAL_UINT64;
    if (count == LARGE)
        return combination == turn * 7 % (PEAL_DTYPE_COUNT * PEAL_OP_COUNT);
    return (THOROUGH && count == EVERY && turn % 3 == 0) || o == (d + turn + count) % PEAL_OP_COUNT;
}

static int run_counts(struct rank_thread *self, struct coll_call c, char *memory, unsigned turn)
{
    struct grid *grid = self->user;
    int failed = 0;
    for (unsigned k = 0; k < COUNTS && !failed; k++) {
        c.count = counts[k];
        if (!taken(c.collective, c.dtype, c.op, c.count, turn) || !coll_served(grid->table, &c))
            continue;
        for (c.in_place = 0; c.in_place <= coll_in_place(c.collective) && !failed; c.in_place++) {
            c.salt += 3;
            failed = coll_checked(self->comm, &c, self->rank, memory, HALF, self->problem);
            if (self->rank == 0)
                grid->calls++;
        }
    }
    return failed;
}

static int run_types(struct rank_thread *self, struct coll_call c, char *memory, unsigned turn)
{
    int failed = 0;
    for (unsigned d = 0; d < PEAL_DTYPE_COUNT && !failed; d++) {
        for (unsigned o = 0; o < PEAL_OP_COUNT && !failed; o++) {
            c.dtype = (peal_dtype)d;
            c.op = (peal_op)o;
            c.salt = turn * 1000 + d * 100 + o;
            failed = run_counts(self, c, memory, turn);
        }
    }
    return failed;
}

/* A rank's memory, kept for the next table: what takes long is to be given pages. */
static char *memory_of(unsigned rank)
{
    static char *memory[RANKS_MAX];
    if (!memory[rank])
        memory[rank] = malloc(2 * HALF);
    return memory[rank];
}

static int grid_body(struct rank_thread *self)
{
    const struct grid *grid = self->user;
    char *memory = memory_of(self->rank);
    int failed = !memory;
    unsigned turn = grid->turn;
    for (int c = 0; c < PEAL_CUSTOM && !failed; c++) {
        int ends = coll_rooted((peal_collective)c) || c == PEAL_SENDRECV;
        for (unsigned root = 0; root < (ends ? self->ranks : 1) && !failed; root++) {
            struct coll_call call = {
                .collective = (peal_collective)c, .ranks = self->ranks, .root = root};
            call.peer = c == PEAL_SENDRECV ? 1 - root : 0;
            if (grid->roots >> root & 1 && coll_served(grid->table, &call))
                failed = run_types(self, call, memory, turn++);
        }
    }
    return failed;
}

/* ---- the grid */

static unsigned run_table(const peal_fabric *fabric, const peal_request *request, unsigned roots,
                          const peal_world_params *params, const char *name)
{
    static unsigned tables;
    struct grid grid = {.roots = roots, .turn = request->ranks + tables++};
    peal_table *table = coll_all(ctx, fabric, *request, roots);
    if (!table)
        return 0;
    grid.table = table;
    const char *problem = run_ranks(ctx, table, request->ranks, params, grid_body, &grid);
    ck_assert_msg(!problem, "%s, %u ranks, tile %llu: %s", name, request->ranks,
                  (unsigned long long)request->tile_bytes, problem);
    peal_table_destroy(table);
    return grid.calls;
}

static const unsigned sizes[] = {1, 2, 3, 4, 5, 8};
#define SIZES (sizeof sizes / sizeof *sizes)

static unsigned roots_of(unsigned ranks)
{
    if (!THOROUGH)
        return 1u << 0 | 1u << (ranks - 1);
    return ranks == 8 ? 1u << 0 | 1u << 3 | 1u << 7 : (1u << ranks) - 1;
}

static void run_algorithm(enum machine machine, unsigned ranks, const char *algorithm,
                          uint64_t tile, int private_buffers)
{
    peal_fabric *fabric = fabric_of(machine, ranks);
    peal_request request = request_for(machine, ranks);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    request.algorithm = algorithm;
    request.tile_bytes = tile;
    params.private_buffers = private_buffers;
    unsigned calls =
        run_table(fabric, &request, roots_of(ranks), &params, algorithm ? algorithm : "chosen");
    printf("machine %d, %u ranks, %s, tile %llu: %u calls\n", (int)machine, ranks,
           algorithm ? algorithm : "chosen", (unsigned long long)tile, calls);
    peal_fabric_destroy(fabric);
}

/* ---- what is run: each in a process of its own, and two at a time, since planning takes one
 * processor, and calls have all ranks wait for one */

static void agree(int run)
{
    enum machine machine = (enum machine)(run / (int)SIZES);
    unsigned ranks = sizes[run % (int)SIZES];
    run_algorithm(machine, ranks, NULL, 0, run % 2);
    for (unsigned a = 0; a < ALGO_COUNT && ranks > 1; a++)
        run_algorithm(machine, ranks, peal_algo_get((enum algorithm)a)->name,
                      (a + (unsigned)run) % 2 ? 4096 : 0, (run + 1) % 2);
}

/* Trees of a cube mesh, tiled and not, and of PCIe switches. */
static void agree_packed(int run)
{
    static const struct {
        enum machine machine;
        unsigned ranks;
        uint64_t tile;
    } runs[] = {{MESH, 3, 0}, {MESH, 5, 4096}, {MESH, 7, 0}, {MESH, 8, 4096}, {PCIE, 5, 4096}};
    run_algorithm(runs[run].machine, runs[run].ranks, "packed", runs[run].tile, run % 2);
}

/* Asynchronous engines at their worst. */
static void withstand_chaos(int run)
{
    enum machine machine = (enum machine)(CE + run % 3);
    peal_fabric *fabric = fabric_of(machine, 4);
    peal_request request = request_for(machine, 4);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.chaos_seed = 17 + (uint64_t)run * 1000003;
    params.private_buffers = run % 2;
    request.tile_bytes = run < 3 ? 0 : 16384;
    ck_assert_uint_gt(run_table(fabric, &request, 0x5, &params, "chaos"), 0);
    peal_fabric_destroy(fabric);
}

static int in_own_context(void (*body)(int run), int run)
{
    set_up();
    body(run);
    tear_down();
    return 0;
}

/* Those that take longest come first. */
static int agree_run(int run)
{
    return in_own_context(agree, MACHINES * (int)SIZES - 1 - run);
}

static int packed_run(int run)
{
    return in_own_context(agree_packed, run);
}

static int chaos_run(int run)
{
    return in_own_context(withstand_chaos, run);
}

START_TEST(all_collectives_agree_with_the_reference)
{
    ck_assert_uint_eq(run_forked(agree_run, MACHINES * (int)SIZES, 2), 0);
}
END_TEST

START_TEST(packed_trees_agree_with_the_reference)
{
    ck_assert_uint_eq(run_forked(packed_run, 5, 2), 0);
}
END_TEST

START_TEST(all_collectives_withstand_chaos)
{
    ck_assert_uint_eq(run_forked(chaos_run, 6, 2), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run_collectives");
    TCase *tests = tcase_create("collectives");
    tcase_add_test(tests, all_collectives_agree_with_the_reference);
    tcase_add_test(tests, packed_trees_agree_with_the_reference);
    tcase_add_test(tests, all_collectives_withstand_chaos);
    tcase_set_timeout(tests, 280);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
