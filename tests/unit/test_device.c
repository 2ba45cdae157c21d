/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: threads */
/*
 * The device interpreter, compiled for the host: what the compiler makes is run by it, with lanes
 * scheduled at random and engines that are as unkind as they may be, and compared with a reference
 * that knows peal.h alone. Calls of one world follow each other, so that parities, epochs and
 * semaphores go on.
 */
#include "test_device.h"
#include "support.h"

#include <check.h>

#define LARGEST 6000u
#define HALF ((size_t)EMU_RANKS * LARGEST + 4 * GUARD)

#ifdef PEAL_SANITIZED
#define TURNS 1u
#else
#define TURNS 4u
#endif

static struct test_heap heap;
static peal_ctx *ctx;
static unsigned schedules; /* calls made, each of its own seed */

static void set_up(void)
{
    ctx = test_ctx(&heap);
}

static void tear_down(void)
{
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}

/* ---- plans */

struct setup {
    const char *algorithm; /* NULL: any, of all collectives in one table */
    unsigned hosts;
    unsigned gpus;
    peal_engine engine; /* of moves over nvlink */
    uint64_t tile;
    peal_wire wire;
};

static const struct setup setups[] = {
    {NULL, 1, 1, PEAL_ENGINE_SM, 0, PEAL_WIRE_NONE},
    {NULL, 1, 2, PEAL_ENGINE_SM, 0, PEAL_WIRE_NONE},
    {NULL, 1, 3, PEAL_ENGINE_SM, 0, PEAL_WIRE_NONE},
    {NULL, 1, 4, PEAL_ENGINE_SM, 512, PEAL_WIRE_NONE},
    {NULL, 1, 5, PEAL_ENGINE_TMA, 0, PEAL_WIRE_NONE},
    {NULL, 1, 6, PEAL_ENGINE_TMA, 1024, PEAL_WIRE_NONE},
    {NULL, 1, 7, PEAL_ENGINE_CE, 0, PEAL_WIRE_NONE},
    {NULL, 1, 8, PEAL_ENGINE_CE, 2048, PEAL_WIRE_NONE},
    {NULL, 2, 2, PEAL_ENGINE_SM, 0, PEAL_WIRE_NONE},
    {NULL, 2, 4, PEAL_ENGINE_TMA, 512, PEAL_WIRE_NONE},
    {NULL, 3, 2, PEAL_ENGINE_CE, 1024, PEAL_WIRE_NONE},
    {"ring", 1, 4, PEAL_ENGINE_TMA, 512, PEAL_WIRE_NONE},
    {"tree", 1, 5, PEAL_ENGINE_CE, 512, PEAL_WIRE_NONE},
    {"oneshot", 1, 8, PEAL_ENGINE_SM, 0, PEAL_WIRE_NONE},
    {"twoshot", 1, 8, PEAL_ENGINE_SM, 1024, PEAL_WIRE_NONE},
    {"direct", 1, 6, PEAL_ENGINE_SM, 512, PEAL_WIRE_NONE},
    {"hierarchical", 2, 3, PEAL_ENGINE_TMA, 512, PEAL_WIRE_NONE},
    {"packed", 1, 4, PEAL_ENGINE_TMA, 1024, PEAL_WIRE_NONE},
    {"swing", 1, 8, PEAL_ENGINE_SM, 512, PEAL_WIRE_NONE},
    {"doubling", 1, 4, PEAL_ENGINE_CE, 0, PEAL_WIRE_NONE},
    {"halving", 1, 8, PEAL_ENGINE_TMA, 512, PEAL_WIRE_NONE},
    {"bruck", 1, 7, PEAL_ENGINE_SM, 512, PEAL_WIRE_NONE},
    {"star", 1, 3, PEAL_ENGINE_SM, 512, PEAL_WIRE_NONE},
    {"chain", 1, 4, PEAL_ENGINE_CE, 512, PEAL_WIRE_NONE},
    {"pull", 1, 4, PEAL_ENGINE_SM, 512, PEAL_WIRE_NONE},
    {"twohop", 2, 2, PEAL_ENGINE_SM, 512, PEAL_WIRE_NONE},
};
#define SETUPS (sizeof setups / sizeof setups[0])

static peal_table *make_table(const struct setup *setup)
{
    peal_fabric *fabric = coll_cluster(ctx, setup->hosts, setup->gpus);
    peal_request request = PEAL_REQUEST_INIT;
    request.ranks = setup->hosts * setup->gpus;
    request.max_bytes = (uint64_t)request.ranks * LARGEST;
    request.algorithm = setup->algorithm;
    request.tile_bytes = setup->tile;
    if (setup->engine != PEAL_ENGINE_SM)
        request.move_engine[PEAL_LINK_NVLINK] = (uint8_t)(setup->engine + 1);
    peal_table *table = coll_all(ctx, fabric, request, 5);
    peal_fabric_destroy(fabric);
    return table;
}

/* ---- calls */

static int draw_call(const peal_table *table, uint64_t *random, unsigned number,
                     struct coll_call *c)
{
    *c = (struct coll_call){.ranks = table->nranks, .salt = number};
    for (unsigned i = 0; i < 200; i++) {
        c->collective = (peal_collective)(emu_draw(random) % PEAL_CUSTOM);
        c->root = coll_rooted(c->collective) || c->collective == PEAL_SENDRECV
                      ? (unsigned)(emu_draw(random) % 2 * 2 % c->ranks)
                      : 0;
        c->peer = c->collective == PEAL_SENDRECV ? 1 - c->root : 0;
        c->dtype = (peal_dtype)(emu_draw(random) % PEAL_DTYPE_COUNT);
        c->op = (peal_op)(emu_draw(random) % PEAL_OP_COUNT);
        size_t limit = emu_draw(random) % 3 ? 200 : LARGEST;
        c->count = (size_t)(emu_draw(random) % limit) / peal_dtype_size(c->dtype);
        c->in_place = coll_in_place(c->collective) && emu_draw(random) % 2;
        if (coll_served(table, c))
            return 1;
    }
    return 0;
}

START_TEST(plans_are_right)
{
    const struct setup *setup = &setups[_i];
    peal_table *table = make_table(setup);
    struct device_memory *memory = device_memory_make(HALF);
    char problem[1024];
    ck_assert_msg(table, "setup %d: no plans", _i);
    for (uint32_t width = 1; width <= 2; width++) {
        uint64_t random = 0x1234567u + (unsigned)_i + width;
        struct emu_world *world = emu_create(ctx, table, width, random);
        for (unsigned turn = 0; turn < TURNS; turn++) {
            struct coll_call calls[DEVICE_CALLS];
            for (unsigned i = 0; i < DEVICE_CALLS; i++)
                ck_assert(draw_call(table, &random, turn * DEVICE_CALLS + i, &calls[i]));
            memory->shift = emu_draw(&random) % 2 ? 0 : 8;
            world->seed = emu_draw(&random);
            int wrong = device_calls(world, calls, DEVICE_CALLS, memory, problem);
            ck_assert_msg(!wrong, "setup %d, %u threads a lane, turn %u: %s", _i, width, turn,
                          problem);
            schedules += DEVICE_CALLS;
        }
        emu_destroy(world);
    }
    device_memory_free(memory);
    peal_table_destroy(table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device");
    TCase *tests = tcase_create("matrix");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, plans_are_right, 0, SETUPS);
    tcase_set_timeout(tests, 280);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    printf("%u calls, each with a schedule of its own\n", schedules);
    return failed != 0;
}
