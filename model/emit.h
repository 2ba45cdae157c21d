/* SPDX-License-Identifier: Apache-2.0 */
/* Writing text in pieces. */
#ifndef PEAL_MODEL_EMIT_H
#define PEAL_MODEL_EMIT_H

#include "model.h"

struct emit {
    struct peal_buf buf;
    peal_write_fn write;
    void *user;
    peal_status status; /* sticky: the writer's */
    uint64_t wrong;     /* parts of the plan's result, as written */
};
void peal_emit_init(struct emit *emit, peal_ctx *ctx, peal_write_fn write, void *user);
/* Hands over what has gathered, when it is much. */
void peal_emit_pass(struct emit *emit);
peal_status peal_emit_end(struct emit *emit, peal_diag *diag); /* and frees */

/* A writer of each form. */
void peal_trace_emit(const struct peal_sim *sim, struct emit *emit);
void peal_flows_emit(const struct peal_sim *sim, struct emit *emit);
void peal_states_emit(const struct peal_sim *sim, struct emit *emit);
void peal_dot_emit(const struct peal_plan *plan, const uint64_t *chunk, int collapse,
                   struct emit *emit);
void peal_goal_emit(const struct peal_plan *plan, const uint64_t *chunk, uint32_t trips,
                    struct emit *emit);

#endif
