/* SPDX-License-Identifier: Apache-2.0 */
/* One lane: its sections, trips and steps, until it stands still. */
#include "model.h"

static uint32_t steps_in(const struct plan_lane *steps, uint32_t section)
{
    return section == 0 ? steps->pre : section == 1 ? steps->body : steps->post;
}

static const struct plan_lane *program_of(const struct peal_sim *sim, const struct sim_lane *lane)
{
    return &sim->plan->ranks[lane->rank].lanes[lane->index];
}

uint32_t peal_sim_lane_step(const struct peal_sim *sim, const struct sim_lane *lane)
{
    const struct plan_lane *steps = program_of(sim, lane);
    uint32_t before = lane->section > 0 ? steps->pre : 0;
    before += lane->section > 1 ? steps->body : 0;
    return steps->first + before + lane->at;
}

/* Moves on to the next step there is; 0: the lane is over. */
static int settle_at(const struct peal_sim *sim, struct sim_lane *lane)
{
    const struct plan_lane *steps = program_of(sim, lane);
    while (lane->section < 3 && lane->at >= steps_in(steps, lane->section)) {
        lane->at = 0;
        if (lane->section == 1 && steps->body && lane->trip + 1 < sim->trips) {
            lane->trip++;
            continue;
        }
        lane->section++;
        if (lane->section == 2)
            lane->trip = 0;
    }
    return lane->section < 3;
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
    struct sim_lane *lane = &sim->lane[index];
    const struct plan_step *step =
        &sim->plan->ranks[lane->rank].steps[peal_sim_lane_step(sim, lane)];
    switch (step->op) {
    case PLAN_SIGNAL:
        return peal_sim_signal(sim, index);
    case PLAN_WAIT:
        return peal_sim_wait(sim, index);
    case PLAN_AWAIT:
        return peal_sim_await(sim, index, step->event, step->what);
    default:
        return peal_plan_engine_async(step->engine) ? peal_sim_issue(sim, index)
                                                    : peal_sim_move(sim, index);
    }
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
