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
#include "test_fault_plans.h"
#include "test_fixture.h"

#include <check.h>

#define LARGEST 6000u
#define HALF ((size_t)EMU_RANKS * LARGEST + 4 * GUARD)

#ifdef PEAL_SANITIZED
#define TURNS 1u
#else
#define TURNS 4u
#endif

static unsigned schedules; /* calls made, each of its own seed */

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
    {"eager", 2, 3, PEAL_ENGINE_SM, 0, PEAL_WIRE_NONE},
    {"nvls", 1, 4, PEAL_ENGINE_SM, 512, PEAL_WIRE_NONE},
    {"compressed", 1, 4, PEAL_ENGINE_SM, 512, PEAL_WIRE_BF16},
    {"compressed", 1, 4, PEAL_ENGINE_SM, 0, PEAL_WIRE_FP8},
    {"compressed", 1, 3, PEAL_ENGINE_CE, 1024, PEAL_WIRE_FP8},
};
#define SETUPS (sizeof setups / sizeof setups[0])

static peal_table *make_table(const struct setup *setup)
{
    int switched = setup->algorithm && strcmp(setup->algorithm, "nvls") == 0;
    peal_fabric *fabric = switched ? machine_of(ctx, SWITCHED, setup->gpus)
                                   : coll_cluster(ctx, setup->hosts, setup->gpus);
    peal_request request = PEAL_REQUEST_INIT;
    request.ranks = setup->hosts * setup->gpus;
    request.max_bytes = (uint64_t)request.ranks * LARGEST;
    request.algorithm = setup->algorithm;
    request.tile_bytes = setup->tile;
    if (setup->engine != PEAL_ENGINE_SM)
        request.move_engine[PEAL_LINK_NVLINK] = (uint8_t)(setup->engine + 1);
    request.wire = setup->wire;
    peal_table *table =
        setup->wire ? coll_table(ctx, fabric, &request) : coll_all(ctx, fabric, request, 5);
    peal_fabric_destroy(fabric);
    return table;
}

/* ---- calls */

static int draw_call(const peal_table *table, int wire, uint64_t *random, unsigned number,
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
        if (wire) { /* its inputs are numbers that the rounding leaves alone */
            c->dtype = PEAL_FLOAT32;
            c->op = PEAL_SUM;
            c->count = c->count / 4 + 1;
        }
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
                ck_assert(draw_call(table, setup->wire != PEAL_WIRE_NONE, &random,
                                    turn * DEVICE_CALLS + i, &calls[i]));
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

/* ---- one plan of four engines, among which a hop to another host */

START_TEST(engines_mix_in_one_schedule)
{
    size_t bytes;
    char problem[1024];
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table;
    char *text = test_read_file(test_source_path("tests/golden/mixed-engines.plan.txt"), &bytes);
    peal_status status = peal_table_assemble(ctx, text, bytes, "mixed", &diag, &table);
    ck_assert_msg(status == PEAL_OK, "%u: %s", diag.line, diag.text);
    free(text);
    uint64_t random = 4711;
    struct emu_world *world = emu_create(ctx, table, 2, random);
    struct device_memory *memory = device_memory_make(HALF);
    uint32_t engines = 0;
    for (uint32_t r = 0; r < world->nranks; r++)
        engines |= peal_dev_rows(world->ranks[r].image)->engines;
    ck_assert_uint_eq(engines, 1u << PEAL_ENGINE_SM | 1u << PEAL_ENGINE_TMA | 1u << PEAL_ENGINE_CE |
                                   1u << PEAL_ENGINE_RDMA);
    for (unsigned turn = 0; turn < 3 * TURNS; turn++) {
        struct coll_call calls[DEVICE_CALLS];
        for (unsigned i = 0; i < DEVICE_CALLS; i++)
            calls[i] = (struct coll_call){.collective = PEAL_BROADCAST,
                                          .ranks = 5,
                                          .dtype = (peal_dtype)(emu_draw(&random) % 10),
                                          .count = (size_t)(emu_draw(&random) % 3000),
                                          .salt = i,
                                          .in_place = emu_draw(&random) % 2};
        world->seed = emu_draw(&random);
        int wrong = device_calls(world, calls, DEVICE_CALLS, memory, problem);
        ck_assert_msg(!wrong, "turn %u: %s", turn, problem);
        schedules += DEVICE_CALLS;
    }
    device_memory_free(memory);
    emu_destroy(world);
    peal_table_destroy(table);
}
END_TEST

/* ---- numbers of eight bits: the formats, and folds of them that round once */

/* As OCP's paper has it, in doubles. */
static double fp8_value(unsigned code, int mantissa, int bias)
{
    unsigned exponent = (code & 0x7f) >> mantissa;
    double fraction = ldexp(code & ((1u << mantissa) - 1), -mantissa);
    double value = exponent ? ldexp(1 + fraction, (int)exponent - bias) : ldexp(fraction, 1 - bias);
    return code & 0x80 ? -value : value;
}

/* The nearest of all codes that are numbers; of two, the even one. */
static unsigned fp8_nearest(double value, int mantissa, int bias, unsigned most)
{
    unsigned best = 0;
    for (unsigned code = 0; code <= most; code++) {
        double far = fabs(fp8_value(code, mantissa, bias) - fabs(value));
        double best_far = fabs(fp8_value(best, mantissa, bias) - fabs(value));
        if (far < best_far || (far == best_far && code % 2 == 0))
            best = code;
    }
    return best | (signbit(value) ? 0x80 : 0);
}

START_TEST(eight_bits_round_once)
{
    uint64_t random = 99;
    for (unsigned code = 0; code < 256; code++) {
        if ((code & 0x7f) != 0x7f)
            ck_assert(dev_from_e4m3((uint8_t)code) == (float)fp8_value(code, 3, 7));
        if ((code & 0x7f) < 0x7c)
            ck_assert(dev_from_e5m2((uint8_t)code) == (float)fp8_value(code, 2, 15));
        if ((code & 0x7f) != 0x7f)
            ck_assert_uint_eq(dev_to_e4m3(dev_from_e4m3((uint8_t)code)), code);
        if ((code & 0x7f) <= 0x7c)
            ck_assert_uint_eq(dev_to_e5m2(dev_from_e5m2((uint8_t)code)), code);
    }
    for (unsigned i = 0; i < 20000; i++) {
        float value = (float)ldexp((double)(int64_t)(emu_draw(&random) % 200001) - 100000,
                                   (int)(emu_draw(&random) % 32) - 26);
        if (fabsf(value) <= 464)
            ck_assert_uint_eq(dev_to_e4m3(value), fp8_nearest(value, 3, 7, 0x7e));
        if (fabsf(value) < 61440)
            ck_assert_uint_eq(dev_to_e5m2(value), fp8_nearest(value, 2, 15, 0x7b));
    }
    ck_assert_uint_eq(dev_to_e4m3(464.0f), 0x7e);
    ck_assert_uint_eq(dev_to_e4m3(465.0f), 0x7f);
    ck_assert_uint_eq(dev_to_e4m3(-INFINITY), 0xff);
    ck_assert_uint_eq(dev_to_e5m2(61440.0f), 0x7c);
    ck_assert_uint_eq(dev_to_e5m2(NAN) & 0x7f, 0x7e);
    ck_assert(dev_from_e5m2(0x7c) == INFINITY && dev_from_e4m3(0x7f) != dev_from_e4m3(0x7f));
}
END_TEST

/* An allreduce of the two types, which only the kernel knows: by plans of one pass, in which ranks
 * are added up in their order. */
START_TEST(eight_bits_are_added_in_float)
{
    static const uint32_t dtypes[] = {DEV_E4M3, DEV_E5M2};
    struct plan_text p = {.ranks = 3, .link = "shm direct", .engine = "sm", .tile = 512};
    struct plan_part part = {_i % 2 ? write_twoshot : write_oneshot, LARGEST};
    peal_table *table = table_of(ctx, p, &part, 1);
    struct emu_world *world = emu_create(ctx, table, 2, 5);
    struct device_memory *memory = device_memory_make(HALF);
    struct coll_call c = {.collective = PEAL_ALLREDUCE, .ranks = 3, .dtype = PEAL_UINT8};
    uint32_t dtype = dtypes[_i / 2];
    uint64_t random = 7;
    c.count = 1333;
    for (uint32_t r = 0; r < 3; r++) {
        device_fill(world, &c, r, 0, memory);
        memory->call[r][0].dtype = dtype;
        uint8_t *in = DEV_AT(uint8_t, memory->call[r][0].in);
        for (size_t i = 0; i < c.count; i++) /* no NaN, no infinity */
            in[i] = (uint8_t)(emu_draw(&random) % 256 & (dtype == DEV_E4M3 ? 0xf7 : 0xef));
        world->ranks[r].calls = memory->call[r];
        world->ranks[r].ncalls = 1;
    }
    ck_assert_ptr_null(emu_run(world, DEVICE_LIMIT_MS));
    for (size_t i = 0; i < c.count; i++) {
        float sum = 0;
        for (uint32_t r = 0; r < 3; r++) {
            uint8_t code = DEV_AT(uint8_t, memory->call[r][0].in)[i];
            float value =
                dtype == DEV_E4M3 ? (float)fp8_value(code, 3, 7) : (float)fp8_value(code, 2, 15);
            sum = r ? sum + value : value;
        }
        uint8_t wanted = dtype == DEV_E4M3 ? dev_to_e4m3(sum) : dev_to_e5m2(sum);
        for (uint32_t r = 0; r < 3; r++)
            ck_assert_uint_eq(DEV_AT(uint8_t, memory->call[r][0].out)[i], wanted);
    }
    device_memory_free(memory);
    emu_destroy(world);
    peal_table_destroy(table);
}
END_TEST

/* A sum into its own first source, which memory could make, if it did not take subnormals for 0. */
START_TEST(subnormals_are_added)
{
#define INTO(own, other, link)                                                                     \
    "rank " own " host 0 lane body put c0: in[0] -> r" other ".s0[0]@" link " sm signal r" other   \
    ".0 sm wait r" other ".0 reduce c0: in[0] s0[0] -> out[0] sm final "
    static const char text[] =
        "peal-table 1 plan allreduce ranks 2 bytes 0..6000 algorithm into channels 1 chunks 1 "
        "semaphores 1 region scratch width 1 depth 1 slot 6256 "
        "link r0 -> r1 shm direct link r1 -> r0 shm direct " INTO("0", "1", "1")
            INTO("1", "0", "2");
    struct coll_call c = {.collective = PEAL_ALLREDUCE, .ranks = 2, .count = 1000, .in_place = 1};
    struct device_memory *memory = device_memory_make(HALF);
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table = NULL;
    ck_assert_msg(peal_table_assemble(ctx, text, sizeof text - 1, "into", &diag, &table) == PEAL_OK,
                  "%s", diag.text);
    struct emu_world *world = emu_create(ctx, table, 1, 5);
    for (uint32_t r = 0; r < 2; r++) {
        device_fill(world, &c, r, 0, memory);
        float *in = DEV_AT(float, memory->call[r][0].in);
        for (uint32_t i = 0; i < 1000; i++)
            in[i] = ldexpf((float)(i + r), -149);
        world->ranks[r].calls = memory->call[r];
        world->ranks[r].ncalls = 1;
    }
    const char *problem = emu_run(world, DEVICE_LIMIT_MS);
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < 2000; i++)
        wrong += DEV_AT(const float, memory->call[i % 2][0].out)[i / 2] !=
                 ldexpf((float)(i / 2 * 2 + 1), -149);
    ck_assert_msg(!problem && wrong == 0, "%s; %u wrong", problem ? problem : "", wrong);
    device_memory_free(memory);
    emu_destroy(world);
    peal_table_destroy(table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device");
    TCase *tests = tcase_create("matrix");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, plans_are_right, 0, SETUPS);
    tcase_add_test(tests, engines_mix_in_one_schedule);
    tcase_add_test(tests, eight_bits_round_once);
    tcase_add_test(tests, subnormals_are_added);
    tcase_add_loop_test(tests, eight_bits_are_added_in_float, 0, 4);
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
