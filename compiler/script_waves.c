/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps in the order in which they can be: in waves, by how many steps what they move has come
 * through. A lane does what is possible first and does not wait in between for what only later
 * steps need, however the loops of the script are nested.
 */
#include "script.h"

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* made: the wave behind which a value is there. used: the last one to look at it. A step may stand
 * in one wave with those before it that read what it replaces, or add to what it adds to: they keep
 * their order. */
static void find_wave(const peal_schedule *script, struct script_step *step, uint32_t *made,
                      uint32_t *used)
{
    const uint32_t *rank = script->ranks + step->first;
    uint32_t all = (uint32_t)step->nfrom + step->nto;
    size_t chunks = script->head->nchunks;
    step->wave = 0;
    for (uint32_t k = 0; k < all; k++) {
        size_t cell = rank[k] * chunks + step->chunk;
        step->wave = most(step->wave, k < step->nfrom ? made[cell] : used[cell]);
    }
    for (uint32_t k = 0; k < all; k++) {
        size_t cell = rank[k] * chunks + step->chunk;
        used[cell] = most(used[cell], step->wave);
        if (k >= step->nfrom)
            made[cell] = most(made[cell], step->wave + 1);
    }
}

static peal_status sort(peal_schedule *script, uint32_t waves)
{
    size_t room = script->steps_capacity * sizeof *script->steps;
    struct script_step *sorted = peal_alloc(script->ctx, room);
    uint32_t *first = peal_calloc(script->ctx, (size_t)waves + 1, sizeof *first);
    if (!sorted || !first) {
        peal_free(script->ctx, sorted, room);
        peal_free(script->ctx, first, ((size_t)waves + 1) * sizeof *first);
        return PEAL_ERR_MEMORY;
    }
    for (uint32_t i = 0; i < script->nsteps; i++)
        first[script->steps[i].wave + 1]++;
    for (uint32_t w = 0; w < waves; w++)
        first[w + 1] += first[w];
    for (uint32_t i = 0; i < script->nsteps; i++)
        sorted[first[script->steps[i].wave]++] = script->steps[i];
    peal_free(script->ctx, script->steps, room);
    peal_free(script->ctx, first, ((size_t)waves + 1) * sizeof *first);
    script->steps = sorted;
    return PEAL_OK;
}

peal_status peal_script_sort(peal_schedule *script)
{
    size_t cells = (size_t)script->head->nranks * script->head->nchunks;
    uint32_t *made = peal_calloc(script->ctx, cells, sizeof *made);
    uint32_t *used = peal_calloc(script->ctx, cells, sizeof *used);
    uint32_t waves = 0;
    peal_status status = made && used ? PEAL_OK : PEAL_ERR_MEMORY;
    for (uint32_t i = 0; status == PEAL_OK && i < script->nsteps; i++) {
        find_wave(script, &script->steps[i], made, used);
        waves = most(waves, script->steps[i].wave + 1);
    }
    if (status == PEAL_OK && script->nsteps)
        status = sort(script, waves);
    peal_free(script->ctx, made, cells * sizeof *made);
    peal_free(script->ctx, used, cells * sizeof *used);
    return status;
}
