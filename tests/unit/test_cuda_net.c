/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: threads */
/* Ranks on devices of two hosts: threads that reach each other's memory within a host, and by the
 * network between them, over TCP and over a device for RDMA; on the stand-ins for both drivers. */
#include "cuda_comm.h"
#include "test_cuda_graphs.h"
#include "test_rdma_fake.h"
#include "test_suite.h"

#include <signal.h>
#include <sys/wait.h>

#define MOST (2u << 20) /* elements of the largest buffer: 8 MiB */

static struct test_heap heap;
static peal_ctx *ctx;
static struct graphs graphs;

struct member {
    uint32_t rank;
    peal_world *world;
    peal_cuda_comm *comm;
    void *stream;
    uint32_t *in; /* device memory: symmetric, */
    uint32_t *out;
    void *own_in; /* and not */
    void *own_out;
    uint32_t *host;
    pthread_t thread;
    char problem[1024];
};

static struct {
    peal_cuda *cuda;
    peal_table *table;
    peal_id id;
    peal_meeting *meeting;
    const char *rdma;
    int zero_sm;
    uint32_t queues;
    uint32_t sockets;
    uint32_t timeout_ms;
    const struct what *small; /* the call of tests of what ends a comm */
    void (*body)(struct member *self);
    pthread_barrier_t meet;
    struct member members[RANKS];
} team;

struct what {
    peal_collective collective;
    uint32_t count; /* of a block */
    uint32_t salt;
    int how;
};
enum { SYMMETRIC = 1, ZERO_SM = 2 };

static const peal_collective collectives[] = {PEAL_ALLREDUCE, PEAL_ALLGATHER, PEAL_ALLTOALL};

static peal_table *table_of(peal_fabric *fabric, peal_collective collective, int zero_sm,
                            int posted)
{
    static const uint32_t group[RANKS] = {0, 1, 8, 9};
    peal_diag diag = PEAL_DIAG_INIT;
    peal_request request = PEAL_REQUEST_INIT;
    peal_table *table;
    request.collective = collective;
    request.zero_sm = zero_sm && collective != PEAL_ALLREDUCE;
    request.move_engine[PEAL_LINK_NET] = posted ? PEAL_ENGINE_IBGDA + 1 : 0;
    request.ranks = request.group_size = RANKS;
    request.group = group;
    request.min_bytes = 8;
    request.max_bytes = 4 * MOST;
    ck_assert_msg(peal_table_plan(ctx, fabric, &request, &diag, &table) == PEAL_OK, "%s",
                  diag.text);
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
    return table;
}

/* One slot, whose tiles go out to all before the next one is in it; and, of large messages, what is
 * sent from where the caller has it, of which the sender awaits no more than that it is read. */
#define BROADCAST_LINKS                                                                            \
    "link r0 -> r2 net link r0 -> r1 nvlink direct link r0 -> r3 net "                             \
    "link r1 -> r0 nvlink direct link r2 -> r0 net link r3 -> r0 net "                             \
    "rank 0 host 0 lane pre wait r1.0 wait r2.0 wait r3.0 body "
#define BROADCAST_END                                                                              \
    "copy c0: in[0] -> out[0] ce e4 await e4 delivered "                                           \
    "rank 1 host 0 lane pre signal r0.0 ce body wait r0.1 "                                        \
    "rank 2 host 1 lane pre signal r0.0 rdma body wait r0.1 "                                      \
    "rank 3 host 1 lane pre signal r0.0 rdma body wait r0.1"
#define BROADCAST_FROM(place)                                                                      \
    "put c0: " place " -> r2.out[0]@1 rdma e1 signal r2.1 rdma after e1 "                          \
    "put c0: " place " -> r3.out[0]@3 rdma e3 signal r3.1 rdma after e3 "                          \
    "put c0: " place " -> r1.out[0]@2 ce e2 signal r1.1 ce after e2 "                              \
    "await e3 free await e1 free await e2 delivered "
#define LARGE 1000000u /* bytes */
static const char broadcasts_text[] =
    "peal-table 1 plan broadcast ranks 4 root 0 bytes 8..999999 algorithm slots channels 1 "
    "chunks 1 tile 4096 semaphores 2 region scratch width 1 depth 1 slot 4096 " BROADCAST_LINKS
    "copy c0: in[0] -> s0[0] ce e0 await e0 delivered " BROADCAST_FROM("s0[0]") BROADCAST_END
    " plan broadcast ranks 4 root 0 bytes 1000000..8388608 algorithm straight channels 1 chunks 1 "
    "semaphores 2 " BROADCAST_LINKS BROADCAST_FROM("in[0]") BROADCAST_END;

static int64_t blocks; /* before a test */

static void plan_all(int zero_sm, int posted)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_fabric *fabric;
    const char *path = test_source_path("examples/topologies/cluster-h100-2.xml");
    ctx = test_ctx(&heap);
    memset(&team, 0, sizeof team);
    ck_assert_msg(peal_fabric_load(ctx, path, &diag, &fabric) == PEAL_OK, "%s", diag.text);
    team.table = table_of(fabric, collectives[0], zero_sm, posted);
    for (unsigned i = 1; i < 3; i++) {
        peal_table *other = table_of(fabric, collectives[i], zero_sm, posted);
        ck_assert_int_eq(peal_table_join(team.table, other, NULL), PEAL_OK);
        peal_table_destroy(other);
    }
    peal_fabric_destroy(fabric);
    if (zero_sm) {
        peal_table *broadcasts;
        ck_assert_msg(peal_table_assemble(ctx, broadcasts_text, sizeof broadcasts_text - 1,
                                          "broadcasts", &diag, &broadcasts) == PEAL_OK,
                      "%s", diag.text);
        ck_assert_int_eq(peal_table_join(team.table, broadcasts, NULL), PEAL_OK);
        peal_table_destroy(broadcasts);
    }
    ck_assert_int_eq(peal_table_verify(team.table, NULL, NULL, NULL, NULL), PEAL_OK);
}

/* Of all tests of a case; each begins with nothing but the table. */
static void set_up(void)
{
    plan_all(0, 0);
}

static void set_up_zero(void)
{
    plan_all(1, 0);
}

static void set_up_posted(void)
{
    plan_all(0, 1);
}

static void set_up_threads(void)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table = team.table;
    memset(&team, 0, sizeof team);
    team.table = table;
    blocks = heap.blocks;
    ck_assert_msg(peal_cuda_open(ctx, fake_path(), &diag, &team.cuda) == PEAL_OK, "%s", diag.text);
    fake_begin(1);
}

static void tear_down(void)
{
    peal_table_destroy(team.table);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}

static void tear_down_threads(void)
{
    ck_assert_uint_eq(fake.wrong, 0);
    fake_end();
    peal_cuda_close(team.cuda);
    ck_assert_int_eq(heap.blocks, blocks);
}

/* ---- ranks */

static peal_status join(struct member *self, peal_diag *diag)
{
    peal_join_params params = PEAL_JOIN_PARAMS_INIT;
    peal_cuda_params device = PEAL_CUDA_PARAMS_INIT;
    params.rank = self->rank;
    params.ranks = RANKS;
    params.id = &team.id;
    params.meeting = self->rank ? NULL : team.meeting;
    params.host = self->rank < 2 ? "left" : "right";
    params.sockets = team.sockets;
    params.heap_bytes = 1 << 16;
    params.timeout_ms = team.timeout_ms;
    params.rdma = team.rdma;
    device.device = self->rank % 2;
    device.heap_bytes = 64u << 20;
    device.zero_sm = team.zero_sm;
    device.queues = team.queues;
    peal_status status = peal_world_join(ctx, &params, team.table, diag, &self->world);
    return status == PEAL_OK ? peal_cuda_comm_create(team.cuda, self->world, team.table, self->rank,
                                                     &device, diag, &self->comm)
                             : status;
}

static void take_memory(struct member *self)
{
    peal_diag diag = PEAL_DIAG_INIT;
    SAY_OK(self, peal_cuda_stream_create(self->comm, &diag, &self->stream), diag);
    self->in = peal_cuda_mem_alloc(self->comm, 4 * MOST);
    self->out = peal_cuda_mem_alloc(self->comm, 4 * MOST);
    SAY_OK(self, peal_cuda_malloc(self->comm, 4 * MOST, &diag, &self->own_in), diag);
    SAY_OK(self, peal_cuda_malloc(self->comm, 4 * MOST, &diag, &self->own_out), diag);
    self->host = malloc(4 * MOST);
    SAY(self, self->in && self->out && self->host, "no memory");
}

static void leave(struct member *self)
{
    peal_diag diag = PEAL_DIAG_INIT;
    (void)!peal_cuda_stream_wait(self->comm, self->stream, &diag);
    (void)pthread_barrier_wait(&team.meet);
    peal_cuda_free(self->comm, self->own_in);
    peal_cuda_free(self->comm, self->own_out);
    peal_cuda_stream_destroy(self->comm, self->stream);
    free(self->host);
}

static void *member_main(void *user)
{
    struct member *self = user;
    peal_diag diag = PEAL_DIAG_INIT;
    SAY_OK(self, join(self, &diag), diag);
    if (!self->problem[0]) {
        take_memory(self);
        if (!self->problem[0])
            team.body(self);
        leave(self);
    }
    peal_cuda_comm_destroy(self->comm);
    peal_world_destroy(self->world);
    return NULL;
}

static void run(void (*body)(struct member *), const char *rdma, uint32_t sockets,
                uint32_t timeout_ms)
{
    team.body = body;
    team.rdma = rdma;
    team.sockets = sockets;
    team.timeout_ms = timeout_ms;
    ck_assert_int_eq(peal_meeting_open(ctx, NULL, 0, NULL, &team.meeting, &team.id), PEAL_OK);
    (void)pthread_barrier_init(&team.meet, NULL, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        struct member *member = &team.members[r];
        memset(member, 0, sizeof *member);
        member->rank = r;
        ck_assert_int_eq(pthread_create(&member->thread, NULL, member_main, member), 0);
    }
    for (uint32_t r = 0; r < RANKS; r++)
        (void)pthread_join(team.members[r].thread, NULL);
    (void)pthread_barrier_destroy(&team.meet);
    for (uint32_t r = 0; r < RANKS; r++)
        ck_assert_msg(!team.members[r].problem[0], "rank %u: %s", r, team.members[r].problem);
}

/* ---- calls and what they come to */

static uint32_t in_blocks(const struct what *what)
{
    return what->collective == PEAL_ALLTOALL ? RANKS : 1;
}

static uint32_t out_blocks(const struct what *what)
{
    return what->collective == PEAL_ALLREDUCE || what->collective == PEAL_BROADCAST ? 1 : RANKS;
}

/* Element `index` of a rank's output, from what all ranks have put in. */
static uint32_t wanted(const struct what *what, uint32_t rank, uint32_t index)
{
    uint32_t from = what->count ? index / what->count : 0, sum = 0;
    if (what->collective == PEAL_BROADCAST)
        return value_of(0, index, what->salt);
    if (what->collective == PEAL_ALLGATHER)
        return value_of(from, index % what->count, what->salt);
    if (what->collective == PEAL_ALLTOALL)
        return value_of(from, rank * what->count + index % what->count, what->salt);
    for (uint32_t r = 0; r < RANKS; r++)
        sum += value_of(r, index, what->salt);
    return sum;
}

static void copy(struct member *self, void *to, const void *from, size_t bytes)
{
    peal_diag diag = PEAL_DIAG_INIT;
    SAY_OK(self, peal_cuda_copy(self->comm, to, from, bytes, self->stream, &diag), diag);
    SAY_OK(self, peal_cuda_stream_wait(self->comm, self->stream, &diag), diag);
}

static void prepare(struct member *self, const struct what *what)
{
    uint32_t in = in_blocks(what) * what->count;
    for (uint32_t i = 0; i < in; i++)
        self->host[i] = value_of(self->rank, i, what->salt);
    copy(self, what->how & SYMMETRIC ? self->in : self->own_in, self->host, 4 * (size_t)in);
    uint32_t out = out_blocks(what) * what->count + 1; /* one is behind it */
    out = out < MOST ? out : MOST;
    memset(self->host, 0xee, 4 * (size_t)out);
    copy(self, what->how & SYMMETRIC ? self->out : self->own_out, self->host, 4 * (size_t)out);
}

static peal_status enqueue(struct member *self, const struct what *what, peal_diag *diag)
{
    peal_cuda_call call = PEAL_CUDA_CALL_INIT;
    call.collective = what->collective;
    call.dtype = PEAL_UINT32;
    call.count = what->count;
    call.in = what->how & SYMMETRIC ? (void *)self->in : self->own_in;
    call.out = what->how & SYMMETRIC ? (void *)self->out : self->own_out;
    call.symmetric = what->how == (ZERO_SM | SYMMETRIC);
    call.zero_sm = (what->how & ZERO_SM) != 0;
    return peal_cuda_enqueue(self->comm, &call, self->stream, diag);
}

static void compare(struct member *self, const struct what *what)
{
    uint32_t out = out_blocks(what) * what->count, guard = out < MOST;
    copy(self, self->host, what->how & SYMMETRIC ? self->out : self->own_out,
         4 * (size_t)(out + guard));
    for (uint32_t i = 0; i < out && !self->problem[0]; i++)
        SAY(self, self->host[i] == wanted(what, self->rank, i),
            "%s of %u, salt %u: element %u is %#x, not %#x", peal_collective_name(what->collective),
            what->count, what->salt, i, self->host[i], wanted(what, self->rank, i));
    SAY(self, !guard || self->host[out] == 0xeeeeeeee, "the element behind the output is %#x",
        self->host[out]);
}

static void call_once(struct member *self, struct what what)
{
    peal_diag diag = PEAL_DIAG_INIT;
    prepare(self, &what);
    SAY_OK(self, enqueue(self, &what, &diag), diag);
    compare(self, &what);
}

/* ---- all is well */

static void sizes_body(struct member *self)
{
    static const uint32_t counts[] = {0, 7, 65537};
    uint32_t salt = 0;
    for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++)
        for (unsigned c = 0; c < 3; c++, salt++)
            call_once(self, (struct what){collectives[c], counts[i], salt, salt % 2});
}

/* 8 MiB; over TCP that is what tests/cli/gpu_net.sh does. */
static void large_body(struct member *self)
{
    call_once(self, (struct what){PEAL_ALLREDUCE, MOST, 9, 0});
}

/* Back to back: nobody waits for anything but in the end. */
static void queued_body(struct member *self)
{
    peal_diag diag = PEAL_DIAG_INIT;
    struct what what = {PEAL_ALLGATHER, 5001, 3, 1}, other = {PEAL_ALLREDUCE, 777, 4, 0};
    prepare(self, &other);
    prepare(self, &what);
    for (uint32_t i = 0; i < 10; i++) {
        SAY_OK(self, enqueue(self, &what, &diag), diag);
        if (i % 3 == 0)
            SAY_OK(self, enqueue(self, &other, &diag), diag);
    }
    compare(self, &what);
    compare(self, &other);
}

static void *capture(struct member *self, void *context, const struct what *calls, unsigned count)
{
    peal_diag diag = PEAL_DIAG_INIT;
    void *graph = NULL, *exec = NULL;
    (void)graphs.push(context);
    (void)graphs.begin(self->stream, 0);
    for (unsigned i = 0; i < count; i++)
        SAY_OK(self, enqueue(self, &calls[i], &diag), diag);
    SAY(self, graphs.end(self->stream, &graph) == 0, "the capture did not end");
    SAY(self, graphs.make(&exec, graph, 0) == 0, "no graph");
    (void)graphs.drop(graph);
    (void)graphs.pop(&context);
    return exec;
}

/* Captured, and replayed with other inputs of the last one, which is looked at and now and then
 * made beside it, too. */
static void replay(struct member *self, struct what *calls, unsigned count, unsigned beside)
{
    peal_diag diag = PEAL_DIAG_INIT;
    struct what *last = &calls[count - 1];
    void *context = NULL;
    SAY(self, graphs.retain(&context, (int)(self->rank % 2)) == 0, "no context");
    /* A thread that captures forbids others what captures do not allow. */
    (void)pthread_barrier_wait(&team.meet);
    void *exec = capture(self, context, calls, count);
    (void)pthread_barrier_wait(&team.meet);
    for (uint32_t i = 0; i < 5; i++) {
        last->salt = i;
        prepare(self, last);
        (void)graphs.push(context);
        SAY(self, graphs.launch(exec, self->stream) == 0, "no launch");
        (void)graphs.pop(&context);
        if (i % beside == 0)
            SAY_OK(self, enqueue(self, last, &diag), diag);
        compare(self, last);
    }
    (void)graphs.drop_exec(exec);
    (void)graphs.release((int)(self->rank % 2));
}

/* An odd number of calls, so that what it captured meets both parities. Their output is told anew,
 * or found anew, in each of them. */
static void replay_body(struct member *self)
{
    struct what calls[3] = {
        {PEAL_ALLREDUCE, 4099, 0, 1}, {PEAL_ALLTOALL, 33, 0, 1}, {PEAL_ALLGATHER, 30001, 0, 1}};
    replay(self, calls, 3, 3);
}

/* Buffers that others do not reach: each replay copies them again, by a place that a call beside it
 * has used, too. */
static void replay_private_body(struct member *self)
{
    struct what calls[3] = {
        {PEAL_ALLREDUCE, 4099, 0, 0}, {PEAL_ALLTOALL, 33, 0, 0}, {PEAL_ALLGATHER, 30001, 0, 0}};
    replay(self, calls, 3, 2);
}

/* What the heap has no room for is refused before anything is enqueued. */
static void room_body(struct member *self)
{
    struct what what = {PEAL_ALLREDUCE, MOST, 9, 0};
    peal_diag diag = PEAL_DIAG_INIT;
    SAY(self, peal_cuda_mem_alloc(self->comm, 40u << 20) != NULL, "no 40 MiB");
    prepare(self, &what);
    peal_status status = enqueue(self, &what, &diag);
    SAY(self, status == PEAL_ERR_RANGE && strstr(diag.text, "twice that of the heap"), "%d: %s",
        (int)status, diag.text);
    what.count = MOST / 4;
    call_once(self, what);
}

static peal_cuda_comm_info info_of(struct member *self)
{
    peal_cuda_comm_info info = {.size = sizeof info};
    SAY(self, peal_cuda_comm_get(self->comm, &info) == PEAL_OK, "no info");
    return info;
}

static void tcp_body(struct member *self)
{
    peal_cuda_comm_info info = info_of(self);
    SAY(self, info.links_rdma == 0 && info.links_tcp == 8, "links: %u, %u", info.links_rdma,
        info.links_tcp);
    SAY(self, info.stand_ins & 1u << PEAL_ENGINE_RDMA, "nothing stands in");
    SAY(self, strstr(info.why, "told not to"), "why: %s", info.why);
    sizes_body(self);
}

static void rdma_body(struct member *self)
{
    peal_cuda_comm_info info = info_of(self);
    SAY(self, info.links_rdma == 8 && info.links_tcp == 0, "links: %u, %u; %s", info.links_rdma,
        info.links_tcp, info.why);
    SAY(self, !(info.stand_ins & 1u << PEAL_ENGINE_RDMA), "something stands in");
    sizes_body(self);
}

static void mixed_body(struct member *self)
{
    peal_cuda_comm_info info = info_of(self);
    SAY(self, info.links_rdma == 4 && info.links_tcp == 4, "links: %u, %u", info.links_rdma,
        info.links_tcp);
    SAY(self, info.why[0], "no reason");
    queued_body(self);
    call_once(self, (struct what){PEAL_ALLTOALL, 70001, 5, 0});
}

START_TEST(test_tcp)
{
    run(tcp_body, "off", 3, 60000);
}
END_TEST

START_TEST(test_rdma)
{
    run(rdma_body, NULL, 1, 60000);
    ck_assert_uint_gt(fake.works, 0);
}
END_TEST

/* One rank's device does not take its memory: whichever comes last. */
START_TEST(test_mixed)
{
    fake.large_most = RANKS - 1;
    fake.inline_bytes = 0;
    run(mixed_body, NULL, 1, 60000);
}
END_TEST

START_TEST(test_large)
{
    run(large_body, NULL, 1, 60000);
}
END_TEST

START_TEST(test_queued)
{
    run(queued_body, _i ? NULL : "off", 2, 60000);
}
END_TEST

START_TEST(test_replay)
{
    load_graphs(&graphs);
    run(_i < 2 ? replay_body : replay_private_body, _i % 2 ? NULL : "off", 1, 60000);
}
END_TEST

START_TEST(test_room)
{
    run(room_body, "off", 1, 60000);
}
END_TEST

/* ---- and what ends a comm */

static void expect_end(struct member *self, peal_status one, peal_status other, const char *text)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status = peal_cuda_stream_wait(self->comm, self->stream, &diag);
    SAY(self, status == one || status == other, "%s: %s", peal_status_name(status), diag.text);
    SAY(self, strstr(diag.text, text), "no \"%s\" in: %s", text, diag.text);
}

static const struct what small = {PEAL_ALLREDUCE, 5000, 1, SYMMETRIC};
static const struct what zero_small = {PEAL_ALLGATHER, 5000, 1, ZERO_SM | SYMMETRIC};

static void await_end(struct member *self)
{
    peal_diag diag = PEAL_DIAG_INIT;
    for (unsigned i = 0; i < 60000 && peal_cuda_comm_error(self->comm, &diag) == PEAL_OK; i++)
        rt_sleep_us(1000);
}

/* Rank 2 does not come, and the streams come to their end. */
static void late_body(struct member *self)
{
    char text[64];
    peal_diag diag = PEAL_DIAG_INIT;
    (void)snprintf(text, sizeof text, "waited %u ms for rank 2 on right", team.timeout_ms);
    call_once(self, *team.small);
    if (self->rank != 2)
        SAY_OK(self, enqueue(self, team.small, &diag), diag);
    await_end(self);
    expect_end(self, PEAL_ERR_TIMEOUT, PEAL_ERR_PEER, text);
}

/* The others may hear of it before they call. */
static void abort_body(struct member *self)
{
    peal_diag diag = PEAL_DIAG_INIT;
    if (self->rank == 2)
        peal_cuda_comm_abort(self->comm);
    else
        (void)!enqueue(self, &small, &diag);
    await_end(self);
    expect_end(self, PEAL_ERR_ABORTED, PEAL_ERR_ABORTED, "rank 2 on right aborted");
}

static void broken_body(struct member *self)
{
    peal_diag diag = PEAL_DIAG_INIT;
    for (unsigned i = 0; i < 1000 && peal_cuda_comm_error(self->comm, &diag) == PEAL_OK; i++) {
        (void)!enqueue(self, team.small, &diag);
        (void)!peal_cuda_stream_wait(self->comm, self->stream, &diag);
    }
    expect_end(self, PEAL_ERR_PEER, PEAL_ERR_PEER,
               fake.refuse_at ? "refused a write to its memory" : "a queue pair failed");
}

static void run_small(void (*body)(struct member *), const struct what *what, const char *rdma,
                      uint32_t timeout_ms)
{
    team.small = what;
    run(body, rdma, 1, timeout_ms);
}

START_TEST(test_late)
{
    run_small(late_body, &small, "off", 1500);
}
END_TEST

START_TEST(test_abort)
{
    run(abort_body, NULL, 1, 60000);
}
END_TEST

START_TEST(test_broken)
{
    if (_i)
        fake.refuse_at = 40;
    else
        fake.break_at = 40;
    run_small(broken_body, &small, NULL, 60000);
}
END_TEST

/* ---- without an SM: copies within a host, the service thread between them */

/* Of a comm without SMs; of another one every third call has them. */
static void zero_body(struct member *self)
{
    static const uint32_t counts[] = {1, 7, 4099, 70001};
    peal_cuda_comm_info info;
    uint32_t salt = 0;
    for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++)
        for (unsigned c = 1; c < 3; c++, salt++)
            call_once(self, (struct what){collectives[c], counts[i], salt,
                                          salt % 4 / 2 | (team.zero_sm || salt % 3 ? ZERO_SM : 0)});
    call_once(self, (struct what){PEAL_BROADCAST, 20001, salt, ZERO_SM | SYMMETRIC});
    if (!team.zero_sm)
        call_once(self, (struct what){PEAL_ALLREDUCE, 4099, salt, 1});
    info = info_of(self);
    SAY(self, info.zero_sm == (team.zero_sm ? 9 : 6), "%u calls without an SM",
        (unsigned)info.zero_sm);
    SAY(self, ((info.stand_ins & 1u << PEAL_ENGINE_RDMA) != 0) == (team.rdma != NULL),
        "stand-ins %#x", info.stand_ins);
}

/* Back to back, on several queues, between calls of kernels. */
static void zero_queued_body(struct member *self)
{
    peal_diag diag = PEAL_DIAG_INIT;
    struct what what = {PEAL_ALLGATHER, 5001, 3, 3}, other = {PEAL_ALLREDUCE, 777, 4, 0};
    prepare(self, &other);
    prepare(self, &what);
    for (uint32_t i = 0; i < 12; i++) {
        SAY_OK(self, enqueue(self, &what, &diag), diag);
        if (i % 3 == 0)
            SAY_OK(self, enqueue(self, &other, &diag), diag);
    }
    compare(self, &what);
    compare(self, &other);
}

/* Two programs a graph. */
static void zero_replay_body(struct member *self)
{
    struct what calls[2] = {{PEAL_ALLTOALL, 33, 0, 3}, {PEAL_ALLGATHER, 30001, 0, 3}};
    replay(self, calls, 2, 2);
}

/* What goes out of pinned memory is free at once, and that is all its step waits for; the call is
 * over when it is known to be in place. */
static void zero_placed_body(struct member *self)
{
    static const struct what what = {PEAL_BROADCAST, LARGE / 4 + 1, 1, ZERO_SM};
    peal_diag diag = PEAL_DIAG_INIT;
    call_once(self, what);
    (void)pthread_barrier_wait(&team.meet);
    fake.mute = 1;
    (void)pthread_barrier_wait(&team.meet);
    prepare(self, &what);
    SAY_OK(self, enqueue(self, &what, &diag), diag);
    rt_sleep_us(50000);
    SAY(self, atomic_load(&self->comm->words->busy) != CUDA_IDLE, "the call is over too soon");
    (void)pthread_barrier_wait(&team.meet);
    fake.mute = 0;
    compare(self, &what);
}

/* 1: within a while. */
static int is_empty(struct member *self, void *context)
{
    int (*query)(void *stream) = NULL;
    int ready = 0;
    find(&graphs, "cuStreamQuery", &query);
    (void)graphs.push(context);
    for (unsigned i = 0; i < 3000 && !ready; i++) {
        ready = query(self->stream) == CU_SUCCESS;
        rt_sleep_us(1000);
    }
    (void)graphs.pop(&context);
    return ready;
}

/* A graph that is launched when the comm has failed, and nobody begins its call, ends nevertheless.
 */
static void zero_after_body(struct member *self)
{
    static const struct what what = {PEAL_ALLGATHER, 5000, 1, ZERO_SM | SYMMETRIC};
    void *context = NULL;
    SAY(self, graphs.retain(&context, (int)(self->rank % 2)) == 0, "no context");
    call_once(self, what);
    (void)pthread_barrier_wait(&team.meet);
    void *exec = capture(self, context, &what, 1);
    (void)pthread_barrier_wait(&team.meet);
    peal_cuda_comm_abort(self->comm);
    await_end(self);
    (void)graphs.push(context);
    SAY(self, graphs.launch(exec, self->stream) == 0, "no launch");
    (void)graphs.pop(&context);
    if (!is_empty(self, context)) {
        SAY(self, 0, "the stream does not end");
        atomic_store(&self->comm->words->open, 1);
    }
    (void)!peal_cuda_stream_wait(self->comm, self->stream, NULL);
    (void)graphs.drop_exec(exec);
    (void)graphs.release((int)(self->rank % 2));
}

/* By TCP and by RDMA. */
START_TEST(test_zero)
{
    team.zero_sm = 1;
    run(zero_body, _i ? NULL : "off", 2, 60000);
    ck_assert(!_i || fake.works > 0);
}
END_TEST

START_TEST(test_zero_calls)
{
    run(zero_body, NULL, 1, 60000);
}
END_TEST

START_TEST(test_zero_queued)
{
    team.queues = 3;
    run(zero_queued_body, _i ? NULL : "off", 3, 60000);
}
END_TEST

START_TEST(test_zero_replay)
{
    load_graphs(&graphs);
    team.queues = 2 * (uint32_t)_i;
    run(zero_replay_body, _i ? NULL : "off", 1, 60000);
}
END_TEST

START_TEST(test_zero_late)
{
    run_small(late_body, &zero_small, NULL, 700);
}
END_TEST

START_TEST(test_zero_broken)
{
    fake.break_at = 40;
    run_small(broken_body, &zero_small, NULL, 60000);
}
END_TEST

START_TEST(test_zero_placed)
{
    run(zero_placed_body, NULL, 1, 60000);
}
END_TEST

START_TEST(test_zero_after)
{
    load_graphs(&graphs);
    run(zero_after_body, "off", 1, 60000);
}
END_TEST

/* A device that sees a NIC's writes out of order: by RDMA where its streams can flush. */
static void unordered_body(struct member *self)
{
    peal_cuda_comm_info info = info_of(self);
    int flushes = getenv("FAKECUDA_FLUSH") != NULL;
    SAY(self, info.links_rdma == (flushes ? 8 : 0) && info.links_tcp == (flushes ? 0 : 8),
        "links: %u, %u", info.links_rdma, info.links_tcp);
    SAY(self, flushes || strstr(info.why, "in their order"), "why: %s", info.why);
    call_once(self, (struct what){PEAL_ALLGATHER, 4099, 1, ZERO_SM});
}

START_TEST(test_zero_unordered)
{
    (void)setenv("FAKECUDA_RDMA_ORDER", "0", 1);
    if (_i)
        (void)setenv("FAKECUDA_FLUSH", "1", 1);
    team.zero_sm = 1;
    run(unordered_body, NULL, 1, 60000);
    (void)unsetenv("FAKECUDA_RDMA_ORDER");
    (void)unsetenv("FAKECUDA_FLUSH");
}
END_TEST

/* ---- posted to NICs by kernels: a pair for each lane and peer, joined with the one over there */

static void posted_body(struct member *self)
{
    peal_cuda_comm_info info = info_of(self);
    SAY(self, info.engines & 1u << PEAL_ENGINE_IBGDA && info.stand_ins & 1u << PEAL_ENGINE_IBGDA,
        "engines %#x, stand-ins %#x", info.engines, info.stand_ins);
    sizes_body(self);
}

START_TEST(test_posted)
{
    void (*joins)(int) = NULL;
    load_graphs(&graphs);
    find(&graphs, "peal_stand_in_joins", &joins);
    joins(1);
    run(posted_body, "off", 1, 60000);
    joins(0);
}
END_TEST

/* ---- processes, one of which dies */

#define CALLS_BEFORE 5

/* The last call has no end: rank 3 is killed when all are behind the checked ones. Says what the
 * comm said. */
static int play_until_death(struct member *self, int to)
{
    peal_diag diag = PEAL_DIAG_INIT;
    for (uint32_t i = 0; i < CALLS_BEFORE; i++)
        call_once(self, (struct what){PEAL_ALLREDUCE, 5000, i, i % 2});
    (void)!enqueue(self, &small, &diag);
    if (self->rank == 3) {
        (void)!peal_cuda_stream_wait(self->comm, self->stream, &diag);
        (void)raise(SIGKILL);
    }
    for (unsigned i = 0; i < 1000 && peal_cuda_comm_error(self->comm, &diag) == PEAL_OK; i++) {
        (void)!peal_cuda_stream_wait(self->comm, self->stream, &diag);
        (void)!enqueue(self, &small, &diag);
    }
    peal_status status = peal_cuda_comm_error(self->comm, &diag);
    (void)!write(to, diag.text, strlen(diag.text));
    return status == PEAL_ERR_PEER && !self->problem[0] ? 0 : 1;
}

static int process_main(uint32_t rank, int to)
{
    struct member *self = &team.members[rank];
    peal_diag diag = PEAL_DIAG_INIT;
    self->rank = rank;
    SAY_OK(self, peal_cuda_open(ctx, fake_path(), &diag, &team.cuda), diag);
    SAY_OK(self, join(self, &diag), diag);
    if (!self->problem[0])
        take_memory(self);
    int code = self->problem[0] ? 2 : play_until_death(self, to);
    if (code)
        (void)!write(to, self->problem, strlen(self->problem));
    /* What a failed comm leaves behind can be freed. */
    peal_cuda_stream_destroy(self->comm, self->stream);
    peal_cuda_comm_destroy(self->comm);
    return code;
}

static void expect_process(pid_t pid, int from, uint32_t rank)
{
    char text[1024] = "";
    int how = 0;
    ck_assert_int_eq(waitpid(pid, &how, 0), pid);
    (void)!read(from, text, sizeof text - 1);
    (void)close(from);
    if (rank == 3)
        return;
    ck_assert_msg(WIFEXITED(how) && WEXITSTATUS(how) == 0, "rank %u: %#x: %s", rank, (unsigned)how,
                  text);
    ck_assert_msg(strstr(text, "rank 3 on right") && strstr(text, " step "), "rank %u: %s", rank,
                  text);
}

START_TEST(test_death)
{
    pid_t pids[RANKS];
    int ends[RANKS][2];
    team.rdma = "off";
    team.sockets = 2;
    team.timeout_ms = 60000;
    ck_assert_int_eq(peal_meeting_open(ctx, NULL, 0, NULL, &team.meeting, &team.id), PEAL_OK);
    for (uint32_t r = 0; r < RANKS; r++) {
        ck_assert_int_eq(pipe(ends[r]), 0);
        pids[r] = fork();
        if (pids[r] == 0)
            _exit(process_main(r, ends[r][1]));
        (void)close(ends[r][1]);
    }
    peal_meeting_close(team.meeting);
    for (uint32_t r = 0; r < RANKS; r++)
        expect_process(pids[r], ends[r][0], r);
}
END_TEST

static TCase *add_case(Suite *suite, const char *name)
{
    TCase *tests = tcase_create(name);
    tcase_add_unchecked_fixture(tests, set_up, tear_down);
    suite_add_tcase(suite, tests);
    return tests;
}

int main(void)
{
    Suite *suite = suite_create("cuda net");
    TCase *tests = add_case(suite, "death");
    tcase_add_test(tests, test_death);
    tests = add_case(suite, "ways");
    tcase_add_checked_fixture(tests, set_up_threads, tear_down_threads);
    tcase_add_test(tests, test_tcp);
    tcase_add_test(tests, test_rdma);
    tcase_add_test(tests, test_mixed);
#if !defined(__SANITIZE_THREAD__) /* it shows no more of threads than the others */
    tcase_add_test(tests, test_large);
#else
    (void)test_large;
#endif
    tests = add_case(suite, "calls");
    tcase_add_checked_fixture(tests, set_up_threads, tear_down_threads);
    tcase_add_loop_test(tests, test_queued, 0, 2);
    tcase_add_loop_test(tests, test_replay, 0, 4);
    tcase_add_test(tests, test_room);
    tests = add_case(suite, "ends");
    tcase_add_checked_fixture(tests, set_up_threads, tear_down_threads);
    tcase_add_test(tests, test_late);
    tcase_add_test(tests, test_abort);
    tcase_add_loop_test(tests, test_broken, 0, 2);
    tests = tcase_create("zero");
    tcase_add_unchecked_fixture(tests, set_up_zero, tear_down);
    tcase_add_checked_fixture(tests, set_up_threads, tear_down_threads);
    tcase_add_loop_test(tests, test_zero, 0, 2);
    tcase_add_test(tests, test_zero_calls);
    tcase_add_loop_test(tests, test_zero_queued, 0, 2);
    tcase_add_loop_test(tests, test_zero_replay, 0, 2);
    tcase_add_test(tests, test_zero_late);
    tcase_add_test(tests, test_zero_broken);
    tcase_add_test(tests, test_zero_placed);
    tcase_add_test(tests, test_zero_after);
    tcase_add_loop_test(tests, test_zero_unordered, 0, 2);
    suite_add_tcase(suite, tests);
    tests = tcase_create("posted");
    tcase_add_unchecked_fixture(tests, set_up_posted, tear_down);
    tcase_add_checked_fixture(tests, set_up_threads, tear_down_threads);
    tcase_add_test(tests, test_posted);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
