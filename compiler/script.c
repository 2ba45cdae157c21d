/* SPDX-License-Identifier: Apache-2.0 */
/* A script: the steps as they are written, checked one by one for what there is. */
#include "script.h"

#include <string.h>

static int is_name(const char *name)
{
    size_t length = name ? strlen(name) : 0;
    return length && length < sizeof((peal_schedule *)0)->name &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == length;
}

static peal_status check_params(const peal_schedule_params *params, peal_diag *diag)
{
    const char *path = params->path ? params->path : "";
    if (!is_name(params->name))
        return peal_fail_at(diag, PEAL_ERR_ARG, path, 0, 0,
                            "the name of an algorithm is up to 63 of a-z, 0-9 and -");
    for (uint32_t i = 0; i < ALGO_COUNT; i++)
        if (peal_streq(params->name, peal_algo_get((enum algorithm)i)->name))
            return peal_fail_at(diag, PEAL_ERR_ARG, path, 0, 0, "%s is a built-in algorithm",
                                params->name);
    if ((unsigned)params->collective >= PEAL_COLLECTIVE_COUNT ||
        params->collective == PEAL_BARRIER || params->collective == PEAL_ALLTOALLV)
        return peal_fail_at(diag, PEAL_ERR_ARG, path, 0, 0, "scripts do not serve this collective");
    if (params->ranks == 0 || params->root >= params->ranks || params->peer >= params->ranks)
        return peal_fail_at(diag, PEAL_ERR_ARG, path, 0, 0, "root and peer are ranks");
    if (params->ranks > SCRIPT_RANKS_MAX)
        return peal_fail_at(diag, PEAL_ERR_LIMIT, path, 0, 0, "%u ranks; scripts have up to %u",
                            params->ranks, SCRIPT_RANKS_MAX);
    return PEAL_OK;
}

/* In rising order, each rank once, as a plan has them. */
static peal_status add_block(peal_schedule *script, const peal_block *given, uint32_t index,
                             peal_diag *diag)
{
    uint32_t ranks[2][SCRIPT_RANKS_MAX], counts[2] = {given->nfrom, given->nto};
    const uint32_t *lists[2] = {given->from, given->to};
    for (int end = 0; end < 2; end++) {
        uint8_t has[SCRIPT_RANKS_MAX] = {0};
        uint32_t count = 0;
        for (uint32_t i = 0; i < counts[end]; i++) {
            uint32_t rank = lists[end][i];
            if (rank >= script->head->nranks || has[rank])
                return peal_fail_at(diag, PEAL_ERR_ARG, script->path, 0, 0,
                                    "block %u of the collective: rank %u %s", index, rank,
                                    rank >= script->head->nranks ? "is none" : "stands twice");
            has[rank] = 1;
        }
        for (uint32_t r = 0; r < script->head->nranks; r++)
            if (has[r])
                ranks[end][count++] = r;
        if (!count)
            return peal_fail_at(diag, PEAL_ERR_ARG, script->path, 0, 0,
                                "block %u of the collective: nobody %s it", index,
                                end ? "gets" : "gives");
    }
    const peal_block block = {counts[0], counts[1], ranks[0], ranks[1]};
    peal_status status = peal_plan_add_block(script->head, &block);
    return status == PEAL_OK ? PEAL_OK : peal_fail(diag, status, "%s", peal_status_text(status));
}

static peal_status set_blocks(peal_schedule *script, const peal_schedule_params *params,
                              peal_diag *diag)
{
    if ((params->collective == PEAL_CUSTOM) != (params->nblocks != 0))
        return peal_fail_at(diag, PEAL_ERR_ARG, script->path, 0, 0,
                            "a custom collective says who gives and who gets each block, and no "
                            "other does");
    for (uint32_t i = 0; i < params->nblocks; i++)
        PEAL_TRY(add_block(script, &params->blocks[i], i, diag));
    return PEAL_OK;
}

static peal_status set_head(peal_schedule *script, const peal_schedule_params *params,
                            peal_diag *diag)
{
    peal_status status = peal_plan_create_head(script->ctx, params->ranks, &script->head);
    if (status != PEAL_OK)
        return peal_fail(diag, status, "out of memory");
    script->head->collective = params->collective;
    script->head->root = params->root;
    script->head->peer = params->peer;
    script->head->nchunks = params->chunks;
    PEAL_TRY(set_blocks(script, params, diag));
    uint32_t blocks = peal_plan_blocks(script->head);
    if (params->chunks == 0 || params->chunks % blocks || params->chunks > PLAN_CHUNKS_MAX)
        return peal_fail_at(diag, PEAL_ERR_ARG, script->path, 0, 0,
                            "%u chunks; %s by %u ranks has %u block%s and chunks a multiple of it",
                            params->chunks, peal_collective_name(params->collective), params->ranks,
                            blocks, blocks == 1 ? "" : "s");
    return PEAL_OK;
}

peal_status peal_schedule_create(peal_ctx *ctx, const peal_schedule_params *given, peal_diag *diag,
                                 peal_schedule **script_out)
{
    peal_schedule_params params;
    if (!ctx || !given || !script_out)
        return peal_fail(diag, PEAL_ERR_ARG, "an argument is missing");
    if (peal_import(&params, sizeof params, given) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_ARG, "parameters of an unknown version");
    PEAL_TRY(check_params(&params, diag));
    peal_schedule *script = peal_calloc(ctx, 1, sizeof *script);
    if (!script)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    script->ctx = ctx;
    script->stages = 1;
    peal_copy_text(script->name, sizeof script->name, params.name);
    peal_copy_text(script->path, sizeof script->path, params.path ? params.path : "");
    peal_status status = set_head(script, &params, diag);
    if (status != PEAL_OK) {
        peal_schedule_destroy(script);
        return status;
    }
    *script_out = script;
    return PEAL_OK;
}

void peal_schedule_destroy(peal_schedule *script)
{
    if (!script)
        return;
    peal_plan_destroy(script->head);
    peal_free(script->ctx, script->steps, script->steps_capacity * sizeof *script->steps);
    peal_free(script->ctx, script->ranks, script->ranks_capacity * sizeof *script->ranks);
    peal_free(script->ctx, script, sizeof *script);
}

peal_status peal_schedule_block(const peal_schedule *script, uint32_t index, peal_block *block)
{
    if (!script || !block || index >= script->head->nblocks)
        return PEAL_ERR_ARG;
    *block = peal_plan_block(script->head, index);
    return PEAL_OK;
}

const char *peal_schedule_name(const peal_schedule *script)
{
    return script ? script->name : NULL;
}

/* ---- steps ----------------------------------------------------------------------------- */

static peal_status check_ranks(const peal_schedule *script, const peal_schedule_step *step,
                               peal_diag *diag)
{
    uint32_t n = script->head->nranks;
    for (uint32_t i = 0; i < step->nfrom + step->nto; i++) {
        uint32_t rank = i < step->nfrom ? step->from[i] : step->to[i - step->nfrom];
        if (rank >= n)
            return peal_fail_at(diag, PEAL_ERR_ARG, script->path, step->line, 0,
                                "there is no rank %u: the ranks are 0 to %u", rank, n - 1);
    }
    for (uint32_t i = 0; i < step->nfrom; i++)
        for (uint32_t k = 0; k < step->nto; k++)
            if (step->from[i] == step->to[k])
                return peal_fail_at(diag, PEAL_ERR_ARG, script->path, step->line, 0,
                                    "rank %u sends chunk %u to itself", step->to[k], step->chunk);
    return PEAL_OK;
}

static int repeats(const uint32_t *ranks, uint32_t count, uint32_t *twice)
{
    uint64_t seen[SCRIPT_RANKS_MAX / 64] = {0};
    for (uint32_t i = 0; i < count; i++) {
        *twice = ranks[i];
        if (seen[ranks[i] / 64] >> ranks[i] % 64 & 1)
            return 1;
        seen[ranks[i] / 64] |= 1ull << ranks[i] % 64;
    }
    return 0;
}

static peal_status check_step(const peal_schedule *script, const peal_schedule_step *step,
                              peal_diag *diag)
{
    uint32_t twice;
    if (step->chunk >= script->head->nchunks)
        return peal_fail_at(diag, PEAL_ERR_ARG, script->path, step->line, 0,
                            "there is no chunk %u: the chunks are 0 to %u", step->chunk,
                            script->head->nchunks - 1);
    if (!step->nfrom || !step->nto || !step->from || !step->to ||
        (step->reduces ? step->nto : step->nfrom) != 1 || step->nfrom > SCRIPT_RANKS_MAX ||
        step->nto > SCRIPT_RANKS_MAX)
        return peal_fail_at(diag, PEAL_ERR_ARG, script->path, step->line, 0,
                            "a copy goes from one rank to some, a reduction from some to one");
    PEAL_TRY(check_ranks(script, step, diag));
    if (repeats(step->from, step->nfrom, &twice) || repeats(step->to, step->nto, &twice))
        return peal_fail_at(diag, PEAL_ERR_ARG, script->path, step->line, 0,
                            "rank %u stands twice in the list", twice);
    if (step->reduces && !peal_plan_adds(script->head, step->chunk))
        return peal_fail_at(diag, PEAL_ERR_ARG, script->path, step->line, 0,
                            "%s adds nothing up in chunk %u",
                            peal_collective_name(script->head->collective), step->chunk);
    return PEAL_OK;
}

static peal_status append(peal_schedule *script, const peal_schedule_step *step)
{
    uint32_t names = step->nfrom + step->nto;
    PEAL_TRY(peal_grow(script->ctx, (void **)&script->steps, &script->steps_capacity,
                       (size_t)script->nsteps + 1, sizeof *script->steps, SCRIPT_STEPS_MAX));
    PEAL_TRY(peal_grow(script->ctx, (void **)&script->ranks, &script->ranks_capacity,
                       (size_t)script->nranks + names, sizeof *script->ranks, SCRIPT_NAMES_MAX));
    script->steps[script->nsteps++] = (struct script_step){.reduces = step->reduces != 0,
                                                           .gathers = step->gathers != 0,
                                                           .stage = (uint16_t)(script->stages - 1),
                                                           .chunk = step->chunk,
                                                           .line = step->line,
                                                           .first = script->nranks,
                                                           .nfrom = (uint16_t)step->nfrom,
                                                           .nto = (uint16_t)step->nto};
    memcpy(script->ranks + script->nranks, step->from, step->nfrom * sizeof *step->from);
    script->nranks += step->nfrom;
    memcpy(script->ranks + script->nranks, step->to, step->nto * sizeof *step->to);
    script->nranks += step->nto;
    return PEAL_OK;
}

peal_status peal_schedule_add(peal_schedule *script, const peal_schedule_step *given,
                              peal_diag *diag)
{
    peal_schedule_step step;
    if (!script || !given || peal_import(&step, sizeof step, given) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_ARG, "an argument is missing, or of an unknown version");
    PEAL_TRY(check_step(script, &step, diag));
    peal_status status = append(script, &step);
    if (status == PEAL_ERR_LIMIT)
        return peal_fail_at(diag, status, script->path, step.line, 0, "too many steps");
    return status == PEAL_OK ? PEAL_OK : peal_fail(diag, status, "out of memory");
}

peal_status peal_schedule_stage(peal_schedule *script, peal_diag *diag)
{
    if (!script)
        return peal_fail(diag, PEAL_ERR_ARG, "an argument is missing");
    if (script->stages == SCRIPT_STAGES_MAX)
        return peal_fail_at(diag, PEAL_ERR_LIMIT, script->path, 0, 0, "more than %u stages",
                            SCRIPT_STAGES_MAX);
    if (script->nsteps && script->steps[script->nsteps - 1].stage == script->stages - 1)
        script->stages++;
    return PEAL_OK;
}

/* ---- copies ------------------------------------------------------------------------------ */

static peal_status copy_steps(const peal_schedule *script, peal_schedule *copy)
{
    PEAL_TRY(peal_grow(copy->ctx, (void **)&copy->steps, &copy->steps_capacity,
                       (size_t)script->nsteps + 1, sizeof *copy->steps, SCRIPT_STEPS_MAX + 1));
    PEAL_TRY(peal_grow(copy->ctx, (void **)&copy->ranks, &copy->ranks_capacity,
                       (size_t)script->nranks + 1, sizeof *copy->ranks, SCRIPT_NAMES_MAX + 1));
    if (script->nsteps)
        memcpy(copy->steps, script->steps, script->nsteps * sizeof *copy->steps);
    if (script->nranks)
        memcpy(copy->ranks, script->ranks, script->nranks * sizeof *copy->ranks);
    copy->nsteps = script->nsteps;
    copy->nranks = script->nranks;
    copy->stages = script->stages;
    return PEAL_OK;
}

peal_status peal_script_copy(const peal_schedule *script, peal_schedule **copy_out)
{
    peal_schedule *copy = peal_calloc(script->ctx, 1, sizeof *copy);
    if (!copy)
        return PEAL_ERR_MEMORY;
    copy->ctx = script->ctx;
    memcpy(copy->name, script->name, sizeof copy->name);
    memcpy(copy->path, script->path, sizeof copy->path);
    peal_status status = peal_plan_copy_head(script->head, &copy->head);
    if (status == PEAL_OK)
        status = copy_steps(script, copy);
    if (status != PEAL_OK) {
        peal_schedule_destroy(copy);
        return status;
    }
    *copy_out = copy;
    return PEAL_OK;
}

/* Lines are for messages: the same steps from elsewhere in a text are the same schedule. */
uint64_t peal_script_digest(const peal_schedule *script)
{
    const struct peal_plan *head = script->head;
    uint64_t digest = peal_hash64(script->ranks, script->nranks * sizeof *script->ranks);
    if (head->nblocks)
        digest ^= peal_hash64(head->names, head->nnames * sizeof *head->names) +
                  peal_hash64(head->lists, (2 * (size_t)head->nblocks + 1) * sizeof *head->lists);
    for (uint32_t i = 0; i < script->nsteps; i++) {
        const struct script_step *step = &script->steps[i];
        const uint64_t words[] = {digest,      step->reduces, step->gathers, step->stage,
                                  step->chunk, step->nfrom,   step->nto};
        digest = peal_hash64(words, sizeof words);
    }
    return digest;
}
