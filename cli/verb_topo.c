/* SPDX-License-Identifier: Apache-2.0 */
/* peal topo: what a machine is; a cluster of it; the difference between two. */
#include "cli_json.h"

#include <stdlib.h>
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
    fprintf(file, "%s: %s, %lu rank%s, %lu host%s, %lu NUMA node%s, %lu NIC%s, %lu links\n",
            info->name && info->name[0] ? info->name : path, info->dialect,
            (unsigned long)info->ranks, info->ranks == 1 ? "" : "s", (unsigned long)info->hosts,
            info->hosts == 1 ? "" : "s", (unsigned long)info->numa_nodes,
            info->numa_nodes == 1 ? "" : "s", (unsigned long)info->nics, info->nics == 1 ? "" : "s",
            (unsigned long)info->links);
}

static void print_more(uint32_t count, const char *what, FILE *file)
{
    if (count > SHOWN_MAX)
        fprintf(file, "... and %lu more %s (--json has them all)\n",
                (unsigned long)(count - SHOWN_MAX), what);
}

static const char *nic_name(const peal_fabric *fabric, int32_t index)
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
            fprintf(file, "%s:", note.path && note.path[0] ? note.path : info->name);
            if (note.line)
                fprintf(file, "%lu:", (unsigned long)note.line);
            fprintf(file, " %s: %s\n", warning ? "warning" : "note", note.text);
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
    print_notes(fabric, info, output->file);
}

/* ---- JSON */

static void maybe_json(json_t *object, const char *key, int32_t number)
{
    if (number < 0)
        json_text(object, key, NULL);
    else
        json_count(object, key, (uint64_t)number);
}

static void json_ranks(json_t *root, const peal_fabric *fabric, uint32_t count)
{
    json_t *list = json_list(root, "ranks");
    for (uint32_t i = 0; i < count; i++) {
        peal_rank_info rank = {.size = sizeof rank};
        if (peal_fabric_rank(fabric, i, &rank) != PEAL_OK)
            break;
        json_t *item = json_item(list);
        json_count(item, "rank", rank.rank);
        maybe_json(item, "device", rank.device);
        json_text(item, "busid", rank.busid);
        json_count(item, "node", rank.host);
        maybe_json(item, "numa", rank.numa);
        json_count(item, "nvlink_domain", rank.nvlink_domain);
        maybe_json(item, "nic", rank.nic);
        json_text(item, "nic_name", rank.nic < 0 ? NULL : nic_name(fabric, rank.nic));
        json_text(item, "model", rank.model);
        json_count(item, "arch", rank.arch);
    }
}

static void json_nics(json_t *root, const peal_fabric *fabric, uint32_t count)
{
    json_t *list = json_list(root, "nics");
    for (uint32_t i = 0; i < count; i++) {
        peal_nic_info nic = {.size = sizeof nic};
        if (peal_fabric_nic(fabric, i, &nic) != PEAL_OK)
            break;
        json_t *item = json_item(list);
        json_text(item, "name", nic.name);
        json_count(item, "node", nic.host);
        json_text(item, "busid", nic.busid);
        maybe_json(item, "numa", nic.numa);
        json_number(item, "speed_gbits", nic.speed_gbits);
        maybe_json(item, "rail", nic.rail);
        json_flag(item, "rdma", nic.rdma);
    }
}

static void json_nodes(json_t *root, const peal_fabric *fabric)
{
    json_t *list = json_list(root, "nodes");
    for (uint32_t i = 0; i < peal_fabric_node_count(fabric); i++) {
        peal_node_info node = {.size = sizeof node};
        if (peal_fabric_node(fabric, i, &node) != PEAL_OK)
            break;
        json_t *item = json_item(list);
        json_count(item, "node", node.host);
        json_text(item, "kind", node.kind);
        json_text(item, "name", node.name);
        json_text(item, "busid", node.busid);
    }
}

static void json_links(json_t *root, const peal_fabric *fabric, uint32_t count)
{
    json_t *list = json_list(root, "links");
    for (uint32_t i = 0; i < count; i++) {
        peal_link_info link = {.size = sizeof link};
        if (peal_fabric_link(fabric, i, &link) != PEAL_OK)
            break;
        json_t *item = json_item(list);
        json_text(item, "from", link.from);
        json_text(item, "to", link.to);
        json_text(item, "class", peal_link_class_name(link.link_class));
        json_number(item, "alpha_us", link.alpha_us);
        json_number(item, "beta_gbs", link.beta_gbs);
        json_count(item, "sstar_bytes", link.sstar_bytes);
        json_text(item, "resource", link.resource);
    }
}

static void json_notes(json_t *root, const peal_fabric *fabric, uint32_t count)
{
    json_t *notes = json_list(root, "notes");
    json_t *warnings = json_list(root, "warnings");
    for (uint32_t i = 0; i < count; i++) {
        peal_note_info note = {.size = sizeof note};
        if (peal_fabric_note(fabric, i, &note) != PEAL_OK)
            break;
        json_t *item = json_item(note.warning ? warnings : notes);
        json_count(item, "line", note.line);
        json_text(item, "text", note.text);
        json_text(item, "path", note.path);
    }
}

static void json_fabric(const peal_fabric *fabric, const peal_fabric_info *info,
                        const struct output *output)
{
    char digest[17];
    json_t *root = json_begin("peal.topo/1");
    (void)snprintf(digest, sizeof digest, "%016llx", (unsigned long long)info->digest);
    json_text(root, "name", info->name);
    json_text(root, "dialect", info->dialect);
    json_text(root, "digest", digest);
    json_count(root, "hosts", info->hosts);
    json_count(root, "numa_nodes", info->numa_nodes);
    json_ranks(root, fabric, info->ranks);
    json_nics(root, fabric, info->nics);
    json_nodes(root, fabric);
    json_links(root, fabric, info->links);
    json_notes(root, fabric, info->notes);
    json_end(root, output);
}

static int show(struct cli *cli)
{
    peal_fabric *fabric;
    peal_fabric_info info = {.size = sizeof info};
    struct output output;
    CLI_TRY(cli_operands(cli, 1));
    CLI_TRY(load_fabric(cli, cli->operand[0], &fabric));
    int code = say_diag(peal_fabric_get(fabric, &info), NULL);
    if (code == EXIT_YES)
        code = output_open(cli, &output);
    if (code == EXIT_YES) {
        if (cli_given(cli, OPT_JSON))
            json_fabric(fabric, &info, &output);
        else
            print_fabric(cli, fabric, &info, &output);
        code = output_close(&output, EXIT_YES);
    }
    peal_fabric_destroy(fabric);
    return code;
}

/* ---- cluster */

/* The directory of a path, resolved; NULL when there is none. */
static char *directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    char text[4096];
    if (!slash)
        return realpath(".", NULL);
    int length = slash == path ? 1 : (int)(slash - path);
    (void)snprintf(text, sizeof text, "%.*s", length, path);
    return realpath(text, NULL);
}

/* A cluster finds its host's file from its own directory: beside it by name, elsewhere by the
 * whole path. What goes to standard output is taken to stay here. */
static int refer(const struct cli *cli, char *path, size_t size)
{
    const char *host = cli->operand[0];
    const char *out = cli->value[OPT_OUTPUT];
    if (strcmp(host, "-") == 0 || strncmp(host, "host:", 5) == 0)
        return say_usage("a cluster refers to a file; '%s' is none", host);
    char *from = directory(out && strcmp(out, "-") != 0 ? out : ".");
    char *to = directory(host);
    char *whole = realpath(host, NULL);
    const char *name = strrchr(host, '/') ? strrchr(host, '/') + 1 : host;
    int beside = from && to && strcmp(from, to) == 0;
    int here = !out || strcmp(out, "-") == 0;
    (void)snprintf(path, size, "%s", beside ? name : here || !whole ? host : whole);
    free(from);
    free(to);
    free(whole);
    return EXIT_YES;
}

static int read_cluster(const struct cli *cli, peal_cluster_params *params)
{
    CLI_TRY(cli_u32(cli, OPT_NODES, &params->nodes));
    CLI_TRY(cli_real(cli, OPT_OVERSUBSCRIPTION, &params->oversubscription));
    CLI_TRY(cli_real(cli, OPT_LATENCY, &params->latency_us));
    params->rails = cli_given(cli, OPT_RAILS);
    if (params->nodes == 0)
        return say_usage("--nodes says how many hosts the cluster has");
    if (params->rails && cli_given(cli, OPT_LEAF_SPINE))
        return say_usage("--rails and --leaf-spine are two networks; one is to be had");
    if (cli_given(cli, OPT_OVERSUBSCRIPTION) && params->oversubscription < 1)
        return say_usage("--oversubscription is at least 1");
    return EXIT_YES;
}

static int cluster(struct cli *cli)
{
    peal_cluster_params params = {.size = sizeof params};
    peal_diag diag = PEAL_DIAG_INIT;
    peal_fabric *host;
    struct output output;
    char path[4096];
    CLI_TRY(cli_operands(cli, 1));
    if (cli_given(cli, OPT_JSON))
        return say_usage("'peal topo cluster' writes XML; 'peal topo --json' reads it");
    CLI_TRY(read_cluster(cli, &params));
    CLI_TRY(refer(cli, path, sizeof path));
    params.host_path = path;
    CLI_TRY(load_fabric(cli, cli->operand[0], &host)); /* nothing refers to what is no host */
    peal_fabric_destroy(host);
    CLI_TRY(output_open(cli, &output));
    peal_status status = peal_cluster_write(cli->ctx, &params, output_write, &output, &diag);
    return output_close(&output, status == PEAL_OK ? EXIT_YES : say_diag(status, &diag));
}

/* ---- diff */

struct diff {
    struct grid grid;
    json_t *list;
};

static void on_difference(void *user, const char *what, const char *left, const char *right)
{
    struct diff *diff = user;
    if (diff->list) {
        json_t *item = json_item(diff->list);
        json_text(item, "what", what);
        json_text(item, "left", left[0] ? left : NULL);
        json_text(item, "right", right[0] ? right : NULL);
        return;
    }
    grid_add(&diff->grid, "%s", what);
    grid_add(&diff->grid, "%s", left[0] ? left : "-");
    grid_add(&diff->grid, "%s", right[0] ? right : "-");
}

static int compare(struct cli *cli, const peal_fabric *left, const peal_fabric *right,
                   const struct output *output)
{
    struct diff diff = {.list = NULL};
    uint32_t count = 0;
    json_t *root = cli_given(cli, OPT_JSON) ? json_begin("peal.diff/1") : NULL;
    if (root)
        diff.list = json_list(root, "differences");
    grid_begin(&diff.grid, "what|left|right");
    peal_status status = peal_fabric_diff(cli->ctx, left, right, on_difference, &diff, &count);
    if (root) {
        json_flag(root, "same", count == 0);
        json_text(root, "left", cli->operand[0]);
        json_text(root, "right", cli->operand[1]);
        json_end(root, output);
    } else if (count == 0 && status == PEAL_OK) {
        fputs("the same machine\n", output->file);
    } else {
        grid_print(&diff.grid, output);
    }
    grid_free(&diff.grid);
    if (status != PEAL_OK)
        return say_diag(status, NULL);
    return count ? EXIT_NO : EXIT_YES;
}

static int difference(struct cli *cli)
{
    peal_fabric *left, *right;
    struct output output;
    CLI_TRY(cli_operands(cli, 2));
    CLI_TRY(load_fabric(cli, cli->operand[0], &left));
    int code = load_fabric(cli, cli->operand[1], &right);
    if (code == EXIT_YES) {
        code = output_open(cli, &output);
        if (code == EXIT_YES)
            code = output_close(&output, compare(cli, left, right, &output));
        peal_fabric_destroy(right);
    }
    peal_fabric_destroy(left);
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
    int is_diff = strcmp(first, "diff") == 0;
    CLI_TRY(only_for(cli, is_cluster, of_cluster, COUNT_OF(of_cluster), "cluster"));
    if (is_cluster || is_diff) {
        cli->operand++;
        cli->operands--;
    }
    return is_cluster ? cluster(cli) : is_diff ? difference(cli) : show(cli);
}
