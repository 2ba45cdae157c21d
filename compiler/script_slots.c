/* SPDX-License-Identifier: Apache-2.0 */
/* Slots of pipes: how many each takes, where they lie, and when they may be written again. */
#include "script.h"

/* Slots are given back in the order in which they were taken: when, and behind which item, are all
 * up to this one read? In `free_at` and `free_item`, from here on. */
static void in_order(struct script_program *p, struct script_pipe *pipe)
{
    uint32_t at = 0, item = 0, last = peal_script_now(p, pipe->to);
    for (uint32_t i = pipe->first; i != NO_INDEX; i = p->slots[i].next) {
        struct script_slot *slot = &p->slots[i];
        if (!slot->free_at) { /* nobody ever looked at it */
            slot->free_at = p->nitems;
            slot->free_item = last;
        }
        at = slot->free_at > at ? slot->free_at : at;
        item = slot->free_item > item ? slot->free_item : item;
        slot->free_at = at;
        slot->free_item = item;
    }
}

/* Whose memory each slot takes. */
static void find_blockers(struct script_program *p, const struct script_pipe *pipe)
{
    uint32_t behind = pipe->first, ahead = 0;
    for (uint32_t i = pipe->first; i != NO_INDEX; i = p->slots[i].next, ahead++) {
        struct script_slot *slot = &p->slots[i];
        slot->blocker = i;
        slot->trips = SLOT_DEPTH;
        if (!pipe->credits)
            continue;
        slot->trips = 0;
        if (ahead < pipe->width)
            slot->blocker = NO_INDEX; /* found below */
        else {
            slot->blocker = behind;
            behind = p->slots[behind].next;
        }
    }
    /* The last ones of a trip are before the first ones of the next. */
    for (uint32_t i = pipe->first; pipe->credits && behind != NO_INDEX; i = p->slots[i].next) {
        p->slots[i].blocker = behind;
        p->slots[i].trips = 1;
        behind = p->slots[behind].next;
    }
}

/* The most that are taken at a time, in the order of the script. */
static uint32_t most_taken(const struct script_program *p, const struct script_pipe *pipe)
{
    uint32_t freed = pipe->first, taken = 0, most = 0;
    for (uint32_t i = pipe->first; i != NO_INDEX; i = p->slots[i].next) {
        taken++;
        for (; p->slots[freed].free_at <= p->slots[i].taken_at && freed != i;
             freed = p->slots[freed].next)
            taken--;
        most = taken > most ? taken : most;
    }
    return most;
}

peal_status peal_script_place_slots(struct script_program *p)
{
    uint32_t *used = peal_calloc(p->ctx, p->n, sizeof *used);
    if (!used)
        return PEAL_ERR_MEMORY;
    peal_status status = PEAL_OK;
    for (uint32_t i = 0; status == PEAL_OK && i < p->npipes; i++) {
        struct script_pipe *pipe = &p->pipes[i];
        uint32_t window = pipe->pushes < SCRIPT_WINDOW ? pipe->pushes : SCRIPT_WINDOW;
        uint32_t rank = peal_script_rank(p, pipe->to);
        in_order(p, pipe);
        pipe->width = most_taken(p, pipe);
        pipe->width = pipe->width > window ? pipe->width : window;
        pipe->credits = pipe->width < pipe->pushes;
        pipe->base = used[rank];
        used[rank] += pipe->width;
        p->width = used[rank] > p->width ? used[rank] : p->width;
        find_blockers(p, pipe);
        for (uint32_t k = pipe->first; status == PEAL_OK && k != NO_INDEX; k = p->slots[k].next) {
            p->slots[k].credit = p->nsignals;
            status = peal_script_signal(p, pipe->to, p->slots[k].free_item, pipe->from, SEM_CREDIT,
                                        NO_INDEX);
        }
    }
    peal_free(p->ctx, used, p->n * sizeof *used);
    return p->width > UINT16_MAX ? PEAL_ERR_LIMIT : status;
}
