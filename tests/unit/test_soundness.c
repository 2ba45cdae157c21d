/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: slow threads */
/*
 * Hunts for wrong plans that the verifier takes for right: compiled plans are edited at random,
 * and each edited one that is accepted is run, in the model of test_model.h in many orders, a few
 * calls on end, mixed with other accepted plans; and for real, with delays and unkind engines.
 * PEAL_SOUNDNESS_SECONDS: how long; PEAL_SOUNDNESS_SEED: where it begins.
 */
#include "test_edits.h"
#include "test_model.h"
#include "test_run.h"
#include "test_suite.h"

#include <time.h>
#include <unistd.h>

#define EDITS_MAX 3u
#define ORDERS 24u
#define TOP_BYTES 65536u

static const struct origin {
    const char *algorithm;
    uint32_t ranks;
    peal_engine engine;
    uint64_t tile;
    int ahead;
} origins[] = {
    {"ring", 8, PEAL_ENGINE_SM, 0, 0},
    {"ring", 8, PEAL_ENGINE_CE, 2048, 0},
    {"ring", 3, PEAL_ENGINE_TMA, 2048, 0},
    {"ring", 5, PEAL_ENGINE_CE, 4096, 0},
    {"ring", 2, PEAL_ENGINE_CE, 4096, 0},
    {"tree", 8, PEAL_ENGINE_SM, 0, 0},
    {"tree", 8, PEAL_ENGINE_TMA, 4096, 0},
    {"tree", 3, PEAL_ENGINE_CE, 4096, 0},
    {"tree", 5, PEAL_ENGINE_SM, 4096, 0},
    {"hierarchical", 8, PEAL_ENGINE_SM, 0, 0},
    {"hierarchical", 8, PEAL_ENGINE_CE, 4096, 0},
    {"oneshot", 4, PEAL_ENGINE_SM, 0, 0},
    {"oneshot", 3, PEAL_ENGINE_SM, 0, 0},
    {"oneshot", 4, PEAL_ENGINE_SM, 0, 1},
    {"oneshot", 3, PEAL_ENGINE_SM, 0, 1},
    {"twoshot", 4, PEAL_ENGINE_SM, 0, 0},
    {"twoshot", 3, PEAL_ENGINE_SM, 0, 0},
};
#define ORIGINS (sizeof origins / sizeof origins[0])

static struct test_heap heap;
static peal_ctx *ctx;
static struct {
    uint32_t edited, malformed, refused, accepted, mixes, runs;
    uint32_t missed; /* refused, but nothing went wrong in the model */
} tally;

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- edits of a whole text, beyond those of a line: they keep a plan balanced more often */

/* A line somewhere in the same rank, so that a step can move there; at itself: none. */
static uint32_t other_place(const struct document *d, uint32_t at)
{
    uint32_t from = at, to = at;
    while (from > 0 && strncmp(d->line[from - 1], "  rank ", 7) != 0 && at - from < 12)
        from--;
    while (to + 1 < d->count && strncmp(d->line[to + 1], "  rank ", 7) != 0 && to - at < 12)
        to++;
    return from + random_below(to - from + 1);
}

static void move_line(struct document *d, uint32_t from, uint32_t to)
{
    char *line = d->line[from];
    if (from < to)
        memmove(&d->line[from], &d->line[from + 1], (to - from) * sizeof *d->line);
    else
        memmove(&d->line[to + 1], &d->line[to], (from - to) * sizeof *d->line);
    d->line[to] = line;
}

/* 0 where an edit has taken the rank's line away. */
static uint32_t rank_of(const struct document *d, uint32_t at)
{
    while (at > 0 && strncmp(d->line[at], "  rank ", 7) != 0)
        at--;
    return at ? (uint32_t)strtoul(d->line[at] + 7, NULL, 10) : 0;
}

/* The number of matches of a wait or signal among the lines, and one of them. */
static uint32_t find_partner(const struct document *d, uint32_t at, uint32_t *partner)
{
    const char *line = d->line[at] + strspn(d->line[at], " ");
    int is_wait = !strncmp(line, "wait ", 5);
    const char *name = strchr(line, 'r');
    uint32_t peer = (uint32_t)strtoul(name + 1, NULL, 10), me = rank_of(d, at), found = 0;
    char wanted[64];
    (void)snprintf(wanted, sizeof wanted, "%s r%u.%lu", is_wait ? "signal" : "wait", me,
                   strtoul(strchr(name, '.') + 1, NULL, 10));
    for (uint32_t i = 0; i < d->steps; i++) {
        const char *other = d->line[d->step[i]] + strspn(d->line[d->step[i]], " ");
        size_t length = strlen(wanted);
        if (!strncmp(other, wanted, length) && (other[length] == ' ' || !other[length]) &&
            rank_of(d, d->step[i]) == peer && random_below(++found) == 0)
            *partner = d->step[i];
    }
    return found;
}

static void index_steps(struct document *d)
{
    d->steps = 0;
    for (uint32_t i = 0; i < d->count; i++)
        if (is_step(d->line[i]))
            d->step[d->steps++] = i;
}

/* Text that lives as long as an edited plan. */
static char arena[1 << 18];
static size_t arena_used;

static char *keep(const char *text)
{
    size_t bytes = strlen(text) + 1;
    ck_assert_uint_le(arena_used + bytes, sizeof arena);
    char *kept = memcpy(arena + arena_used, text, bytes);
    arena_used += bytes;
    return kept;
}

/* Two lines as one. */
static char *keep_both(const char *first, const char *second)
{
    char *kept = keep(first);
    arena[arena_used - 1] = '\n';
    (void)keep(second);
    return kept;
}

static int drop_pair(struct document *d, uint32_t at)
{
    uint32_t partner;
    if ((!word_is(d->line[at], "wait ") && !word_is(d->line[at], "signal ")) ||
        !find_partner(d, at, &partner))
        return 0;
    d->line[at] = d->line[partner] = keep("");
    return 1;
}

static int add_pair(struct document *d, uint32_t at)
{
    uint32_t other = d->step[random_below(d->steps)], sem = random_below(2);
    char step[128];
    if (at == other)
        return 0;
    (void)snprintf(step, sizeof step, "signal r%u.%u sm", rank_of(d, other), sem);
    d->line[at] = keep_both(step, d->line[at]);
    (void)snprintf(step, sizeof step, "wait r%u.%u lag %u", rank_of(d, at), sem, random_below(3));
    d->line[other] = keep_both(step, d->line[other]);
    return 1;
}

static int is_heading(const char *line, const char *word)
{
    line += strspn(line, " ");
    return !strncmp(line, word, strlen(word));
}

/* A step at the head of the lane's pre, or at the end of its post. */
static void add_to_section(struct document *d, uint32_t at, int post, const char *step)
{
    uint32_t end = at;
    int has_post = 0, has_pre = 0;
    while (at > 0 && !is_heading(d->line[at], "lane"))
        at--;
    do
        end++;
    while (end < d->count && !is_heading(d->line[end], "lane") &&
           !is_heading(d->line[end], "rank"));
    for (uint32_t i = at; i < end; i++) {
        has_post |= is_heading(d->line[i], "post");
        has_pre |= is_heading(d->line[i], "pre");
    }
    uint32_t line = post ? end - 1 : has_pre ? at + 1 : at;
    if (post ? !has_post : !has_pre)
        d->line[line] = keep_both(d->line[line], post ? "post" : "pre");
    d->line[line] = keep_both(d->line[line], step);
}

/* A semaphore that runs ahead or behind: signals outside of the body, and as many waits. */
static int add_shift(struct document *d, uint32_t at)
{
    uint32_t partner, count = 1 + random_below(6);
    char name[64], engine[16], step[128], line[LINE_MAX_BYTES * 5];
    if (!word_is(d->line[at], "wait ") || strchr(d->line[at], '\n') ||
        !find_partner(d, at, &partner))
        return 0;
    const char *signal = strstr(d->line[partner], "signal ");
    if (!signal || sscanf(signal, "signal %63s %15s", name, engine) != 2)
        return 0;
    int late_signal = (int)random_below(2), late_wait = (int)random_below(2);
    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(step, sizeof step, "signal %s %s", name, engine);
        add_to_section(d, partner, late_signal, step);
        (void)snprintf(step, sizeof step, "wait r%u%s lag %u", rank_of(d, partner),
                       strchr(name, '.'), random_below(3) ? 0 : random_below(4));
        add_to_section(d, at, late_wait, step);
    }
    const char *lag = strstr(d->line[at], " lag ");
    (void)snprintf(line, sizeof line, "%.*s lag %u",
                   lag ? (int)(lag - d->line[at]) : (int)strlen(d->line[at]), d->line[at],
                   random_below(count + 3));
    d->line[at] = keep(line);
    return 1;
}

static int any_lag(const char *line, char *out)
{
    const char *lag = strstr(line, " lag ");
    int length = lag ? (int)(lag - line) : (int)strlen(line);
    if (!word_is(line, "wait "))
        return 0;
    sprintf(out, "%.*s lag %u", length, line, random_below(random_below(2) ? 4 : 16));
    return 1;
}

static int other_engine(const char *line, char *out)
{
    char to[32];
    if (!strchr(line, ':') || word_is(line, "reduce "))
        return 0;
    (void)snprintf(to, sizeof to, " %s e%u", random_below(2) ? "ce" : "tma", random_below(8));
    return exchange(line, out, " sm", to);
}

static int own_engine(const char *line, char *out)
{
    const char *engine = strstr(line, " ce e");
    if (!engine)
        engine = strstr(line, " tma e");
    if (!engine || !strchr(line, ':'))
        return 0;
    sprintf(out, "%.*s sm", (int)(engine - line), line);
    return 1;
}

static int more_await(const char *line, char *out)
{
    const char *event = strstr(line, " ce e");
    if (!event || !strchr(line, ':'))
        return 0;
    sprintf(out, "%s\nawait %s %s", line, event + 4, random_below(2) ? "free" : "delivered");
    return 1;
}

static int signal_by_hand(const char *line, char *out)
{
    const char *ce = strstr(line, " ce after ");
    if (!ce || !word_is(line, "signal "))
        return 0;
    sprintf(out, "await %s delivered\n%.*s sm", ce + 10, (int)(ce - line), line);
    return 1;
}

static int depth(const char *line, char *out)
{
    return word_is(line, "region ") && bump(line, out, " depth ");
}

static int (*const line_edits[])(const char *line, char *out) = {
    drop_wait,   drop_signal,     drop_await, drop_data, double_data,     other_chunk,
    one_operand, shifted_slot,    wrong_peer, no_order,  too_early_final, wrong_buffer,
    no_lag,      more_lag,        free_only,  any_lag,   other_engine,    own_engine,
    more_await,  wrong_semaphore, not_final,  depth,     signal_by_hand,
};

static int edit_once(struct document *d)
{
    uint32_t at = d->step[random_below(d->steps)], kind = random_below(9), to;
    char out[LINE_MAX_BYTES * 5];
    if (kind == 0)
        return drop_pair(d, at);
    if (kind == 1)
        return add_pair(d, at);
    if (kind == 2) {
        to = other_place(d, at);
        move_line(d, at, to);
        return to != at;
    }
    if (kind == 4)
        return add_shift(d, at);
    if (kind == 3) /* a setting or a heading, too */
        at = random_below(d->count);
    size_t pick = random_below(sizeof line_edits / sizeof line_edits[0]);
    if (strlen(d->line[at]) > LINE_MAX_BYTES || !line_edits[pick](d->line[at], out) ||
        !strcmp(out, d->line[at]))
        return 0;
    d->line[at] = keep(out);
    return 1;
}

static void edit(struct document *d, struct text *out)
{
    uint32_t wanted = 1 + random_below(EDITS_MAX);
    arena_used = 0;
    for (uint32_t done = 0, tries = 0; done < wanted && tries < 400; tries++) {
        done += (uint32_t)edit_once(d);
        index_steps(d);
    }
    out->used = 0;
    for (uint32_t i = 0; i < d->count; i++) {
        (void)append(out, d->line[i], strlen(d->line[i]));
        (void)append(out, "\n", 1);
    }
}

/* ---- what differs, for people */

static void print_difference(const char *from, const char *to)
{
    char names[2][64];
    const char *texts[2] = {from, to};
    char command[160];
    for (int i = 0; i < 2; i++) {
        (void)snprintf(names[i], sizeof names[i], "/tmp/peal-soundness-%d-%ld", i, (long)getpid());
        FILE *file = fopen(names[i], "w");
        ck_assert_ptr_nonnull(file);
        (void)fputs(texts[i], file);
        (void)fclose(file);
    }
    (void)snprintf(command, sizeof command, "diff -U2 %s %s", names[0], names[1]);
    (void)fflush(stdout);
    if (system(command) < 0)
        printf("no diff\n");
}

/* ---- runs in the model */

static struct {
    peal_table *table;
    char *text;
} kept[ORIGINS][4]; /* accepted plans of an origin, the unedited one first */

static uint32_t some_trips(const struct peal_plan *plan)
{
    uint64_t most = peal_plan_trip_bound(plan);
    return 1 + random_below(most < 9 ? (uint32_t)most : 9);
}

/* Several calls of the plan, now and then of others that serve as many ranks. */
static int model_fails(const struct peal_plan *plan, uint32_t orders, char problem[256])
{
    for (uint32_t i = 0; i < orders; i++) {
        struct model_call calls[6];
        uint32_t ncalls = 1 + random_below(5);
        for (uint32_t c = 0; c < ncalls; c++) {
            const struct peal_plan *other = plan;
            uint32_t number = 0, o = random_below(ORIGINS), k = random_below(4);
            if (i % 3 == 2 && random_below(2) && kept[o][k].table &&
                kept[o][k].table->nranks == plan->nranks) {
                other = kept[o][k].table->rows[0].plan;
                number = 1 + o * 4 + k;
            }
            calls[c] = (struct model_call){other, number, some_trips(other), (int)random_below(2)};
        }
        tally.mixes++;
        if (model_run(calls, ncalls, rng, problem))
            return 1;
    }
    return 0;
}

/* ---- real runs */

struct script {
    uint32_t calls;
    size_t count[8];
    int in_place[8];
    uint32_t salt;
};

static int run_script(struct rank_thread *self)
{
    const struct script *script = self->user;
    uint64_t random = script->salt * 77u + self->rank * 1234567u + 1;
    float *in = peal_mem_alloc(self->comm, TOP_BYTES), *out = peal_mem_alloc(self->comm, TOP_BYTES);
    if (!in || !out)
        return 1;
    for (uint32_t i = 0; i < script->calls; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        struct timespec pause = {0, (long)(random >> 60 ? random >> 46 : random >> 43)};
        (void)nanosleep(&pause, NULL);
        if (checked_call(self->comm, self->ranks, self->rank, in, script->in_place[i] ? in : out,
                         script->count[i], PEAL_FLOAT32, PEAL_SUM, script->salt + i, self->problem))
            return 1;
        /* The caller's buffers are its own again. */
        memset(in, 0x5a, script->count[i] * sizeof *in);
        memset(out, 0xa5, script->count[i] * sizeof *out);
    }
    return 0;
}

static const char *run_fails(peal_table *table, uint32_t worlds)
{
    static const size_t counts[] = {0, 1, 7, 3001, 4096, 9000, TOP_BYTES / 4 - 1, TOP_BYTES / 4};
    for (uint32_t i = 0; i < worlds; i++) {
        struct script script = {.calls = 8, .salt = random_below(1000)};
        peal_world_params params = PEAL_WORLD_PARAMS_INIT;
        params.timeout_ms = 20000; /* the machine may be busy; what is stuck stays so */
        params.chaos_seed = i ? 1 + random_below(1u << 30) : 0;
        params.heap_bytes = 1 << 20;
        for (uint32_t c = 0; c < script.calls; c++) {
            script.count[c] = counts[random_below(8)];
            script.in_place[c] = (int)random_below(2);
        }
        tally.runs++;
        const char *problem = run_ranks(ctx, table, table->nranks, &params, run_script, &script);
        if (problem)
            return problem;
    }
    return NULL;
}

/* ---- the hunt */

/* An exact range of sizes would leave out most of the counts. */
static char *widened(char *text)
{
    char *range = strstr(text, "65536..65536");
    ck_assert_ptr_nonnull(range);
    if (range)
        memcpy(range, "    0", 5);
    return text;
}

/* The same plan, running ahead: packets are all that ranks know of each other. */
static char *run_ahead(char *text)
{
    const char *behind = strstr(text, "  channels ");
    char *made = malloc(strlen(text) + 16);
    ck_assert_ptr_nonnull(behind);
    ck_assert_ptr_nonnull(made);
    (void)sprintf(made, "%.*s  ahead\n%s", (int)(behind - text), text, behind);
    free(text);
    return made;
}

static peal_table *accepted(const struct text *text)
{
    peal_table *table;
    peal_diag diag = PEAL_DIAG_INIT;
    char problem[256];
    if (peal_table_assemble(ctx, text->data, text->used, "edited", &diag, &table) != PEAL_OK) {
        tally.malformed++;
        return NULL;
    }
    peal_status status = peal_table_verify(table, NULL, NULL, NULL, &diag);
    if (status == PEAL_OK)
        return table;
    ck_assert_int_eq(status, PEAL_ERR_UNPROVEN);
    tally.refused++;
    tally.missed += !model_fails(table->rows[0].plan, 4, problem);
    peal_table_destroy(table);
    return NULL;
}

static int hunt_once(size_t o)
{
    static struct document d;
    static struct text out;
    char *copy = malloc(strlen(kept[o][0].text) + 1), problem[256];
    const char *real = NULL;
    strcpy(copy, kept[o][0].text);
    split(&d, copy);
    edit(&d, &out);
    tally.edited++;
    peal_table *table = accepted(&out);
    int failed = table && model_fails(table->rows[0].plan, ORDERS, problem);
    if (table && !failed && tally.accepted % 4 == 0)
        failed = (real = run_fails(table, 2)) != NULL;
    if (failed) {
        printf("accepted, but wrong (%s %u): %s\n", origins[o].algorithm, origins[o].ranks,
               real ? real : problem);
        print_difference(kept[o][0].text, out.data);
    }
    free(copy);
    if (!table)
        return failed;
    uint32_t place = 1 + tally.accepted++ % 3;
    peal_table_destroy(kept[o][place].table);
    kept[o][place].table = table;
    return failed;
}

START_TEST(accepted_plans_are_right)
{
    const char *seconds = getenv("PEAL_SOUNDNESS_SECONDS"), *seed = getenv("PEAL_SOUNDNESS_SEED");
    double limit = seconds ? strtod(seconds, NULL) : 20;
    uint32_t failures = 0;
    char problem[256];
    ctx = test_ctx(&heap);
    rng = 0x9E3779B97F4A7C15ull ^ (seed ? strtoull(seed, NULL, 10) : 0) << 20;
    memset(kept, 0, sizeof kept);
    for (size_t o = 0; o < ORIGINS; o++) {
        char *text = compiled(ctx, origins[o].algorithm, origins[o].ranks, origins[o].engine,
                              origins[o].tile);
        peal_diag diag = PEAL_DIAG_INIT;
        kept[o][0].text = widened(origins[o].ahead ? run_ahead(text) : text);
        ck_assert_int_eq(peal_table_assemble(ctx, kept[o][0].text, strlen(kept[o][0].text), "made",
                                             &diag, &kept[o][0].table),
                         PEAL_OK);
        ck_assert_int_eq(peal_table_verify(kept[o][0].table, NULL, NULL, NULL, &diag), PEAL_OK);
        if (model_fails(kept[o][0].table->rows[0].plan, ORDERS, problem)) {
            printf("%s %u as compiled: %s\n", origins[o].algorithm, origins[o].ranks, problem);
            failures++;
        }
    }
    for (double end = now() + limit; now() < end && failures < 5;)
        failures += (uint32_t)hunt_once(random_below(ORIGINS));
    printf("%u edited: %u malformed, %u refused (%u without a failure in a few orders), %u "
           "accepted; %u runs in the model, %u real ones, %u failures\n",
           tally.edited, tally.malformed, tally.refused, tally.missed, tally.accepted, tally.mixes,
           tally.runs, failures);
    for (size_t o = 0; o < ORIGINS; o++)
        for (int k = 0; k < 4; k++) {
            peal_table_destroy(kept[o][k].table);
            free(kept[o][k].text);
        }
    ck_assert_uint_eq(failures, 0);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("soundness");
    TCase *tcase = tcase_create("soundness");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, accepted_plans_are_right);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_NOFORK);
}
