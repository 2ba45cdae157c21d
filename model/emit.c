/* SPDX-License-Identifier: Apache-2.0 */
/* The forms in which a plan, or a run of it, is written for other programs. */
#include "emit.h"

#define PASS_BYTES (1u << 16)

void peal_emit_init(struct emit *emit, peal_ctx *ctx, peal_write_fn write, void *user)
{
    peal_buf_init(&emit->buf, ctx, (size_t)1 << 30);
    emit->write = write;
    emit->user = user;
    emit->status = PEAL_OK;
    emit->wrong = 0;
}

static void pass(struct emit *emit)
{
    if (emit->status == PEAL_OK)
        emit->status = emit->buf.status;
    if (emit->status == PEAL_OK && emit->buf.used)
        emit->status = emit->write(emit->user, emit->buf.data, emit->buf.used);
    emit->buf.used = 0;
}

void peal_emit_pass(struct emit *emit)
{
    if (emit->buf.used >= PASS_BYTES)
        pass(emit);
}

peal_status peal_emit_end(struct emit *emit, peal_diag *diag)
{
    pass(emit);
    peal_buf_free(&emit->buf);
    if (emit->status != PEAL_OK)
        return peal_fail(diag, emit->status, "writing: %s", peal_status_text(emit->status));
    if (emit->wrong)
        return peal_fail(diag, PEAL_ERR_UNPROVEN, "the plan leaves %llu tiles wrong",
                         (unsigned long long)emit->wrong);
    return PEAL_OK;
}

peal_status peal_sim_write(const peal_sim *sim, const char *form, peal_write_fn write, void *user,
                           peal_diag *diag)
{
    static const struct {
        const char *name;
        void (*emit)(const struct peal_sim *sim, struct emit *emit);
    } forms[] = {
        {"trace", peal_trace_emit}, {"flows", peal_flows_emit}, {"steps", peal_states_emit}};
    struct emit emit;
    if (!sim || !form || !write)
        return peal_fail(diag, PEAL_ERR_ARG, "an argument is missing");
    if (!sim->keep)
        return peal_fail(diag, PEAL_ERR_ARG, "the simulation has not kept its waits");
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (!peal_streq(form, forms[i].name))
            continue;
        peal_emit_init(&emit, sim->ctx, write, user);
        forms[i].emit(sim, &emit);
        return peal_emit_end(&emit, diag);
    }
    return peal_fail(diag, PEAL_ERR_ARG, "there is no form '%s' of a simulation", form);
}

/* ---- of plans alone */

static peal_status emit_plan(const struct peal_plan *plan, const char *form, uint64_t bytes,
                             int collapse, struct emit *emit, peal_diag *diag)
{
    uint64_t *chunk;
    uint32_t trips;
    if (peal_sim_cut(plan, bytes, &chunk, &trips) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    if (peal_streq(form, "dot"))
        peal_dot_emit(plan, chunk, collapse, emit);
    else
        peal_goal_emit(plan, chunk, trips, emit);
    peal_free(plan->ctx, chunk, ((size_t)plan->nchunks + 1) * sizeof *chunk);
    return PEAL_OK;
}

peal_status peal_table_emit(const peal_table *table, uint32_t row, const char *form,
                            const peal_emit_params *params, peal_write_fn write, void *user,
                            peal_diag *diag)
{
    peal_emit_params own = PEAL_EMIT_PARAMS_INIT;
    struct emit emit;
    if (!table || !form || !write)
        return peal_fail(diag, PEAL_ERR_ARG, "an argument is missing");
    if (params && peal_import(&own, sizeof own, params) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_ARG, "the parameters are of a later version");
    if (!peal_streq(form, "dot") && !peal_streq(form, "goal"))
        return peal_fail(diag, PEAL_ERR_ARG, "there is no form '%s' of a plan", form);
    if (row >= table->nrows || !table->rows[row].plan)
        return peal_fail(diag, PEAL_ERR_ARG, "row %u holds no program", row);
    const struct peal_plan *plan = table->rows[row].plan;
    if (own.bytes > plan->max_bytes)
        return peal_fail(diag, PEAL_ERR_RANGE, "%llu bytes are more than the plan's %llu",
                         (unsigned long long)own.bytes, (unsigned long long)plan->max_bytes);
    peal_emit_init(&emit, plan->ctx, write, user);
    peal_status status = emit_plan(plan, form, own.bytes ? own.bytes : plan->max_bytes,
                                   own.collapse_hosts, &emit, diag);
    peal_status ended = peal_emit_end(&emit, diag);
    return status == PEAL_OK ? ended : status;
}
