/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verifier, rule by rule: a small plan for each thing that docs/plan-format.md, "What is
 * proven", forbids, and for each that it allows. What is allowed is run in the model too.
 */
#include "support.h"
#include "test_fixture.h"
#include "test_model.h"
#include "test_suite.h"
#include "verify.h"

/* ---- small plans: settings, and a program for each rank */

#define REGIONS "region scratch width 4 depth 2 slot 4352 region packet width 4 depth 1 slot 4352 "
#define ONE "chunks 1 semaphores 4 " REGIONS
#define TILED                                                                                      \
    "chunks 1 semaphores 4 tile 1024 region scratch width 4 depth 2 slot 1024 "                    \
    "region packet width 4 depth 1 slot 1024 "
#define DIRECT "link r0 -> r1 shm direct link r1 -> r0 shm direct "
#define NET "link r0 -> r1 net link r1 -> r0 net "
#define FAR "link r0 -> r1 pcie link r1 -> r0 pcie "
#define TRIANGLE                                                                                   \
    "link r0 -> r1 shm direct link r1 -> r0 shm direct link r0 -> r2 shm direct "                  \
    "link r2 -> r0 shm direct link r1 -> r2 shm direct link r2 -> r1 shm direct "

/* Both ranks send their input and fold. */
#define SEND0 "put c0: in[0] -> r1.s0[0]@1 sm signal r1.0 sm "
#define SEND1 "put c0: in[0] -> r0.s0[0]@2 sm signal r0.0 sm "
#define FOLD0 "wait r1.0 reduce c0: in[0] s0[0] -> out[0] sm final "
#define FOLD1 "wait r0.0 reduce c0: in[0] s0[0] -> out[0] sm final "
#define GOOD0 "lane body " SEND0 FOLD0
#define GOOD1 "lane body " SEND1 FOLD1

struct small {
    const char *settings;
    const char *program[3];
};

static peal_table *assembled(const struct small *small)
{
    char text[8192];
    uint32_t ranks = small->program[2] ? 3 : small->program[1] ? 2 : 1;
    int used = snprintf(text, sizeof text,
                        "peal-table 1 plan allreduce ranks %u bytes 0..4096 algorithm x %s", ranks,
                        small->settings);
    for (uint32_t r = 0; r < ranks; r++)
        used +=
            snprintf(text + used, sizeof text - (size_t)used, " rank %u %s", r, small->program[r]);
    ck_assert_uint_lt((size_t)used, sizeof text);
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table = NULL;
    ck_assert_msg(peal_table_assemble(ctx, text, (size_t)used, "small", &diag, &table) == PEAL_OK,
                  "%s\n%s", diag.text, text);
    return table;
}

struct wanted {
    const char *kind;
    int64_t rank, lane, step;
    const char *text; /* part of it */
};

struct heard {
    uint32_t count;
    int found; /* the wanted one is among them */
    const struct wanted *wanted;
    char said[2048];
};

static void hear(void *user, const peal_finding *finding)
{
    struct heard *heard = user;
    const struct wanted *wanted = heard->wanted;
    size_t used = strlen(heard->said);
    (void)snprintf(heard->said + used, sizeof heard->said - used, "%s %d %d %d: %s\n",
                   finding->kind, (int)finding->rank, (int)finding->lane, (int)finding->step,
                   finding->text);
    heard->count++;
    heard->found |= wanted && !strcmp(finding->kind, wanted->kind) &&
                    finding->rank == wanted->rank && finding->lane == wanted->lane &&
                    finding->step == wanted->step && strstr(finding->text, wanted->text);
}

/* Four calls in the model in the given order; 1: something went wrong. */
static int goes_wrong(const struct peal_plan *plan, uint32_t order, uint32_t trips_max,
                      char problem[256])
{
    struct model_call calls[4];
    uint32_t most = (uint32_t)peal_plan_trip_bound(plan);
    for (uint32_t c = 0; c < 4; c++)
        calls[c] =
            (struct model_call){plan, 0, 1 + (order + c) % (most < trips_max ? most : trips_max),
                                (int)(order >> c & 1)};
    return model_run(calls, 4, order + 1, problem);
}

/* `really`: it is wrong in the model too. */
static void refused(const struct small *small, const struct wanted *wanted, int really, int line)
{
    struct heard heard = {0, 0, wanted, ""};
    peal_table *table = assembled(small);
    peal_status status = peal_table_verify(table, hear, &heard, NULL, NULL);
    ck_assert_msg(status == PEAL_ERR_UNPROVEN && heard.found, "line %d: %s\nwanted %s %d %d %d: %s",
                  line, heard.count ? heard.said : "no finding", wanted->kind, (int)wanted->rank,
                  (int)wanted->lane, (int)wanted->step, wanted->text);
    int wrong = !really;
    char problem[256];
    for (uint32_t order = 0; order < 2000 && !wrong; order++)
        wrong = goes_wrong(table->rows[0].plan, order, 30, problem);
    ck_assert_msg(wrong, "line %d: nothing goes wrong", line);
    peal_table_destroy(table);
}

static void proven(const struct small *small, int line)
{
    struct heard heard = {0, 0, NULL, ""};
    peal_table *table = assembled(small);
    peal_status status = peal_table_verify(table, hear, &heard, NULL, NULL);
    ck_assert_msg(status == PEAL_OK, "line %d: %s", line, heard.said);
    char problem[256];
    for (uint32_t order = 0; order < 60; order++)
        ck_assert_msg(!goes_wrong(table->rows[0].plan, order, 6, problem), "line %d: %s", line,
                      problem);
    peal_table_destroy(table);
}

#define REFUSED(kind, rank, lane, step, text, ...)                                                 \
    do {                                                                                           \
        const struct small small = {__VA_ARGS__};                                                  \
        const struct wanted wanted = {kind, rank, lane, step, text};                               \
        refused(&small, &wanted, 0, __LINE__);                                                     \
    } while (0)
/* It can also be seen to go wrong. */
#define WRONG(kind, rank, lane, step, text, ...)                                                   \
    do {                                                                                           \
        const struct small small = {__VA_ARGS__};                                                  \
        const struct wanted wanted = {kind, rank, lane, step, text};                               \
        refused(&small, &wanted, 1, __LINE__);                                                     \
    } while (0)
#define PROVEN(...)                                                                                \
    do {                                                                                           \
        const struct small small = {__VA_ARGS__};                                                  \
        proven(&small, __LINE__);                                                                  \
    } while (0)

/* ---- what is allowed */

START_TEST(moves_and_folds)
{
    PROVEN(ONE DIRECT, {GOOD0, GOOD1});
    PROVEN(ONE, {"lane body copy c0: in[0] -> out[0] sm"});
    PROVEN(ONE, {"lane body copy c0: in[0] -> s0[0] sm reduce c0: s0[0] -> out[0] sm final"});
    PROVEN(ONE DIRECT, {"lane body copy c0: in[0] -> s0[1] sm wait r1.0 "
                        "put_reduce c0: in[0] -> r1.s0[0]@1 sm signal r1.1 sm wait r1.1 "
                        "reduce c0: s0[1] s0[2] -> s0[3] sm reduce c0: s0[3] -> out[0] sm final",
                        "lane body copy c0: in[0] -> s0[0] sm "
                        "put c0: in[0] -> r0.s0[2]@2 sm signal r0.0 sm wait r0.1 "
                        "reduce c0: s0[0] -> out[0] sm final signal r0.1 sm"});
    PROVEN(ONE DIRECT,
           {"lane body wait r1.0 copy c0: in[0] -> out[0] sm "
            "get_reduce c0: r1.in[0]@2 -> out[0] sm final put c0: out[0] -> r1.out[0]@1 sm "
            "signal r1.0 sm",
            "lane body signal r0.0 sm wait r0.0"});
    PROVEN(ONE DIRECT, {"lane body signal r1.0 sm wait r1.0 get c0: r1.in[0]@2 -> s0[0] s0[1] sm "
                        "signal r1.1 sm wait r1.1 reduce c0: in[0] s0[1] -> out[0] sm final",
                        "lane body signal r0.0 sm wait r0.0 get c0: r0.in[0]@1 -> s0[0] sm "
                        "signal r0.1 sm wait r0.1 reduce c0: s0[0] in[0] -> out[0] sm final"});
    PROVEN(ONE DIRECT, {"lane body wait r1.0 reduce c0: in[0] s0[0] -> out[0] r1.out[0]@1 sm final "
                        "signal r1.0 sm",
                        "lane body put c0: in[0] -> r0.s0[0]@2 sm signal r0.0 sm wait r0.0"});
}
END_TEST

START_TEST(packets)
{
#define PACKET0 "put c0: in[0] -> r1.p1[0]@1 sm "
#define PACKET1 "put c0: in[0] -> r0.p1[0]@2 sm "
    PROVEN(ONE DIRECT, {"lane body " PACKET0 "reduce c0: in[0] p1[0] -> out[0] sm final",
                        "lane body " PACKET1 "reduce c0: p1[0] in[0] -> out[0] sm final"});
    /* What a lane did before it sends a packet is known to who takes it. */
    PROVEN(ONE DIRECT,
           {"lane body put c0: in[0] -> r1.s0[0]@1 sm " PACKET0 "reduce c0: in[0] p1[0] -> "
            "out[0] sm final",
            "lane body " PACKET1 "copy c0: p1[0] -> s0[1] sm "
            "reduce c0: s0[0] in[0] -> out[0] sm final"});
    /* Slots of a tiled plan, as long as no message has more trips than they are deep. */
    PROVEN("chunks 1 semaphores 1 tile 4096 region packet width 1 depth 2 slot 4096 " DIRECT,
           {"lane body put c0: in[0] -> r1.p0[0]@1 sm reduce c0: in[0] p0[0] -> out[0] sm final",
            "lane body put c0: in[0] -> r0.p0[0]@2 sm reduce c0: p0[0] in[0] -> out[0] sm final"});
}
END_TEST

#define ASYNC0(engine)                                                                             \
    "lane body put c0: in[0] -> r1.s0[0]@1 " engine " e0 signal r1.0 " engine " after e0 wait "    \
    "r1.0 await e0 free reduce c0: in[0] s0[0] -> out[0] sm final "
#define ASYNC1(engine)                                                                             \
    "lane body put c0: in[0] -> r0.s0[0]@2 " engine " e3 signal r0.0 " engine " after e3 wait "    \
    "r0.0 await e3 delivered reduce c0: s0[0] in[0] -> out[0] sm final "

START_TEST(asynchronous_engines)
{
    PROVEN(ONE DIRECT, {ASYNC0("ce"), ASYNC1("ce")});
    PROVEN(ONE DIRECT, {ASYNC0("tma"), ASYNC1("tma")});
    PROVEN(ONE NET, {ASYNC0("rdma"), ASYNC1("rdma")});
    PROVEN(ONE NET, {ASYNC0("tcp"), ASYNC1("tcp")});
    PROVEN(ONE FAR, {ASYNC0("staged"), ASYNC1("staged")});
    /* Inside one rank, and back to the lane itself or to another by a signal. */
    PROVEN(ONE, {"lane body copy c0: in[0] -> out[0] ce e0 await e0 delivered"});
    PROVEN(ONE, {"lane body copy c0: in[0] -> s0[0] tma e0 signal r0.0 tma after e0 "
                 "lane body wait r0.0 copy c0: s0[0] -> out[0] sm"});
    PROVEN(ONE DIRECT, {"lane pre signal r1.1 sm wait r1.1 body get c0: r1.in[0]@2 -> s0[0] ce e0 "
                        "await e0 delivered signal r1.0 sm wait r1.0 "
                        "reduce c0: in[0] s0[0] -> out[0] sm final",
                        "lane pre signal r0.1 sm wait r0.1 body get c0: r0.in[0]@1 -> s0[0] ce e0 "
                        "await e0 delivered signal r0.0 sm wait r0.0 "
                        "reduce c0: in[0] s0[0] -> out[0] sm final"});
    /* The next transfer of the event awaits the one before it. */
    PROVEN(ONE, {"lane body copy c0: in[0] -> s0[0] ce e0 copy c0: in[0] -> s0[1] ce e0 "
                 "copy c0: s0[0] -> s0[2] sm await e0 delivered copy c0: s0[2] -> out[0] sm"});
}
END_TEST

START_TEST(semaphores)
{
    /* Slots that the answer gives back, and by a semaphore two trips behind. */
    PROVEN(TILED DIRECT, {GOOD0, GOOD1});
    PROVEN(TILED DIRECT, {"lane body wait r1.1 lag 2 " SEND0 FOLD0 "signal r1.1 sm",
                          "lane body wait r0.1 lag 2 " SEND1 FOLD1 "signal r0.1 sm"});
    /* Raised before the trips, awaited behind them. */
    PROVEN(TILED DIRECT, {"lane pre signal r1.2 sm body wait r1.1 lag 2 " SEND0 FOLD0
                          "signal r1.1 sm post wait r1.2",
                          "lane pre signal r0.2 sm body wait r0.1 lag 2 " SEND1 FOLD1
                          "signal r0.1 sm post wait r0.2"});
    /* A wait hears of all signals up to its own. */
    PROVEN(ONE DIRECT,
           {"lane body put c0: in[0] -> r1.s0[0]@1 ce e0 signal r1.0 ce after e0 "
            "signal r1.0 ce await e0 free wait r1.0 reduce c0: in[0] s0[0] -> out[0] sm final",
            "lane body " SEND1 "wait r0.0 lag 1 wait r0.0 reduce c0: in[0] s0[0] -> out[0] sm "
            "final"});
    /* From lane to lane of one rank. */
    PROVEN(ONE DIRECT,
           {"lane body " SEND0 "signal r0.1 sm lane body wait r1.0 "
            "reduce c0: in[0] s0[0] -> s0[1] sm final wait r0.1 copy c0: s0[1] -> out[0] sm",
            GOOD1});
    /* Two links lead to the rank: either carries its signals. */
    PROVEN(ONE DIRECT "link r0 -> r1 net link r1 -> r0 net ", {GOOD0, GOOD1});
    PROVEN(ONE NET "link r0 -> r1 shm direct link r1 -> r0 shm direct ",
           {ASYNC0("rdma"), ASYNC1("rdma")});
}
END_TEST

START_TEST(chunks_and_lanes)
{
#define LANE0(c, s)                                                                                \
    "lane body put c" c ": in[" c "] -> r1.s0[" c "]@1 sm signal r1." s " sm wait r1." s           \
    " reduce c" c ": in[" c "] s0[" c "] -> out[" c "] sm final "
#define LANE1(c, s)                                                                                \
    "lane body put c" c ": in[" c "] -> r0.s0[" c "]@2 sm signal r0." s " sm wait r0." s           \
    " reduce c" c ": in[" c "] s0[" c "] -> out[" c "] sm final "
    PROVEN("chunks 2 weights 1 5 semaphores 4 " REGIONS DIRECT,
           {LANE0("0", "0") LANE0("1", "1"), LANE1("1", "1") LANE1("0", "0")});
    /* A lane without anything to do with the rest, and an unused region. */
    PROVEN("chunks 2 semaphores 4 " REGIONS DIRECT,
           {LANE0("0", "0") LANE0("1", "1") "lane pre signal r1.2 sm wait r1.2 lane",
            LANE1("0", "0") LANE1("1", "1") "lane pre signal r0.2 sm wait r0.2"});
}
END_TEST

/* Chunk by chunk what moves alone is allowed to; the two ranks exchange four chunks as one. */
#define SPANS "chunks 4 semaphores 4 region scratch width 8 depth 2 slot 4352 "
#define SPANS_TILED "chunks 4 semaphores 4 tile 128 region scratch width 8 depth 2 slot 128 "
#define SPAN0 "put c0*4: in[0] -> r1.s0[0]@1 sm signal r1.0 sm "
#define SPAN1 "put c0*4: in[0] -> r0.s0[0]@2 sm signal r0.0 sm "
#define FOLDS0 "wait r1.0 reduce c0*4: in[0] s0[0] -> out[0] sm final "
#define FOLDS1 "wait r0.0 reduce c0*4: in[0] s0[0] -> out[0] sm final "
#define FAR_SPAN(rank, link, engine, rest)                                                         \
    "lane body put c0*4: in[0] -> r" rank ".s0[0]@" link " " engine " e0 signal r" rank            \
    ".0 " engine " after e0 wait r" rank ".0 " rest

START_TEST(spans)
{
    PROVEN(SPANS DIRECT, {"lane body " SPAN0 FOLDS0, "lane body " SPAN1 FOLDS1});
    PROVEN(SPANS_TILED DIRECT, {"lane body " SPAN0 FOLDS0, "lane body " SPAN1 FOLDS1});
    /* Sent by twos and threes, folded by strides; the slots tell which chunk is which. */
    PROVEN(SPANS DIRECT,
           {"lane body put c0*2+2: in[0] -> r1.s0[2]@1 sm put c1*2+2: in[1] -> r1.s0[4]@1 sm "
            "signal r1.0 sm " FOLDS0,
            "lane body put c0*3: in[0] -> r0.s0[0]@2 sm put c3: in[3] -> r0.s0[3]@2 sm "
            "signal r0.0 sm wait r0.0 reduce c0*2+2: in[0] s0[2] -> s0[2] out[0] sm final "
            "reduce c1*2+2: s0[4] in[1] -> out[1] sm final"});
    PROVEN(
        SPANS NET,
        {FAR_SPAN("1", "1", "rdma", "await e0 free reduce c0*4: in[0] s0[0] -> out[0] sm final"),
         FAR_SPAN("0", "2", "rdma", "await e0 free reduce c0*4: in[0] s0[0] -> out[0] sm final")});
    /* Slots of two spans in turn, sent as one and folded by twos. */
    PROVEN(SPANS DIRECT,
           {"lane body put c0*2~2: in[0] -> r1.s0[1]@1 sm put c2*2~2: in[2] -> r1.s0[0]@1 sm "
            "signal r1.0 sm " FOLDS0,
            "lane body " SPAN1 "wait r0.0 reduce c0*2~2: in[0] s0[1] -> out[0] sm final "
            "reduce c2*2~2: s0[0] in[2] -> out[2] sm final"});
    PROVEN(SPANS DIRECT, {"lane body " SPAN0 FOLDS0 "copy c0*2~2: in[0] -> s0[4] sm "
                          "copy c0*2~2: s0[4] -> s0[5] sm",
                          "lane body " SPAN1 FOLDS1});
    /* Of a span, each chunk folds its own: the destination is the source, slot by slot. */
    PROVEN(SPANS DIRECT, {"lane body " SPAN0 "wait r1.0 reduce c0*4: in[0] s0[0] -> s0[0] sm final "
                          "copy c0*4: s0[0] -> out[0] sm",
                          "lane body " SPAN1 FOLDS1});
}
END_TEST

START_TEST(wrong_spans)
{
    /* A chunk too few, too many or another. */
    WRONG("result", 0, 0, 3, "read before anything is there", SPANS DIRECT,
          {"lane body " SPAN0 FOLDS0,
           "lane body put c0*3: in[0] -> r0.s0[0]@2 sm signal r0.0 sm " FOLDS1});
    WRONG("result", 0, -1, -1, "out[3] tile 0 is never written", SPANS DIRECT,
          {"lane body " SPAN0 "wait r1.0 reduce c0*3: in[0] s0[0] -> out[0] sm final",
           "lane body " SPAN1 FOLDS1});
    WRONG("result", 0, 0, 3, "moves chunk 1 tile 0, but the source holds chunk 2", SPANS DIRECT,
          {"lane body " SPAN0 FOLDS0,
           "lane body put c0*2+2: in[0] -> r0.s0[0]@2 sm put c1*2+2: in[1] -> r0.s0[2]@2 sm "
           "signal r0.0 sm " FOLDS1});
    REFUSED("result", 0, 0, 4, "already final", SPANS DIRECT,
            {"lane body " SPAN0 FOLDS0 "reduce c2*2: out[2] s0[2] -> out[2] sm",
             "lane body " SPAN1 FOLDS1});
    /* The last chunk of a span is put behind the signal, or is not waited for. */
    WRONG("race", 0, 0, 3, "reading r0.scratch region 0 slot 3 is not ordered", SPANS DIRECT,
          {"lane body " SPAN0 FOLDS0 "wait r1.1",
           "lane body put c0*3: in[0] -> r0.s0[0]@2 sm signal r0.0 sm "
           "put c3: in[3] -> r0.s0[3]@2 sm signal r0.1 sm " FOLDS1});
    /* Input that the transfer of a span still reads, its last chunk alone. */
    WRONG(
        "race", 0, 0, 3, "writing r0.out[3] tile 0 is not ordered", SPANS NET,
        {FAR_SPAN("1", "1", "rdma",
                  "reduce c3: in[3] s0[3] -> out[3] sm final "
                  "await e0 free reduce c0*3: in[0] s0[0] -> out[0] sm final"),
         FAR_SPAN("0", "2", "rdma", "await e0 free reduce c0*4: in[0] s0[0] -> out[0] sm final")});
    /* A slot that is a source of one chunk and a destination of another. */
    REFUSED("race", 0, 0, 4, "slots from 1 and from 0 of region 0 overlap", SPANS DIRECT,
            {"lane body " SPAN0 FOLDS0 "copy c0*2: s0[0] -> s0[1] sm", "lane body " SPAN1 FOLDS1});
    REFUSED("race", 0, 0, 4, "slots from 5 and from 6 of region 0 overlap", SPANS DIRECT,
            {"lane body " SPAN0 FOLDS0 "copy c0*2: in[0] -> s0[5] s0[6] sm",
             "lane body " SPAN1 FOLDS1});
    REFUSED("race", 0, 0, 5, "slots from 5 and from 3 of region 0 overlap", SPANS DIRECT,
            {"lane body " SPAN0 FOLDS0 "copy c0*2~2: in[0] -> s0[3] sm "
             "copy c0*2~2: s0[3] -> s0[5] sm",
             "lane body " SPAN1 FOLDS1});
    WRONG("result", 0, 0, 3, "moves chunk 1 tile 0, but the source holds chunk 2", SPANS DIRECT,
          {"lane body " SPAN0 "wait r1.0 reduce c0*2~2: in[0] s0[0] -> out[0] sm final "
           "reduce c2*2: in[2] s0[2] -> out[2] sm final",
           "lane body " SPAN1 FOLDS1});
    REFUSED(
        "bounds", 0, 0, 0, "must carry the step's chunk", SPANS DIRECT,
        {"lane body put c0*2: in[2] -> r1.s0[0]@1 sm " SPAN0 FOLDS0, "lane body " SPAN1 FOLDS1});
}
END_TEST

/* Blocks of a span that a rank does not hold. */
START_TEST(spans_stay_within_a_buffer)
{
    static const char text[] =
        "peal-table 1 plan reduce-scatter ranks 2 bytes 0..4096 algorithm x chunks 4 semaphores 1 "
        "region scratch width 4 depth 1 slot 4352 " DIRECT "rank 0 lane body "
        "put c2*2: in[2] -> r1.s0[0]@1 sm signal r1.0 sm wait r1.0 "
        "reduce c1*2: in[1] s0[0] -> out[1] sm final rank 1 lane body signal r0.0 sm wait r0.0 "
        "reduce c2*2: in[2] s0[0] -> out[2] sm final ";
    const struct wanted wanted = {"bounds", 0, 0, 3, "rank 0 has no chunk 2 in its output"};
    struct heard heard = {0, 0, &wanted, ""};
    peal_table *table = NULL;
    ck_assert_int_eq(peal_table_assemble(ctx, text, sizeof text - 1, "t", NULL, &table), PEAL_OK);
    ck_assert_int_eq(peal_table_verify(table, hear, &heard, NULL, NULL), PEAL_ERR_UNPROVEN);
    ck_assert_msg(heard.found, "%s", heard.said);
    peal_table_destroy(table);
}
END_TEST

/* ---- what is not: results */

START_TEST(results)
{
    WRONG("result", 0, -1, -1, "never written", ONE DIRECT,
          {"lane body " SEND0 "wait r1.0", GOOD1});
    WRONG("result", 1, -1, -1, "out[1] tile 0 is never written",
          "chunks 2 semaphores 4 " REGIONS DIRECT,
          {LANE0("0", "0") LANE0("1", "1"),
           LANE1("0", "0") "lane body put c1: in[1] -> r0.s0[1]@2 sm signal r0.1 sm wait r0.1"});
    WRONG("result", 0, -1, -1, "never made final", ONE DIRECT,
          {"lane body " SEND0 "wait r1.0 reduce c0: in[0] s0[0] -> out[0] sm", GOOD1});
    WRONG("result", 0, 0, 3, "rank 1 is missing", ONE DIRECT,
          {"lane body " SEND0 "wait r1.0 reduce c0: in[0] -> out[0] sm final", GOOD1});
    REFUSED(
        "result", 0, 0, 3, "rank 0 enters twice", ONE DIRECT,
        {"lane body " SEND0 "wait r1.0 reduce c0: in[0] s0[0] in[0] -> out[0] sm final", GOOD1});
    WRONG("result", 0, 0, 4, "already final", ONE DIRECT,
          {"lane body " SEND0 FOLD0 "reduce c0: out[0] s0[0] -> out[0] sm", GOOD1});
    WRONG("result", 0, 0, 4, "marked final", ONE DIRECT,
          {"lane body " SEND0 FOLD0 "reduce c0: out[0] -> out[0] sm final", GOOD1});
    WRONG("result", 0, 0, 3, "read before anything is there", ONE DIRECT,
          {"lane body " SEND0 "wait r1.0 reduce c0: in[0] s0[1] -> out[0] sm final", GOOD1});
    WRONG("result", 0, 0, 0, "read before anything is there", ONE DIRECT,
          {"lane body copy c0: out[0] -> s0[2] sm " SEND0 FOLD0, GOOD1});
    /* Chunk 1 in a slot that is folded as chunk 0's. */
    WRONG("result", 0, 0, 3, "moves chunk 0 tile 0, but the source holds chunk 1",
          "chunks 2 semaphores 4 " REGIONS DIRECT,
          {LANE0("0", "0") LANE0("1", "1"),
           "lane body put c1: in[1] -> r0.s0[0]@2 sm signal r0.0 sm wait r0.0 "
           "reduce c0: in[0] s0[0] -> out[0] sm final " LANE1("1", "1")});
}
END_TEST

/* Three ranks; each sends to both others, and the middle rank's way to fold them is given. */
#define TO_ALL(a, la, b, lb, slot)                                                                 \
    "lane body put c0: in[0] -> r" a ".s0[" slot "]@" la " r" b ".s0[" slot "]@" lb                \
    " sm signal r" a ".0 sm signal r" b ".0 sm wait r" a ".0 wait r" b ".0 "
#define ALL0 TO_ALL("1", "1", "2", "3", "0")
#define ALL1 TO_ALL("0", "2", "2", "5", "1")
#define ALL2 TO_ALL("0", "4", "1", "6", "2")

START_TEST(numbers)
{
    PROVEN(ONE TRIANGLE, {ALL0 "reduce c0: in[0] s0[1] s0[2] -> out[0] sm final",
                          ALL1 "reduce c0: in[0] s0[0] s0[2] -> out[0] sm final",
                          ALL2 "reduce c0: s0[1] s0[0] in[0] -> out[0] sm final"});
    REFUSED("numbers", 1, -1, -1, "in another order", ONE TRIANGLE,
            {ALL0 "reduce c0: in[0] s0[1] s0[2] -> out[0] sm final",
             ALL1 "reduce c0: in[0] s0[2] s0[0] -> out[0] sm final",
             ALL2 "reduce c0: s0[0] s0[1] in[0] -> out[0] sm final"});
    /* float16 rounds when it is stored: two steps are not one. */
    REFUSED("numbers", 1, -1, -1, "in another order", ONE TRIANGLE,
            {ALL0 "reduce c0: in[0] s0[1] s0[2] -> out[0] sm final",
             ALL1 "reduce c0: in[0] s0[0] -> s0[3] sm reduce c0: s0[3] s0[2] -> out[0] sm final",
             ALL2 "reduce c0: s0[0] s0[1] in[0] -> out[0] sm final"});
    /* And avg divides before it does. */
    REFUSED("numbers", 1, -1, -1, "in another order", ONE DIRECT,
            {GOOD0, "lane body " SEND1 "wait r0.0 reduce c0: in[0] s0[0] -> s0[1] sm "
                    "reduce c0: s0[1] -> out[0] sm final"});
}
END_TEST

/* ---- deadlock */

START_TEST(deadlocks)
{
    WRONG("deadlock", 0, 0, 0, "waits for ever for rank 1, semaphore 0", ONE DIRECT,
          {"lane body wait r1.0 " SEND0 "reduce c0: in[0] s0[0] -> out[0] sm final",
           "lane body wait r0.0 " SEND1 "reduce c0: in[0] s0[0] -> out[0] sm final"});
    WRONG("deadlock", 1, 0, 1, "for a packet", ONE DIRECT,
          {"lane body " PACKET0 "reduce c0: in[0] p1[0] -> out[0] sm final",
           "lane body " PACKET1 "reduce c0: p1[1] in[0] -> out[0] sm final"});
    WRONG("deadlock", 0, 1, 0, "signalled by lanes 0 and 1", ONE DIRECT,
          {GOOD0 "lane body signal r1.0 sm", GOOD1 "wait r0.0"});
    REFUSED("deadlock", 1, 1, 0, "waited on by lanes 0 and 1", ONE DIRECT,
            {GOOD0 "signal r1.0 sm", GOOD1 "lane body wait r0.0"});
    /* Rank 1 takes what it is given only once ten were raised, rank 0 gives no more than eight
     * ahead: right with few trips, where the end of the trips raises the rest. */
    WRONG("deadlock", 1, 0, 9, "only in a later trip or section (semaphore 2)",
          "chunks 1 semaphores 4 tile 128 region scratch width 4 depth 1 slot 128 " DIRECT,
          {"lane body wait r1.1 lag 1 wait r1.3 lag 8 " SEND0 FOLD0 "signal r1.1 sm "
           "signal r1.2 sm post signal r1.2 sm signal r1.2 sm signal r1.2 sm signal r1.2 sm "
           "signal r1.2 sm signal r1.2 sm signal r1.2 sm signal r1.2 sm signal r1.2 sm "
           "signal r1.2 sm",
           "lane pre wait r0.2 wait r0.2 wait r0.2 wait r0.2 wait r0.2 wait r0.2 wait r0.2 "
           "wait r0.2 wait r0.2 wait r0.2 body wait r0.2 signal r0.3 sm "
           "lane body wait r0.1 lag 1 " SEND1 FOLD1 "signal r0.1 sm"});
    /* Likewise what is ordered: with few trips the wait of pre covers all of them. */
    WRONG("deadlock", 1, 1, 4, "only in a later trip or section (semaphore 2)",
          "chunks 1 semaphores 4 tile 128 region scratch width 4 depth 1 slot 128 " DIRECT,
          {"lane body wait r1.0 reduce c0: in[0] s0[0] -> out[0] sm final signal r1.1 sm "
           "signal r1.2 sm post signal r1.2 sm signal r1.2 sm signal r1.2 sm signal r1.2 sm "
           "signal r1.2 sm lane body wait r1.3",
           "lane body wait r0.1 lag 1 " SEND1 "lane pre wait r0.2 wait r0.2 wait r0.2 wait r0.2 "
           "wait r0.2 body wait r0.2 lag 6 get c0: r0.out[0]@1 -> out[0] sm signal r0.3 sm"});
}
END_TEST

/* ---- races */

START_TEST(races)
{
    /* A slot that is read while a later trip writes it. */
    WRONG("race", 0, 1, 1, "is not ordered after the write by rank 1 lane 0", TILED DIRECT,
          {"lane body wait r1.1 lag 3 " SEND0 "lane body " FOLD0 "signal r1.1 sm",
           "lane body wait r0.1 lag 3 " SEND1 "lane body " FOLD1 "signal r0.1 sm"});
    /* Sources and destinations of a transfer under way. */
    WRONG("race", 0, -1, -1,
          "the caller writing r0.in[0] tile 0 is not ordered after the read by "
          "rank 0 lane 0 (a transfer still under way)",
          ONE DIRECT,
          {"lane body put c0: in[0] -> r1.s0[0]@1 ce e0 signal r1.0 ce after e0 " FOLD0, GOOD1});
    WRONG("race", 1, 0, 3, "reading r1.scratch region 0 slot 0 is not ordered after the write",
          ONE DIRECT,
          {"lane body put c0: in[0] -> r1.s0[0]@1 ce e0 signal r1.0 ce await e0 delivered " FOLD0,
           GOOD1});
    WRONG("race", 0, 0, 2, "a transfer still under way", ONE,
          {"lane body copy c0: in[0] -> s0[0] ce e0 await e0 free copy c0: s0[0] -> out[0] sm "
           "await e0 delivered"});
    WRONG("race", 0, 0, 1, "not delivered to rank 1, which is told that it is", ONE DIRECT,
          {"lane body copy c0: in[0] -> s0[1] ce e0 signal r1.0 ce after e0 " FOLD0, GOOD1});
    /* The caller's: before the peer has entered, and after it has returned. */
    WRONG("race", 0, 0, 0,
          "reading r1.in[0] tile 0 is not ordered after the write by rank 1's caller", ONE DIRECT,
          {"lane body get c0: r1.in[0]@2 -> s0[0] sm " SEND0 FOLD0 "signal r1.1 sm",
           GOOD1 "wait r0.1"});
    WRONG("race", 1, -1, -1, "is not ordered after the read by rank 0 lane 0", ONE DIRECT,
          {"lane body " SEND0 FOLD0 "get c0: r1.in[0]@2 -> s0[1] sm", GOOD1});
    /* Signals of two engines. */
    REFUSED("race", 0, 0, 2, "by sm and by ce", ONE DIRECT,
            {"lane body " SEND0 "signal r1.0 ce " FOLD0, GOOD1 "wait r0.0"});
    /* Packets: once written, once read. */
    WRONG("race", 0, 0, 1, "is written twice in a call", ONE DIRECT,
          {"lane body " PACKET0 PACKET0 "reduce c0: in[0] p1[0] -> out[0] sm final",
           "lane body " PACKET1 "reduce c0: p1[0] in[0] -> out[0] sm final"});
    REFUSED("race", 1, 0, 2, "is read twice in a call", ONE DIRECT,
            {"lane body " PACKET0 "reduce c0: in[0] p1[0] -> out[0] sm final",
             "lane body " PACKET1 "copy c0: p1[0] -> s0[0] sm "
             "reduce c0: p1[0] in[0] -> out[0] sm final"});
    /* A packet says nothing of what its own step stores elsewhere. */
    WRONG("race", 1, 0, 2, "reading r1.scratch region 0 slot 0", ONE DIRECT,
          {"lane body put c0: in[0] -> r1.p1[0]@1 r1.s0[0]@1 sm "
           "reduce c0: in[0] p1[0] -> out[0] sm final",
           "lane body " PACKET1 "copy c0: p1[0] -> s0[1] sm "
           "reduce c0: s0[0] in[0] -> out[0] sm final"});
}
END_TEST

/* ---- composition */

START_TEST(compositions)
{
    REFUSED("composition", 1, -1, -1, "the next call would start askew", ONE DIRECT,
            {GOOD0 "signal r1.1 sm", GOOD1});
    REFUSED("composition", 1, -1, -1, "1 + 0 a trip signals, 0 + 1 a trip waits", ONE DIRECT,
            {GOOD0 "post signal r1.1 sm", GOOD1 "wait r0.1"});
    /* A transfer that nobody waits for: the next call may be of another plan. */
    REFUSED("composition", 0, 0, 0, "nobody waits until the transfer of e0 is delivered",
            ONE DIRECT,
            {"lane body put c0: in[0] -> r1.s0[2]@1 ce e0 await e0 free " SEND0 FOLD0, GOOD1});
}
END_TEST

/* ---- capability, bounds, form */

START_TEST(capabilities)
{
    REFUSED("capability", 0, 0, 3, "engine ce cannot reduce", ONE DIRECT,
            {"lane body " SEND0 "wait r1.0 reduce c0: in[0] s0[0] -> out[0] ce e0 final", GOOD1});
    REFUSED("capability", 0, 0, 0, "engine sm cannot move over link 1", ONE NET, {GOOD0, GOOD1});
    REFUSED("capability", 0, 0, 0, "engine ce cannot move over link 1", ONE NET,
            {ASYNC0("ce"), ASYNC1("rdma")});
    REFUSED("capability", 0, 0, 0, "engine rdma cannot move over link 1", ONE DIRECT,
            {ASYNC0("rdma"), ASYNC1("ce")});
    REFUSED("capability", 0, 0, 0, "engine staged cannot move over link 1", ONE NET,
            {ASYNC0("staged"), ASYNC1("rdma")});
    REFUSED("capability", 0, 0, 0, "engine tma cannot move over link 1", ONE DIRECT,
            {"arch 80 " ASYNC0("tma"), ASYNC1("ce")});
    REFUSED("capability", 0, 0, 0, "needs compute capability 9.0", ONE,
            {"arch 80 lane body copy c0: in[0] -> out[0] tma e0 await e0 delivered"});
    REFUSED("capability", 0, 0, 0, "only writes over a link that is not direct", ONE NET,
            {"lane body get c0: r1.in[0]@2 -> s0[0] rdma e0", "lane"});
    REFUSED("capability", 0, 0, 0, "moves nothing inside one rank", ONE NET,
            {"lane body copy c0: in[0] -> s0[0] rdma e0", "lane"});
    REFUSED("capability", 0, 0, 0, "one destination", ONE NET,
            {"lane body put c0: in[0] -> r1.s0[0]@1 s0[0] rdma e0", "lane"});
    REFUSED("capability", 0, 0, 0, "only sm reads and writes packets", ONE DIRECT,
            {"lane body put c0: in[0] -> r1.p1[0]@1 ce e0", "lane"});
    REFUSED("capability", 0, 0, 0, "no link leads to the rank", ONE "link r1 -> r0 shm direct ",
            {"lane body signal r1.0 sm", "lane body wait r0.0"});
    REFUSED("capability", 0, 0, 0, "engine sm cannot signal rank 1", ONE NET,
            {"lane body signal r1.0 sm", "lane body wait r0.0"});
    REFUSED("capability", 0, 0, 0, "engine tma cannot signal rank 0", ONE,
            {"lane body signal r0.0 tma wait r0.0"});
    REFUSED("capability", 0, 0, 0, "which no transfer defines", ONE DIRECT,
            {"lane body signal r1.0 ce after e0", "lane body wait r0.0"});
    REFUSED("capability", 0, 0, 1, "engine tma cannot signal behind a transfer of ce", ONE DIRECT,
            {"lane body put c0: in[0] -> r1.s0[0]@1 ce e0 signal r1.0 tma after e0 await e0 "
             "delivered " FOLD0,
             GOOD1});
    REFUSED("capability", 0, 0, 0, "awaits event e4, which no transfer defines", ONE DIRECT,
            {"lane body await e4 free " SEND0 FOLD0, GOOD1});
}
END_TEST

START_TEST(bounds_and_form)
{
    REFUSED("bounds", 0, 0, 0, "does not fit a slot of 4096",
            "chunks 1 semaphores 4 region scratch width 4 depth 2 slot 4096 " DIRECT,
            {GOOD0, GOOD1});
    REFUSED("bounds", 0, 0, 0, "does not fit a slot of 512",
            "chunks 1 semaphores 4 tile 1024 region scratch width 4 depth 2 slot 512 " DIRECT,
            {GOOD0, GOOD1});
    REFUSED("bounds", 0, 0, 0, "must carry the step's chunk",
            "chunks 2 semaphores 4 " REGIONS DIRECT,
            {"lane body put c0: in[1] -> r1.s0[0]@1 sm", "lane"});
    REFUSED("form", 0, 0, 0, "data steps stand in the body", ONE DIRECT,
            {"lane pre put c0: in[0] -> r1.s0[0]@1 sm", "lane"});
}
END_TEST

/* No step moves more than the bound, and no message takes more trips. */
START_TEST(bounds_hold_for_every_size)
{
    uint32_t random = 1;
    for (uint32_t round = 0; round < 300; round++) {
        struct peal_plan *plan;
        ck_assert_int_eq(peal_plan_create(ctx, 1, &plan), PEAL_OK);
        peal_copy_text(plan->algorithm, sizeof plan->algorithm, "x");
        plan->nchunks = 1 + (random = random * 1664525u + 1013904223u) % 9;
        plan->max_bytes = (random = random * 1664525u + 1013904223u) % 6000;
        plan->tile_bytes = (random >> 20) % 3 * 128;
        if (round % 3) {
            plan->weights = peal_calloc(ctx, plan->nchunks, sizeof *plan->weights);
            for (uint32_t i = 0; i < plan->nchunks; i++)
                plan->weights[i] = 1 + ((random = random * 1664525u + 1013904223u) >> 16) %
                                           (round % 3 == 1 ? 4 : 400);
        }
        ck_assert_int_eq(peal_plan_seal(plan, NULL), PEAL_OK);
        uint64_t bound = peal_plan_tile_bound(plan), trips = peal_plan_trip_bound(plan);
        uint32_t wrong = 0;
        for (size_t elem = 1; elem <= 8; elem *= 2)
            for (uint64_t count = 0; count * elem <= plan->max_bytes; count++) {
                uint64_t bytes = peal_plan_chunk_bytes(plan, count, elem);
                if (plan->tile_bytes && bytes > plan->tile_bytes)
                    bytes = plan->tile_bytes;
                wrong += bytes > bound || peal_plan_trips(plan, count, elem) > trips;
            }
        ck_assert_uint_eq(wrong, 0);
        peal_plan_destroy(plan);
    }
}
END_TEST

/* More tiles than can be told apart are refused, not folded onto each other. */
START_TEST(more_tiles_than_fit_are_refused)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    const uint32_t chunks = 1u << 17, depth = (1u << 15) - 2;
    (void)fprintf(
        file,
        "peal-table 1 plan allreduce ranks 1 bytes 0..137438953472 algorithm x chunks %u "
        "semaphores 1 tile 128 region scratch width 1 depth %u slot 128 rank 0 lane body ",
        chunks, depth);
    for (uint32_t c = 0; c < chunks; c++)
        (void)fprintf(file, "copy c%u: in[%u] -> out[%u] sm ", c, c, c);
    (void)fclose(file);
    peal_table *table;
    peal_diag diag = PEAL_DIAG_INIT;
    for (char *blank = text; (size_t)(blank - text) + 60000 < bytes; blank += 50000)
        *strchr(blank + 40000, ' ') = '\n';
    ck_assert_msg(peal_table_assemble(ctx, text, bytes, "wide", &diag, &table) == PEAL_OK, "%s",
                  diag.text);
    struct verify_out out = {0};
    struct verify_sems sems = {0};
    struct verify_parts parts = {0};
    const struct peal_plan *plan = table->rows[0].plan;
    ck_assert_int_eq(peal_verify_sems_build(&sems, plan, &out), PEAL_OK);
    ck_assert_int_eq(peal_verify_parts_make(&parts, plan, &sems), PEAL_OK);
    struct verify_run run = {.plan = plan,
                             .sems = &sems,
                             .parts = &parts,
                             .part = VERIFY_ALL_PARTS,
                             .trips = depth + 2,
                             .calls = 1};
    ck_assert_int_eq(peal_verify_execute(&run, &out), PEAL_ERR_LIMIT);
    peal_verify_parts_free(&parts);
    peal_verify_sems_free(&sems);
    peal_table_destroy(table);
    free(text);
}
END_TEST

/* ---- small files that ask for much: what they take does not grow as a square of them ------------
 */

static void take(struct peal_buf *text, peal_status wanted, uint64_t most_steps)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table = NULL;
    peal_verify_report report = {.size = sizeof report};
    ck_assert_int_eq(text->status, PEAL_OK);
    ck_assert_msg(peal_table_assemble(ctx, text->data, text->used, "much", &diag, &table) ==
                      PEAL_OK,
                  "%s", diag.text);
    ck_assert_int_eq(peal_table_verify(table, NULL, NULL, &report, &diag), wanted);
    ck_assert_uint_le(report.steps, most_steps);
    peal_table_destroy(table);
    peal_buf_free(text);
}

START_TEST(many_parts)
{
    struct peal_buf text;
    peal_buf_init(&text, ctx, 1u << 24);
    peal_buf_fmt(&text, "peal-table 1 plan barrier ranks 300 bytes 0..0 algorithm x chunks 1 "
                        "semaphores 64");
    for (unsigned r = 0; r < 300; r++) {
        peal_buf_fmt(&text, "\nrank %u", r);
        for (unsigned l = 0; l < 64; l++)
            peal_buf_fmt(&text, "\nlane pre signal r%u.%u sm wait r%u.%u", r, l, r, l);
    }
    take(&text, PEAL_ERR_UNPROVEN, 1u << 20);
}
END_TEST

START_TEST(many_rows)
{
    struct peal_buf text;
    peal_buf_init(&text, ctx, 1u << 24);
    peal_buf_str(&text, "peal-table 1");
    for (unsigned i = 0; i < 300; i++) {
        peal_buf_fmt(&text,
                     "\nplan barrier ranks 1 bytes %u..%u algorithm x tile 128 chunks 250 "
                     "weights",
                     i, i);
        for (unsigned c = 0; c < 250; c++)
            peal_buf_str(&text, " 1");
        peal_buf_str(&text, " rank 0");
    }
    take(&text, PEAL_OK, 0);
}
END_TEST

START_TEST(deep_regions)
{
    struct peal_buf text;
    peal_buf_init(&text, ctx, 1u << 16);
    peal_buf_str(&text, "peal-table 1 plan barrier ranks 2 bytes 0..100000000 algorithm x tile 128 "
                        "chunks 1 semaphores 1 region scratch width 1 depth 65535 slot 128 " DIRECT
                        "rank 0 lane body signal r1.0 sm wait r1.0 "
                        "rank 1 lane body signal r0.0 sm wait r0.0");
    take(&text, PEAL_OK, 1u << 22);
}
END_TEST

START_TEST(wide_spans)
{
    struct peal_buf text;
    peal_buf_init(&text, ctx, 1u << 16);
    peal_buf_str(&text, "peal-table 1 plan allreduce ranks 16 bytes 0..8 algorithm x "
                        "chunks 4194304");
    for (unsigned r = 0; r < 16; r++)
        peal_buf_fmt(&text, " link r%u -> r%u net direct", r, (r + 1) % 16);
    for (unsigned r = 0; r < 16; r++) {
        peal_buf_fmt(&text, "\nrank %u lane body", r);
        for (unsigned i = 0; i < 31; i++)
            peal_buf_fmt(&text, "\nput c0*4194304: out[0] -> r%u.out[0]@%u sm", (r + 1) % 16,
                         r + 1);
    }
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table = NULL;
    ck_assert_msg(peal_table_assemble(ctx, text.data, text.used, "much", &diag, &table) == PEAL_OK,
                  "%s", diag.text);
    peal_row_info row = {.size = sizeof row};
    ck_assert_int_eq(peal_table_row(table, 0, &row), PEAL_OK);
    ck_assert_uint_eq(row.net_messages, 31);
    peal_table_destroy(table);
    peal_buf_free(&text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verify");
    TCase *tcase = tcase_create("verify");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, moves_and_folds);
    tcase_add_test(tcase, packets);
    tcase_add_test(tcase, asynchronous_engines);
    tcase_add_test(tcase, semaphores);
    tcase_add_test(tcase, chunks_and_lanes);
    tcase_add_test(tcase, spans);
    tcase_add_test(tcase, wrong_spans);
    tcase_add_test(tcase, spans_stay_within_a_buffer);
    tcase_add_test(tcase, results);
    tcase_add_test(tcase, numbers);
    tcase_add_test(tcase, deadlocks);
    tcase_add_test(tcase, races);
    tcase_add_test(tcase, compositions);
    tcase_add_test(tcase, capabilities);
    tcase_add_test(tcase, bounds_and_form);
    tcase_add_test(tcase, bounds_hold_for_every_size);
    tcase_add_test(tcase, more_tiles_than_fit_are_refused);
    tcase_add_test(tcase, many_parts);
    tcase_add_test(tcase, many_rows);
    tcase_add_test(tcase, deep_regions);
    tcase_add_test(tcase, wide_spans);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_NOFORK);
}
