/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of a run: a record of each transfer, and, when asked for, which records each comes
 * behind. Sets of records never change once made, so that lanes and signals share them. */
#include "model.h"

uint32_t peal_sim_record(struct peal_sim *sim, const struct sim_record *record, uint32_t deps)
{
    peal_status status = peal_grow(sim->ctx, (void **)&sim->record, &sim->record_capacity,
                                   (size_t)sim->records + 1, sizeof *sim->record, SIM_RECORDS_MAX);
    if (status == PEAL_OK && sim->keep)
        status = peal_grow(sim->ctx, (void **)&sim->record_deps, &sim->record_deps_capacity,
                           (size_t)sim->records + 1, sizeof *sim->record_deps, SIM_RECORDS_MAX);
    if (status != PEAL_OK) {
        sim->status = status;
        return SIM_NONE;
    }
    sim->record[sim->records] = *record;
    if (sim->keep)
        sim->record_deps[sim->records] = deps;
    return sim->records++;
}

void peal_sim_ended(struct peal_sim *sim, uint32_t record)
{
    if (sim->keep)
        peal_sim_append(sim, &sim->done_order, record);
}

/* ---- sets: SIM_NONE is the empty one */

uint32_t peal_sim_deps_one(struct peal_sim *sim, uint32_t record)
{
    if (!sim->keep || record == SIM_NONE)
        return SIM_NONE;
    uint32_t set = sim->pool.count;
    peal_sim_append(sim, &sim->pool, 1);
    peal_sim_append(sim, &sim->pool, record);
    return set;
}

uint32_t peal_sim_deps_join(struct peal_sim *sim, uint32_t a, uint32_t b)
{
    if (a == SIM_NONE || a == b)
        return b;
    if (b == SIM_NONE)
        return a;
    uint32_t set = sim->pool.count, i = a + 1, k = b + 1;
    uint32_t a_end = i + sim->pool.at[a], b_end = k + sim->pool.at[b];
    peal_sim_append(sim, &sim->pool, 0);
    while (sim->status == PEAL_OK && (i < a_end || k < b_end)) {
        uint32_t x = i < a_end ? sim->pool.at[i] : SIM_NONE;
        uint32_t y = k < b_end ? sim->pool.at[k] : SIM_NONE;
        peal_sim_append(sim, &sim->pool, x < y ? x : y);
        sim->pool.at[set]++;
        i += x <= y;
        k += y <= x;
    }
    return set;
}
