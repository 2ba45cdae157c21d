/* SPDX-License-Identifier: Apache-2.0 */
/* peal bench --all-pairs: each pair of ranks by itself, both ways, and what is slow among them. */
#include "bench_pairs.h"
#include "cli_json.h"

#include <stdlib.h>
#include <string.h>

#define RANKS_MAX 64u
#define SMALL 8u
#define LARGE (4u << 20)
#define PAIR_BUDGET_US 10000u
#define SLOW 1.5 /* times the median, or the best */
#define SLOW_ALWAYS 3
#define SLOW_AT_TIMES 12

struct pair {
    uint32_t from;
    uint32_t to;
    double small_us; /* the best of some bursts, */
    double large_gbs;
    double usual_us; /* and of all together */
    double usual_gbs;
    int slow;    /* bit 0 start-up, bit 1 bandwidth; bits 2 and 3: now and then */
    int code;    /* what came of measuring it */
    char via[8]; /* of launched ranks: how they are connected */
};

struct pairs {
    struct cli *cli;
    const struct crew *model;
    uint32_t ranks;
    uint32_t count;
    peal_world *world; /* of launched ranks, all of them; else NULL */
    struct pair *pair;
    double small_us; /* medians */
    double large_gbs;
};

/* ---- measuring */

static int make_pair_table(const struct pairs *p, const peal_fabric *fabric,
                           const struct pair *pair, peal_table **table)
{
    peal_request request = PEAL_REQUEST_INIT;
    struct action action = {.collective = PEAL_SENDRECV, .root = 0, .peer = 1};
    CLI_TRY(read_request(p->cli, &request));
    const uint32_t ends[2] = {request.group ? request.group[pair->from] : pair->from,
                              request.group ? request.group[pair->to] : pair->to};
    request.collective = PEAL_SENDRECV;
    request.group = ends;
    request.group_size = request.ranks = 2;
    request.min_bytes = SMALL;
    request.max_bytes = LARGE;
    request.private_buffers |= crew_private(p->model);
    return make_table(p->cli, fabric, &request, &action, NULL, 0, table);
}

static double gbs(double us)
{
    return us > 0 ? LARGE / (us * 1e3) : 0;
}

static int measure_pair(const struct pairs *p, const peal_fabric *fabric, struct pair *pair)
{
    const uint32_t group[2] = {pair->from, pair->to};
    peal_table *table = NULL;
    struct job jobs[2];
    struct result results[2] = {{0}, {0}};
    struct crew crew = *p->model;
    for (uint32_t i = 0; i < 2; i++)
        jobs[i] = (struct job){.action = {.collective = PEAL_SENDRECV, .root = 0, .peer = 1},
                               .count = i ? LARGE : SMALL,
                               .dtype = PEAL_UINT8,
                               .check = 1,
                               .warmup = 5,
                               .rounds = 5,
                               .calls = 1,
                               .budget_us = PAIR_BUDGET_US};
    CLI_TRY(make_pair_table(p, fabric, pair, &table));
    crew.table = table;
    crew.ranks = crew.njobs = 2;
    crew.jobs = jobs;
    crew.results = results;
    crew.places = crew.part = group;
    crew.within = p->world;
    int code = crew_run(&crew);
    peal_table_destroy(table);
    pair->small_us = results[0].best_us;
    pair->usual_us = results[0].mean_us;
    pair->large_gbs = gbs(results[1].best_us);
    pair->usual_gbs = gbs(results[1].mean_us);
    return code == EXIT_YES && (results[0].wrong || results[1].wrong) ? EXIT_NO : code;
}

/* ---- launched ranks: those of a pair make a world of their own, while the others wait */

static int join_all(struct pairs *p, const peal_fabric *fabric)
{
    peal_request request = PEAL_REQUEST_INIT;
    peal_join_params params = PEAL_JOIN_PARAMS_INIT;
    struct action action = {.collective = PEAL_BARRIER};
    peal_table *table = NULL;
    CLI_TRY(launch_fits(p->model->launch, p->ranks));
    CLI_TRY(read_request(p->cli, &request));
    request.collective = PEAL_BARRIER;
    request.ranks = p->ranks;
    request.min_bytes = request.max_bytes = 1;
    CLI_TRY(make_table(p->cli, fabric, &request, &action, NULL, 0, &table));
    params.timeout_ms = p->model->timeout_ms;
    int code = launch_join(p->cli, p->model->launch, table, &params, &p->world);
    peal_table_destroy(table);
    return code;
}

static void note_link(const struct pairs *p, struct pair *pair)
{
    peal_link_state link = {.size = sizeof link};
    if (peal_world_link(p->world, pair->to, &link) == PEAL_OK)
        (void)snprintf(pair->via, sizeof pair->via, "%s", link.transport);
}

/* All get what the pair's first rank has found. */
static int measure_launched(const struct pairs *p, const peal_fabric *fabric, struct pair *pair)
{
    peal_diag diag = PEAL_DIAG_INIT;
    uint32_t self = p->model->launch->rank;
    struct pair *all = need(calloc(p->ranks, sizeof *all));
    if (self == pair->from || self == pair->to) {
        pair->code = measure_pair(p, fabric, pair);
        note_link(p, pair);
    }
    int code = say_diag(peal_world_exchange(p->world, pair, sizeof *pair, all, &diag), &diag);
    if (code == EXIT_YES) {
        *pair = all[pair->from];
        code = pair->code ? pair->code : all[pair->to].code;
    }
    free(all);
    return code;
}

/* ---- judging */

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static double median(const struct pairs *p, int large)
{
    double *values = need(malloc((p->count + 1) * sizeof *values));
    for (uint32_t i = 0; i < p->count; i++)
        values[i] = large ? p->pair[i].large_gbs : p->pair[i].small_us;
    qsort(values, p->count, sizeof *values, by_value);
    double middle = values[p->count / 2];
    free(values);
    return middle;
}

static void judge(struct pairs *p)
{
    p->small_us = median(p, 0);
    p->large_gbs = median(p, 1);
    for (uint32_t i = 0; i < p->count; i++) {
        struct pair *pair = &p->pair[i];
        pair->slow = (pair->small_us > SLOW * p->small_us ? 1 : 0) |
                     (pair->large_gbs * SLOW < p->large_gbs ? 2 : 0) |
                     (pair->usual_us > SLOW * pair->small_us ? 4 : 0) |
                     (pair->usual_gbs * SLOW < pair->large_gbs ? 8 : 0);
    }
}

/* A rank is slow when most of its pairs are, and not most of all others'. */
static int is_slow(const struct pairs *p, uint32_t rank, int how)
{
    uint32_t slow = 0, of = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->pair[i].from != rank && p->pair[i].to != rank)
            continue;
        slow += (p->pair[i].slow & how) != 0;
        of++;
    }
    return p->ranks > 2 && 2 * slow > of;
}

/* ---- telling */

static void print_pairs(const struct pairs *p, FILE *file)
{
    fprintf(file, "# each pair by itself, %s; start-up of %u B, bandwidth of %u MiB\n",
            p->model->procs ? "processes" : "threads", SMALL, LARGE >> 20);
    fputs("#  from     to   start-up us    usual   GB/s  usual\n", file);
    for (uint32_t i = 0; i < p->count; i++) {
        const struct pair *pair = &p->pair[i];
        fprintf(file, "%7lu %6lu %13.2f %8.2f %6.2f %6.2f%s%s%s%s%s\n", (unsigned long)pair->from,
                (unsigned long)pair->to, pair->small_us, pair->usual_us, pair->large_gbs,
                pair->usual_gbs, pair->via[0] ? "  " : "", pair->via,
                pair->slow & 1 ? "  slow to start" : "", pair->slow & 2 ? "  narrow" : "",
                pair->slow & SLOW_AT_TIMES ? "  unsteady" : "");
    }
    fprintf(file, "# median %.2f us, %.2f GB/s\n", p->small_us, p->large_gbs);
    for (uint32_t r = 0; r < p->ranks; r++) {
        if (is_slow(p, r, SLOW_ALWAYS))
            fprintf(file, "# rank %lu is slow with most others\n", (unsigned long)r);
        else if (is_slow(p, r, SLOW_AT_TIMES))
            fprintf(file, "# rank %lu is slow now and then with most others\n", (unsigned long)r);
    }
}

static void json_ranks(const struct pairs *p, json_t *list, int how)
{
    for (uint32_t r = 0; r < p->ranks; r++)
        if (is_slow(p, r, how))
            json_count(json_item(list), "rank", r);
}

static void json_pairs(const struct pairs *p, const struct output *output)
{
    json_t *root = json_begin("peal.pairs/1");
    json_count(root, "ranks", p->ranks);
    json_text(root, "ranks_as", p->model->procs ? "processes" : "threads");
    json_number(root, "median_us", p->small_us);
    json_number(root, "median_gbs", p->large_gbs);
    json_t *list = json_list(root, "pairs");
    for (uint32_t i = 0; i < p->count; i++) {
        json_t *item = json_item(list);
        json_count(item, "from", p->pair[i].from);
        json_count(item, "to", p->pair[i].to);
        json_number(item, "startup_us", p->pair[i].small_us);
        json_number(item, "startup_usual_us", p->pair[i].usual_us);
        json_number(item, "gbs", p->pair[i].large_gbs);
        json_number(item, "gbs_usual", p->pair[i].usual_gbs);
        if (p->pair[i].via[0])
            json_text(item, "via", p->pair[i].via);
        json_flag(item, "slow_start", p->pair[i].slow & 1);
        json_flag(item, "narrow", p->pair[i].slow >> 1 & 1);
        json_flag(item, "unsteady", (p->pair[i].slow & SLOW_AT_TIMES) != 0);
    }
    json_ranks(p, json_list(root, "slow_ranks"), SLOW_ALWAYS);
    json_ranks(p, json_list(root, "unsteady_ranks"), SLOW_AT_TIMES);
    json_end(root, output);
}

/* ---- */

static int measure_all(struct pairs *p, const peal_fabric *fabric)
{
    if (p->model->launch->by != LAUNCH_NONE)
        CLI_TRY(join_all(p, fabric));
    for (uint32_t from = 0; from < p->ranks; from++)
        for (uint32_t to = 0; to < p->ranks; to++) {
            struct pair *pair = &p->pair[p->count];
            if (from == to)
                continue;
            memset(pair, 0, sizeof *pair);
            pair->from = from;
            pair->to = to;
            CLI_TRY(p->world ? measure_launched(p, fabric, pair) : measure_pair(p, fabric, pair));
            p->count++;
        }
    judge(p);
    return EXIT_YES;
}

int bench_pairs(struct cli *cli, const peal_fabric *fabric, const struct crew *model)
{
    struct pairs p = {.cli = cli, .model = model, .ranks = model->ranks};
    struct output output = {0};
    if (p.ranks < 2 || p.ranks > RANKS_MAX)
        return say_usage("--all-pairs takes 2 to %u ranks", RANKS_MAX);
    p.pair = need(calloc((size_t)p.ranks * p.ranks, sizeof *p.pair));
    int code = measure_all(&p, fabric);
    if (code == EXIT_YES)
        code = output_open(cli, &output);
    if (code == EXIT_YES) {
        if (cli_given(cli, OPT_JSON))
            json_pairs(&p, &output);
        else
            print_pairs(&p, output.file);
        code = output_close(&output, code);
    }
    peal_world_destroy(p.world);
    free(p.pair);
    return code;
}
