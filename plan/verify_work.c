/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a proof takes, told beforehand: a few bytes of a file may stand for many moves, many trips,
 * or ranks that each look at a long list. A table may take so much in any case, and more as it has
 * steps and ranks: those of schedules that anybody runs touch no more chunks in a step than there
 * are ranks, by and large. Units are chunks of operands, some tens of nanoseconds each.
 */
#include "verify.h"

#define WORK_ANY (1ull << 27)
#define WORK_STEP 2u         /* for each rank */
#define WORK_STEP_RANKS 256u /* at least */
#define WORK_MOST UINT64_MAX

static uint64_t times(uint64_t a, uint64_t b)
{
    return b && a > WORK_MOST / b ? WORK_MOST : a * b;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > WORK_MOST - b ? WORK_MOST : a + b;
}

/* How often a step outside of loops is executed, and one of a body. */
struct often {
    uint64_t once;
    uint64_t body;
};

static struct often how_often(const struct peal_plan *plan)
{
    uint32_t most = peal_verify_trips(plan);
    int small = plan->nranks <= VERIFY_CHAIN_RANKS;
    uint64_t modes = 1u + (peal_plan_collective(plan->collective)->in_place != 0);
    uint64_t each = small && most > VERIFY_EVERY_TRIPS ? VERIFY_EVERY_TRIPS : small ? most : 1;
    struct often often = {each, each * (each + 1) / 2};
    if (most > each) {
        often.once++;
        often.body += most;
    }
    modes *= small ? VERIFY_CALLS_MAX : 1;
    return (struct often){often.once * modes, often.body * modes};
}

static uint64_t step_work(const struct plan_step *step)
{
    return 1u + ((uint64_t)step->nsrc + step->ndst) * ((uint64_t)step->more + 1);
}

static uint64_t rank_work(const struct plan_rank *rank, struct often often)
{
    uint64_t work = 0;
    for (uint32_t l = 0; l < rank->nlanes; l++) {
        const struct plan_lane *lane = &rank->lanes[l];
        uint32_t steps = lane->pre + lane->body + lane->post;
        for (uint32_t i = 0; i < steps; i++) {
            int body = i >= lane->pre && i < lane->pre + lane->body;
            uint64_t one = step_work(&rank->steps[lane->first + i]);
            work = plus(work, times(one, body ? often.body : often.once));
        }
    }
    return work;
}

/* Lists of blocks are gone through for each rank's input and its output, some entries in the time
 * of a move. */
static uint64_t list_work(const struct peal_plan *plan)
{
    return peal_plan_scattered(plan) ? times(plan->nranks, peal_plan_blocks(plan)) / 2 : 0;
}

static uint64_t plan_work(const struct peal_plan *plan, uint64_t *steps)
{
    struct often often = how_often(plan);
    uint64_t work = times(list_work(plan), often.once);
    for (uint32_t r = peal_plan_first(plan); r < peal_plan_end(plan); r++) {
        const struct plan_rank *rank = peal_plan_program(plan, r);
        *steps += rank->nsteps;
        work = plus(work, rank_work(rank, often));
    }
    return work;
}

peal_status peal_verify_affordable(const peal_table *table, peal_diag *diag)
{
    uint64_t steps = 0, work = 0, most = 0;
    uint32_t ranks = table->nranks > WORK_STEP_RANKS ? table->nranks : WORK_STEP_RANKS, worst = 0;
    for (uint32_t i = 0; i < table->nrows; i++) {
        uint64_t one = plan_work(table->rows[i].plan, &steps);
        work = plus(work, one);
        if (one > most)
            worst = i;
        most = one > most ? one : most;
    }
    if (work <= plus(WORK_ANY, times(steps, (uint64_t)WORK_STEP * ranks)))
        return PEAL_OK;
    return peal_fail_at(diag, PEAL_ERR_LIMIT, table->name[0] ? table->name : NULL,
                        table->name[0] ? table->rows[worst].line : 0, 0,
                        "proving the table takes %llu moves, %llu of them for plan %u, which is "
                        "too many for its %llu steps",
                        (unsigned long long)work, (unsigned long long)most, worst,
                        (unsigned long long)steps);
}
