/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: threads */
/* A resolver that does not answer: deadlines hold all the same, and what was asked of it is given
 * back when it does. This program's own getaddrinfo stands in the place of the system's. */
#include "clock.h"
#include "support.h"
#include "test_fixture.h"
#include "test_run.h"
#include "test_suite.h"

#include <check.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>

#define MOST_MS 4000u /* that it hangs for */
#define SOON_NS 2000000000u

static _Atomic int answers; /* 1: it does, now */
static _Atomic int finds;   /* 1: an address */
static _Atomic int asked;
static _Atomic int answered;
static _Atomic int freed;

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **found)
{
    static struct sockaddr_in address = {.sin_family = AF_INET};
    static struct addrinfo one = {.ai_family = AF_INET, .ai_addr = (struct sockaddr *)&address};
    (void)name, (void)service;
    if (hints->ai_flags & AI_NUMERICHOST)
        return EAI_NONAME;
    atomic_fetch_add(&asked, 1);
    for (unsigned i = 0; i < MOST_MS && !atomic_load(&answers); i++)
        rt_sleep_us(1000);
    if (atomic_load(&finds))
        *found = &one;
    atomic_fetch_add(&answered, 1);
    return atomic_load(&finds) ? 0 : EAI_AGAIN;
}

void freeaddrinfo(struct addrinfo *list)
{
    (void)list;
    atomic_fetch_add(&freed, 1);
}

static peal_table *small_table(void)
{
    struct plan_text p = {.ranks = 2, .link = "shm direct", .engine = "ce", .slot = 16384};
    struct plan_part part = {write_twoshot, 65536};
    return table_of(ctx, p, &part, 1);
}

START_TEST(test_deadline)
{
    peal_table *table = small_table();
    peal_join_params params = PEAL_JOIN_PARAMS_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_world *world = NULL;
    peal_join *join;
    params.rank = 1;
    params.ranks = 2;
    params.address = "slow";
    params.port = 29999;
    params.timeout_ms = 100;
    uint64_t since = rt_now_ns();
    ck_assert_int_eq(peal_world_join(ctx, &params, table, &diag, &world), PEAL_ERR_TIMEOUT);
    ck_assert_uint_lt(rt_now_ns() - since, SOON_NS);
    ck_assert_str_eq(diag.text,
                     "finding the address of 'slow': nobody has answered (tried for 100 ms)");
    params.timeout_ms = 100000; /* and is called off */
    since = rt_now_ns();
    ck_assert_int_eq(peal_join_start(ctx, &params, table, NULL, &join), PEAL_OK);
    ck_assert_int_eq(peal_join_test(join, 50, &diag, &world), PEAL_AGAIN);
    peal_join_end(join);
    ck_assert_uint_lt(rt_now_ns() - since, SOON_NS);
    peal_table_destroy(table);
    /* Nobody waits for these answers; one that finds something gives it back. */
    ck_assert_int_eq(atomic_load(&answered), 0);
    atomic_store(&finds, 1);
    atomic_store(&answers, 1);
    for (unsigned i = 0; i < MOST_MS && atomic_load(&freed) < 2; i++)
        rt_sleep_us(1000);
    ck_assert_int_eq(atomic_load(&asked), 2);
    ck_assert_int_eq(atomic_load(&freed), 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("resolve");
    TCase *tests = tcase_create("resolve");
    tcase_set_timeout(tests, 30);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, test_deadline);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK);
}
