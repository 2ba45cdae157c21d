/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan whose programs are made when asked for. A *slice* is one rank's program with the links
 * that it names, and no others: what a rank needs to know, in memory proportional to its own
 * steps. A plan that is whole can be gathered from slices, and is then the same plan, bytes and
 * id, as if it had been made at once.
 */
#ifndef PEAL_PLAN_SOURCE_H
#define PEAL_PLAN_SOURCE_H

#include "plan.h"

/* One rank's program, with the links it names (operand.link is 1 + index into them), in the order
 * in which the program names them first; those of its signals are among them. */
struct plan_slice {
    struct plan_rank program;
    uint32_t nlinks;
    uint32_t links_capacity;
    struct plan_link *links;
};

/* Programs made when asked for: a plan of more ranks than memory holds. */
struct plan_source {
    const struct peal_plan *head; /* settings and regions; its ranks and links are not looked at */
    peal_status (*read)(void *user, uint32_t rank,
                        const struct plan_slice **slice_out); /* valid until the next read */
    void *user;
};

/* What its program and links take in memory. */
uint64_t peal_plan_slice_bytes(const struct plan_slice *slice);
void peal_plan_slice_free(peal_ctx *ctx, struct plan_slice *slice);

/* Open addressing over (from, to), so that a link is found by its ends. */
struct plan_link_index {
    uint32_t *slot; /* 1 + index into the links */
    uint32_t slots; /* power of two, or 0 */
};
/* 1 + the index of the link among *count, added when new (*added: its class, direct and via are
 * the caller's to fill in). Errors: MEMORY, LIMIT. */
peal_status peal_plan_link_find(peal_ctx *ctx, struct plan_link_index *index,
                                struct plan_link **links, uint32_t *count, uint32_t *capacity,
                                uint32_t from, uint32_t to, uint32_t *link_out, int *added);
/* Forgets all links, and keeps the memory. */
void peal_plan_link_index_clear(struct plan_link_index *index);
void peal_plan_link_index_free(peal_ctx *ctx, struct plan_link_index *index);

/* The settings and regions of a plan, without ranks and links. */
peal_status peal_plan_copy_head(const struct peal_plan *plan, struct peal_plan **head_out);
/* The whole plan of a source, not sealed. */
peal_status peal_plan_gather(const struct plan_source *source, struct peal_plan **plan_out);
/* One rank's slice as a plan by itself, not sealed: sliced, with the head's origin. It takes the
 * slice's program and links, which are empty then. */
peal_status peal_plan_of_slice(const struct peal_plan *head, uint32_t rank,
                               struct plan_slice *slice, struct peal_plan **plan_out);

/* ---- the form of a source's settings and of one of its programs */
peal_status peal_plan_check_head(const struct peal_plan *head, peal_diag *diag);
peal_status peal_plan_check_slice(const struct peal_plan *head, uint32_t rank,
                                  const struct plan_slice *slice, peal_diag *diag);

/* ---- a plan in memory as a source */
struct plan_reader {
    const struct peal_plan *plan;
    struct plan_slice slice;
    uint32_t *first; /* links of sender r: order[first[r]] .. order[first[r + 1]] */
    uint32_t *order;
    uint32_t *place; /* of a link in the slice: 1 + index */
};
/* The plan must outlive the reader. Free it also when this fails. */
peal_status peal_plan_reader_init(struct plan_reader *reader, const struct peal_plan *plan,
                                  struct plan_source *source_out);
void peal_plan_reader_free(struct plan_reader *reader);
/* dst, whose memory is reused, becomes a copy of src's lanes, steps and operands. */
peal_status peal_plan_copy_program(peal_ctx *ctx, struct plan_rank *dst,
                                   const struct plan_rank *src);

/* ---- proof */
/* Up to this many ranks all are executed as one, where nobody asks for the other proof. */
#define PLAN_ENUMERATE_RANKS 1024u
/* Proves a plan by classes of hosts and of rails (docs/plan-format.md, "By classes"). A rank is
 * read more than once and has to have the same program each time. A plan that does not fit is
 * proven by executing all ranks where there are at most PLAN_ENUMERATE_RANKS; else
 * ERR_UNSUPPORTED, and the diag says what does not fit. proof->classes tells which proof it was.
 * Otherwise as peal_plan_verify. */
peal_status peal_plan_verify_classes(const struct plan_source *source, uint32_t row,
                                     peal_finding_fn found, void *user, struct plan_proof *proof,
                                     peal_diag *diag);

#endif
