/* SPDX-License-Identifier: Apache-2.0 */
/* Two binary heaps: what happens at a known time, and groups of flows by when the first of them
 * ends. The second knows where each group is, so that a changed rate moves it. Ties go by
 * number. */
#include "model.h"

void peal_sim_append(struct peal_sim *sim, struct sim_vector32 *vector, uint32_t value)
{
    peal_status status = peal_grow(sim->ctx, (void **)&vector->at, &vector->capacity,
                                   (size_t)vector->count + 1, sizeof *vector->at, UINT32_MAX / 2);
    if (status == PEAL_OK)
        vector->at[vector->count++] = value;
    else
        sim->status = status;
}

/* ---- events */

static int due_before(const struct sim_due *a, const struct sim_due *b)
{
    return a->time < b->time || (a->time == b->time && a->order < b->order);
}

void peal_sim_push_at(struct peal_sim *sim, const struct sim_due *due)
{
    peal_status status = peal_grow(sim->ctx, (void **)&sim->due, &sim->due_capacity,
                                   (size_t)sim->dues + 1, sizeof *sim->due, UINT32_MAX / 2);
    if (status != PEAL_OK) {
        sim->status = status;
        return;
    }
    uint32_t at = sim->dues++;
    while (at > 0 && due_before(due, &sim->due[(at - 1) / 2])) {
        sim->due[at] = sim->due[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    sim->due[at] = *due;
}

void peal_sim_push(struct peal_sim *sim, uint64_t time, enum sim_what what, uint32_t a)
{
    peal_sim_push_at(sim, &(struct sim_due){time, ++sim->order, what, a});
}

struct sim_due peal_sim_pop(struct peal_sim *sim)
{
    struct sim_due top = sim->due[0], last = sim->due[--sim->dues];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= sim->dues)
            break;
        if (child + 1 < sim->dues && due_before(&sim->due[child + 1], &sim->due[child]))
            child++;
        if (!due_before(&sim->due[child], &last))
            break;
        sim->due[at] = sim->due[child];
        at = child;
    }
    sim->due[at] = last;
    return top;
}

/* ---- groups of flows */

static int ends_before(const struct peal_sim *sim, uint32_t a, uint32_t b)
{
    uint64_t x = sim->group[a].finish, y = sim->group[b].finish;
    return x < y || (x == y && sim->group[a].head < sim->group[b].head);
}

static void place(struct peal_sim *sim, uint32_t at, uint32_t group)
{
    sim->heap.at[at] = group;
    sim->group[group].heap_at = at;
}

static uint32_t rise(struct peal_sim *sim, uint32_t at, uint32_t group)
{
    while (at > 0 && ends_before(sim, group, sim->heap.at[(at - 1) / 2])) {
        place(sim, at, sim->heap.at[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    return at;
}

static uint32_t sink(struct peal_sim *sim, uint32_t at, uint32_t group)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= sim->heap.count)
            return at;
        if (child + 1 < sim->heap.count &&
            ends_before(sim, sim->heap.at[child + 1], sim->heap.at[child]))
            child++;
        if (!ends_before(sim, sim->heap.at[child], group))
            return at;
        place(sim, at, sim->heap.at[child]);
        at = child;
    }
}

void peal_sim_heap_put(struct peal_sim *sim, uint32_t group)
{
    if (sim->group[group].heap_at == SIM_NONE) {
        peal_sim_append(sim, &sim->heap, group);
        if (sim->status != PEAL_OK)
            return;
        sim->group[group].heap_at = sim->heap.count - 1;
    }
    uint32_t at = rise(sim, sim->group[group].heap_at, group);
    place(sim, sink(sim, at, group), group);
}

void peal_sim_heap_remove(struct peal_sim *sim, uint32_t group)
{
    uint32_t at = sim->group[group].heap_at;
    if (at == SIM_NONE)
        return;
    uint32_t last = sim->heap.at[--sim->heap.count];
    sim->group[group].heap_at = SIM_NONE;
    if (last == group)
        return;
    at = rise(sim, at, last);
    place(sim, sink(sim, at, last), last);
}
