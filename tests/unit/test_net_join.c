/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: threads */
/* Ranks of two hosts, as threads that know each other by the network and by shared segments only:
 * meeting, calls over several sockets, exchanges, splits, and what is refused. */
#include "test_net_members.h"
#include "test_suite.h"

#include <poll.h>
#include <unistd.h>

/* ---- calls */

static void body_calls(struct member *self, peal_comm *comm)
{
    static const size_t counts[] = {1, 0, 33, 4096, BIG, 2, 100000};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        reduce_once(self, comm, self->rank, RANKS, counts[i], i % 2 == 1);
}

static uint32_t eased_events(const peal_comm *comm)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < comm->nrows; i++)
        for (uint32_t e = 0; e < comm->rows[i].nlanes * PLAN_EVENTS_MAX; e++)
            found += comm->rows[i].events && comm->rows[i].events[e].eased;
    return found;
}

/* What is left to be awaited where nobody waits for the signals behind it: all. */
static uint32_t eased_in_vain(const peal_comm *comm)
{
    static const struct plan_rank idle[RANKS];
    uint32_t eased[2];
    for (int real = 0; real < 2; real++) {
        for (uint32_t i = 0; i < comm->nrows; i++) {
            struct rt_row *row = &comm->rows[i];
            struct peal_plan plan = *four->rows[i].plan;
            if (!real)
                plan.ranks = (struct plan_rank *)(uintptr_t)idle;
            for (uint32_t l = 0; l < row->nlanes; l++)
                rt_far_ease(comm, &plan, row, &row->lanes[l]);
        }
        eased[real] = eased_events(comm);
    }
    return eased[0] + (eased[1] == 0);
}

/* Whoever wakes the network's thread wakes it once. */
static uint32_t wakes_for_ever(const peal_comm *comm)
{
    const struct net *net = net_of(comm->far->transport);
    struct pollfd one = {.fd = net->poll, .events = POLLIN};
    uint64_t more = 1;
    unsigned tries = 0;
    (void)!write(net->wake, &more, sizeof more);
    while (tries < 200 && poll(&one, 1, 0) > 0) {
        rt_sleep_us(1000);
        tries++;
    }
    return tries == 200;
}

/* Small calls, behind which nobody awaits an acknowledgement: it comes with the next ones, or, when
 * ranks do other things in between, by itself. */
static void body_eased(struct member *self, peal_comm *comm)
{
    self->wrong += eased_events(comm) == 0;
    self->wrong += eased_in_vain(comm) != 0;
    self->wrong += wakes_for_ever(comm);
    for (uint32_t i = 0; i < 300; i++) {
        if (i % 50 == 20 + self->rank * 3)
            rt_sleep_us(4000);
        reduce_once(self, comm, self->rank, RANKS, 1 + i % 70, 0);
    }
    rt_sleep_us(5000 * self->rank);
}

static void body_counted(struct member *self, peal_comm *comm)
{
    static const size_t block = 700;
    peal_diag diag = PEAL_DIAG_INIT;
    for (uint32_t call = 0; call < 5; call++) {
        size_t send[RANKS], got[RANKS];
        int32_t in[RANKS * 700], out[RANKS * 700];
        for (uint32_t r = 0; r < RANKS; r++)
            send[r] = (self->rank * 7 + r * 13 + call * 101) % (block + 1);
        for (uint32_t i = 0; i < RANKS * block; i++)
            in[i] = (int32_t)(self->rank * 10000 + i);
        memset(out, 0xff, sizeof out);
        expect_ok(self, peal_alltoallv(comm, in, send, out, got, block, PEAL_INT32, &diag), &diag);
        for (uint32_t r = 0; r < RANKS && self->status == PEAL_OK; r++) {
            size_t want = (r * 7 + self->rank * 13 + call * 101) % (block + 1);
            self->wrong += got[r] != want;
            for (size_t i = 0; i < block; i++) {
                int32_t sent = (int32_t)(r * 10000 + self->rank * block + i);
                self->wrong += out[r * block + i] != (i < want ? sent : -1);
            }
        }
    }
}

START_TEST(test_calls)
{
    static const uint32_t sockets[] = {1, 2, 8};
    run_members(body_calls, sockets[_i % 3], _i < 3 ? 0 : 77);
}
END_TEST

/* Each rank has nothing but its own programs. */
START_TEST(test_eased)
{
    run_members(body_eased, 2, 0);
}
END_TEST

START_TEST(test_slices)
{
    static const uint32_t group[RANKS] = {0, 1, 8, 9};
    peal_fabric *fabric = load_two_hosts(ctx);
    peal_request request = PEAL_REQUEST_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *planned, *slices[RANKS];
    request.ranks = request.group_size = RANKS;
    request.group = group;
    request.max_bytes = 16 << 20;
    ck_assert_int_eq(peal_table_plan(ctx, fabric, &request, &diag, &planned), PEAL_OK);
    for (uint32_t r = 0; r < RANKS; r++)
        ck_assert_msg(peal_table_slice(planned, fabric, r, PEAL_EVERY_ROW, &diag, &slices[r]) ==
                          PEAL_OK,
                      "%s", diag.text);
    run_with(slices, body_calls, 2, 0);
    for (uint32_t r = 0; r < RANKS; r++)
        peal_table_destroy(slices[r]);
    peal_table_destroy(planned);
    peal_fabric_destroy(fabric);
}
END_TEST

START_TEST(test_counted)
{
    run_members(body_counted, 2, 0);
}
END_TEST

/* ---- exchanges and splits */

static void body_exchange(struct member *self, peal_comm *comm)
{
    static char all[RANKS][RANKS * JOB_EXCHANGE_MAX];
    static const size_t sizes[] = {1, 0, 8, JOB_EXCHANGE_MAX};
    char *mine = malloc(JOB_EXCHANGE_MAX);
    peal_diag diag = PEAL_DIAG_INIT;
    (void)comm;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        memset(mine, (int)(10 * i + self->rank), JOB_EXCHANGE_MAX);
        expect_ok(self, peal_world_exchange(self->world, mine, sizes[i], all[self->rank], &diag),
                  &diag);
        for (uint32_t r = 0; r < RANKS; r++)
            for (size_t k = 0; k < sizes[i]; k += 97)
                self->wrong += all[self->rank][r * sizes[i] + k] != (char)(10 * i + r);
    }
    self->wrong +=
        peal_world_exchange(self->world, mine, JOB_EXCHANGE_MAX + 1, mine, NULL) != PEAL_ERR_ARG;
    self->wrong += strcmp(peal_world_host(self->world, 3), "right") != 0;
    self->wrong += peal_world_host(self->world, RANKS) != NULL;
    free(mine);
}

/* An exchange that some give up, or make otherwise, is the last: nobody gets in a later one what
 * was said in it, and all are told what it was. */
#define BRIEF_MS 300u

static uint32_t odd_rank; /* the one that comes late, or with more */

static void expect_end(struct member *self, const char *what, const char *text)
{
    uint64_t mine[2] = {100 + self->rank, 0}, all[2 * RANKS] = {0};
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status = peal_world_exchange(self->world, mine, sizeof *mine, all, &diag);
    if (status == PEAL_ERR_ABORTED && strstr(diag.text, "since: ") && strstr(diag.text, text))
        return;
    self->wrong++;
    (void)snprintf(self->text, sizeof self->text, "%s: %d: %s", what, status, diag.text);
}

static void body_late_exchange(struct member *self, peal_comm *comm)
{
    uint64_t mine = self->rank, all[RANKS] = {0};
    peal_diag diag = PEAL_DIAG_INIT;
    char who[64];
    (void)comm;
    self->world->job->timeout_ms = BRIEF_MS;
    if (self->rank == odd_rank)
        rt_sleep_us(3 * BRIEF_MS * 1000);
    peal_status status = peal_world_exchange(self->world, &mine, sizeof mine, all, &diag);
    /* Rank 0 finds all that the others had said before they gave up. */
    int whole = odd_rank == 0 && self->rank == 0 && status == PEAL_OK;
    for (uint32_t r = 0; r < RANKS; r++)
        self->wrong += status == PEAL_OK && all[r] != r;
    self->wrong += status != PEAL_ERR_TIMEOUT && !whole;
    (void)snprintf(who, sizeof who, "rank %u on %s did not answer within %u ms", odd_rank,
                   odd_rank < 2 ? "left" : "right", BRIEF_MS);
    if (status != PEAL_OK && !strstr(diag.text, who))
        self->wrong++, expect_ok(self, status, &diag);
    if (whole) /* now it hears */
        self->wrong += peal_world_exchange(self->world, &mine, sizeof mine, all, &diag) == PEAL_OK;
    expect_end(self, "again", who);
    expect_end(self, "once more", who);
}

static void body_other_exchange(struct member *self, peal_comm *comm)
{
    uint64_t mine[2] = {self->rank, self->rank}, all[2 * RANKS] = {0};
    peal_diag diag = PEAL_DIAG_INIT;
    (void)comm;
    size_t bytes = self->rank == odd_rank ? 16 : 8;
    peal_status status = peal_world_exchange(self->world, mine, bytes, all, &diag);
    self->wrong += status != PEAL_ERR_MISMATCH || !strstr(diag.text, "makes another exchange");
    expect_end(self, "again", "makes another exchange than rank 0 on left");
}

static void body_split(struct member *self, peal_comm *comm)
{
    uint32_t half[2] = {self->rank % 2, self->rank % 2 + 2}; /* across the hosts */
    uint32_t others[2] = {1 - self->rank % 2, 3 - self->rank % 2};
    uint32_t twice[2] = {self->rank, self->rank};
    peal_diag diag = PEAL_DIAG_INIT;
    peal_world *world = NULL;
    peal_comm *part = NULL;
    uint32_t place = self->rank / 2;
    self->wrong += peal_world_split(self->world, others, 2, two, NULL, &world) != PEAL_ERR_ARG;
    self->wrong += peal_world_split(self->world, twice, 2, two, NULL, &world) != PEAL_ERR_ARG;
    self->wrong += peal_world_split(self->world, half, 2, four, NULL, &world) != PEAL_ERR_ARG;
    for (int round = 0; round < 2; round++) {
        expect_ok(self, peal_world_split(self->world, half, 2, two, &diag, &world), &diag);
        if (self->status != PEAL_OK)
            return;
        expect_ok(self, peal_comm_create(world, two, place, &diag, &part), &diag);
        for (size_t count = 1; count < 40000 && self->status == PEAL_OK; count *= 9) {
            reduce_once(self, part, place, 2, count, 0);
            reduce_once(self, comm, self->rank, RANKS, count, 0); /* the first one goes on */
        }
        peal_comm_destroy(part);
        peal_world_destroy(world);
        part = NULL;
    }
}

/* ---- another table */

static peal_status replace(struct member *self, peal_comm *comm, peal_table *table)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status = peal_comm_replace(comm, table, &diag);
    self->wrong += (status != PEAL_OK) != (diag.text[0] != '\0');
    return status;
}

static void body_replace(struct member *self, peal_comm *comm)
{
    static const size_t counts[] = {1, 33, 4096, 50000};
    for (uint32_t round = 0; round < 6; round++) {
        self->wrong += replace(self, comm, round % 2 ? four : anew) != PEAL_OK;
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            reduce_once(self, comm, self->rank, RANKS, counts[i], round % 3 == 0);
    }
    /* What not all can take, or not all have, nobody takes. */
    peal_status other = replace(self, comm, self->rank == 2 ? anew : four);
    self->wrong += other != PEAL_ERR_MISMATCH;
    other = replace(self, comm, self->rank == 3 ? two : anew);
    self->wrong += other != (self->rank == 3 ? PEAL_ERR_ARG : PEAL_ERR_MISMATCH);
    self->wrong += replace(self, comm, apart) != PEAL_ERR_UNSUPPORTED;
    reduce_once(self, comm, self->rank, RANKS, 500, 0);
    peal_counter counter = {.size = sizeof counter};
    self->wrong += peal_comm_counter(comm, 0, &counter) != PEAL_OK;
}

/* What the first rank has sent never arrives: its patience ends the comm, of all of them. */
static void body_unsettled(struct member *self, peal_comm *comm)
{
    peal_diag diag = PEAL_DIAG_INIT;
    for (uint32_t i = 0; self->rank == 0 && i < comm->nrows; i++)
        if (comm->rows[i].events)
            comm->rows[i].events[0].issued++;
    if (self->rank == 0)
        comm->timeout_ms = 100;
    peal_status status = peal_comm_replace(comm, anew, &diag);
    if ((self->rank == 0 || status != PEAL_ERR_PEER) && status != PEAL_ERR_TIMEOUT)
        self->wrong++;
    if (!strstr(diag.text, "rank 0 on left, changing tables before call 1: waited "))
        self->wrong++, expect_ok(self, status, &diag);
    self->wrong += peal_comm_error(comm, NULL) == PEAL_OK;
    self->wrong += peal_comm_replace(comm, anew, &diag) != PEAL_ERR_ABORTED;
}

START_TEST(test_unsettled)
{
    run_members(body_unsettled, 1, 0);
}
END_TEST

START_TEST(test_replace)
{
    run_members(body_replace, 2, 0);
}
END_TEST

/* ---- what is said of all this */

/* By transport: all that went to the other host, and nothing by what is not there. */
static void body_counters(struct member *self, peal_comm *comm)
{
    uint64_t far = 0, tcp = 0, near = 0, calls = 0;
    self->wrong += peal_comm_measure(comm, 1) != PEAL_OK;
    reduce_once(self, comm, self->rank, RANKS, 33, 0);
    for (uint32_t r = 0; r < RANKS; r++) {
        peal_link_state link = {.size = sizeof link};
        self->wrong += peal_world_link(self->world, r, &link) != PEAL_OK;
        /* Of a small call, signals and the data before them go together. */
        self->wrong += link.writes > link.signals || (link.writes != 0) != (link.signals != 0);
    }
    reduce_once(self, comm, self->rank, RANKS, 100000, 0);
    for (uint32_t r = 0; r < RANKS; r++) {
        peal_link_state link = {.size = sizeof link};
        self->wrong += peal_world_link(self->world, r, &link) != PEAL_OK;
        far += link.bytes;
    }
    peal_counter counter = {.size = sizeof counter};
    for (uint32_t i = 0; peal_comm_counter(comm, i, &counter) == PEAL_OK; i++) {
        const peal_carried *by = counter.carried;
        calls += counter.calls;
        near += by[PEAL_TRANSPORT_SHM].bytes;
        tcp += by[PEAL_TRANSPORT_TCP].bytes;
        self->wrong += by[PEAL_TRANSPORT_TCP].calls != counter.calls;
        self->wrong += counter.calls && by[PEAL_TRANSPORT_TCP].time_us != counter.time_us;
        self->wrong += by[PEAL_TRANSPORT_CMA].calls + by[PEAL_TRANSPORT_RDMA].calls != 0;
    }
    self->wrong += calls != 2 || tcp != far || far == 0 || near == 0;
}

/* A ring moves 2 (N - 1) / N of the message over each of its hops, of which two are within hosts
 * and two between them. */
static void body_ring(struct member *self, peal_comm *comm)
{
    static const uint64_t hop = 2 * 3 * 4096 * sizeof(int32_t) / 4;
    uint64_t moved[2] = {0, 0}, all[RANKS][2], shm = 0, tcp = 0;
    peal_diag diag = PEAL_DIAG_INIT;
    self->wrong += replace(self, comm, anew) != PEAL_OK;
    reduce_once(self, comm, self->rank, RANKS, 4096, 0);
    peal_counter counter = {.size = sizeof counter};
    for (uint32_t i = 0; peal_comm_counter(comm, i, &counter) == PEAL_OK; i++) {
        moved[0] += counter.carried[PEAL_TRANSPORT_SHM].bytes;
        moved[1] += counter.carried[PEAL_TRANSPORT_TCP].bytes;
    }
    expect_ok(self, peal_world_exchange(self->world, moved, sizeof moved, all, &diag), &diag);
    for (uint32_t r = 0; r < RANKS; r++) {
        shm += all[r][0];
        tcp += all[r][1];
    }
    self->wrong += shm != 2 * hop || tcp != 2 * hop || (moved[1] != 0 && moved[1] != hop);
}

START_TEST(test_counters)
{
    run_members(_i ? body_ring : body_counters, 2, 0);
}
END_TEST

START_TEST(test_exchange)
{
    run_members(body_exchange, 1, 0);
}
END_TEST

START_TEST(test_exchange_fails)
{
    odd_rank = _i < 2 ? 2u * (unsigned)_i : 3;
    run_members(_i < 2 ? body_late_exchange : body_other_exchange, 1, 0);
}
END_TEST

START_TEST(test_split)
{
    run_members(body_split, 2, 0);
}
END_TEST

/* ---- not waiting */

/* ---- leaving: nobody waits for an answer of who does not listen, although its world stays */

static void body_late(struct member *self, peal_comm *comm)
{
    (void)comm;
    rt_sleep_us(self->late_us);
}

START_TEST(test_leave)
{
    struct member members[RANKS];
    pthread_barrier_t leaves;
    ck_assert_int_eq(pthread_barrier_init(&leaves, NULL, RANKS), 0);
    for (uint32_t r = 0; r < RANKS; r++)
        members[r] = (struct member){.sockets = 2,
                                     .timeout_ms = PATIENCE_MS,
                                     .body = body_late,
                                     .table = four,
                                     .other = _i && r == 3 ? anew : NULL,
                                     .leaves = &leaves,
                                     .late_us = 50000 * r};
    meet_members(members);
    (void)pthread_barrier_destroy(&leaves);
    for (uint32_t r = 0; r < RANKS; r++) {
        peal_status want = _i && r > 1 ? PEAL_ERR_MISMATCH : PEAL_OK; /* of the other host's two */
        ck_assert_msg(members[r].status == want, "rank %u: %d: %s", r, members[r].status,
                      members[r].text);
        ck_assert_msg(members[r].took_us < PATIENCE_MS * 500, "rank %u took %llu us to leave", r,
                      (unsigned long long)members[r].took_us);
    }
}
END_TEST

START_TEST(test_start)
{
    peal_id id;
    peal_meeting *meeting;
    peal_join *join;
    peal_world *world = NULL;
    peal_join_params params = PEAL_JOIN_PARAMS_INIT;
    ck_assert_int_eq(peal_meeting_open(ctx, "127.0.0.1", 0, NULL, &meeting, &id), PEAL_OK);
    params.ranks = RANKS;
    params.id = &id;
    params.meeting = meeting;
    params.timeout_ms = _i ? 100 : 100000;
    ck_assert_int_eq(peal_join_start(ctx, &params, four, NULL, &join), PEAL_OK);
    ck_assert_int_eq(peal_join_test(join, 0, NULL, &world), PEAL_AGAIN);
    if (_i) { /* nobody else comes */
        static const char text[] = "3 of 4 ranks did not come within 100 ms: 1, 2, 3 (rank 0 ";
        peal_diag diag = PEAL_DIAG_INIT;
        ck_assert_int_eq(peal_join_test(join, 60000, &diag, &world), PEAL_ERR_TIMEOUT);
        ck_assert_msg(strncmp(diag.text, text, sizeof text - 1) == 0, "%s", diag.text);
        ck_assert_int_eq(peal_join_test(join, 0, NULL, &world), PEAL_ERR_ARG);
    }
    peal_join_end(join);
    peal_join_end(NULL);
    ck_assert_ptr_null(world);
}
END_TEST

START_TEST(test_arguments)
{
    peal_id id = {{0}};
    peal_world *world = NULL;
    peal_join_params params = PEAL_JOIN_PARAMS_INIT;
    ck_assert_int_eq(peal_world_join(ctx, &params, four, NULL, &world), PEAL_ERR_ARG);
    params.ranks = RANKS;
    ck_assert_int_eq(peal_world_join(ctx, &params, four, NULL, &world), PEAL_ERR_ARG);
    params.address = "127.0.0.1";
    ck_assert_int_eq(peal_world_join(ctx, &params, four, NULL, &world), PEAL_ERR_ARG);
    params.port = 70000;
    ck_assert_int_eq(peal_world_join(ctx, &params, four, NULL, &world), PEAL_ERR_ARG);
    params.port = 29999;
    params.rank = RANKS;
    ck_assert_int_eq(peal_world_join(ctx, &params, four, NULL, &world), PEAL_ERR_ARG);
    params.rank = 1;
    params.sockets = 9;
    ck_assert_int_eq(peal_world_join(ctx, &params, four, NULL, &world), PEAL_ERR_ARG);
    params.sockets = 0;
    params.id = &id; /* that is none */
    ck_assert_int_eq(peal_world_join(ctx, &params, four, NULL, &world), PEAL_ERR_ARG);
    params.id = NULL;
    params.address = "192.0.2.7"; /* of no host, and there is no key */
    ck_assert_int_eq(peal_world_join(ctx, &params, four, NULL, &world), PEAL_ERR_ARG);
    ck_assert_ptr_null(world);
    ck_assert_int_eq(peal_world_exchange(NULL, NULL, 0, NULL, NULL), PEAL_ERR_ARG);
    ck_assert_ptr_null(peal_world_host(NULL, 0));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net join");
    TCase *joined = tcase_create("joined");
    tcase_set_timeout(joined, 200);
    tcase_add_unchecked_fixture(joined, set_up, tear_down);
    tcase_add_checked_fixture(joined, set_up_test, tear_down_test);
    tcase_add_loop_test(joined, test_calls, 0, 4);
    tcase_add_test(joined, test_eased);
    tcase_add_test(joined, test_slices);
    tcase_add_test(joined, test_counted);
    tcase_add_test(joined, test_replace);
    tcase_add_test(joined, test_unsettled);
    tcase_add_loop_test(joined, test_counters, 0, 2);
    tcase_add_test(joined, test_exchange);
    tcase_add_loop_test(joined, test_exchange_fails, 0, 3);
    tcase_add_test(joined, test_split);
    tcase_add_loop_test(joined, test_leave, 0, 2);
    tcase_add_loop_test(joined, test_start, 0, 2);
    tcase_add_test(joined, test_arguments);
    suite_add_tcase(suite, joined);
    return run_suite(suite, CK_FORK_GETENV);
}
