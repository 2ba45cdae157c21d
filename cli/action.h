/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which collective is meant, and between which ranks: what --collective, --root and --peer list,
 * and what a plan file holds. What each collective is, as peal.h says it.
 */
#ifndef PEAL_CLI_ACTION_H
#define PEAL_CLI_ACTION_H

#include "cli.h"

struct action {
    peal_collective collective;
    uint32_t root; /* 0 where it has none */
    uint32_t peer;
    const uint32_t *pairs; /* sendrecv by a list: from and to by turns */
    uint32_t npairs;
    const struct custom *custom; /* custom: its blocks, once they are known */
};

/* The ranks that give each block, or get it: those of block b are rank[at[b]] .. rank[at[b + 1]].
 * And the blocks of each rank likewise, in the order in which they lie in its buffer. */
struct custom_lists {
    const uint32_t *at;
    const uint32_t *rank;
    const uint32_t *held_at;
    const uint32_t *held;
};
struct custom {
    struct custom *next;
    uint32_t blocks;
    struct custom_lists end[2]; /* who gives, who gets */
};

int action_reduces(const struct action *action);
int action_rooted(const struct action *action);   /* sendrecv too */
int action_in_place(const struct action *action); /* the field knows it in place */
int action_blocks(const struct action *action);   /* 1: the message is a buffer of N blocks */
int action_same(const struct action *a, const struct action *b);
/* Blocks of a rank's input, and of its output. */
uint32_t action_input(const struct action *action, uint32_t rank, uint32_t ranks);
uint32_t action_output(const struct action *action, uint32_t rank, uint32_t ranks);
/* Bytes of a message as nccl-tests counts them, of `count` elements in a block. */
uint64_t action_bytes(const struct action *action, uint64_t count, peal_dtype dtype,
                      uint32_t ranks);
/* Bytes of the largest buffer of a call. */
uint64_t action_room(const struct action *action, uint64_t count, peal_dtype dtype, uint32_t ranks);
/* Elements of a block, for about so many bytes of message; one at least, if there is room for
 * one. */
uint64_t action_count(const struct action *action, uint64_t bytes, peal_dtype dtype,
                      uint32_t ranks);
/* Bus bandwidth over algorithm bandwidth, as nccl-tests defines it. */
double action_bus_factor(const struct action *action, uint32_t ranks);
#define ACTION_TEXT 64
const char *action_text(const struct action *action, char *text);      /* "broadcast (root 2)" */
const char *action_root_text(const struct action *action, char *text); /* "-", "2", "0>1" */
/* "none" where it makes no difference. */
const char *action_op_name(const struct action *action, peal_op op);
const char *action_dtype_name(const struct action *action, peal_dtype dtype);

/* ---- lists */

struct choice {
    uint32_t collective[PEAL_COLLECTIVE_COUNT];
    uint32_t collectives;
    uint32_t root[LIST_MAX];
    uint32_t roots;
    uint32_t peer;
    const uint32_t *pairs; /* --pairs */
    uint32_t npairs;
    int64_t shift[8]; /* --shift */
    uint32_t nshifts;
    struct team *team;                      /* keeps the lists */
    int has_collective, has_root, has_peer; /* given, not by default */
    int all;                                /* "all": what cannot be served is left out */
};

#define ACTIONS_MAX (PEAL_COLLECTIVE_COUNT * LIST_MAX)
struct actions {
    uint32_t count;
    uint32_t first_row; /* the table's first row is this one of what was planned */
    struct action list[ACTIONS_MAX];
};

/* many: --root may be a list. */
int read_choice(struct cli *cli, int many, struct choice *choice);
/* All of the choice's collectives with all its roots, among so many ranks. lenient: ends that
 * are not among them are left out, and not the planner's to refuse. */
int choose_all(const struct choice *choice, uint32_t ranks, int lenient, struct actions *actions);
/* Those of a table, which has to hold what is chosen. */
int choose_of_table(const struct choice *choice, const peal_table *table, struct actions *actions);
/* What a table's rows serve, each once. */
int table_actions(const peal_table *table, struct actions *actions);
struct action row_action(const peal_row_info *row);
int has_action(const struct actions *actions, const struct action *action);
/* "allreduce, broadcast (root 2)" */
void print_actions(const struct actions *actions, FILE *file);

#endif
