/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of four ranks of two hosts, and what such ranks do with them. */
#ifndef PEAL_TESTS_NET_MEMBERS_H
#define PEAL_TESTS_NET_MEMBERS_H

#include "net.h"
#include "test_two_hosts.h"

#include "test_member.h"

#define ANEW (256u << 10)
#define PATIENCE_MS 10000u
#define BIG (600u << 10) /* elements: more than a frame for each of several sockets */

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

/* ---- ranks as threads */

/* tables: slices of each rank's own; NULL: the one of all. */
static void run_with(peal_table *const tables[RANKS], member_fn body, uint32_t sockets,
                     uint64_t chaos)
{
    struct member members[RANKS];
    for (uint32_t r = 0; r < RANKS; r++)
        members[r] = (struct member){.sockets = sockets,
                                     .timeout_ms = 60000,
                                     .chaos = chaos,
                                     .table = tables ? tables[r] : four,
                                     .body = body};
    meet_members(members);
    expect_all_ok(members);
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
