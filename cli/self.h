/* SPDX-License-Identifier: Apache-2.0 */
/* One rank in a run, and its buffers. */
#ifndef PEAL_CLI_SELF_H
#define PEAL_CLI_SELF_H

#include "yard.h"

struct self {
    const struct crew *crew;
    struct yard *yard;
    peal_comm *comm;
    uint32_t rank;
    uint32_t number; /* of the job under way */
    const struct job *job;
    uint64_t bytes;  /* of its largest buffer */
    char *memory;    /* two slots for each call: in and out */
    uint64_t mapped; /* bytes of memory to be unmapped, 0 when it is the world's */
    uint64_t filled; /* bytes of memory that hold numbers, for calls that nobody checks */
    uint64_t random;
    size_t *counts;    /* alltoallv: for each call what goes to each rank, and what came from it */
    unsigned barriers; /* entered so far, if they are checked */
    struct gpu *gpu;   /* NULL: in host memory */
};

/* One rank's buffers of a call. In place, the smaller one lies in the larger one. */
struct view {
    char *in;
    char *out;
    uint64_t nin; /* elements; 0: the rank has no use for this buffer */
    uint64_t nout;
    size_t size; /* bytes of an element */
    int shared;  /* 1: both are one piece of memory */
};
struct view self_view(const struct self *self, uint32_t call);

/* ---- self_call.c: the library's functions */
int self_call(struct self *self, uint32_t call);
/* A handle for it, to be started. 0: it failed. */
int self_pending(struct self *self, uint32_t call, peal_pending **pending);

/* Elements that a rank sends another in an alltoallv. */
uint64_t self_length(const struct self *self, uint32_t call, uint32_t from, uint32_t to);

/* ---- self_check.c: what goes in, and what has to come out */
/* Fills and poisons the buffers of a call. */
void self_prepare(const struct self *self, uint32_t call, uint32_t round);
/* Of all results of a round, this rank makes its part of the elements. */
void self_expect(const struct self *self);
void self_check(const struct self *self, uint32_t call, uint32_t round);
/* Where elements are rounded: that all ranks hold the same bits. 0: somebody has failed. */
int self_compare(const struct self *self, uint32_t call);
/* ---- crew_overlap.c: the rounds of a job with work beside its call; 0: somebody has failed */
int self_overlap(struct self *self);
/* Their medians, when times hold the slowest rank's. */
void self_overlap_sum(const struct self *self, struct result *result);

/* Around a checked barrier. */
void self_enter(struct self *self);
void self_leave(const struct self *self);

/* ---- gpu_rank.c: the same in device memory, to which `memory` is copied and from which it is read
 * back. Of ranks without a GPU these do nothing. 0: it has failed. */
peal_status gpu_open(struct self *self, peal_diag *diag);
int gpu_memory(struct self *self, uint64_t bytes);
void gpu_end(const struct self *self); /* after a failure: no call is under way any more */
void gpu_close(struct self *self);
int gpu_upload(struct self *self);
int gpu_download(struct self *self);
int gpu_finish(struct self *self); /* all that was enqueued is done */
void gpu_info(const struct self *self, peal_comm_info *info);
/* Instead of the library's call for hosts. */
peal_status gpu_call(struct self *self, uint32_t call, const struct view *view, peal_diag *diag);
/* Products of so many tiles on a stream of their own; gpu_worked waits for it. */
int gpu_work(struct self *self, uint64_t tiles);
int gpu_worked(struct self *self);

#endif
