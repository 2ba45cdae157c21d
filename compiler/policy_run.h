/* SPDX-License-Identifier: Apache-2.0 */
/* Where the planner lets a policy decide. */
#ifndef PEAL_COMPILER_POLICY_RUN_H
#define PEAL_COMPILER_POLICY_RUN_H

#include "compiler.h"
#include "policy_hook.h"

/* A row that check has let pass. */
struct policy_passed {
    uint32_t index;
    uint64_t min_bytes;
    uint64_t max_bytes;
};

/* A policy at work on one planner. Afterwards its prices stay, for peal_table_candidate. */
struct policy_run {
    const struct policy_hooks *hooks;
    void *session;
    struct policy_view view;
    int failed; /* the error under way is the policy's */
    uint32_t nanchors;
    uint64_t *anchors;          /* sizes at which it is asked, rising */
    double *factor;             /* of each candidate's time, anchor by anchor; NULL: all 1 */
    uint8_t *barred;            /* candidates that were dropped or vetoed */
    uint32_t room;              /* candidates that factor and barred are for */
    char reason[POLICY_REASON]; /* of the last veto */
    struct policy_passed passed[ROWS_MAX]; /* the last ones */
    uint32_t npassed;
    /* policy_steps.c: the plan that is being checked, and a rank's program in it. */
    struct emission *emission;
    const struct plan_slice *program;
    uint32_t program_rank;
    uint32_t peers[2 * UINT8_MAX];
};

peal_status peal_policy_begin(struct planner *planner, const peal_policy *policy, peal_diag *diag);
peal_status peal_policy_candidates(struct planner *planner, peal_diag *diag);
peal_status peal_policy_costs(struct planner *planner, peal_diag *diag);
void peal_policy_end(struct planner *planner);
void peal_policy_free(struct planner *planner);
int peal_policy_barred(const struct planner *planner, uint32_t index);
double peal_policy_factor(const struct planner *planner, uint32_t index, uint64_t bytes);

/* The rows of a table: ends[i] is the last size of row i, planner->chosen[i] its candidate. Errors:
 * the policy's, UNSUPPORTED, LIMIT. */
peal_status peal_policy_rows(struct planner *planner, uint64_t *ends, uint32_t *count_out,
                             peal_diag *diag);

/* ---- policy_steps.c: the view's program and step */
peal_status peal_policy_program(void *planner, uint32_t index, const peal_row_info *row,
                                uint32_t rank, peal_diag *diag, uint32_t *steps_out);
void peal_policy_step(void *planner, uint32_t nth, struct policy_step *step);
void peal_policy_steps_end(struct policy_run *run);

#endif
