/* SPDX-License-Identifier: Apache-2.0 */
/* peal topo: what a machine is. */
#include "verb_topo.h"
#include "report.h"

#include <string.h>

#define SHOWN_MAX 64u /* ranks and NICs; the rest only in JSON */

static const char *rank_bus(const peal_rank_info *rank)
{
    return rank->busid && rank->busid[0] ? rank->busid : "-";
}

static const char *maybe(int32_t number, char *text)
{
    if (number < 0)
        return "-";
    (void)snprintf(text, NUMBER_TEXT, "%ld", (long)number);
    return text;
}

/* ---- text */

static void print_head(const peal_fabric_info *info, const char *path, FILE *file)
{
    put_plain(file, "%s: %s, %lu rank%s, %lu host%s, %lu NUMA node%s, %lu NIC%s, %lu links\n",
              info->name && info->name[0] ? info->name : path, info->dialect,
              (unsigned long)info->ranks, info->ranks == 1 ? "" : "s", (unsigned long)info->hosts,
              info->hosts == 1 ? "" : "s", (unsigned long)info->numa_nodes,
              info->numa_nodes == 1 ? "" : "s", (unsigned long)info->nics,
              info->nics == 1 ? "" : "s", (unsigned long)info->links);
}

static void print_more(uint32_t count, const char *what, FILE *file)
{
    if (count > SHOWN_MAX)
        fprintf(file, "... and %lu more %s (--json has them all)\n",
                (unsigned long)(count - SHOWN_MAX), what);
}

const char *nic_name(const peal_fabric *fabric, int32_t index)
{
    peal_nic_info nic = {.size = sizeof nic};
    if (index < 0 || peal_fabric_nic(fabric, (uint32_t)index, &nic) != PEAL_OK)
        return "-";
    return nic.name;
}

static void print_ranks(const peal_fabric *fabric, uint32_t count, const struct output *output)
{
    struct grid grid;
    grid_begin(&grid, ">rank|>host|>device|bus id|model|>numa|>domain|nic");
    for (uint32_t i = 0; i < count && i < SHOWN_MAX; i++) {
        peal_rank_info rank = {.size = sizeof rank};
        char text[NUMBER_TEXT];
        if (peal_fabric_rank(fabric, i, &rank) != PEAL_OK)
            break;
        grid_add(&grid, "%lu", (unsigned long)rank.rank);
        grid_add(&grid, "%lu", (unsigned long)rank.host);
        grid_add(&grid, "%s", maybe(rank.device, text));
        grid_add(&grid, "%s", rank_bus(&rank));
        grid_add(&grid, "%s", rank.model);
        grid_add(&grid, "%s", maybe(rank.numa, text));
        grid_add(&grid, "%lu", (unsigned long)rank.nvlink_domain);
        grid_add(&grid, "%s", nic_name(fabric, rank.nic));
    }
    fputc('\n', output->file);
    grid_print(&grid, output);
    print_more(count, "ranks", output->file);
}

static void print_nics(const peal_fabric *fabric, uint32_t count, const struct output *output)
{
    struct grid grid;
    if (!count)
        return;
    grid_begin(&grid, "nic|>host|bus id|>numa|>Gbit/s|>rail|rdma");
    for (uint32_t i = 0; i < count && i < SHOWN_MAX; i++) {
        peal_nic_info nic = {.size = sizeof nic};
        char text[NUMBER_TEXT];
        if (peal_fabric_nic(fabric, i, &nic) != PEAL_OK)
            break;
        grid_add(&grid, "%s", nic.name);
        grid_add(&grid, "%lu", (unsigned long)nic.host);
        grid_add(&grid, "%s", nic.busid[0] ? nic.busid : "-");
        grid_add(&grid, "%s", maybe(nic.numa, text));
        grid_add(&grid, "%.0f", nic.speed_gbits);
        grid_add(&grid, "%s", maybe(nic.rail, text));
        grid_add(&grid, "%s", nic.rdma ? "yes" : "no");
    }
    fputc('\n', output->file);
    grid_print(&grid, output);
    print_more(count, "NICs", output->file);
}

struct span {
    double low;
    double high;
};

static void widen(struct span *span, double value, int first)
{
    if (first || value < span->low)
        span->low = value;
    if (first || value > span->high)
        span->high = value;
}

static const char *span_text(struct span span, char *text)
{
    char low[NUMBER_TEXT], high[NUMBER_TEXT];
    (void)real_text(span.low, low);
    (void)real_text(span.high, high);
    (void)snprintf(text, 2 * NUMBER_TEXT, strcmp(low, high) == 0 ? "%s" : "%s..%s", low, high);
    return text;
}

struct class_sum {
    uint32_t links;
    struct span alpha;
    struct span beta;
    struct span sstar;
};

static void print_classes(const peal_fabric *fabric, uint32_t links, const struct output *output)
{
    struct class_sum sum[PEAL_LINK_CLASS_COUNT] = {{0}};
    struct grid grid;
    for (uint32_t i = 0; i < links; i++) {
        peal_link_info link = {.size = sizeof link};
        if (peal_fabric_link(fabric, i, &link) != PEAL_OK)
            break;
        struct class_sum *to = &sum[link.link_class];
        widen(&to->alpha, link.alpha_us, to->links == 0);
        widen(&to->beta, link.beta_gbs, to->links == 0);
        widen(&to->sstar, (double)link.sstar_bytes / 1024, to->links == 0);
        to->links++;
    }
    grid_begin(&grid, "class|>links|>alpha us|>beta GB/s|>S* KiB");
    for (uint32_t c = 0; c < PEAL_LINK_CLASS_COUNT; c++) {
        char text[2 * NUMBER_TEXT];
        if (!sum[c].links)
            continue;
        grid_add(&grid, "%s", peal_link_class_name((peal_link_class)c));
        grid_add(&grid, "%lu", (unsigned long)sum[c].links);
        grid_add(&grid, "%s", span_text(sum[c].alpha, text));
        grid_add(&grid, "%s", span_text(sum[c].beta, text));
        grid_add(&grid, "%s", span_text(sum[c].sstar, text));
    }
    fputc('\n', output->file);
    grid_print(&grid, output);
    fputs("S* = alpha x beta: a smaller message is bound by latency.\n", output->file);
}

static void print_nodes(const peal_fabric *fabric, const struct output *output)
{
    const char *kinds[16];
    uint32_t counts[16] = {0}, known = 0;
    for (uint32_t i = 0; i < peal_fabric_node_count(fabric); i++) {
        peal_node_info node = {.size = sizeof node};
        uint32_t k = 0;
        if (peal_fabric_node(fabric, i, &node) != PEAL_OK)
            break;
        while (k < known && strcmp(kinds[k], node.kind) != 0)
            k++;
        if (k == COUNT_OF(kinds))
            continue;
        if (k == known)
            kinds[known++] = node.kind;
        counts[k]++;
    }
    fputs("\nnodes:", output->file);
    for (uint32_t k = 0; k < known; k++)
        fprintf(output->file, "%s %lu %s", k ? "," : "", (unsigned long)counts[k], kinds[k]);
    fputc('\n', output->file);
}

static void print_links(const peal_fabric *fabric, uint32_t links, const struct output *output)
{
    struct grid grid;
    grid_begin(&grid, "from|to|class|>alpha us|>beta GB/s|>S* bytes|resource");
    for (uint32_t i = 0; i < links; i++) {
        peal_link_info link = {.size = sizeof link};
        char text[NUMBER_TEXT];
        if (peal_fabric_link(fabric, i, &link) != PEAL_OK)
            break;
        grid_add(&grid, "%s", link.from);
        grid_add(&grid, "%s", link.to);
        grid_add(&grid, "%s", peal_link_class_name(link.link_class));
        grid_add(&grid, "%s", real_text(link.alpha_us, text));
        grid_add(&grid, "%s", real_text(link.beta_gbs, text));
        grid_add(&grid, "%llu", (unsigned long long)link.sstar_bytes);
        grid_add(&grid, "%s", link.resource);
    }
    fputc('\n', output->file);
    grid_print(&grid, output);
}

static void print_notes(const peal_fabric *fabric, const peal_fabric_info *info, FILE *file)
{
    if (info->notes)
        fputc('\n', file);
    for (int warning = 1; warning >= 0; warning--) {
        for (uint32_t i = 0; i < info->notes; i++) {
            peal_note_info note = {.size = sizeof note};
            if (peal_fabric_note(fabric, i, &note) != PEAL_OK || note.warning != warning)
                continue;
            put_plain(file, "%s:", note.path && note.path[0] ? note.path : info->name);
            if (note.line)
                fprintf(file, "%lu:", (unsigned long)note.line);
            put_plain(file, " %s: %s\n", warning ? "warning" : "note", note.text);
        }
    }
}

static void print_fabric(const struct cli *cli, const peal_fabric *fabric,
                         const peal_fabric_info *info, const struct output *output)
{
    print_head(info, cli->operand[0], output->file);
    print_ranks(fabric, info->ranks, output);
    print_nics(fabric, info->nics, output);
    print_nodes(fabric, output);
    print_classes(fabric, info->links, output);
    if (cli_given(cli, OPT_LINKS))
        print_links(fabric, info->links, output);
    topo_calls(fabric, info, output);
    print_notes(fabric, info, output->file);
}

static int draw_all(struct report *r)
{
    report_fabric(r);
    report_network(r);
    return EXIT_YES;
}

static int show(struct cli *cli)
{
    peal_fabric *fabric;
    peal_fabric_info info = {.size = sizeof info};
    struct output output;
    CLI_TRY(cli_operands(cli, 1));
    CLI_TRY(load_fabric(cli, cli->operand[0], &fabric));
    struct report report = {.cli = cli, .fabric = fabric, .path = cli->operand[0]};
    int code = say_diag(peal_fabric_get(fabric, &info), NULL);
    if (code == EXIT_YES)
        code = report_svg(&report, draw_all);
    if (code == EXIT_YES)
        code = output_open(cli, &output);
    if (code == EXIT_YES) {
        if (cli_given(cli, OPT_JSON))
            topo_json(fabric, &info, &output);
        else
            print_fabric(cli, fabric, &info, &output);
        code = output_close(&output, EXIT_YES);
    }
    peal_fabric_destroy(fabric);
    return code;
}

/* ---- */

static int only_for(const struct cli *cli, int ours, const enum option_id *options, size_t count,
                    const char *what)
{
    for (size_t i = 0; i < count && !ours; i++)
        if (cli_given(cli, options[i]))
            return say_usage("--%s is for 'peal topo %s'", cli_options[options[i]].name, what);
    return EXIT_YES;
}

int verb_topo(struct cli *cli)
{
    static const enum option_id of_cluster[] = {OPT_NODES, OPT_RAILS, OPT_LEAF_SPINE,
                                                OPT_OVERSUBSCRIPTION, OPT_LATENCY};
    const char *first = cli->operands ? cli->operand[0] : "";
    int is_cluster = strcmp(first, "cluster") == 0;
    static const enum option_id of_detect[] = {OPT_RANKS, OPT_SYSROOT};
    int is_diff = strcmp(first, "diff") == 0;
    int is_detect = strcmp(first, "detect") == 0;
    CLI_TRY(only_for(cli, is_cluster, of_cluster, COUNT_OF(of_cluster), "cluster"));
    if (cli_given(cli, OPT_SVG) && (is_cluster || is_diff || is_detect))
        return say_usage("--svg draws one topology; give its file");
    CLI_TRY(only_for(cli, is_detect, of_detect, COUNT_OF(of_detect), "detect"));
    if (is_cluster || is_diff || is_detect) {
        cli->operand++;
        cli->operands--;
    }
    if (is_detect)
        return topo_detect(cli);
    return is_cluster ? topo_cluster(cli) : is_diff ? topo_diff(cli) : show(cli);
}
