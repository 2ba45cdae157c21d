/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first host of a machine, drawn: what hangs below each NUMA node as a tree, its leaves
 * (accelerators and NICs) in one row, and below them what joins accelerators: a switch as a bar,
 * or direct links as arcs. Each box but the topmost has one link upwards, whose bandwidth stands
 * beside its upper end; leaves have a column each, so nothing overlaps.
 */
#include "report.h"

#include <stdlib.h>
#include <string.h>

#define COLUMN 80.0
#define BOX 68.0
#define TALL 36.0
#define LEVEL 78.0
#define MARGIN 24.0
#define TOP 20.0
#define NAME_ROOM 10u
#define NO_PLACE UINT32_MAX
#define PLACES_MAX 4096u
#define LOCAL_GBS 1000.0 /* more than any link has: a device that sits in its parent */

struct place {
    const char *name;
    const char *kind;
    char second[24]; /* its second line */
    uint32_t parent; /* NO_PLACE: none */
    uint32_t merged; /* NICs alike beside it that it stands for */
    double up_gbs;   /* of the link to the parent */
    const char *up;  /* its class */
    double x, y, wide;
    uint32_t depth;
};

struct drawing {
    const struct report *report;
    const char *prefix; /* of the names in links */
    struct place *place;
    uint32_t places;
    uint32_t deepest;
    double next_x; /* of the next leaf */
    double width, height;
    double leaves_y;
    uint32_t classes; /* bit per class drawn */
    double low[PEAL_LINK_CLASS_COUNT], high[PEAL_LINK_CLASS_COUNT], alpha[PEAL_LINK_CLASS_COUNT];
};

static int is(const struct place *place, const char *kind)
{
    return strcmp(place->kind, kind) == 0;
}

static int is_leaf(const struct place *place)
{
    return is(place, "accelerator") || is(place, "nic") || is(place, "rank");
}

/* ---- what there is */

static uint32_t find(const struct drawing *d, const char *name)
{
    size_t skip = strlen(d->prefix);
    if (strncmp(name, d->prefix, skip) != 0)
        return NO_PLACE;
    for (uint32_t i = 0; i < d->places; i++)
        if (strcmp(d->place[i].name, name + skip) == 0)
            return i;
    return NO_PLACE;
}

static struct place *add_place(struct drawing *d, const char *name, const char *kind)
{
    struct place *place = &d->place[d->places++];
    *place = (struct place){.name = name, .kind = kind, .parent = NO_PLACE};
    return place;
}

static void describe_rank(struct drawing *d, uint32_t rank)
{
    char name[32];
    peal_rank_info info = {.size = sizeof info};
    if (peal_fabric_rank(d->report->fabric, rank, &info) != PEAL_OK || info.host != 0)
        return;
    for (uint32_t i = 0; i < d->places; i++) {
        struct place *place = &d->place[i];
        (void)snprintf(name, sizeof name, "gpu%lu", (unsigned long)info.local);
        if (is(place, "accelerator") && strcmp(place->name, name) == 0)
            (void)snprintf(place->second, sizeof place->second, "%.20s", info.model);
    }
}

static void describe_nic(struct drawing *d, uint32_t nic)
{
    peal_nic_info info = {.size = sizeof info};
    if (peal_fabric_nic(d->report->fabric, nic, &info) != PEAL_OK || info.host != 0)
        return;
    for (uint32_t i = 0; i < d->places; i++)
        if (is(&d->place[i], "nic") && strcmp(d->place[i].name, info.name) == 0)
            (void)snprintf(d->place[i].second, sizeof d->place[i].second, "%.0f Gb/s",
                           info.speed_gbits);
}

static void gather_places(struct drawing *d)
{
    const peal_fabric *fabric = d->report->fabric;
    peal_node_info node = {.size = sizeof node};
    peal_link_info link = {.size = sizeof link};
    for (uint32_t i = 0; peal_fabric_node(fabric, i, &node) == PEAL_OK; i++)
        if (node.host == 0 && strcmp(node.kind, "net-switch") != 0 && d->places < PLACES_MAX)
            (void)add_place(d, node.name, node.kind);
    /* Ranks without accelerators are the ends of links, not nodes. */
    for (uint32_t i = 0; peal_fabric_link(fabric, i, &link) == PEAL_OK; i++)
        if (link.link_class == PEAL_LINK_SHM && find(d, link.from) == NO_PLACE &&
            strncmp(link.from, d->prefix, strlen(d->prefix)) == 0 && d->places < PLACES_MAX)
            (void)add_place(d, link.from + strlen(d->prefix), "rank");
    for (uint32_t r = 0; r < d->report->info.ranks && r < PLACES_MAX; r++)
        describe_rank(d, r);
    for (uint32_t n = 0; n < d->report->info.nics && n < PLACES_MAX; n++)
        describe_nic(d, n);
}

/* ---- the trees */

static void note_class(struct drawing *d, const peal_link_info *link)
{
    uint32_t c = (uint32_t)link->link_class;
    if (link->beta_gbs >= LOCAL_GBS)
        return;
    if (!(d->classes >> c & 1) || link->beta_gbs < d->low[c])
        d->low[c] = link->beta_gbs;
    if (!(d->classes >> c & 1) || link->beta_gbs > d->high[c])
        d->high[c] = link->beta_gbs;
    d->alpha[c] = link->alpha_us;
    d->classes |= 1u << c;
}

static int grows(const struct drawing *d, const peal_link_info *link, uint32_t from, uint32_t to)
{
    const struct place *a = &d->place[from], *b = &d->place[to];
    if (link->link_class == PEAL_LINK_NVLINK || link->link_class == PEAL_LINK_XGMI || is_leaf(a))
        return 0;
    return !is(b, "numa") && b->parent == NO_PLACE && (is(a, "numa") || a->parent != NO_PLACE);
}

/* Links towards the leaves, until none finds a parent for anything. */
static void find_parents(struct drawing *d)
{
    peal_link_info link = {.size = sizeof link};
    for (int more = 1; more;) {
        more = 0;
        for (uint32_t i = 0; peal_fabric_link(d->report->fabric, i, &link) == PEAL_OK; i++) {
            uint32_t from = find(d, link.from), to = find(d, link.to);
            if (from == NO_PLACE || to == NO_PLACE || !grows(d, &link, from, to))
                continue;
            struct place *place = &d->place[to];
            place->parent = from;
            place->up_gbs = link.beta_gbs;
            place->up = peal_link_class_name(link.link_class);
            place->depth = d->place[from].depth + 1;
            d->deepest = place->depth > d->deepest ? place->depth : d->deepest;
            note_class(d, &link);
            more = 1;
        }
    }
}

/* Of more than two NICs alike in one place, the first stands for all. */
static void merge_nics(struct drawing *d)
{
    for (uint32_t i = 0; i < d->places; i++) {
        uint32_t alike = 0;
        struct place *first = &d->place[i];
        for (uint32_t k = i + 1; k < d->places && is(first, "nic"); k++)
            alike += is(&d->place[k], "nic") && d->place[k].parent == first->parent &&
                     strcmp(d->place[k].second, first->second) == 0;
        if (alike < 2)
            continue;
        for (uint32_t k = i + 1; k < d->places; k++)
            if (is(&d->place[k], "nic") && d->place[k].parent == first->parent &&
                strcmp(d->place[k].second, first->second) == 0)
                d->place[k].kind = "";
        first->merged = alike;
    }
}

/* ---- where each is */

static void set_place(struct drawing *d, uint32_t index)
{
    struct place *place = &d->place[index];
    double first = 0, last = 0;
    uint32_t below = 0;
    for (uint32_t i = 0; i < d->places; i++) {
        if (d->place[i].parent != index || !d->place[i].kind[0])
            continue;
        set_place(d, i);
        first = below++ ? first : d->place[i].x;
        last = d->place[i].x;
    }
    place->wide = BOX;
    if (!below) {
        place->x = d->next_x;
        d->next_x += COLUMN;
    } else {
        place->x = (first + last) / 2;
    }
    place->y = is_leaf(place) ? d->leaves_y : TOP + place->depth * LEVEL;
}

static void set_places(struct drawing *d)
{
    int leaves_alone = 0;
    for (uint32_t i = 0; i < d->places; i++)
        leaves_alone |= is_leaf(&d->place[i]) && d->place[i].kind[0];
    d->next_x = MARGIN + BOX / 2;
    d->leaves_y = TOP + (d->deepest + (leaves_alone && !d->deepest)) * LEVEL;
    for (uint32_t i = 0; i < d->places; i++)
        if (d->place[i].parent == NO_PLACE && !is(&d->place[i], "nvswitch") && d->place[i].kind[0])
            set_place(d, i);
    d->width = d->next_x - COLUMN + BOX / 2 + MARGIN;
    d->width = d->width < 520 ? 520 : d->width;
    d->height = d->leaves_y + TALL + 20;
}

/* ---- drawing */

static void put_box(const struct drawing *d, const struct place *place)
{
    FILE *file = d->report->file;
    const char *kind = is(place, "pcie-switch") ? "box" : place->kind;
    fprintf(file,
            "<g><rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
            "rx=\"5\"/><title>",
            kind, place->x - place->wide / 2, place->y, place->wide, TALL);
    page_text(file, place->name);
    fputs("</title>", file);
    int two = place->second[0] != '\0';
    fprintf(file, "<text class=\"m\" x=\"%.1f\" y=\"%.1f\">", place->x, place->y + (two ? 15 : 22));
    if (place->merged)
        fprintf(file, "%lu NICs", (unsigned long)place->merged + 1);
    else
        page_short(file, place->name, NAME_ROOM);
    fputs("</text>", file);
    if (two) {
        fprintf(file, "<text class=\"m s\" x=\"%.1f\" y=\"%.1f\">", place->x, place->y + 28);
        page_short(file, place->second, 12);
        fputs("</text>", file);
    }
    fputs("</g>\n", file);
}

static void put_up_link(const struct drawing *d, const struct place *place)
{
    FILE *file = d->report->file;
    const struct place *parent = &d->place[place->parent];
    double from = parent->y + TALL, bend = from + 14;
    char text[NUMBER_TEXT];
    fprintf(file, "<path class=\"link %s\" d=\"M%.1f %.1fV%.1fH%.1fV%.1f\"/>", place->up, parent->x,
            from, bend, place->x, place->y);
    if (place->up_gbs < LOCAL_GBS)
        fprintf(file, "<text class=\"s halo\" x=\"%.1f\" y=\"%.1f\">%s</text>", place->x + 4,
                place->y - 6, real_text(place->up_gbs, text));
    fputc('\n', file);
}

static uint32_t next_numa(const struct drawing *d, uint32_t index)
{
    for (uint32_t i = index + 1; i < d->places; i++)
        if (is(&d->place[i], "numa"))
            return i;
    return NO_PLACE;
}

/* NUMA nodes beside each other; of more than two, what joins the others is alike or told by the
 * list of classes. */
static void put_smp(struct drawing *d)
{
    peal_link_info link = {.size = sizeof link};
    char text[NUMBER_TEXT];
    for (uint32_t i = 0; peal_fabric_link(d->report->fabric, i, &link) == PEAL_OK; i++) {
        uint32_t a = find(d, link.from), b = find(d, link.to);
        if (link.link_class != PEAL_LINK_SMP || a == NO_PLACE || b == NO_PLACE)
            continue;
        note_class(d, &link);
        if (b != next_numa(d, a))
            continue;
        double from = d->place[a].x + BOX / 2, to = d->place[b].x - BOX / 2, y = TOP + TALL / 2;
        fprintf(d->report->file,
                "<path class=\"link smp\" d=\"M%.1f %.1fH%.1f\"/><text class=\"s m\" x=\"%.1f\" "
                "y=\"%.1f\">%s</text>\n",
                from, y, to, (from + to) / 2, y - 6, real_text(link.beta_gbs, text));
    }
}

/* A bar below the accelerators, and a link from each of them. */
static void put_switch(struct drawing *d, uint32_t index)
{
    FILE *file = d->report->file;
    peal_link_info link = {.size = sizeof link};
    double y = d->leaves_y + TALL + 54, low = 1e9, high = 0;
    char text[NUMBER_TEXT];
    for (uint32_t i = 0; peal_fabric_link(d->report->fabric, i, &link) == PEAL_OK; i++) {
        uint32_t a = find(d, link.from), b = find(d, link.to);
        if (a == NO_PLACE || b != index)
            continue;
        double x = d->place[a].x;
        note_class(d, &link);
        low = x < low ? x : low;
        high = x > high ? x : high;
        fprintf(file,
                "<path class=\"link %s\" d=\"M%.1f %.1fV%.1f\"/><text class=\"s\" x=\"%.1f\" "
                "y=\"%.1f\">%s</text>\n",
                peal_link_class_name(link.link_class), x, d->leaves_y + TALL, y, x + 4,
                d->leaves_y + TALL + 32, real_text(link.beta_gbs, text));
    }
    struct place *bar = &d->place[index];
    bar->x = (low + high) / 2;
    bar->wide = high - low + BOX;
    bar->y = y;
    d->height = y + TALL + 20;
    put_box(d, bar);
}

static uint32_t columns_between(const struct place *a, const struct place *b)
{
    double gap = a->x > b->x ? a->x - b->x : b->x - a->x;
    return (uint32_t)(gap / COLUMN + 0.5);
}

static int joins_accelerators(const struct drawing *d, const peal_link_info *link, uint32_t *a,
                              uint32_t *b)
{
    *a = find(d, link->from);
    *b = find(d, link->to);
    return *a != NO_PLACE && *b != NO_PLACE && *a < *b && is(&d->place[*a], "accelerator") &&
           is(&d->place[*b], "accelerator");
}

/* Direct links, as arcs: the farther the ends, the deeper. */
static void put_mesh(struct drawing *d)
{
    peal_link_info link = {.size = sizeof link};
    uint32_t a, b, far = 0;
    double most = 0, y = d->leaves_y + TALL;
    for (uint32_t i = 0; peal_fabric_link(d->report->fabric, i, &link) == PEAL_OK; i++)
        if (joins_accelerators(d, &link, &a, &b)) {
            uint32_t columns = columns_between(&d->place[a], &d->place[b]);
            far = columns > far ? columns : far;
            most = link.beta_gbs > most ? link.beta_gbs : most;
        }
    for (uint32_t i = 0; far && peal_fabric_link(d->report->fabric, i, &link) == PEAL_OK; i++) {
        if (!joins_accelerators(d, &link, &a, &b))
            continue;
        double depth = 26 + 110.0 * columns_between(&d->place[a], &d->place[b]) / far;
        char text[NUMBER_TEXT];
        note_class(d, &link);
        fprintf(d->report->file,
                "<path class=\"link %s\" style=\"stroke-width:%.1f\" d=\"M%.1f %.1fC%.1f %.1f %.1f "
                "%.1f %.1f %.1f\"><title>%s - %s, %s GB/s</title></path>\n",
                peal_link_class_name(link.link_class), 0.8 + 1.6 * link.beta_gbs / most,
                d->place[a].x, y, d->place[a].x, y + depth * 1.3, d->place[b].x, y + depth * 1.3,
                d->place[b].x, y, d->place[a].name, d->place[b].name,
                real_text(link.beta_gbs, text));
    }
    if (far && d->height < y + 150)
        d->height = y + 150;
}

/* How high it will be, before anything is written: as put_switch and put_mesh set it. */
static double whole_height(struct drawing *d)
{
    peal_link_info link = {.size = sizeof link};
    double height = d->height, y = d->leaves_y + TALL;
    uint32_t a, b;
    for (uint32_t i = 0; i < d->places; i++)
        if (is(&d->place[i], "nvswitch") && height < y + 110)
            height = y + 110;
    for (uint32_t i = 0; peal_fabric_link(d->report->fabric, i, &link) == PEAL_OK; i++)
        if (joins_accelerators(d, &link, &a, &b) && height < y + 150)
            height = y + 150;
    return height;
}

static void put_key(const struct drawing *d)
{
    FILE *file = d->report->file;
    fputs("<ul class=\"key\">", file);
    for (uint32_t c = 0; c < PEAL_LINK_CLASS_COUNT; c++) {
        char low[NUMBER_TEXT], high[NUMBER_TEXT], alpha[NUMBER_TEXT];
        if (!(d->classes >> c & 1))
            continue;
        (void)real_text(d->low[c], low);
        (void)real_text(d->high[c], high);
        const char *name = peal_link_class_name((peal_link_class)c);
        fprintf(file, "<li><i class=\"%s\"></i>%s %s", name, name, low);
        if (strcmp(low, high) != 0)
            fprintf(file, " to %s", high);
        fprintf(file, " GB/s, %s &#181;s</li>", real_text(d->alpha[c], alpha));
    }
    fputs("</ul>\n", file);
}

static void draw(struct drawing *d)
{
    FILE *file = d->report->file;
    set_places(d);
    page_svg(file, d->width, whole_height(d), d->width < 900 ? d->width * 1.2 : d->width,
             "the first host: NUMA nodes, PCIe switches, accelerators, NICs and their links");
    put_smp(d);
    for (uint32_t i = 0; i < d->places; i++)
        if (d->place[i].parent != NO_PLACE && d->place[i].kind[0])
            put_up_link(d, &d->place[i]);
    put_mesh(d);
    for (uint32_t i = 0; i < d->places; i++) {
        if (is(&d->place[i], "nvswitch"))
            put_switch(d, i);
        else if (d->place[i].kind[0])
            put_box(d, &d->place[i]);
    }
    fputs("</svg>\n", file);
}

void report_fabric(const struct report *r)
{
    struct drawing d = {.report = r, .prefix = r->info.hosts > 1 ? "h0/" : ""};
    page_heading(r->file, "fabric", r->info.hosts > 1 ? "A host" : "The machine");
    d.place = need(calloc(PLACES_MAX, sizeof *d.place));
    gather_places(&d);
    find_parents(&d);
    merge_nics(&d);
    fputs("<figure>", r->file);
    draw(&d);
    put_key(&d);
    fprintf(r->file,
            "<figcaption>%s Numbers beside links: GB/s in one direction; below, their range and "
            "start-up by class.</figcaption></figure>\n",
            r->info.hosts > 1 ? "Host 0." : "");
    free(d.place);
}
