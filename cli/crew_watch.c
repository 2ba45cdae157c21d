/* SPDX-License-Identifier: Apache-2.0 */
/* Where each rank stands, when none has moved for a while. */
#include "yard.h"

#define STILL 10u /* tenths of a second */

static void say_rank(uint32_t rank, const peal_rank_state *state, uint32_t latest)
{
    char where[128] = "";
    if (!state->joined) {
        say(SAY_NOTE, "rank %lu has not joined", (unsigned long)rank);
        return;
    }
    if (state->waits && state->awaited != UINT32_MAX)
        (void)snprintf(where, sizeof where, ", waits in lane %lu, step %lu for rank %lu",
                       (unsigned long)state->lane, (unsigned long)state->step,
                       (unsigned long)state->awaited);
    else if (state->waits)
        (void)snprintf(where, sizeof where, ", waits in lane %lu, step %lu",
                       (unsigned long)state->lane, (unsigned long)state->step);
    say(SAY_NOTE, "rank %lu, pid %lu: %s call %lu%s%s", (unsigned long)rank,
        (unsigned long)state->pid, state->entered == state->returned ? "has returned from" : "in",
        (unsigned long)state->entered, where,
        state->entered != latest ? "; has not arrived in the others' call" : "");
}

static void say_all(const struct yard *yard)
{
    uint32_t latest = 0;
    peal_rank_state state = {.size = sizeof state};
    for (uint32_t r = 0; r < yard->ranks; r++)
        if (peal_world_rank(yard->world, r, &state) == PEAL_OK && state.entered > latest)
            latest = state.entered;
    say(SAY_NOTE, "nothing has moved for a second:");
    for (uint32_t r = 0; r < yard->ranks; r++)
        if (peal_world_rank(yard->world, r, &state) == PEAL_OK)
            say_rank(r, &state, latest);
}

void crew_watch(const struct yard *yard, uint64_t *seen, uint32_t *still)
{
    uint64_t sum = 0;
    peal_rank_state state = {.size = sizeof state};
    for (uint32_t r = 0; r < yard->ranks; r++)
        if (peal_world_rank(yard->world, r, &state) == PEAL_OK)
            sum += (uint64_t)state.entered + state.returned + (uint64_t)state.joined;
    *still = sum == *seen ? *still + 1 : 0;
    *seen = sum;
    if (*still && *still % STILL == 0)
        say_all(yard);
}
