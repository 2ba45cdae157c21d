/* SPDX-License-Identifier: Apache-2.0 */
/* What is chosen for each collective and size: curves of all algorithms, and the table. */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ALGORITHMS_MAX 32u
#define TALLER 30.0 /* curves so much slower than the choice are not drawn */

struct family { /* of one collective */
    struct report *report;
    struct action action;
    peal_table *table;
    uint64_t low, high;
    uint32_t count;
    struct curve time[ALGORITHMS_MAX];
    struct curve chosen, bound, bus, bus_bound;
    char style[ALGORITHMS_MAX][16];
    double slowest, fastest, widest;
};

static const peal_collective usual[] = {PEAL_ALLREDUCE, PEAL_REDUCE_SCATTER, PEAL_ALLGATHER,
                                        PEAL_BROADCAST, PEAL_ALLTOALL};

static void add_point(struct curve *curve, uint64_t bytes, double y)
{
    if (curve->count == CHART_POINTS || !(y > 0))
        return;
    curve->x[curve->count] = log2((double)bytes);
    curve->y[curve->count++] = y;
}

/* ---- gathering */

static void add_size(struct family *f, uint64_t bytes)
{
    peal_row_info row = {.size = sizeof row};
    if (peal_table_best(f->table, NULL, bytes, &row) != PEAL_OK)
        return;
    double factor = row.algbw_gbs > 0 ? row.busbw_gbs / row.algbw_gbs : 1;
    add_point(&f->chosen, bytes, row.time_us);
    add_point(&f->bus, bytes, row.busbw_gbs);
    add_point(&f->bound, bytes, row.bound_us);
    if (row.bound_us > 0)
        add_point(&f->bus_bound, bytes, (double)bytes / (row.bound_us * 1e3) * factor);
    f->slowest = row.time_us > f->slowest ? row.time_us : f->slowest;
    if (row.bound_us > 0 && (f->fastest <= 0 || row.bound_us < f->fastest))
        f->fastest = row.bound_us;
    if (f->fastest <= 0 || row.time_us < f->fastest)
        f->fastest = row.time_us;
    f->widest = row.busbw_gbs > f->widest ? row.busbw_gbs : f->widest;
    for (uint32_t i = 0; i < f->count; i++)
        if (peal_table_best(f->table, f->time[i].name, bytes, &row) == PEAL_OK)
            add_point(&f->time[i], bytes, row.time_us);
}

static void gather(struct family *f)
{
    for (uint32_t i = 0; algorithm_word(i) && f->count < ALGORITHMS_MAX; i++) {
        (void)snprintf(f->style[i], sizeof f->style[0], "curve c%lu", (unsigned long)i % COLOURS);
        f->time[f->count] = (struct curve){.style = f->style[i], .name = algorithm_word(i)};
        f->count++;
    }
    f->chosen = (struct curve){.style = "choice", .name = "chosen"};
    f->bus = f->chosen;
    f->bound = (struct curve){.style = "bound", .name = "lower bound"};
    f->bus_bound = f->bound;
    for (uint64_t bytes = f->low; bytes <= f->high; bytes *= 2)
        add_size(f, bytes);
    for (uint32_t i = 0; i < f->bus_bound.count; i++)
        if (f->bus_bound.y[i] > f->widest)
            f->widest = f->bus_bound.y[i];
}

/* ---- drawing */

static uint32_t colour_of(const char *algorithm)
{
    for (uint32_t i = 0; algorithm_word(i); i++)
        if (strcmp(algorithm_word(i), algorithm) == 0)
            return i % COLOURS;
    return 0;
}

static void draw_strips(const struct family *f, const struct chart *chart)
{
    peal_table_info info = {.size = sizeof info};
    peal_row_info row = {.size = sizeof row};
    char style[16];
    if (peal_table_get(f->table, &info) != PEAL_OK)
        return;
    for (uint32_t i = 0; i < info.rows && peal_table_row(f->table, i, &row) == PEAL_OK; i++) {
        double from = log2((double)row.min_bytes), to = log2((double)row.max_bytes + 1);
        from = from < chart->x_low ? chart->x_low : from;
        to = to > chart->x_high ? chart->x_high : to;
        (void)snprintf(style, sizeof style, "f%lu", (unsigned long)colour_of(row.algorithm));
        chart_strip(f->report->file, chart, from, to, style, row.algorithm);
    }
}

static void draw_times(const struct family *f)
{
    FILE *file = f->report->file;
    struct chart chart = {.title = "time by size, all algorithms",
                          .label = "log scale",
                          .log_y = 1,
                          .x_low = log2((double)f->low),
                          .x_high = log2((double)f->high)};
    chart.y_low = pow(10, floor(log10(f->fastest > 0 ? f->fastest * 0.99 : 1)));
    chart.y_high = pow(10, ceil(log10(f->slowest * TALLER)));
    chart_begin(file, &chart);
    for (uint32_t i = 0; i < f->count; i++)
        chart_curve(file, &chart, &f->time[i]);
    chart_curve(file, &chart, &f->chosen);
    chart_curve(file, &chart, &f->bound);
    draw_strips(f, &chart);
    chart_end(file);
}

static void draw_bandwidth(const struct family *f)
{
    FILE *file = f->report->file;
    struct chart chart = {.title = "bus bandwidth of the choice",
                          .label = "GB/s",
                          .x_low = log2((double)f->low),
                          .x_high = log2((double)f->high),
                          .y_high = f->widest > 0 ? f->widest * 1.08 : 1};
    chart_begin(file, &chart);
    chart_curve(file, &chart, &f->bus_bound);
    chart_curve(file, &chart, &f->bus);
    draw_strips(f, &chart);
    chart_end(file);
}

static void put_key(const struct family *f)
{
    FILE *file = f->report->file;
    fputs("<ul class=\"key\"><li><i style=\"color:var(--fg)\"></i>chosen</li>"
          "<li><i style=\"color:var(--hot)\"></i>lower bound</li>",
          file);
    for (uint32_t i = 0; i < f->count; i++)
        if (f->time[i].count)
            fprintf(file, "<li><i class=\"k%lu\"></i>%s</li>",
                    (unsigned long)colour_of(f->time[i].name), f->time[i].name);
    fputs("</ul>\n", file);
}

/* ---- the table */

static void put_row(FILE *file, const peal_row_info *row)
{
    char low[NUMBER_TEXT], high[NUMBER_TEXT], text[NUMBER_TEXT];
    fprintf(
        file,
        "<tr><td class=\"n\">%s</td><td class=\"n\">%s</td><td class=\"w\"><span class=\"k%lu\">"
        "&#9632;</span> %s</td><td>",
        page_size((double)row->min_bytes, low), page_size((double)row->max_bytes, high),
        (unsigned long)colour_of(row->algorithm), row->algorithm);
    page_text(file, row->detail);
    if (row->tile_bytes)
        fprintf(file, ", tiles of %s", size_text(row->tile_bytes, text));
    fprintf(file, "</td><td class=\"n\">%s</td>", page_time(row->time_us, text));
    fprintf(file, "<td class=\"n\">%s</td>", real_text(row->busbw_gbs, text));
    if (row->bound_us > 0)
        fprintf(file, "<td class=\"n\">%.2f</td><td>", row->time_us / row->bound_us);
    else
        fputs("<td class=\"n\">-</td><td>", file);
    page_text(file, row->binding);
    fputs("</td></tr>\n", file);
}

static void put_table(const struct family *f)
{
    FILE *file = f->report->file;
    peal_table_info info = {.size = sizeof info};
    peal_row_info row = {.size = sizeof row};
    fputs("<div class=\"scroll\"><table><tr><th class=\"n\">from</th><th class=\"n\">to</th>"
          "<th>algorithm</th><th>how</th><th class=\"n\">time at the end</th><th class=\"n\">bus "
          "GB/s</th><th class=\"n\">x bound</th><th>limited by</th></tr>\n",
          file);
    if (peal_table_get(f->table, &info) == PEAL_OK)
        for (uint32_t i = 0; i < info.rows && peal_table_row(f->table, i, &row) == PEAL_OK; i++)
            put_row(file, &row);
    fputs("</table></div>\n", file);
}

static void put_family(struct family *f)
{
    FILE *file = f->report->file;
    char text[ACTION_TEXT];
    gather(f);
    fprintf(file, "<h3 id=\"%s\">%s, %lu ranks</h3>\n", peal_collective_name(f->action.collective),
            action_text(&f->action, text), (unsigned long)f->report->ranks);
    fputs("<div class=\"pair\"><figure>", file);
    draw_times(f);
    put_key(f);
    fputs("</figure><figure>", file);
    draw_bandwidth(f);
    fputs("<figcaption>Dotted: crossovers, below them the algorithm in its colour. Dashed: what no "
          "schedule exceeds here.</figcaption></figure></div>\n",
          file);
    put_table(f);
}

static int put_collective(struct report *r, const peal_request *request,
                          const struct action *action, int may_skip)
{
    int skip = 0;
    struct family *f = need(calloc(1, sizeof *f));
    f->report = r;
    f->action = *action;
    f->low = request->min_bytes;
    f->high = request->max_bytes;
    int code =
        plan_table(r->cli, r->fabric, request, action, may_skip ? &skip : NULL, 0, &f->table);
    if (code == EXIT_YES && f->table)
        put_family(f);
    peal_table_destroy(f->table);
    free(f);
    return code;
}

int report_choices(struct report *r)
{
    struct choice choice;
    peal_request request = PEAL_REQUEST_INIT;
    request.min_bytes = 8;
    request.max_bytes = 1ull << 30;
    CLI_TRY(read_request(r->cli, &request));
    CLI_TRY(read_choice(r->cli, 0, &choice));
    request.ranks = r->ranks;
    if (!choice.has_collective && !r->asked_only)
        for (choice.collectives = 0; choice.collectives < COUNT_OF(usual); choice.collectives++)
            choice.collective[choice.collectives] = usual[choice.collectives];
    struct actions *actions = need(calloc(1, sizeof *actions));
    page_heading(r->file, "choices", "What is chosen");
    int code = choose_all(&choice, r->ranks, 0, actions);
    for (uint32_t i = 0; i < actions->count && code == EXIT_YES; i++)
        if (actions->list[i].collective != PEAL_BARRIER)
            code = put_collective(r, &request, &actions->list[i],
                                  choice.all || (!choice.has_collective && !r->asked_only));
    free(actions);
    return code;
}
