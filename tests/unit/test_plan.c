/* SPDX-License-Identifier: Apache-2.0 */
/* Plans in memory: geometry, form, capability, tables. */
#include "test_plan_sample.h"
#include "test_suite.h"

/* ---- geometry */

static uint64_t state = 1;

static uint64_t next_random(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
}

/* A number of any magnitude below 2^bits. */
static uint64_t random_size(unsigned bits)
{
    uint64_t wide = next_random() << 33 ^ next_random() << 8 ^ next_random();
    return wide >> (64 - bits) >> next_random() % bits;
}

static struct peal_plan *geometry_plan(uint32_t nchunks, int weighted)
{
    struct peal_plan *plan;
    ck_assert_int_eq(peal_plan_create(ctx, 1, &plan), PEAL_OK);
    plan->nchunks = nchunks;
    peal_copy_text(plan->algorithm, sizeof plan->algorithm, "x");
    plan->max_bytes = 1u << 20;
    if (weighted) {
        plan->weights = peal_calloc(ctx, nchunks, sizeof *plan->weights);
        ck_assert_ptr_nonnull(plan->weights);
        for (uint32_t i = 0; i < nchunks; i++)
            plan->weights[i] = (uint32_t)random_size(20) + 1;
    }
    return plan;
}

/* b_i = u * floor(P_i * floor(count / u) / W) in long form: digit by digit, base 2. */
static uint64_t muldiv_by_bits(uint64_t a, uint64_t num, uint64_t den)
{
    uint64_t quotient = 0;
    uint64_t rest = 0;
    for (int bit = 63; bit >= 0; bit--) {
        rest = 2 * rest + (a >> bit & 1 ? num : 0);
        quotient = 2 * quotient + rest / den;
        rest %= den;
    }
    return quotient;
}

static void check_partition(const struct peal_plan *plan, uint64_t count, size_t elem_bytes)
{
    uint64_t unit = PLAN_ALIGN / elem_bytes;
    if (count / unit < plan->nchunks)
        unit = 1;
    uint64_t total = 0;
    for (uint32_t i = 0; i < plan->nchunks; i++)
        total += plan->weights ? plan->weights[i] : 1;
    uint64_t before = 0;
    uint64_t end = 0;
    uint64_t largest = 0;
    for (uint32_t i = 0; i < plan->nchunks; i++) {
        uint64_t first;
        uint64_t last;
        peal_plan_chunk(plan, count, elem_bytes, i, &first, &last);
        ck_assert_uint_eq(first, end);
        ck_assert_uint_le(first, last);
        ck_assert_uint_eq(first, unit * muldiv_by_bits(count / unit, before, total));
        ck_assert_uint_eq(first % unit, 0);
        if (last - first > largest)
            largest = last - first;
        before += plan->weights ? plan->weights[i] : 1;
        end = last;
    }
    ck_assert_uint_eq(end, count);
    if (largest <= UINT64_MAX / elem_bytes)
        ck_assert_uint_eq(peal_plan_chunk_bytes(plan, count, elem_bytes), largest * elem_bytes);
    else
        ck_assert_uint_eq(peal_plan_chunk_bytes(plan, count, elem_bytes), UINT64_MAX);
}

START_TEST(chunks_partition_every_message)
{
    for (unsigned round = 0; round < 400; round++) {
        struct peal_plan *plan = geometry_plan(1 + (uint32_t)random_size(7), round % 2);
        for (unsigned k = 0; k < 12; k++) {
            if (k == 6)
                ck_assert_int_eq(peal_plan_seal(plan, NULL), PEAL_OK); /* sums kept from here */
            check_partition(plan, random_size(k % 3 ? 12 : 63), (size_t)1 << k % 4);
        }
        check_partition(plan, 0, 4);
        check_partition(plan, INT64_MAX, 8);
        check_partition(plan, UINT64_MAX, 1);
        peal_plan_destroy(plan);
    }
}
END_TEST

START_TEST(chunks_grow_with_the_message)
{
    struct peal_plan *plan = geometry_plan(5, 0);
    uint64_t bytes = 0;
    for (uint64_t count = 0; count < 5000; count++) {
        uint64_t now = peal_plan_chunk_bytes(plan, count, 4);
        /* Where the unit changes from 1 to 128 bytes the largest may shrink by a unit or grow. */
        ck_assert_uint_ge(now + PLAN_ALIGN, bytes);
        bytes = now;
    }
    peal_plan_destroy(plan);
}
END_TEST

START_TEST(trips_are_at_least_one)
{
    struct peal_plan *plan = geometry_plan(1, 0);
    ck_assert_uint_eq(peal_plan_trips(plan, 1u << 30, 4), 1);
    plan->tile_bytes = 256;
    ck_assert_uint_eq(peal_plan_trips(plan, 0, 4), 1);
    ck_assert_uint_eq(peal_plan_trips(plan, 64, 4), 1);
    ck_assert_uint_eq(peal_plan_trips(plan, 65, 4), 2);
    ck_assert_uint_eq(peal_plan_trips(plan, 128, 4), 2);
    ck_assert_uint_eq(peal_plan_trips(plan, 129, 4), 3);
    plan->tile_bytes = 128;
    ck_assert_uint_eq(peal_plan_trips(plan, INT64_MAX, 8), UINT32_MAX);
    peal_plan_destroy(plan);
}
END_TEST

START_TEST(regions_lie_behind_one_another)
{
    struct plan_region regions[] = {{PLAN_BUF_SCRATCH, 2, 3, 100, 0},
                                    {PLAN_BUF_PACKET, 1, 2, 8, 0},
                                    {PLAN_BUF_SCRATCH, 1, 1, 128, 0},
                                    {PLAN_BUF_PACKET, 1, 1, 124, 0}};
    struct peal_plan plan = {.regions = regions, .nregions = 4};
    ck_assert_uint_eq(peal_plan_region_bytes(&regions[0]), 768);
    ck_assert_uint_eq(peal_plan_region_offset(&plan, 0), 0);
    ck_assert_uint_eq(peal_plan_region_offset(&plan, 2), 768);
    ck_assert_uint_eq(peal_plan_memory_bytes(&plan, PLAN_BUF_SCRATCH), 896);
    ck_assert_uint_eq(peal_plan_packet_slot_bytes(1), 128);
    ck_assert_uint_eq(peal_plan_packet_slot_bytes(60), 128);
    ck_assert_uint_eq(peal_plan_packet_slot_bytes(61), 256);
    ck_assert_uint_eq(peal_plan_region_offset(&plan, 1), 0);
    ck_assert_uint_eq(peal_plan_region_offset(&plan, 3), 256);
    ck_assert_uint_eq(peal_plan_memory_bytes(&plan, PLAN_BUF_PACKET), 512);
    regions[0] = (struct plan_region){PLAN_BUF_SCRATCH, UINT16_MAX, UINT16_MAX, 1ull << 40, 0};
    ck_assert_uint_eq(peal_plan_memory_bytes(&plan, PLAN_BUF_SCRATCH), UINT64_MAX);
}
END_TEST

/* ---- capability */

START_TEST(engines_follow_the_path)
{
    const uint32_t sm = 1u << PEAL_ENGINE_SM;
    const uint32_t tma = 1u << PEAL_ENGINE_TMA;
    const uint32_t ce = 1u << PEAL_ENGINE_CE;
    ck_assert_uint_eq(peal_plan_engines(PEAL_LINK_NVLINK, 1, 90), sm | tma | ce);
    ck_assert_uint_eq(peal_plan_engines(PEAL_LINK_NVLINK, 1, 80), sm | ce);
    ck_assert_uint_eq(peal_plan_engines(PEAL_LINK_SHM, 1, 0), sm | tma | ce);
    ck_assert_uint_eq(peal_plan_engines(PEAL_LINK_XGMI, 1, 0), sm | ce);
    ck_assert_uint_eq(peal_plan_engines(PEAL_LINK_NET, 0, 90),
                      1u << PEAL_ENGINE_RDMA | 1u << PEAL_ENGINE_TCP | 1u << PEAL_ENGINE_IBGDA);
    ck_assert_uint_eq(peal_plan_engines(PEAL_LINK_NET, 0, 0),
                      1u << PEAL_ENGINE_RDMA | 1u << PEAL_ENGINE_TCP);
    ck_assert_uint_eq(peal_plan_engines(PEAL_LINK_SMP, 0, 90), 1u << PEAL_ENGINE_STAGED);
    ck_assert_uint_eq(peal_plan_engines(PEAL_LINK_CLASS_COUNT, 1, 90), 0);
    ck_assert(!peal_plan_engine_async(PEAL_ENGINE_SM));
    ck_assert(peal_plan_engine_async(PEAL_ENGINE_TCP));
    ck_assert(!peal_plan_engine_async(PEAL_ENGINE_COUNT));
    ck_assert_str_eq(peal_plan_op_name(PLAN_GET_REDUCE), "get_reduce");
    ck_assert_ptr_null(peal_plan_op_name(PLAN_OPCODE_COUNT));
    ck_assert(peal_plan_op_moves(PLAN_COPY) && !peal_plan_op_moves(PLAN_WAIT));
    ck_assert(!peal_plan_op_moves(255));
}
END_TEST

/* ---- form: what text cannot say */

typedef void (*spoil_fn)(struct peal_plan *plan);
struct spoilt {
    spoil_fn spoil;
    const char *golden;
};

static struct plan_step *first_step(struct peal_plan *plan)
{
    return &plan->ranks[0].steps[0];
}

static void spoil_lag(struct peal_plan *plan)
{
    first_step(plan)->lag = 1;
}
static void spoil_peer(struct peal_plan *plan)
{
    first_step(plan)->peer = 1;
}
static void spoil_after(struct peal_plan *plan)
{
    first_step(plan)->after = 0;
}
static void spoil_what(struct peal_plan *plan)
{
    first_step(plan)->what = 1;
}
static void spoil_span(struct peal_plan *plan)
{
    first_step(plan)->stride = 1;
}
static void spoil_skip(struct peal_plan *plan)
{
    first_step(plan)->skip = 1;
}
static void spoil_packets(struct peal_plan *plan)
{
    plan->nchunks = 2;
    first_step(plan)->more = first_step(plan)->stride = 1;
}
static void spoil_event(struct peal_plan *plan)
{
    first_step(plan)->event = 0;
}
static void spoil_op(struct peal_plan *plan)
{
    first_step(plan)->op = PLAN_OPCODE_COUNT;
}
static void spoil_engine(struct peal_plan *plan)
{
    first_step(plan)->engine = PEAL_ENGINE_COUNT;
}
static void spoil_operands(struct peal_plan *plan)
{
    first_step(plan)->operands = plan->ranks[0].noperands - 1;
}
static void spoil_zero(struct peal_plan *plan)
{
    plan->ranks[0].operands[0].zero = 1;
}
static void spoil_slot(struct peal_plan *plan)
{
    plan->ranks[0].operands[0].slot = 1;
}
static void spoil_rank(struct peal_plan *plan)
{
    plan->ranks[0].operands[1].rank = 2;
}
static void spoil_buffer(struct peal_plan *plan)
{
    plan->ranks[0].operands[1].buffer = 4;
}
static void spoil_lane(struct peal_plan *plan)
{
    plan->ranks[0].lanes[0].post = UINT32_MAX;
}
static void spoil_lanes(struct peal_plan *plan)
{
    plan->ranks[1].lanes[0].body--;
}
static void spoil_busid(struct peal_plan *plan)
{
    memset(plan->ranks[1].busid, 'x', sizeof plan->ranks[1].busid);
}
static void spoil_detail(struct peal_plan *plan)
{
    peal_copy_text(plan->detail, sizeof plan->detail, "a \"b\"");
}
static void spoil_algorithm(struct peal_plan *plan)
{
    plan->algorithm[0] = '\0';
}
static void spoil_via(struct peal_plan *plan)
{
    plan->links[0].via[0] = '\n';
}
static void spoil_direct(struct peal_plan *plan)
{
    plan->links[0].direct = 2;
}
static void spoil_region(struct peal_plan *plan)
{
    plan->regions[0].buffer = PLAN_BUF_OUT;
}
static void spoil_memory(struct peal_plan *plan)
{
    plan->regions[0].width = plan->regions[0].depth = UINT16_MAX;
    plan->regions[0].slot_bytes = 1u << 20;
}
static void spoil_trips(struct peal_plan *plan)
{
    plan->tile_bytes = 128;
    plan->max_bytes = 1ull << 40;
}
static void spoil_max(struct peal_plan *plan)
{
    plan->max_bytes = 1ull << 63;
}

static const struct spoilt spoilts[] = {
    {spoil_lag, "rank 0 lane 0 step 0 (put): the step has no use for its field lag, which is set"},
    {spoil_peer,
     "rank 0 lane 0 step 0 (put): the step has no use for its field peer, which is set"},
    {spoil_after,
     "rank 0 lane 0 step 0 (put): the step has no use for its field after, which is set"},
    {spoil_what,
     "rank 0 lane 0 step 0 (put): the step has no use for its field what, which is set"},
    {spoil_span, "rank 0 lane 0 step 0 (put): a span of several chunks has a stride, and one chunk "
                 "has none"},
    {spoil_skip, "rank 0 lane 0 step 0 (put): one chunk skips no slots"},
    {spoil_packets, "rank 0 lane 0 step 0 (put): packets are not moved in spans"},
    {spoil_event, "rank 0 lane 0 step 0 (put): a step of sm has no event"},
    {spoil_op, "rank 0 lane 0 step 0: opcode 15 is not below 15"},
    {spoil_engine, "rank 0 lane 0 step 0 (put): engine 7 is not below 7"},
    {spoil_operands, "rank 0 lane 0 step 0 (put): operands beyond those of the rank"},
    {spoil_zero, "rank 0 lane 0 step 0 (put): an operand's field zero is set"},
    {spoil_slot, "rank 0 lane 0 step 0 (put): an in or out operand has a slot"},
    {spoil_rank, "rank 0 lane 0 step 0 (put): an operand's rank 2 is not below 2"},
    {spoil_buffer, "rank 0 lane 0 step 0 (put): buffer 4 is not below 4"},
    {spoil_lane, "rank 0 lane 0: steps beyond those of the rank"},
    {spoil_lanes, "rank 1: the lanes do not hold each step of the rank once"},
    {spoil_busid, "rank 1: busid and nic are printable ASCII without quotes, of at most 23 bytes"},
    {spoil_detail, "detail is printable ASCII without quotes, of at most 127 bytes"},
    {spoil_algorithm, "algorithm is 1 to 63 of a-z, 0-9 and -"},
    {spoil_via, "via is printable ASCII without quotes, of at most 88 bytes"},
    {spoil_direct, "a link's field direct 2 is not below 2"},
    {spoil_region, "a region is neither scratch nor packet"},
    {spoil_memory, "the regions take more than 2^48 bytes"},
    {spoil_trips, "max bytes is more than 2^31 tiles"},
    {spoil_max, "max bytes 9223372036854775808 is not below 9223372036854775808"},
};

START_TEST(spoilt_plans_are_not_sealed)
{
    peal_table *table = assemble(SAMPLE_FIRST);
    struct peal_plan *plan = table->rows[0].plan;
    struct peal_hash128 id = plan->id;
    peal_diag diag = PEAL_DIAG_INIT;
    spoilts[_i].spoil(plan);
    ck_assert_int_eq(peal_plan_seal(plan, &diag), PEAL_ERR_PLAN);
    ck_assert_str_eq(diag.text, spoilts[_i].golden);
    ck_assert(plan->id.low == id.low && plan->id.high == id.high);
    peal_table_destroy(table);
}
END_TEST

/* What a rank's spans stand for is bounded, for it is held in memory to run them. */
START_TEST(spans_stand_for_a_bounded_number_of_moves)
{
    struct peal_plan *plan;
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_int_eq(peal_plan_create(ctx, 1, &plan), PEAL_OK);
    struct plan_rank *rank = &plan->ranks[0];
    enum { STEPS = 33 };
    static const struct plan_operand both[2] = {{.buffer = PLAN_BUF_IN}, {.buffer = PLAN_BUF_OUT}};
    plan->max_bytes = 8;
    plan->nchunks = PLAN_CHUNKS_MAX;
    peal_copy_text(plan->algorithm, sizeof plan->algorithm, "x");
    rank->lanes = peal_calloc(ctx, 1, sizeof *rank->lanes);
    rank->steps = peal_calloc(ctx, STEPS, sizeof *rank->steps);
    rank->operands = peal_calloc(ctx, 2, sizeof *rank->operands);
    ck_assert(rank->lanes && rank->steps && rank->operands);
    rank->nlanes = rank->lanes_capacity = 1;
    rank->nsteps = rank->steps_capacity = rank->lanes[0].body = STEPS;
    rank->noperands = rank->operands_capacity = 2;
    memcpy(rank->operands, both, sizeof both);
    for (uint32_t i = 0; i < STEPS; i++)
        rank->steps[i] = (struct plan_step){.op = PLAN_COPY,
                                            .event = PLAN_NO_EVENT,
                                            .after = PLAN_NO_EVENT,
                                            .nsrc = 1,
                                            .ndst = 1,
                                            .more = PLAN_CHUNKS_MAX - 1,
                                            .stride = 1};
    ck_assert_int_eq(peal_plan_seal(plan, &diag), PEAL_ERR_PLAN);
    ck_assert_str_eq(diag.text, "rank 0: the spans of a rank have more than 2^28 operands");
    rank->nsteps = rank->lanes[0].body = STEPS - 1;
    ck_assert_int_eq(peal_plan_seal(plan, NULL), PEAL_OK);
    peal_plan_destroy(plan);
}
END_TEST

START_TEST(plans_have_one_to_65536_ranks)
{
    struct peal_plan *plan = NULL;
    ck_assert_int_eq(peal_plan_create(ctx, 0, &plan), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_plan_create(ctx, PLAN_RANKS_MAX + 1, &plan), PEAL_ERR_ARG);
    ck_assert_ptr_null(plan);
    peal_plan_destroy(NULL);
}
END_TEST

/* The layout of a rank's steps in memory is no part of the plan. */
START_TEST(lanes_may_lie_in_any_order)
{
    peal_table *table = assemble(SAMPLE);
    struct peal_plan *plan = table->rows[0].plan;
    struct peal_hash128 id = plan->id;
    struct plan_operand *operands = plan->ranks[0].operands;
    ck_assert_uint_eq(plan->ranks[0].noperands, 5);
    struct plan_operand moved[5] = {operands[2], operands[3], operands[4], operands[0],
                                    operands[1]};
    memcpy(operands, moved, sizeof moved);
    plan->ranks[0].steps[0].operands = 3;
    plan->ranks[0].steps[1].operands = 0;
    ck_assert_int_eq(peal_plan_seal(plan, NULL), PEAL_OK);
    ck_assert(plan->id.low == id.low && plan->id.high == id.high);
    peal_table_destroy(table);
}
END_TEST

/* ---- tables */

START_TEST(lookup_finds_the_row_of_a_size)
{
    peal_table *table;
    ck_assert_int_eq(peal_table_create(ctx, 5, &table), PEAL_OK);
    for (uint32_t i = 0; i < 5; i++) {
        table->rows[i].info.min_bytes = i ? table->rows[i - 1].info.max_bytes + 1 : 8;
        table->rows[i].info.max_bytes = 10u << 4 * i;
    }
    for (uint64_t bytes = 0; bytes < 700000; bytes += bytes < 3000 ? 1 : 97) {
        uint32_t row = 77;
        peal_status status = peal_table_lookup(table, PEAL_ALLREDUCE, 0, 0, bytes, &row);
        if (bytes > 10u << 16) {
            ck_assert_int_eq(status, PEAL_ERR_RANGE);
            ck_assert_uint_eq(row, 77);
            continue;
        }
        ck_assert_int_eq(status, PEAL_OK);
        ck_assert_uint_le(bytes, table->rows[row].info.max_bytes);
        ck_assert(row == 0 || bytes >= table->rows[row].info.min_bytes);
    }
    uint32_t row;
    ck_assert_int_eq(peal_table_lookup(NULL, PEAL_ALLREDUCE, 0, 0, 8, &row), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_table_lookup(table, PEAL_ALLREDUCE, 0, 0, 8, NULL), PEAL_ERR_ARG);
    peal_table_destroy(table);
}
END_TEST

START_TEST(rows_are_described_from_their_plans)
{
    peal_table *table = assemble(SAMPLE);
    peal_table_info info = {.size = sizeof info};
    ck_assert_int_eq(peal_table_get(table, &info), PEAL_OK);
    ck_assert_uint_eq(info.rows, 2);
    ck_assert_uint_eq(info.ranks, 2);
    ck_assert_int_eq(info.compiled, 1);
    ck_assert_int_eq(info.verified, 0);
    peal_row_info row = {.size = sizeof row};
    ck_assert_int_eq(peal_table_row(table, 0, &row), PEAL_OK);
    ck_assert_str_eq(row.protocol, "packet");
    ck_assert_uint_eq(row.sms, 1);
    ck_assert_uint_eq(row.move_engines[PEAL_LINK_NVLINK], 1u << PEAL_ENGINE_SM);
    ck_assert_uint_eq(row.scratch_bytes, 2 * 2 * 2176);
    ck_assert_int_eq(peal_table_row(table, 1, &row), PEAL_OK);
    ck_assert_str_eq(row.algorithm, "two-level");
    ck_assert_str_eq(row.detail, "channels 2, inner ring");
    ck_assert_str_eq(row.protocol, "simple");
    ck_assert_uint_eq(row.channels, 2);
    ck_assert_uint_eq(row.tile_bytes, 262144);
    ck_assert_uint_eq(row.move_engines[PEAL_LINK_PCIE],
                      1u << PEAL_ENGINE_SM | 1u << PEAL_ENGINE_STAGED);
    ck_assert_uint_eq(row.move_engines[PEAL_LINK_NET],
                      1u << PEAL_ENGINE_SM | 1u << PEAL_ENGINE_TMA);
    ck_assert_double_eq_tol(row.time_us, 533.16, 1e-9);
    ck_assert_double_eq_tol(row.algbw_gbs, 16111.36, 0.01);
    ck_assert_double_eq_tol(row.busbw_gbs, row.algbw_gbs, 1e-9);
    ck_assert_int_eq(peal_table_row(table, 2, &row), PEAL_ERR_ARG);
    peal_table_destroy(table);
}
END_TEST

START_TEST(steps_are_told_one_by_one)
{
    peal_table *table = assemble(SAMPLE);
    uint32_t lanes = 0;
    ck_assert_int_eq(peal_table_lanes(table, 1, 0, &lanes), PEAL_OK);
    ck_assert_uint_eq(lanes, 2);
    ck_assert_int_eq(peal_table_lanes(table, 1, 2, &lanes), PEAL_ERR_ARG);
    peal_step_info step = {.size = sizeof step};
    ck_assert_int_eq(peal_table_step(table, 1, 0, 0, 1, &step), PEAL_OK);
    ck_assert_str_eq(step.op, "put");
    ck_assert_str_eq(step.section, "body");
    ck_assert_int_eq(step.engine, PEAL_ENGINE_STAGED);
    ck_assert_int_eq(step.moves_data, 1);
    ck_assert_uint_eq(step.chunks, 1);
    ck_assert_str_eq(step.text, "put c0: in[0] -> s0[1] r1.s0[6]@1 staged e0");
    ck_assert_int_eq(peal_table_step(table, 1, 0, 0, 0, &step), PEAL_OK);
    ck_assert_str_eq(step.section, "pre");
    ck_assert_uint_eq(step.chunks, 0);
    ck_assert_int_eq(peal_table_step(table, 1, 0, 0, 9, &step), PEAL_OK);
    ck_assert_str_eq(step.text, "put c0*2+2: out[0] -> r1.s0[4]@1 staged e0");
    ck_assert_uint_eq(step.chunks, 2);
    ck_assert_int_eq(peal_table_step(table, 1, 0, 0, 12, &step), PEAL_OK);
    ck_assert_str_eq(step.section, "post");
    ck_assert_str_eq(step.text, "await e15 delivered");
    ck_assert_int_eq(peal_table_step(table, 1, 0, 0, 13, &step), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_table_step(table, 1, 0, 1, 0, &step), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_table_step(table, 1, 0, 2, 0, &step), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_table_step(table, 2, 0, 0, 0, &step), PEAL_ERR_ARG);
    peal_table_destroy(table);
}
END_TEST

START_TEST(tables_without_programs_are_not_saved)
{
    peal_table *table;
    peal_diag diag = PEAL_DIAG_INIT;
    char id[33];
    struct peal_buf buf;
    peal_buf_init(&buf, ctx, SIZE_MAX);
    ck_assert_int_eq(peal_table_create(ctx, 0, &table), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_table_create(ctx, 1, &table), PEAL_OK);
    ck_assert_int_eq(peal_table_id(table, 0, id), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_table_save(table, into_buf, &buf, &diag), PEAL_ERR_ARG);
    ck_assert_str_eq(diag.text, "row 0 holds no program");
    ck_assert_int_eq(peal_table_print(table, into_buf, &buf, NULL), PEAL_ERR_ARG);
    ck_assert_uint_eq(buf.used, 0);
    peal_table_destroy(table);
    peal_table_destroy(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan");
    TCase *tests = tcase_create("plan");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, chunks_partition_every_message);
    tcase_add_test(tests, chunks_grow_with_the_message);
    tcase_add_test(tests, trips_are_at_least_one);
    tcase_add_test(tests, regions_lie_behind_one_another);
    tcase_add_test(tests, engines_follow_the_path);
    tcase_add_loop_test(tests, spoilt_plans_are_not_sealed, 0,
                        (int)(sizeof spoilts / sizeof *spoilts));
    tcase_add_test(tests, spans_stand_for_a_bounded_number_of_moves);
    tcase_add_test(tests, plans_have_one_to_65536_ranks);
    tcase_add_test(tests, lanes_may_lie_in_any_order);
    tcase_add_test(tests, lookup_finds_the_row_of_a_size);
    tcase_add_test(tests, rows_are_described_from_their_plans);
    tcase_add_test(tests, steps_are_told_one_by_one);
    tcase_add_test(tests, tables_without_programs_are_not_saved);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
