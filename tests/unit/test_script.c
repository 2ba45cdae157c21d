/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules written down step by step: what is refused and in which words, random right ones, of
 * every collective and on every kind of machine (compiling proves them), and collectives of one's
 * own, from the text of a plan to a call.
 */
#include "machines.h"
#include "support.h"
#include "test_suite.h"
#include <peal/peal.h>

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS 16u

static peal_ctx *make_ctx(void)
{
    peal_ctx *ctx;
    ck_assert(peal_ctx_create(NULL, &ctx) == PEAL_OK);
    return ctx;
}

static peal_schedule *begin(peal_ctx *ctx, const peal_schedule_params *params)
{
    peal_schedule *script;
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_msg(peal_schedule_create(ctx, params, &diag, &script) == PEAL_OK, "%s", diag.text);
    return script;
}

static peal_schedule_params params_for(peal_collective collective, uint32_t ranks, uint32_t chunks)
{
    peal_schedule_params params = PEAL_SCHEDULE_PARAMS_INIT;
    params.name = "own";
    params.path = "own.lua";
    params.collective = collective;
    params.ranks = ranks;
    params.chunks = chunks;
    return params;
}

static peal_status try_step(peal_schedule *script, int reduces, uint32_t chunk, uint32_t from,
                            uint32_t to, uint32_t line, peal_diag *diag)
{
    peal_schedule_step step = {.size = sizeof step,
                               .reduces = reduces,
                               .chunk = chunk,
                               .nfrom = 1,
                               .nto = 1,
                               .from = &from,
                               .to = &to,
                               .line = line};
    return peal_schedule_add(script, &step, diag);
}

static void step(peal_schedule *script, int reduces, uint32_t chunk, uint32_t from, uint32_t to,
                 uint32_t line)
{
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_msg(try_step(script, reduces, chunk, from, to, line, &diag) == PEAL_OK, "%s",
                  diag.text);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void expect(const peal_diag *diag, uint32_t line, const char *text)
{
    ck_assert_str_eq(diag->path, "own.lua");
    ck_assert_uint_eq(diag->line, line);
    ck_assert_msg(strstr(diag->text, text) != NULL, "%s", diag->text);
}

START_TEST(wrong_steps)
{
    peal_ctx *ctx = make_ctx();
    peal_schedule_params params = params_for(PEAL_ALLREDUCE, 3, 2);
    peal_schedule *script = begin(ctx, &params);
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert(try_step(script, 1, 0, 3, 0, 7, &diag) == PEAL_ERR_ARG);
    expect(&diag, 7, "there is no rank 3: the ranks are 0 to 2");
    ck_assert(try_step(script, 1, 2, 1, 0, 8, &diag) == PEAL_ERR_ARG);
    expect(&diag, 8, "there is no chunk 2: the chunks are 0 to 1");
    ck_assert(try_step(script, 1, 1, 2, 2, 9, &diag) == PEAL_ERR_ARG);
    expect(&diag, 9, "rank 2 sends chunk 1 to itself");
    peal_schedule_destroy(script);
    params.name = "ring";
    ck_assert(peal_schedule_create(ctx, &params, &diag, &script) == PEAL_ERR_ARG);
    ck_assert(strstr(diag.text, "ring is a built-in algorithm") != NULL);
    params = params_for(PEAL_ALLGATHER, 3, 4);
    ck_assert(peal_schedule_create(ctx, &params, &diag, &script) == PEAL_ERR_ARG);
    ck_assert(strstr(diag.text, "3 blocks and chunks a multiple of it") != NULL);
    params.chunks = 3;
    script = begin(ctx, &params);
    ck_assert(try_step(script, 1, 0, 0, 1, 10, &diag) == PEAL_ERR_ARG);
    expect(&diag, 10, "allgather adds nothing up");
    peal_schedule_destroy(script);
    peal_ctx_destroy(ctx);
}
END_TEST

START_TEST(wrong_meaning)
{
    peal_ctx *ctx = make_ctx();
    peal_schedule_params params = params_for(PEAL_ALLREDUCE, 3, 1);
    peal_schedule *script = begin(ctx, &params);
    peal_diag diag = PEAL_DIAG_INIT;
    step(script, 1, 0, 0, 1, 1);
    ck_assert(peal_schedule_check(script, &diag) == PEAL_ERR_UNPROVEN);
    expect(&diag, 1, "at the end rank 0 lacks the input of rank 1 in chunk 0");
    step(script, 1, 0, 1, 2, 2);
    step(script, 0, 0, 2, 0, 3);
    ck_assert(peal_schedule_check(script, &diag) == PEAL_ERR_UNPROVEN);
    expect(&diag, 1, "at the end rank 1 lacks the input of rank 2 in chunk 0; line 1 last");
    step(script, 1, 0, 0, 1, 4);
    ck_assert(peal_schedule_check(script, &diag) == PEAL_ERR_UNPROVEN);
    expect(&diag, 4, "the input of rank 0 would be in chunk 0 of rank 1 twice");
    peal_schedule_destroy(script);
    params = params_for(PEAL_BROADCAST, 3, 1);
    script = begin(ctx, &params);
    step(script, 0, 0, 1, 2, 5);
    ck_assert(peal_schedule_check(script, &diag) == PEAL_ERR_UNPROVEN);
    expect(&diag, 5, "rank 1 has nothing of chunk 0 to send here");
    peal_schedule_destroy(script);
    peal_ctx_destroy(ctx);
}
END_TEST

START_TEST(wrong_request)
{
    peal_ctx *ctx = make_ctx();
    peal_fabric *fabric = test_example(ctx, "host:8");
    peal_schedule_params params = params_for(PEAL_ALLREDUCE, 2, 1);
    peal_schedule *script = begin(ctx, &params);
    peal_request request = PEAL_REQUEST_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table;
    step(script, 1, 0, 0, 1, 1);
    step(script, 0, 0, 1, 0, 2);
    request.schedule = script;
    ck_assert(peal_table_plan(ctx, fabric, &request, &diag, &table) == PEAL_ERR_ARG);
    ck_assert_msg(strstr(diag.text, "written down for 2 ranks") != NULL, "%s", diag.text);
    request.ranks = 2;
    request.collective = PEAL_REDUCE;
    ck_assert(peal_table_plan(ctx, fabric, &request, &diag, &table) == PEAL_ERR_ARG);
    request.schedule = NULL;
    request.collective = PEAL_CUSTOM;
    ck_assert(peal_table_plan(ctx, fabric, &request, &diag, &table) == PEAL_ERR_UNSUPPORTED);
    peal_schedule_destroy(script);
    peal_fabric_destroy(fabric);
    peal_ctx_destroy(ctx);
}
END_TEST

/* Beside the built-in ones it is one of the candidates. */
START_TEST(beside_others)
{
    peal_ctx *ctx = make_ctx();
    peal_fabric *fabric = test_example(ctx, "host:8");
    peal_schedule_params params = params_for(PEAL_ALLREDUCE, 2, 1);
    peal_schedule *script = begin(ctx, &params);
    peal_request request = PEAL_REQUEST_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table;
    int seen = 0, others = 0;
    step(script, 1, 0, 0, 1, 1);
    step(script, 0, 0, 1, 0, 2);
    request.schedule = script;
    request.ranks = 2;
    ck_assert(peal_table_plan(ctx, fabric, &request, &diag, &table) == PEAL_OK);
    peal_row_info row = {.size = sizeof row};
    for (uint32_t i = 0; peal_table_candidate(table, 0, i, &row) == PEAL_OK; i++) {
        seen += strcmp(row.algorithm, "own") == 0;
        others += strcmp(row.algorithm, "own") != 0;
    }
    ck_assert(seen > 0 && others > 0);
    peal_table_destroy(table);
    peal_schedule_destroy(script);
    peal_fabric_destroy(fabric);
    peal_ctx_destroy(ctx);
}
END_TEST

/* ---- random right ones -------------------------------------------------------------------------
 */

struct dice {
    uint64_t state;
};

static uint32_t roll(struct dice *dice, uint32_t sides)
{
    dice->state = dice->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(dice->state >> 33) % sides;
}

static uint32_t take(struct dice *dice, uint32_t *list, uint32_t *count)
{
    uint32_t at = roll(dice, *count), one = list[at];
    list[at] = list[--*count];
    return one;
}

static void many(peal_schedule *script, int reduces, int gathers, uint32_t chunk,
                 const uint32_t *from, uint32_t nfrom, const uint32_t *to, uint32_t nto)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_schedule_step one = {sizeof one, reduces, gathers, chunk, nfrom, nto, from, to, 1};
    ck_assert_msg(peal_schedule_add(script, &one, &diag) == PEAL_OK, "%s", diag.text);
}

/* Adds the chunk up in a random tree; returns who has the sum. */
static uint32_t add_up(peal_schedule *script, struct dice *dice, uint32_t n, uint32_t chunk)
{
    uint32_t alive[RANKS], count = n, from[4];
    for (uint32_t i = 0; i < n; i++)
        alive[i] = i;
    while (count > 1) {
        uint32_t to = take(dice, alive, &count), few = count < 4 ? count : 4;
        uint32_t nfrom = 1 + roll(dice, few);
        for (uint32_t i = 0; i < nfrom; i++)
            from[i] = take(dice, alive, &count);
        many(script, 1, (int)roll(dice, 2), chunk, from, nfrom, &to, 1);
        alive[count++] = to;
    }
    return alive[0];
}

/* From who has it to who wants it, also by way of others. */
static void spread(peal_schedule *script, struct dice *dice, uint32_t n, uint32_t chunk,
                   uint32_t owner, uint32_t *want, uint32_t wanted)
{
    uint32_t have[2 * RANKS] = {owner}, having = 1, to[4], by = roll(dice, n);
    if (wanted == 1 && by != owner && by != want[0]) {
        many(script, 0, 0, chunk, &owner, 1, &by, 1);
        have[0] = by;
    }
    while (wanted) {
        uint32_t few = wanted < 4 ? wanted : 4, nto = 1 + roll(dice, few);
        uint32_t from = have[roll(dice, having)];
        for (uint32_t i = 0; i < nto; i++)
            to[i] = take(dice, want, &wanted);
        many(script, 0, 0, chunk, &from, 1, to, nto);
        for (uint32_t i = 0; i < nto; i++)
            have[having++] = to[i];
    }
}

static int has_blocks(peal_collective c)
{
    return c == PEAL_REDUCE_SCATTER || c == PEAL_ALLGATHER || c == PEAL_SCATTER || c == PEAL_GATHER;
}

static uint32_t wants(peal_collective c, uint32_t n, uint32_t root, uint32_t block, uint32_t owner,
                      uint32_t *want)
{
    uint32_t count = 0, one = c == PEAL_ALLTOALL                     ? block % n
                              : c == PEAL_REDUCE || c == PEAL_GATHER ? root
                                                                     : block;
    if (c == PEAL_ALLREDUCE || c == PEAL_ALLGATHER || c == PEAL_BROADCAST)
        for (uint32_t r = 0; r < n; r++)
            if (r != owner)
                want[count++] = r;
    if (count == 0 && one != owner && c != PEAL_BROADCAST)
        want[count++] = one;
    return count;
}

static peal_schedule *random_script(peal_ctx *ctx, struct dice *dice, peal_collective c, uint32_t n,
                                    uint32_t root)
{
    uint32_t blocks = c == PEAL_ALLTOALL ? n * n : has_blocks(c) ? n : 1;
    uint32_t each = 1 + roll(dice, blocks > 1 ? 2 : 6), owner[2 * RANKS * RANKS], want[RANKS];
    peal_schedule_params params = params_for(c, n, blocks * each);
    peal_diag diag = PEAL_DIAG_INIT;
    int reduces = c == PEAL_ALLREDUCE || c == PEAL_REDUCE || c == PEAL_REDUCE_SCATTER;
    params.root = root;
    peal_schedule *script = begin(ctx, &params);
    for (uint32_t i = 0; i < params.chunks; i++) {
        uint32_t block = i / each;
        owner[i] = c == PEAL_ALLTOALL                         ? block / n
                   : c == PEAL_BROADCAST || c == PEAL_SCATTER ? root
                                                              : block;
        if (reduces)
            owner[i] = add_up(script, dice, n, i);
        if (roll(dice, 8) == 0)
            ck_assert(peal_schedule_stage(script, &diag) != PEAL_ERR_MEMORY);
    }
    if (roll(dice, 2))
        ck_assert(peal_schedule_stage(script, &diag) != PEAL_ERR_MEMORY);
    for (uint32_t i = 0; i < params.chunks; i++)
        spread(script, dice, n, i, owner[i], want, wants(c, n, root, i / each, owner[i], want));
    return script;
}

static void prove_random(peal_ctx *ctx, const peal_fabric *fabric, const char *name, uint32_t seed,
                         peal_collective c)
{
    struct dice dice = {seed * 1000003u + (uint32_t)c * 7919u};
    peal_fabric_info info = {.size = sizeof info};
    peal_diag diag = PEAL_DIAG_INIT;
    peal_request request = PEAL_REQUEST_INIT;
    peal_table *table;
    ck_assert(peal_fabric_get(fabric, &info) == PEAL_OK);
    uint32_t most = c == PEAL_ALLTOALL ? 5 : info.ranks < 10 ? info.ranks : 10;
    request.ranks = 2 + roll(&dice, (most < info.ranks ? most : info.ranks) - 1);
    request.collective = c;
    if (c == PEAL_BROADCAST || c == PEAL_REDUCE || c == PEAL_SCATTER || c == PEAL_GATHER)
        request.root = roll(&dice, request.ranks);
    request.min_bytes = request.max_bytes = 200000;
    request.tile_bytes = roll(&dice, 2) ? 4096 : 0;
    request.channels = 1 + roll(&dice, 2);
    if (strncmp(name, "host:", 5) == 0)
        request.channels = 1;
    if (roll(&dice, 4) == 0 && strncmp(name, "dgx-h100", 8) == 0)
        request.move_engine[PEAL_LINK_NVLINK] = PEAL_ENGINE_CE + 1;
    peal_schedule *script = random_script(ctx, &dice, c, request.ranks, request.root);
    request.schedule = script;
    request.algorithm = "own";
    peal_status status = peal_table_plan(ctx, fabric, &request, &diag, &table);
    ck_assert_msg(status == PEAL_OK, "%s, seed %u, %s: %s", name, seed, peal_collective_name(c),
                  diag.text);
    status = peal_table_compile(table, fabric, &diag);
    ck_assert_msg(status == PEAL_OK, "%s, seed %u, %s by %u: %s", name, seed,
                  peal_collective_name(c), request.ranks, diag.text);
    peal_table_destroy(table);
    peal_schedule_destroy(script);
}

START_TEST(random_ones)
{
    static const char *const machines[] = {"host:8",        "dgx-h100.xml",  "cluster-h100-2.xml",
                                           "pcie-8gpu.xml", "dgx1-v100.xml", "slingshot-4gpu.xml"};
    peal_ctx *ctx = make_ctx();
    peal_fabric *fabric = test_example(ctx, machines[_i]);
    for (uint32_t seed = 0; seed < 3; seed++)
        for (int c = PEAL_ALLREDUCE; c <= PEAL_ALLTOALL; c++)
            prove_random(ctx, fabric, machines[_i], seed, (peal_collective)c);
    peal_fabric_destroy(fabric);
    peal_ctx_destroy(ctx);
}
END_TEST

/* ---- a collective of one's own -----------------------------------------------------------------
 */

/* Block 0 is the sum of ranks 0 and 2, for 1 and 2; block 1 goes from 1 to 0. */
static peal_table *custom_table(peal_ctx *ctx, const peal_fabric *fabric)
{
    static const uint32_t givers[] = {2, 0}, takers[] = {1, 2}, one[] = {1}, zero[] = {0};
    static const peal_block blocks[] = {{2, 2, givers, takers}, {1, 1, one, zero}};
    peal_schedule_params params = params_for(PEAL_CUSTOM, 3, 4);
    peal_request request = PEAL_REQUEST_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table;
    params.blocks = blocks;
    params.nblocks = 2;
    peal_schedule *script = begin(ctx, &params);
    ck_assert(peal_schedule_check(script, &diag) == PEAL_ERR_UNPROVEN);
    for (uint32_t c = 0; c < 2; c++) {
        step(script, 1, c, 0, 2, 1);
        step(script, 0, c, 2, 1, 2);
        step(script, 0, 2 + c, 1, 0, 3);
    }
    ck_assert(try_step(script, 1, 2, 1, 2, 4, &diag) == PEAL_ERR_ARG);
    request.collective = PEAL_CUSTOM;
    request.ranks = 3;
    request.schedule = script;
    request.max_bytes = 1u << 20;
    peal_status status = peal_table_plan(ctx, fabric, &request, &diag, &table);
    ck_assert_msg(status == PEAL_OK, "%s", diag.text);
    status = peal_table_compile(table, fabric, &diag);
    ck_assert_msg(status == PEAL_OK, "%s", diag.text);
    peal_schedule_destroy(script);
    return table;
}

struct caller {
    peal_world *world;
    peal_table *table;
    uint32_t rank;
    int good;
};

static void *call_custom(void *arg)
{
    struct caller *self = arg;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_comm *comm;
    if (peal_comm_create(self->world, self->table, self->rank, &diag, &comm) != PEAL_OK)
        return NULL;
    int32_t *in = peal_mem_alloc(comm, 4000), *out = peal_mem_alloc(comm, 4000);
    self->good = 1;
    for (uint32_t call = 0; call < 5; call++) {
        for (uint32_t i = 0; i < 1000; i++)
            in[i] = (int32_t)(1000 * (self->rank + 1) + i + call);
        self->good &= peal_custom(comm, in, out, 1000, PEAL_INT32, PEAL_SUM, &diag) == PEAL_OK;
        for (uint32_t i = 0; i < 1000; i++) {
            int32_t own = (int32_t)(i + call);
            self->good &= out[i] == (self->rank == 0 ? 2000 + own : 4000 + 2 * own);
        }
    }
    self->good &= peal_custom(comm, in, out, 1000, PEAL_INT32, PEAL_AVG, &diag) == PEAL_ERR_ARG;
    peal_comm_destroy(comm);
    return NULL;
}

START_TEST(custom_runs)
{
    peal_ctx *ctx = make_ctx();
    peal_fabric *fabric = test_example(ctx, "host:8");
    peal_table *table = custom_table(ctx, fabric);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    struct caller callers[3];
    pthread_t threads[3];
    peal_world *world;
    params.ranks = 3;
    ck_assert(peal_world_create(ctx, &params, table, &diag, &world) == PEAL_OK);
    for (uint32_t r = 0; r < 3; r++) {
        callers[r] = (struct caller){world, table, r, 0};
        ck_assert(pthread_create(&threads[r], NULL, call_custom, &callers[r]) == 0);
    }
    for (uint32_t r = 0; r < 3; r++) {
        (void)pthread_join(threads[r], NULL);
        ck_assert_msg(callers[r].good, "rank %u", r);
    }
    peal_world_destroy(world);
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
    peal_ctx_destroy(ctx);
}
END_TEST

struct text {
    char *data;
    size_t used, room;
};

static peal_status keep(void *user, const char *data, size_t bytes)
{
    struct text *text = user;
    if (text->used + bytes > text->room) {
        text->room = 2 * (text->used + bytes);
        text->data = realloc(text->data, text->room);
        ck_assert(text->data != NULL);
    }
    memcpy(text->data + text->used, data, bytes);
    text->used += bytes;
    return PEAL_OK;
}

/* Text with one word in place of another has to be refused, with `expected` said. */
static void refused_text(peal_ctx *ctx, const struct text *text, const char *word,
                         const char *other, const char *expected)
{
    struct text changed = {NULL, 0, 0};
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table = NULL;
    size_t length = strlen(word);
    const char *at = NULL;
    for (size_t i = 0; !at && i + length < text->used; i++)
        at = memcmp(text->data + i, word, length) == 0 ? text->data + i : NULL;
    ck_assert_msg(at != NULL, "%s", word);
    (void)keep(&changed, text->data, (size_t)(at - text->data));
    (void)keep(&changed, other, strlen(other));
    (void)keep(&changed, at + length, text->used - (size_t)(at - text->data) - length);
    peal_status status =
        peal_table_assemble(ctx, changed.data, changed.used, "changed", &diag, &table);
    if (status == PEAL_OK)
        status = peal_table_verify(table, NULL, NULL, NULL, &diag);
    ck_assert_msg(status != PEAL_OK, "%s for %s", other, word);
    ck_assert_msg(strstr(diag.text, expected) != NULL, "%s", diag.text);
    peal_table_destroy(table);
    free(changed.data);
}

START_TEST(custom_files)
{
    peal_ctx *ctx = make_ctx();
    peal_fabric *fabric = test_example(ctx, "host:8");
    peal_table *table = custom_table(ctx, fabric), *again, *read;
    struct text text = {NULL, 0, 0}, bytes = {NULL, 0, 0}, same = {NULL, 0, 0};
    peal_diag diag = PEAL_DIAG_INIT;
    peal_block block;
    ck_assert(peal_table_print(table, keep, &text, &diag) == PEAL_OK);
    ck_assert(peal_table_save(table, keep, &bytes, &diag) == PEAL_OK);
    peal_status status = peal_table_assemble(ctx, text.data, text.used, "text", &diag, &again);
    ck_assert_msg(status == PEAL_OK, "%u:%u: %s", diag.line, diag.column, diag.text);
    ck_assert(peal_table_load(ctx, bytes.data, bytes.used, "file", &diag, &read) == PEAL_OK);
    ck_assert(peal_table_save(again, keep, &same, &diag) == PEAL_OK);
    ck_assert(same.used == bytes.used && memcmp(same.data, bytes.data, same.used) == 0);
    ck_assert(peal_table_verify(read, NULL, NULL, NULL, &diag) == PEAL_OK);
    ck_assert(peal_table_block(read, 0, 0, &block) == PEAL_OK);
    ck_assert(block.nfrom == 2 && block.from[0] == 0 && block.from[1] == 2 && block.to[0] == 1);
    ck_assert(peal_table_block(read, 0, 2, &block) == PEAL_ERR_ARG);
    refused_text(ctx, &text, "block r0 r2 -> r1 r2", "block r2 r0 -> r1 r2", "rise");
    refused_text(ctx, &text, "block r0 r2 -> r1 r2", "block r0 r9 -> r1 r2", "rank");
    refused_text(ctx, &text, "block r0 r2 -> r1 r2", "block r0 r1 r2 -> r1 r2", "finding");
    refused_text(ctx, &text, "block r0 r2 -> r1 r2", "block r0 r2 -> r0 r1 r2", "finding");
    refused_text(ctx, &text, "block r1 -> r0", "block r2 -> r0", "finding");
    peal_table_destroy(table);
    peal_table_destroy(again);
    peal_table_destroy(read);
    free(text.data);
    free(bytes.data);
    free(same.data);
    peal_fabric_destroy(fabric);
    peal_ctx_destroy(ctx);
}
END_TEST

/* ---- without memory ----------------------------------------------------------------------------
 */

static peal_status make_all(peal_ctx *ctx, void *arg)
{
    peal_schedule_params params = params_for(PEAL_ALLREDUCE, 3, 3);
    peal_request request = PEAL_REQUEST_INIT;
    peal_fabric *fabric = NULL;
    peal_schedule *script = NULL;
    peal_table *table = NULL;
    (void)arg;
    request.max_bytes = request.min_bytes = 4096;
    request.tile_bytes = 128;
    peal_status status = peal_fabric_host(ctx, 3, NULL, &fabric);
    if (status == PEAL_OK)
        status = peal_schedule_create(ctx, &params, NULL, &script);
    for (uint32_t r = 0; status == PEAL_OK && r < 3; r++) {
        if (status == PEAL_OK)
            status = try_step(script, 1, r, (r + 1) % 3, (r + 2) % 3, 1, NULL);
        if (status == PEAL_OK)
            status = try_step(script, 1, r, (r + 2) % 3, r, 1, NULL);
        if (status == PEAL_OK)
            status = peal_schedule_stage(script, NULL);
        if (status == PEAL_OK)
            status = try_step(script, 0, r, r, (r + 1) % 3, 1, NULL);
        if (status == PEAL_OK)
            status = try_step(script, 0, r, r, (r + 2) % 3, 1, NULL);
    }
    request.schedule = script;
    request.algorithm = "own";
    if (status == PEAL_OK)
        status = peal_table_plan(ctx, fabric, &request, NULL, &table);
    if (status == PEAL_OK)
        status = peal_table_compile(table, fabric, NULL);
    peal_table_destroy(table);
    peal_schedule_destroy(script);
    peal_fabric_destroy(fabric);
    return status;
}

START_TEST(without_memory)
{
    uint64_t runs;
    ck_assert_int_eq(test_oom_sweep(make_all, NULL, 0, &runs), 0);
    ck_assert_uint_gt(runs, 50);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("script");
    TCase *tcase = tcase_create("script");
    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, wrong_steps);
    tcase_add_test(tcase, wrong_meaning);
    tcase_add_test(tcase, wrong_request);
    tcase_add_test(tcase, beside_others);
    tcase_add_loop_test(tcase, random_ones, 0, 6);
    tcase_add_test(tcase, custom_runs);
    tcase_add_test(tcase, custom_files);
    tcase_add_test(tcase, without_memory);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_NOFORK);
}
