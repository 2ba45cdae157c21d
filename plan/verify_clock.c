/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector clocks in pages, shared by reference until somebody learns something new. Ranks that
 * know the same things hold the same pages, so that joining two clocks mostly compares pointers.
 */
#include "verify.h"

#include <string.h>

struct verify_page {
    union {
        uint32_t refs;
        struct verify_page *next; /* while free */
    } u;
    uint32_t time[VERIFY_PAGE];
};

static uint32_t page_count(const struct verify_clocks *clocks)
{
    return (clocks->components + VERIFY_PAGE - 1) / VERIFY_PAGE;
}

static size_t clock_bytes(const struct verify_clocks *clocks)
{
    return sizeof(struct verify_clock) + page_count(clocks) * sizeof(struct verify_page *);
}

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
    for (uint32_t i = 0; i < page_count(clocks); i++)
        page_drop(clocks, clock->page[i]);
    peal_free(clocks->ctx, clock, clock_bytes(clocks));
}

void peal_verify_clocks_free(struct verify_clocks *clocks)
{
    while (clocks->free_pages) {
        struct verify_page *page = clocks->free_pages;
        clocks->free_pages = page->u.next;
        peal_free(clocks->ctx, page, sizeof *page);
    }
}

uint32_t peal_verify_clock_time(const struct verify_clock *clock, uint32_t component)
{
    const struct verify_page *page = clock->page[component / VERIFY_PAGE];
    return page ? page->time[component % VERIFY_PAGE] : 0;
}

/* *clock becomes private to its holder; its pages stay shared. */
static peal_status own_clock(struct verify_clocks *clocks, struct verify_clock **clock)
{
    if ((*clock)->refs == 1)
        return PEAL_OK;
    struct verify_clock *copy = peal_alloc(clocks->ctx, clock_bytes(clocks));
    if (!copy)
        return PEAL_ERR_MEMORY;
    memcpy(copy, *clock, clock_bytes(clocks));
    for (uint32_t i = 0; i < page_count(clocks); i++)
        if (copy->page[i])
            copy->page[i]->u.refs++;
    copy->refs = 1;
    (*clock)->refs--;
    *clock = copy;
    return PEAL_OK;
}

/* Bit 0: a has something newer, bit 1: b has. */
static uint32_t compare_pages(const struct verify_page *a, const struct verify_page *b)
{
    uint32_t newer = 0, older = 0;
    for (uint32_t i = 0; i < VERIFY_PAGE; i++) {
        newer |= a->time[i] > b->time[i];
        older |= a->time[i] < b->time[i];
    }
    return newer | older << 1;
}

static peal_status join_page(struct verify_clocks *clocks, struct verify_page **mine,
                             struct verify_page *other)
{
    uint32_t news = *mine ? compare_pages(*mine, other) : 2;
    if (!(news & 2))
        return PEAL_OK;
    if (news == 2) {
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

peal_status peal_verify_clock_join(struct verify_clocks *clocks, struct verify_clock **clock,
                                   const struct verify_clock *other)
{
    if (*clock == other)
        return PEAL_OK;
    PEAL_TRY(own_clock(clocks, clock));
    for (uint32_t i = 0; i < page_count(clocks); i++)
        if (other->page[i] && other->page[i] != (*clock)->page[i])
            PEAL_TRY(join_page(clocks, &(*clock)->page[i], other->page[i]));
    return PEAL_OK;
}

peal_status peal_verify_clock_set(struct verify_clocks *clocks, struct verify_clock **clock,
                                  uint32_t component, uint32_t time)
{
    if (peal_verify_clock_time(*clock, component) >= time)
        return PEAL_OK;
    PEAL_TRY(own_clock(clocks, clock));
    struct verify_page **page = &(*clock)->page[component / VERIFY_PAGE];
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
