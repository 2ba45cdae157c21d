/* SPDX-License-Identifier: Apache-2.0 */
/* Four ranks of two hosts, as threads that know each other by the network and by shared segments
 * only; and the context of all tests of a program, which make their tables once. */
#ifndef PEAL_TESTS_MEMBER_H
#define PEAL_TESTS_MEMBER_H

#include "clock.h"
#include "support.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define RANKS 4u

static struct test_heap heap;
static peal_ctx *ctx;
static int64_t blocks; /* before a test */

static void set_up_test(void)
{
    blocks = heap.blocks;
}

static void tear_down_test(void)
{
    ck_assert_int_eq(heap.blocks, blocks);
}

struct member;
typedef void (*member_fn)(struct member *self, peal_comm *comm);

struct member {
    uint32_t rank;
    const peal_id *id;
    peal_meeting *meeting;
    const char *rdma;
    uint32_t sockets;
    uint32_t timeout_ms;
    uint64_t chaos;
    member_fn body;
    peal_table *table;         /* perhaps its own slices */
    peal_table *other;         /* of its comm; NULL: the same */
    pthread_barrier_t *leaves; /* worlds stay until all are here */
    uint32_t late_us;          /* to leave its comm */
    uint64_t took_us;          /* for that */
    uint64_t random;
    peal_world *world;
    pthread_t thread;
    peal_status status;
    char text[640];
    uint32_t wrong;
};

static void *member_main(void *user)
{
    struct member *self = user;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_join_params params = PEAL_JOIN_PARAMS_INIT;
    peal_comm *comm = NULL;
    params.rank = self->rank;
    params.ranks = RANKS;
    params.id = self->id;
    params.meeting = self->meeting;
    params.host = self->rank < 2 ? "left" : "right";
    params.sockets = self->sockets;
    params.heap_bytes = 32 << 20;
    params.timeout_ms = self->timeout_ms;
    params.chaos_seed = self->chaos;
    params.rdma = self->rdma;
    self->status = peal_world_join(ctx, &params, self->table, &diag, &self->world);
    if (self->status == PEAL_OK)
        self->status = peal_comm_create(self->world, self->other ? self->other : self->table,
                                        self->rank, &diag, &comm);
    if (self->status == PEAL_OK)
        self->body(self, comm);
    else
        (void)snprintf(self->text, sizeof self->text, "%s", diag.text);
    uint64_t before = rt_now_ns();
    peal_comm_destroy(comm);
    self->took_us = (rt_now_ns() - before) / 1000;
    if (self->leaves)
        (void)pthread_barrier_wait(self->leaves);
    peal_world_destroy(self->world);
    return NULL;
}

/* From their meeting to their end. */
static void meet_members(struct member *members)
{
    peal_id id;
    peal_meeting *meeting;
    ck_assert_int_eq(peal_meeting_open(ctx, NULL, 0, NULL, &meeting, &id), PEAL_OK);
    for (uint32_t r = 0; r < RANKS; r++) {
        members[r].rank = r;
        members[r].id = &id;
        members[r].meeting = r ? NULL : meeting;
        members[r].random = r + 1;
        ck_assert_int_eq(pthread_create(&members[r].thread, NULL, member_main, &members[r]), 0);
    }
    for (uint32_t r = 0; r < RANKS; r++)
        (void)pthread_join(members[r].thread, NULL);
}

static void expect_all_ok(const struct member *members)
{
    for (uint32_t r = 0; r < RANKS; r++)
        ck_assert_msg(members[r].status == PEAL_OK && members[r].wrong == 0, "rank %u: %d, %u: %s",
                      r, members[r].status, members[r].wrong, members[r].text);
}

/* The first of its calls that fails is told. */
static void expect_ok(struct member *self, peal_status status, const peal_diag *diag)
{
    if (status == PEAL_OK || self->status != PEAL_OK)
        return;
    self->status = status;
    (void)snprintf(self->text, sizeof self->text, "%s", diag->text);
}

#endif
