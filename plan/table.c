/* SPDX-License-Identifier: Apache-2.0 */
/* A table: plans by collective and size range, and what can be asked about them. */
#include "wire.h"

#include <string.h>

peal_status peal_table_create(peal_ctx *ctx, uint32_t nrows, peal_table **table_out)
{
    if (nrows == 0 || nrows > WIRE_ROWS_MAX)
        return PEAL_ERR_ARG;
    peal_table *table = peal_calloc(ctx, 1, sizeof *table);
    if (!table)
        return PEAL_ERR_MEMORY;
    table->rows = peal_calloc(ctx, nrows, sizeof *table->rows);
    if (!table->rows) {
        peal_free(ctx, table, sizeof *table);
        return PEAL_ERR_MEMORY;
    }
    table->ctx = ctx;
    table->nrows = nrows;
    for (uint32_t i = 0; i < nrows; i++)
        table->rows[i].info.size = sizeof table->rows[i].info;
    *table_out = table;
    return PEAL_OK;
}

void peal_table_destroy(peal_table *table)
{
    if (!table)
        return;
    peal_ctx *ctx = table->ctx;
    if (table->planner_free)
        table->planner_free(ctx, table->planner);
    for (uint32_t i = 0; i < table->nrows; i++)
        peal_plan_destroy(table->rows[i].plan);
    peal_free(ctx, table->rows, table->nrows * sizeof *table->rows);
    peal_free(ctx, table, sizeof *table);
}

static int all_compiled(const peal_table *table)
{
    for (uint32_t i = 0; i < table->nrows; i++) {
        if (!table->rows[i].plan)
            return 0;
    }
    return table->nrows > 0;
}

peal_status peal_table_get(const peal_table *table, peal_table_info *info)
{
    if (!table || !info)
        return PEAL_ERR_ARG;
    peal_table_info full = {.size = sizeof full};
    full.collective = table->nrows ? table->rows[0].info.collective : PEAL_ALLREDUCE;
    full.ranks = table->nranks;
    full.rows = table->nrows;
    full.compiled = all_compiled(table);
    full.verified = table->verified;
    const struct peal_plan *first = table->nrows ? table->rows[0].plan : NULL;
    full.sliced = first && first->sliced;
    full.slice_rank = full.sliced ? first->slice_rank : 0;
    return peal_export(info, &full, sizeof full);
}

peal_status peal_table_row(const peal_table *table, uint32_t row, peal_row_info *info)
{
    if (!table || !info || row >= table->nrows)
        return PEAL_ERR_ARG;
    return peal_export(info, &table->rows[row].info, sizeof table->rows[row].info);
}

void peal_plan_hex(char *at, struct peal_hash128 hash)
{
    for (unsigned i = 0; i < 16; i++) {
        at[i] = "0123456789abcdef"[hash.high >> (60 - 4 * i) & 0xf];
        at[16 + i] = "0123456789abcdef"[hash.low >> (60 - 4 * i) & 0xf];
    }
}

static const struct peal_plan *plan_of(const peal_table *table, uint32_t row)
{
    return table && row < table->nrows ? table->rows[row].plan : NULL;
}

peal_status peal_table_id(const peal_table *table, uint32_t row, char id_out[33])
{
    const struct peal_plan *plan = plan_of(table, row);
    if (!plan || !id_out)
        return PEAL_ERR_ARG;
    peal_plan_hex(id_out, plan->id);
    id_out[32] = '\0';
    return PEAL_OK;
}

peal_status peal_table_block(const peal_table *table, uint32_t row, uint32_t index,
                             peal_block *block)
{
    const struct peal_plan *plan = table && row < table->nrows ? table->rows[row].plan : NULL;
    if (!plan || !block || index >= plan->nblocks)
        return PEAL_ERR_ARG;
    *block = peal_plan_block(plan, index);
    return PEAL_OK;
}

const uint32_t *peal_table_pairs(const peal_table *table, uint32_t row, uint32_t *count_out)
{
    const struct peal_plan *plan = plan_of(table, row);
    if (count_out)
        *count_out = plan ? plan->npairs : 0;
    return plan ? plan->pairs : NULL;
}

peal_status peal_table_lanes(const peal_table *table, uint32_t row, uint32_t rank,
                             uint32_t *count_out)
{
    const struct peal_plan *plan = plan_of(table, row);
    const struct plan_rank *program = plan ? peal_plan_program(plan, rank) : NULL;
    if (!program || !count_out)
        return PEAL_ERR_ARG;
    *count_out = program->nlanes;
    return PEAL_OK;
}

static const char *section_of(const struct plan_lane *lane, uint32_t index)
{
    if (index < lane->pre)
        return "pre";
    return index - lane->pre < lane->body ? "body" : "post";
}

/* The step's line, cut off at the size of text. */
static peal_status step_text(const struct peal_plan *plan, uint32_t rank,
                             const struct plan_step *step, char *text, size_t bytes)
{
    struct peal_buf line;
    peal_buf_init(&line, plan->ctx, 1u << 20);
    peal_plan_print_step(plan, rank, step, &line);
    peal_status status = line.status;
    if (status == PEAL_OK) {
        size_t length = line.used < bytes ? line.used : bytes - 1;
        memcpy(text, line.data, length);
        text[length] = '\0';
    }
    peal_buf_free(&line);
    return status;
}

peal_status peal_table_step(const peal_table *table, uint32_t row, uint32_t rank, uint32_t lane,
                            uint32_t index, peal_step_info *info)
{
    const struct peal_plan *plan = plan_of(table, row);
    const struct plan_rank *program = plan ? peal_plan_program(plan, rank) : NULL;
    if (!program || !info || lane >= program->nlanes)
        return PEAL_ERR_ARG;
    const struct plan_lane *where = &program->lanes[lane];
    if (index >= where->pre + where->body + where->post)
        return PEAL_ERR_ARG;
    const struct plan_step *step = &program->steps[where->first + index];
    peal_step_info full = {.size = sizeof full};
    full.op = peal_plan_op_name(step->op);
    full.section = section_of(where, index);
    full.engine = (peal_engine)step->engine;
    full.moves_data = peal_plan_op_moves(step->op);
    full.chunks = full.moves_data ? step->more + 1 : 0;
    PEAL_TRY(step_text(plan, rank, step, full.text, sizeof full.text));
    return peal_export(info, &full, sizeof full);
}
