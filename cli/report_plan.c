/* SPDX-License-Identifier: Apache-2.0 */
/* One plan, simulated: who does what when, what each link carries, what the time is due to. */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_RUN 256u /* more are not simulated for a report */
#define LANES 2u       /* of a rank, shown */
#define TRACKS 24u     /* shown */
#define TRACKS_DUE 16u /* of them, at most, those of the critical path */
#define EVENTS_KEPT (1u << 20)
#define WIDTH 1080.0
#define LEFT 92.0
#define RIGHT 18.0
#define ROW 18.0
#define TOP 26.0
#define CELLS 768u
#define LINKS_SHOWN 10u
#define CRITICAL_SHOWN 14u

struct track {
    uint32_t rank;
    uint32_t lane;
    int engine; /* -1: the lane itself */
    double drawn_to;
};

struct run {
    struct report *report;
    struct action action;
    uint64_t bytes;
    peal_table *table;
    peal_row_info row;
    peal_sim *sim;
    peal_sim_info info;
    struct track track[TRACKS];
    uint32_t tracks, more;
};

/* ---- the timeline */

static struct track *track_of(struct run *run, const peal_sim_event *event)
{
    int engine = strcmp(event->kind, "transfer") == 0 ? (int)event->engine : -1;
    for (uint32_t i = 0; i < run->tracks; i++)
        if (run->track[i].rank == event->rank && run->track[i].engine == engine &&
            run->track[i].lane == event->lane)
            return &run->track[i];
    return NULL;
}

static int by_rank(const void *a, const void *b)
{
    const struct track *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    return x->engine - y->engine;
}

static void add_track(struct run *run, const peal_sim_event *event, uint32_t most)
{
    if (track_of(run, event))
        return;
    if (run->tracks >= most) {
        run->more = 1;
        return;
    }
    run->track[run->tracks++] =
        (struct track){event->rank, event->lane,
                       strcmp(event->kind, "transfer") == 0 ? (int)event->engine : -1, 0};
}

/* What the time is due to, and while there is room the first lanes of ranks and what other engines
 * do for them; ranks in order. */
static void find_tracks(struct run *run)
{
    peal_sim_event event = {.size = sizeof event};
    for (uint32_t i = 0; peal_sim_critical(run->sim, i, &event) == PEAL_OK; i++)
        add_track(run, &event, TRACKS_DUE);
    for (uint32_t i = 0;
         (run->tracks < TRACKS || !run->more) && peal_sim_event_get(run->sim, i, &event) == PEAL_OK;
         i++)
        if (event.lane < LANES)
            add_track(run, &event, TRACKS);
    qsort(run->track, run->tracks, sizeof run->track[0], by_rank);
}

static double at(const struct run *run, double us)
{
    return LEFT + us / (run->info.time_us > 0 ? run->info.time_us : 1) * (WIDTH - LEFT - RIGHT);
}

static int is_flag(const peal_sim_event *event)
{
    return strcmp(event->kind, "signal") == 0;
}

/* What is too short to be seen, and begins where something was drawn already, is left out. A signal
 * is under way while its lane goes on, so it is a thin line below. */
static void put_event(struct run *run, const peal_sim_event *event)
{
    struct track *track = track_of(run, event);
    char text[NUMBER_TEXT], size[NUMBER_TEXT];
    if (!track)
        return;
    double from = at(run, event->start_us), to = at(run, event->end_us);
    double y = TOP + (double)(track - run->track) * ROW + (is_flag(event) ? ROW - 4 : 2);
    if (to < track->drawn_to + 0.4)
        return;
    from = from < track->drawn_to ? track->drawn_to : from;
    to = to < from + 0.5 ? from + 0.5 : to;
    track->drawn_to = to;
    fprintf(run->report->file,
            "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>",
            event->kind, from, y, to - from, is_flag(event) ? 2.5 : ROW - 7);
    page_text(run->report->file, event->text);
    fprintf(run->report->file, "\n%s", size_text(event->bytes, size));
    fprintf(run->report->file, " bytes, from %s", page_time(event->start_us, text));
    fprintf(run->report->file, " to %s</title></rect>\n", page_time(event->end_us, text));
}

static void put_events(struct run *run, int flags)
{
    peal_sim_event event = {.size = sizeof event};
    for (uint32_t i = 0; i < run->tracks; i++)
        run->track[i].drawn_to = 0;
    for (uint32_t i = 0; i < EVENTS_KEPT && peal_sim_event_get(run->sim, i, &event) == PEAL_OK; i++)
        if (is_flag(&event) == flags)
            put_event(run, &event);
}

static void put_scale(const struct run *run, double bottom)
{
    FILE *file = run->report->file;
    char text[NUMBER_TEXT];
    for (int i = 0; i <= 8; i++) {
        double us = run->info.time_us * i / 8, x = at(run, us);
        fprintf(file,
                "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                "<text class=\"s %s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
                x, x, TOP - 4, bottom, i == 8 ? "e" : "m", i == 8 ? x + RIGHT - 2 : x, TOP - 10,
                page_time(us, text));
    }
}

static void put_track_name(const struct run *run, uint32_t row)
{
    const struct track *track = &run->track[row];
    fprintf(run->report->file, "<text class=\"e s\" x=\"%.1f\" y=\"%.1f\">rank %lu, ", LEFT - 6,
            TOP + row * ROW + 13, (unsigned long)track->rank);
    if (track->engine < 0)
        fprintf(run->report->file, "lane %lu</text>\n", (unsigned long)track->lane);
    else
        fprintf(run->report->file, "%s</text>\n", peal_engine_name((peal_engine)track->engine));
}

static void put_timeline(struct run *run)
{
    FILE *file = run->report->file;
    find_tracks(run);
    double bottom = TOP + run->tracks * ROW;
    fputs("<h3>Timeline</h3>\n<figure>", file);
    page_svg(file, WIDTH, bottom + 8, 1400, "timeline of the plan: a row for each lane and engine");
    put_scale(run, bottom);
    for (uint32_t i = 0; i < run->tracks; i++)
        put_track_name(run, i);
    put_events(run, 0);
    put_events(run, 1);
    fprintf(
        file,
        "</svg>\n<ul class=\"key\"><li><i style=\"color:var(--s0)\"></i>moved or reduced by the "
        "lane</li><li><i style=\"color:var(--s1)\"></i>carried by another engine</li><li><i "
        "style=\"color:var(--s4)\"></i>signal, until it is there</li><li><i "
        "style=\"color:var(--line)\"></i>wait"
        "</li></ul><figcaption>%s</figcaption></figure>\n",
        run->more ? "What the time is due to, and the first lanes of some ranks."
                  : "The first lanes of each rank, and what other engines carry for them.");
}

/* ---- links */

static void put_cell(FILE *file, const peal_sim_link *link, uint32_t index, uint32_t columns)
{
    double x = index % columns * 22.0 + 4, y = index / columns * 22.0 + 4;
    fprintf(file,
            "<rect x=\"%.0f\" y=\"%.0f\" width=\"20\" height=\"20\" rx=\"3\" "
            "style=\"fill:var(--hot);fill-opacity:%.2f;stroke:var(--line)\"><title>",
            x, y, 0.06 + 0.94 * (link->share < 1 ? link->share : 1));
    page_text(file, link->resource);
    fprintf(file, ": %.0f %%</title></rect>\n", 100 * link->share);
}

/* Every link that carried anything, the busiest first, by how much of its rate was used. */
static void put_heat(const struct run *run)
{
    FILE *file = run->report->file;
    uint32_t count = run->info.links < CELLS ? run->info.links : CELLS,
             columns = count < 48 ? count : 48;
    peal_sim_link link = {.size = sizeof link};
    fputs("<h3>Links</h3>\n<figure>", file);
    page_svg(file, columns * 22.0 + 8, ((count + columns - 1) / columns) * 22.0 + 8, 1080,
             "use of each link");
    for (uint32_t i = 0; i < count && peal_sim_link_get(run->sim, i, &link) == PEAL_OK; i++)
        put_cell(file, &link, i, columns);
    fprintf(file,
            "</svg>\n<figcaption>A square for each of %s%lu directions of links that carry "
            "anything, the busiest first: the deeper the red, the more of its rate is used over "
            "the whole time.</figcaption></figure>\n",
            count < run->info.links ? "the first " : "", (unsigned long)count);
}

static void put_links(const struct run *run)
{
    FILE *file = run->report->file;
    char text[NUMBER_TEXT];
    peal_sim_link link = {.size = sizeof link};
    fputs("<div class=\"scroll\"><table><tr><th>busiest links</th><th class=\"n\">GB/s</th><th "
          "class=\"n\">carried</th><th class=\"n\">busy</th><th class=\"n\">used</th><th "
          "style=\"width:30%\"></th></tr>\n",
          file);
    for (uint32_t i = 0; i < LINKS_SHOWN && peal_sim_link_get(run->sim, i, &link) == PEAL_OK; i++) {
        fputs("<tr><td>", file);
        page_text(file, link.resource);
        fprintf(file, "</td><td class=\"n\">%s</td>", real_text(link.beta_gbs, text));
        fprintf(file, "<td class=\"n\">%s MB</td>", real_text(link.bytes / 1e6, text));
        fprintf(file, "<td class=\"n\">%s</td><td class=\"n\">%.0f %%</td>",
                page_time(link.busy_us, text), 100 * link.share);
        fprintf(file,
                "<td><div style=\"background:var(--hot);height:.6em;border-radius:3px;"
                "width:%.0f%%\"></div></td></tr>\n",
                100 * (link.share < 1 ? link.share : 1));
    }
    fputs("</table></div>\n", file);
}

/* ---- the critical path */

static void put_critical(const struct run *run)
{
    FILE *file = run->report->file;
    char text[NUMBER_TEXT];
    peal_sim_event event = {.size = sizeof event};
    fprintf(file,
            "<h3>Critical path</h3>\n<p>%lu steps that the time is due to, one after the other%s."
            "</p><div class=\"scroll\"><table><tr><th class=\"n\">until</th><th class=\"n\">adds"
            "</th><th class=\"n\">rank</th><th>kind</th><th>step</th></tr>\n",
            (unsigned long)run->info.critical,
            run->info.critical > CRITICAL_SHOWN ? "; the first of them" : "");
    for (uint32_t i = 0; i < CRITICAL_SHOWN && peal_sim_critical(run->sim, i, &event) == PEAL_OK;
         i++) {
        fprintf(file, "<tr><td class=\"n\">%s</td>", page_time(event.end_us, text));
        fprintf(file, "<td class=\"n\">%s</td><td class=\"n\">%lu</td><td>%s</td><td><code>",
                page_time(event.own_us, text), (unsigned long)event.rank, event.kind);
        page_text(file, event.text);
        fputs("</code></td></tr>\n", file);
    }
    fputs("</table></div>\n", file);
}

/* ---- */

static void put_run(struct run *run)
{
    FILE *file = run->report->file;
    char size[NUMBER_TEXT], text[NUMBER_TEXT], action[ACTION_TEXT];
    fprintf(file, "<p><b>%s of %s by %lu ranks</b>: %s, ", action_text(&run->action, action),
            size_text(run->info.bytes, size), (unsigned long)run->report->ranks,
            run->row.algorithm);
    page_text(file, run->row.detail);
    fprintf(file, ". Proven, then simulated flow by flow: %s", page_time(run->info.time_us, text));
    if (run->info.model_us > 0)
        fprintf(file, "; the closed form says %s", page_time(run->info.model_us, text));
    fputs(".</p>\n", file);
    put_timeline(run);
    put_heat(run);
    put_links(run);
    put_critical(run);
}

static int simulate(struct run *run)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_sim_params params = PEAL_SIM_PARAMS_INIT;
    struct cli *cli = run->report->cli;
    peal_request request = PEAL_REQUEST_INIT;
    CLI_TRY(read_request(cli, &request));
    request.min_bytes = request.max_bytes = run->bytes;
    request.ranks = run->report->ranks;
    CLI_TRY(make_table(cli, run->report->fabric, &request, &run->action, NULL, 0, &run->table));
    run->row.size = sizeof run->row;
    CLI_TRY(say_diag(peal_table_row(run->table, 0, &run->row), NULL));
    params.bytes = run->bytes;
    params.keep = 1;
    CLI_TRY(say_diag(
        peal_simulate(cli->ctx, run->report->fabric, run->table, 0, &params, &diag, &run->sim),
        &diag));
    run->info.size = sizeof run->info;
    return say_diag(peal_sim_get(run->sim, &run->info), NULL);
}

static int first_action(const struct report *r, struct action *action)
{
    struct choice choice;
    CLI_TRY(read_choice(r->cli, 0, &choice));
    struct actions *actions = need(calloc(1, sizeof *actions));
    int code = choose_all(&choice, r->ranks, 0, actions);
    *action = actions->list[0];
    free(actions);
    return code;
}

int report_plan(struct report *r)
{
    uint64_t bytes = 1u << 20;
    CLI_TRY(cli_size(r->cli, OPT_AT, &bytes));
    if (bytes == 0)
        return say_usage("--at 0: there is no message of no bytes");
    page_heading(r->file, "plan", "One plan");
    if (r->ranks > RANKS_RUN) {
        fprintf(r->file,
                "<p class=\"muted\">Not simulated: %lu ranks are more than %u; with --ranks, a "
                "part of the machine is.</p>\n",
                (unsigned long)r->ranks, RANKS_RUN);
        return EXIT_YES;
    }
    struct run *run = need(calloc(1, sizeof *run));
    run->report = r;
    run->bytes = bytes;
    int code = first_action(r, &run->action);
    if (code == EXIT_YES)
        code = simulate(run);
    if (code == EXIT_YES)
        put_run(run);
    peal_sim_destroy(run->sim);
    peal_table_destroy(run->table);
    free(run);
    return code;
}
