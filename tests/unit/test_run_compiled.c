/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: slow threads */
/*
 * What the compiler makes, called again and again on 8 ranks: sizes mixed, each rank delayed at
 * random, buffers rewritten between calls, every element checked. The plans of one table share
 * scratch and semaphores, and must follow each other in any order.
 */
#include "test_fixture.h"
#include "test_run.h"
#include "test_suite.h"

#include "support.h"

#include <check.h>
#include <time.h>

#define RANKS 8u
#define SOAK_BYTES 40000u
#ifdef PEAL_SANITIZED
#define SOAK_CALLS 1000u
#else
#define SOAK_CALLS 10000u
#endif

static const char two_hosts[] = "<peal version=\"1\" name=\"two\"><host name=\"h\" count=\"2\" "
                                "topology=\"slingshot-4gpu.xml\"/>"
                                "<network kind=\"rails\"/></peal>";

/* All of them on one host; where lanes also wait for engines, each call is in many more orders. */
#define CALLS_OF(setup) ((setup)->chaos ? SOAK_CALLS / 8 : SOAK_CALLS / (unsigned)(setup)->hosts)

struct setup {
    const char *name;
    const char *algorithm; /* NULL: what the planner chooses, several in one table */
    int hosts;
    peal_engine engine; /* of moves over nvlink */
    uint64_t tile;
    uint64_t chaos;
};

static const struct setup setups[] = {
    {"the table of one host", NULL, 1, PEAL_ENGINE_SM, 0, 0},
    {"the table of two hosts", NULL, 2, PEAL_ENGINE_SM, 0, 0},
    {"the table of two hosts under chaos", NULL, 2, PEAL_ENGINE_CE, 0, 5},
    {"ring, tiled, copy engine, chaos", "ring", 2, PEAL_ENGINE_CE, 512, 7},
    {"tree, tiled, copy engine, chaos", "tree", 2, PEAL_ENGINE_CE, 1024, 11},
    {"hierarchical, tiled, copy engine, chaos", "hierarchical", 2, PEAL_ENGINE_CE, 1024, 13},
};
#define SETUPS (sizeof setups / sizeof setups[0])

static peal_table *compile(const struct setup *setup)
{
    peal_fabric *fabric;
    peal_table *table;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_request request = PEAL_REQUEST_INIT;
    char base[4096];
    (void)snprintf(base, sizeof base, "%s", test_source_path("examples/topologies"));
    peal_status status = setup->hosts == 1 ? peal_fabric_host(ctx, RANKS, &diag, &fabric)
                                           : peal_fabric_parse(ctx, two_hosts, strlen(two_hosts),
                                                               "two hosts", base, &diag, &fabric);
    ck_assert_msg(status == PEAL_OK, "%s", diag.text);
    request.algorithm = setup->algorithm;
    request.max_bytes = SOAK_BYTES;
    request.tile_bytes = setup->tile;
    if (setup->hosts > 1)
        request.move_engine[PEAL_LINK_NVLINK] = (uint8_t)(setup->engine + 1);
    ck_assert_msg(peal_table_plan(ctx, fabric, &request, &diag, &table) == PEAL_OK, "%s",
                  diag.text);
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
    peal_fabric_destroy(fabric);
    return table;
}

static uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * 0x2545f4914f6cdd1du >> 20;
}

static int soak_body(struct rank_thread *self)
{
    static const peal_dtype dtypes[] = {PEAL_FLOAT32, PEAL_INT8, PEAL_FLOAT64, PEAL_BFLOAT16};
    uint64_t common = 0x1234567, own = 0x9876543 + self->rank;
    const struct setup *setup = self->user;
    char *memory = malloc(4 * (size_t)SOAK_BYTES);
    int failed = !memory;
    for (unsigned call = 0; call < CALLS_OF(setup) && !failed; call++) {
        peal_dtype dtype = dtypes[draw(&common) % 4];
        size_t limit = draw(&common) % 4 ? 600 : SOAK_BYTES;
        size_t count = (size_t)(draw(&common) % limit) / peal_dtype_size(dtype);
        int in_place = draw(&common) % 2 == 0;
        char *in = memory + SOAK_BYTES * (draw(&own) % 2);
        char *out = in_place ? in : memory + SOAK_BYTES * (2 + draw(&own) % 2);
        if (draw(&own) % 100 == 0) {
            struct timespec pause = {0, (long)(draw(&own) % 200000)};
            (void)nanosleep(&pause, NULL);
        }
        failed = checked_call(self->comm, self->ranks, self->rank, in, out, count, dtype,
                              (peal_op)(call % PEAL_OP_COUNT), call, self->problem);
    }
    free(memory);
    return failed;
}

START_TEST(calls_compose)
{
    const struct setup *setup = &setups[_i];
    peal_table *table = compile(setup);
    peal_table_info info = {.size = sizeof info};
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.chaos_seed = setup->chaos;
    ck_assert_int_eq(peal_table_get(table, &info), PEAL_OK);
    const char *problem =
        run_ranks(ctx, table, RANKS, &params, soak_body, (void *)(uintptr_t)setup);
    ck_assert_msg(!problem, "%s: %s", setup->name, problem);
    printf("%s: %u calls on %u ranks, %u plans, no wrong element\n", setup->name, CALLS_OF(setup),
           RANKS, info.rows);
    peal_table_destroy(table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run_compiled");
    TCase *tests = tcase_create("soak");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, calls_compose, 0, SETUPS);
    tcase_set_timeout(tests, 280);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_NOFORK);
}
