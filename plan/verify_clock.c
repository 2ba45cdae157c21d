/* SPDX-License-Identifier: Apache-2.0 */
/* Vector clocks, shared by reference until somebody learns something new. */
#include "verify.h"

#include <string.h>

static size_t clock_bytes(const struct verify_clocks *clocks)
{
    return sizeof(struct verify_clock) + clocks->components * sizeof(uint32_t);
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
    if (clock && --clock->refs == 0)
        peal_free(clocks->ctx, clock, clock_bytes(clocks));
}

peal_status peal_verify_clock_own(struct verify_clocks *clocks, struct verify_clock **clock)
{
    if ((*clock)->refs == 1)
        return PEAL_OK;
    struct verify_clock *copy = peal_alloc(clocks->ctx, clock_bytes(clocks));
    if (!copy)
        return PEAL_ERR_MEMORY;
    memcpy(copy, *clock, clock_bytes(clocks));
    copy->refs = 1;
    (*clock)->refs--;
    *clock = copy;
    return PEAL_OK;
}

peal_status peal_verify_clock_join(struct verify_clocks *clocks, struct verify_clock **clock,
                                   const struct verify_clock *other)
{
    if (*clock == other)
        return PEAL_OK;
    PEAL_TRY(peal_verify_clock_own(clocks, clock));
    uint32_t *mine = (*clock)->time;
    for (uint32_t i = 0; i < clocks->components; i++)
        mine[i] = mine[i] < other->time[i] ? other->time[i] : mine[i];
    return PEAL_OK;
}

peal_status peal_verify_clock_set(struct verify_clocks *clocks, struct verify_clock **clock,
                                  uint32_t component, uint32_t time)
{
    if ((*clock)->time[component] >= time)
        return PEAL_OK;
    PEAL_TRY(peal_verify_clock_own(clocks, clock));
    (*clock)->time[component] = time;
    return PEAL_OK;
}
