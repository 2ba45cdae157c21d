/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Four ranks of two hosts, as threads that know each other by the network and by shared segments
 * only.
 */
#ifndef PEAL_TESTS_NET_MEMBERS_H
#define PEAL_TESTS_NET_MEMBERS_H

#include "clock.h"
#include "net.h"
#include "test_two_hosts.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define RANKS 4u
#define ANEW (256u << 10)
#define PATIENCE_MS 10000u
#define BIG (600u << 10) /* elements: more than a frame for each of several sockets */

static struct test_heap heap;
static peal_ctx *ctx;
static peal_table *four;
static peal_table *two;
static peal_table *anew;  /* for the same, up to ANEW bytes: one ring */
static peal_table *apart; /* of ranks on one host */

static peal_table *table_by(const char *algorithm, peal_collective collective,
                            const uint32_t *group, uint32_t count)
{
    return plan_two_hosts(ctx, collective, algorithm, group, count, algorithm ? ANEW : 16 << 20);
}

static peal_table *table_of(peal_collective collective, const uint32_t *group, uint32_t count)
{
    return table_by(NULL, collective, group, count);
}

/* Of all tests: they are processes of their own. */
static void set_up(void)
{
    static const uint32_t group[RANKS] = {0, 1, 8, 9};
    static const uint32_t pair[2] = {0, 8};
    static const uint32_t host[RANKS] = {0, 1, 2, 3};
    ctx = test_ctx(&heap);
    four = table_of(PEAL_ALLREDUCE, group, RANKS);
    peal_table *counted = table_of(PEAL_ALLTOALLV, group, RANKS);
    ck_assert_int_eq(peal_table_join(four, counted, NULL), PEAL_OK);
    peal_table_destroy(counted);
    ck_assert_int_eq(peal_table_verify(four, NULL, NULL, NULL, NULL), PEAL_OK);
    two = table_of(PEAL_ALLREDUCE, pair, 2);
    anew = table_by("ring", PEAL_ALLREDUCE, group, RANKS);
    apart = table_by("ring", PEAL_ALLREDUCE, host, RANKS);
}

static void tear_down(void)
{
    peal_table_destroy(four);
    peal_table_destroy(two);
    peal_table_destroy(anew);
    peal_table_destroy(apart);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}

static int64_t blocks; /* before a test */

static void set_up_test(void)
{
    blocks = heap.blocks;
}

static void tear_down_test(void)
{
    ck_assert_int_eq(heap.blocks, blocks);
}

/* ---- ranks as threads */

struct member;
typedef void (*member_fn)(struct member *self, peal_comm *comm);

struct member {
    uint32_t rank;
    const peal_id *id;
    peal_meeting *meeting;
    uint32_t sockets;
    uint64_t chaos;
    member_fn body;
    peal_table *table;         /* its own slices; NULL: four */
    peal_table *other;         /* of its comm; NULL: the same */
    pthread_barrier_t *leaves; /* worlds stay until all are here */
    uint32_t late_us;          /* to leave its comm */
    uint64_t took_us;          /* for that */
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
    params.timeout_ms = self->leaves ? PATIENCE_MS : 60000;
    params.chaos_seed = self->chaos;
    peal_table *table = self->table ? self->table : four;
    self->status = peal_world_join(ctx, &params, table, &diag, &self->world);
    if (self->status == PEAL_OK)
        self->status = peal_comm_create(self->world, self->other ? self->other : table, self->rank,
                                        &diag, &comm);
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

static void run_with(peal_table *const tables[RANKS], member_fn body, uint32_t sockets,
                     uint64_t chaos)
{
    struct member members[RANKS] = {{0}};
    peal_id id;
    peal_meeting *meeting;
    ck_assert_int_eq(peal_meeting_open(ctx, NULL, 0, NULL, &meeting, &id), PEAL_OK);
    for (uint32_t r = 0; r < RANKS; r++) {
        members[r] = (struct member){.rank = r,
                                     .id = &id,
                                     .meeting = r ? NULL : meeting,
                                     .sockets = sockets,
                                     .chaos = chaos,
                                     .table = tables ? tables[r] : NULL,
                                     .body = body};
        ck_assert_int_eq(pthread_create(&members[r].thread, NULL, member_main, &members[r]), 0);
    }
    for (uint32_t r = 0; r < RANKS; r++)
        (void)pthread_join(members[r].thread, NULL);
    for (uint32_t r = 0; r < RANKS; r++)
        ck_assert_msg(members[r].status == PEAL_OK && members[r].wrong == 0, "rank %u: %d, %u: %s",
                      r, members[r].status, members[r].wrong, members[r].text);
}

static void expect_ok(struct member *self, peal_status status, const peal_diag *diag)
{
    if (status == PEAL_OK || self->status != PEAL_OK)
        return;
    self->status = status;
    (void)snprintf(self->text, sizeof self->text, "%s", diag->text);
}

static void run_members(member_fn body, uint32_t sockets, uint64_t chaos)
{
    run_with(NULL, body, sockets, chaos);
}

/* An allreduce whose elements are all known. */
static void reduce_once(struct member *self, peal_comm *comm, uint32_t rank, uint32_t ranks,
                        size_t count, int in_place)
{
    peal_diag diag = PEAL_DIAG_INIT;
    int32_t *in = calloc(count + 1, sizeof *in);
    int32_t *out = in_place ? in : calloc(count + 1, sizeof *out);
    for (size_t i = 0; i < count; i++)
        in[i] = (int32_t)(i % 1000 * (rank + 1));
    out[count] = -7;
    expect_ok(self, peal_allreduce(comm, in, out, count, PEAL_INT32, PEAL_SUM, &diag), &diag);
    for (size_t i = 0; i < count && self->status == PEAL_OK; i++)
        self->wrong += out[i] != (int32_t)(i % 1000 * (ranks * (ranks + 1) / 2));
    self->wrong += out[count] != -7;
    if (!in_place)
        free(out);
    free(in);
}

#endif
