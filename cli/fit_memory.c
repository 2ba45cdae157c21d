/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks do that share this machine's memory, as many of them as are asked for, whether each
 * has a core or several share one. What calls took is written as it was measured (fit_calls.c). For
 * what was not, allreduces tell what is common to schedules: one takes an entry, a start-up for
 * each of its steps, and what its ranks copy at the rate of that size. Steps and copies are those
 * that the planner counts, on a machine of unit costs; entry and start-up are the line through the
 * times of the smallest message, rates follow from the others.
 */
#include "fit_calls.h"
#include "fit_input.h"
#include "run_options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEAST 8u
#define LOW 64u /* a line of a cache */
#define HIGH (64u << 20)
#define HIGH_LEAST 4096u
#define STEP 4u
#define FINE_LOW (64u << 10) /* from here on others take over, and caches end: steps of 2 */
#define FINE_HIGH (16u << 20)
#define LATENT 0.15 /* at least this part of a time has to be copying, to tell a rate */
/* GB/s: no memory copies more slowly, or faster. What seems to was a rank that had no core. */
#define RATE_LOW 0.01
#define RATE_HIGH 1e5

/* Those that load, store and exchange; of the last only start-ups are looked at. */
static const char *const algorithms[] = {"pull",  "twoshot", "doubling", "halving", "ring",
                                         "swing", "star",    "tree",     "oneshot"};
#define ALGORITHMS COUNT_OF(algorithms)
/* The algorithms that tell the rates of a use. */
static const uint32_t first_of[PEAL_MEMORY_USE_COUNT] = {0, 1, 2, 2, 3, 4, 5, 6, 7};
static const uint32_t last_of[PEAL_MEMORY_USE_COUNT] = {0, 1, 5, 2, 3, 4, 5, 6, 7};
static const char *const uses[PEAL_MEMORY_USE_COUNT] = {
    "load", "store", "exchange", "doubling", "halving", "ring", "swing", "star", "tree"};

struct measuring {
    struct calling calling;
    uint32_t sizes;                        /* from LOW on */
    uint64_t size[CALL_SIZES];             /* the calling's */
    double us[ALGORITHMS][CALL_SIZES];     /* measured; 0: not served */
    double steps[ALGORITHMS][CALL_SIZES];  /* start-ups */
    double copies[ALGORITHMS][CALL_SIZES]; /* us at 1e9 bytes a second */
    double alpha_us, entry_us;
    peal_memory_rate rate[PEAL_MEMORY_USE_COUNT * CALL_SIZES];
    uint32_t rates;
};

/* ---- allreduces, as far as they were measured and as the planner counts them */

static void take_measured(struct measuring *m, uint32_t which)
{
    const struct calling *c = &m->calling;
    for (uint32_t i = 0; i < c->count; i++) {
        const struct schedule *s = &c->schedule[i];
        for (uint32_t z = 0; z < m->sizes; z++) {
            double us = s->us[z + c->sizes - m->sizes], *best = &m->us[which][z];
            if (s->collective == PEAL_ALLREDUCE && s->private_buffers == c->procs &&
                strcmp(s->algorithm, algorithms[which]) == 0 && us > 0 &&
                (!(*best > 0) || us < *best))
                *best = us;
        }
    }
}

static int count_all(struct measuring *m)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_request request = PEAL_REQUEST_INIT;
    peal_table *table = NULL;
    const struct calling *c = &m->calling;
    request.private_buffers = c->procs;
    request.min_bytes = LOW;
    request.max_bytes = m->size[m->sizes - 1];
    CLI_TRY(say_diag(peal_table_plan(c->cli->ctx, c->unit, &request, &diag, &table), &diag));
    for (uint32_t a = 0; a < ALGORITHMS; a++)
        for (uint32_t z = 0; z < m->sizes; z++) {
            peal_row_info row = {.size = sizeof row};
            if (peal_table_best(table, algorithms[a], m->size[z], &row) != PEAL_OK)
                continue;
            m->steps[a][z] = row.alpha_us;
            m->copies[a][z] = row.time_us - row.alpha_us;
        }
    peal_table_destroy(table);
    return EXIT_YES;
}

/* ---- costs */

/* The line us = entry + steps * alpha that is nearest to the times of the smallest message, by
 * relative deviations; neither is below 0. */
static void fit_latency(struct measuring *m)
{
    double w = 0, wx = 0, wxx = 0, wy = 0, wxy = 0;
    for (uint32_t a = 0; a < ALGORITHMS; a++) {
        double x = m->steps[a][0], y = m->us[a][0];
        if (!(y > 0) || !(x > 0))
            continue;
        double weight = 1 / (y * y);
        w += weight;
        wx += weight * x;
        wxx += weight * x * x;
        wy += weight * y;
        wxy += weight * x * y;
    }
    double under = w * wxx - wx * wx;
    m->alpha_us = under > 0 ? (w * wxy - wx * wy) / under : 0;
    m->entry_us = w > 0 ? (wy - m->alpha_us * wx) / w : 0;
    if (m->entry_us < 0 && wxx > 0) {
        m->entry_us = 0;
        m->alpha_us = wxy / wxx;
    }
    if (m->alpha_us < 0) {
        m->alpha_us = 0;
        m->entry_us = w > 0 ? wy / w : 0;
    }
}

/* The middle one of what algorithms [from, to) tell; 0: none does. */
static double rate_of(const struct measuring *m, uint32_t size, uint32_t from, uint32_t to)
{
    double rate[ALGORITHMS];
    uint32_t count = 0;
    for (uint32_t a = from; a < to; a++) {
        double us = m->us[a][size];
        double copying = us - m->us[a][0]; /* more than the smallest message takes */
        if (!(us > 0) || copying < LATENT * us)
            continue;
        double gbs = (m->copies[a][size] - m->copies[a][0]) / copying;
        if (!(gbs >= RATE_LOW && gbs <= RATE_HIGH))
            continue;
        uint32_t at = count++;
        for (; at > 0 && rate[at - 1] > gbs; at--)
            rate[at] = rate[at - 1];
        rate[at] = gbs;
    }
    return count ? rate[count / 2] : 0;
}

/* Where nothing but start-ups was seen, all of a time counts. */
static double least_rate(const struct measuring *m)
{
    uint32_t last = m->sizes - 1;
    for (uint32_t a = 0; a < ALGORITHMS; a++)
        if (m->us[a][last] > 0)
            return fmin(fmax(m->copies[a][last] / m->us[a][last], RATE_LOW), RATE_HIGH);
    return 1;
}

/* Of too many ranks for the algorithms of loads and stores, those that exchange tell the rates. One
 * algorithm's own are left out where it was not measured. */
static void add_rates(struct measuring *m, peal_memory_use use)
{
    uint32_t before = m->rates;
    int turns = use < PEAL_MEMORY_EXCHANGE ? 2 : 1;
    for (int turn = 0; turn < turns && m->rates == before; turn++) {
        uint32_t of = turn ? PEAL_MEMORY_EXCHANGE : use;
        for (uint32_t s = 1; s < m->sizes; s++) {
            double gbs = rate_of(m, s, first_of[of], last_of[of] + 1);
            if (gbs > 0)
                m->rate[m->rates++] = (peal_memory_rate){sizeof *m->rate, use, m->size[s], gbs};
        }
    }
    if (m->rates == before && use <= PEAL_MEMORY_EXCHANGE)
        m->rate[m->rates++] =
            (peal_memory_rate){sizeof *m->rate, use, m->size[m->sizes - 1], least_rate(m)};
}

/* ---- what is shown and written */

static void show_state(const struct calling *c, FILE *file)
{
    char text[NUMBER_TEXT];
    if (!c->runs)
        return;
    fprintf(file, "a flag goes there and back in %s us", real_text(c->flag_us, text));
    if (c->alike < c->runs)
        fprintf(file, " in %lu of %lu runs, which count; in the others it took %s us",
                (unsigned long)c->alike, (unsigned long)c->runs, real_text(c->other_us, text));
    fputc('\n', file);
}

static void show_memory(const struct measuring *m, FILE *file)
{
    char text[NUMBER_TEXT], size[NUMBER_TEXT];
    show_state(&m->calling, file);
    fprintf(file, "memory, %lu ranks: a call takes %s us", (unsigned long)m->calling.ranks,
            real_text(m->entry_us, text));
    fprintf(file, " and %s us a step; a rank copies, GB/s\n", real_text(m->alpha_us, text));
    for (uint32_t i = 0; i < m->rates; i++)
        fprintf(file, "  %-8s %8s  %s\n", uses[m->rate[i].use], size_text(m->rate[i].bytes, size),
                real_text(m->rate[i].gbs, text));
    fprintf(file, "%lu schedules were timed\n\n", (unsigned long)m->calling.count);
}

static uint32_t list_calls(const struct calling *c, peal_memory_call *calls, peal_point *points)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        const struct schedule *s = &c->schedule[i];
        peal_point *point = &points[(size_t)i * CALL_SIZES];
        uint32_t n = 0;
        for (uint32_t z = 0; z < c->sizes; z++)
            if (s->us[z] >= 0.001)
                point[n++] = (peal_point){s->bytes[z], s->us[z]};
        if (n)
            calls[count++] = (peal_memory_call){.size = sizeof *calls,
                                                .collective = s->collective,
                                                .algorithm = s->algorithm,
                                                .detail = s->detail,
                                                .tile_bytes = s->tile_bytes,
                                                .private_buffers = s->private_buffers,
                                                .points = point,
                                                .count = n};
    }
    return count;
}

static int write_costs(const struct measuring *m)
{
    const struct calling *c = &m->calling;
    peal_diag diag = PEAL_DIAG_INIT;
    struct output output;
    peal_memory_call *calls = need(calloc(c->count + 1u, sizeof *calls));
    peal_point *points = need(calloc(c->count * CALL_SIZES + 1u, sizeof *points));
    peal_memory_costs costs = {.size = sizeof costs,
                               .ranks = c->ranks,
                               .alpha_us = m->alpha_us,
                               .entry_us = m->entry_us,
                               .rates = m->rate,
                               .nrates = m->rates,
                               .calls = calls,
                               .ncalls = list_calls(c, calls, points)};
    int code = output_open(c->cli, &output);
    if (code == EXIT_YES) {
        peal_status status = peal_memory_write(c->cli->ctx, &costs, output_write, &output, &diag);
        code = output_close(&output, say_diag(status, &diag));
    }
    free(calls);
    free(points);
    return code;
}

static int measure(struct measuring *m, FILE *shown)
{
    CLI_TRY(calls_measure(&m->calling));
    CLI_TRY(count_all(m));
    for (uint32_t a = 0; a < ALGORITHMS; a++)
        take_measured(m, a);
    fit_latency(m);
    for (int use = 0; use < PEAL_MEMORY_USE_COUNT; use++)
        add_rates(m, (peal_memory_use)use);
    if (shown)
        show_memory(m, shown);
    return write_costs(m);
}

/* The least message first, then those that tell start-ups and rates. */
static void set_sizes(struct measuring *m, uint64_t high)
{
    struct calling *c = &m->calling;
    c->size[c->sizes++] = LEAST;
    for (uint64_t bytes = LOW; bytes <= high && c->sizes < CALL_SIZES;
         bytes *= bytes >= FINE_LOW && bytes < FINE_HIGH ? 2 : STEP)
        m->size[m->sizes++] = c->size[c->sizes++] = bytes;
}

int measure_memory(struct cli *cli, FILE *shown)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t ranks = cores > 2 ? (uint32_t)cores : 2;
    uint64_t low = 0, high = HIGH;
    struct crew crew = {.ranks = 0};
    CLI_TRY(cli_range(cli, OPT_SIZES, &low, &high));
    high = high < HIGH_LEAST ? HIGH_LEAST : high > HIGH ? HIGH : high;
    CLI_TRY(cli_u32(cli, OPT_RANKS, &ranks));
    if (ranks < 2 || ranks > 64)
        return say_usage("fit --measure: --ranks are 2 to 64");
    int crowded = ranks > (uint32_t)(cores > 0 ? cores : 1);
    CLI_TRY(read_crew(cli, !crowded, 1, &crew));
    struct measuring *m = need(calloc(1, sizeof *m));
    m->calling.cli = cli;
    m->calling.ranks = ranks;
    m->calling.crowded = crowded;
    m->calling.procs = crew.procs;
    set_sizes(m, high);
    int code = measure(m, shown);
    peal_fabric_destroy(m->calling.unit);
    free(m);
    return code;
}
