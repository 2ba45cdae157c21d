/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: plain */
/*
 * Estimates: the rows est-* of oracles/alpha-beta.tsv, each formula against a figure computed by
 * hand, buckets, swaps, and what is refused.
 */
#include "estimate.h"
#include "support.h"

#include <check.h>
#include <math.h>
#include <string.h>

static peal_ctx *ctx;
static struct test_heap heap;

static int near(double got, double want, double tolerance)
{
    return fabs(got - want) <= tolerance * fabs(want);
}

#define ck_near(got, want, tolerance)                                                              \
    ck_assert_msg(near(got, want, tolerance), "%.9g, not %.9g", (double)(got), (double)(want))

static peal_fabric *load(const char *name)
{
    peal_fabric *fabric;
    peal_diag diag = PEAL_DIAG_INIT;
    const char *path = test_source_path(name);
    ck_assert_msg(peal_fabric_load(ctx, path, &diag, &fabric) == PEAL_OK, "%s", diag.text);
    return fabric;
}

static peal_model text_model(void)
{
    peal_model model = PEAL_MODEL_INIT;
    ck_assert_int_eq(peal_model_preset(0, &model), PEAL_OK);
    ck_assert_str_eq(model.name, "70b");
    model.batch = 2;
    return model;
}

static peal_estimate *make(const peal_fabric *fabric, const peal_model *model,
                           const peal_estimate_params *params)
{
    peal_estimate *estimate;
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_msg(peal_estimate_create(ctx, fabric, model, params, &diag, &estimate) == PEAL_OK,
                  "%s", diag.text);
    return estimate;
}

static peal_estimate_axis axis_of(const peal_estimate *estimate, const char *name, int decode)
{
    peal_estimate_axis axis = {.size = sizeof axis};
    for (uint32_t i = 0; peal_estimate_axis_get(estimate, i, &axis) == PEAL_OK; i++)
        if (!strcmp(axis.axis, name) && axis.decode == decode)
            return axis;
    ck_abort_msg("no axis %s", name);
    return axis;
}

/* ---- rows of the oracle: TP 8 on NVLink of 0.8 us and 450 GB/s, DP 64 on 10 us and 45 GB/s */

/* By name, expected and tolerance; NAN where there is no such row. */
static double oracle(const char *text, const char *id, double *tolerance)
{
    char key[64];
    snprintf(key, sizeof key, "\n%s\t", id);
    const char *at = strstr(text, key);
    if (!at)
        return NAN;
    at++;
    for (int tab = 0; tab < 3; tab++)
        at = strchr(at, '\t') + 1;
    double expected = strtod(at, NULL);
    at = strchr(strchr(at, '\t') + 1, '\t') + 1;
    *tolerance = strtod(at, NULL) + 1e-12;
    return expected;
}

static void check_row(const char *text, const char *id, double planned, double by_text)
{
    double tolerance = 0, expected = oracle(text, id, &tolerance);
    ck_assert_msg(near(planned, expected, tolerance), "%s planned: %.9g, not %.9g", id, planned,
                  expected);
    ck_assert_msg(near(by_text, expected, tolerance), "%s by the text: %.9g, not %.9g", id, by_text,
                  expected);
}

START_TEST(oracle_rows)
{
    const char *path = test_corpus_path("../oracles/alpha-beta.tsv");
    peal_estimate_params params = PEAL_ESTIMATE_PARAMS_INIT;
    peal_estimate_info info = {.size = sizeof info};
    peal_model model = text_model();
    if (!path)
        return;
    size_t bytes;
    char *text = test_read_file(path, &bytes);
    peal_fabric *fabric = load("examples/topologies/cluster-h100-128.xml");
    params.tp = 8;
    params.dp = 64;
    params.compute_us = 1.2e6;
    params.algorithm = "ring";
    params.channels = 16;
    params.scratch_limit = 1ull << 50; /* nothing is cut into tiles */
    for (int full = 1; full >= 0; full--) {
        params.full_gradient = full;
        params.bucket_bytes = 1ull << 40;
        peal_estimate *e = make(fabric, &model, &params);
        peal_estimate_axis tp = axis_of(e, "tp", 0), dp = axis_of(e, "dp", 0);
        ck_assert_int_eq(peal_estimate_get(e, &info), PEAL_OK);
        double text_dp = dp.text_us, share = (tp.total_us + dp.total_us) / info.serial_us;
        double text_share = 1 - info.compute_us / info.text_serial_us;
        ck_assert_uint_eq(tp.calls, 320);
        check_row(text, "est-tp-message", (double)tp.bytes, (double)tp.bytes);
        check_row(text, "est-tp-total", tp.total_us / 1e6, 320 * tp.text_us / 1e6);
        check_row(text, full ? "est-dp-total-full" : "est-dp-sharded", dp.total_us / 1e6,
                  text_dp / 1e6);
        check_row(text, full ? "est-step-no-overlap" : "est-step-sharded", info.serial_us / 1e6,
                  info.text_serial_us / 1e6);
        check_row(text, full ? "est-step-overlap90" : "est-step-sharded-overlap90",
                  info.overlap_us / 1e6, info.text_overlap_us / 1e6);
        if (full) {
            check_row(text, "est-share-no-overlap", share, text_share);
            check_row(text, "est-speedup-overlap90", info.serial_us / info.overlap_us,
                      info.text_serial_us / info.text_overlap_us);
        }
        peal_estimate_destroy(e);
    }
    peal_fabric_destroy(fabric);
    free(text);
}
END_TEST

/* ---- formulas */

START_TEST(text_formulas)
{
    double tolerance = 1e-9;
    /* 2 * 7 * 0.8 + 2 * 7 / 8 * 134217728 / 450e3 = 11.2 + 521.9578311 */
    ck_near(peal_estimate_text_us(PEAL_ALLREDUCE, 8, 134217728, 0.8, 450), 533.1578311111,
            tolerance);
    ck_near(peal_estimate_text_us(PEAL_ALLGATHER, 8, 134217728, 0.8, 450), 266.5789155556,
            tolerance);
    ck_near(peal_estimate_text_us(PEAL_REDUCE_SCATTER, 2, 450000, 1, 450), 1.5, tolerance);
    /* the row moe-serial: 15 messages of 2000 bytes */
    ck_near(peal_estimate_text_us(PEAL_ALLTOALL, 16, 32000, 10, 45), 150.6666666667, tolerance);
    ck_near(peal_estimate_text_us(PEAL_SENDRECV, 4, 4000, 10, 45), 10.0888888889, tolerance);
}
END_TEST

START_TEST(amounts)
{
    peal_model model = text_model();
    peal_estimate_params params = PEAL_ESTIMATE_PARAMS_INIT;
    params.tp = 8;
    params.pp = 2;
    ck_assert_int_eq(peal_estimate_fill(&model, &params, 64, NULL), PEAL_OK);
    ck_assert_uint_eq(params.dp, 4);
    ck_assert_uint_eq(peal_estimate_activation(&model), 2ull * 4096 * 8192 * 2);
    ck_assert_uint_eq(peal_estimate_dense_bytes(&model, &params), 8750000000);
    params.full_gradient = 1;
    ck_assert_uint_eq(peal_estimate_dense_bytes(&model, &params), 140000000000);
    /* 6 * 70e9 * 8192 tokens / 16 / 400e12 = 0.5376 s */
    ck_near(peal_estimate_compute_us(&model, &params), 537600, 1e-9);
    ck_assert_uint_eq(peal_estimate_layers(61, 4), 16);
}
END_TEST

/* 32 layers x 8 experts x 3 x 4096 x 14336 = 45 097 156 608; of the 46.7e9 of Mixtral 12.9e9 are
 * active, of the 671e9 of DeepSeek-V3 37e9. */
START_TEST(experts)
{
    peal_model model = PEAL_MODEL_INIT;
    peal_estimate_params params = PEAL_ESTIMATE_PARAMS_INIT;
    for (uint32_t i = 0; peal_model_preset(i, &model) == PEAL_OK; i++) {
        uint64_t active = peal_estimate_active_params(&model);
        if (!strcmp(model.name, "mixtral-8x7b")) {
            ck_assert_uint_eq(peal_estimate_expert_params(&model), 45097156608);
            ck_near((double)active, 12.9e9, 0.005);
            params.ep = 4;
            ck_assert_int_eq(peal_estimate_fill(&model, &params, 8, NULL), PEAL_OK);
            ck_assert_uint_eq(peal_estimate_dense_bytes(&model, &params), 2 * 1602843392ull);
            ck_assert_uint_eq(peal_estimate_expert_bytes(&model, &params), 2 * 11274289152ull);
        } else if (!strcmp(model.name, "deepseek-v3")) {
            ck_near((double)active, 37e9, 0.02);
        } else {
            ck_assert_uint_eq(active, model.params);
        }
    }
}
END_TEST

/* tp 2, dp 4, pp 2 of 16 ranks: who is with whom. */
START_TEST(groups)
{
    struct estimate_group tp = {16, 2, 1, 0}, dp = {16, 4, 2, 0}, pp = {16, 2, 8, 0},
                          edp = {16, 2, 4, 0};
    ck_assert_uint_eq(peal_estimate_member(&tp, 0, 1), 1);
    ck_assert_uint_eq(peal_estimate_member(&tp, 3, 0), 6);
    ck_assert_uint_eq(peal_estimate_member(&dp, 0, 3), 6);
    ck_assert_uint_eq(peal_estimate_member(&dp, 1, 1), 3);
    ck_assert_uint_eq(peal_estimate_member(&dp, 2, 0), 8);
    ck_assert_uint_eq(peal_estimate_member(&pp, 5, 1), 13);
    ck_assert_uint_eq(peal_estimate_member(&edp, 1, 1), 5);
    ck_assert_uint_eq(peal_estimate_member(&edp, 4, 0), 8);
}
END_TEST

/* ---- buckets: 100 bytes in 4 x 30, a backward pass of 100 us, a call of 2 + 10 us */

START_TEST(bucket_drain)
{
    peal_estimate_bucket bucket = {.size = sizeof bucket, .bytes = 30, .count = 4};
    bucket.call_us = 12;
    bucket.alpha_us = 2;
    peal_estimate_drain(&bucket, 100, 100);
    /* full at 30, 60, 90 and 100; the third is through at 102, the last has 10 bytes */
    ck_near(bucket.exposed_us, 2 + 2 + 10.0 / 3, 1e-12);
    ck_near(bucket.total_us, 3 * 12 + 2 + 10.0 / 3, 1e-12);
    ck_near(bucket.first_share, 0.3, 1e-12);
    ck_assert_int_eq(bucket.good, 0);
    bucket.call_us = 40; /* one behind the other from 30 on: 150, and 2 + 38 / 3 */
    peal_estimate_drain(&bucket, 100, 100);
    ck_near(bucket.exposed_us, 50 + 2 + 38.0 / 3, 1e-12);
}
END_TEST

START_TEST(bucket_choice)
{
    peal_estimate_bucket bucket[4] = {{.bytes = 1, .exposed_us = 1},
                                      {.bytes = 5, .exposed_us = 5, .good = 1},
                                      {.bytes = 25, .exposed_us = 3.5, .good = 1},
                                      {.bytes = 50, .exposed_us = 3, .good = 1}};
    peal_estimate_choose(bucket, 4, 100);
    ck_assert_int_eq(bucket[2].chosen, 1); /* 103.5 is within 1 % of 103, 105 is not */
    ck_assert_int_eq(bucket[0].chosen + bucket[1].chosen + bucket[3].chosen, 0);
    bucket[2].chosen = bucket[1].good = bucket[2].good = bucket[3].good = 0;
    for (uint32_t i = 0; i < 4; i++)
        bucket[i].first_share = 1; /* none is early */
    peal_estimate_choose(bucket, 4, 100);
    ck_assert_int_eq(bucket[0].chosen, 1);
    bucket[0].chosen = 0;
    for (uint32_t i = 0; i < 4; i++) /* start-ups are 60, 40, 20 and 10 % of a call */
        bucket[i] = (peal_estimate_bucket){.bytes = i + 1,
                                           .call_us = 100,
                                           .alpha_us = i ? 80.0 / (1 << i) : 60,
                                           .first_share = 0.1};
    peal_estimate_choose(bucket, 4, 100);
    ck_assert_int_eq(bucket[1].chosen, 1);
}
END_TEST

/* ---- splits on a machine */

/* tp 2, sequences in two further parts, pp 2 of 16 ranks: two replicas. A part is half of what tp
 * moves and of compute; gradients are of four ranks. */
START_TEST(parts_of_sequences)
{
    peal_estimate_params params = PEAL_ESTIMATE_PARAMS_INIT;
    peal_estimate_info info = {.size = sizeof info};
    peal_model model = text_model();
    model.kv_hidden = 1024;
    params.tp = params.pp = 2;
    params.sp = 4;
    params.bucket_bytes = 1ull << 40;
    peal_fabric *fabric = load("examples/topologies/cluster-h100-2.xml");
    peal_estimate *e = make(fabric, &model, &params);
    ck_assert_int_eq(peal_estimate_get(e, &info), PEAL_OK);
    ck_assert(info.ranks == 16 && info.dp == 2);
    peal_estimate_axis sp = axis_of(e, "sp", 0), cp = axis_of(e, "cp", 0), pp = axis_of(e, "pp", 0);
    peal_estimate_axis dp = axis_of(e, "dp", 0);
    ck_assert(sp.ranks == 2 && sp.bytes == peal_estimate_activation(&model) / 2);
    ck_assert(cp.ranks == 2 && cp.calls == 40 && cp.bytes == 2ull * 2 * 4096 * 1024 * 2 / 2);
    ck_assert(pp.ranks == 2 && pp.bytes == peal_estimate_activation(&model) / 4);
    ck_assert(dp.ranks == 4 && dp.bytes == 35000000000);
    ck_near(info.compute_us, 6 * 70e9 * 8192 / 8 / 400e6, 1e-9);
    peal_estimate_destroy(e);
    /* By a ring: its two halves are each other's next, and what attention hides is not counted. */
    double gathered_us = info.model_us;
    ck_assert(!cp.alternative && cp.exposed_us == cp.total_us);
    params.context_ring = 1;
    e = make(fabric, &model, &params);
    ck_assert_int_eq(peal_estimate_get(e, &info), PEAL_OK);
    cp = axis_of(e, "cp", 0);
    ck_assert(cp.collective == PEAL_SENDRECV && cp.calls == 40 && !cp.alternative);
    ck_assert(cp.ranks == 2 && cp.bytes == 2ull * 4096 * 1024 * 2 / 2);
    ck_near(cp.beside_us, 2. * 2 * 2048 * 2048 * 8192 / 2 / 400e6, 1e-9);
    ck_assert(cp.call_us < cp.beside_us && cp.exposed_us == 0);
    ck_assert(info.model_us < gathered_us);
    peal_estimate_destroy(e);
    params.sp = 3;
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_int_eq(peal_estimate_create(ctx, fabric, &model, &params, &diag, &e), PEAL_ERR_ARG);
    ck_assert_ptr_nonnull(strstr(diag.text, "a multiple of them"));
    peal_fabric_destroy(fabric);
}
END_TEST

START_TEST(splits)
{
    peal_estimate_params params = PEAL_ESTIMATE_PARAMS_INIT;
    peal_estimate_info info = {.size = sizeof info};
    peal_model model = PEAL_MODEL_INIT;
    ck_assert_int_eq(peal_model_preset(6, &model), PEAL_OK);
    model.batch = 8;
    model.micro_batches = 4;
    model.sequence = 1024;
    params.tp = params.sp = params.pp = 2;
    params.ep = 2;
    params.zero = 3;
    peal_fabric *fabric = load("examples/topologies/cluster-h100-2.xml");
    peal_estimate *e = make(fabric, &model, &params);
    ck_assert_int_eq(peal_estimate_get(e, &info), PEAL_OK);
    ck_assert_uint_eq(info.ranks, 16);
    ck_assert_uint_eq(info.dp, 4);
    peal_estimate_axis sp = axis_of(e, "sp", 0), ep = axis_of(e, "ep", 0), pp = axis_of(e, "pp", 0);
    peal_estimate_axis edp = axis_of(e, "edp", 0), token = axis_of(e, "pp", 1);
    ck_assert_uint_eq(sp.calls, 4 * 16 * 4);
    ck_assert_uint_eq(sp.bytes, 2 * 1024 * 4096 * 2);
    ck_assert_uint_eq(ep.calls, 4 * 16 * 4);
    ck_assert_uint_eq(ep.bytes, 2 * 1024 * 2 * 4096); /* top 2, on one of sp 2 */
    ck_assert_uint_eq(pp.calls, 2 * 4);
    ck_assert_uint_eq(pp.groups, 8);
    ck_assert_int_eq(edp.collective, PEAL_REDUCE_SCATTER);
    ck_assert_uint_eq(edp.ranks, 2);
    ck_assert_uint_eq(token.calls, 1);
    ck_assert_uint_eq(token.bytes, 4 * 4096 * 2);
    ck_near(info.bubble_us, info.compute_us / 4, 1e-12);
    ck_near(info.serial_us, info.compute_us + info.bubble_us + info.model_us + info.dp_us, 1e-12);
    ck_near(info.overlap_us, info.serial_us - 0.9 * info.dp_us, 1e-12);
    ck_assert_double_le(info.bucketed_us, info.serial_us);
    peal_estimate_destroy(e);
    peal_fabric_destroy(fabric);
}
END_TEST

START_TEST(swapped_links)
{
    peal_fabric *fabric;
    peal_path_info path = {.size = sizeof path};
    peal_swap swap[2] = {{sizeof *swap, PEAL_LINK_NVLINK, 900, -1},
                         {sizeof *swap, PEAL_LINK_NET, 22.5, 5}};
    const char *file = test_source_path("examples/topologies/cluster-h100-2.xml");
    ck_assert_int_eq(peal_fabric_load_swapped(ctx, file, swap, 2, NULL, &fabric), PEAL_OK);
    ck_assert_int_eq(peal_fabric_path(fabric, 0, 1, &path), PEAL_OK);
    ck_near(path.beta_gbs, 900, 1e-12);
    ck_near(path.alpha_us, 0.8, 1e-12);
    ck_assert_int_eq(peal_fabric_path(fabric, 0, 8, &path), PEAL_OK);
    ck_near(path.beta_gbs, 22.5, 1e-12);
    ck_near(path.alpha_us, 5, 1e-12);
    peal_fabric_destroy(fabric);
    swap[0].link_class = PEAL_LINK_LOOPBACK;
    ck_assert_int_eq(peal_fabric_load_swapped(ctx, file, swap, 1, NULL, &fabric), PEAL_ERR_ARG);
    swap[0] = (peal_swap){sizeof *swap, PEAL_LINK_NET, NAN, -1};
    ck_assert_int_eq(peal_fabric_load_swapped(ctx, file, swap, 1, NULL, &fabric), PEAL_ERR_ARG);
}
END_TEST

/* ---- what is refused, and out of memory */

static void refused(peal_model model, peal_estimate_params params)
{
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_int_eq(peal_estimate_fill(&model, &params, 16, &diag), PEAL_ERR_ARG);
    ck_assert_int_ne(diag.text[0], 0);
}

START_TEST(bad_input)
{
    peal_model good = text_model(), model;
    peal_estimate_params none = PEAL_ESTIMATE_PARAMS_INIT, params;
#define REFUSED(object, field, value)                                                              \
    model = good, params = none, object.field = (value), refused(model, params)
    REFUSED(model, params, 0);
    REFUSED(model, layers, 0);
    REFUSED(model, micro_batches, 3);
    REFUSED(model, act_bytes, 9);
    REFUSED(model, sequence, 1u << 29);
    model = good, params = none;
    model.hidden = 1, model.sequence = 1u << 28, model.kv_hidden = 1u << 24;
    refused(model, params);
    REFUSED(params, tp, 17);
    REFUSED(params, dp, 17);
    REFUSED(params, pp, 3u << 30);
    REFUSED(params, sp, 32);
    REFUSED(params, ep, 2);
    REFUSED(params, zero, 4);
    REFUSED(params, overlap, 1.1);
    REFUSED(params, compute_us, NAN);
    REFUSED(params, tflops, -1);
    good.experts = 8;
    REFUSED(model, top_k, 9);
    REFUSED(model, moe_layers, 81);
    REFUSED(model, expert_hidden, 1u << 20);
    REFUSED(params, ep, 3);
#undef REFUSED
    ck_assert_int_eq(peal_model_preset(99, &model), PEAL_ERR_ARG);
}
END_TEST

static peal_status under_pressure(peal_ctx *other, void *user)
{
    peal_estimate_params params = PEAL_ESTIMATE_PARAMS_INIT;
    peal_model model = text_model();
    peal_fabric *fabric;
    peal_estimate *e = NULL;
    (void)user;
    peal_status status = peal_fabric_load(
        other, test_source_path("examples/topologies/slingshot-4gpu.xml"), NULL, &fabric);
    if (status != PEAL_OK)
        return status;
    params.tp = 2;
    params.bucket_bytes = 1ull << 30;
    status = peal_estimate_create(other, fabric, &model, &params, NULL, &e);
    peal_estimate_destroy(e);
    peal_fabric_destroy(fabric);
    return status;
}

START_TEST(out_of_memory)
{
    uint64_t runs;
    ck_assert_int_eq(test_oom_sweep(under_pressure, NULL, 2000, &runs), 0);
    ck_assert_uint_gt(runs, 10);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("estimate");
    TCase *tcase = tcase_create("estimate");
    tcase_set_timeout(tcase, 240);
    tcase_add_test(tcase, oracle_rows);
    tcase_add_test(tcase, text_formulas);
    tcase_add_test(tcase, amounts);
    tcase_add_test(tcase, experts);
    tcase_add_test(tcase, groups);
    tcase_add_test(tcase, bucket_drain);
    tcase_add_test(tcase, bucket_choice);
    tcase_add_test(tcase, splits);
    tcase_add_test(tcase, parts_of_sequences);
    tcase_add_test(tcase, swapped_links);
    tcase_add_test(tcase, bad_input);
    tcase_add_test(tcase, out_of_memory);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    ctx = test_ctx(&heap);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    peal_ctx_destroy(ctx);
    return failed || heap.blocks ? EXIT_FAILURE : EXIT_SUCCESS;
}
