/* SPDX-License-Identifier: Apache-2.0 */
/* peal sim: one call of a plan, simulated on a topology. */
#include "cli_json.h"
#include "sim.h"

#include <stdlib.h>

#define DEAD_FACTOR 1e5
#define LINKS_SHOWN 24u
#define STEPS_SHOWN 16u
#define NAMES_SHOWN 3u
#define NAMES_TEXT 192u

/* ---- text */

/* No part that is left of a link makes so much of a difference. */
static int dead(const struct sim_case *c)
{
    return c->healthy_us > 0 && c->info.time_us > DEAD_FACTOR * c->healthy_us;
}

/* The first step that hangs. */
static int stuck(const struct sim_case *c, peal_sim_event *event)
{
    event->size = sizeof *event;
    for (uint32_t i = 0; peal_sim_critical(c->sim, i, event) == PEAL_OK; i++)
        if (event->own_us > c->healthy_us)
            return 1;
    return 0;
}

static void print_dead(const struct sim_case *c, FILE *file)
{
    char text[NUMBER_TEXT];
    peal_sim_event event;
    fprintf(file, "  simulated  never ends: it crosses a dead link\n  healthy    %s us\n",
            real_text(c->healthy_us, text));
    if (stuck(c, &event))
        fprintf(file, "  stuck      rank %lu, lane %lu: %s\n", (unsigned long)event.rank,
                (unsigned long)event.lane, event.text);
}

static void print_times(const struct sim_case *c, FILE *file)
{
    char text[NUMBER_TEXT], action[ACTION_TEXT];
    fprintf(file, "%s of %s by %lu ranks: %s, %s\n", action_text(&c->action, action),
            size_text(c->info.bytes, text), (unsigned long)c->ranks, c->row.algorithm,
            c->row.detail);
    if (dead(c)) {
        print_dead(c, file);
        return;
    }
    fprintf(file, "  simulated  %s us\n", real_text(c->info.time_us, text));
    if (c->info.model_us > 0) {
        fprintf(file, "  predicted  %s us", real_text(c->info.model_us, text));
        fprintf(file, " (%+.1f %%)%s\n", 100 * (c->info.model_us / c->info.time_us - 1),
                c->healthy_us > 0 ? ", of the healthy machine" : "");
    }
    if (c->healthy_us > 0) {
        fprintf(file, "  healthy    %s us", real_text(c->healthy_us, text));
        fprintf(file, "; the degraded links make it %.2f times slower\n",
                c->info.time_us / c->healthy_us);
    }
}

static void print_links(const struct sim_case *c, const struct output *output)
{
    struct grid grid;
    char text[NUMBER_TEXT];
    peal_sim_link link = {.size = sizeof link};
    grid_begin(&grid, "link|from|to|>GB/s|>bytes|>busy us|>used %");
    for (uint32_t i = 0; i < LINKS_SHOWN && peal_sim_link_get(c->sim, i, &link) == PEAL_OK; i++) {
        grid_add(&grid, "%s", link.resource);
        grid_add(&grid, "%s", link.from);
        grid_add(&grid, "%s", link.to);
        grid_add(&grid, "%s", real_text(link.beta_gbs, text));
        grid_add(&grid, "%.0f", link.bytes);
        grid_add(&grid, "%s", real_text(link.busy_us, text));
        grid_add(&grid, "%.1f", 100 * link.share);
    }
    fprintf(output->file, "\nlinks, the busiest of %lu first\n", (unsigned long)c->info.links);
    grid_print(&grid, output);
}

struct port_at {
    uint32_t index;
    double depth_bytes;
};
typedef peal_status (*port_names)(const peal_sim *, uint32_t, uint32_t, const char **);

/* "a, b, c and 5 more" */
static const char *names_text(const peal_sim *sim, uint32_t port, port_names names, char *text)
{
    const char *name;
    size_t used = 0;
    uint32_t i = 0;
    text[0] = '\0';
    for (; names(sim, port, i, &name) == PEAL_OK; i++)
        if (i < NAMES_SHOWN)
            used +=
                (size_t)snprintf(text + used, NAMES_TEXT - used, "%s%.40s", i ? ", " : "", name);
    if (i > NAMES_SHOWN)
        (void)snprintf(text + used, NAMES_TEXT - used, " and %lu more",
                       (unsigned long)(i - NAMES_SHOWN));
    return text;
}

static int deeper(const void *a, const void *b)
{
    const struct port_at *x = a, *y = b;
    if (x->depth_bytes != y->depth_bytes)
        return x->depth_bytes < y->depth_bytes ? 1 : -1;
    return (x->index > y->index) - (x->index < y->index);
}

static void add_port(struct grid *grid, const peal_sim *sim, uint32_t index)
{
    char text[NUMBER_TEXT], names[NAMES_TEXT];
    peal_sim_port port = {.size = sizeof port};
    if (peal_sim_port_get(sim, index, &port) != PEAL_OK)
        return;
    grid_add(grid, "%s", port.resource);
    grid_add(grid, "%.0f", port.depth_bytes);
    grid_add(grid, "%s", real_text(port.at_us, text));
    grid_add(grid, "%s", port.overrun ? "yes" : "no");
    grid_add(grid, "%s", names_text(sim, index, peal_sim_port_sender, names));
    grid_add(grid, "%s", names_text(sim, index, peal_sim_port_innocent, names));
}

/* The deepest first; where nothing waits there is nothing to tell. */
static void print_ports(const struct sim_case *c, const struct output *output)
{
    struct grid grid;
    peal_sim_port port = {.size = sizeof port};
    struct port_at *at = need(calloc(c->info.ports + 1, sizeof *at));
    uint32_t queues = 0;
    for (uint32_t i = 0; peal_sim_port_get(c->sim, i, &port) == PEAL_OK; i++)
        if (port.depth_bytes >= 1)
            at[queues++] = (struct port_at){i, port.depth_bytes};
    qsort(at, queues, sizeof *at, deeper);
    fprintf(output->file, "\nqueues at %lu of %lu switch ports\n", (unsigned long)queues,
            (unsigned long)c->info.ports);
    grid_begin(&grid, "port|>deepest|>at us|overrun|filled by|PFC would stop");
    for (uint32_t i = 0; i < queues && i < LINKS_SHOWN; i++)
        add_port(&grid, c->sim, at[i].index);
    if (queues)
        grid_print(&grid, output);
    free(at);
}

static void add_event(struct grid *grid, const peal_sim_event *event)
{
    char text[NUMBER_TEXT];
    grid_add(grid, "%s", real_text(event->end_us, text));
    grid_add(grid, "%s", real_text(event->own_us, text));
    grid_add(grid, "%lu", (unsigned long)event->rank);
    grid_add(grid, "%lu", (unsigned long)event->lane);
    grid_add(grid, "%lu", (unsigned long)event->trip);
    grid_add(grid, "%s", event->kind);
    grid_add(grid, "%s", event->text);
}

static void print_critical(const struct cli *cli, const struct sim_case *c,
                           const struct output *output)
{
    struct grid grid;
    peal_sim_event event = {.size = sizeof event};
    uint32_t count = c->info.critical;
    uint32_t shown = cli_given(cli, OPT_CRITICAL) || count < STEPS_SHOWN ? count : STEPS_SHOWN;
    grid_begin(&grid, ">until us|>adds us|>rank|>lane|>trip|kind|step");
    for (uint32_t i = 0; i < shown && peal_sim_critical(c->sim, i, &event) == PEAL_OK; i++)
        add_event(&grid, &event);
    fprintf(output->file, "\ncritical path: %lu transfers and signals\n", (unsigned long)count);
    grid_print(&grid, output);
    if (shown < count)
        fprintf(output->file, "... %lu more (--critical shows them)\n",
                (unsigned long)(count - shown));
}

/* ---- JSON */

static void json_links(json_t *root, const struct sim_case *c)
{
    json_t *list = json_list(root, "links");
    peal_sim_link link = {.size = sizeof link};
    for (uint32_t i = 0; peal_sim_link_get(c->sim, i, &link) == PEAL_OK; i++) {
        json_t *item = json_item(list);
        json_text(item, "from", link.from);
        json_text(item, "to", link.to);
        json_text(item, "resource", link.resource);
        json_number(item, "beta_gbs", link.beta_gbs);
        json_number(item, "busy_us", link.busy_us);
        json_count(item, "bytes", (uint64_t)(link.bytes + 0.5));
        json_number(item, "share", link.share);
    }
}

static void json_names(json_t *object, const char *key, const peal_sim *sim, uint32_t port,
                       port_names names)
{
    json_t *list = json_list(object, key);
    const char *name;
    for (uint32_t i = 0; names(sim, port, i, &name) == PEAL_OK; i++)
        (void)need(json_array_append_new(list, json_string(name)) == 0 ? list : NULL);
}

static void json_ports(json_t *root, const struct sim_case *c)
{
    json_t *list = json_list(root, "ports");
    peal_sim_port port = {.size = sizeof port};
    for (uint32_t i = 0; peal_sim_port_get(c->sim, i, &port) == PEAL_OK; i++) {
        json_t *item = json_item(list);
        json_text(item, "resource", port.resource);
        json_number(item, "depth_bytes", port.depth_bytes);
        json_number(item, "at_us", port.at_us);
        json_count(item, "senders", port.senders);
        json_flag(item, "overrun", port.overrun);
        json_count(item, "innocent", port.innocent);
        json_text(item, "innocent_first", port.innocent_first);
        json_names(item, "sender_ports", c->sim, i, peal_sim_port_sender);
        json_names(item, "innocent_ports", c->sim, i, peal_sim_port_innocent);
    }
}

static void json_critical(json_t *root, const struct sim_case *c)
{
    json_t *list = json_list(root, "critical_path");
    peal_sim_event event = {.size = sizeof event};
    for (uint32_t i = 0; peal_sim_critical(c->sim, i, &event) == PEAL_OK; i++) {
        json_t *item = json_item(list);
        json_text(item, "kind", event.kind);
        json_count(item, "rank", event.rank);
        json_count(item, "lane", event.lane);
        json_count(item, "step", event.step);
        json_count(item, "trip", event.trip);
        json_count(item, "bytes", event.bytes);
        json_number(item, "start_us", event.start_us);
        json_number(item, "end_us", event.end_us);
        json_number(item, "own_us", event.own_us);
        json_text(item, "text", event.text);
    }
}

/* Of what never ends no figure stands for anything. */
static void json_stuck(json_t *root, const struct sim_case *c)
{
    peal_sim_event event;
    (void)json_list(root, "links");
    (void)json_list(root, "critical_path");
    if (!stuck(c, &event))
        return;
    json_t *at = json_child(root, "stuck");
    json_count(at, "rank", event.rank);
    json_count(at, "lane", event.lane);
    json_count(at, "step", event.step);
    json_text(at, "text", event.text);
}

static void json_case(const struct sim_case *c, const struct output *output)
{
    json_t *root = json_begin("peal.sim/1");
    json_action(root, &c->action);
    json_count(root, "ranks", c->ranks);
    json_count(root, "bytes", c->info.bytes);
    json_text(root, "algorithm", c->row.algorithm);
    json_text(root, "detail", c->row.detail);
    json_flag(root, "ends", !dead(c));
    if (dead(c))
        json_text(root, "time_us", NULL);
    else
        json_number(root, "time_us", c->info.time_us);
    if (c->info.model_us > 0)
        json_number(root, "model_us", c->info.model_us);
    else
        json_text(root, "model_us", NULL);
    if (c->healthy_us > 0)
        json_number(root, "healthy_us", c->healthy_us);
    if (dead(c)) {
        json_stuck(root, c);
        json_end(root, output);
        return;
    }
    json_links(root, c);
    if (c->info.ports)
        json_ports(root, c);
    json_critical(root, c);
    json_end(root, output);
}

/* ---- */

static int show(const struct cli *cli, const struct sim_case *c)
{
    struct output output;
    CLI_TRY(output_open(cli, &output));
    if (cli_given(cli, OPT_JSON)) {
        json_case(c, &output);
        return output_close(&output, EXIT_YES);
    }
    print_times(c, output.file);
    if (dead(c)) /* its figures would be those of what stands for nothing */
        return output_close(&output, EXIT_YES);
    print_links(c, &output);
    if (cli_given(cli, OPT_BUFFER))
        print_ports(c, &output);
    print_critical(cli, c, &output);
    return output_close(&output, EXIT_YES);
}

/* Once as the machine should be, when it is to be compared. */
static int run_healthy(struct cli *cli, struct sim_case *c)
{
    if (!cli_given(cli, OPT_DEGRADE))
        return EXIT_YES;
    CLI_TRY(sim_run(cli, c->fabric, c, 0, &c->sim));
    c->info.size = sizeof c->info;
    CLI_TRY(say_diag(peal_sim_get(c->sim, &c->info), NULL));
    c->healthy_us = c->info.time_us;
    peal_sim_destroy(c->sim);
    c->sim = NULL;
    return degrade_fabric(cli, c->fabric);
}

static int simulate(struct cli *cli, struct sim_case *c)
{
    const char *trace = cli->value[OPT_TRACE], *flows = cli->value[OPT_FLOWS];
    int step = cli_given(cli, OPT_STEP);
    CLI_TRY(run_healthy(cli, c));
    CLI_TRY(sim_run(cli, c->fabric, c, trace || flows || step, &c->sim));
    if (trace)
        CLI_TRY(sim_write(cli, c->sim, "trace", trace));
    if (flows)
        CLI_TRY(sim_write(cli, c->sim, "flows", flows));
    if (step)
        return sim_write(cli, c->sim, "steps", cli->value[OPT_OUTPUT]);
    c->info.size = sizeof c->info;
    CLI_TRY(say_diag(peal_sim_get(c->sim, &c->info), NULL));
    return show(cli, c);
}

int verb_sim(struct cli *cli)
{
    struct sim_case c = {.bytes = 0};
    if (cli->operands != 1 && cli->operands != 2)
        return cli_operands(cli, 1);
    if (cli_given(cli, OPT_STEP) && cli_given(cli, OPT_JSON))
        return say_usage("--step is text; --flows and --trace are JSON");
    if (!cli_given(cli, OPT_BYTES) && cli->operands == 1)
        cli->value[OPT_BYTES] = SIM_BYTES;
    int code = sim_open(cli, &c);
    if (code == EXIT_YES)
        code = simulate(cli, &c);
    sim_close(&c);
    return code;
}
