/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One unit of SimGrid's time is a microsecond here, so that its precision (1e-9 of a unit) is far
 * below anything that matters. Start-ups are sleeps, not latencies of links: those would give
 * flows shares by round-trip time. Only one actor runs at a time, so they share plain memory.
 */
#include "simgrid_run.h"

#include <math.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PARTS_MAX 64 /* of a flow's weight on a resource */

struct shape { /* a route: flows that load the same resources, with the same cap */
    const struct sim_need *need;
    sg_host_t host;
};

struct event {
    int busy; /* its source may still be read */
    int undelivered;
    struct notice *behind; /* signals */
};

struct lane {
    uint32_t rank, index;
    uint32_t trip;
    uint32_t at; /* of the steps of all ranks, the one under way */
    double next_issue;
    sg_sem_t wake;
    struct event event[PLAN_EVENTS_MAX];
};

struct sem {
    uint8_t *raised; /* of each signal */
    uint32_t issued, arrived, waits, room;
    struct lane *waiter;
};

struct slot {
    int begun, ended;
    struct lane *waiter;
};

struct turn {
    int over;
    struct lane *waiter;
};

struct queue {
    double next;
    struct turn *turns; /* in the order of peal's run */
    uint32_t turn, nturns;
    sg_sem_t engines; /* copy engines: so many at a time */
};

struct notice { /* something that happens later, or behind a transfer */
    double delay;
    struct sem *sem;
    uint32_t number;
    const struct plan_step *step; /* packets */
    const struct plan_operand *operands;
    uint32_t trip;
    int ended;
    struct notice *next;
};

struct transfer {
    struct lane *lane;
    const struct sim_need *need;
    struct event *event;
    uint64_t bytes;
    double start;
};

struct put { /* no code: a semaphore to release */
    xbt_main_func_t code;
    void *data;
};

static const struct peal_sim *sim;
static const struct peal_plan *plan;
static struct shape *shapes;
static uint32_t nshapes;
static uint32_t *shape_of; /* of each need */
static double *unit;       /* of each resource: weights are multiples of it */
static struct lane *lanes;
static struct sem *sems;
static struct slot *slots;
static struct queue *queues;
static sg_host_t sink;
static uint32_t *turn_of; /* of each step and trip */
static struct put *put;
static uint32_t nput, put_room;
static uint32_t lanes_over;

static void *room(size_t count, size_t bytes)
{
    void *memory = calloc(count ? count : 1, bytes);
    if (!memory)
        abort();
    return memory;
}

static double us(uint64_t ps)
{
    return (double)ps * 1e-6;
}

/* ---- the platform */

/* NULL: the step takes nothing. */
static const struct sim_need *need_of(const struct sim_step *step)
{
    switch ((enum sim_does)step->does) {
    case SIM_MOVES:
    case SIM_ISSUES:
        return &sim->need[step->need];
    case SIM_SIGNALS:
        return &sim->need[sim->sem_key[step->sem].need];
    default:
        return NULL;
    }
}

static int same_shape(const struct sim_need *a, const struct sim_need *b)
{
    if (a->uses != b->uses || a->cap < b->cap || a->cap > b->cap)
        return 0;
    for (uint32_t u = 0; u < a->uses; u++) {
        const struct sim_use *x = &sim->use[a->first_use + u], *y = &sim->use[b->first_use + u];
        if (x->resource != y->resource || x->weight < y->weight || x->weight > y->weight)
            return 0;
    }
    return 1;
}

static void find_shapes(void)
{
    shapes = room(sim->needs, sizeof *shapes);
    shape_of = room(sim->needs, sizeof *shape_of);
    for (uint32_t n = 0; n < sim->needs; n++) {
        uint32_t s = 0;
        while (s < nshapes && !same_shape(shapes[s].need, &sim->need[n]))
            s++;
        if (s == nshapes && sim->need[n].uses)
            shapes[nshapes++].need = &sim->need[n];
        shape_of[n] = s;
    }
}

static double parts_of(const struct sim_use *use)
{
    return use->weight / unit[use->resource];
}

/* SimGrid's flows load a link once for each time that their route names it: weights are made
 * whole numbers, and bandwidths what is right for those. */
static void find_units(void)
{
    unit = room(sim->resources, sizeof *unit);
    for (uint32_t u = 0; u < sim->uses; u++) {
        double *least = &unit[sim->use[u].resource];
        if (*least <= 0 || sim->use[u].weight < *least)
            *least = sim->use[u].weight;
    }
    for (uint32_t u = 0; u < sim->uses; u++) {
        const struct sim_use *use = &sim->use[u];
        double whole = unit[use->resource];
        for (int parts = 1; parts <= PARTS_MAX; parts++) {
            unit[use->resource] = whole / parts;
            if (fabs(parts_of(use) - round(parts_of(use))) < 1e-6)
                break;
        }
    }
}

static void write_route(FILE *out, uint32_t s)
{
    const struct sim_need *need = shapes[s].need;
    fprintf(out, "<route src=\"h%u\" dst=\"sink\" symmetrical=\"NO\"><link_ctn id=\"cap%u\"/>", s,
            s);
    for (uint32_t u = 0; u < need->uses; u++) {
        const struct sim_use *use = &sim->use[need->first_use + u];
        double parts = parts_of(use);
        if (fabs(parts - round(parts)) > 1e-6 || parts > PARTS_MAX * 4) {
            fprintf(stderr, "a weight of %g parts cannot be expressed\n", parts);
            exit(1);
        }
        for (double part = 0.5; part < parts; part++)
            fprintf(out, "<link_ctn id=\"r%u\"/>", use->resource);
    }
    fprintf(out, "</route>\n");
}

static void write_platform(FILE *out)
{
    fprintf(out, "<?xml version='1.0'?>\n"
                 "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
                 "<platform version=\"4.1\"><zone id=\"all\" routing=\"Full\">\n");
    for (uint32_t s = 0; s < nshapes; s++)
        fprintf(out, "<host id=\"h%u\" speed=\"1f\"/>\n", s);
    fprintf(out, "<host id=\"sink\" speed=\"1f\"/>\n");
    for (uint32_t r = 0; r < sim->resources; r++)
        if (unit[r] > 0)
            fprintf(out, "<link id=\"r%u\" bandwidth=\"%.17gBps\" latency=\"0s\"/>\n", r,
                    sim->resource[r].capacity * 1e6 / unit[r]);
    for (uint32_t s = 0; s < nshapes; s++)
        fprintf(out,
                "<link id=\"cap%u\" bandwidth=\"%.17gBps\" latency=\"0s\" "
                "sharing_policy=\"FATPIPE\"/>\n",
                s, shapes[s].need->cap * 1e6);
    for (uint32_t s = 0; s < nshapes; s++)
        write_route(out, s);
    fprintf(out, "</zone></platform>\n");
}

static void load_platform(void)
{
    char path[] = "/tmp/peal-simgrid-XXXXXX.xml";
    int file = mkstemps(path, 4);
    FILE *out = file < 0 ? NULL : fdopen(file, "w");
    if (!out)
        abort();
    write_platform(out);
    fclose(out);
    simgrid_load_platform(path);
    unlink(path);
    for (uint32_t s = 0; s < nshapes; s++) {
        char name[16];
        snprintf(name, sizeof name, "h%u", s);
        shapes[s].host = sg_host_by_name(name);
    }
    sink = sg_host_by_name("sink");
}

/* What an actor brings about without standing still is put off until it does: a call of SimGrid's
 * would let others go on between two steps that follow each other at once. */
static void put_off(xbt_main_func_t code, void *data)
{
    if (nput == put_room) {
        put_room = put_room ? 2 * put_room : 64;
        put = realloc(put, put_room * sizeof *put);
        if (!put)
            abort();
    }
    put[nput++] = (struct put){code, data};
}

static void start(xbt_main_func_t code, void *data)
{
    const char *name = "peal";
    const char *const argv[] = {name, NULL};
    sg_actor_t actor = sg_actor_init(name, sink);
    sg_actor_set_data(actor, data);
    sg_actor_start_(actor, code, 1, argv);
}

static void catch_up(void)
{
    static uint32_t next;
    while (next < nput) {
        struct put p = put[next++];
        if (p.code)
            start(p.code, p.data);
        else
            sg_sem_release(p.data);
    }
    next = nput = 0;
}

static void rest(double time)
{
    catch_up();
    sg_actor_sleep_for(time);
}

static void rest_until(double time)
{
    catch_up();
    sg_actor_sleep_until(time);
}

static void carry(const struct sim_need *need, uint64_t bytes)
{
    if (!bytes)
        return;
    catch_up();
    if (!need->uses)
        rest((double)bytes / (need->cap * 1e6));
    else
        sg_host_sendto(shapes[shape_of[need - sim->need]].host, sink, (double)bytes);
}

/* ---- what happens later */

static void wake(struct lane *lane)
{
    if (lane)
        put_off(NULL, lane->wake);
}

static void stand(struct lane *lane)
{
    catch_up();
    sg_sem_acquire(lane->wake);
}

static struct slot *slot_of(const struct plan_operand *operand, uint32_t trip)
{
    const struct plan_region *region = &plan->regions[operand->index];
    return &slots[operand->rank * sim->slots + sim->region_first[operand->index] +
                  (uint64_t)(trip % region->depth) * region->width + operand->slot];
}

/* Signals of a semaphore arrive in the order in which they were issued. */
static void raise_one(struct sem *sem, uint32_t number)
{
    sem->raised[number] = 1;
    while (sem->arrived < sem->issued && sem->raised[sem->arrived])
        sem->arrived++;
    wake(sem->waiter);
}

static void packets_come(const struct notice *n)
{
    for (uint32_t i = n->step->nsrc; i < (uint32_t)n->step->nsrc + n->step->ndst; i++) {
        if (n->operands[i].buffer != PLAN_BUF_PACKET)
            continue;
        struct slot *slot = slot_of(&n->operands[i], n->trip);
        slot->begun = 1;
        slot->ended |= n->ended;
        wake(slot->waiter);
    }
}

static void happen(const struct notice *n)
{
    if (n->sem)
        raise_one(n->sem, n->number);
    else
        packets_come(n);
}

static void notice_actor(int argc, char **argv)
{
    struct notice *n = sg_actor_self_get_data();
    (void)argc, (void)argv;
    rest(n->delay);
    happen(n);
    free(n);
    catch_up();
}

static void later(const struct notice *what)
{
    if (what->delay <= 0) {
        happen(what);
        return;
    }
    struct notice *n = room(1, sizeof *n);
    *n = *what;
    put_off(notice_actor, n);
}

/* ---- transfers by other engines */

static void transfer_actor(int argc, char **argv)
{
    struct transfer *t = sg_actor_self_get_data();
    struct queue *queue = &queues[t->need->queue];
    (void)argc, (void)argv;
    rest_until(t->start);
    if (queue->engines)
        sg_sem_acquire(queue->engines);
    carry(t->need, t->bytes);
    if (queue->engines)
        sg_sem_release(queue->engines);
    t->event->busy = 0;
    wake(t->lane);
    rest(us(t->need->alpha));
    t->event->undelivered = 0;
    while (t->event->behind) {
        struct notice *n = t->event->behind;
        t->event->behind = n->next;
        happen(n);
        free(n);
    }
    wake(t->lane);
    free(t);
    catch_up();
}

static uint32_t turn_at(const struct lane *lane)
{
    return turn_of[(size_t)lane->at * sim->trips + lane->trip];
}

/* Lanes that come to an engine's queue at the same instant may be taken in any order, and much
 * follows from it: here it is the order of peal's run. To come too early for it costs time, which
 * shows. */
static void await_turn(struct lane *lane, const struct sim_need *need)
{
    struct queue *queue = &queues[need->queue];
    uint32_t own = turn_at(lane);
    while (queue->turn < own) {
        queue->turns[own].waiter = lane;
        stand(lane);
    }
}

static void end_turn(const struct lane *lane, const struct sim_need *need)
{
    struct queue *queue = &queues[need->queue];
    queue->turns[turn_at(lane)].over = 1;
    while (queue->turn < queue->nturns && queue->turns[queue->turn].over)
        queue->turn++;
    if (queue->turn < queue->nturns)
        wake(queue->turns[queue->turn].waiter);
}

/* When the engine takes it up: one gap after the one before. */
static double taken_up(struct lane *lane, const struct sim_need *need)
{
    struct queue *queue = &queues[need->queue];
    await_turn(lane, need);
    end_turn(lane, need);
    double now = simgrid_get_clock(), at = queue->next > now ? queue->next : now;
    queue->next = at + us(need->gap);
    return at;
}

static void issue(struct lane *lane, const struct plan_step *step, const struct sim_need *need,
                  uint64_t bytes)
{
    struct event *event = &lane->event[step->event];
    while (event->undelivered)
        stand(lane);
    event->busy = event->undelivered = 1;
    struct transfer *t = room(1, sizeof *t);
    *t = (struct transfer){lane, need, event, bytes, taken_up(lane, need) + us(need->latency)};
    put_off(transfer_actor, t);
}

/* ---- steps of the lane itself */

static void packets_there(struct lane *lane, const struct plan_step *step,
                          const struct plan_operand *operands, int ended)
{
    for (uint32_t i = 0; i < step->nsrc; i++) {
        if (operands[i].buffer != PLAN_BUF_PACKET)
            continue;
        struct slot *slot = slot_of(&operands[i], lane->trip);
        slot->waiter = lane;
        while (!(ended ? slot->ended : slot->begun))
            stand(lane);
        slot->waiter = NULL;
    }
}

static void send_packets(const struct lane *lane, const struct plan_step *step,
                         const struct plan_operand *operands, const struct sim_need *need,
                         int ended)
{
    int any = 0;
    for (uint32_t i = step->nsrc; i < (uint32_t)step->nsrc + step->ndst; i++)
        any |= operands[i].buffer == PLAN_BUF_PACKET;
    struct notice n = {.delay = us(need->alpha),
                       .step = step,
                       .operands = operands,
                       .trip = lane->trip,
                       .ended = ended};
    if (any)
        later(&n);
}

static void move(struct lane *lane, const struct plan_step *step,
                 const struct plan_operand *operands, const struct sim_need *need, uint64_t bytes)
{
    packets_there(lane, step, operands, 0);
    if (need->message && simgrid_get_clock() < lane->next_issue)
        rest_until(lane->next_issue);
    if (need->latency && bytes)
        rest(us(need->latency));
    double not_before = simgrid_get_clock() + us(need->gap);
    if (need->message)
        lane->next_issue = not_before + us(need->message);
    send_packets(lane, step, operands, need, 0);
    carry(need, bytes);
    if (simgrid_get_clock() < not_before)
        rest_until(not_before);
    send_packets(lane, step, operands, need, 1);
    packets_there(lane, step, operands, 1);
    for (uint32_t i = 0; i < step->nsrc; i++)
        if (operands[i].buffer == PLAN_BUF_PACKET)
            slot_of(&operands[i], lane->trip)->begun = slot_of(&operands[i], lane->trip)->ended = 0;
}

/* ---- semaphores */

static void tell(struct lane *lane, const struct plan_step *step, const struct sim_need *need)
{
    struct sem *sem = &sems[sim->step[lane->at].sem];
    if (need->queue == SIM_NONE && need->gap && simgrid_get_clock() < lane->next_issue)
        rest_until(lane->next_issue);
    if (sem->issued == sem->room) {
        sem->room = sem->room ? 2 * sem->room : 16;
        sem->raised = realloc(sem->raised, sem->room);
        if (!sem->raised)
            abort();
    }
    struct notice n = {.sem = sem, .number = sem->issued++};
    sem->raised[n.number] = 0;
    if (step->after != PLAN_NO_EVENT && lane->event[step->after].undelivered) {
        struct notice *behind = room(1, sizeof *behind);
        *behind = n;
        behind->next = lane->event[step->after].behind;
        lane->event[step->after].behind = behind;
        if (need->queue != SIM_NONE)
            end_turn(lane, need);
        return;
    }
    n.delay = us(need->alpha);
    if (need->queue == SIM_NONE)
        lane->next_issue = simgrid_get_clock() + us(need->gap);
    else
        n.delay += taken_up(lane, need) - simgrid_get_clock();
    later(&n);
}

static void wait_for(struct lane *lane, const struct plan_step *step)
{
    struct sem *sem = &sems[sim->step[lane->at].sem];
    uint32_t waits = ++sem->waits;
    sem->waiter = lane;
    while (waits > step->lag && sem->arrived < waits - step->lag)
        stand(lane);
    sem->waiter = NULL;
}

/* ---- a lane */

/* What is moved in one trip, read anew from the format: a tile of every chunk of the span. */
static uint64_t moved(const struct plan_step *step, uint32_t trip)
{
    uint64_t bytes = 0;
    for (uint32_t nth = 0; nth <= step->more; nth++) {
        uint64_t chunk = sim->chunk[step->chunk + nth * step->stride];
        uint64_t first = plan->tile_bytes ? trip * plan->tile_bytes : trip ? chunk : 0;
        uint64_t rest = chunk > first ? chunk - first : 0;
        bytes += plan->tile_bytes && rest > plan->tile_bytes ? plan->tile_bytes : rest;
    }
    return bytes;
}

static void do_step(struct lane *lane, uint32_t at)
{
    const struct plan_rank *program = &plan->ranks[lane->rank];
    const struct plan_step *step = &program->steps[at];
    struct event *event;
    lane->at = sim->step_first[lane->rank] + at;
    const struct sim_step *known = &sim->step[lane->at];
    const struct sim_need *need = need_of(known);
    switch (step->op) {
    case PLAN_SIGNAL:
        tell(lane, step, need);
        break;
    case PLAN_WAIT:
        wait_for(lane, step);
        break;
    case PLAN_AWAIT:
        event = &lane->event[step->event];
        while (step->what ? event->undelivered : event->busy)
            stand(lane);
        break;
    default:
        if (peal_plan_engine_async(step->engine))
            issue(lane, step, need, moved(step, lane->trip));
        else
            move(lane, step, &program->operands[step->operands], need, moved(step, lane->trip));
    }
}

static void lane_actor(int argc, char **argv)
{
    struct lane *lane = sg_actor_self_get_data();
    const struct plan_lane *code = &plan->ranks[lane->rank].lanes[lane->index];
    uint32_t body = code->first + code->pre;
    (void)argc, (void)argv;
    for (uint32_t i = 0; i < code->pre; i++)
        do_step(lane, code->first + i);
    for (lane->trip = 0; lane->trip < (code->body ? sim->trips : 0); lane->trip++)
        for (uint32_t i = 0; i < code->body; i++)
            do_step(lane, body + i);
    lane->trip = 0;
    for (uint32_t i = 0; i < code->post; i++)
        do_step(lane, body + code->body + i);
    lanes_over++;
    catch_up();
}

/* ---- all */

static void find_rooms(void)
{
    sems = room(sim->sems, sizeof *sems);
    slots = room((size_t)sim->slots * plan->nranks, sizeof *slots);
    queues = room(sim->queues, sizeof *queues);
    for (uint32_t q = 0; q < plan->nranks * PEAL_ENGINE_COUNT; q++)
        if (q % PEAL_ENGINE_COUNT == PEAL_ENGINE_CE)
            queues[q].engines = sg_sem_init((int)peal_topo_copy_engines());
}

static void find_turns(void)
{
    turn_of = room((size_t)sim->step_first[plan->nranks] * sim->trips, sizeof *turn_of);
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t q = 0; pass && q < sim->queues; q++) {
            queues[q].turns = room(queues[q].nturns, sizeof(struct turn));
            queues[q].nturns = 0;
        }
        for (uint32_t i = 0; i < sim->records; i++) {
            const struct sim_record *r = &sim->record[i];
            uint32_t n = sim->step_first[sim->lane[r->lane].rank] + r->step;
            const struct sim_need *need = need_of(&sim->step[n]);
            if (r->kind == SIM_WAIT || !need || need->queue == SIM_NONE)
                continue;
            turn_of[(size_t)n * sim->trips + r->trip] = queues[need->queue].nturns++;
        }
    }
}

static void start_lanes(void)
{
    lanes = room(sim->lanes, sizeof *lanes);
    for (uint32_t r = 0; r < plan->nranks; r++)
        for (uint32_t l = sim->lane_first[r]; l < sim->lane_first[r + 1]; l++) {
            lanes[l].rank = r;
            lanes[l].index = l - sim->lane_first[r];
            lanes[l].wake = sg_sem_init(0);
            start(lane_actor, &lanes[l]);
        }
}

double simgrid_run_plan(const struct peal_sim *of)
{
    char arguments[][48] = {"peal",
                            "--cfg=network/model:CM02",
                            "--cfg=network/crosstraffic:0",
                            "--cfg=network/TCP-gamma:0",
                            "--cfg=contexts/stack-size:128",
                            "--log=root.thres:error"};
    char *argv[sizeof arguments / sizeof arguments[0] + 1] = {NULL};
    int argc = (int)(sizeof arguments / sizeof arguments[0]);
    for (int i = 0; i < argc; i++)
        argv[i] = arguments[i];
    sim = of;
    plan = of->plan;
    simgrid_init(&argc, argv);
    find_shapes();
    find_units();
    load_platform();
    find_rooms();
    find_turns();
    start_lanes();
    simgrid_run();
    if (lanes_over != sim->lanes) {
        fprintf(stderr, "the plan does not end in SimGrid\n");
        exit(1);
    }
    return simgrid_get_clock();
}
