/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines by RDMA: a queue pair each, in which everything is a write and so in order: data, the words
 * of semaphores and counts behind it, and the place of this rank's output, which goes when it
 * changes. The device knows the arena by a dma-buf of it or, where the driver gives none, by the
 * kernel's peer memory (nvidia-peermem), which makes of a device's address one like any other.
 */
#include "clock.h"
#include "cuda_far.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LAST_NS 100000000u /* for what is under way when the comm ends */

/* ---- a device that knows this rank's memory */

static int by_dmabuf(const struct peal_cuda_comm *comm, struct rdma_nic *nic,
                     struct rdma_region *region)
{
    const struct cuda_calls *call = &comm->cuda->call;
    char *at = (char *)(uintptr_t)comm->arena.at;
    int fd = -1;
    if (!comm->about.dma_buf || !call->range_handle ||
        call->range_handle(&fd, comm->arena.at, comm->arena.bytes, CU_RANGE_DMA_BUF, 0) !=
            CU_SUCCESS)
        return 0;
    int known = nic->ops->region_dmabuf(nic, fd, at, comm->arena.bytes, region);
    (void)close(fd);
    return known;
}

int cuda_rdma_arena(const struct peal_cuda_comm *comm, struct rdma_nic *nic,
                    struct rdma_region *region)
{
    const struct cuda_block *arena = &comm->arena;
    return by_dmabuf(comm, nic, region) ||
           nic->ops->region(nic, (char *)(uintptr_t)arena->at, arena->bytes, region);
}

const char *cuda_rdma_unordered(const struct peal_cuda_comm *comm)
{
    int flushed = comm->params.zero_sm && comm->wait_flags & CU_WAIT_FLUSH;
    return comm->ordered || flushed ? NULL : "the GPU does not see a NIC's writes in their order";
}

static int make_pairs(struct cuda_far *far)
{
    for (uint32_t i = 0; i < far->nlines; i++) {
        struct cuda_line *line = &far->lines[i];
        if (!far->nic->ops->pair(far->nic, RDMA_SENDS, 1, &line->pair, &line->mine))
            return 0;
    }
    return 1;
}

static struct rdma_nic *open_nic(struct cuda_far *far, const peal_table *table)
{
    const struct peal_cuda_comm *comm = far->comm;
    const struct rt_job *job = comm->host->world->job;
    const struct plan_rank *rank = peal_plan_program(table->rows[0].plan, comm->rank);
    struct rdma_ask ask = {.chosen = job->rdma,
                           .plan = rank ? rank->nic : "",
                           .busid = comm->about.busid,
                           .pairs = far->nlines,
                           .entries = RDMA_SENDS + 1};
    if (!(comm->host->engines & 1u << PEAL_ENGINE_RDMA) || far->nlines == 0)
        return NULL;
    const char *why =
        peal_streq(job->rdma, "off") ? "it was told not to" : cuda_rdma_unordered(comm);
    if (why) {
        peal_copy_text(far->why, sizeof far->why, why);
        return NULL;
    }
    for (uint32_t r = 0; r < comm->rank; r++)
        ask.turn += rt_job_near(job, r, comm->rank) != 0;
    return rdma_open(comm->ctx, &ask, far->why, sizeof far->why);
}

void cuda_rdma_open(struct cuda_far *far, const peal_table *table)
{
    far->nic = open_nic(far, table);
    if (!far->nic)
        return;
    const char *lacks = NULL;
    if (!cuda_rdma_arena(far->comm, far->nic, &far->arena))
        lacks = "does not take device memory (no dma-buf of it, and no nvidia-peermem)";
    else if (!far->nic->ops->region(far->nic, far->pinned, far->pinned_bytes, &far->own) ||
             !make_pairs(far))
        lacks = "has no room for it (locked memory: ulimit -l)";
    if (!lacks)
        return;
    (void)snprintf(far->why, sizeof far->why, "%.40s %s", far->nic->name, lacks);
    cuda_rdma_close(far);
}

static void drop_pair(struct cuda_far *far, struct cuda_line *line)
{
    if (line->pair)
        far->nic->ops->unpair(far->nic, line->pair);
    line->pair = NULL;
}

static void drop_region(struct cuda_far *far, struct rdma_region *region)
{
    if (region->bytes)
        far->nic->ops->unregion(far->nic, region);
    *region = (struct rdma_region){0};
}

static int is_over(const struct cuda_far *far)
{
    for (uint32_t i = 0; i < far->nlines; i++)
        if (far->lines[i].pair && !far->lines[i].broken &&
            far->lines[i].posted != far->lines[i].done)
            return 0;
    return 1;
}

void cuda_rdma_close(struct cuda_far *far)
{
    uint64_t until = rt_now_ns() + LAST_NS;
    if (!far->nic)
        return;
    while (!is_over(far) && rt_now_ns() < until)
        if (cuda_rdma_poll(far) == 0)
            rt_sleep_us(100);
    for (uint32_t i = 0; i < far->nlines; i++)
        drop_pair(far, &far->lines[i]);
    drop_region(far, &far->arena);
    drop_region(far, &far->own);
    far->nic->ops->close(far->nic);
    far->nic = NULL;
}

/* ---- telling each other */

/* Of a rank to all; behind it, of each of their lines the end, and whether it writes to that
 * rank's output. */
struct hello {
    uint64_t arena;
    uint64_t places;
    uint32_t arena_key;
    uint32_t places_key;
    uint32_t has;
    uint32_t zero;
};

struct hello_line {
    struct rdma_end end;
    uint32_t writes;
};

static size_t hello_bytes(const struct cuda_far *far)
{
    return sizeof(struct hello) + far->comm->nranks * sizeof(struct hello_line);
}

static struct hello_line *line_in(char *hello, uint32_t rank)
{
    return (struct hello_line *)(void *)(hello + sizeof(struct hello)) + rank;
}

static void fill_hello(const struct cuda_far *far, char *to)
{
    struct hello *hello = (struct hello *)(void *)to;
    if (!far->nic)
        return;
    *hello = (struct hello){.arena = (uint64_t)(uintptr_t)far->arena.at,
                            .places = (uint64_t)(uintptr_t)far->places,
                            .arena_key = far->arena.peer_key,
                            .places_key = far->own.peer_key,
                            .has = 1};
    for (uint32_t i = 0; i < far->nlines; i++)
        *line_in(to, far->lines[i].rank) =
            (struct hello_line){far->lines[i].mine, far->lines[i].writes};
}

static int join_line(struct cuda_far *far, struct cuda_line *line, char *from)
{
    const struct hello *hello = (const struct hello *)(const void *)from;
    const struct hello_line *there = line_in(from, far->comm->rank);
    if (!hello->has) {
        (void)snprintf(far->why, sizeof far->why, "rank %u on %s has none", line->rank,
                       peal_world_host(far->comm->host->world, line->rank));
        return 0;
    }
    line->arena = hello->arena;
    line->arena_key = hello->arena_key;
    line->places = hello->places;
    line->places_key = hello->places_key;
    line->written = there->writes != 0;
    return far->nic->ops->join(far->nic, line->pair, &line->mine, &there->end);
}

/* Both ends of a line, or neither. */
static peal_status confirm(struct cuda_far *far, uint8_t *joined, peal_diag *diag)
{
    const struct peal_cuda_comm *comm = far->comm;
    size_t n = comm->nranks;
    uint8_t *all = peal_calloc(comm->ctx, n, n);
    if (!all)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    peal_status status = rt_job_exchange(comm->host->world->job, joined, n, all, diag);
    for (uint32_t i = 0; i < far->nlines && status == PEAL_OK; i++) {
        struct cuda_line *line = &far->lines[i];
        if (joined[line->rank] && all[line->rank * n + comm->rank])
            continue;
        if (line->pair && !far->why[0])
            (void)snprintf(far->why, sizeof far->why, "no queue pair with rank %u on %s",
                           line->rank, peal_world_host(comm->host->world, line->rank));
        drop_pair(far, line);
    }
    peal_free(comm->ctx, all, n * n);
    return status;
}

static peal_status say_and_join(struct cuda_far *far, char *mine, char *all, uint8_t *joined,
                                peal_diag *diag)
{
    size_t bytes = hello_bytes(far);
    fill_hello(far, mine);
    PEAL_TRY(rt_job_exchange(far->comm->host->world->job, mine, bytes, all, diag));
    for (uint32_t i = 0; i < far->nlines; i++) {
        struct cuda_line *line = &far->lines[i];
        if (line->pair)
            joined[line->rank] = (uint8_t)join_line(far, line, all + line->rank * bytes);
    }
    return confirm(far, joined, diag);
}

peal_status cuda_rdma_join(struct cuda_far *far, peal_diag *diag)
{
    peal_ctx *ctx = far->comm->ctx;
    size_t n = far->comm->nranks, bytes = hello_bytes(far);
    char *mine = peal_calloc(ctx, 1, bytes), *all = peal_calloc(ctx, n, bytes);
    uint8_t *joined = peal_calloc(ctx, n, 1);
    peal_status status = mine && all && joined ? say_and_join(far, mine, all, joined, diag)
                                               : peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    peal_free(ctx, mine, bytes);
    peal_free(ctx, all, n * bytes);
    peal_free(ctx, joined, n);
    return status;
}

/* ---- works */

static void lose(struct cuda_far *far, struct cuda_line *line, enum rdma_how how)
{
    if (line->broken)
        return;
    line->broken = (uint8_t)how;
    line->broken_ns = rt_now_ns();
    far->nic->ops->fail(far->nic, line->pair);
}

/* Only the last work of a post is told of: completions come in order. */
static void post_batch(struct cuda_far *far, struct cuda_line *line)
{
    uint32_t count = line->batched;
    if (count == 0)
        return;
    line->batch[count - 1].told = 1;
    line->batched = 0;
    if (far->nic->ops->post(far->nic, line->pair, line->batch, count) != count)
        lose(far, line, RDMA_BROKEN);
}

static int has_room(const struct cuda_line *line)
{
    return !line->broken && line->posted - line->done < RDMA_SENDS;
}

static void add_work(struct cuda_far *far, struct cuda_line *line, struct rdma_work work,
                     struct cuda_flight flight)
{
    work.op = RDMA_WRITE;
    work.id = (uint64_t)cuda_line_index(far, line) << 32 | line->posted;
    line->flight[line->posted++ % RDMA_SENDS] = flight;
    line->batch[line->batched++] = work;
    if (line->batched == RDMA_POST_MAX)
        post_batch(far, line);
}

/* The word stays where it is until the work is done. */
static void add_word(struct cuda_far *far, struct cuda_line *line, uint64_t word, uint32_t bytes,
                     uint64_t to, uint32_t key)
{
    uint64_t *from = &line->words[line->posted % RDMA_SENDS];
    *from = word;
    add_work(far, line,
             (struct rdma_work){.from = (const char *)from,
                                .bytes = bytes,
                                .copied = bytes <= far->nic->inline_bytes,
                                .own_key = far->own.own_key,
                                .to = to,
                                .peer_key = key},
             (struct cuda_flight){NULL, CUDA_SLOTS});
}

/* ---- places */

/* Where the other's output is in the call of the item; 0: it has not told. */
static int find_output(const struct cuda_far *far, const struct cuda_line *line,
                       const struct cuda_item *item, uint64_t *offset)
{
    uint64_t word = __atomic_load_n(&far->places[line->rank], __ATOMIC_ACQUIRE);
    *offset = word & ((1ull << DEV_PLACE_BITS) - 1);
    return word >> DEV_PLACE_BITS == (item->call & 0xffffu);
}

int cuda_rdma_knows(const struct cuda_far *far, const struct cuda_line *line,
                    const struct cuda_item *item)
{
    uint64_t offset;
    return !item->to_out || find_output(far, line, item, &offset);
}

/* Bytes beyond the other's arena its device would refuse; those that are not its heap's are refused
 * here. */
static int find_place(struct cuda_far *far, struct cuda_line *line, const struct cuda_item *item,
                      uint32_t bytes, uint64_t *to)
{
    const struct peal_cuda_comm *comm = far->comm;
    uint64_t offset = 0;
    if (item->to_out && !find_output(far, line, item, &offset))
        return 0;
    uint64_t skip = item->dst + item->put;
    *to = line->arena + offset + skip;
    if (!item->to_out ||
        (offset >= comm->heap && offset <= comm->heap_end && skip <= comm->heap_end - offset &&
         bytes <= comm->heap_end - offset - skip))
        return 1;
    lose(far, line, RDMA_REFUSED);
    return 0;
}

int cuda_rdma_part(struct cuda_far *far, struct cuda_line *line, uint32_t slot, uint32_t bytes)
{
    const struct cuda_item *item = &line->items[line->head % CUDA_LINE];
    struct rdma_work work = {.bytes = bytes, .peer_key = line->arena_key};
    if (!has_room(line) || !find_place(far, line, item, bytes, &work.to))
        return 0;
    if (slot == CUDA_SLOTS) {
        work.from = (const char *)(uintptr_t)(item->src + item->put);
        work.own_key = far->arena.own_key;
    } else {
        work.from = far->slots[slot].at;
        work.own_key = far->own.own_key;
    }
    add_work(far, line, work, (struct cuda_flight){item->transfer, slot});
    return 1;
}

int cuda_rdma_word(struct cuda_far *far, struct cuda_line *line)
{
    const struct cuda_item *item = &line->items[line->head % CUDA_LINE];
    if (!has_room(line))
        return 0;
    add_word(far, line, item->word, item->half ? 4 : 8, line->arena + item->dst, line->arena_key);
    return 1;
}

/* ---- going on */

static void tell_place(struct cuda_far *far, struct cuda_line *line)
{
    if (!line->owes || !has_room(line))
        return;
    line->owes = 0;
    add_word(far, line, far->place, sizeof far->place,
             line->places + far->comm->rank * sizeof *far->places, line->places_key);
}

void cuda_rdma_flush(struct cuda_far *far, struct cuda_line *line)
{
    tell_place(far, line);
    if (!line->broken)
        post_batch(far, line);
}

static void end_flight(struct cuda_far *far, const struct cuda_flight *flight)
{
    if (!flight->transfer)
        return;
    int direct = flight->slot == CUDA_SLOTS;
    cuda_far_part(far, flight->transfer, direct, 1);
    if (!direct)
        far->slots[flight->slot].transfer = NULL;
}

static void complete(struct cuda_far *far, const struct rdma_done *done)
{
    struct cuda_line *line = &far->lines[done->id >> 32];
    uint32_t number = (uint32_t)done->id;
    if (done->how != RDMA_FINE) {
        lose(far, line, (enum rdma_how)done->how);
        return;
    }
    while ((int32_t)(number - line->done) >= 0)
        end_flight(far, &line->flight[line->done++ % RDMA_SENDS]);
}

static void look_at_output(struct cuda_far *far)
{
    uint64_t place = __atomic_load_n(&far->comm->port->place, __ATOMIC_ACQUIRE);
    if (place == far->place)
        return;
    far->place = place;
    for (uint32_t i = 0; i < far->nlines; i++)
        far->lines[i].owes = far->lines[i].pair && far->lines[i].written;
}

uint32_t cuda_rdma_poll(struct cuda_far *far)
{
    struct rdma_done done[RDMA_POST_MAX];
    if (!far->nic)
        return 0;
    look_at_output(far);
    int count = far->nic->ops->poll(far->nic, done, RDMA_POST_MAX);
    for (int i = 0; i < count; i++)
        complete(far, &done[i]);
    return count > 0 ? (uint32_t)count : 0;
}
