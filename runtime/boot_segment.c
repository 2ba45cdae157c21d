/* SPDX-License-Identifier: Apache-2.0 */
/* The segments of a job's hosts. On each the lowest rank makes it, sealed, and tells the others
 * where it is; where not all of them get it so, it is made again, with a name. */
#include "job.h"

#include <stdio.h>

/* What a rank learns of all. */
struct places {
    struct rt_card *cards; /* of those that make one */
    uint8_t *has;          /* 1: its host's segment */
};

static int leads(const struct rt_job *job, uint32_t *leader)
{
    *leader = 0;
    while (!rt_job_near(job, *leader, job->rank))
        ++*leader;
    return *leader == job->rank;
}

static void token_of(const struct rt_job *job, uint64_t token[2])
{
    memcpy(token, job->world, sizeof job->world);
}

static peal_status make_places(const struct rt_job *job, struct places *places, peal_diag *diag)
{
    places->cards = peal_calloc(job->ctx, job->nranks, sizeof *places->cards);
    places->has = peal_calloc(job->ctx, job->nranks, sizeof *places->has);
    return places->cards && places->has ? PEAL_OK
                                        : peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
}

static void free_places(const struct rt_job *job, struct places *places)
{
    peal_free(job->ctx, places->cards, job->nranks * sizeof *places->cards);
    peal_free(job->ctx, places->has, job->nranks * sizeof *places->has);
}

static peal_status map_sealed(struct rt_job *job, const struct rt_layout *layout,
                              struct places *places, struct rt_segment *segment, peal_diag *diag)
{
    uint32_t leader;
    uint64_t token[2];
    int first = leads(job, &leader);
    token_of(job, token);
    uint8_t has = first && rt_segment_seal(layout, token, segment);
    PEAL_TRY(rt_job_exchange(job, &segment->card, sizeof segment->card, places->cards, diag));
    if (!first)
        has = rt_segment_take(layout, &places->cards[leader], token, segment, NULL) == PEAL_OK;
    return rt_job_exchange(job, &has, sizeof has, places->has, diag);
}

static int all_have(const struct rt_job *job, const struct places *places)
{
    int all = 1;
    for (uint32_t r = 0; r < job->nranks; r++)
        all &= places->has[r] || !rt_job_near(job, r, job->rank);
    return all;
}

/* Made before the others look for it. *agreed: what is returned is what all have heard. */
static peal_status map_named(struct rt_job *job, const struct rt_layout *layout, int again,
                             struct rt_segment *segment, int *agreed, peal_diag *diag)
{
    char name[64];
    uint32_t leader;
    uint64_t token[2];
    peal_status status = PEAL_OK;
    int first = leads(job, &leader);
    token_of(job, token);
    (void)snprintf(name, sizeof name, "/peal-%016llx%016llx-%u", (unsigned long long)token[0],
                   (unsigned long long)token[1], leader);
    if (again) {
        rt_segment_unlink(segment);
        rt_segment_unmap(segment);
    }
    if (again && first)
        status = rt_segment_create(layout, name, 0, segment, diag);
    status = rt_job_agree(job, status, diag);
    *agreed = status != PEAL_OK;
    if (again && !first && !*agreed)
        status = rt_segment_attach(layout, name, job->timeout_ms, segment, diag);
    return status;
}

static peal_status map_any(struct rt_job *job, const struct rt_layout *layout,
                           struct places *places, struct rt_segment *segment, peal_diag *diag)
{
    PEAL_TRY(map_sealed(job, layout, places, segment, diag));
    /* What all make, all agree on. */
    peal_status status = PEAL_OK;
    int agreed = 0;
    if (memchr(places->has, 0, job->nranks))
        status = map_named(job, layout, !all_have(job, places), segment, &agreed, diag);
    if (status == PEAL_OK)
        status = rt_segment_reserve_rank(segment, job->rank, diag);
    return agreed ? status : rt_job_agree(job, status, diag);
}

peal_status rt_job_segment(struct rt_job *job, const peal_table *table, uint64_t heap_bytes,
                           struct rt_segment *segment, peal_diag *diag)
{
    struct rt_layout layout;
    struct places places = {NULL, NULL};
    PEAL_TRY(rt_layout_make(table, job->nranks, heap_bytes, &layout, diag));
    peal_status status = rt_job_agree(job, make_places(job, &places, diag), diag);
    if (status == PEAL_OK)
        status = map_any(job, &layout, &places, segment, diag);
    free_places(job, &places);
    rt_segment_unlink(segment);
    return status;
}
