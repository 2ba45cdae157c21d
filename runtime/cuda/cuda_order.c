/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of a zero-SM call. A stream does what it is given one after the other, so a wait holds
 * up all that stands behind it, of other lanes, too. Plans are proven with all lanes resident, and
 * streams are few. So all ranks' lanes are run in the mind, signals and waits alone, each as far as
 * it goes; what comes out is one order of all steps of all ranks in which every wait stands behind
 * its signals. Each rank gives its streams its own steps in that order. Then the first step of it
 * that is not done can always be done: nothing deadlocks, by however few streams.
 */
#include "cuda_comm.h"

#define STEPS_MAX (1u << 24) /* of all ranks and trips: beyond, kernels are the way */

struct place {
    uint32_t pc;
    uint32_t trip;
};

struct mind {
    struct peal_cuda_comm *comm;
    struct cuda_zero_row *zero;
    uint32_t trips;
    struct place *places; /* by lane */
    uint32_t *signals;    /* by semaphore */
    uint32_t *waits;
};

static size_t sems_of(const struct peal_cuda_comm *comm)
{
    return (size_t)comm->nranks * comm->nranks * comm->layout.nsems;
}

static int can(struct mind *m, const struct cuda_sync *sync)
{
    if (sync->sem == CUDA_NO_SEM)
        return 1;
    if (!sync->waits) {
        m->signals[sync->sem]++;
        return 1;
    }
    if ((int64_t)m->signals[sync->sem] < (int64_t)m->waits[sync->sem] + 1 - sync->lag)
        return 0;
    m->waits[sync->sem]++;
    return 1;
}

static uint32_t last_of(const struct plan_lane *lane)
{
    return lane->first + lane->pre + lane->body + lane->post;
}

/* As far as the lane goes; gives the steps made. */
static uint32_t run_lane(struct mind *m, uint32_t number)
{
    const struct plan_lane *lane = &m->zero->lanes[number];
    struct place *place = &m->places[number];
    uint32_t body = lane->first + lane->pre, post = body + lane->body, made = 0;
    while (place->pc != last_of(lane) && can(m, &m->zero->syncs[place->pc])) {
        made++;
        if (++place->pc == post && body != post && place->trip + 1 < m->trips) {
            place->trip++;
            place->pc = body;
        }
    }
    return made;
}

static peal_status note_turn(struct mind *m, uint32_t lane, uint32_t steps)
{
    struct cuda_zero_row *zero = m->zero;
    void *turns = zero->turns;
    PEAL_TRY(peal_grow(m->comm->ctx, &turns, &zero->turns_capacity, zero->nturns + 1ull,
                       sizeof *zero->turns, STEPS_MAX));
    zero->turns = turns;
    zero->turns[zero->nturns++] = (struct cuda_turn){lane, steps};
    return PEAL_OK;
}

static peal_status run_all(struct mind *m)
{
    struct cuda_zero_row *zero = m->zero;
    uint32_t own = zero->first_lane[m->comm->rank];
    uint32_t end = zero->first_lane[m->comm->rank + 1];
    int moved = 1;
    while (moved) {
        moved = 0;
        for (uint32_t lane = 0; lane < zero->nlanes; lane++) {
            uint32_t steps = run_lane(m, lane);
            moved |= steps != 0;
            if (steps && lane >= own && lane < end)
                PEAL_TRY(note_turn(m, lane - own, steps));
        }
    }
    /* A proven plan comes to its end. */
    for (uint32_t lane = 0; lane < zero->nlanes; lane++)
        if (m->places[lane].pc != last_of(&zero->lanes[lane]))
            return PEAL_ERR_INTERNAL;
    return PEAL_OK;
}

peal_status cuda_order(struct peal_cuda_comm *comm, struct cuda_zero_row *zero, uint32_t trips,
                       peal_diag *diag)
{
    size_t sems = sems_of(comm);
    struct mind m = {.comm = comm, .zero = zero, .trips = trips};
    if (zero->trips == trips)
        return PEAL_OK;
    if ((uint64_t)zero->nsteps * trips > STEPS_MAX)
        return peal_fail(diag, PEAL_ERR_LIMIT,
                         "a zero-SM call of %u steps and %u trips: plan with a larger tile",
                         zero->nsteps, trips);
    m.places = peal_calloc(comm->ctx, zero->nlanes, sizeof *m.places);
    m.signals = peal_calloc(comm->ctx, sems, sizeof *m.signals);
    m.waits = peal_calloc(comm->ctx, sems, sizeof *m.waits);
    peal_status status = m.places && m.signals && m.waits ? PEAL_OK : PEAL_ERR_MEMORY;
    zero->trips = 0;
    zero->nturns = 0;
    for (uint32_t i = 0; status == PEAL_OK && i < zero->nlanes; i++)
        m.places[i].pc = zero->lanes[i].first;
    if (status == PEAL_OK)
        status = run_all(&m);
    peal_free(comm->ctx, m.places, zero->nlanes * sizeof *m.places);
    peal_free(comm->ctx, m.signals, sems * sizeof *m.signals);
    peal_free(comm->ctx, m.waits, sems * sizeof *m.waits);
    if (status != PEAL_OK)
        return peal_fail(diag, status, "the order of a zero-SM call");
    zero->trips = trips;
    return PEAL_OK;
}
