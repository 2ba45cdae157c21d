/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks of the fabric a group and its siblings are. */
#include "compiler.h"

#include <string.h>

uint32_t peal_group_rank(const struct group *group, uint32_t rank)
{
    return group->rank_of ? group->rank_of[rank] : rank;
}

void peal_group_path(const struct group *group, uint32_t from, uint32_t to, struct topo_path *path)
{
    peal_topo_path(group->fabric, peal_group_rank(group, from), peal_group_rank(group, to), path);
}

static uint32_t sibling_rank(const struct group *group, uint32_t s, uint32_t rank)
{
    return group->siblings[(size_t)s * group->n + rank];
}

void peal_group_sibling_path(const struct group *group, uint32_t s, uint32_t from, uint32_t to,
                             struct topo_path *path)
{
    peal_topo_path(group->fabric, sibling_rank(group, s, from), sibling_rank(group, s, to), path);
}

/* ---- hosts -------------------------------------------------------------------------- */

static uint32_t host_of(const struct group *group, uint32_t rank)
{
    return peal_topo_host_of(group->fabric, peal_group_rank(group, rank));
}

int peal_group_same_host(const struct group *group, uint32_t a, uint32_t b)
{
    return host_of(group, a) == host_of(group, b);
}

/* Index on its host. */
static uint32_t local_of(const struct group *group, uint32_t fabric_rank)
{
    uint32_t host = peal_topo_host_of(group->fabric, fabric_rank);
    return fabric_rank - peal_topo_host_first(group->fabric, host);
}

/* Rank `a` of each sibling lies on the group's own host there, as rank `b` of it does, both at
 * the same place. */
static int siblings_alike(const struct group *group, uint32_t a, uint32_t b)
{
    for (uint32_t s = 0; s < group->nsiblings; s++) {
        uint32_t left = sibling_rank(group, s, a), right = sibling_rank(group, s, b);
        if (peal_topo_host_of(group->fabric, left) != host_of(group, a) ||
            peal_topo_host_of(group->fabric, right) != host_of(group, b) ||
            local_of(group, left) != local_of(group, right))
            return 0;
    }
    return 1;
}

int peal_group_hosts_alike(const struct group *group, uint32_t a, uint32_t b)
{
    uint32_t first = group->host_first[a], other = group->host_first[b];
    uint32_t ranks = group->host_first[a + 1] - first;
    if (group->scattered || group->host_first[b + 1] - other != ranks ||
        peal_topo_host_type(group->fabric, host_of(group, first)) !=
            peal_topo_host_type(group->fabric, host_of(group, other)))
        return 0;
    if (!group->rank_of && !group->nsiblings) /* both are the first of their hosts */
        return 1;
    for (uint32_t i = 0; i < ranks; i++)
        if (local_of(group, peal_group_rank(group, first + i)) !=
                local_of(group, peal_group_rank(group, other + i)) ||
            !siblings_alike(group, first + i, other + i))
            return 0;
    return 1;
}

/* ---- the request's lists -------------------------------------------------------------- */

/* Marks the ranks of a list, each of which must be new. */
static peal_status mark_ranks(uint8_t *seen, uint32_t known, const uint32_t *list, size_t count,
                              peal_diag *diag)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i] >= known)
            return peal_fail(diag, PEAL_ERR_ARG, "rank %u of a group is not one of the fabric's %u",
                             list[i], known);
        if (seen[list[i] / 8] >> list[i] % 8 & 1)
            return peal_fail(diag, PEAL_ERR_ARG, "rank %u stands twice in a group and its siblings",
                             list[i]);
        seen[list[i] / 8] |= (uint8_t)(1u << list[i] % 8);
    }
    return PEAL_OK;
}

static void mark_first(uint8_t *seen, uint32_t ranks)
{
    for (uint32_t r = 0; r < ranks; r++)
        seen[r / 8] |= (uint8_t)(1u << r % 8);
}

static peal_status check_lists(const struct group *group, const peal_request *request,
                               peal_diag *diag)
{
    uint32_t known = peal_topo_ranks(group->fabric);
    size_t bytes = known / 8 + (size_t)1, siblings;
    if (peal_mul_overflows(request->nsiblings, group->n, &siblings) || siblings > known)
        return peal_fail(diag, PEAL_ERR_ARG, "%u siblings of %u ranks are more than the fabric has",
                         request->nsiblings, group->n);
    uint8_t *seen = peal_calloc(group->ctx, bytes, 1);
    if (!seen)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    peal_status status = PEAL_OK;
    if (request->group)
        status = mark_ranks(seen, known, request->group, group->n, diag);
    else
        mark_first(seen, group->n);
    if (status == PEAL_OK)
        status = mark_ranks(seen, known, request->siblings, siblings, diag);
    peal_free(group->ctx, seen, bytes);
    return status;
}

static int on_host(const struct group *group, const uint32_t *ranks, uint32_t host)
{
    for (uint32_t i = 0; i < group->n; i++)
        if (peal_topo_host_of(group->fabric, ranks[i]) == host)
            return 1;
    return 0;
}

static int on_one_host(const struct group *group)
{
    for (uint32_t r = 1; r < group->n; r++)
        if (!peal_group_same_host(group, 0, r))
            return 0;
    return 1;
}

/* A group on one host shares nothing with those that have no rank there. */
static void copy_siblings(struct group *group, const peal_request *request)
{
    int local = on_one_host(group);
    for (uint32_t s = 0; s < request->nsiblings; s++) {
        const uint32_t *ranks = &request->siblings[(size_t)s * group->n];
        if (!local || on_host(group, ranks, host_of(group, 0)))
            memcpy(&group->siblings[(size_t)group->nsiblings++ * group->n], ranks,
                   group->n * sizeof *ranks);
    }
}

static peal_status copy_lists(struct group *group, const peal_request *request)
{
    if (request->group) {
        group->rank_of = peal_alloc(group->ctx, group->n * sizeof(uint32_t));
        if (!group->rank_of)
            return PEAL_ERR_MEMORY;
        memcpy(group->rank_of, request->group, group->n * sizeof(uint32_t));
    }
    if (!request->nsiblings)
        return PEAL_OK;
    group->sibling_room = request->nsiblings;
    group->siblings =
        peal_alloc(group->ctx, (size_t)group->sibling_room * group->n * sizeof(uint32_t));
    if (!group->siblings)
        return PEAL_ERR_MEMORY;
    copy_siblings(group, request);
    return PEAL_OK;
}

static peal_status count_ranks(struct group *group, const peal_request *request, peal_diag *diag)
{
    uint32_t known = peal_topo_ranks(group->fabric);
    group->n = request->ranks ? request->ranks : known;
    if (!request->group != !request->group_size || !request->siblings != !request->nsiblings)
        return peal_fail(diag, PEAL_ERR_ARG, "a list of ranks without its length, or the reverse");
    if (request->group) {
        group->n = request->group_size;
        if (request->ranks && request->ranks != group->n)
            return peal_fail(diag, PEAL_ERR_ARG, "%u ranks asked for, of a group of %u",
                             request->ranks, group->n);
    }
    if (group->n > known)
        return peal_fail(diag, PEAL_ERR_ARG, "%u ranks asked for, but the fabric has %u", group->n,
                         known);
    return PEAL_OK;
}

peal_status peal_group_choose(struct group *group, const peal_request *request, peal_diag *diag)
{
    PEAL_TRY(count_ranks(group, request, diag));
    if (!request->group && !request->nsiblings)
        return PEAL_OK;
    PEAL_TRY(check_lists(group, request, diag));
    if (copy_lists(group, request) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    return PEAL_OK;
}
