/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a request into a planner: defaults, names, and what cannot be asked for. */
#include "script.h"
#include "select.h"

#include <stdio.h>

#define MIN_BYTES_DEFAULT 8u
#define MAX_BYTES_DEFAULT (8ull << 30)
#define SCRATCH_DEFAULT (256ull << 20)

static peal_status read_algorithm(struct planner *planner, peal_diag *diag)
{
    const char *name = planner->request.algorithm;
    planner->algorithm = ALGO_ANY;
    planner->request.algorithm = NULL; /* the caller's string need not outlive the call */
    if (!name)
        return PEAL_OK;
    if (planner->request.schedule && peal_streq(name, planner->request.schedule->name)) {
        planner->algorithm = ALGO_SCRIPT;
        return PEAL_OK;
    }
    for (uint32_t i = 0; i < ALGO_COUNT; i++)
        if (peal_streq(name, peal_algo_get((enum algorithm)i)->name)) {
            planner->algorithm = (enum algorithm)i;
            return PEAL_OK;
        }
    char known[256] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < ALGO_COUNT && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                                 peal_algorithm_name(i));
    return peal_fail(diag, PEAL_ERR_ARG, "unknown algorithm %s; known are %s", name, known);
}

peal_status peal_select_check_engines(const struct planner *planner, peal_diag *diag)
{
    uint32_t arch = peal_topo_rank_arch(planner->fabric, peal_group_rank(&planner->group, 0));
    for (uint32_t c = 0; c < PEAL_LINK_CLASS_COUNT; c++) {
        uint32_t asked = planner->request.move_engine[c];
        uint32_t can =
            peal_plan_engines((uint8_t)c, 1, arch) | peal_plan_engines((uint8_t)c, 0, arch);
        if (asked > PEAL_ENGINE_COUNT)
            return peal_fail(diag, PEAL_ERR_ARG, "unknown engine number %u", asked - 1);
        if (asked == PEAL_ENGINE_TMA + 1 && arch && arch < 90)
            return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                             "engine tma needs compute capability 9.0; these are sm_%u", arch);
        if (asked && !(can & 1u << (asked - 1)))
            return peal_fail(diag, PEAL_ERR_UNSUPPORTED, "engine %s cannot move over %s here",
                             peal_engine_name((peal_engine)(asked - 1)),
                             peal_link_class_name((peal_link_class)c));
    }
    return PEAL_OK;
}

static peal_status check_zero_sm(const peal_request *request, peal_diag *diag)
{
    if (!request->zero_sm)
        return PEAL_OK;
    if (peal_plan_collective(request->collective)->reduces)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "%s reduces, which copy engines and NICs cannot: it needs at least one SM",
                         peal_collective_name(request->collective));
    for (uint32_t c = 0; c < PEAL_LINK_CLASS_COUNT; c++)
        if (request->move_engine[c] == PEAL_ENGINE_SM + 1 ||
            request->move_engine[c] == PEAL_ENGINE_TMA + 1 ||
            request->move_engine[c] == PEAL_ENGINE_IBGDA + 1)
            return peal_fail(diag, PEAL_ERR_ARG, "engine %s over %s holds an SM",
                             peal_engine_name((peal_engine)(request->move_engine[c] - 1)),
                             peal_link_class_name((peal_link_class)c));
    return PEAL_OK;
}

peal_status peal_select_request(struct planner *planner, const peal_request *request,
                                peal_diag *diag)
{
    peal_request *to = &planner->request;
    if (peal_import(to, sizeof *to, request) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_ARG, "request of an unknown version");
    to->min_bytes = to->min_bytes ? to->min_bytes : MIN_BYTES_DEFAULT;
    to->max_bytes = to->max_bytes ? to->max_bytes : MAX_BYTES_DEFAULT;
    to->scratch_limit = to->scratch_limit ? to->scratch_limit : SCRATCH_DEFAULT;
    if ((unsigned)to->collective >= PEAL_COLLECTIVE_COUNT)
        return peal_fail(diag, PEAL_ERR_ARG, "unknown collective number %d", (int)to->collective);
    if (to->min_bytes > to->max_bytes || to->max_bytes > 1ull << 46)
        return peal_fail(diag, PEAL_ERR_ARG,
                         "sizes from %llu to %llu bytes are no range below 64 TiB",
                         (unsigned long long)to->min_bytes, (unsigned long long)to->max_bytes);
    if (to->channels > CHANNELS_MAX)
        return peal_fail(diag, PEAL_ERR_ARG, "%u channels; at most %u", to->channels, CHANNELS_MAX);
    if (to->depth > PEAL_DEPTH_MAX)
        return peal_fail(diag, PEAL_ERR_ARG, "a depth of %u; at most %u", to->depth,
                         PEAL_DEPTH_MAX);
    if (to->tile_bytes % PLAN_ALIGN)
        return peal_fail(diag, PEAL_ERR_ARG, "a tile is a multiple of %u bytes", PLAN_ALIGN);
    if (!(to->sm_price >= 0 && to->sm_price <= 1000))
        return peal_fail(diag, PEAL_ERR_ARG, "the price of an SM lies between 0 and 1000");
    if ((unsigned)to->wire >= PEAL_WIRE_COUNT)
        return peal_fail(diag, PEAL_ERR_ARG, "unknown wire format number %d", (int)to->wire);
    PEAL_TRY(check_zero_sm(to, diag));
    PEAL_TRY(peal_level_request(planner, diag));
    return read_algorithm(planner, diag);
}

peal_status peal_select_check_ends(const struct planner *planner, peal_diag *diag)
{
    const peal_request *request = &planner->request;
    const char *name = peal_collective_name(request->collective);
    int rooted = peal_plan_collective(request->collective)->rooted;
    int pair = request->collective == PEAL_SENDRECV;
    if ((request->root && !rooted) || (request->peer && !pair))
        return peal_fail(diag, PEAL_ERR_ARG, "%s has no %s", name,
                         request->root && !rooted ? "root" : "peer");
    if (request->npairs && !pair)
        return peal_fail(diag, PEAL_ERR_ARG, "%s has no pairs", name);
    if (request->npairs && request->root != request->peer)
        return peal_fail(diag, PEAL_ERR_ARG,
                         "root and peer of a list of pairs are its number, and equal");
    if (pair && !request->npairs && request->root == request->peer)
        return peal_fail(diag, PEAL_ERR_ARG, "a rank sends to itself");
    return PEAL_OK;
}
