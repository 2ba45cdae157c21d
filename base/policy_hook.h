/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy as the compiler sees it, and the compiler as a policy sees it: the compiler calls the
 * hooks and knows no language they are written in; who implements them knows no more of the
 * compiler than the view. In terms of the public header only.
 */
#ifndef PEAL_BASE_POLICY_HOOK_H
#define PEAL_BASE_POLICY_HOOK_H

#include "base.h"

#define POLICY_REASON 256

/* What the planner knows of a candidate for a message of one size. */
struct policy_facts {
    peal_row_info row;
    double gamma_us;     /* of its time: what the rate of the lanes, which reduce and copy, adds */
    uint64_t most_bytes; /* it serves; UINT64_MAX: any */
    uint32_t gateways;   /* these where they do not apply: 0, "" */
    uint32_t radix;
    uint32_t trees;
    char levels[48];
    const char *inner;
    const char *outer;
};

/* One step of one rank. */
struct policy_step {
    uint32_t rank;
    uint32_t lane;
    uint32_t index; /* in its lane */
    const char *section;
    const char *op;
    const char *engine; /* "" where none acts: waits and the like */
    int moves;          /* data; of other steps the next four are 0, and -1 */
    uint32_t chunk;     /* the first */
    uint32_t chunks;
    uint64_t bytes; /* in one trip of the row's largest message, at most */
    int link_class; /* the farthest of its links; -1: it stays in the rank's own memory */
    const uint32_t
        *peers; /* other ranks that it names, each once; until the next step is asked for */
    uint32_t npeers;
};

struct policy_view {
    void *planner;
    const peal_fabric *fabric;
    const peal_request *request; /* defaults filled in; its lists are not there */
    uint32_t ranks;
    uint32_t (*rank_of)(const void *planner, uint32_t rank); /* the fabric's number */
    uint32_t (*count)(const void *planner);                  /* of candidates, which only grows */
    double (*time_us)(const void *planner, uint32_t index, uint64_t bytes);
    void (*facts)(const void *planner, uint32_t index, uint64_t bytes, struct policy_facts *facts);
    /* Adds what fits a request with what is set in `ask` (algorithm, channels, gateways, tile, move
     * engines, levels, inner, outer, incast, max_sms, zero_sm, wire) in the place of the own:
     * candidates *first_out and on. Errors: as peal_table_plan. */
    peal_status (*ask)(void *planner, const peal_request *ask, peal_diag *diag, uint32_t *first_out,
                       uint32_t *count_out);
    /* In check: makes what a rank of the group does, lane behind lane, in the plan that a row of
     * the candidate becomes; how many steps that are. Errors: as peal_table_compile. */
    peal_status (*program)(void *planner, uint32_t index, const peal_row_info *row, uint32_t rank,
                           peal_diag *diag, uint32_t *steps_out);
    void (*step)(void *planner, uint32_t nth, struct policy_step *step); /* of the last of these */
};

/* All that a policy decides for one plan happens between begin and end, in one thread. Each hook
 * but those may be NULL. */
struct policy_hooks {
    peal_status (*begin)(const peal_policy *policy, const struct policy_view *view, peal_diag *diag,
                         void **session_out);
    void (*end)(void *session);
    /* May ask for more; sets dropped[i] for candidates that are not to be considered, of those
     * there were before. */
    peal_status (*candidates)(void *session, uint8_t *dropped, peal_diag *diag);
    /* Sizes at which a choice begins or ends, besides powers of two. */
    const uint64_t *(*sizes)(void *session, uint32_t *count_out);
    /* In: the predicted time. Out: what counts. */
    int (*has_cost)(void *session);
    peal_status (*cost)(void *session, uint32_t index, uint64_t bytes, double *time_us,
                        peal_diag *diag);
    /* order: candidates that serve the size, best first. *index: the planner's choice, and then the
     * policy's; *own is set to 1 when it insists on it. */
    int (*has_choose)(void *session);
    peal_status (*choose)(void *session, uint64_t bytes, const uint32_t *order, uint32_t count,
                          uint32_t *index, int *own, peal_diag *diag);
    /* Sets *veto and says why. */
    peal_status (*check)(void *session, uint32_t index, const peal_row_info *row, int *veto,
                         char reason[POLICY_REASON], peal_diag *diag);
};

/* The beginning of every policy. */
struct peal_policy {
    const struct policy_hooks *hooks;
};

#endif
