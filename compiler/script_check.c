/* SPDX-License-Identifier: Apache-2.0 */
/* What a script means: whose inputs a rank's value of a chunk holds after each step. Errors are
 * told in the script's own terms: its line, the rank, the chunk. */
#include "script.h"

#include <stdio.h>
#include <string.h>

/* ---- sets of contributions -------------------------------------------------------------- */

uint64_t *peal_script_set(const struct script_sets *sets, uint32_t rank, uint32_t chunk)
{
    return sets->bits + ((size_t)rank * sets->chunks + chunk) * sets->words;
}

static size_t set_words(const struct script_sets *sets)
{
    return (size_t)sets->ranks * sets->chunks * sets->words;
}

static int has(const uint64_t *set, uint32_t rank)
{
    return set[rank / 64] >> rank % 64 & 1;
}

static int is_empty(const struct script_sets *sets, const uint64_t *set)
{
    for (uint32_t i = 0; i < sets->words; i++)
        if (set[i])
            return 0;
    return 1;
}

peal_status peal_script_sets_init(struct script_sets *sets, const peal_schedule *script)
{
    const struct peal_plan *head = script->head;
    *sets = (struct script_sets){script->ctx, head->nranks, head->nchunks, (head->nranks + 63) / 64,
                                 NULL};
    sets->bits = peal_calloc(script->ctx, set_words(sets) + 1, sizeof(uint64_t));
    if (!sets->bits)
        return PEAL_ERR_MEMORY;
    for (uint32_t r = 0; r < sets->ranks; r++)
        for (uint32_t c = 0; c < sets->chunks; c++)
            if (peal_plan_holds(head, r, PLAN_BUF_IN, c))
                peal_script_set(sets, r, c)[r / 64] |= 1ull << r % 64;
    return PEAL_OK;
}

void peal_script_sets_free(struct script_sets *sets)
{
    if (sets->bits)
        peal_free(sets->ctx, sets->bits, (set_words(sets) + 1) * sizeof(uint64_t));
    sets->bits = NULL;
}

void peal_script_sets_step(struct script_sets *sets, const peal_schedule *script,
                           const struct script_step *step)
{
    const uint32_t *from = script->ranks + step->first, *to = from + step->nfrom;
    for (uint32_t i = 0; i < step->nfrom; i++)
        for (uint32_t k = 0; k < step->nto; k++) {
            const uint64_t *given = peal_script_set(sets, from[i], step->chunk);
            uint64_t *got = peal_script_set(sets, to[k], step->chunk);
            for (uint32_t w = 0; w < sets->words; w++)
                got[w] = step->reduces ? got[w] | given[w] : given[w];
        }
}

/* Whose input a result has to hold: a rank's own number of those that are missing, or NO_RANK. */
static uint32_t missing(const struct script_sets *sets, const peal_schedule *script, uint32_t rank,
                        uint32_t chunk)
{
    const struct peal_plan *head = script->head;
    const uint64_t *set = peal_script_set(sets, rank, chunk);
    if (!peal_plan_adds(head, chunk)) {
        uint32_t origin = peal_plan_origin(head, chunk);
        return has(set, origin) ? NO_RANK : origin;
    }
    for (uint32_t r = 0; r < sets->ranks; r++)
        if (peal_plan_holds(head, r, PLAN_BUF_IN, chunk) && !has(set, r))
            return r;
    return NO_RANK;
}

int peal_script_complete(const struct script_sets *sets, const peal_schedule *script, uint32_t rank,
                         uint32_t chunk)
{
    return missing(sets, script, rank, chunk) == NO_RANK;
}

/* ---- the check ---------------------------------------------------------------------------- */

struct checking {
    const peal_schedule *script;
    struct script_sets sets;
    uint32_t *touched; /* line that last made the value of (rank, chunk) */
    uint32_t *named;   /* line that last named the chunk */
    peal_diag *diag;
};

static uint32_t *line_of(const struct checking *c, uint32_t rank, uint32_t chunk)
{
    return &c->touched[(size_t)rank * c->sets.chunks + chunk];
}

static void where(const struct checking *c, uint32_t rank, uint32_t chunk, char *text, size_t size)
{
    uint32_t line = *line_of(c, rank, chunk);
    if (line)
        snprintf(text, size, "; line %u last touched it", line);
    else
        snprintf(text, size, "; no step gives it anything");
}

static peal_status check_giver(const struct checking *c, const struct script_step *step,
                               uint32_t from)
{
    const uint64_t *given = peal_script_set(&c->sets, from, step->chunk);
    char text[64];
    if (!is_empty(&c->sets, given))
        return PEAL_OK;
    where(c, from, step->chunk, text, sizeof text);
    return peal_fail_at(c->diag, PEAL_ERR_UNPROVEN, c->script->path, step->line, 0,
                        "rank %u has nothing of chunk %u to send here%s", from, step->chunk, text);
}

static peal_status check_sum(const struct checking *c, const struct script_step *step,
                             uint32_t from, uint32_t to)
{
    const uint64_t *given = peal_script_set(&c->sets, from, step->chunk);
    const uint64_t *got = peal_script_set(&c->sets, to, step->chunk);
    char text[64];
    for (uint32_t r = 0; r < c->sets.ranks; r++) {
        if (!has(given, r) || !has(got, r))
            continue;
        where(c, to, step->chunk, text, sizeof text);
        return peal_fail_at(c->diag, PEAL_ERR_UNPROVEN, c->script->path, step->line, 0,
                            "the input of rank %u would be in chunk %u of rank %u twice: it has it "
                            "already, and it comes from rank %u again%s",
                            r, step->chunk, to, from, text);
    }
    return PEAL_OK;
}

static peal_status check_step(struct checking *c, const struct script_step *step)
{
    const uint32_t *from = c->script->ranks + step->first, *to = from + step->nfrom;
    for (uint32_t i = 0; i < step->nfrom; i++) {
        PEAL_TRY(check_giver(c, step, from[i]));
        if (!step->reduces)
            break;
        PEAL_TRY(check_sum(c, step, from[i], to[0]));
        struct script_step one = *step;
        one.first += i; /* one after the other, so that two that hold the same are told apart */
        one.nfrom = 1;
        uint64_t *got = peal_script_set(&c->sets, to[0], step->chunk);
        const uint64_t *given = peal_script_set(&c->sets, from[i], step->chunk);
        for (uint32_t w = 0; w < c->sets.words; w++)
            got[w] |= given[w];
    }
    if (!step->reduces)
        peal_script_sets_step(&c->sets, c->script, step);
    for (uint32_t k = 0; k < step->nto; k++)
        *line_of(c, to[k], step->chunk) = step->line;
    c->named[step->chunk] = step->line;
    return PEAL_OK;
}

static peal_status check_result(const struct checking *c, uint32_t rank, uint32_t chunk)
{
    const struct peal_plan *head = c->script->head;
    uint32_t lacks = missing(&c->sets, c->script, rank, chunk), line = *line_of(c, rank, chunk);
    char text[64];
    if (lacks == NO_RANK)
        return PEAL_OK;
    where(c, rank, chunk, text, sizeof text);
    return peal_fail_at(c->diag, PEAL_ERR_UNPROVEN, c->script->path, line ? line : c->named[chunk],
                        0,
                        peal_plan_adds(head, chunk)
                            ? "at the end rank %u lacks the input of rank %u in chunk %u%s"
                            : "at the end rank %u does not have rank %u's input of chunk %u%s",
                        rank, lacks, chunk, text);
}

static peal_status check_all(struct checking *c)
{
    const struct peal_plan *head = c->script->head;
    for (uint32_t i = 0; i < c->script->nsteps; i++)
        PEAL_TRY(check_step(c, &c->script->steps[i]));
    for (uint32_t r = 0; r < head->nranks; r++)
        for (uint32_t chunk = 0; chunk < head->nchunks; chunk++)
            if (peal_plan_holds(head, r, PLAN_BUF_OUT, chunk))
                PEAL_TRY(check_result(c, r, chunk));
    return PEAL_OK;
}

peal_status peal_schedule_check(const peal_schedule *script, peal_diag *diag)
{
    if (!script)
        return peal_fail(diag, PEAL_ERR_ARG, "an argument is missing");
    size_t cells = (size_t)script->head->nranks * script->head->nchunks;
    struct checking c = {.script = script, .diag = diag};
    peal_status status = peal_script_sets_init(&c.sets, script);
    c.touched = peal_calloc(script->ctx, cells, sizeof *c.touched);
    c.named = peal_calloc(script->ctx, script->head->nchunks, sizeof *c.named);
    if (status != PEAL_OK || !c.touched || !c.named)
        status = peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    else
        status = check_all(&c);
    peal_free(script->ctx, c.touched, cells * sizeof *c.touched);
    peal_free(script->ctx, c.named, script->head->nchunks * sizeof *c.named);
    peal_script_sets_free(&c.sets);
    return status;
}

/* ---- what is looked at again ----------------------------------------------------------------- */

peal_status peal_script_lives(const peal_schedule *script, uint16_t **lives_out)
{
    const struct peal_plan *head = script->head;
    size_t cells = (size_t)head->nranks * head->nchunks;
    uint16_t *next = peal_alloc(script->ctx, cells * sizeof *next);
    uint16_t *lives = peal_alloc(script->ctx, ((size_t)script->nranks + 1) * sizeof *lives);
    if (!next || !lives) {
        peal_free(script->ctx, next, cells * sizeof *next);
        peal_free(script->ctx, lives, ((size_t)script->nranks + 1) * sizeof *lives);
        return PEAL_ERR_MEMORY;
    }
    for (size_t i = 0; i < cells; i++)
        next[i] = peal_plan_holds(head, (uint32_t)(i / head->nchunks), PLAN_BUF_OUT,
                                  (uint32_t)(i % head->nchunks))
                      ? SCRIPT_RESULT
                      : SCRIPT_DEAD;
    for (uint32_t i = script->nsteps; i-- > 0;) {
        const struct script_step *step = &script->steps[i];
        const uint32_t *rank = script->ranks + step->first;
        for (uint32_t k = 0; k < (uint32_t)step->nfrom + step->nto; k++)
            lives[step->first + k] = next[(size_t)rank[k] * head->nchunks + step->chunk];
        for (uint32_t k = 0; k < (uint32_t)step->nfrom + step->nto; k++) {
            int replaced = !step->reduces && k >= step->nfrom;
            next[(size_t)rank[k] * head->nchunks + step->chunk] =
                replaced ? SCRIPT_DEAD : step->stage;
        }
    }
    peal_free(script->ctx, next, cells * sizeof *next);
    *lives_out = lives;
    return PEAL_OK;
}
