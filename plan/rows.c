/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a table: their order, finding one, and joining those of two tables. */
#include "wire.h"

/* ---- their order */

/* Whom a row serves. Rows are sorted by it, and those of one key by size. */
struct key {
    uint32_t collective;
    uint32_t root;
    uint32_t peer;
};

static struct key key_of(const peal_row_info *info)
{
    return (struct key){(uint32_t)info->collective, info->root, info->peer};
}

static int compare_keys(struct key a, struct key b)
{
    if (a.collective != b.collective)
        return a.collective < b.collective ? -1 : 1;
    if (a.root != b.root)
        return a.root < b.root ? -1 : 1;
    return a.peer == b.peer ? 0 : a.peer < b.peer ? -1 : 1;
}

static struct key plan_key(const struct peal_plan *plan)
{
    return (struct key){(uint32_t)plan->collective, plan->root, plan->peer};
}

static peal_status check_neighbours(const peal_table *table, uint32_t row, const char *path,
                                    peal_diag *diag)
{
    const struct peal_plan *before = table->rows[row - 1].plan;
    const struct peal_plan *plan = table->rows[row].plan;
    int order = compare_keys(plan_key(before), plan_key(plan));
    if (order > 0)
        return peal_fail_at(diag, PEAL_ERR_PLAN, path, 0, 0,
                            "plan %u stands before plan %u by collective, root and peer", row,
                            row - 1);
    if (order == 0 && plan->min_bytes != before->max_bytes + 1)
        return peal_fail_at(
            diag, PEAL_ERR_PLAN, path, 0, 0,
            "plan %u starts at %llu bytes, not right behind the one before it: %llu", row,
            (unsigned long long)plan->min_bytes, (unsigned long long)before->max_bytes + 1);
    return PEAL_OK;
}

peal_status peal_table_check_rows(const peal_table *table, const char *path, uint32_t *row,
                                  peal_diag *diag)
{
    if (table->nrows == 0)
        return peal_fail_at(diag, PEAL_ERR_ARG, path, 0, 0, "the table has no rows");
    for (uint32_t i = 0; i < table->nrows; i++) {
        const struct peal_plan *plan = table->rows[i].plan;
        if (row)
            *row = i;
        if (!plan)
            return peal_fail_at(diag, PEAL_ERR_ARG, path, 0, 0, "row %u holds no program", i);
        if (plan->nranks != table->nranks)
            return peal_fail_at(diag, PEAL_ERR_PLAN, path, 0, 0,
                                "plan %u is not of the table's %u ranks", i, table->nranks);
        if (plan->sliced != table->rows[0].plan->sliced ||
            plan->slice_rank != table->rows[0].plan->slice_rank)
            return peal_fail_at(diag, PEAL_ERR_PLAN, path, 0, 0,
                                "plan %u is not of the same rank as those before, or not whole as "
                                "they are",
                                i);
        if (i > 0)
            PEAL_TRY(check_neighbours(table, i, path, diag));
    }
    return PEAL_OK;
}

/* ---- finding one */

/* 1: the row comes before every row that could serve the key and size. */
static int precedes(const peal_row_info *row, struct key key, uint64_t bytes)
{
    int order = compare_keys(key_of(row), key);
    return order < 0 || (order == 0 && row->max_bytes < bytes);
}

/* The first row of the key whose max_bytes holds the size. */
peal_status peal_table_lookup(const peal_table *table, peal_collective collective, uint32_t root,
                              uint32_t peer, uint64_t bytes, uint32_t *row_out)
{
    if (!table || !row_out)
        return PEAL_ERR_ARG;
    struct key key = {(uint32_t)collective, root, peer};
    uint32_t low = 0;
    uint32_t high = table->nrows;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (precedes(&table->rows[middle].info, key, bytes))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == table->nrows || compare_keys(key_of(&table->rows[low].info), key) != 0)
        return PEAL_ERR_RANGE;
    *row_out = low;
    return PEAL_OK;
}

/* ---- joining */

static int all_compiled(const peal_table *table)
{
    peal_table_info info = {.size = sizeof info};
    return peal_table_get(table, &info) == PEAL_OK && info.compiled;
}

static peal_status check_join(const peal_table *table, const peal_table *from, peal_diag *diag)
{
    if (!table || !from || table == from || table->ctx != from->ctx)
        return peal_fail(diag, PEAL_ERR_ARG, "two tables of one context are needed");
    if (!all_compiled(table) || !all_compiled(from))
        return peal_fail(diag, PEAL_ERR_ARG, "both tables have to be compiled and hold rows");
    const struct peal_plan *one = table->rows[0].plan, *other = from->rows[0].plan;
    if (one->sliced != other->sliced || one->slice_rank != other->slice_rank)
        return peal_fail(diag, PEAL_ERR_ARG, "two tables of one rank's programs, or of all ranks'");
    if (table->nranks != from->nranks)
        return peal_fail(diag, PEAL_ERR_ARG, "a table of %u ranks and one of %u", table->nranks,
                         from->nranks);
    if (table->nrows > WIRE_ROWS_MAX - from->nrows)
        return peal_fail(diag, PEAL_ERR_ARG, "%u and %u rows are more than a table's %u",
                         table->nrows, from->nrows, WIRE_ROWS_MAX);
    return PEAL_OK;
}

/* Merges the rows of both. 0: some key is in both. */
static int merge(const peal_table *table, const peal_table *from, struct table_row *to)
{
    uint32_t a = 0;
    uint32_t b = 0;
    while (a < table->nrows || b < from->nrows) {
        int order = a == table->nrows ? 1
                    : b == from->nrows
                        ? -1
                        : compare_keys(key_of(&table->rows[a].info), key_of(&from->rows[b].info));
        if (order == 0)
            return 0;
        *to++ = order < 0 ? table->rows[a++] : from->rows[b++];
    }
    return 1;
}

/* The compiler's notes count the rows of the table they were made for. */
static void drop_planner(peal_table *table)
{
    if (table->planner_free)
        table->planner_free(table->ctx, table->planner);
    table->planner = NULL;
    table->planner_free = NULL;
}

peal_status peal_table_join(peal_table *table, peal_table *from, peal_diag *diag)
{
    PEAL_TRY(check_join(table, from, diag));
    size_t nrows = (size_t)table->nrows + from->nrows;
    struct table_row *rows = peal_calloc(table->ctx, nrows, sizeof *rows);
    if (!rows)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    if (!merge(table, from, rows)) {
        peal_free(table->ctx, rows, nrows * sizeof *rows);
        return peal_fail(diag, PEAL_ERR_ARG,
                         "both tables have rows of one collective, root and peer");
    }
    drop_planner(table);
    drop_planner(from);
    peal_free(table->ctx, table->rows, table->nrows * sizeof *table->rows);
    peal_free(from->ctx, from->rows, from->nrows * sizeof *from->rows);
    table->rows = rows;
    table->nrows = (uint32_t)nrows;
    table->verified = table->verified && from->verified;
    if (!peal_streq(table->name, from->name))
        table->name[0] = '\0';
    from->rows = NULL;
    from->nrows = 0;
    from->verified = 0;
    return PEAL_OK;
}
