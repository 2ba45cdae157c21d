/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector clocks in blocks of pages, both shared by reference until somebody learns something new.
 * Who knows the same things holds the same blocks and pages, so that joining two clocks mostly
 * compares pointers.
 */
#include "verify.h"

#include <string.h>

#define BLOCK_PAGES 8u
#define BLOCK_TIMES (BLOCK_PAGES * VERIFY_PAGE)

struct verify_page {
    union {
        uint32_t refs;
        struct verify_page *next; /* while free */
    } u;
    uint32_t time[VERIFY_PAGE];
};

struct verify_block {
    union {
        uint32_t refs;
        struct verify_block *next; /* while free */
    } u;
    struct verify_page *page[BLOCK_PAGES]; /* NULL: all zero */
};

static uint32_t block_count(const struct verify_clocks *clocks)
{
    return (clocks->components + BLOCK_TIMES - 1) / BLOCK_TIMES;
}

static size_t clock_bytes(const struct verify_clocks *clocks)
{
    return sizeof(struct verify_clock) + block_count(clocks) * sizeof(struct verify_block *);
}

/* ---- pages and blocks ----------------------------------------------------------- */

static struct verify_page *page_new(struct verify_clocks *clocks)
{
    struct verify_page *page = clocks->free_pages;
    if (page)
        clocks->free_pages = page->u.next;
    else
        page = peal_alloc(clocks->ctx, sizeof *page);
    if (page)
        page->u.refs = 1;
    return page;
}

static void page_drop(struct verify_clocks *clocks, struct verify_page *page)
{
    if (!page || --page->u.refs)
        return;
    page->u.next = clocks->free_pages;
    clocks->free_pages = page;
}

static struct verify_block *block_new(struct verify_clocks *clocks)
{
    struct verify_block *block = clocks->free_blocks;
    if (block)
        clocks->free_blocks = block->u.next;
    else
        block = peal_alloc(clocks->ctx, sizeof *block);
    if (block)
        block->u.refs = 1;
    return block;
}

static void block_drop(struct verify_clocks *clocks, struct verify_block *block)
{
    if (!block || --block->u.refs)
        return;
    for (uint32_t i = 0; i < BLOCK_PAGES; i++)
        page_drop(clocks, block->page[i]);
    block->u.next = clocks->free_blocks;
    clocks->free_blocks = block;
}

/* *block becomes private to its holder; its pages stay shared. */
static peal_status own_block(struct verify_clocks *clocks, struct verify_block **block)
{
    if (*block && (*block)->u.refs == 1)
        return PEAL_OK;
    struct verify_block *copy = block_new(clocks);
    if (!copy)
        return PEAL_ERR_MEMORY;
    for (uint32_t i = 0; i < BLOCK_PAGES; i++) {
        copy->page[i] = *block ? (*block)->page[i] : NULL;
        if (copy->page[i])
            copy->page[i]->u.refs++;
    }
    block_drop(clocks, *block);
    *block = copy;
    return PEAL_OK;
}

/* ---- clocks --------------------------------------------------------------------- */

struct verify_clock *peal_verify_clock_new(struct verify_clocks *clocks)
{
    struct verify_clock *clock = peal_calloc(clocks->ctx, 1, clock_bytes(clocks));
    if (clock)
        clock->refs = 1;
    return clock;
}

void peal_verify_clock_drop(struct verify_clocks *clocks, struct verify_clock *clock)
{
    if (!clock || --clock->refs)
        return;
    for (uint32_t i = 0; i < block_count(clocks); i++)
        block_drop(clocks, clock->block[i]);
    peal_free(clocks->ctx, clock, clock_bytes(clocks));
}

void peal_verify_clocks_free(struct verify_clocks *clocks)
{
    while (clocks->free_pages) {
        struct verify_page *page = clocks->free_pages;
        clocks->free_pages = page->u.next;
        peal_free(clocks->ctx, page, sizeof *page);
    }
    while (clocks->free_blocks) {
        struct verify_block *block = clocks->free_blocks;
        clocks->free_blocks = block->u.next;
        peal_free(clocks->ctx, block, sizeof *block);
    }
}

uint32_t peal_verify_clock_time(const struct verify_clock *clock, uint32_t component)
{
    const struct verify_block *block = clock->block[component / BLOCK_TIMES];
    const struct verify_page *page =
        block ? block->page[component / VERIFY_PAGE % BLOCK_PAGES] : NULL;
    return page ? page->time[component % VERIFY_PAGE] : 0;
}

/* *clock becomes private to its holder; its blocks stay shared. */
static peal_status own_clock(struct verify_clocks *clocks, struct verify_clock **clock)
{
    if ((*clock)->refs == 1)
        return PEAL_OK;
    struct verify_clock *copy = peal_alloc(clocks->ctx, clock_bytes(clocks));
    if (!copy)
        return PEAL_ERR_MEMORY;
    memcpy(copy, *clock, clock_bytes(clocks));
    for (uint32_t i = 0; i < block_count(clocks); i++)
        if (copy->block[i])
            copy->block[i]->u.refs++;
    copy->refs = 1;
    (*clock)->refs--;
    *clock = copy;
    return PEAL_OK;
}

/* ---- joining -------------------------------------------------------------------- */

#define NEWER_MINE 1u
#define NEWER_OTHER 2u

static uint32_t compare_pages(const struct verify_page *mine, const struct verify_page *other)
{
    uint32_t newer = 0, older = 0;
    if (mine == other || !other)
        return mine == other ? 0 : NEWER_MINE;
    if (!mine)
        return NEWER_OTHER;
    for (uint32_t i = 0; i < VERIFY_PAGE; i++) {
        newer |= mine->time[i] > other->time[i];
        older |= mine->time[i] < other->time[i];
    }
    return newer * NEWER_MINE | older * NEWER_OTHER;
}

static peal_status merge_page(struct verify_clocks *clocks, struct verify_page **mine,
                              struct verify_page *other, uint32_t news)
{
    if (!(news & NEWER_OTHER))
        return PEAL_OK;
    if (news == NEWER_OTHER) {
        other->u.refs++;
        page_drop(clocks, *mine);
        *mine = other;
        return PEAL_OK;
    }
    struct verify_page *merged = page_new(clocks);
    if (!merged)
        return PEAL_ERR_MEMORY;
    for (uint32_t i = 0; i < VERIFY_PAGE; i++)
        merged->time[i] = (*mine)->time[i] > other->time[i] ? (*mine)->time[i] : other->time[i];
    page_drop(clocks, *mine);
    *mine = merged;
    return PEAL_OK;
}

static peal_status join_block(struct verify_clocks *clocks, struct verify_block **mine,
                              struct verify_block *other)
{
    uint8_t news[BLOCK_PAGES];
    uint32_t all = *mine ? 0 : NEWER_OTHER;
    for (uint32_t i = 0; *mine && i < BLOCK_PAGES; i++)
        all |= news[i] = (uint8_t)compare_pages((*mine)->page[i], other->page[i]);
    if (!(all & NEWER_OTHER))
        return PEAL_OK;
    if (all == NEWER_OTHER) {
        other->u.refs++;
        block_drop(clocks, *mine);
        *mine = other;
        return PEAL_OK;
    }
    PEAL_TRY(own_block(clocks, mine));
    for (uint32_t i = 0; i < BLOCK_PAGES; i++)
        PEAL_TRY(merge_page(clocks, &(*mine)->page[i], other->page[i], news[i]));
    return PEAL_OK;
}

peal_status peal_verify_clock_join(struct verify_clocks *clocks, struct verify_clock **clock,
                                   const struct verify_clock *other)
{
    if (*clock == other)
        return PEAL_OK;
    PEAL_TRY(own_clock(clocks, clock));
    for (uint32_t i = 0; i < block_count(clocks); i++)
        if (other->block[i] && other->block[i] != (*clock)->block[i])
            PEAL_TRY(join_block(clocks, &(*clock)->block[i], other->block[i]));
    return PEAL_OK;
}

peal_status peal_verify_clock_set(struct verify_clocks *clocks, struct verify_clock **clock,
                                  uint32_t component, uint32_t time)
{
    if (peal_verify_clock_time(*clock, component) >= time)
        return PEAL_OK;
    PEAL_TRY(own_clock(clocks, clock));
    struct verify_block **block = &(*clock)->block[component / BLOCK_TIMES];
    PEAL_TRY(own_block(clocks, block));
    struct verify_page **page = &(*block)->page[component / VERIFY_PAGE % BLOCK_PAGES];
    if (!*page || (*page)->u.refs > 1) {
        struct verify_page *copy = page_new(clocks);
        if (!copy)
            return PEAL_ERR_MEMORY;
        if (*page)
            memcpy(copy->time, (*page)->time, sizeof copy->time);
        else
            memset(copy->time, 0, sizeof copy->time);
        page_drop(clocks, *page);
        *page = copy;
    }
    (*page)->time[component % VERIFY_PAGE] = time;
    return PEAL_OK;
}
