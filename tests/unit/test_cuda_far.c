/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: plain */
/* Zero-SM calls between hosts that come to no good end: each call of the driver fails, or the
 * network is cut in front of it, or the other rank dies there. Whoever is left hears within the
 * deadline which rank it was, and all is given back. PEAL_SWEEP=1: at every call, else at some. */
#define RANKS 2u
#include "test_rdma_fake.h"
#include "test_stand_in.h"
#include "test_suite.h"

#include <dirent.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define HELD 6u /* kinds of things that the stand-in counts */
#define TIMEOUT_MS                                                                                 \
    500u               /* of ranks whose driver fails; what is left of a joining may last as long */
#define GRACE_MS 1500u /* on a busy machine */
#define LONG_MS 10000u /* of those that lose the other one: they hear of it much sooner */
#define CALLS 2u
#define NTH_MAX 2000u
#define TEXT 512u

static struct test_heap heap;
static peal_ctx *ctx;
static peal_table *table;

static struct stand_in stand_in;

static peal_table *plan(void)
{
    static const uint32_t group[RANKS] = {0, 8};
    peal_diag diag = PEAL_DIAG_INIT;
    peal_request request = PEAL_REQUEST_INIT;
    peal_fabric *fabric;
    peal_table *made;
    const char *path = test_source_path("examples/topologies/cluster-h100-2.xml");
    ck_assert_msg(peal_fabric_load(ctx, path, &diag, &fabric) == PEAL_OK, "%s", diag.text);
    request.collective = PEAL_ALLGATHER;
    request.zero_sm = 1;
    request.ranks = request.group_size = RANKS;
    request.group = group;
    request.min_bytes = 8;
    request.max_bytes = 1u << 20;
    ck_assert_msg(peal_table_plan(ctx, fabric, &request, &diag, &made) == PEAL_OK, "%s", diag.text);
    ck_assert_msg(peal_table_compile(made, fabric, &diag) == PEAL_OK, "%s", diag.text);
    ck_assert_int_eq(peal_table_verify(made, NULL, NULL, NULL, NULL), PEAL_OK);
    peal_fabric_destroy(fabric);
    return made;
}

static void set_up(void)
{
    ctx = test_ctx(&heap);
    stand_in_open(&stand_in);
    table = plan();
}

static void tear_down(void)
{
    peal_table_destroy(table);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}

/* ---- a rank: joins, calls, and leaves */

struct far_rank {
    uint32_t number;
    peal_cuda *cuda;
    peal_world *world;
    peal_cuda_comm *comm;
    void *stream;
    void *own;          /* device memory that is not symmetric */
    peal_status status; /* the first that was not OK, */
    char text[TEXT];    /* and what it said */
    uint64_t ms;        /* until then, or the end */
    uint64_t began;
};

static struct {
    peal_id id;
    peal_meeting *meeting;
    const char *rdma;
    uint32_t queues;
    uint32_t timeout_ms;
    pthread_barrier_t meet;
    int alone; /* the other rank is another process */
} job;

static void note(struct far_rank *self, peal_status status, const peal_diag *diag)
{
    if (self->status != PEAL_OK || status == PEAL_OK)
        return;
    self->status = status;
    self->ms = (rt_now_ns() - self->began) / 1000000u;
    (void)snprintf(self->text, sizeof self->text, "%s", diag->text);
}

static void join(struct far_rank *self)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_join_params params = PEAL_JOIN_PARAMS_INIT;
    peal_cuda_params device = PEAL_CUDA_PARAMS_INIT;
    params.rank = self->number;
    params.ranks = RANKS;
    params.id = &job.id;
    params.meeting = self->number ? NULL : job.meeting;
    params.host = self->number ? "right" : "left";
    params.sockets = 2;
    params.heap_bytes = 1 << 16;
    params.timeout_ms = job.timeout_ms;
    params.rdma = job.rdma;
    device.device = self->number;
    device.heap_bytes = FAKE_LARGE;
    device.zero_sm = 1;
    device.queues = job.queues;
    note(self, peal_world_join(ctx, &params, table, &diag, &self->world), &diag);
    if (self->status == PEAL_OK)
        note(self,
             peal_cuda_comm_create(self->cuda, self->world, table, self->number, &device, &diag,
                                   &self->comm),
             &diag);
}

/* A rank that cannot go on says so to the others. */
static void call_all(struct far_rank *self)
{
    peal_diag diag = PEAL_DIAG_INIT;
    size_t bytes = 300000; /* two parts on the way through pinned memory */
    void *out = peal_cuda_mem_alloc(self->comm, RANKS * bytes);
    note(self, peal_cuda_stream_create(self->comm, &diag, &self->stream), &diag);
    note(self, peal_cuda_malloc(self->comm, bytes, &diag, &self->own), &diag);
    for (uint32_t i = 0; i < CALLS && self->status == PEAL_OK; i++) {
        peal_cuda_call call = PEAL_CUDA_CALL_INIT;
        call.collective = PEAL_ALLGATHER;
        call.dtype = PEAL_UINT32;
        call.count = bytes / 4;
        call.in = self->own;
        call.out = out;
        note(self, peal_cuda_enqueue(self->comm, &call, self->stream, &diag), &diag);
    }
    if (self->status != PEAL_OK)
        peal_cuda_comm_abort(self->comm);
    if (self->stream)
        note(self, peal_cuda_stream_wait(self->comm, self->stream, &diag), &diag);
    note(self, peal_cuda_comm_error(self->comm, &diag), &diag);
}

static _Thread_local const struct far_rank *own_rank;

static void *rank_body(void *user)
{
    struct far_rank *self = user;
    own_rank = self;
    self->began = rt_now_ns();
    join(self);
    if (self->comm)
        call_all(self);
    if (self->status == PEAL_OK)
        self->ms = (rt_now_ns() - self->began) / 1000000u;
    if (!job.alone)
        (void)pthread_barrier_wait(&job.meet);
    if (self->comm) {
        peal_cuda_free(self->comm, self->own);
        peal_cuda_stream_destroy(self->comm, self->stream);
    }
    peal_cuda_comm_destroy(self->comm);
    peal_world_destroy(self->world);
    return NULL;
}

static void begin_job(const char *rdma, uint32_t queues, uint32_t timeout_ms)
{
    memset(&job, 0, sizeof job);
    job.rdma = rdma;
    job.queues = queues;
    job.timeout_ms = timeout_ms;
    if (peal_meeting_open(ctx, NULL, 0, NULL, &job.meeting, &job.id) != PEAL_OK)
        ck_abort_msg("no meeting");
}

/* ---- what is left over */

struct left {
    uint32_t counts[HELD];
    unsigned descriptors;
    int64_t blocks;
};

static struct left look(void)
{
    struct left left = {.blocks = heap.blocks};
    DIR *directory = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(directory);
    while (readdir(directory))
        left.descriptors++;
    (void)closedir(directory);
    stand_in.held(left.counts);
    return left;
}

static void compare(const struct left *before, uint32_t nth, const char *failed)
{
    struct left after = look();
    if (memcmp(before->counts, after.counts, sizeof after.counts) != 0)
        for (uint32_t i = 0; i < HELD; i++)
            ck_assert_msg(before->counts[i] == after.counts[i],
                          "call %u (%s): %u of kind %u are left", nth, failed,
                          after.counts[i] - before->counts[i], i);
    if (before->descriptors != after.descriptors || before->blocks != after.blocks)
        ck_abort_msg("call %u (%s): %d descriptors and %d blocks are left", nth, failed,
                     (int)(after.descriptors - before->descriptors),
                     (int)(after.blocks - before->blocks));
}

static void expect(const struct far_rank *rank, const char *text, uint32_t nth, const char *failed)
{
    if (rank->status != PEAL_OK && !strstr(rank->text, text))
        ck_abort_msg("call %u (%s), rank %u: no \"%s\" in: %s", nth, failed, rank->number, text,
                     rank->text);
    if (rank->ms > TIMEOUT_MS + GRACE_MS)
        ck_abort_msg("call %u (%s), rank %u: %u ms; %s", nth, failed, rank->number,
                     (unsigned)rank->ms, rank->text);
}

/* ---- both ranks in this process */

static void cut_network(void)
{
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_storage peer;
        socklen_t bytes = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0 &&
            (peer.ss_family == AF_INET || peer.ss_family == AF_INET6))
            (void)shutdown(fd, SHUT_RDWR);
    }
}

struct way {
    const char *rdma;
    uint32_t queues;
    int cuts; /* else the call fails */
};

static void run_both(struct far_rank *ranks, peal_cuda *cuda)
{
    pthread_t threads[RANKS];
    (void)pthread_barrier_init(&job.meet, NULL, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        ranks[r] = (struct far_rank){.number = r, .cuda = cuda};
        if (pthread_create(&threads[r], NULL, rank_body, &ranks[r]) != 0)
            ck_abort_msg("no thread");
    }
    for (uint32_t r = 0; r < RANKS; r++)
        (void)pthread_join(threads[r], NULL);
    (void)pthread_barrier_destroy(&job.meet);
}

/* 0: there are no more calls. */
static int sweep_one(const struct way *way, uint32_t nth)
{
    static struct far_rank ranks[RANKS];
    peal_diag diag = PEAL_DIAG_INIT;
    peal_cuda *cuda = NULL;
    struct left before = look();
    if (peal_cuda_open(ctx, fake_path(), &diag, &cuda) != PEAL_OK)
        ck_abort_msg("%s", diag.text);
    begin_job(way->rdma, way->queues, way->cuts ? LONG_MS : TIMEOUT_MS);
    stand_in.do_at(nth, way->cuts ? cut_network : NULL);
    run_both(ranks, cuda);
    const char *failed = stand_in.failed();
    stand_in.fail_at(0);
    for (uint32_t r = 0; r < RANKS; r++) {
        /* What this rank's own driver says of it names a function. */
        expect(&ranks[r], way->cuts || !failed || !strstr(ranks[r].text, failed) ? "rank " : failed,
               nth, failed);
        if (!failed && ranks[r].status != PEAL_OK)
            ck_abort_msg("nothing failed, rank %u: %s", r, ranks[r].text);
    }
    peal_cuda_close(cuda);
    compare(&before, nth, failed);
    return failed != NULL;
}

static uint32_t stride_of(uint32_t few)
{
    const char *asked = getenv("PEAL_SWEEP");
    uint32_t stride = asked ? (uint32_t)strtoul(asked, NULL, 10) : 0;
    return stride ? stride : few;
}

/* By TCP and by RDMA, by one queue and by several. */
static const struct way ways[] = {
    {"off", 0, 0}, {"off", 2, 0}, {NULL, 2, 0}, {"off", 2, 1}, {NULL, 0, 1}};
#define WAYS ((int)(sizeof ways / sizeof *ways))

START_TEST(test_sweep)
{
    uint32_t stride = stride_of(ways[_i].cuts ? 61 : 37), nth = 1 + (uint32_t)_i * 3 % stride;
    int more = 1;
    fake_begin(1);
    for (; more && nth < NTH_MAX; nth += stride)
        more = sweep_one(&ways[_i], nth);
    ck_assert_uint_gt(nth, 100);
    ck_assert_uint_lt(nth, NTH_MAX);
    ck_assert_uint_eq(fake.wrong, 0);
    fake_end();
}
END_TEST

/* ---- rank 0, through which all is exchanged, comes later than the other one waits */

static unsigned streams; /* that it has begun to make: the second is made when ranks have met */

static void doze_once(void)
{
    struct timespec nap = {0, (TIMEOUT_MS + 300) * 1000000};
    const char *function = stand_in.failed();
    if (own_rank && own_rank->number == 0 && function && strcmp(function, "cuStreamCreate") == 0 &&
        ++streams == 2)
        (void)nanosleep(&nap, NULL);
    else
        stand_in.do_at(1, doze_once);
}

/* What rank 0 says too late is no answer to what is asked then. */
START_TEST(test_slow_root)
{
    static struct far_rank ranks[RANKS];
    peal_diag diag = PEAL_DIAG_INIT;
    peal_cuda *cuda = NULL;
    struct left before = look();
    ck_assert_int_eq(peal_cuda_open(ctx, fake_path(), &diag, &cuda), PEAL_OK);
    begin_job("off", 0, TIMEOUT_MS);
    streams = 0;
    stand_in.do_at(1, doze_once);
    run_both(ranks, cuda);
    stand_in.fail_at(0);
    ck_assert_msg(streams < 2 || ranks[1].status != PEAL_OK, "rank 1 has a comm, rank 0: %s",
                  ranks[0].text);
    printf("rank 0 was %s; rank 1: %s\n", streams < 2 ? "in time" : "late", ranks[1].text);
    peal_cuda_close(cuda);
    compare(&before, 0, "none");
}
END_TEST

/* ---- the other rank is a process, and dies */

static void die(void)
{
    (void)raise(SIGKILL);
}

static pid_t start_other(uint32_t nth)
{
    struct far_rank other = {.number = 1};
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    peal_diag diag = PEAL_DIAG_INIT;
    if (peal_cuda_open(ctx, fake_path(), &diag, &other.cuda) != PEAL_OK)
        _exit(3);
    stand_in.do_at(nth, die);
    (void)rank_body(&other);
    _exit(0);
}

/* 0: it did not come so far. */
static int die_at(uint32_t nth)
{
    struct far_rank rank = {.number = 0};
    peal_diag diag = PEAL_DIAG_INIT;
    int how = 0;
    struct left before = look();
    begin_job("off", 2, LONG_MS);
    job.alone = 1;
    pid_t pid = start_other(nth);
    if (pid < 0 || peal_cuda_open(ctx, fake_path(), &diag, &rank.cuda) != PEAL_OK)
        ck_abort_msg("no process, or no driver: %s", diag.text);
    (void)rank_body(&rank);
    if (waitpid(pid, &how, 0) != pid)
        ck_abort_msg("no child");
    int died = WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL;
    if (!died && (!WIFEXITED(how) || WEXITSTATUS(how) != 0))
        ck_abort_msg("call %u: the other ended with %#x", nth, (unsigned)how);
    expect(&rank, "rank 1", nth, "a death");
    peal_cuda_close(rank.cuda);
    compare(&before, nth, NULL);
    return died;
}

START_TEST(test_death)
{
    uint32_t stride = stride_of(41), nth = 5;
    for (; nth < NTH_MAX && die_at(nth); nth += stride)
        continue;
    ck_assert_uint_gt(nth, 50);
    ck_assert_uint_lt(nth, NTH_MAX);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cuda far");
    TCase *tests = tcase_create("cuda far");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, test_sweep, 0, WAYS);
    tcase_add_test(tests, test_slow_root);
    tcase_add_test(tests, test_death);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
