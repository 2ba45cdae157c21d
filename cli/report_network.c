/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lies between hosts, drawn: some of the hosts, the switches that their NICs lead to, and,
 * where there is one, the spine above. Found by asking for the ways from each host to the next
 * and to the last, rank by rank.
 */
#include "report.h"

#include <stdlib.h>
#include <string.h>

#define SHOWN 12u /* hosts */
#define SWITCHES 64u
#define EDGES 4096u
#define RANKS_LOOKED 64u /* of a host */
#define WIDE 64.0
#define PITCH 78.0
#define TALL 36.0
#define MARGIN 20.0

struct edge {
    uint32_t host; /* its place among those shown; or, above, a switch */
    uint32_t other;
    char nic[48];
};

struct net {
    const struct report *report;
    uint32_t host[SHOWN];
    uint32_t first[SHOWN]; /* its first rank */
    uint32_t locals[SHOWN];
    uint32_t hosts;
    char name[SWITCHES][32];
    int spine[SWITCHES];
    double x[SWITCHES];
    uint32_t switches;
    struct edge *edge; /* host to switch */
    uint32_t edges;
    struct edge *up; /* switch to spine */
    uint32_t ups;
    double gbs; /* of one NIC */
};

static uint32_t find_switch(struct net *net, const char *name, int spine)
{
    for (uint32_t i = 0; i < net->switches; i++)
        if (strcmp(net->name[i], name) == 0)
            return i;
    if (net->switches == SWITCHES)
        return SWITCHES;
    (void)snprintf(net->name[net->switches], sizeof net->name[0], "%.31s", name);
    net->spine[net->switches] = spine;
    return net->switches++;
}

static void add_edge(struct edge *list, uint32_t *count, uint32_t host, uint32_t other,
                     const char *nic)
{
    for (uint32_t i = 0; i < *count; i++)
        if (list[i].host == host && list[i].other == other && strcmp(list[i].nic, nic) == 0)
            return;
    if (*count == EDGES)
        return;
    list[*count].host = host;
    list[*count].other = other;
    (void)snprintf(list[*count].nic, sizeof list[0].nic, "%.47s", nic);
    ++*count;
}

/* "h0/gpu0 > h0/mlx5_0 > leaf0 > spine > leaf1 > h9/mlx5_0 > h9/gpu0" */
static void read_way(struct net *net, uint32_t at, char *way)
{
    char *save = NULL, *before = NULL;
    uint32_t found[4], count = 0;
    for (char *word = strtok_r(way, " >", &save); word; word = strtok_r(NULL, " >", &save)) {
        if (strchr(word, '/')) {
            if (count)
                break;
            before = word;
            continue;
        }
        if (count == COUNT_OF(found) || !before)
            continue;
        found[count] = find_switch(net, word, count == 1);
        count++;
    }
    if (!count || found[0] == SWITCHES)
        return;
    add_edge(net->edge, &net->edges, at, found[0], strchr(before, '/') + 1);
    if (count == 3 && found[1] != SWITCHES && found[2] != SWITCHES) {
        add_edge(net->up, &net->ups, found[0], found[1], "");
        add_edge(net->up, &net->ups, found[2], found[1], "");
    }
}

static void look_from(struct net *net, uint32_t at)
{
    const uint32_t to[] = {(at + 1) % net->hosts, net->hosts - 1, 0};
    uint32_t locals = net->locals[at] < RANKS_LOOKED ? net->locals[at] : RANKS_LOOKED;
    for (uint32_t r = 0; r < locals; r++)
        for (size_t i = 0; i < COUNT_OF(to); i++) {
            peal_path_info path = {.size = sizeof path};
            if (to[i] == at ||
                peal_fabric_path(net->report->fabric, net->first[at] + r,
                                 net->first[to[i]] + r % net->locals[to[i]], &path) != PEAL_OK)
                continue;
            net->gbs = path.beta_gbs;
            read_way(net, at, path.via);
        }
}

static void find_hosts(struct net *net)
{
    uint32_t hosts = net->report->info.hosts, last = UINT32_MAX;
    for (uint32_t r = 0; r < net->report->info.ranks; r++) {
        peal_rank_info rank = {.size = sizeof rank};
        if (peal_fabric_rank(net->report->fabric, r, &rank) != PEAL_OK)
            return;
        if (rank.host != last &&
            (hosts <= SHOWN || rank.host < SHOWN - 1 || rank.host == hosts - 1)) {
            net->host[net->hosts] = rank.host;
            net->first[net->hosts++] = r;
        }
        last = rank.host;
        if (net->hosts && net->host[net->hosts - 1] == rank.host)
            net->locals[net->hosts - 1]++;
    }
}

/* ---- drawing */

static double row_x(double width, uint32_t count, uint32_t index)
{
    double pitch = count * PITCH > width - 2 * MARGIN ? (width - 2 * MARGIN) / count : PITCH;
    return width / 2 + (index - (count - 1) / 2.0) * pitch;
}

static double host_x(const struct net *net, double width, uint32_t at)
{
    uint32_t gap = net->report->info.hosts > SHOWN; /* a column for those left out */
    return row_x(width, net->hosts + gap, at + (gap && at + 1 == net->hosts));
}

static void put_box(FILE *file, const char *kind, double x, double y, const char *first,
                    const char *second)
{
    fprintf(file,
            "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.0f\" height=\"%.0f\" rx=\"5\"/>"
            "<text class=\"m\" x=\"%.1f\" y=\"%.1f\">",
            kind, x - WIDE / 2, y, WIDE, TALL, x, y + (second[0] ? 15 : 22));
    page_short(file, first, 9);
    fputs("</text>", file);
    if (second[0])
        fprintf(file, "<text class=\"m s\" x=\"%.1f\" y=\"%.1f\">%s</text>", x, y + 28, second);
    fputc('\n', file);
}

static void place_switches(struct net *net, double width)
{
    for (int spine = 0; spine < 2; spine++) {
        uint32_t count = 0, at = 0;
        for (uint32_t i = 0; i < net->switches; i++)
            count += net->spine[i] == spine;
        for (uint32_t i = 0; i < net->switches; i++)
            if (net->spine[i] == spine)
                net->x[i] = row_x(width, count, at++);
    }
}

static void put_line(FILE *file, double x, double y, double to_x, double to_y)
{
    fprintf(file,
            "<path class=\"link net\" style=\"opacity:.55;stroke-width:1.1\" d=\"M%.1f %.1fL%.1f "
            "%.1f\"/>",
            x, y, to_x, to_y);
}

static void put_hosts(const struct net *net, double width, double y)
{
    FILE *file = net->report->file;
    char name[32], second[32];
    for (uint32_t i = 0; i < net->hosts; i++) {
        (void)snprintf(name, sizeof name, "h%lu", (unsigned long)net->host[i]);
        (void)snprintf(second, sizeof second, "%lu ranks", (unsigned long)net->locals[i]);
        put_box(file, "numa", host_x(net, width, i), y, name, second);
    }
    if (net->report->info.hosts > SHOWN)
        fprintf(file,
                "<text class=\"m\" x=\"%.1f\" y=\"%.1f\">&#8230;</text><text class=\"m s\" "
                "x=\"%.1f\" y=\"%.1f\">%lu more</text>\n",
                row_x(width, SHOWN + 1, SHOWN - 1), y + 15, row_x(width, SHOWN + 1, SHOWN - 1),
                y + 28, (unsigned long)(net->report->info.hosts - SHOWN));
}

static void draw(struct net *net)
{
    FILE *file = net->report->file;
    uint32_t leaves = 0, columns = net->hosts + (net->report->info.hosts > SHOWN);
    for (uint32_t i = 0; i < net->switches; i++)
        leaves += !net->spine[i];
    uint32_t most = leaves > columns ? leaves : columns;
    double width = most * PITCH + 2 * MARGIN, top = net->ups ? 118 : 24, bottom = top + 140;
    width = width < 520 ? 520 : width;
    place_switches(net, width);
    page_svg(file, width, bottom + TALL + 20, width < 900 ? width * 1.2 : width,
             "hosts and the switches between them");
    for (uint32_t i = 0; i < net->edges; i++)
        put_line(file, host_x(net, width, net->edge[i].host), bottom, net->x[net->edge[i].other],
                 top + TALL);
    for (uint32_t i = 0; i < net->ups; i++)
        put_line(file, net->x[net->up[i].host], top, net->x[net->up[i].other], 24 + TALL);
    fputc('\n', file);
    for (uint32_t i = 0; i < net->switches; i++)
        put_box(file, "net-switch", net->x[i], net->spine[i] ? 24 : top, net->name[i], "");
    put_hosts(net, width, bottom);
    fputs("</svg>\n", file);
}

void report_network(const struct report *r)
{
    char text[NUMBER_TEXT];
    if (r->info.hosts < 2)
        return;
    struct net *net = need(calloc(1, sizeof *net));
    net->report = r;
    net->edge = need(calloc(EDGES, sizeof *net->edge));
    net->up = need(calloc(EDGES, sizeof *net->up));
    find_hosts(net);
    for (uint32_t i = 0; i < net->hosts; i++)
        look_from(net, i);
    page_heading(r->file, "network", "The network between hosts");
    fputs("<figure>", r->file);
    draw(net);
    fprintf(r->file,
            "<ul class=\"key\"><li><i class=\"net\"></i>one NIC of a rank, to its switch: %s "
            "GB/s</li></ul><figcaption>The switches that ranks' NICs lead to.</figcaption>"
            "</figure>\n",
            real_text(net->gbs, text));
    free(net->up);
    free(net->edge);
    free(net);
}
