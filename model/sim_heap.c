/* SPDX-License-Identifier: Apache-2.0 */
/* What happens next: events at a known time, in rows and a binary heap, and a heap of groups of
 * flows by when the first of them ends, which knows where each group is, so that a changed rate
 * moves it. Ties go by number. */
#include "model.h"

void peal_sim_append_more(struct peal_sim *sim, struct sim_vector32 *vector, uint32_t value)
{
    peal_status status = peal_grow(sim->ctx, (void **)&vector->at, &vector->capacity,
                                   (size_t)vector->count + 1, sizeof *vector->at, UINT32_MAX / 2);
    if (status == PEAL_OK)
        vector->at[vector->count++] = value;
    else
        sim->status = status;
}

/* ---- events: most come a fixed time after now (a gap, a start-up), so those of one such time come
 * in order, and a row is enough for them */

static int due_before(const struct sim_due *a, const struct sim_due *b)
{
    return a->time < b->time || (a->time == b->time && a->order < b->order);
}

static const struct sim_due never = {SIM_NEVER, UINT64_MAX, 0, 0};

void peal_sim_dues_open(struct peal_sim *sim)
{
    for (uint32_t i = 0; i <= SIM_ROWS; i++)
        sim->next[i] = never;
}

void peal_sim_dues_free(struct peal_sim *sim)
{
    for (uint32_t i = 0; i < SIM_ROWS; i++) {
        peal_free(sim->ctx, sim->row[i].at, sim->row[i].room * sizeof *sim->row[i].at);
        sim->row[i] = (struct sim_row){NULL, 0, 0, 0, 0};
    }
    peal_free(sim->ctx, sim->due, sim->due_capacity * sizeof *sim->due);
    sim->due = NULL;
    sim->due_capacity = 0;
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
    sim->next[SIM_ROWS] = sim->due[0];
}

static int grow_row(struct peal_sim *sim, struct sim_row *row)
{
    uint32_t room = row->room ? 2 * row->room : 64;
    struct sim_due *at = peal_calloc(sim->ctx, room, sizeof *at);
    if (!at) {
        sim->status = PEAL_ERR_MEMORY;
        return 0;
    }
    for (uint32_t i = 0; i < row->count; i++)
        at[i] = row->at[(row->first + i) & (row->room - 1)];
    peal_free(sim->ctx, row->at, row->room * sizeof *at);
    row->at = at;
    row->first = 0;
    row->room = room;
    return 1;
}

void peal_sim_push(struct peal_sim *sim, uint64_t time, enum sim_what what, uint32_t a)
{
    struct sim_due due = {time, ++sim->order, what, a};
    uint64_t hash = (time - sim->now) * 0x9E3779B97F4A7C15ull;
    uint32_t index = (uint32_t)(hash >> 32) % SIM_ROWS;
    struct sim_row *row = &sim->row[index];
    if (row->count && time < row->last) {
        peal_sim_push_at(sim, &due);
        return;
    }
    if (row->count == row->room && !grow_row(sim, row))
        return;
    row->at[(row->first + row->count) & (row->room - 1)] = due;
    row->last = time;
    if (row->count++ == 0)
        sim->next[index] = due;
}

uint32_t peal_sim_first(const struct peal_sim *sim)
{
    uint32_t first = SIM_ROWS;
    for (uint32_t i = 0; i < SIM_ROWS; i++)
        first = due_before(&sim->next[i], &sim->next[first]) ? i : first;
    return first;
}

static void sink_due(struct peal_sim *sim)
{
    struct sim_due last = sim->due[--sim->dues];
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
}

/* Lanes are woken out of order, and a large plan's are more than a cache holds: what the events
 * behind this one will look at is asked for now. */
static void ask_for(const struct peal_sim *sim, uint32_t far, uint32_t near)
{
    peal_sim_soon(&sim->lane[far]);
    peal_sim_soon(&sim->step[sim->lane[near].at]);
}

static void look_ahead_due(const struct peal_sim *sim)
{
    if (sim->dues > 2 && sim->due[0].what == EV_SIGNAL && sim->due[1].what == EV_SIGNAL) {
        ask_for(sim, sim->due[1].a, sim->due[0].a);
        if (sim->due[2].what == EV_SIGNAL)
            peal_sim_soon(&sim->lane[sim->due[2].a]);
    }
}

static void look_ahead(const struct peal_sim *sim, const struct sim_row *row)
{
    const struct sim_due *far = &row->at[(row->first + 4) & (row->room - 1)];
    const struct sim_due *near = &row->at[(row->first + 2) & (row->room - 1)];
    if (row->count < 5 || far->what != near->what)
        return;
    if (far->what == EV_LANE) {
        ask_for(sim, far->a, near->a);
        const struct sim_due *next = &row->at[row->first];
        if (next->what == EV_LANE)
            peal_sim_soon_sem(sim, &sim->step[sim->lane[next->a].at]);
    } else if (far->what == EV_DELIVERED || far->what == EV_START) {
        peal_sim_soon(&sim->flow[far->a]);
        peal_sim_soon(&sim->record[sim->flow[near->a].record]);
    }
}

struct sim_due peal_sim_pop(struct peal_sim *sim, uint32_t first)
{
    struct sim_due top = sim->next[first];
    if (first == SIM_ROWS) {
        sink_due(sim);
        sim->next[first] = sim->dues ? sim->due[0] : never;
        look_ahead_due(sim);
        return top;
    }
    struct sim_row *row = &sim->row[first];
    row->first = (row->first + 1) & (row->room - 1);
    sim->next[first] = --row->count ? row->at[row->first] : never;
    look_ahead(sim, row);
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
