/* SPDX-License-Identifier: Apache-2.0 */
/* One lane: its sections, trips and steps, until it stands still. */
#include "model.h"

uint32_t peal_sim_lane_step(const struct peal_sim *sim, const struct sim_lane *lane)
{
    return lane->at - sim->step_first[lane->rank];
}

const struct plan_step *peal_sim_step(const struct peal_sim *sim, const struct sim_lane *lane)
{
    return &sim->plan->ranks[lane->rank].steps[peal_sim_lane_step(sim, lane)];
}

struct sim_event *peal_sim_event_of(const struct peal_sim *sim, uint32_t lane, uint8_t event)
{
    return &sim->event[(size_t)lane * PLAN_EVENTS_MAX + event];
}

/* Moves on to the next step there is, when a section is through; 0: the lane is over. */
static int next_section(const struct peal_sim *sim, struct sim_lane *lane)
{
    const struct plan_lane *steps = &sim->plan->ranks[lane->rank].lanes[lane->index];
    while (lane->section < 3 && lane->at == lane->end) {
        if (lane->section == 1 && steps->body && lane->trip + 1 < sim->trips) {
            lane->trip++;
            lane->at = lane->end - steps->body;
            continue;
        }
        lane->section++;
        if (lane->section == 2)
            lane->trip = 0;
        lane->end += lane->section == 1 ? steps->body : lane->section == 2 ? steps->post : 0;
    }
    return lane->section < 3;
}

static int settle_at(const struct peal_sim *sim, struct sim_lane *lane)
{
    return lane->at < lane->end || next_section(sim, lane);
}

void peal_sim_block(struct peal_sim *sim, struct sim_lane *lane)
{
    if (lane->blocked_at == SIM_NEVER)
        lane->blocked_at = sim->now;
}

/* What it stood still for has happened. */
static void unblock(struct peal_sim *sim, uint32_t index)
{
    struct sim_lane *lane = &sim->lane[index];
    if (lane->blocked_at == SIM_NEVER)
        return;
    if (lane->blocker != SIM_NONE)
        lane->cause = lane->blocker;
    if (sim->keep && lane->blocked_at < sim->now) {
        struct sim_record record = {.start = lane->blocked_at,
                                    .end = sim->now,
                                    .pred = lane->cause,
                                    .lane = index,
                                    .step = peal_sim_lane_step(sim, lane),
                                    .trip = lane->trip,
                                    .kind = SIM_WAIT,
                                    .event = PLAN_NO_EVENT};
        (void)peal_sim_record(sim, &record, SIM_NONE);
    }
    lane = &sim->lane[index];
    lane->blocked_at = SIM_NEVER;
    lane->blocker = SIM_NONE;
}

static int run_step(struct peal_sim *sim, uint32_t index)
{
    const struct sim_step *step = &sim->step[sim->lane[index].at];
    peal_sim_soon_sem(sim, &step[1]);
    switch ((enum sim_does)step->does) {
    case SIM_SIGNALS:
        return peal_sim_signal(sim, index);
    case SIM_WAITS:
        return peal_sim_wait(sim, index);
    case SIM_AWAITS:
        return peal_sim_await(sim, index, step->event, (uint8_t)step->what);
    case SIM_ISSUES:
        return peal_sim_issue(sim, index);
    case SIM_MOVES:
        break;
    }
    return peal_sim_move(sim, index);
}

void peal_sim_lane_run(struct peal_sim *sim, uint32_t index)
{
    struct sim_lane *lane = &sim->lane[index];
    while (sim->status == PEAL_OK && settle_at(sim, lane)) {
        if (!run_step(sim, index))
            return;
        unblock(sim, index);
        lane->at++;
        lane->phase = SIM_READY;
    }
    if (sim->status != PEAL_OK || lane->phase == SIM_OVER)
        return;
    lane->phase = SIM_OVER;
    sim->done++;
    if (sim->now >= sim->time) {
        sim->time = sim->now;
        sim->last = lane->cause;
    }
}
