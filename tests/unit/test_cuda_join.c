/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: plain */
/* Ranks of one process join with deadlines so short, and come so late, that some give up while
 * others are at any stage of it: nobody uses memory that is gone, everybody hears why, and all is
 * given back. */
#define RANKS 3u
#include "test_fixture.h"
#include "test_stand_in.h"
#include "test_suite.h"

#include <stdlib.h>
#include <time.h>

#define HELD 6u /* kinds of things that the stand-in counts */
#define MOST_MS 20u

static uint64_t random_state;

static uint32_t draw(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33);
}

struct joiner {
    struct rank rank;
    uint32_t late_us;
    peal_status status;
};

static struct {
    peal_world *world;
    peal_table *table;
    peal_cuda_params params;
    peal_collective collective;
    pthread_barrier_t meet;
    struct joiner joiners[RANKS];
} team;

static uint64_t now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

/* Whoever has a comm makes a call, which others may have given up already. */
static void call_once(struct rank *rank)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_cuda_call call = PEAL_CUDA_CALL_INIT;
    take_buffers(rank);
    call.collective = team.collective;
    call.dtype = PEAL_UINT32;
    call.count = 64;
    call.in = rank->in;
    call.out = rank->out;
    if (peal_cuda_stream_create(rank->comm, &diag, &rank->stream) != PEAL_OK)
        return;
    (void)!peal_cuda_enqueue(rank->comm, &call, rank->stream, &diag);
    (void)!peal_cuda_stream_wait(rank->comm, rank->stream, &diag);
}

/* Every second rank has a handle of the driver to itself. */
static void *join_main(void *user)
{
    struct joiner *self = user;
    struct rank *rank = &self->rank;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_cuda_params params = team.params;
    struct timespec nap = {0, (long)self->late_us * 1000};
    params.device = rank->number;
    (void)nanosleep(&nap, NULL);
    self->status = peal_cuda_comm_create(rank->cuda, team.world, team.table, rank->number, &params,
                                         &diag, &rank->comm);
    if (self->status == PEAL_OK)
        call_once(rank);
    else
        SAY(rank, strstr(diag.text, "rank "), "%s: %s", peal_status_name(self->status), diag.text);
    (void)pthread_barrier_wait(&team.meet);
    if (rank->comm) {
        peal_cuda_stream_destroy(rank->comm, rank->stream);
        peal_cuda_comm_destroy(rank->comm);
    }
    return NULL;
}

/* How many have joined. */
static unsigned try_once(peal_cuda *const *cudas, uint32_t timeout_ms)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    pthread_t threads[RANKS];
    unsigned joined = 0;
    params.ranks = RANKS;
    params.heap_bytes = 1u << 16;
    params.timeout_ms = timeout_ms;
    if (peal_world_create(ctx, &params, team.table, &diag, &team.world) != PEAL_OK)
        ck_abort_msg("%s", diag.text);
    for (uint32_t r = 0; r < RANKS; r++) {
        struct joiner *joiner = &team.joiners[r];
        memset(joiner, 0, sizeof *joiner);
        joiner->rank.number = r;
        joiner->rank.cuda = cudas[r % 2];
        joiner->late_us = draw() % (timeout_ms * 1300);
        if (pthread_create(&threads[r], NULL, join_main, joiner) != 0)
            ck_abort_msg("no thread");
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        (void)pthread_join(threads[r], NULL);
        if (team.joiners[r].rank.problem[0])
            ck_abort_msg("rank %u: %s", r, team.joiners[r].rank.problem);
        joined += team.joiners[r].status == PEAL_OK;
    }
    peal_world_destroy(team.world);
    return joined;
}

/* Short deadlines mostly. */
static void try_all(peal_cuda_share share, unsigned tries, uint64_t budget_us)
{
    uint32_t had[HELD], counts[HELD];
    peal_diag diag = PEAL_DIAG_INIT;
    peal_cuda *cudas[2] = {NULL, NULL};
    struct stand_in stand_in;
    unsigned ended[RANKS + 1] = {0}, tried = 0;
    uint64_t until = now_us() + budget_us;
    stand_in_open(&stand_in);
    for (unsigned i = 0; i < 2; i++)
        ck_assert_msg(peal_cuda_open(ctx, fake_path(), &diag, &cudas[i]) == PEAL_OK, "%s",
                      diag.text);
    stand_in.held(had);
    team.params.share = share;
    (void)pthread_barrier_init(&team.meet, NULL, RANKS);
    for (; tried < tries && now_us() < until; tried++)
        ended[try_once(cudas, 1 + (draw() % 4 ? draw() % 4 : draw() % MOST_MS))]++;
    (void)pthread_barrier_destroy(&team.meet);
    stand_in.held(counts);
    for (unsigned i = 0; i < HELD; i++)
        ck_assert_msg(counts[i] == had[i], "%u of kind %u are left", counts[i] - had[i], i);
    printf("%u tries: nobody joined %u times, all %u times, some %u times\n", tried, ended[0],
           ended[RANKS], tried - ended[0] - ended[RANKS]);
    peal_table_destroy(team.table);
    for (unsigned i = 0; i < 2; i++)
        peal_cuda_close(cudas[i]);
}

static void begin(uint64_t seed)
{
    peal_cuda_params params = PEAL_CUDA_PARAMS_INIT;
    memset(&team, 0, sizeof team);
    random_state = seed;
    team.params = params;
    team.params.heap_bytes = 1u << 20;
}

/* By virtual memory, and by plain memory, which goes with its context. */
START_TEST(test_join)
{
    begin(1 + (uint64_t)_i);
    team.collective = PEAL_ALLGATHER;
    team.table = plan_for(ctx, PEAL_ALLGATHER, "direct", 0);
    try_all(_i ? PEAL_CUDA_SHARE_IPC : PEAL_CUDA_SHARE_FD, 150, 900000);
}
END_TEST

/* With memory under the name of a switch, too. */
START_TEST(test_join_switch)
{
    (void)setenv("FAKECUDA_MULTICAST", "1", 1);
    begin(7);
    team.collective = PEAL_ALLREDUCE;
    team.table = plan_switch(ctx, PEAL_ALLREDUCE);
    try_all(PEAL_CUDA_SHARE_FD, 100, 600000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cuda join");
    TCase *tests = tcase_create("cuda join");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, test_join, 0, 2);
    tcase_add_test(tests, test_join_switch);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
