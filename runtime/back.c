/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every second call of a row goes backwards: moves that do not wait for each other in the other
 * order, parts from the last one, and what is large from its end. A call begins with what the last
 * one touched last, and that is what the caches still hold of buffers that are larger than they.
 * Whoever fills a buffer from its beginning leaves its end in them, too.
 *
 * Which way a rank orders its own moves is its own affair; parts come in the same order everywhere,
 * since all ranks make the same calls of a row.
 */
#include "comm.h"

#include <string.h>

/* ---- steps */

enum role { FIXED, OWN, LOAD, HINDERS };

/* A move between the rank's own buffers, or from elsewhere to its output, may come before or behind
 * any wait, and behind any signal that tells nobody of it. */
static enum role role_of(const struct rt_row *row, const struct rt_step *step)
{
    const struct rt_operand *operand = row->operands + step->operands;
    if (step->kind == RT_SIGNAL || step->kind == RT_WAIT)
        return FIXED;
    if (step->kind != RT_MOVE || step->ndst != 1)
        return HINDERS;
    uint8_t from = operand[0].place, to = operand[1].place;
    if (to == RT_SLOT)
        return FIXED;
    return to != RT_OWN_OUT ? HINDERS : from == RT_OWN_IN ? OWN : LOAD;
}

/* Marks what a step writes in the row's bounds, which nobody needs yet; 0: some chunk was marked.
 */
static int mark_chunks(const struct rt_row *row, const struct rt_step *step)
{
    uint64_t before = 0;
    for (uint32_t nth = 0; nth <= step->more; nth++)
        before |= row->bounds[step->chunk + nth * step->stride]++;
    return before == 0;
}

static int writes_once(const struct rt_row *row)
{
    int once = 1;
    for (uint32_t i = 0; i < row->nsteps; i++)
        if (role_of(row, &row->steps[i]) != FIXED)
            once &= mark_chunks(row, &row->steps[i]);
    memset(row->bounds, 0, row->nchunks * sizeof *row->bounds);
    return once;
}

/* Nobody reaches the output, no chunk of it is written twice or read again: it is written in any
 * order. */
static int turns(const struct rt_row *row)
{
    uint32_t moves = 0;
    if (row->reach & RT_REACH_OUT || row->out_reread || row->tile_bytes || row->nlanes != 1)
        return 0;
    for (uint32_t i = 0; i < row->nsteps; i++) {
        enum role role = role_of(row, &row->steps[i]);
        if (role == HINDERS)
            return 0;
        moves += role != FIXED;
    }
    return moves > 1 && writes_once(row);
}

/* The own moves come behind the last signal, so that others do not wait for them, and behind all
 * loads; waits that are left come behind them. */
static uint32_t place_of_own(const struct rt_row *row)
{
    uint32_t at = row->nsteps;
    while (at > 0 && row->steps[at - 1].kind != RT_SIGNAL &&
           role_of(row, &row->steps[at - 1]) != LOAD)
        at--;
    return at;
}

static void put_own(const struct rt_row *row, uint32_t *made)
{
    for (uint32_t i = row->nsteps; i-- > 0;)
        if (role_of(row, &row->steps[i]) == OWN)
            row->back[(*made)++] = row->steps[i];
}

/* Of steps [from, ...) the loads that follow each other, the last one first; gives what is behind
 * them. */
static uint32_t put_loads(const struct rt_row *row, uint32_t from, uint32_t *made)
{
    uint32_t end = from;
    while (end < row->nsteps && role_of(row, &row->steps[end]) == LOAD)
        end++;
    for (uint32_t i = end; i-- > from;)
        row->back[(*made)++] = row->steps[i];
    return end;
}

peal_status rt_back_make(const struct peal_comm *comm, struct rt_row *row)
{
    uint32_t made = 0, own = place_of_own(row);
    row->forth = row->steps;
    if (!turns(row))
        return PEAL_OK;
    row->back = peal_calloc(comm->ctx, row->nsteps, sizeof *row->back);
    if (!row->back)
        return PEAL_ERR_MEMORY;
    for (uint32_t i = 0; i < row->nsteps;) {
        enum role role = role_of(row, &row->steps[i]);
        if (i == own)
            put_own(row, &made);
        if (role == LOAD)
            i = put_loads(row, i, &made);
        else if (role == FIXED)
            row->back[made++] = row->steps[i++];
        else
            i++;
    }
    if (own == row->nsteps)
        put_own(row, &made);
    return PEAL_OK;
}

void rt_back_free(peal_ctx *ctx, struct rt_row *row)
{
    row->steps = row->forth ? row->forth : row->steps;
    if (row->back)
        peal_free(ctx, row->back, row->nsteps * sizeof *row->back);
}

/* ---- sizes */

/* A smaller message lies in a core's own cache whichever way it is gone through. */
#define BACK_BYTES (512u << 10)

/* The buffers of all ranks, of the collectives that have most of them. */
static uint64_t all_bytes(const struct peal_comm *comm, const struct rt_row *row, uint64_t bytes)
{
    unsigned power = peal_plan_collective(row->collective)->block_power;
    return bytes * (power == 2 ? 2 : power == 1 ? comm->nranks + 1 : 2 * comm->nranks);
}

void rt_back_learn(const struct peal_comm *comm, struct rt_row *row)
{
    uint64_t bytes = row->blocks * row->block_bytes;
    row->backs = !peal_plan_collective(row->collective)->reduces && bytes >= BACK_BYTES &&
                 all_bytes(comm, row, bytes) <= comm->cache_bytes;
}

/* ---- memory */

/* What is copied backwards goes by pieces of this size, the last one first. */
#define BACK_PIECE ((size_t)256 << 10)

void rt_copy(const struct peal_comm *comm, char *to, const char *from, size_t bytes, int stream)
{
    size_t piece = comm->backward && bytes > BACK_PIECE ? BACK_PIECE : bytes, at = bytes;
    do {
        size_t part = at % piece ? at % piece : piece;
        at -= part;
        if (stream)
            comm->kern->stream(to + at, from + at, part);
        else
            memcpy(to + at, from + at, part);
    } while (at);
}
