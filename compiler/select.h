/* SPDX-License-Identifier: Apache-2.0 */
/* What the files share that make a table of a request: which candidates there are, which of them
 * serves each size, and what a row says. */
#ifndef PEAL_COMPILER_SELECT_H
#define PEAL_COMPILER_SELECT_H

#include "compiler.h"
#include "policy_run.h"

/* ---- select.c: choosing */

/* 1: the candidate serves the size, within the bound on scratch, and no policy bars it. */
int peal_select_fits(const struct planner *planner, uint32_t index, uint64_t bytes);
/* SMs that it holds. */
uint32_t peal_select_sms(const struct planner *planner, const struct candidate *candidate);
/* In whole picoseconds: its time, with the price of its SMs and what a policy makes of it. */
double peal_select_price(const struct planner *planner, uint32_t index, uint64_t bytes);
uint32_t peal_select_best(const struct planner *planner, uint64_t bytes);
/* The last size up to `to` that the choice for `from` still serves well enough. */
uint64_t peal_select_end(const struct planner *planner, uint32_t index, uint64_t from, uint64_t to);
/* Sets planner->chosen and the last size of each row; returns how many there are. */
uint32_t peal_select_rows(struct planner *planner, uint64_t *ends);

/* ---- select_describe.c */
void peal_select_describe(const struct planner *planner, uint32_t index, uint64_t min_bytes,
                          uint64_t max_bytes, peal_row_info *info);

/* ---- select_request.c */
peal_status peal_select_request(struct planner *planner, const peal_request *request,
                                peal_diag *diag);
/* Roots, peers and pairs are those that the collective has. */
peal_status peal_select_check_ends(const struct planner *planner, peal_diag *diag);
/* Of the group's accelerators. */
peal_status peal_select_check_engines(const struct planner *planner, peal_diag *diag);

/* ---- select_enumerate.c */
peal_status peal_select_enumerate(struct planner *planner, peal_diag *diag);
/* What a policy asks for: candidates [*first_out, *first_out + *count_out) are new. */
peal_status peal_select_ask(struct planner *planner, const peal_request *ask, peal_diag *diag,
                            uint32_t *first_out, uint32_t *count_out);

#endif
