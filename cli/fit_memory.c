/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks do that share this machine's memory, as many of them as are asked for, whether each
 * has a core or several share one: allreduces by several algorithms, size by size, the algorithms
 * by turns and more than once, so that what else the machine does meets all alike; of each the
 * least time. A virtual machine's cores are at one time near each other and at another far apart,
 * so a flag is sent there and back before each run: those count in which it took about as long as
 * it did in most. A schedule takes an entry, a start-up for each of its steps, and what its ranks
 * copy at the rate of that size. Steps and copies are those that the planner counts, on a machine
 * of unit costs; entry and start-up are the line through the times of the smallest message, rates
 * follow from the others.
 */
#include "fit_input.h"
#include "run_options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TURNS 6u
#define TURNS_FEW 2u /* of small sizes alone: a look, not a measurement */
#define FEW_BYTES (64u << 10)
#define BUDGET_US 12000u
#define ALIKE 1.5 /* flags that differ by less are of one state of the machine */
/* Calls of processes stage their messages in places that take turns: until these have all been used
 * once, a call waits for pages. */
#define PLACES_BYTES (32u << 20)
#define WARM_MOST 2048u
#define LOW 64u
#define HIGH (64u << 20)
#define HIGH_LEAST 4096u
#define STEP 4u
#define FINE_LOW (256u << 10) /* caches end between these: steps of 2 */
#define FINE_HIGH (16u << 20)
#define SIZES 16u
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
    struct cli *cli;
    uint32_t ranks;
    peal_fabric *unit;
    uint32_t sizes;
    uint64_t size[SIZES];
    int crowded; /* more ranks than cores: no flag tells anything */
    double run[ALGORITHMS][TURNS][SIZES];
    double flag[ALGORITHMS][TURNS];   /* before the run */
    uint32_t runs, alike;             /* of these so many in one state, */
    double flag_us;                   /* in which a flag takes so long; 0: not looked at */
    double other_us;                  /* the middle one of the others */
    double us[ALGORITHMS][SIZES];     /* measured; 0: not served */
    double steps[ALGORITHMS][SIZES];  /* start-ups */
    double copies[ALGORITHMS][SIZES]; /* us at 1e9 bytes a second */
    double alpha_us, entry_us;
    peal_memory_rate rate[PEAL_MEMORY_USE_COUNT * SIZES];
    uint32_t rates;
};

/* ---- a machine of unit costs */

static int make_unit(struct measuring *m)
{
    char text[512];
    peal_diag diag = PEAL_DIAG_INIT;
    int length = snprintf(text, sizeof text,
                          "<peal version=\"1\"><host ranks=\"%lu\"/><cost link=\"shm\" "
                          "alpha-us=\"1\" gap-us=\"0\" beta-gbs=\"1000\"/><memory>"
                          "<rate use=\"load\" bytes=\"1\" gbs=\"1\"/>"
                          "<rate use=\"store\" bytes=\"1\" gbs=\"1\"/>"
                          "<rate use=\"exchange\" bytes=\"1\" gbs=\"1\"/></memory></peal>",
                          (unsigned long)m->ranks);
    return say_diag(
        peal_fabric_parse(m->cli->ctx, text, (size_t)length, "unit costs", NULL, &diag, &m->unit),
        &diag);
}

/* NULL: the algorithm does not serve so many ranks. */
static int make_plan(struct measuring *m, uint32_t which, peal_table **table)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_request request = PEAL_REQUEST_INIT;
    request.algorithm = algorithms[which];
    request.min_bytes = LOW;
    request.max_bytes = m->size[m->sizes - 1];
    peal_status status = peal_table_plan(m->cli->ctx, m->unit, &request, &diag, table);
    if (status == PEAL_ERR_UNSUPPORTED) {
        *table = NULL;
        return EXIT_YES;
    }
    CLI_TRY(say_diag(status, &diag));
    for (uint32_t s = 0; s < m->sizes; s++) {
        peal_row_info row = {.size = sizeof row};
        if (peal_table_best(*table, NULL, m->size[s], &row) != PEAL_OK)
            continue;
        m->steps[which][s] = row.alpha_us;
        m->copies[which][s] = row.time_us - row.alpha_us;
    }
    return compile_table(m->unit, *table);
}

/* ---- measuring */

/* Threads stage nothing. */
static uint32_t warm_calls(const struct measuring *m, uint64_t bytes)
{
    uint64_t calls = m->crowded || m->size[m->sizes - 1] <= FEW_BYTES ? 2 : PLACES_BYTES / bytes;
    return (uint32_t)(calls < 2 ? 2 : calls < WARM_MOST ? calls : WARM_MOST);
}

static int run_plan(struct measuring *m, uint32_t which, uint32_t turn, peal_table *table)
{
    struct job jobs[SIZES];
    struct result results[SIZES] = {{.done = 0}};
    struct crew crew = {.table = table, .ranks = m->ranks, .what = "peal fit: sizes"};
    CLI_TRY(read_crew(m->cli, !m->crowded, &crew));
    if (!m->crowded)
        CLI_TRY(measure_flag(&m->flag[which][turn]));
    for (uint32_t s = 0; s < m->sizes && m->copies[which][s] > 0; s++)
        jobs[crew.njobs++] = (struct job){.action = {.collective = PEAL_ALLREDUCE},
                                          .count = m->size[s] / 4,
                                          .dtype = PEAL_FLOAT32,
                                          .op = PEAL_SUM,
                                          .warmup = warm_calls(m, m->size[s]),
                                          .rounds = job_bursts(m->size[s]),
                                          .calls = 1,
                                          .budget_us = BUDGET_US};
    crew.jobs = jobs;
    crew.results = results;
    CLI_TRY(crew_run(&crew));
    for (uint32_t s = 0; s < crew.njobs; s++)
        m->run[which][turn][s] = results[s].best_us;
    return EXIT_YES;
}

static int measure_all(struct measuring *m)
{
    peal_table *table[ALGORITHMS] = {NULL};
    int code = EXIT_YES;
    for (uint32_t a = 0; a < ALGORITHMS && code == EXIT_YES; a++)
        code = make_plan(m, a, &table[a]);
    uint32_t turns = m->size[m->sizes - 1] > FEW_BYTES ? TURNS : TURNS_FEW;
    for (uint32_t turn = 0; turn < turns; turn++)
        for (uint32_t a = 0; a < ALGORITHMS && code == EXIT_YES; a++)
            if (table[a])
                code = run_plan(m, a, turn, table[a]);
    for (uint32_t a = 0; a < ALGORITHMS; a++)
        peal_table_destroy(table[a]);
    return code;
}

/* ---- which runs count */

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The state in which most runs were made. */
static void find_state(struct measuring *m)
{
    double flag[ALGORITHMS * TURNS];
    for (uint32_t a = 0; a < ALGORITHMS; a++)
        for (uint32_t t = 0; t < TURNS; t++)
            if (m->flag[a][t] > 0)
                flag[m->runs++] = m->flag[a][t];
    qsort(flag, m->runs, sizeof *flag, by_value);
    for (uint32_t first = 0, last = 0; first < m->runs; first++) {
        while (last < m->runs && flag[last] <= ALIKE * flag[first])
            last++;
        if (last - first <= m->alike)
            continue;
        m->alike = last - first;
        m->flag_us = flag[first + m->alike / 2];
        uint32_t above = m->runs - last;
        m->other_us = first > above ? flag[first / 2] : above ? flag[last + above / 2] : 0;
    }
}

/* Of each algorithm and size the least time in that state, or, if it never met it, of all. */
static void take_least(struct measuring *m, uint32_t which, uint32_t size)
{
    double least[2] = {0, 0};
    for (uint32_t t = 0; t < TURNS; t++) {
        double us = m->run[which][t][size], flag = m->flag[which][t];
        int like = flag <= ALIKE * m->flag_us && flag >= m->flag_us / ALIKE;
        for (int all = 0; all < 2; all++)
            if (us > 0 && (all || like) && (!(least[all] > 0) || us < least[all]))
                least[all] = us;
    }
    m->us[which][size] = least[0] > 0 ? least[0] : least[1];
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

static void show_state(const struct measuring *m, FILE *file)
{
    char text[NUMBER_TEXT];
    if (!m->runs)
        return;
    fprintf(file, "a flag goes there and back in %s us", real_text(m->flag_us, text));
    if (m->alike < m->runs)
        fprintf(file, " in %lu of %lu runs, which count; in the others it took %s us",
                (unsigned long)m->alike, (unsigned long)m->runs, real_text(m->other_us, text));
    fputc('\n', file);
}

static void show_memory(const struct measuring *m, FILE *file)
{
    char text[NUMBER_TEXT], size[NUMBER_TEXT];
    show_state(m, file);
    fprintf(file, "memory, %lu ranks: a call takes %s us", (unsigned long)m->ranks,
            real_text(m->entry_us, text));
    fprintf(file, " and %s us a step; a rank copies, GB/s\n", real_text(m->alpha_us, text));
    for (uint32_t i = 0; i < m->rates; i++)
        fprintf(file, "  %-8s %8s  %s\n", uses[m->rate[i].use], size_text(m->rate[i].bytes, size),
                real_text(m->rate[i].gbs, text));
    fputc('\n', file);
}

static int measure(struct measuring *m, FILE *shown)
{
    peal_diag diag = PEAL_DIAG_INIT;
    struct output output;
    CLI_TRY(make_unit(m));
    CLI_TRY(measure_all(m));
    find_state(m);
    for (uint32_t a = 0; a < ALGORITHMS; a++)
        for (uint32_t s = 0; s < m->sizes; s++)
            take_least(m, a, s);
    fit_latency(m);
    for (int use = 0; use < PEAL_MEMORY_USE_COUNT; use++)
        add_rates(m, (peal_memory_use)use);
    if (shown)
        show_memory(m, shown);
    CLI_TRY(output_open(m->cli, &output));
    peal_status status = peal_memory_write(m->cli->ctx, m->ranks, m->alpha_us, m->entry_us, m->rate,
                                           m->rates, output_write, &output, &diag);
    return output_close(&output, say_diag(status, &diag));
}

int measure_memory(struct cli *cli, FILE *shown)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t ranks = cores > 2 ? (uint32_t)cores : 2;
    uint64_t low = 0, high = HIGH;
    CLI_TRY(cli_range(cli, OPT_SIZES, &low, &high));
    high = high < HIGH_LEAST ? HIGH_LEAST : high > HIGH ? HIGH : high;
    CLI_TRY(cli_u32(cli, OPT_RANKS, &ranks));
    if (ranks < 2 || ranks > 64)
        return say_usage("fit --measure: --ranks are 2 to 64");
    struct measuring *m = need(calloc(1, sizeof *m));
    m->cli = cli;
    m->ranks = ranks;
    m->crowded = ranks > (uint32_t)(cores > 0 ? cores : 1);
    for (uint64_t bytes = LOW; bytes <= high && m->sizes < SIZES;
         bytes *= bytes >= FINE_LOW && bytes < FINE_HIGH ? 2 : STEP)
        m->size[m->sizes++] = bytes;
    int code = measure(m, shown);
    peal_fabric_destroy(m->unit);
    free(m);
    return code;
}
