/* SPDX-License-Identifier: Apache-2.0 */
/* What a run has to tell: links, the critical path, the timeline. */
#include "model.h"

#include "sort.h"

#include <string.h>

static double us_of(uint64_t ps)
{
    return (double)ps * 1e-6;
}

/* ---- orders of numbers of records and of resources */

static int starts_before(const void *left, const void *right, const void *with)
{
    const struct peal_sim *sim = with;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    uint64_t x = sim->record[a].start, y = sim->record[b].start;
    return x < y || (x == y && a < b);
}

static double load_of(const struct peal_sim *sim, uint32_t r)
{
    return sim->resource[r].bytes / sim->resource[r].capacity;
}

static int busier(const void *left, const void *right, const void *with)
{
    const struct peal_sim *sim = with;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    double x = load_of(sim, a), y = load_of(sim, b);
    return x > y || (x == y && a < b);
}

/* ---- made when the run is over */

static peal_status list_links(struct peal_sim *sim)
{
    for (uint32_t r = 0; r < sim->fabric_resources; r++)
        sim->nused += sim->resource[r].bytes > 0;
    sim->used = peal_calloc(sim->ctx, sim->nused, sizeof *sim->used);
    sim->name = peal_calloc(sim->ctx, sim->nused, sizeof *sim->name);
    if (!sim->used || !sim->name)
        return PEAL_ERR_MEMORY;
    uint32_t n = 0;
    for (uint32_t r = 0; r < sim->fabric_resources; r++)
        if (sim->resource[r].bytes > 0)
            sim->used[n++] = r;
    peal_sort(sim->used, sim->nused, sizeof *sim->used, busier, sim);
    for (uint32_t i = 0; i < sim->nused; i++) {
        sim->resource[sim->used[i]].mark = i; /* where its name is */
        peal_topo_resource_names(sim->fabric, sim->used[i], sim->name[i].resource,
                                 sim->name[i].from, sim->name[i].to, sizeof sim->name[i].from);
    }
    return PEAL_OK;
}

static peal_status find_critical(struct peal_sim *sim)
{
    for (uint32_t r = sim->last; r != SIM_NONE; r = sim->record[r].pred)
        peal_sim_append(sim, &sim->path_back, r);
    for (uint32_t i = 0; i < sim->path_back.count / 2; i++) {
        uint32_t other = sim->path_back.count - 1 - i, record = sim->path_back.at[i];
        sim->path_back.at[i] = sim->path_back.at[other];
        sim->path_back.at[other] = record;
    }
    return sim->status;
}

/* Records by when they start: dealt to shares of the time, in each of which there are a few. */
static uint32_t share_of(const struct peal_sim *sim, uint32_t record, uint32_t shares)
{
    double part = (double)sim->record[record].start / ((double)sim->time + 1);
    return part < 1 ? (uint32_t)(part * shares) : shares - 1;
}

static void deal_records(struct peal_sim *sim, uint32_t *first, uint32_t shares)
{
    for (uint32_t i = 0; i < sim->records; i++)
        first[share_of(sim, i, shares) + 1]++;
    for (uint32_t s = 0; s < shares; s++)
        first[s + 1] += first[s];
    for (uint32_t i = 0; i < sim->records; i++)
        sim->by_start[first[share_of(sim, i, shares)]++] = i;
    for (uint32_t s = shares; s-- > 0;) /* each is where the next one began */
        first[s + 1] = first[s];
    first[0] = 0;
    for (uint32_t s = 0; s < shares; s++)
        peal_sort(&sim->by_start[first[s]], first[s + 1] - first[s], sizeof *sim->by_start,
                  starts_before, sim);
}

static peal_status list_records(struct peal_sim *sim)
{
    uint32_t shares = sim->records / 4 + 1;
    size_t room = (size_t)shares + 1;
    uint32_t *first = peal_calloc(sim->ctx, room, sizeof *first);
    sim->by_start = peal_calloc(sim->ctx, sim->records, sizeof *sim->by_start);
    if (sim->by_start) {
        sim->records_sorted = sim->records;
        if (first)
            deal_records(sim, first, shares);
    }
    peal_status status = first && sim->by_start ? PEAL_OK : PEAL_ERR_MEMORY;
    peal_free(sim->ctx, first, room * sizeof *first);
    return status;
}

peal_status peal_sim_results(struct peal_sim *sim)
{
    PEAL_TRY(list_links(sim));
    PEAL_TRY(find_critical(sim));
    return list_records(sim);
}

const char *peal_sim_name_of(const struct peal_sim *sim, uint32_t resource)
{
    uint32_t at = sim->resource[resource].mark;
    return at < sim->nused && sim->used[at] == resource ? sim->name[at].resource : NULL;
}

/* ---- asked for */

peal_status peal_sim_get(const peal_sim *sim, peal_sim_info *info)
{
    if (!sim || !info)
        return PEAL_ERR_ARG;
    peal_sim_info found = {.size = sizeof found,
                           .bytes = sim->bytes,
                           .time_us = us_of(sim->time),
                           .links = sim->nused,
                           .critical = sim->path_back.count,
                           .events = sim->records,
                           .ports = sim->ports};
    if (sim->bytes == sim->plan->max_bytes)
        found.model_us = us_of(sim->plan->time_ps);
    return peal_export(info, &found, sizeof found);
}

peal_status peal_sim_link_get(const peal_sim *sim, uint32_t index, peal_sim_link *info)
{
    if (!sim || !info || index >= sim->nused)
        return PEAL_ERR_ARG;
    const struct sim_resource *r = &sim->resource[sim->used[index]];
    peal_sim_link found = {.size = sizeof found,
                           .resource = sim->name[index].resource,
                           .from = sim->name[index].from,
                           .to = sim->name[index].to,
                           .beta_gbs = r->capacity * 1e3,
                           .busy_us = us_of(r->busy),
                           .bytes = r->bytes};
    if (sim->time)
        found.share = r->bytes / (r->capacity * (double)sim->time);
    return peal_export(info, &found, sizeof found);
}

static peal_status tell(const struct peal_sim *sim, uint32_t index, uint64_t before,
                        peal_sim_event *info)
{
    static const char *const kinds[] = {"move", "transfer", "signal", "wait"};
    const struct sim_record *record = &sim->record[index];
    const struct sim_lane *lane = &sim->lane[record->lane];
    const struct plan_rank *program = &sim->plan->ranks[lane->rank];
    const struct plan_step *step = &program->steps[record->step];
    peal_sim_event found = {.size = sizeof found,
                            .kind = kinds[record->kind],
                            .rank = lane->rank,
                            .lane = lane->index,
                            .step = record->step - program->lanes[lane->index].first,
                            .trip = record->trip,
                            .engine = (peal_engine)step->engine,
                            .bytes = record->bytes,
                            .start_us = us_of(record->start),
                            .end_us = us_of(record->end),
                            .own_us = us_of(record->end > before ? record->end - before : 0)};
    struct peal_buf text;
    peal_buf_init(&text, sim->ctx, 1u << 20);
    peal_plan_print_step(sim->plan, lane->rank, step, &text);
    peal_buf_put(&text, "", 1);
    if (text.status == PEAL_OK)
        peal_copy_text(found.text, sizeof found.text, text.data);
    peal_buf_free(&text);
    return peal_export(info, &found, sizeof found);
}

peal_status peal_sim_critical(const peal_sim *sim, uint32_t index, peal_sim_event *info)
{
    if (!sim || !info || index >= sim->path_back.count)
        return PEAL_ERR_ARG;
    uint64_t before = index ? sim->record[sim->path_back.at[index - 1]].end : 0;
    return tell(sim, sim->path_back.at[index], before, info);
}

peal_status peal_sim_event_get(const peal_sim *sim, uint32_t index, peal_sim_event *info)
{
    if (!sim || !info || index >= sim->records)
        return PEAL_ERR_ARG;
    return tell(sim, sim->by_start[index], SIM_NEVER, info);
}
