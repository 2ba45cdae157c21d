/* SPDX-License-Identifier: Apache-2.0 */
/* alltoallv: plans that move what they cannot know the length of are refused, those that learn it
 * in time are proven and run, and counts beyond a block end the call on all ranks alike. */
#include "plan.h"
#include "support.h"
#include "test_fixture.h"
#include "test_run.h"
#include "test_suite.h"

#include <check.h>

/* ---- plans written by hand */

#define HEAD(collective, n, chunks, more)                                                          \
    "peal-table 1\nplan " collective " ranks " n " bytes 8..4096 algorithm hand chunks " chunks    \
    " semaphores 4 " more "link r0 -> r1 shm direct link r1 -> r0 shm direct "
#define PAIR HEAD("alltoallv", "2", "4", "")
#define RANK0                                                                                      \
    "rank 0 lane pre tell r1.0 sm learn r1.0 body copy c0: in[0] -> out[0] sm "                    \
    "get c2: r1.in[2]@2 -> out[2] sm post signal r1.1 sm wait r1.1 "
#define RANK1                                                                                      \
    "rank 1 lane pre tell r0.0 sm learn r0.0 body copy c3: in[3] -> out[3] sm "                    \
    "get c1: r0.in[1]@1 -> out[1] sm post signal r0.1 sm wait r0.1 "

struct sample {
    const char *text;
    const char *says; /* NULL: proven */
};

static const struct sample samples[] = {
    /* Each pulls its block, whose length it has learned. */
    {PAIR RANK0 RANK1, NULL},
    /* Another lane pulls it: ordered behind the learning by a signal, or not at all. */
    {PAIR "rank 0 lane pre tell r1.0 sm learn r1.0 signal r1.2 sm body copy c0: in[0] -> out[0] sm "
          "get c2: r1.in[2]@2 -> out[2] sm post signal r1.1 sm wait r1.1 "
          "rank 1 lane pre tell r0.0 sm learn r0.0 signal r1.3 sm body copy c3: in[3] -> out[3] sm "
          "post wait r1.1 signal r0.1 sm wait r0.1 "
          "lane pre wait r0.2 wait r1.3 body get c1: r0.in[1]@1 -> out[1] sm "
          "post signal r1.1 sm",
     NULL},
    {PAIR "rank 0 lane pre tell r1.0 sm learn r1.0 signal r1.2 sm body copy c0: in[0] -> out[0] sm "
          "get c2: r1.in[2]@2 -> out[2] sm post signal r1.1 sm wait r1.1 "
          "rank 1 lane pre tell r0.0 sm learn r0.0 body copy c3: in[3] -> out[3] sm "
          "post wait r1.1 signal r0.1 sm wait r0.1 "
          "lane pre wait r0.2 body get c1: r0.in[1]@1 -> out[1] sm "
          "post signal r1.1 sm",
     "moves chunk 1 before it has learned its length from rank 0"},
    /* Through a slot of the getter. */
    {HEAD("alltoallv", "2", "4",
          "region scratch width 1 depth 1 slot 4096 ") "rank 0 lane pre tell r1.0 sm learn r1.0 "
                                                       "body copy c0: in[0] -> out[0] sm "
                                                       "put c1: in[1] -> r1.s0[0]@1 sm signal r1.2 "
                                                       "sm get c2: r1.in[2]@2 -> out[2] sm "
                                                       "post signal r1.1 sm wait r1.1 "
                                                       "rank 1 lane pre tell r0.0 sm learn r0.0 "
                                                       "body copy c3: in[3] -> out[3] sm wait r0.2 "
                                                       "copy c1: s0[0] -> out[1] sm post signal "
                                                       "r0.1 sm wait r0.1",
     NULL},
    /* Signals alone: nobody learns anything. */
    {PAIR "rank 0 lane pre signal r1.0 sm wait r1.0 body copy c0: in[0] -> out[0] sm "
          "put c1: in[1] -> r1.out[1]@1 sm signal r1.1 sm wait r1.1 "
          "rank 1 lane pre signal r0.0 sm wait r0.0 body copy c3: in[3] -> out[3] sm "
          "put c2: in[2] -> r0.out[2]@2 sm signal r0.1 sm wait r0.1",
     "never learns how much rank 1 sends it"},
    /* A count that is no count, and one that nobody takes. */
    {PAIR "rank 0 lane pre signal r1.0 sm learn r1.0 body copy c0: in[0] -> out[0] sm "
          "get c2: r1.in[2]@2 -> out[2] sm post signal r1.1 sm wait r1.1 " RANK1,
     "0 of 1 signals tell, 1 of 1 waits learn"},
    {PAIR RANK0 "rank 1 lane pre tell r0.0 sm wait r0.0 body copy c3: in[3] -> out[3] sm "
                "get c1: r0.in[1]@1 -> out[1] sm post signal r0.1 sm wait r0.1 ",
     "never learns how much rank 0 sends it"},
    /* A tell that is not waited for. */
    {PAIR RANK0 "rank 1 lane pre tell r0.0 sm tell r0.0 sm learn r0.0 body "
                "copy c3: in[3] -> out[3] sm get c1: r0.in[1]@1 -> out[1] sm "
                "post signal r0.1 sm wait r0.1 ",
     "the next call would start askew"},
    /* Of the wrong producer: rank 1 learns twice of rank 2, and never of rank 0. */
    {HEAD("alltoallv", "3", "9",
          "link r0 -> r2 shm direct link r2 -> r0 shm direct link r1 -> r2 shm direct "
          "link r2 -> r1 shm direct ") "rank 0 lane pre tell r1.0 sm tell r2.0 sm learn r1.0 learn "
                                       "r2.0 body "
                                       "copy c0: in[0] -> out[0] sm put c1: in[1] -> r1.out[1]@5 "
                                       "sm signal r1.1 sm "
                                       "put c2: in[2] -> r2.out[2]@1 sm signal r2.1 sm wait r1.1 "
                                       "wait r2.1 "
                                       "rank 1 lane pre tell r0.0 sm tell r2.0 sm learn r2.0 learn "
                                       "r2.0 body "
                                       "copy c4: in[4] -> out[4] sm put c3: in[3] -> r0.out[3]@6 "
                                       "sm signal r0.1 sm "
                                       "put c5: in[5] -> r2.out[5]@3 sm signal r2.1 sm wait r0.1 "
                                       "wait r2.1 "
                                       "rank 2 lane pre tell r0.0 sm tell r1.0 sm learn r0.0 learn "
                                       "r1.0 body "
                                       "copy c8: in[8] -> out[8] sm put c6: in[6] -> r0.out[6]@2 "
                                       "sm signal r0.1 sm "
                                       "put c7: in[7] -> r1.out[7]@4 sm signal r1.1 sm wait r0.1 "
                                       "wait r1.1",
     "never learns how much rank 0 sends it"},
    /* A third rank passes on what it cannot know the length of. */
    {HEAD("alltoallv", "3", "9",
          "region scratch width 1 depth 1 slot 4096 "
          "link r0 -> r2 shm direct link r2 -> r0 shm direct link r1 -> r2 shm direct "
          "link r2 -> r1 shm direct ") "rank 0 lane pre tell r1.0 sm tell r2.0 sm learn r1.0 learn "
                                       "r2.0 body "
                                       "copy c0: in[0] -> out[0] sm put c1: in[1] -> r2.s0[0]@1 sm "
                                       "signal r2.2 sm "
                                       "put c2: in[2] -> r2.out[2]@1 sm signal r2.1 sm wait r1.1 "
                                       "wait r2.1 "
                                       "rank 1 lane pre tell r0.0 sm tell r2.0 sm learn r0.0 learn "
                                       "r2.0 body "
                                       "copy c4: in[4] -> out[4] sm put c3: in[3] -> r0.out[3]@6 "
                                       "sm signal r0.1 sm "
                                       "put c5: in[5] -> r2.out[5]@3 sm signal r2.1 sm wait r2.2 "
                                       "wait r2.1 "
                                       "rank 2 lane pre tell r0.0 sm tell r1.0 sm learn r0.0 learn "
                                       "r1.0 body "
                                       "copy c8: in[8] -> out[8] sm put c6: in[6] -> r0.out[6]@2 "
                                       "sm signal r0.1 sm "
                                       "put c7: in[7] -> r1.out[7]@4 sm signal r1.1 sm wait r0.2 "
                                       "put c1: s0[0] -> r1.out[1]@4 sm signal r1.2 sm wait r0.1 "
                                       "wait r1.1",
     "moves chunk 1, whose length only ranks 0 and 1 know"},
    /* Not of the form. */
    {PAIR "rank 0 lane pre tell r1.0 sm body learn r1.0 rank 1 lane pre tell r0.0 sm learn r0.0",
     "counts are told and learned in pre"},
    {PAIR "rank 0 lane pre tell r0.0 sm learn r0.0 rank 1", "a rank knows its own counts"},
    {HEAD("alltoall", "2", "4", "") "rank 0 lane pre tell r1.0 sm rank 1 lane pre learn r0.0",
     "only alltoallv has counts"},
};

static void keep_first(void *user, const peal_finding *finding)
{
    char *text = user;
    if (!*text)
        (void)snprintf(text, sizeof finding->text, "%s", finding->text);
}

/* NULL and what is wrong with it, or the proven table. */
static peal_table *judge(const char *text, char found[512])
{
    peal_table *table = NULL;
    peal_diag diag = PEAL_DIAG_INIT;
    found[0] = '\0';
    if (peal_table_assemble(ctx, text, strlen(text), "hand", &diag, &table) != PEAL_OK) {
        (void)snprintf(found, 512, "%s", diag.text);
        return NULL;
    }
    if (peal_table_verify(table, keep_first, found, NULL, &diag) == PEAL_OK)
        return table;
    if (!found[0])
        (void)snprintf(found, 512, "%s", diag.text);
    peal_table_destroy(table);
    return NULL;
}

/* ---- calls */

static size_t length(unsigned from, unsigned to, unsigned call)
{
    return (from * 7 + to * 3 + call * 5) % 12 < 2 ? 0 : (from * 11 + to * 5 + call * 13) % 101;
}

static int say(struct rank_thread *self, unsigned call, const char *what)
{
    (void)snprintf(self->problem, sizeof self->problem, "rank %u, call %u: %s", self->rank, call,
                   what);
    return 1;
}

static int ragged_body(struct rank_thread *self)
{
    uint16_t in[8 * 100], out[8 * 100];
    for (unsigned call = 0; call < 200; call++) {
        size_t send[8], came[8];
        peal_diag diag = PEAL_DIAG_INIT;
        for (unsigned r = 0; r < self->ranks; r++)
            send[r] = length(self->rank, r, call);
        for (unsigned i = 0; i < self->ranks * 100; i++)
            in[i] = (uint16_t)(self->rank * 1000 + i + call);
        memset(out, 0xee, sizeof out);
        if (peal_alltoallv(self->comm, in, send, out, call % 3 ? came : NULL, 100, PEAL_FLOAT16,
                           &diag) != PEAL_OK)
            return say(self, call, diag.text);
        for (unsigned r = 0; r < self->ranks; r++) {
            size_t filled = length(r, self->rank, call);
            if (call % 3 && came[r] != filled)
                return say(self, call, "a count is wrong");
            for (unsigned i = 0; i < 100; i++) {
                uint16_t sent = (uint16_t)(r * 1000 + self->rank * 100 + i + call);
                if (out[r * 100 + i] != (i < filled ? sent : 0xeeee))
                    return say(self, call, i < filled ? "an element is wrong" : "written behind");
            }
        }
    }
    return 0;
}

START_TEST(hand_made_plans)
{
    char found[512];
    const struct sample *sample = &samples[_i];
    peal_table *table = judge(sample->text, found);
    if (sample->says) {
        ck_assert_msg(!table && strstr(found, sample->says), "'%s' does not say '%s'", found,
                      sample->says);
        return;
    }
    ck_assert_msg(table != NULL, "%s", found);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    for (params.private_buffers = 0; params.private_buffers < 2; params.private_buffers++) {
        const char *problem = run_ranks(ctx, table, 2, &params, ragged_body, NULL);
        ck_assert_msg(!problem, "%s", problem);
    }
    peal_table_destroy(table);
}
END_TEST

static peal_table *compiled(uint32_t ranks, peal_collective collective, uint8_t engine)
{
    peal_fabric *fabric;
    peal_table *table;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_request request = PEAL_REQUEST_INIT;
    request.collective = collective;
    request.max_bytes = 1 << 20;
    request.move_engine[PEAL_LINK_SHM] = engine;
    ck_assert_int_eq(peal_fabric_host(ctx, ranks, NULL, &fabric), PEAL_OK);
    ck_assert_msg(peal_table_plan(ctx, fabric, &request, &diag, &table) == PEAL_OK, "%s",
                  diag.text);
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
    peal_fabric_destroy(fabric);
    return table;
}

START_TEST(compiled_plans)
{
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    uint32_t ranks = 1 + (uint32_t)_i % 6;
    peal_table *table = compiled(ranks, PEAL_ALLTOALLV, _i & 1 ? PEAL_ENGINE_CE + 1 : 0);
    params.chaos_seed = _i & 1 ? 99 : 0;
    params.private_buffers = _i & 2;
    const char *problem = run_ranks(ctx, table, ranks, &params, ragged_body, NULL);
    ck_assert_msg(!problem, "%s", problem);
    peal_table_destroy(table);
}
END_TEST

/* Ranks 1 and 3, or one of them, or none, give a count that is too large. */
static int bad_body(struct rank_thread *self)
{
    uint32_t in[4 * 16] = {0}, out[4 * 16];
    for (unsigned call = 0; call < 60; call++) {
        size_t send[4] = {16, 0, 3, 16}, came[4];
        peal_diag diag = PEAL_DIAG_INIT;
        int bad1 = call % 4 == 1 || call % 4 == 3, bad3 = call % 4 >= 2;
        if ((self->rank == 1 && bad1) || (self->rank == 3 && bad3))
            send[call % 3] = call % 2 ? 17 : SIZE_MAX;
        peal_status status = peal_alltoallv(self->comm, in, send, out, came, 16, PEAL_INT32, &diag);
        if (status != (bad1 || bad3 ? PEAL_ERR_ARG : PEAL_OK))
            return say(self, call, peal_status_name(status));
        if ((bad1 || bad3) && !strstr(diag.text, bad1 ? "rank 1 sends more" : "rank 3 sends more"))
            return say(self, call, diag.text);
        if (!bad1 && !bad3 && came[2] != send[self->rank])
            return say(self, call, "a count is wrong behind a bad one");
    }
    return 0;
}

START_TEST(bad_counts_are_heard_of_by_all)
{
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    peal_table *table = compiled(4, PEAL_ALLTOALLV, 0);
    const char *problem = run_ranks(ctx, table, 4, &params, bad_body, NULL);
    ck_assert_msg(!problem, "%s", problem);
    peal_table_destroy(table);
}
END_TEST

static int none_body(struct rank_thread *self)
{
    char in[2] = {0}, out[2];
    size_t send[2] = {1, 1};
    int has =
        peal_alltoallv(self->comm, in, NULL, out, NULL, 1, PEAL_INT8, NULL) == PEAL_ERR_ARG &&
        peal_alltoallv(NULL, in, send, out, NULL, 1, PEAL_INT8, NULL) == PEAL_ERR_ARG &&
        peal_alltoallv(self->comm, in, send, out, NULL, 1, PEAL_INT8, NULL) == PEAL_ERR_RANGE &&
        peal_alltoall(self->comm, in, out, 1, PEAL_INT8, NULL) == PEAL_OK;
    return has ? 0 : say(self, 0, "a table of alltoall serves an alltoallv");
}

START_TEST(not_without_a_row)
{
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    peal_table *table = compiled(2, PEAL_ALLTOALL, 0);
    const char *problem = run_ranks(ctx, table, 2, &params, none_body, NULL);
    ck_assert_msg(!problem, "%s", problem);
    peal_table_destroy(table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("counts");
    TCase *tcase = tcase_create("counts");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, hand_made_plans, 0, sizeof samples / sizeof samples[0]);
    tcase_add_loop_test(tcase, compiled_plans, 0, 12);
    tcase_add_test(tcase, bad_counts_are_heard_of_by_all);
    tcase_add_test(tcase, not_without_a_row);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_NOFORK);
}
