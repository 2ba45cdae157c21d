/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector clocks as trees of immutable nodes. Equal nodes are one node (hash consing), whoever made
 * them, so that what many ranks know is held once, joining two clocks stops where they are equal,
 * and a join of two nodes that has been made before is looked up. What a clock learned last waits
 * in a short list, so that several news about one lane make one path of nodes. Clocks of few
 * components are plain arrays.
 */
#include "verify.h"

#include <string.h>

#define LEAF_TIMES 16u
#define FANOUT 8u
#define FLAT_MAX 1536u /* components; a longer array takes longer to join than a tree */
#define MEMO_MIN 1024u
#define MEMO_MAX (1u << 20)

struct verify_page {
    struct verify_page *next; /* in its bucket, or of the free ones */
    uint64_t serial;          /* never given twice; 0: free */
    uint32_t refs;
    uint32_t hash;
    uint32_t level; /* 0: times */
    union {
        uint32_t time[LEAF_TIMES];
        struct verify_page *child[FANOUT]; /* NULL: all zero */
    } u;
};

struct verify_memo {
    struct verify_page *a, *b, *joined;
    uint64_t serial[3];
};

/* ---- nodes ---------------------------------------------------------------------- */

static uint32_t hash_of(const struct verify_page *content)
{
    uint64_t h = content->level;
    uint64_t word[8];
    memcpy(word, &content->u, sizeof word);
    for (int i = 0; i < 8; i++)
        h = (h ^ word[i]) * 0x9E3779B97F4A7C15ull, h ^= h >> 29;
    return (uint32_t)(h >> 24);
}

static peal_status grow_buckets(struct verify_clocks *clocks)
{
    uint32_t count = clocks->bucket_count ? clocks->bucket_count * 2 : 256;
    struct verify_page **buckets = peal_calloc(clocks->ctx, count, sizeof(struct verify_page *));
    if (!buckets)
        return PEAL_ERR_MEMORY;
    for (uint32_t i = 0; i < clocks->bucket_count; i++)
        for (struct verify_page *page = clocks->buckets[i], *next; page; page = next) {
            uint32_t at = page->hash & (count - 1);
            next = page->next;
            page->next = buckets[at];
            buckets[at] = page;
        }
    peal_free(clocks->ctx, clocks->buckets, clocks->bucket_count * sizeof(struct verify_page *));
    clocks->buckets = buckets;
    clocks->bucket_count = count;
    return PEAL_OK;
}

static struct verify_page *hold(struct verify_page *page)
{
    if (page)
        page->refs++;
    return page;
}

static void drop(struct verify_clocks *clocks, struct verify_page *page)
{
    if (!page || --page->refs)
        return;
    struct verify_page **at = &clocks->buckets[page->hash & (clocks->bucket_count - 1)];
    while (*at != page)
        at = &(*at)->next;
    *at = page->next;
    for (uint32_t i = 0; page->level && i < FANOUT; i++)
        drop(clocks, page->u.child[i]);
    page->serial = 0;
    page->next = clocks->free_pages;
    clocks->free_pages = page;
    clocks->pages--;
}

static struct verify_page *page_new(struct verify_clocks *clocks)
{
    struct verify_page *page = clocks->free_pages;
    if (page)
        clocks->free_pages = page->next;
    else
        page = peal_alloc(clocks->ctx, sizeof *page);
    return page;
}

/* The node of this content, held; takes over what the content holds, also on failure. */
static peal_status intern(struct verify_clocks *clocks, const struct verify_page *content,
                          struct verify_page **page_out)
{
    peal_status status = PEAL_OK;
    struct verify_page *page = NULL;
    if (clocks->pages >= clocks->bucket_count)
        status = grow_buckets(clocks);
    uint32_t hash = hash_of(content), at = hash & (clocks->bucket_count - 1);
    if (status == PEAL_OK)
        page = clocks->buckets[at];
    while (page && (page->hash != hash || page->level != content->level ||
                    memcmp(&page->u, &content->u, sizeof page->u) != 0))
        page = page->next;
    if (page || status != PEAL_OK || !(*page_out = page_new(clocks))) {
        for (uint32_t i = 0; content->level && i < FANOUT; i++)
            drop(clocks, content->u.child[i]);
        *page_out = hold(page);
        return page ? PEAL_OK : PEAL_ERR_MEMORY;
    }
    page = *page_out;
    *page = *content;
    page->refs = 1;
    page->hash = hash;
    page->serial = ++clocks->serials;
    page->next = clocks->buckets[at];
    clocks->buckets[at] = page;
    clocks->pages++;
    return PEAL_OK;
}

/* ---- joining -------------------------------------------------------------------- */

static peal_status grow_memo(struct verify_clocks *clocks)
{
    uint32_t count = clocks->memo_count ? clocks->memo_count * 4 : MEMO_MIN;
    struct verify_memo *memo = peal_calloc(clocks->ctx, count, sizeof *memo);
    if (!memo)
        return PEAL_ERR_MEMORY;
    peal_free(clocks->ctx, clocks->memo, clocks->memo_count * sizeof *memo);
    clocks->memo = memo;
    clocks->memo_count = count;
    return PEAL_OK;
}

static struct verify_memo *memo_of(const struct verify_clocks *clocks, const struct verify_page *a,
                                   const struct verify_page *b)
{
    uint64_t h = (a->serial * 0x9E3779B97F4A7C15ull ^ b->serial) * 0xD6E8FEB86659FD93ull;
    return &clocks->memo[(h >> 40) & (clocks->memo_count - 1)];
}

static int remembered(const struct verify_memo *memo, const struct verify_page *a,
                      const struct verify_page *b)
{
    return memo->a == a && memo->b == b && memo->serial[0] == a->serial &&
           memo->serial[1] == b->serial && memo->joined->serial == memo->serial[2];
}

static peal_status join(struct verify_clocks *clocks, struct verify_page *a, struct verify_page *b,
                        struct verify_page **joined);

static peal_status join_children(struct verify_clocks *clocks, const struct verify_page *a,
                                 const struct verify_page *b, struct verify_page **joined)
{
    struct verify_page content = {.level = a->level};
    peal_status status = PEAL_OK;
    for (uint32_t i = 0; !a->level && i < LEAF_TIMES; i++)
        content.u.time[i] = a->u.time[i] > b->u.time[i] ? a->u.time[i] : b->u.time[i];
    for (uint32_t i = 0; a->level && status == PEAL_OK && i < FANOUT; i++)
        status = join(clocks, a->u.child[i], b->u.child[i], &content.u.child[i]);
    if (status == PEAL_OK)
        return intern(clocks, &content, joined);
    for (uint32_t i = 0; a->level && i < FANOUT; i++)
        drop(clocks, content.u.child[i]);
    return status;
}

static peal_status join(struct verify_clocks *clocks, struct verify_page *a, struct verify_page *b,
                        struct verify_page **joined)
{
    if (a == b || !a || !b) {
        *joined = hold(a ? a : b);
        return PEAL_OK;
    }
    if (a->serial > b->serial) {
        struct verify_page *c = a;
        a = b;
        b = c;
    }
    struct verify_memo *memo = memo_of(clocks, a, b);
    if (remembered(memo, a, b)) {
        *joined = hold(memo->joined);
        return PEAL_OK;
    }
    *joined = NULL;
    PEAL_TRY(join_children(clocks, a, b, joined));
    *memo = (struct verify_memo){a, b, *joined, {a->serial, b->serial, (*joined)->serial}};
    return PEAL_OK;
}

/* ---- news ----------------------------------------------------------------------- */

static uint32_t span_of(uint32_t level)
{
    uint32_t span = LEAF_TIMES;
    while (level--)
        span *= FANOUT;
    return span;
}

/* `page`, of a subtree that begins at component `base`, with the news in it; held. */
static peal_status learn_page(struct verify_clocks *clocks, const struct verify_page *page,
                              uint32_t level, uint32_t base, const struct verify_news *news,
                              uint32_t count, struct verify_page **page_out)
{
    struct verify_page content = {.level = level};
    uint32_t span = level ? span_of(level - 1) : 1;
    peal_status status = PEAL_OK;
    if (page)
        content.u = page->u;
    for (uint32_t i = 0; level && i < FANOUT; i++)
        hold(content.u.child[i]);
    for (uint32_t i = 0; status == PEAL_OK && i < count; i++) {
        uint32_t place = (news[i].component - base) / span, last = i;
        if (!level) {
            uint32_t *time = &content.u.time[place];
            *time = news[i].time > *time ? news[i].time : *time;
            continue;
        }
        while (last + 1 < count && (news[last + 1].component - base) / span == place)
            last++;
        struct verify_page *child = NULL;
        status = learn_page(clocks, content.u.child[place], level - 1, base + place * span,
                            &news[i], last + 1 - i, &child);
        if (status == PEAL_OK) {
            drop(clocks, content.u.child[place]);
            content.u.child[place] = child;
        }
        i = last;
    }
    if (status == PEAL_OK)
        return intern(clocks, &content, page_out);
    for (uint32_t i = 0; level && i < FANOUT; i++)
        drop(clocks, content.u.child[i]);
    return status;
}

/* The list goes into the tree: what the clock says stays the same. */
static peal_status settle(struct verify_clocks *clocks, struct verify_clock *clock)
{
    struct verify_page *root = NULL;
    uint32_t level = 0;
    if (!clock->count)
        return PEAL_OK;
    while (span_of(level) < clocks->components)
        level++;
    PEAL_TRY(learn_page(clocks, clock->root, level, 0, clock->news, clock->count, &root));
    drop(clocks, clock->root);
    clock->root = root;
    clock->count = 0;
    return PEAL_OK;
}

/* ---- clocks --------------------------------------------------------------------- */

static size_t clock_bytes(const struct verify_clock *clock)
{
    return sizeof *clock + clock->flat * sizeof clock->time[0];
}

struct verify_clock *peal_verify_clock_new(struct verify_clocks *clocks)
{
    uint32_t flat = clocks->components <= FLAT_MAX ? clocks->components : 0;
    struct verify_clock *clock =
        peal_calloc(clocks->ctx, 1, sizeof *clock + flat * sizeof clock->time[0]);
    if (!clock)
        return NULL;
    clock->refs = 1;
    clock->flat = flat;
    return clock;
}

void peal_verify_clock_drop(struct verify_clocks *clocks, struct verify_clock *clock)
{
    if (!clock || --clock->refs)
        return;
    drop(clocks, clock->root);
    peal_free(clocks->ctx, clock, clock_bytes(clock));
}

void peal_verify_clocks_free(struct verify_clocks *clocks)
{
    while (clocks->free_pages) {
        struct verify_page *page = clocks->free_pages;
        clocks->free_pages = page->next;
        peal_free(clocks->ctx, page, sizeof *page);
    }
    peal_free(clocks->ctx, clocks->buckets, clocks->bucket_count * sizeof(struct verify_page *));
    peal_free(clocks->ctx, clocks->memo, clocks->memo_count * sizeof *clocks->memo);
}

uint32_t peal_verify_clock_time(const struct verify_clock *clock, uint32_t component)
{
    const struct verify_page *page = clock->root;
    uint32_t news = 0;
    if (clock->flat)
        return clock->time[component];
    for (uint32_t i = 0; i < clock->count; i++)
        if (clock->news[i].component == component)
            news = clock->news[i].time;
    for (uint32_t level = page ? page->level : 0; page && level; level--)
        page = page->u.child[component / span_of(level - 1) % FANOUT];
    return page && page->u.time[component % LEAF_TIMES] > news
               ? page->u.time[component % LEAF_TIMES]
               : news;
}

/* *clock becomes private to its holder. */
static peal_status own_clock(struct verify_clocks *clocks, struct verify_clock **clock)
{
    if ((*clock)->refs == 1)
        return PEAL_OK;
    struct verify_clock *copy = peal_alloc(clocks->ctx, clock_bytes(*clock));
    if (!copy)
        return PEAL_ERR_MEMORY;
    memcpy(copy, *clock, clock_bytes(*clock));
    copy->refs = 1;
    hold(copy->root);
    (*clock)->refs--;
    *clock = copy;
    return PEAL_OK;
}

static peal_status join_flat(struct verify_clocks *clocks, struct verify_clock **clock,
                             const struct verify_clock *other)
{
    uint32_t newer = 0;
    for (uint32_t i = 0; i < other->flat; i++)
        newer |= other->time[i] > (*clock)->time[i];
    if (!newer)
        return PEAL_OK;
    PEAL_TRY(own_clock(clocks, clock));
    uint32_t *time = (*clock)->time;
    for (uint32_t i = 0; i < other->flat; i++)
        time[i] = other->time[i] > time[i] ? other->time[i] : time[i];
    return PEAL_OK;
}

peal_status peal_verify_clock_join(struct verify_clocks *clocks, struct verify_clock **clock,
                                   struct verify_clock *other)
{
    struct verify_page *joined;
    if (*clock == other)
        return PEAL_OK;
    if (other->flat)
        return join_flat(clocks, clock, other);
    PEAL_TRY(settle(clocks, other));
    if ((*clock)->root == other->root || !other->root)
        return PEAL_OK;
    PEAL_TRY(own_clock(clocks, clock));
    if (clocks->pages > clocks->memo_count && clocks->memo_count < MEMO_MAX)
        PEAL_TRY(grow_memo(clocks));
    PEAL_TRY(join(clocks, (*clock)->root, other->root, &joined));
    drop(clocks, (*clock)->root);
    (*clock)->root = joined;
    return PEAL_OK;
}

peal_status peal_verify_clock_set(struct verify_clocks *clocks, struct verify_clock **clock,
                                  uint32_t component, uint32_t time)
{
    if (peal_verify_clock_time(*clock, component) >= time)
        return PEAL_OK;
    PEAL_TRY(own_clock(clocks, clock));
    struct verify_clock *own = *clock;
    uint32_t at = 0;
    if (own->flat) {
        own->time[component] = time;
        return PEAL_OK;
    }
    while (at < own->count && own->news[at].component < component)
        at++;
    if (at < own->count && own->news[at].component == component) {
        own->news[at].time = time;
        return PEAL_OK;
    }
    if (own->count == VERIFY_NEWS) {
        PEAL_TRY(settle(clocks, own));
        at = 0;
    }
    memmove(&own->news[at + 1], &own->news[at], (own->count - at) * sizeof own->news[0]);
    own->news[at] = (struct verify_news){component, time};
    own->count++;
    return PEAL_OK;
}

peal_status peal_verify_clock_covers(struct verify_clocks *clocks, struct verify_clock *clock,
                                     struct verify_clock *other, int *covers)
{
    struct verify_page *joined;
    *covers = 1;
    for (uint32_t i = 0; i < clock->flat; i++)
        *covers &= clock->time[i] >= other->time[i];
    if (clock->flat)
        return PEAL_OK;
    PEAL_TRY(settle(clocks, clock));
    PEAL_TRY(settle(clocks, other));
    if (!clocks->memo_count)
        PEAL_TRY(grow_memo(clocks));
    PEAL_TRY(join(clocks, clock->root, other->root, &joined));
    *covers = joined == clock->root;
    drop(clocks, joined);
    return PEAL_OK;
}
