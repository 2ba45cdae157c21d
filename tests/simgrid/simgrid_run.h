/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan on SimGrid: an actor for each lane, which reads the plan by docs/plan-format.md and the
 * section "The simulation" of docs/algorithms.md, and a flow of SimGrid's for each tile. The
 * platform (what a step loads, start-ups, gaps, rates of lanes) is the one of peal's simulation;
 * what happens when, and how flows share, is SimGrid's.
 */
#ifndef PEAL_TESTS_SIMGRID_RUN_H
#define PEAL_TESTS_SIMGRID_RUN_H

#include "model.h"

/* The time in us. Once in a process, since SimGrid has one engine. `sim`: of the plan, finished,
 * all kept. Ends the process with a message when the plan does not end. */
double simgrid_run_plan(const struct peal_sim *sim);

#endif
