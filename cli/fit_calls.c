/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every schedule that the planner would choose between runs, size by size, all of them by turns and
 * more than once, so that what else the machine does meets all alike; of each the least time. A
 * virtual machine's cores are at one time near each other and at another far apart, so a flag is
 * sent there and back before each run and behind it: those count around which it took about as long
 * as it did in most. Each runs in a world of its own, since what a comm learns from other calls of
 * where its peers are makes it faster. What a first turn shows to be far behind is not measured
 * again.
 */
#include "fit_calls.h"

#include "fit_input.h"
#include "report.h"
#include "run_options.h"

#include <stdlib.h>
#include <string.h>

#define FEW_TURNS 2u /* of small sizes alone: a look, not a measurement */
#define FEW_BYTES (64u << 10)
#define FEW_BUDGET_US 500u
#define BUDGET_US 12000u
#define TURNS_NS 100000000000u /* no turn is begun that would end later */
#define ALIKE 1.5              /* flags that differ by less are of one state of the machine */
#define BEHIND 2.0
/* Calls of processes stage their messages in places that take turns: until these have all been used
 * once, a call waits for pages. */
#define PLACES_BYTES (32u << 20)
#define WARM_MOST 2048u

static const peal_collective collectives[] = {PEAL_ALLREDUCE, PEAL_REDUCE_SCATTER, PEAL_ALLGATHER,
                                              PEAL_ALLTOALL,  PEAL_BROADCAST,      PEAL_REDUCE,
                                              PEAL_SCATTER,   PEAL_GATHER};
/* Messages that tell of each algorithm which of its schedules is best for small ones, and so on. */
static const uint64_t probes[] = {64, 16u << 10, 1u << 20, 64u << 20};

int calls_unit(struct cli *cli, uint32_t ranks, const char *calls, peal_fabric **out)
{
    char text[8192];
    peal_diag diag = PEAL_DIAG_INIT;
    int length = snprintf(text, sizeof text,
                          "<peal version=\"1\"><host ranks=\"%lu\"/><cost link=\"shm\" "
                          "alpha-us=\"1\" gap-us=\"0\" beta-gbs=\"1000\"/><memory>"
                          "<rate use=\"load\" bytes=\"1\" gbs=\"1\"/>"
                          "<rate use=\"store\" bytes=\"1\" gbs=\"1\"/>"
                          "<rate use=\"exchange\" bytes=\"1\" gbs=\"1\"/>%s</memory></peal>",
                          (unsigned long)ranks, calls);
    return say_diag(
        peal_fabric_parse(cli->ctx, text, (size_t)length, "unit costs", NULL, &diag, out), &diag);
}

/* ---- which schedules there are */

static int is_same(const struct schedule *s, const peal_row_info *row)
{
    return strcmp(s->algorithm, row->algorithm) == 0 && strcmp(s->detail, row->detail) == 0 &&
           s->tile_bytes == row->tile_bytes;
}

/* Those of one collective with such buffers begin at `first`. */
static void add_schedule(struct calling *c, uint32_t first, int private_buffers,
                         const peal_row_info *row)
{
    for (uint32_t i = first; i < c->count; i++)
        if (is_same(&c->schedule[i], row))
            return;
    if (c->count == SCHEDULES_MAX)
        return;
    struct schedule *s = &c->schedule[c->count++];
    s->collective = row->collective;
    s->private_buffers = private_buffers;
    s->tile_bytes = row->tile_bytes;
    (void)snprintf(s->algorithm, sizeof s->algorithm, "%s", row->algorithm);
    (void)snprintf(s->detail, sizeof s->detail, "%s", row->detail);
}

static int find_schedules(struct calling *c, peal_collective collective, int private_buffers)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_request request = PEAL_REQUEST_INIT;
    peal_table *table = NULL;
    uint32_t first = c->count;
    const char *name;
    request.collective = collective;
    request.private_buffers = private_buffers;
    request.min_bytes = 1;
    request.max_bytes = 1ull << 30; /* tiles that only larger messages are cut into show */
    CLI_TRY(say_diag(peal_table_plan(c->cli->ctx, c->unit, &request, &diag, &table), &diag));
    for (uint32_t i = 0; (name = peal_algorithm_name(i)) != NULL; i++)
        for (uint32_t p = 0; p < COUNT_OF(probes); p++) {
            peal_row_info row = {.size = sizeof row};
            if (peal_table_best(table, name, probes[p], &row) == PEAL_OK)
                add_schedule(c, first, private_buffers, &row);
        }
    peal_table_destroy(table);
    return EXIT_YES;
}

static int find_all(struct calling *c)
{
    for (int private_buffers = c->procs; private_buffers >= 0; private_buffers--)
        for (uint32_t i = 0; i < COUNT_OF(collectives); i++)
            CLI_TRY(find_schedules(c, collectives[i], private_buffers));
    return EXIT_YES;
}

/* ---- their plans: where they are all that is known to be fast, nothing else is chosen */

static int make_fabric(const struct calling *c, const struct schedule *s, peal_fabric **fabric)
{
    char *text = NULL;
    size_t length = 0;
    FILE *file = need(open_memstream(&text, &length));
    fprintf(file, "<call collective=\"%s\" algorithm=\"%s\" detail=\"",
            peal_collective_name(s->collective), s->algorithm);
    page_text(file, s->detail);
    fprintf(file, "\" tile=\"%llu\" buffers=\"%s\"><time bytes=\"1\" us=\"1\"/></call>",
            (unsigned long long)s->tile_bytes, s->private_buffers ? "private" : "shared");
    int code = fclose(file) == 0 ? calls_unit(c->cli, c->ranks, text, fabric) : EXIT_RUNTIME;
    free(text);
    return code;
}

static int make_plan(const struct calling *c, const struct schedule *s, peal_table **table)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_request request = PEAL_REQUEST_INIT;
    peal_fabric *fabric = NULL;
    request.collective = s->collective;
    request.algorithm = s->algorithm;
    request.private_buffers = s->private_buffers;
    request.min_bytes = 1;
    request.max_bytes = 2 * c->size[c->sizes - 1];
    CLI_TRY(make_fabric(c, s, &fabric));
    int code = say_diag(peal_table_plan(c->cli->ctx, fabric, &request, &diag, table), &diag);
    if (code == EXIT_YES)
        code = compile_table(fabric, *table);
    peal_fabric_destroy(fabric);
    return code;
}

/* ---- measuring */

static int is_small(const struct calling *c)
{
    return c->size[c->sizes - 1] <= FEW_BYTES;
}

/* Shared buffers stage nothing. */
static uint32_t warm_calls(const struct calling *c, const struct schedule *s, uint64_t bytes)
{
    uint64_t calls = s->private_buffers && !is_small(c) ? PLACES_BYTES / bytes : 2;
    return (uint32_t)(calls < 2 ? 2 : calls < WARM_MOST ? calls : WARM_MOST);
}

/* Whether an earlier turn has shown it to be far behind another one. */
static int is_behind(const struct calling *c, const struct schedule *s, uint32_t turn, uint32_t z)
{
    double best = 0, own = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        const struct schedule *other = &c->schedule[i];
        if (other->collective != s->collective || other->private_buffers != s->private_buffers)
            continue;
        for (uint32_t t = 0; t < turn; t++) {
            double us = other->run[t][z];
            best = us > 0 && (!(best > 0) || us < best) ? us : best;
            own = other == s && us > 0 && (!(own > 0) || us < own) ? us : own;
        }
    }
    return own > BEHIND * best;
}

/* The table's row for it is this very schedule: another one may stand in where it cannot be, and
 * what a tile holds is not cut. */
static int is_planned(const peal_table *table, const struct job *job, uint32_t ranks,
                      const struct schedule *s)
{
    peal_row_info row;
    return find_row(table, job, ranks, &row) && strcmp(row.detail, s->detail) == 0 &&
           row.tile_bytes == s->tile_bytes;
}

struct run {
    uint32_t jobs;
    struct job job[CALL_SIZES];
    struct result result[CALL_SIZES];
    uint32_t size[CALL_SIZES]; /* of each job, which one */
};

static void add_jobs(const struct calling *c, struct schedule *s, uint32_t turn,
                     const peal_table *table, struct run *run)
{
    struct job job = {.action = {.collective = s->collective},
                      .dtype = PEAL_FLOAT32,
                      .op = PEAL_SUM,
                      .calls = 1,
                      .bounded = 1,
                      .budget_us = is_small(c) ? FEW_BUDGET_US : BUDGET_US};
    uint64_t bytes = 0;
    for (uint32_t z = 0; z < c->sizes; z++) {
        uint64_t last = bytes;
        job.count = action_count(&job.action, c->size[z], job.dtype, c->ranks);
        bytes = job_bytes(&job, c->ranks);
        job.warmup = warm_calls(c, s, bytes);
        job.rounds = job_bursts(bytes);
        if (bytes <= last || !is_planned(table, &job, c->ranks, s) ||
            (turn && is_behind(c, s, turn, z)))
            continue;
        s->bytes[z] = bytes;
        run->size[run->jobs] = z;
        run->job[run->jobs++] = job;
    }
}

static int run_schedule(struct calling *c, struct schedule *s, uint32_t turn, peal_table *table)
{
    double behind = 0;
    struct run run = {.jobs = 0};
    struct crew crew = {.table = table, .ranks = c->ranks, .what = "peal fit: calls"};
    CLI_TRY(read_crew(c->cli, !c->crowded, 1, &crew));
    crew.registered = crew.procs && !s->private_buffers;
    add_jobs(c, s, turn, table, &run);
    crew.jobs = run.job;
    crew.results = run.result;
    crew.njobs = run.jobs;
    int looks = !c->crowded && !is_small(c);
    if (looks)
        CLI_TRY(measure_flag(&s->flag[turn]));
    if (run.jobs)
        CLI_TRY(crew_run(&crew));
    if (looks)
        CLI_TRY(measure_flag(&behind));
    if (behind > ALIKE * s->flag[turn] || s->flag[turn] > ALIKE * behind)
        s->flag[turn] = 0;
    for (uint32_t i = 0; i < run.jobs; i++)
        s->run[turn][run.size[i]] = run.result[i].best_us;
    return EXIT_YES;
}

static int run_turns(struct calling *c, peal_table **tables)
{
    uint64_t begin = now_ns();
    int code = EXIT_YES;
    for (uint32_t turn = 0; turn < (is_small(c) ? FEW_TURNS : CALL_TURNS); turn++) {
        uint64_t spent = now_ns() - begin;
        if (turn >= FEW_TURNS && spent + spent / turn > TURNS_NS)
            break;
        for (uint32_t i = 0; i < c->count && code == EXIT_YES; i++)
            code = run_schedule(c, &c->schedule[i], turn, tables[i]);
    }
    return code;
}

static int measure_all(struct calling *c)
{
    peal_table **tables = need(calloc(c->count + 1u, sizeof *tables));
    int code = EXIT_YES;
    for (uint32_t i = 0; i < c->count && code == EXIT_YES; i++)
        code = make_plan(c, &c->schedule[i], &tables[i]);
    if (code == EXIT_YES)
        code = run_turns(c, tables);
    for (uint32_t i = 0; i < c->count; i++)
        peal_table_destroy(tables[i]);
    free(tables);
    return code;
}

/* ---- which runs count */

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The state in which most runs were made. */
static void find_state(struct calling *c)
{
    double *flag = need(calloc(c->count * CALL_TURNS + 1u, sizeof *flag));
    for (uint32_t i = 0; i < c->count; i++)
        for (uint32_t t = 0; t < CALL_TURNS; t++)
            if (c->schedule[i].flag[t] > 0)
                flag[c->runs++] = c->schedule[i].flag[t];
    qsort(flag, c->runs, sizeof *flag, by_value);
    for (uint32_t first = 0, last = 0; first < c->runs; first++) {
        while (last < c->runs && flag[last] <= ALIKE * flag[first])
            last++;
        if (last - first <= c->alike)
            continue;
        c->alike = last - first;
        c->flag_us = flag[first + c->alike / 2];
        uint32_t above = c->runs - last;
        c->other_us = first > above ? flag[first / 2] : above ? flag[last + above / 2] : 0;
    }
    free(flag);
}

/* Of each schedule and size the least time in that state, or, if it never met it, of all. */
static void take_least(const struct calling *c, struct schedule *s, uint32_t size)
{
    double least[2] = {0, 0};
    for (uint32_t t = 0; t < CALL_TURNS; t++) {
        double us = s->run[t][size], flag = s->flag[t];
        int like = flag <= ALIKE * c->flag_us && flag >= c->flag_us / ALIKE;
        for (int all = 0; all < 2; all++)
            if (us > 0 && (all || like) && (!(least[all] > 0) || us < least[all]))
                least[all] = us;
    }
    s->us[size] = least[0] > 0 ? least[0] : least[1];
}

int calls_measure(struct calling *c)
{
    CLI_TRY(calls_unit(c->cli, c->ranks, "", &c->unit));
    CLI_TRY(find_all(c));
    CLI_TRY(measure_all(c));
    find_state(c);
    for (uint32_t i = 0; i < c->count; i++)
        for (uint32_t z = 0; z < c->sizes; z++)
            take_least(c, &c->schedule[i], z);
    return EXIT_YES;
}
