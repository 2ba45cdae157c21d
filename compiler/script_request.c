/* SPDX-License-Identifier: Apache-2.0 */
/* A request's script: has to be of what is asked for, and to do it. */
#include "script.h"

const char *peal_candidate_name(const struct planner *planner, const struct candidate *candidate)
{
    return candidate->algo == ALGO_SCRIPT ? planner->script->name
                                          : peal_algo_get(candidate->algo)->name;
}

static peal_status check_fit(const struct planner *planner, peal_diag *diag)
{
    const peal_request *request = &planner->request;
    const peal_schedule *script = request->schedule;
    const struct peal_plan *head = script->head;
    if (head->collective != request->collective || planner->npairs)
        return peal_fail(diag, PEAL_ERR_ARG, "%s is an algorithm for %s, not for %s%s",
                         script->name, peal_collective_name(head->collective),
                         peal_collective_name(request->collective),
                         planner->npairs ? " by a list" : "");
    if (head->nranks != planner->group.n || head->root != request->root ||
        head->peer != request->peer)
        return peal_fail(diag, PEAL_ERR_ARG,
                         "%s was written down for %u ranks, root %u and peer %u, not for %u, %u "
                         "and %u",
                         script->name, head->nranks, head->root, head->peer, planner->group.n,
                         request->root, request->peer);
    return PEAL_OK;
}

peal_status peal_planner_script(struct planner *planner, peal_diag *diag)
{
    const peal_schedule *script = planner->request.schedule;
    if (!script && planner->request.collective == PEAL_CUSTOM)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "custom is what an algorithm of one's own says it is: none is given");
    if (!script)
        return PEAL_OK;
    PEAL_TRY(check_fit(planner, diag));
    PEAL_TRY(peal_schedule_check(script, diag));
    peal_status status = peal_script_copy(script, &planner->script);
    planner->request.schedule = NULL; /* the caller's */
    if (status == PEAL_OK)
        status = peal_script_sort(planner->script);
    return status == PEAL_OK ? PEAL_OK : peal_fail(diag, status, "out of memory");
}

void peal_planner_forget_scripts(struct planner *planner)
{
    for (uint32_t i = 0; i < planner->nscript_times; i++)
        peal_free(planner->ctx, planner->script_times[i], sizeof *planner->script_times[i]);
    peal_free(planner->ctx, planner->script_times,
              planner->script_times_capacity * sizeof(struct script_times *));
    peal_schedule_destroy(planner->script);
}
