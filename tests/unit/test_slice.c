/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices: one rank's program made alone is that rank's program of the whole plan, step for step,
 * with its own few links; in any order of ranks, of every algorithm, and on as many ranks as the
 * format allows.
 */
#include "compiler.h"
#include "support.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct test_heap heap;
static peal_ctx *ctx;
static peal_fabric *fabric;

static void set_up(void)
{
    ctx = test_ctx(&heap);
    fabric = NULL;
}

static void tear_down(void)
{
    peal_fabric_destroy(fabric);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
    ck_assert_int_eq(heap.bytes, 0);
}

static void load_hosts(const char *topology, uint32_t count)
{
    char xml[512], base[4096];
    peal_diag diag = PEAL_DIAG_INIT;
    (void)snprintf(base, sizeof base, "%s", test_source_path("examples/topologies"));
    (void)snprintf(xml, sizeof xml,
                   "<peal version=\"1\" name=\"c\"><host name=\"h\" count=\"%u\" topology=\"%s\"/>"
                   "%s</peal>",
                   count, topology, count > 1 ? "<network kind=\"rails\"/>" : "");
    ck_assert_msg(peal_fabric_parse(ctx, xml, strlen(xml), "c.xml", base, &diag, &fabric) ==
                      PEAL_OK,
                  "%s", diag.text);
}

/* NULL: the algorithm does not serve the request. */
static peal_table *planned(peal_collective collective, const char *algorithm, uint32_t ranks)
{
    peal_request request = PEAL_REQUEST_INIT;
    peal_table *table = NULL;
    peal_diag diag = PEAL_DIAG_INIT;
    request.collective = collective;
    request.algorithm = algorithm;
    request.ranks = ranks;
    request.max_bytes = 64u << 20;
    if (peal_plan_collective(collective)->rooted)
        request.root = ranks > 1;
    if (collective == PEAL_SENDRECV && ranks == 1)
        return NULL;
    peal_status status = peal_table_plan(ctx, fabric, &request, &diag, &table);
    ck_assert_msg(status == PEAL_OK || status == PEAL_ERR_UNSUPPORTED, "%s", diag.text);
    return table;
}

/* ---- a slice and the program of the whole plan */

static void same_operand(const struct plan_slice *slice, const struct peal_plan *plan,
                         struct plan_operand a, struct plan_operand b)
{
    ck_assert_int_eq(a.link == PLAN_NO_LINK, b.link == PLAN_NO_LINK);
    if (a.link != PLAN_NO_LINK) {
        ck_assert_uint_le(a.link, slice->nlinks);
        const struct plan_link *x = &slice->links[a.link - 1], *y = &plan->links[b.link - 1];
        ck_assert_uint_eq(x->from, y->from);
        ck_assert_uint_eq(x->to, y->to);
        ck_assert_uint_eq(x->link_class, y->link_class);
        ck_assert_uint_eq(x->direct, y->direct);
        ck_assert_str_eq(x->via, y->via);
    }
    a.link = b.link = PLAN_NO_LINK;
    ck_assert_mem_eq(&a, &b, sizeof a);
}

static void same_program(const struct plan_slice *slice, const struct peal_plan *plan,
                         uint32_t rank)
{
    const struct plan_rank *a = &slice->program, *b = &plan->ranks[rank];
    ck_assert_uint_eq(a->host, b->host);
    ck_assert_uint_eq(a->arch, b->arch);
    ck_assert_str_eq(a->busid, b->busid);
    ck_assert_str_eq(a->nic, b->nic);
    ck_assert_uint_eq(a->nlanes, b->nlanes);
    ck_assert_uint_eq(a->nsteps, b->nsteps);
    ck_assert_uint_eq(a->noperands, b->noperands);
    if (a->nlanes)
        ck_assert_mem_eq(a->lanes, b->lanes, a->nlanes * sizeof *a->lanes);
    if (a->nsteps)
        ck_assert_mem_eq(a->steps, b->steps, a->nsteps * sizeof *a->steps);
    for (uint32_t i = 0; i < a->noperands; i++)
        same_operand(slice, plan, a->operands[i], b->operands[i]);
}

/* Every link of the slice is named by an operand, or carries a signal of this rank. */
static void no_link_too_many(const struct plan_slice *slice, uint32_t rank)
{
    const struct plan_rank *program = &slice->program;
    for (uint32_t l = 0; l < slice->nlinks; l++) {
        int named = 0;
        for (uint32_t i = 0; i < program->noperands; i++)
            named |= program->operands[i].link == l + 1;
        for (uint32_t s = 0; s < program->nsteps; s++)
            named |= program->steps[s].op == PLAN_SIGNAL && slice->links[l].from == rank &&
                     slice->links[l].to == program->steps[s].peer;
        ck_assert(named);
        for (uint32_t k = 0; k < l; k++)
            ck_assert(slice->links[k].from != slice->links[l].from ||
                      slice->links[k].to != slice->links[l].to);
    }
}

/* Every row: the whole plan, then each rank alone, last rank first. */
static uint32_t check_table(peal_table *table)
{
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
    for (uint32_t row = 0; row < table->nrows; row++) {
        const struct peal_plan *plan = table->rows[row].plan;
        struct emission *emission;
        ck_assert_msg(peal_emission_of_row(table, row, fabric, &diag, &emission) == PEAL_OK, "%s",
                      diag.text);
        const struct plan_source *source = peal_emission_source(emission);
        ck_assert_uint_eq(source->head->nranks, plan->nranks);
        ck_assert_uint_eq(source->head->nchunks, plan->nchunks);
        ck_assert_uint_eq(source->head->nregions, plan->nregions);
        for (uint32_t r = plan->nranks; r-- > 0;) {
            const struct plan_slice *slice;
            ck_assert_int_eq(source->read(source->user, r, &slice), PEAL_OK);
            same_program(slice, plan, r);
            no_link_too_many(slice, r);
        }
        const struct plan_slice *none;
        ck_assert_int_eq(source->read(source->user, plan->nranks, &none), PEAL_ERR_ARG);
        peal_emission_end(emission);
    }
    return table->nrows;
}

static const char *const topologies[] = {"dgx1-v100.xml", "pcie-8gpu.xml", "slingshot-4gpu.xml"};

static uint32_t check_fabric(uint32_t ranks)
{
    uint32_t rows = 0;
    for (uint32_t c = 0; c < PEAL_COLLECTIVE_COUNT; c++)
        for (uint32_t a = 0; a < ALGO_COUNT; a++) {
            peal_table *table = planned((peal_collective)c, peal_algorithm_name(a), ranks);
            rows += table ? check_table(table) : 0;
            peal_table_destroy(table);
        }
    return rows;
}

START_TEST(a_slice_is_the_ranks_program)
{
    static const uint32_t counts[] = {1, 2, 5};
    for (size_t i = 0; i < sizeof topologies / sizeof topologies[0]; i++) {
        uint32_t rows = 0;
        load_hosts(topologies[i], 2);
        for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++)
            rows += check_fabric(counts[k]);
        ck_assert_uint_gt(rows, 60);
        peal_fabric_destroy(fabric);
        fabric = NULL;
    }
}
END_TEST

/* Three hosts, the last of them not whole: the ring turns, gateways differ. */
START_TEST(a_slice_of_several_hosts)
{
    load_hosts("slingshot-4gpu.xml", 3);
    ck_assert_uint_gt(check_fabric(11), 20);
}
END_TEST

/* ---- as many ranks as the format allows */

#define MANY 65536u

/* held_max: bytes of an emission, with the largest of the programs. */
static void read_some(peal_table *table, uint32_t steps_max, int64_t held_max)
{
    static const uint32_t ranks[] = {0, 1, 7, 8, 32768, 65535};
    peal_diag diag = PEAL_DIAG_INIT;
    for (uint32_t row = 0; row < table->nrows; row++) {
        struct emission *emission;
        int64_t before = heap.bytes;
        uint64_t calls = 0;
        ck_assert_msg(peal_emission_of_row(table, row, fabric, &diag, &emission) == PEAL_OK, "%s",
                      diag.text);
        const struct plan_source *source = peal_emission_source(emission);
        for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
            const struct plan_slice *slice;
            ck_assert_int_eq(source->read(source->user, ranks[i], &slice), PEAL_OK);
            ck_assert_uint_gt(slice->program.nsteps, 0);
            ck_assert_uint_le(slice->program.nsteps, steps_max);
            ck_assert_uint_le(slice->nlinks, 100);
            ck_assert_uint_eq(slice->program.host, ranks[i] / 8);
            calls = i + 2 == sizeof ranks / sizeof ranks[0] ? heap.calls : calls;
        }
        ck_assert_uint_eq(heap.calls, calls); /* the last rank found room enough */
        ck_assert_int_lt(heap.bytes - before, held_max);
        peal_emission_end(emission);
    }
}

START_TEST(sixty_five_thousand_ranks)
{
    load_hosts("dgx-h100.xml", MANY / 8);
    peal_table *table = planned(PEAL_ALLREDUCE, NULL, MANY);
    ck_assert_ptr_nonnull(table);
    /* A few hundred steps each: nothing as long as the group is kept for them. */
    read_some(table, 4096, MANY * 2);
    peal_table_destroy(table);
}
END_TEST

/* 2 (N - 1) sends of a plain ring, each with its wait, credit and signals. */
START_TEST(a_ring_of_sixty_five_thousand)
{
    load_hosts("dgx-h100.xml", MANY / 8);
    peal_request request = PEAL_REQUEST_INIT;
    peal_table *table;
    request.algorithm = "ring";
    request.channels = 1;
    ck_assert_int_eq(peal_table_plan(ctx, fabric, &request, NULL, &table), PEAL_OK);
    read_some(table, 9 * MANY, MANY * 1024l);
    peal_table_destroy(table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("slice");
    TCase *tc = tcase_create("slice");
    tcase_set_timeout(tc, 300);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, a_slice_is_the_ranks_program);
    tcase_add_test(tc, a_slice_of_several_hosts);
    tcase_add_test(tc, sixty_five_thousand_ranks);
    tcase_add_test(tc, a_ring_of_sixty_five_thousand);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
