/* SPDX-License-Identifier: Apache-2.0 */
/* Laying out and mapping the segment of a world. */
#include "shm.h"
#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define RT_MAGIC 0x6c6165702d6d6873u /* "shm-peal", little endian */
#define RT_VERSION 6u

/* ---- layout */

static int add(uint64_t *total, uint64_t bytes)
{
    if (bytes > RT_WORLD_MAX || *total > RT_WORLD_MAX - bytes)
        return 0;
    *total = (*total + bytes + RT_PAGE - 1) & ~(uint64_t)(RT_PAGE - 1);
    return 1;
}

static int add_each(uint64_t *total, uint64_t count, uint64_t bytes)
{
    return (bytes == 0 || count <= RT_WORLD_MAX / bytes) && add(total, count * bytes);
}

static uint64_t pages(uint64_t bytes)
{
    return bytes > RT_WORLD_MAX ? bytes : (bytes + RT_PAGE - 1) & ~(uint64_t)(RT_PAGE - 1);
}

static uint64_t packet_slots(const struct peal_plan *plan)
{
    uint64_t slots = 0;
    for (uint32_t i = 0; i < plan->nregions; i++)
        if (plan->regions[i].buffer == PLAN_BUF_PACKET)
            slots += (uint64_t)plan->regions[i].width * plan->regions[i].depth;
    return slots;
}

static void measure(const peal_table *table, struct rt_layout *layout)
{
    for (uint32_t i = 0; i < table->nrows; i++) {
        const struct peal_plan *plan = table->rows[i].plan;
        uint64_t packets = peal_plan_memory_bytes(plan, PLAN_BUF_PACKET);
        uint64_t scratch = peal_plan_memory_bytes(plan, PLAN_BUF_SCRATCH);
        if (plan->ahead && packets > layout->ring_bytes)
            layout->ring_bytes = packets;
        if (plan->ahead && packet_slots(plan) > layout->ring_slots)
            layout->ring_slots = packet_slots(plan);
        if (!plan->ahead && pages(packets) > layout->packet_bytes)
            layout->packet_bytes = pages(packets);
        if (pages(scratch) > layout->scratch_bytes)
            layout->scratch_bytes = pages(scratch);
        if (plan->collective == PEAL_ALLTOALLV)
            layout->count_bytes =
                (layout->nranks * sizeof(rt_word) + RT_LINE - 1) / RT_LINE * RT_LINE;
        if (plan->nsems > layout->nsems)
            layout->nsems = plan->nsems;
    }
}

static int place_ring(struct rt_layout *layout, uint64_t *total)
{
    uint64_t n = layout->nranks, calls = RT_AHEAD_MOST * layout->ring_slots;
    layout->heads = *total;
    if (layout->ring_slots > RT_WORLD_MAX / RT_AHEAD_MOST ||
        !add_each(total, n * sizeof(rt_word), calls))
        return 0;
    for (uint32_t i = 0; i < RT_CELLS; i++) {
        layout->cells[i] = *total;
        if (!add_each(total, n * rt_cell_bytes(i), calls))
            return 0;
    }
    layout->ring = *total;
    return add_each(total, PLAN_AHEAD * n, layout->ring_bytes);
}

static int place(struct rt_layout *layout)
{
    uint64_t n = layout->nranks;
    uint64_t total = 0;
    if (!add(&total, sizeof(struct rt_head)))
        return 0;
    layout->boards = total;
    if (!add_each(&total, n, sizeof(struct rt_board)))
        return 0;
    layout->sems = total;
    if (!add_each(&total, n * n * layout->nsems, RT_LINE))
        return 0;
    layout->counts = total;
    if (!add_each(&total, 2 * n, layout->count_bytes))
        return 0;
    layout->packets = total;
    if (!add_each(&total, 2 * n, layout->packet_bytes))
        return 0;
    if (!place_ring(layout, &total))
        return 0;
    layout->scratch = total;
    if (!add_each(&total, 2 * n, layout->scratch_bytes))
        return 0;
    layout->heap = total;
    if (!add_each(&total, n, layout->heap_bytes))
        return 0;
    layout->total = total;
    return 1;
}

peal_status rt_layout_make(const peal_table *table, uint32_t nranks, uint64_t heap_bytes,
                           struct rt_layout *layout, peal_diag *diag)
{
    struct rt_layout made = {.nranks = nranks, .heap_bytes = pages(heap_bytes)};
    measure(table, &made);
    if (!place(&made))
        return peal_fail(diag, PEAL_ERR_RANGE,
                         "%u ranks with %llu bytes of heap and %llu of scratch each do not fit "
                         "into one segment",
                         nranks, (unsigned long long)heap_bytes,
                         (unsigned long long)made.scratch_bytes);
    *layout = made;
    return PEAL_OK;
}

/* ---- mapping */

static char *map(uint64_t bytes, int fd)
{
    int flags = MAP_SHARED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0);
    void *base = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    return base == MAP_FAILED ? NULL : base;
}

/* Fresh pages are zero: counts, stamps and boards start there. */
int rt_segment_begin(struct rt_segment *segment, int fd, const uint64_t token[2])
{
    segment->base = map(segment->layout.total, fd);
    if (!segment->base)
        return 0;
    struct rt_head *head = rt_head(segment->base);
    head->version = RT_VERSION;
    memcpy(head->token, token, sizeof head->token);
    head->layout = segment->layout;
    atomic_store_explicit(&head->magic, RT_MAGIC, memory_order_release);
    return 1;
}

static const uint64_t no_token[2];

peal_status rt_segment_private(const struct rt_layout *layout, struct rt_segment *segment,
                               peal_diag *diag)
{
    struct rt_segment made = {.layout = *layout};
    if (!rt_segment_begin(&made, -1, no_token))
        return peal_fail(diag, PEAL_ERR_MEMORY, "mapping %llu bytes of shared memory: %s",
                         (unsigned long long)layout->total, strerror(errno));
    *segment = made;
    return PEAL_OK;
}

static peal_status io_error(peal_diag *diag, const char *what, const char *name)
{
    return peal_fail(diag, PEAL_ERR_IO, "%s shared-memory object %s: %s", what, name,
                     strerror(errno));
}

static peal_status fill_named(struct rt_segment *made, int fd, int sealed, peal_diag *diag)
{
    const struct rt_layout layout = made->layout;
    if (sealed && rt_segment_seal(&layout, no_token, made)) {
        ssize_t put = write(fd, &made->card, sizeof made->card);
        return put == (ssize_t)sizeof made->card ? PEAL_OK : io_error(diag, "writing", made->name);
    }
    made->counts = 1;
    if (ftruncate(fd, (off_t)layout.total) != 0)
        return io_error(diag, "sizing", made->name);
    return rt_segment_begin(made, fd, no_token) ? PEAL_OK : io_error(diag, "mapping", made->name);
}

peal_status rt_segment_create(const struct rt_layout *layout, const char *name, int sealed,
                              struct rt_segment *segment, peal_diag *diag)
{
    struct rt_segment made = {.layout = *layout, .owns_name = 1};
    peal_copy_text(made.name, sizeof made.name, name);
    int fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (fd < 0)
        return io_error(diag, errno == EEXIST ? "left over or in use:" : "creating", name);
    peal_status status = fill_named(&made, fd, sealed, diag);
    (void)close(fd);
    if (status != PEAL_OK) {
        rt_segment_unlink(&made);
        rt_segment_unmap(&made);
        return status;
    }
    *segment = made;
    return PEAL_OK;
}

/* ---- attaching */

static int same_layout(const struct rt_layout *a, const struct rt_layout *b)
{
    return a->nranks == b->nranks && a->nsems == b->nsems && a->count_bytes == b->count_bytes &&
           a->packet_bytes == b->packet_bytes && a->scratch_bytes == b->scratch_bytes &&
           a->ring_bytes == b->ring_bytes && a->ring == b->ring && a->ring_slots == b->ring_slots &&
           a->heads == b->heads && memcmp(a->cells, b->cells, sizeof a->cells) == 0 &&
           a->heap_bytes == b->heap_bytes && a->boards == b->boards && a->sems == b->sems &&
           a->counts == b->counts && a->packets == b->packets && a->scratch == b->scratch &&
           a->heap == b->heap && a->total == b->total;
}

/* Another process wrote the header: only what our own table confirms is believed. */
static peal_status check_head(const struct rt_head *head, uint64_t bytes,
                              const struct rt_layout *wanted, struct rt_layout *layout,
                              peal_diag *diag)
{
    struct rt_layout theirs = head->layout;
    struct rt_layout ours = {.nranks = wanted->nranks,
                             .nsems = wanted->nsems,
                             .count_bytes = wanted->count_bytes,
                             .packet_bytes = wanted->packet_bytes,
                             .ring_bytes = wanted->ring_bytes,
                             .ring_slots = wanted->ring_slots,
                             .scratch_bytes = wanted->scratch_bytes,
                             .heap_bytes = pages(theirs.heap_bytes)};
    if (head->version != RT_VERSION || !place(&ours) || !same_layout(&ours, &theirs) ||
        ours.total != bytes)
        return peal_fail(diag, PEAL_ERR_MISMATCH,
                         "the shared-memory object was made for another table, another number of "
                         "ranks or by another version of peal");
    *layout = ours;
    return PEAL_OK;
}

peal_status rt_segment_accept(const struct rt_layout *wanted, int fd, struct rt_segment *segment,
                              peal_diag *diag)
{
    struct stat about;
    if (fstat(fd, &about) != 0 || about.st_size < (off_t)sizeof(struct rt_head))
        return PEAL_AGAIN;
    uint64_t bytes = (uint64_t)about.st_size;
    char *base = map(bytes, fd);
    if (!base)
        return io_error(diag, "mapping", segment->name);
    struct rt_head *head = rt_head(base);
    peal_status status = PEAL_AGAIN;
    if (atomic_load_explicit(&head->magic, memory_order_acquire) == RT_MAGIC)
        status = check_head(head, bytes, wanted, &segment->layout, diag);
    if (status != PEAL_OK) {
        (void)munmap(base, (size_t)bytes);
        return status;
    }
    segment->base = base;
    return PEAL_OK;
}

/* What begins as a card does is one. Others may have put something of that name: only what this
 * user alone can write is taken. */
static peal_status attach_once(const struct rt_layout *wanted, int fd, struct rt_segment *segment,
                               peal_diag *diag)
{
    struct stat about;
    struct rt_card card;
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode) || about.st_uid != geteuid() ||
        about.st_mode & 077)
        return peal_fail(diag, PEAL_ERR_IO,
                         "the shared-memory object %s is another user's, or others may write to it",
                         segment->name);
    ssize_t got = pread(fd, &card, sizeof card, 0);
    if (got != (ssize_t)sizeof card)
        return PEAL_AGAIN;
    if (card.mark == RT_CARD)
        return rt_segment_take(wanted, &card, NULL, segment, diag);
    segment->counts = 1;
    return card.mark == RT_MAGIC ? rt_segment_accept(wanted, fd, segment, diag) : PEAL_AGAIN;
}

peal_status rt_segment_attach(const struct rt_layout *layout, const char *name, uint32_t timeout_ms,
                              struct rt_segment *segment, peal_diag *diag)
{
    uint64_t deadline = rt_now_ns() + (uint64_t)timeout_ms * 1000000u;
    for (;;) {
        struct rt_segment made = {0};
        peal_status status = PEAL_AGAIN;
        peal_copy_text(made.name, sizeof made.name, name);
        int fd = shm_open(name, O_RDWR, 0);
        if (fd < 0 && errno != ENOENT)
            return io_error(diag, "opening", name);
        if (fd >= 0) {
            status = attach_once(layout, fd, &made, diag);
            (void)close(fd);
        }
        if (status == PEAL_OK)
            *segment = made;
        if (status != PEAL_AGAIN)
            return status;
        if (rt_now_ns() > deadline)
            return peal_fail(diag, PEAL_ERR_TIMEOUT, "no shared-memory object %s after %u ms", name,
                             timeout_ms);
        rt_sleep_us(1000);
    }
}

/* Kernels before 5.14 do not know it: there a full /dev/shm is found out when it is touched. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

peal_status rt_segment_reserve(const struct rt_segment *segment, uint64_t at, uint64_t bytes,
                               peal_diag *diag)
{
    int failed;
    if (bytes == 0)
        return PEAL_OK;
    do
        failed = madvise(segment->base + at, (size_t)bytes, MADV_POPULATE_WRITE) != 0;
    while (failed && errno == EINTR);
    if (!failed || errno == EINVAL)
        return PEAL_OK;
    return peal_fail(diag, PEAL_ERR_MEMORY, "no %llu bytes of shared memory to be had%s",
                     (unsigned long long)bytes, segment->counts ? " (is /dev/shm full?)" : "");
}

peal_status rt_segment_reserve_rank(const struct rt_segment *segment, uint32_t rank,
                                    peal_diag *diag)
{
    const struct rt_layout *layout = &segment->layout;
    uint64_t packets = 2 * layout->packet_bytes;
    uint64_t scratch = 2 * layout->scratch_bytes;
    PEAL_TRY(rt_segment_reserve(segment, 0, layout->packets, diag));
    PEAL_TRY(rt_segment_reserve(segment, layout->packets + packets * rank, packets, diag));
    return rt_segment_reserve(segment, layout->scratch + scratch * rank, scratch, diag);
}

void rt_segment_unlink(struct rt_segment *segment)
{
    if (segment->owns_name)
        (void)shm_unlink(segment->name);
    segment->owns_name = 0;
    rt_card_hide(&segment->card);
}

void rt_segment_unmap(struct rt_segment *segment)
{
    if (segment->base)
        (void)munmap(segment->base, (size_t)segment->layout.total);
    segment->base = NULL;
}
