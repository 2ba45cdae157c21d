/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: threads */
/* One table for all ranks of a job: rank 0's, or none, or one that is not what it is said to be. */
#include "job.h"
#include "support.h"
#include "test_suite.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS 3u

static struct test_heap heap;
static peal_ctx *ctx;
static peal_table *own; /* rank 0's */

static peal_table *table_of(uint32_t ranks, const char *algorithm)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_fabric *fabric;
    peal_table *table;
    peal_request request = PEAL_REQUEST_INIT;
    request.max_bytes = 1 << 20;
    request.algorithm = algorithm;
    ck_assert_int_eq(peal_fabric_host(ctx, ranks, &diag, &fabric), PEAL_OK);
    ck_assert_msg(peal_table_plan(ctx, fabric, &request, &diag, &table) == PEAL_OK, "%s",
                  diag.text);
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
    peal_fabric_destroy(fabric);
    return table;
}

static void set_up(void)
{
    ctx = test_ctx(&heap);
    own = table_of(RANKS, NULL);
}

static void tear_down(void)
{
    peal_table_destroy(own);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}

struct member {
    peal_join_params params;
    const peal_table *gives;
    int fakes; /* rank 0 */
    peal_table *came;
    peal_diag diag;
    peal_status status;
    pthread_t thread;
};

/* ---- a rank 0 that says what it likes */

static const char *fake_file;
static size_t fake_bytes;
static uint64_t fake_head[3];

static peal_status fake(struct member *self)
{
    struct rt_ask ask;
    struct rt_job *job;
    PEAL_TRY(rt_ask_read(&self->params, NULL, NULL, &ask, &self->diag));
    PEAL_TRY(rt_job_make(ctx, &ask.plan, NULL, &self->diag, &job));
    peal_status status = rt_job_agree(job, PEAL_OK, &self->diag);
    for (uint32_t r = 1; r < RANKS; r++)
        (void)!sock_send(job->star[r], fake_head, sizeof fake_head, job->wait);
    if (status == PEAL_OK)
        status = rt_job_agree(job, PEAL_OK, &self->diag);
    for (uint32_t r = 1; status == PEAL_OK && r < RANKS; r++)
        (void)!sock_send(job->star[r], fake_file, fake_bytes, job->wait);
    if (status == PEAL_OK)
        status = rt_job_agree(job, PEAL_OK, &self->diag);
    rt_job_free(job);
    return status;
}

static void *member_main(void *user)
{
    struct member *self = user;
    self->status =
        self->fakes ? fake(self)
                    : peal_table_share(ctx, &self->params, self->gives, &self->diag, &self->came);
    return NULL;
}

static void share(struct member members[RANKS], const peal_table *gives, const char *why, int fakes)
{
    peal_id id;
    peal_meeting *meeting;
    ck_assert_int_eq(peal_meeting_open(ctx, NULL, 0, NULL, &meeting, &id), PEAL_OK);
    for (uint32_t r = 0; r < RANKS; r++) {
        members[r] = (struct member){.params = PEAL_JOIN_PARAMS_INIT, .diag = PEAL_DIAG_INIT};
        members[r].params.rank = r;
        members[r].params.ranks = RANKS;
        members[r].params.id = &id;
        members[r].params.timeout_ms = 20000;
        if (r > 0)
            continue;
        members[r].params.meeting = meeting;
        members[r].gives = gives;
        members[r].fakes = fakes;
        (void)snprintf(members[r].diag.text, sizeof members[r].diag.text, "%s", why);
    }
    for (uint32_t r = 0; r < RANKS; r++)
        ck_assert_int_eq(pthread_create(&members[r].thread, NULL, member_main, &members[r]), 0);
    for (uint32_t r = 0; r < RANKS; r++)
        (void)pthread_join(members[r].thread, NULL);
    peal_meeting_close(meeting); /* it was lent */
}

START_TEST(all_get_it)
{
    struct member members[RANKS];
    char ours[33], theirs[33];
    share(members, own, "", 0);
    ck_assert_int_eq(peal_table_id(own, 0, ours), PEAL_OK);
    for (uint32_t r = 0; r < RANKS; r++) {
        peal_table_info info = {.size = sizeof info};
        ck_assert_msg(members[r].status == PEAL_OK, "rank %u: %s", r, members[r].diag.text);
        ck_assert((members[r].came == NULL) == (r == 0));
        if (r == 0)
            continue;
        ck_assert_int_eq(peal_table_get(members[r].came, &info), PEAL_OK);
        ck_assert(info.verified && info.ranks == RANKS);
        ck_assert_int_eq(peal_table_id(members[r].came, 0, theirs), PEAL_OK);
        ck_assert_str_eq(ours, theirs);
        peal_table_destroy(members[r].came);
    }
}
END_TEST

static void expect_all(struct member members[RANKS], peal_status status, const char *text)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        ck_assert_msg(members[r].status == status, "rank %u: %d: %s", r, members[r].status,
                      members[r].diag.text);
        ck_assert_msg(strstr(members[r].diag.text, text) != NULL, "rank %u: %s", r,
                      members[r].diag.text);
        ck_assert_ptr_null(members[r].came);
    }
}

START_TEST(none_to_give)
{
    struct member members[RANKS];
    share(members, NULL, "the policy said no", 0);
    expect_all(members, PEAL_ERR_PEER, "rank 0 on");
    expect_all(members, PEAL_ERR_PEER, "the policy said no");
}
END_TEST

static peal_status keep(void *user, const char *data, size_t bytes)
{
    (void)user;
    char *copy = malloc(bytes);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, data, bytes);
    fake_file = copy;
    fake_bytes = bytes;
    return PEAL_OK;
}

START_TEST(not_what_it_is_said_to_be)
{
    struct member members[RANKS];
    peal_table *other = table_of(RANKS, "ring");
    ck_assert_int_eq(peal_table_save(other, keep, NULL, NULL), PEAL_OK);
    peal_table_destroy(other);
    fake_head[0] = fake_bytes; /* with the digest of another */
    share(members, NULL, "", 1);
    expect_all(members, PEAL_ERR_MISMATCH, "another one");
    ((char *)(uintptr_t)fake_file)[fake_bytes / 2] ^= 1;
    share(members, NULL, "", 1);
    expect_all(members, PEAL_ERR_INPUT, "damaged");
    fake_head[0] = PEAL_SHARE_BYTES + 1;
    share(members, NULL, "", 1);
    expect_all(members, PEAL_ERR_LIMIT, "too many bytes");
    free((void *)(uintptr_t)fake_file);
}
END_TEST

START_TEST(arguments)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_join_params params = PEAL_JOIN_PARAMS_INIT;
    peal_table *came = NULL, *less = table_of(2, NULL);
    params.ranks = RANKS;
    params.address = "127.0.0.1";
    params.port = 1;
    ck_assert_int_eq(peal_table_share(NULL, &params, own, &diag, &came), PEAL_ERR_ARG);
    params.rank = RANKS;
    ck_assert_int_eq(peal_table_share(ctx, &params, NULL, &diag, &came), PEAL_ERR_ARG);
    params.rank = 1;
    params.key = "k";
    params.key_bytes = 1;
    ck_assert_int_eq(peal_table_share(ctx, &params, own, &diag, &came), PEAL_ERR_ARG);
    ck_assert_msg(strstr(diag.text, "rank 1 brings a table") != NULL, "%s", diag.text);
    params.rank = 0;
    params.port = 0;
    params.address = NULL;
    peal_id id;
    ck_assert_int_eq(peal_meeting_open(ctx, NULL, 0, NULL, &params.meeting, &id), PEAL_OK);
    params.id = &id;
    ck_assert_int_eq(peal_table_share(ctx, &params, less, &diag, &came), PEAL_ERR_ARG);
    ck_assert_msg(strstr(diag.text, "of the job's ranks") != NULL, "%s", diag.text);
    peal_meeting_close(params.meeting);
    peal_table_destroy(less);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("share");
    TCase *tcase = tcase_create("share");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, all_get_it);
    tcase_add_test(tcase, none_to_give);
    tcase_add_test(tcase, not_what_it_is_said_to_be);
    tcase_add_test(tcase, arguments);
    tcase_set_timeout(tcase, 120);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_FORK_GETENV);
}
