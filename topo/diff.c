/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What differs between two machines, by name: counts first, then ranks, NICs and links.
 * Links are matched by their ends and class; of several between two ends, in order.
 */
#include "fabric.h"

#include "sort.h"
#include "topo_text.h"

#include <string.h>

struct diff {
    peal_diff_fn found;
    void *user;
    uint32_t count;
};

static void tell(struct diff *diff, const char *what, const char *left, const char *right)
{
    if (peal_streq(left, right))
        return;
    diff->count++;
    if (diff->found)
        diff->found(diff->user, what, left, right);
}

struct line {
    char data[200];
    struct topo_text text;
};

static void start(struct line *line)
{
    peal_topo_text_init(&line->text, line->data, sizeof line->data);
}

static void put(struct line *line, const char *text)
{
    peal_topo_text_put(&line->text, text);
}

static void put_int(struct line *line, int64_t value)
{
    if (value < 0)
        put(line, "none");
    else
        peal_topo_text_u64(&line->text, (uint64_t)value);
}

static void counts(struct diff *diff, const peal_fabric *left, const peal_fabric *right)
{
    const uint32_t a[] = {left->hosts, left->ranks, left->nics, left->numas};
    const uint32_t b[] = {right->hosts, right->ranks, right->nics, right->numas};
    static const char *const what[] = {"hosts", "ranks", "nics", "numa nodes"};

    for (size_t i = 0; i < sizeof a / sizeof a[0]; i++) {
        struct line l;
        struct line r;

        start(&l);
        start(&r);
        put_int(&l, a[i]);
        put_int(&r, b[i]);
        tell(diff, what[i], l.data, r.data);
    }
}

/* ---- ranks and NICs */

static void rank_line(const peal_fabric *fabric, uint32_t rank, struct line *line)
{
    peal_rank_info info = {.size = sizeof info};
    peal_nic_info nic = {.size = sizeof nic};

    start(line);
    if (peal_fabric_rank(fabric, rank, &info) != PEAL_OK)
        return;
    put(line, info.model);
    put(line, " busid ");
    put(line, info.busid[0] ? info.busid : "none");
    put(line, " numa ");
    put_int(line, info.numa);
    put(line, " domain ");
    put_int(line, info.nvlink_domain);
    put(line, " nic ");
    if (info.nic >= 0 && peal_fabric_nic(fabric, (uint32_t)info.nic, &nic) == PEAL_OK)
        put(line, nic.name);
    else
        put(line, "none");
}

static void nic_line(const peal_fabric *fabric, uint32_t index, struct line *line)
{
    peal_nic_info nic = {.size = sizeof nic};

    start(line);
    if (peal_fabric_nic(fabric, index, &nic) != PEAL_OK)
        return;
    put(line, nic.name);
    put(line, " ");
    peal_topo_text_real(&line->text, nic.speed_gbits);
    put(line, nic.rdma ? " Gb/s rdma numa " : " Gb/s sockets numa ");
    put_int(line, nic.numa);
    put(line, " rail ");
    put_int(line, nic.rail);
}

static void each(struct diff *diff, const peal_fabric *left, const peal_fabric *right,
                 const char *kind, uint32_t count,
                 void (*describe)(const peal_fabric *, uint32_t, struct line *))
{
    for (uint32_t i = 0; i < count; i++) {
        struct line what;
        struct line l;
        struct line r;

        start(&what);
        put(&what, kind);
        peal_topo_text_u64(&what.text, i);
        describe(left, i, &l);
        describe(right, i, &r);
        tell(diff, what.data, l.data, r.data);
    }
}

/* ---- links */

static int same_ends(const struct topo_listed *a, const struct topo_listed *b)
{
    int order = strcmp(a->from, b->from);

    if (!order)
        order = strcmp(a->to, b->to);
    return order ? order : (int)a->link_class - (int)b->link_class;
}

/* A total order: links with the same ends keep the fabric's order. */
static int before(const void *left, const void *right, const void *with)
{
    const struct topo_listed *a = *(const struct topo_listed *const *)left;
    const struct topo_listed *b = *(const struct topo_listed *const *)right;
    int order = same_ends(a, b);

    (void)with;
    return order ? order < 0 : a < b;
}

static void link_line(const struct topo_listed *link, struct line *line)
{
    start(line);
    peal_topo_text_real(&line->text, link->beta_gbs);
    put(line, " GB/s ");
    peal_topo_text_real(&line->text, link->alpha_us);
    put(line, " us");
}

static void tell_link(struct diff *diff, const struct topo_listed *left,
                      const struct topo_listed *right)
{
    const struct topo_listed *one = left ? left : right;
    struct line what;
    struct line l;
    struct line r;

    start(&what);
    put(&what, one->from);
    put(&what, " > ");
    put(&what, one->to);
    put(&what, " ");
    put(&what, peal_link_class_name(one->link_class));
    start(&l);
    start(&r);
    if (left)
        link_line(left, &l);
    if (right)
        link_line(right, &r);
    tell(diff, what.data, l.data, r.data);
}

static const struct topo_listed **sorted(peal_ctx *ctx, const peal_fabric *fabric)
{
    const struct topo_listed **list = peal_calloc(ctx, (size_t)fabric->listeds + 1, sizeof *list);

    if (!list)
        return NULL;
    for (uint32_t l = 0; l < fabric->listeds; l++)
        list[l] = &fabric->listed[l];
    peal_sort(list, fabric->listeds, sizeof *list, before, NULL);
    return list;
}

static void merge(struct diff *diff, const struct topo_listed *const *left, uint32_t lefts,
                  const struct topo_listed *const *right, uint32_t rights)
{
    uint32_t l = 0;
    uint32_t r = 0;

    while (l < lefts || r < rights) {
        int order = l == lefts ? 1 : r == rights ? -1 : same_ends(left[l], right[r]);

        tell_link(diff, order <= 0 ? left[l] : NULL, order >= 0 ? right[r] : NULL);
        l += order <= 0;
        r += order >= 0;
    }
}

static peal_status links(peal_ctx *ctx, struct diff *diff, const peal_fabric *left,
                         const peal_fabric *right)
{
    const struct topo_listed **a = sorted(ctx, left);
    const struct topo_listed **b = sorted(ctx, right);
    peal_status status = a && b ? PEAL_OK : PEAL_ERR_MEMORY;

    if (status == PEAL_OK)
        merge(diff, a, left->listeds, b, right->listeds);
    peal_free(ctx, a, ((size_t)left->listeds + 1) * sizeof *a);
    peal_free(ctx, b, ((size_t)right->listeds + 1) * sizeof *b);
    return status;
}

peal_status peal_fabric_diff(peal_ctx *ctx, const peal_fabric *left, const peal_fabric *right,
                             peal_diff_fn found, void *user, uint32_t *count_out)
{
    struct diff diff = {.found = found, .user = user};
    uint32_t ranks;
    uint32_t nics;

    if (!ctx || !left || !right)
        return PEAL_ERR_ARG;
    ranks = left->ranks > right->ranks ? left->ranks : right->ranks;
    nics = left->nics > right->nics ? left->nics : right->nics;
    counts(&diff, left, right);
    each(&diff, left, right, "rank", ranks, rank_line);
    each(&diff, left, right, "nic", nics, nic_line);
    PEAL_TRY(links(ctx, &diff, left, right));
    if (count_out)
        *count_out = diff.count;
    return PEAL_OK;
}
