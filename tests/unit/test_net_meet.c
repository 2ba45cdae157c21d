/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: threads */
/* Where ranks meet and where their data goes; who has not come; what leads nowhere. */
#include "auth.h"
#include "clock.h"
#include "far.h"
#include "support.h"
#include "test_suite.h"

#include <check.h>
#include <pthread.h>
#include <string.h>

static struct test_heap heap;
static peal_ctx *ctx;
static peal_table *table; /* of RANKS ranks, the last one on a host of its own */
#define RANKS 3u

static void set_up(void)
{
    static const uint32_t group[RANKS] = {0, 1, 8};
    const char *path = test_source_path("examples/topologies/cluster-h100-2.xml");
    peal_request request = PEAL_REQUEST_INIT;
    peal_fabric *fabric;
    ctx = test_ctx(&heap);
    request.group = group;
    request.group_size = RANKS;
    request.max_bytes = 1u << 16;
    ck_assert_int_eq(peal_fabric_load(ctx, path, NULL, &fabric), PEAL_OK);
    ck_assert_int_eq(peal_table_plan(ctx, fabric, &request, NULL, &table), PEAL_OK);
    ck_assert_int_eq(peal_table_compile(table, fabric, NULL), PEAL_OK);
    peal_fabric_destroy(fabric);
}

static void tear_down(void)
{
    peal_table_destroy(table);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}

/* ---- a rank as a thread */

struct rank {
    peal_join_params params;
    pthread_t thread;
    peal_status status;
    peal_diag diag;
    float sum;
    uint8_t met[RANKS]; /* the last byte of where each rank listens */
};

static void *rank_main(void *user)
{
    struct rank *self = user;
    peal_world *world = NULL;
    peal_comm *comm = NULL;
    float mine = (float)(self->params.rank + 1);
    self->status = peal_world_join(ctx, &self->params, table, &self->diag, &world);
    for (uint32_t r = 0; r < RANKS && world; r++)
        self->met[r] = world->job->idents[r].addr.ip[3];
    if (self->status == PEAL_OK)
        self->status = peal_comm_create(world, table, self->params.rank, &self->diag, &comm);
    if (self->status == PEAL_OK)
        self->status = peal_allreduce(comm, &mine, &self->sum, 1, PEAL_FLOAT32, PEAL_SUM, NULL);
    peal_comm_destroy(comm);
    peal_world_destroy(world);
    return NULL;
}

static void begin(struct rank *self, uint32_t rank, const peal_id *id, peal_meeting *meeting)
{
    self->params = (peal_join_params)PEAL_JOIN_PARAMS_INIT;
    self->diag = (peal_diag)PEAL_DIAG_INIT;
    self->params.rank = rank;
    self->params.ranks = RANKS;
    self->params.id = id;
    self->params.meeting = meeting;
    self->params.host = rank < RANKS - 1 ? "left" : "right";
    self->params.interface = "127.0.0.2";
    self->params.heap_bytes = 1u << 20;
    ck_assert_int_eq(pthread_create(&self->thread, NULL, rank_main, self), 0);
}

static void end(struct rank *self)
{
    (void)pthread_join(self->thread, NULL);
    ck_assert_msg(self->status == PEAL_OK && self->sum == 6, "rank %u: %d, %g: %s",
                  self->params.rank, self->status, (double)self->sum, self->diag.text);
}

/* They meet where the id says, and listen for data on the interface. */
START_TEST(test_interface)
{
    static struct rank ranks[RANKS];
    peal_id id;
    peal_meeting *meeting;
    ck_assert_int_eq(peal_meeting_open(ctx, NULL, 0, NULL, &meeting, &id), PEAL_OK);
    for (uint32_t r = 0; r < RANKS; r++)
        begin(&ranks[r], r, &id, r ? NULL : meeting);
    for (uint32_t r = 0; r < RANKS; r++)
        end(&ranks[r]);
    for (uint32_t r = 0; r < RANKS; r++)
        ck_assert_mem_eq(ranks[r].met, "\2\2\2", RANKS);
}
END_TEST

/* ---- one that comes, ends, and is started anew before the others are there */

static int come_and_go(const peal_id *id)
{
    struct sock_wait wait = {rt_now_ns() + 20000000000u, NULL};
    struct auth_claim claim = {.purpose = AUTH_MEET, .ranks = RANKS, .rank = 1};
    struct rt_ask ask;
    struct rt_ident ident = {.version = JOB_VERSION, .rank = 1, .ranks = RANKS};
    peal_join_params params = PEAL_JOIN_PARAMS_INIT;
    int fd = -1;
    params.rank = 1;
    params.ranks = RANKS;
    params.id = id;
    ck_assert_int_eq(rt_ask_read(&params, table, NULL, &ask, NULL), PEAL_OK);
    ck_assert_int_eq(sock_dial(&ask.roots[0], NULL, wait, &fd, NULL), PEAL_OK);
    ck_assert_int_eq(auth_prove(fd, &ask.key, &claim, wait), PEAL_OK);
    peal_status status;
    struct peal_hash128 digest = rt_table_digest(ctx, table, &status);
    ident.table[0] = digest.low;
    ident.table[1] = digest.high;
    ident.heap_bytes = 1u << 20;
    ident.sockets = 2;
    peal_copy_text(ident.library, sizeof ident.library, peal_version());
    ck_assert_int_eq(sock_send(fd, &ident, sizeof ident, wait), PEAL_OK);
    return fd;
}

/* *text says no more that rank 1 is missing. */
static void wait_for_it(peal_join *join, peal_diag *diag)
{
    peal_world *world;
    for (int i = 0; i < 2000 && !strstr(diag->text, "rank 2"); i++)
        ck_assert_int_eq(peal_join_test(join, 5, diag, &world), PEAL_AGAIN);
}

START_TEST(test_again)
{
    static struct rank ranks[RANKS];
    peal_diag diag = PEAL_DIAG_INIT;
    peal_join_params params = PEAL_JOIN_PARAMS_INIT;
    peal_join *join;
    peal_id id;
    peal_world *world = NULL;
    peal_comm *comm;
    float one = 1, sum = 0;
    ck_assert_int_eq(peal_meeting_open(ctx, NULL, 0, NULL, &params.meeting, &id), PEAL_OK);
    params.ranks = RANKS;
    params.id = &id;
    params.host = "left";
    params.heap_bytes = 1u << 20;
    ck_assert_int_eq(peal_join_start(ctx, &params, table, NULL, &join), PEAL_OK);
    ck_assert_int_eq(peal_join_test(join, 0, &diag, &world), PEAL_AGAIN);
    ck_assert_str_eq(diag.text, "not here yet: rank 1, 2");
    int fd = come_and_go(&id);
    wait_for_it(join, &diag);
    ck_assert_str_eq(diag.text, "not here yet: rank 2");
    sock_close(&fd);
    begin(&ranks[2], 2, &id, NULL);
    ck_assert_int_eq(peal_join_test(join, 300, &diag, &world), PEAL_AGAIN);
    ck_assert_str_eq(diag.text, "not here yet: rank 1");
    begin(&ranks[1], 1, &id, NULL);
    ck_assert_msg(peal_join_test(join, 20000, &diag, &world) == PEAL_OK, "%s", diag.text);
    peal_join_end(join);
    ck_assert_int_eq(peal_comm_create(world, table, 0, NULL, &comm), PEAL_OK);
    ck_assert_int_eq(peal_allreduce(comm, &one, &sum, 1, PEAL_FLOAT32, PEAL_SUM, NULL), PEAL_OK);
    end(&ranks[1]);
    end(&ranks[2]);
    peal_comm_destroy(comm);
    peal_world_destroy(world);
}
END_TEST

/* ---- what leads nowhere */

/* A name that is not known may become so. */
START_TEST(test_name)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_world *world = NULL;
    peal_join *join;
    peal_join_params params = PEAL_JOIN_PARAMS_INIT;
    params.rank = 1;
    params.ranks = RANKS;
    params.address = "a..b";
    params.port = 29999;
    params.timeout_ms = 300;
    uint64_t before = rt_now_ns();
    ck_assert_int_eq(peal_world_join(ctx, &params, table, &diag, &world), PEAL_ERR_IO);
    ck_assert_uint_ge(rt_now_ns() - before, 300000000u);
    ck_assert_msg(strstr(diag.text, "'a..b'") && strstr(diag.text, "for 300 ms"), "%s", diag.text);
    params.timeout_ms = 100000; /* and is called off */
    ck_assert_int_eq(peal_join_start(ctx, &params, table, NULL, &join), PEAL_OK);
    ck_assert_int_eq(peal_join_test(join, 50, &diag, &world), PEAL_AGAIN);
    ck_assert_str_eq(diag.text, "rank 0 has not been found yet");
    peal_join_end(join);
    params.address = "127.0.0.1";
    params.rank = 0;
    params.interface = "a..b";
    ck_assert_int_eq(peal_world_join(ctx, &params, table, &diag, &world), PEAL_ERR_ARG);
    ck_assert_str_eq(diag.text, "a..b is no interface of this host, nor an address");
}
END_TEST

/* Ids that lead nowhere; meetings that nobody gives back. */
START_TEST(test_meeting)
{
    peal_id id;
    peal_world *world = NULL;
    peal_join *join = NULL;
    peal_join_params params = PEAL_JOIN_PARAMS_INIT;
    ck_assert_int_eq(peal_meeting_open(ctx, "0.0.0.0", 0, NULL, &params.meeting, &id),
                     PEAL_ERR_ARG);
    ck_assert_int_eq(peal_meeting_open(ctx, "::", 0, NULL, &params.meeting, &id), PEAL_ERR_ARG);
    params.ranks = RANKS;
    params.id = &id;
    ck_assert_int_eq(peal_meeting_open(ctx, NULL, 0, NULL, &params.meeting, &id), PEAL_OK);
    ck_assert_int_eq(peal_world_join(ctx, &params, NULL, NULL, &world), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_meeting_open(ctx, NULL, 0, NULL, &params.meeting, &id), PEAL_OK);
    ck_assert_int_eq(peal_join_start(ctx, &params, NULL, NULL, &join), PEAL_ERR_ARG);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net meet");
    TCase *tests = tcase_create("meet");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, test_interface);
    tcase_add_test(tests, test_again);
    tcase_add_test(tests, test_name);
    tcase_add_test(tests, test_meeting);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
