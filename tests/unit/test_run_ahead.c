/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: threads */
/* Calls that run ahead: how far a rank gets, that no packet is written over, in which sequences
 * with other plans, what happens when ranks call different things, and what is refused. And a
 * broadcast whose root is one call ahead, as it is where calls do not run ahead. */
#include "comm.h"
#include "device_image.h"
#include "far.h"
#include "support.h"
#include "test_fixture.h"
#include "test_model.h"
#include "test_run.h"
#include "test_suite.h"

#include <check.h>
#include <stdatomic.h>

#define RANKS 3u
#define AHEAD_BYTES 600u
#define RING_BYTES 16000u

/* ---- plans */

static void write_puts(const struct plan_text *p, unsigned root)
{
    fprintf(p->to, "put c0: in[0] ->");
    for (unsigned i = 1; i < p->ranks; i++) {
        unsigned to = (root + i) % p->ranks;
        fprintf(p->to, " r%u.p0[0]@%u", to, link_of(p, root, to));
    }
    fprintf(p->to, " sm\ncopy c0: in[0] -> out[0] sm\n");
}

static void write_ahead(const struct plan_text *p, unsigned root)
{
    fprintf(p->to,
            "plan broadcast ranks %u root %u bytes 0..%u algorithm ahead channels 1\n"
            "ahead chunks 1 region packet width 1 depth 1 slot %u\n",
            p->ranks, root, AHEAD_BYTES, AHEAD_BYTES + 256);
    write_links(p);
    for (unsigned r = 0; r < p->ranks; r++) {
        fprintf(p->to, "rank %u host 0\nlane body\n", r);
        if (r == root)
            write_puts(p, root);
        else
            fprintf(p->to, "copy c0: p0[0] -> out[0] sm\n");
    }
}

/* Everybody returns behind everybody's entry, which the root's packet tells of the root. */
static void write_one_ahead(const struct plan_text *p)
{
    fprintf(p->to,
            "plan broadcast ranks %u root 0 bytes 0..%u algorithm behind channels 1\n"
            "chunks 1 semaphores 1 region packet width 1 depth 1 slot %u\n",
            p->ranks, AHEAD_BYTES, AHEAD_BYTES + 256);
    write_links(p);
    for (unsigned r = 0; r < p->ranks; r++) {
        fprintf(p->to, "rank %u host 0\nlane ", r);
        if (r)
            fprintf(p->to, "pre\n");
        for (unsigned i = 1; r && i < p->ranks; i++)
            fprintf(p->to, "signal r%u.0 sm\n", (r + i) % p->ranks);
        fprintf(p->to, "body\n");
        if (r == 0)
            write_puts(p, 0);
        else
            fprintf(p->to, "copy c0: p0[0] -> out[0] sm\n");
        fprintf(p->to, "post\n");
        for (unsigned i = 1; i < p->ranks; i++)
            if ((r + i) % p->ranks)
                fprintf(p->to, "wait r%u.0\n", (r + i) % p->ranks);
    }
}

static peal_table *table_from(char *text, size_t bytes)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table = NULL;
    peal_status status = peal_table_assemble(ctx, text, bytes, "test", &diag, &table);
    ck_assert_msg(status == PEAL_OK, "%u: %s\n%s", diag.line, diag.text, text);
    free(text);
    return table;
}

/* Allreduce by packets and by a ring, and broadcasts of every root that run ahead; or, not `all`,
 * the broadcast of root 0 alone that does not. */
static peal_table *make_table(int all)
{
    char *text = NULL;
    size_t bytes = 0;
    struct plan_text p = {
        .ranks = RANKS, .link = "shm direct", .engine = "sm", .depth = 2, .slot = RING_BYTES};
    p.to = open_memstream(&text, &bytes);
    fprintf(p.to, "peal-table 1\n");
    if (all) {
        write_oneshot(&p, 0, 512);
        write_ring(&p, 513, RING_BYTES);
    }
    for (unsigned root = 0; all && root < RANKS; root++)
        write_ahead(&p, root);
    if (!all)
        write_one_ahead(&p);
    (void)fclose(p.to);
    return table_from(text, bytes);
}

/* ---- calls */

static uint32_t word_of(unsigned call, unsigned root, size_t i)
{
    return call * 2654435761u + root * 97u + (uint32_t)i;
}

static int say(struct rank_thread *self, const char *what, unsigned call)
{
    (void)snprintf(self->problem, sizeof self->problem, "rank %u, call %u: %s", self->rank, call,
                   what);
    return 1;
}

static int broadcast(struct rank_thread *self, unsigned call, unsigned root, size_t count)
{
    uint32_t data[AHEAD_BYTES / 4] = {0};
    for (size_t i = 0; i < count; i++)
        data[i] = self->rank == root ? word_of(call, root, i) : 0xeeeeeeee;
    peal_diag diag = PEAL_DIAG_INIT;
    if (peal_broadcast(self->comm, data, data, count, PEAL_UINT32, root, &diag) != PEAL_OK)
        return say(self, diag.text, call);
    for (size_t i = 0; i < count; i++)
        if (data[i] != word_of(call, root, i))
            return say(self, "another word", call);
    return 0;
}

static void let_pass(atomic_int *gate)
{
    atomic_store(gate, 1);
}

static void stand_at(atomic_int *gate)
{
    struct timespec pause = {0, 100000};
    while (!atomic_load(gate))
        (void)nanosleep(&pause, NULL);
}

/* Whether a started call is not over after many looks. */
static int stays(peal_pending *pending)
{
    int done = 0;
    for (int i = 0; i < 200 && !done; i++)
        if (peal_test(pending, &done, NULL) != PEAL_OK)
            return 0;
    return !done;
}

static peal_pending *begin_broadcast(struct rank_thread *self, uint32_t *data, size_t count)
{
    peal_pending *pending = NULL;
    peal_call call = PEAL_CALL_INIT;
    call.collective = PEAL_BROADCAST;
    call.in = call.out = data;
    call.count = count;
    call.dtype = PEAL_UINT32;
    if (peal_pending_create(self->comm, &call, NULL, &pending) != PEAL_OK ||
        peal_start(pending, NULL) != PEAL_OK)
        return NULL;
    return pending;
}

struct far_case {
    unsigned calls; /* so many may be ahead, */
    size_t least;   /* of so many words */
    size_t most;
    atomic_int gate;
};

/* The others do not call before the root has made as many calls as it may, and stands. */
static int far_body(struct rank_thread *self)
{
    struct far_case *far = self->user;
    size_t span = far->most - far->least + 1;
    int failed = 0;
    if (self->rank)
        stand_at(&far->gate);
    for (unsigned call = 0; call < far->calls && !failed; call++)
        failed = broadcast(self, call, 0, far->least + call % span);
    if (self->rank)
        return failed || broadcast(self, far->calls, 0, far->most);
    uint32_t data[AHEAD_BYTES / 4];
    for (size_t i = 0; i < far->most; i++)
        data[i] = word_of(far->calls, 0, i);
    peal_pending *pending = begin_broadcast(self, data, far->most);
    failed |= !pending || !stays(pending);
    let_pass(&far->gate);
    failed |= pending && peal_wait(pending, NULL) != PEAL_OK;
    peal_pending_destroy(pending);
    return failed ? say(self, "is further ahead than the ring, or was not let go on", far->calls)
                  : 0;
}

START_TEST(a_root_runs_ahead_as_far_as_the_ring)
{
    struct far_case cases[] = {{.calls = RT_AHEAD_MOST, .least = 0, .most = 2},
                               {.calls = RT_AHEAD_MOST, .least = 3, .most = 16},
                               {.calls = PLAN_AHEAD, .least = 17, .most = AHEAD_BYTES / 4}};
    peal_table *table = make_table(1);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    const char *problem = run_ranks(ctx, table, RANKS, &params, far_body, &cases[_i]);
    ck_assert_msg(!problem, "%s", problem);
    peal_table_destroy(table);
}
END_TEST

/* Call 0 of the root is not over before the others have entered it, call 1 not before call 1. */
static int near_body(struct rank_thread *self)
{
    atomic_int *gate = self->user;
    int failed = 0;
    for (unsigned call = 0; call < 8 && !failed; call++) {
        uint32_t data[2] = {0};
        if (self->rank) {
            stand_at(&gate[call]);
            failed = broadcast(self, call, 0, 2);
            continue;
        }
        data[0] = word_of(call, 0, 0);
        data[1] = word_of(call, 0, 1);
        peal_pending *pending = begin_broadcast(self, data, 2);
        failed = !pending || !stays(pending);
        let_pass(&gate[call]);
        failed |= pending && peal_wait(pending, NULL) != PEAL_OK;
        peal_pending_destroy(pending);
        if (failed)
            return say(self, "returned before all had entered, or not at all", call);
    }
    return failed;
}

START_TEST(a_root_is_one_call_ahead_where_calls_do_not_run_ahead)
{
    atomic_int gates[8] = {0};
    peal_table *table = make_table(0);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    const char *problem = run_ranks(ctx, table, RANKS, &params, near_body, gates);
    ck_assert_msg(!problem, "%s", problem);
    peal_table_destroy(table);
}
END_TEST

/* ---- where packets are */

/* Counts one more user of each byte; those that have two. */
static unsigned mark(unsigned char *map, const struct rt_layout *layout, uint64_t first,
                     uint64_t bytes)
{
    unsigned twice = 0;
    for (uint64_t i = first; i < first + bytes; i++)
        twice += i >= layout->total || map[i]++ != 0;
    return twice;
}

static unsigned mark_rank(unsigned char *map, const struct rt_layout *layout, uint32_t rank)
{
    uint64_t heads = (uint64_t)((char *)rt_heads((char *)map, layout, rank, 0) - (char *)map);
    unsigned twice = 0;
    for (uint32_t call = 0; call < RT_AHEAD_MOST; call++)
        twice += mark(map, layout, heads + call * sizeof(rt_word), sizeof(rt_word));
    for (uint32_t size = 0; size < RT_CELLS; size++) {
        uint64_t cells = (uint64_t)(rt_cells((char *)map, layout, size, rank, 0) - (char *)map);
        for (uint32_t call = 0; call < RT_AHEAD_MOST; call++)
            twice += mark(map, layout, cells + call * rt_cell_bytes(size), rt_cell_bytes(size));
    }
    twice += mark(map, layout, layout->ring + PLAN_AHEAD * rank * layout->ring_bytes,
                  PLAN_AHEAD * layout->ring_bytes);
    return twice + mark(map, layout, layout->boards + rank * sizeof(struct rt_board),
                        sizeof(struct rt_board));
}

/* Heads, cells of each size and the ring, of each rank and call, and the boards. */
START_TEST(no_two_packets_share_a_byte)
{
    struct rt_layout layout;
    unsigned twice = 0;
    peal_table *table = make_table(1);
    ck_assert_int_eq(rt_layout_make(table, RANKS, 0, &layout, NULL), PEAL_OK);
    ck_assert_uint_eq(layout.ring_slots, 1);
    unsigned char *map = calloc(1, (size_t)layout.total);
    ck_assert_ptr_nonnull(map);
    for (uint32_t r = 0; r < RANKS; r++)
        twice += mark_rank(map, &layout, r);
    ck_assert_uint_eq(twice, 0);
    free(map);
    peal_table_destroy(table);
}
END_TEST

/* Of bytes, so that what lies in cells, or in the ring, is of every size, and its neighbours are of
 * others; the root is ahead, as it waits for nobody. */
static int sizes_body(struct rank_thread *self)
{
    unsigned char data[AHEAD_BYTES], guard = 0xa5;
    peal_diag diag = PEAL_DIAG_INIT;
    for (unsigned call = 0; call < 3 * RT_AHEAD_MOST; call++) {
        size_t size = call * 7 % 131, wrong = 0;
        for (size_t i = 0; i < sizeof data; i++)
            data[i] = self->rank == 0 && i < size ? (unsigned char)(call + i * 3) : guard;
        if (peal_broadcast(self->comm, data, data, size, PEAL_UINT8, 0, &diag) != PEAL_OK)
            return say(self, diag.text, call);
        for (size_t i = 0; i < sizeof data; i++)
            wrong += data[i] != (i < size ? (unsigned char)(call + i * 3) : guard);
        if (wrong)
            return say(self, "another byte", call);
    }
    return 0;
}

START_TEST(messages_of_every_size_in_turn)
{
    peal_table *table = make_table(1);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    const char *problem = run_ranks(ctx, table, RANKS, &params, sizes_body, NULL);
    ck_assert_msg(!problem, "%s", problem);
    peal_table_destroy(table);
}
END_TEST

/* ---- sequences */

static uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * 0x2545f4914f6cdd1du >> 20;
}

static void doze(uint64_t *state)
{
    struct timespec pause = {0, (long)(draw(state) % 100000)};
    if (draw(state) % 40 == 0)
        (void)nanosleep(&pause, NULL);
}

#ifdef PEAL_SANITIZED
#define MIXED_CALLS 600u
#else
#define MIXED_CALLS 6000u
#endif

/* All ranks draw calls from one sequence, in runs of one kind, and delays from one of their own. */
static int mix(struct rank_thread *self, uint64_t seed, unsigned calls)
{
    char in[RING_BYTES], out[RING_BYTES];
    uint64_t common = 0x1234567 + seed, own = 0x9876543 + self->rank;
    unsigned run = 0, kind = 0, root = 0;
    int failed = 0;
    for (unsigned call = 0; call < calls && !failed; call++) {
        if (run-- == 0) {
            run = (unsigned)(draw(&common) % (draw(&common) % 4 ? 5 : 90));
            kind = (unsigned)(draw(&common) % 4);
            root = (unsigned)(draw(&common) % RANKS);
        }
        size_t size = (size_t)(draw(&common) % 64);
        doze(&own);
        if (kind > 1)
            failed = broadcast(self, call, kind == 2 ? root : call % RANKS, size);
        else
            failed =
                checked_call(self->comm, RANKS, self->rank, in, out, kind ? 200 + 10 * size : size,
                             PEAL_INT32, PEAL_SUM, call, self->problem);
    }
    return failed;
}

static int mixed_body(struct rank_thread *self)
{
    return mix(self, *(const uint64_t *)self->user, MIXED_CALLS);
}

START_TEST(calls_that_run_ahead_compose_with_others)
{
    uint64_t seed = (uint64_t)_i * 7919;
    peal_table *table = make_table(1);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    const char *problem = run_ranks(ctx, table, RANKS, &params, mixed_body, &seed);
    ck_assert_msg(!problem, "%s", problem);
    peal_table_destroy(table);
}
END_TEST

/* Sequences of the table's plans in the model of other tests, which knows of no executor; the
 * number of those that go wrong. */
static unsigned wrong_in_model(const peal_table *table, uint32_t loose, const char **first)
{
    static char problem[256];
    unsigned wrong = 0;
    uint64_t state = 4711;
    model_loose = loose;
    for (unsigned run = 0; run < 400; run++) {
        struct model_call calls[MODEL_CALLS];
        uint32_t mask = (uint32_t)draw(&state);
        for (uint32_t c = 0; c < MODEL_CALLS; c++) {
            uint32_t row = (uint32_t)draw(&state) % 2;
            if (mask >> c & 1) /* one that runs ahead */
                row = 2 + (uint32_t)draw(&state) % RANKS;
            calls[c] = (struct model_call){table->rows[row].plan, row, 1, 0};
        }
        if (!model_run(calls, MODEL_CALLS, draw(&state) | 1, problem))
            continue;
        wrong++;
        *first = problem;
    }
    model_loose = 0;
    return wrong;
}

START_TEST(the_entry_rule_is_what_it_takes)
{
    const char *problem = "none";
    peal_table *table = make_table(1);
    ck_assert_msg(wrong_in_model(table, 0, &problem) == 0, "%s", problem);
    ck_assert_uint_gt(wrong_in_model(table, 1, &problem), 0);
    peal_table_destroy(table);
}
END_TEST

/* As if the comm had served for ever. */
static void age(struct rank_thread *self, uint64_t call, pthread_barrier_t *barrier)
{
    (void)pthread_barrier_wait(barrier);
    self->comm->call = call;
    self->comm->over = call - 1;
    atomic_store(&self->comm->board->done, (uint32_t)(call - 1));
    (void)pthread_barrier_wait(barrier);
}

/* Stamps of the first round are those of the second: a packet that was not forgotten would be taken
 * for a new one. */
static int round_body(struct rank_thread *self)
{
    pthread_barrier_t *barrier = self->user;
    int failed = 0;
    for (unsigned call = 0; call < 3 * RT_AHEAD_MOST && !failed; call++)
        failed = broadcast(self, call, 0, 2);
    age(self, 0x3ffffff0u, barrier);
    failed = failed || mix(self, 1, 4 * RT_AHEAD_MOST);
    age(self, UINT32_MAX - 40, barrier);
    for (unsigned call = 0; call < 5 * RT_AHEAD_MOST && !failed; call++)
        failed = broadcast(self, 1000 + call, 0, 2);
    return failed || mix(self, 2, 200);
}

START_TEST(stamps_come_round)
{
    pthread_barrier_t barrier;
    peal_table *table = make_table(1);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    ck_assert_int_eq(pthread_barrier_init(&barrier, NULL, RANKS), 0);
    const char *problem = run_ranks(ctx, table, RANKS, &params, round_body, &barrier);
    ck_assert_msg(!problem, "%s", problem);
    (void)pthread_barrier_destroy(&barrier);
    peal_table_destroy(table);
}
END_TEST

/* ---- errors */

/* The root has returned from the call in which the others call something else. */
static int strange_body(struct rank_thread *self)
{
    uint32_t data[4] = {1, 2, 3, 4};
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status = PEAL_OK;
    atomic_int *gate = self->user;
    if (self->rank)
        stand_at(gate);
    for (int i = 0; i < 5 && status == PEAL_OK && self->rank == 0; i++)
        status = peal_broadcast(self->comm, data, data, 4, PEAL_UINT32, 0, &diag);
    if (status != PEAL_OK)
        return say(self, diag.text, 0);
    let_pass(gate);
    while (status == PEAL_OK)
        status = self->rank
                     ? peal_allreduce(self->comm, data, data, 4, PEAL_UINT32, PEAL_SUM, &diag)
                     : peal_broadcast(self->comm, data, data, 4, PEAL_UINT32, 0, &diag);
    return status == PEAL_ERR_MISMATCH ? 0 : say(self, diag.text, 5);
}

START_TEST(another_call_is_found_behind_a_root_that_has_left)
{
    atomic_int gate = 0;
    peal_table *table = make_table(1);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    const char *problem = run_ranks(ctx, table, RANKS, &params, strange_body, &gate);
    ck_assert_msg(!problem, "%s", problem);
    peal_table_destroy(table);
}
END_TEST

/* A sum at rank 0, of which rank 0 alone hears from others. */
static peal_table *make_sum(void)
{
    char *text = NULL;
    size_t bytes = 0;
    struct plan_text p = {.ranks = RANKS, .link = "shm direct"};
    p.to = open_memstream(&text, &bytes);
    fprintf(p.to,
            "peal-table 1\nplan reduce ranks %u root 0 bytes 0..%u algorithm ahead channels 1\n"
            "ahead chunks 1 region packet width %u depth 1 slot %u\n",
            RANKS, AHEAD_BYTES, RANKS - 1, AHEAD_BYTES + 256);
    write_links(&p);
    fprintf(p.to, "rank 0 host 0\nlane body\nreduce c0: in[0] p0[0] p0[1] -> out[0] sm final\n");
    for (unsigned r = 1; r < RANKS; r++)
        fprintf(p.to, "rank %u host 0\nlane body\nput c0: in[0] -> r0.p0[%u]@%u sm\n", r, r - 1,
                link_of(&p, r, 0));
    (void)fclose(p.to);
    return table_from(text, bytes);
}

/* Rank 2 wants the greatest, the others the sum: that is said of rank 2, though rank 1's packet is
 * looked at first. */
static int odd_body(struct rank_thread *self)
{
    uint32_t in[4] = {1, 2, 3, 4}, out[4];
    peal_diag diag = PEAL_DIAG_INIT;
    atomic_int *gates = self->user;
    for (unsigned r = 1; self->rank == 0 && r < RANKS; r++)
        stand_at(&gates[r]);
    peal_op op = self->rank == 2 ? PEAL_MAX : PEAL_SUM;
    peal_status status = peal_reduce(self->comm, in, out, 4, PEAL_UINT32, op, 0, &diag);
    if (self->rank) {
        let_pass(&gates[self->rank]);
        return status == PEAL_OK ? 0 : say(self, diag.text, 0);
    }
    return status == PEAL_ERR_MISMATCH && strstr(diag.text, "rank 2") ? 0 : say(self, diag.text, 0);
}

START_TEST(of_several_packets_the_other_call_s_is_named)
{
    atomic_int gates[RANKS] = {0};
    peal_table *table = make_sum();
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    const char *problem = run_ranks(ctx, table, RANKS, &params, odd_body, gates);
    ck_assert_msg(!problem, "%s", problem);
    peal_table_destroy(table);
}
END_TEST

/* Each is the root of a call, and reads no packet that would tell him that others are, too. They
 * have all returned from it; so it goes on, up to the first call that all enter, or to the end of
 * what is kept. They are so by turns: what two store to the third at once is anything. */
struct roots_case {
    unsigned after;
    atomic_uint turn;
};

static int roots_body(struct rank_thread *self)
{
    struct roots_case *roots = self->user;
    const unsigned after = roots->after;
    struct timespec pause = {0, 100000};
    int32_t in[4] = {1, 2, 3, 4}, out[4];
    char where[64];
    peal_diag diag = PEAL_DIAG_INIT;
    int failed = 0;
    for (unsigned call = 0; call < 3 && !failed; call++)
        failed = broadcast(self, call, call % RANKS, 2);
    (void)snprintf(where, sizeof where, "call %u: rank ", (unsigned)self->comm->call);
    while (atomic_load(&roots->turn) != self->rank)
        (void)nanosleep(&pause, NULL);
    failed = failed || broadcast(self, 3, self->rank, 2);
    atomic_store(&roots->turn, self->rank + 1);
    for (unsigned call = 0; call < after && !failed; call++)
        failed = broadcast(self, 4 + call, 0, 2);
    if (failed)
        return 1;
    peal_status status = peal_allreduce(self->comm, in, out, 4, PEAL_INT32, PEAL_SUM, &diag);
    return status == PEAL_ERR_MISMATCH && strstr(diag.text, where) ? 0 : say(self, diag.text, 4);
}

START_TEST(several_roots_are_found_behind_the_next_call_that_all_enter)
{
    struct roots_case cases[] = {{.after = 0}, {.after = 7}, {.after = 2 * RT_AHEAD_MOST - 2}};
    peal_table *table = make_table(1);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    const char *problem = run_ranks(ctx, table, RANKS, &params, roots_body, &cases[_i]);
    ck_assert_msg(!problem, "%s", problem);
    peal_table_destroy(table);
}
END_TEST

/* Rank 1 keeps up; rank 2 never calls, and is named. */
static int late_body(struct rank_thread *self)
{
    uint32_t data[1] = {0};
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status;
    atomic_int *gate = self->user;
    if (self->rank == 2) {
        stand_at(gate);
        return 0;
    }
    for (unsigned call = 0; call < RT_AHEAD_MOST; call++)
        if (peal_broadcast(self->comm, data, data, 1, PEAL_UINT32, 0, &diag) != PEAL_OK)
            return say(self, diag.text, call);
    if (self->rank == 1) {
        let_pass(&gate[1]);
        stand_at(gate); /* and has not left */
        return 0;
    }
    stand_at(&gate[1]);
    status = peal_broadcast(self->comm, data, data, 1, PEAL_UINT32, 0, &diag);
    let_pass(gate);
    int named = status == PEAL_ERR_TIMEOUT && strstr(diag.text, "for rank 2") != NULL;
    return named ? 0 : say(self, diag.text, RT_AHEAD_MOST);
}

START_TEST(a_rank_that_stays_behind_is_named)
{
    atomic_int gates[2] = {0};
    peal_table *table = make_table(1);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.timeout_ms = 300;
    const char *problem = run_ranks(ctx, table, RANKS, &params, late_body, gates);
    ck_assert_msg(!problem, "%s", problem);
    peal_table_destroy(table);
}
END_TEST

/* ---- what is refused, and the form */

static void note_kind(void *user, const peal_finding *finding)
{
    const char **kind = user;
    *kind = *kind ? *kind : !strcmp(finding->kind, "composition") ? "composition" : "another";
}

#define TWO                                                                                        \
    "peal-table 1 plan broadcast ranks 2 bytes 0..64 algorithm x channels 1 ahead chunks 1 "       \
    "semaphores 1 region packet width 2 depth 1 slot 512 region scratch width 1 depth 1 slot 512 " \
    "link r0 -> r1 shm direct link r1 -> r0 shm direct rank 0 lane body "
#define ROOT "put c0: in[0] -> r1.p0[0]@1 sm copy c0: in[0] -> out[0] sm "
#define OTHER "rank 1 lane body copy c0: p0[0] -> out[0] sm "

START_TEST(what_others_know_of_does_not_run_ahead)
{
    static const char *const texts[] = {
        TWO ROOT "post wait r1.0 " OTHER "post signal r0.0 sm",
        TWO "put c0: in[0] -> r1.out[0]@1 sm copy c0: in[0] -> out[0] sm rank 1",
        TWO ROOT "rank 1 lane body copy c0: p0[0] -> s1[0] sm copy c0: s1[0] -> out[0] sm",
        TWO "put c0: in[0] -> r1.s1[0]@1 sm copy c0: in[0] -> out[0] sm "
            "rank 1 lane body copy c0: s1[0] -> out[0] sm",
        TWO "copy c0: in[0] -> out[0] p0[0] sm "
            "rank 1 lane body get c0: r0.p0[0]@1 -> out[0] sm",
        TWO "put c0: in[0] -> r1.p0[0]@1 sm copy c0: in[0] -> out[0] ce e0 "
            "post await e0 delivered " OTHER,
    };
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table = NULL;
    const char *kind = NULL;
    ck_assert_int_eq(peal_table_assemble(ctx, texts[_i], strlen(texts[_i]), "t", &diag, &table),
                     PEAL_OK);
    ck_assert_int_eq(peal_table_verify(table, note_kind, &kind, NULL, &diag), PEAL_ERR_UNPROVEN);
    ck_assert_str_eq(kind, "composition");
    peal_table_destroy(table);
}
END_TEST

/* The same plan, but that it does not say that it runs ahead, lets ranks return too early. */
START_TEST(a_plan_says_that_it_runs_ahead)
{
    char text[] = TWO ROOT OTHER;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table = NULL;
    ck_assert_int_eq(peal_table_assemble(ctx, text, strlen(text), "t", &diag, &table), PEAL_OK);
    ck_assert_int_eq(peal_table_verify(table, NULL, NULL, NULL, &diag), PEAL_OK);
    peal_table_destroy(table);
    memset(strstr(text, "ahead "), ' ', 6);
    const char *kind = NULL;
    ck_assert_int_eq(peal_table_assemble(ctx, text, strlen(text), "t", &diag, &table), PEAL_OK);
    ck_assert_int_eq(peal_table_verify(table, note_kind, &kind, NULL, &diag), PEAL_ERR_UNPROVEN);
    ck_assert_ptr_nonnull(kind);
    peal_table_destroy(table);
}
END_TEST

START_TEST(devices_and_other_hosts_refuse_it)
{
    const char text[] = TWO ROOT OTHER;
    struct dev_layout layout;
    struct rt_ident idents[2] = {{.host_id = "a"}, {.host_id = "b"}};
    struct rt_job job = {.nranks = 2, .idents = idents};
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table = NULL;
    ck_assert_int_eq(peal_table_assemble(ctx, text, strlen(text), "t", &diag, &table), PEAL_OK);
    ck_assert_int_eq(peal_dev_layout_make(table, &layout, &diag), PEAL_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(diag.text, "ahead"));
    diag = (peal_diag)PEAL_DIAG_INIT;
    ck_assert_int_eq(rt_far_check(&job, table, &diag), PEAL_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(diag.text, "runs ahead"));
    (void)snprintf(idents[1].host_id, sizeof idents[1].host_id, "a");
    ck_assert_int_eq(rt_far_check(&job, table, &diag), PEAL_OK);
    peal_table_destroy(table);
}
END_TEST

struct bytes {
    char data[16384];
    size_t used;
};

static peal_status gather(void *user, const char *data, size_t bytes)
{
    struct bytes *to = user;
    if (bytes > sizeof to->data - to->used)
        return PEAL_ERR_LIMIT;
    memcpy(to->data + to->used, data, bytes);
    to->used += bytes;
    return PEAL_OK;
}

START_TEST(file_and_text_keep_that_calls_run_ahead)
{
    static struct bytes file, text, again;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_row_info info = {.size = sizeof info};
    peal_table *table = make_table(1), *loaded = NULL;
    ck_assert_int_eq(peal_table_save(table, gather, &file, &diag), PEAL_OK);
    ck_assert_int_eq(peal_table_load(ctx, file.data, file.used, "t", &diag, &loaded), PEAL_OK);
    for (uint32_t i = 0; i < loaded->nrows; i++)
        ck_assert_int_eq(loaded->rows[i].plan->ahead, i >= 2);
    /* What is told of memory counts every copy: a slot of 600 + 256 bytes, each four a word. */
    ck_assert_int_eq(peal_table_row(loaded, 2, &info), PEAL_OK);
    ck_assert_uint_eq(info.scratch_bytes, PLAN_AHEAD * 1792u /* 14 lines: 215 words */);
    ck_assert_int_eq(peal_table_print(loaded, gather, &text, &diag), PEAL_OK);
    peal_table_destroy(table);
    ck_assert_int_eq(peal_table_assemble(ctx, text.data, text.used, "t", &diag, &table), PEAL_OK);
    ck_assert_int_eq(peal_table_save(table, gather, &again, &diag), PEAL_OK);
    ck_assert_uint_eq(again.used, file.used);
    ck_assert_mem_eq(again.data, file.data, file.used);
    peal_table_destroy(loaded);
    peal_table_destroy(table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run_ahead");
    TCase *tests = tcase_create("ahead");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, a_root_runs_ahead_as_far_as_the_ring, 0, 3);
    tcase_add_test(tests, no_two_packets_share_a_byte);
    tcase_add_test(tests, messages_of_every_size_in_turn);
    tcase_add_test(tests, a_root_is_one_call_ahead_where_calls_do_not_run_ahead);
    tcase_add_loop_test(tests, calls_that_run_ahead_compose_with_others, 0, 3);
    tcase_add_test(tests, the_entry_rule_is_what_it_takes);
    tcase_add_test(tests, stamps_come_round);
    tcase_add_test(tests, another_call_is_found_behind_a_root_that_has_left);
    tcase_add_test(tests, of_several_packets_the_other_call_s_is_named);
    tcase_add_loop_test(tests, several_roots_are_found_behind_the_next_call_that_all_enter, 0, 3);
    tcase_add_test(tests, a_rank_that_stays_behind_is_named);
    tcase_add_loop_test(tests, what_others_know_of_does_not_run_ahead, 0, 6);
    tcase_add_test(tests, a_plan_says_that_it_runs_ahead);
    tcase_add_test(tests, devices_and_other_hosts_refuse_it);
    tcase_add_test(tests, file_and_text_keep_that_calls_run_ahead);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
