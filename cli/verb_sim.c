/* SPDX-License-Identifier: Apache-2.0 */
/* peal sim: one call of a plan, simulated on a topology. */
#include "cli_json.h"
#include "sim.h"

#include <stdlib.h>

#define DEAD_FACTOR 1e5
#define LINKS_SHOWN 24u
#define STEPS_SHOWN 16u

/* ---- text */

/* No part that is left of a link makes so much of a difference. */
static int dead(const struct sim_case *c)
{
    return c->healthy_us > 0 && c->info.time_us > DEAD_FACTOR * c->healthy_us;
}

static void print_dead(const struct sim_case *c, FILE *file)
{
    char text[NUMBER_TEXT];
    peal_sim_event event = {.size = sizeof event};
    fprintf(file, "  simulated  never ends: it crosses a dead link\n  healthy    %s us\n",
            real_text(c->healthy_us, text));
    for (uint32_t i = 0; peal_sim_critical(c->sim, i, &event) == PEAL_OK; i++)
        if (event.own_us > c->healthy_us) { /* the first that hangs */
            fprintf(file, "  stuck      rank %lu, lane %lu: %s\n", (unsigned long)event.rank,
                    (unsigned long)event.lane, event.text);
            return;
        }
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

static void print_ports(const struct sim_case *c, const struct output *output)
{
    struct grid grid;
    char text[NUMBER_TEXT];
    peal_sim_port port = {.size = sizeof port};
    fprintf(output->file, "\nqueues at switch ports%s\n", c->info.ports ? "" : ": there are none");
    if (!c->info.ports)
        return;
    grid_begin(&grid, "port|>deepest|>at us|>senders|overrun|>innocent|the first to");
    for (uint32_t i = 0; peal_sim_port_get(c->sim, i, &port) == PEAL_OK; i++) {
        grid_add(&grid, "%s", port.resource);
        grid_add(&grid, "%.0f", port.depth_bytes);
        grid_add(&grid, "%s", real_text(port.at_us, text));
        grid_add(&grid, "%lu", (unsigned long)port.senders);
        grid_add(&grid, "%s", port.overrun ? "yes" : "no");
        grid_add(&grid, "%lu", (unsigned long)port.innocent);
        grid_add(&grid, "%s", port.innocent_first);
    }
    grid_print(&grid, output);
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

static void json_case(const struct sim_case *c, const struct output *output)
{
    json_t *root = json_begin("peal.sim/1");
    json_action(root, &c->action);
    json_count(root, "ranks", c->ranks);
    json_count(root, "bytes", c->info.bytes);
    json_text(root, "algorithm", c->row.algorithm);
    json_text(root, "detail", c->row.detail);
    json_number(root, "time_us", c->info.time_us);
    if (c->info.model_us > 0)
        json_number(root, "model_us", c->info.model_us);
    else
        json_text(root, "model_us", NULL);
    if (c->healthy_us > 0)
        json_number(root, "healthy_us", c->healthy_us);
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
