/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: threads */
/* What the calling thread does by itself over TCP: the network's thread has ended, and calls that
 * are only asked for, and tables that are replaced, come to their end. Splits that meet in another
 * order, aborts in the midst of a call, and what a peer may say at the wrong time. */
#include "test_net_members.h"
#include "test_suite.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the network's thread */

static void end_thread(peal_comm *comm)
{
    struct net *net = net_of(comm->far->transport);
    uint64_t one = 1;
    atomic_store(&net->stop, 1);
    (void)!write(net->wake, &one, sizeof one);
    (void)pthread_join(net->thread, NULL);
    atomic_store(&net->stop, 0);
}

static void *stand_in(void *user)
{
    struct net *net = user;
    while (!atomic_load(&net->stop)) {
        (void)net->transport.listen(&net->transport);
        rt_sleep_us(100);
    }
    return NULL;
}

/* One for good-byes, which the comm's end takes for the one it had. */
static void begin_thread(peal_comm *comm)
{
    struct net *net = net_of(comm->far->transport);
    (void)pthread_create(&net->thread, NULL, stand_in, net);
}

/* ---- calls that are only asked for */

#define OUTSTANDING 4u

static void fill(int32_t *in, size_t count, uint32_t rank, uint32_t salt)
{
    for (size_t i = 0; i < count; i++)
        in[i] = (int32_t)((i + salt) % 1000 * (rank + 1));
}

static uint32_t count_wrong(const int32_t *out, size_t count, uint32_t salt)
{
    uint32_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += out[i] != (int32_t)((i + salt) % 1000 * (RANKS * (RANKS + 1) / 2));
    return wrong;
}

static void ask_for_all(struct member *self, peal_pending *const *pending)
{
    peal_diag diag = PEAL_DIAG_INIT;
    for (uint32_t done = 0; done < OUTSTANDING && self->status == PEAL_OK;) {
        done = 0;
        for (uint32_t c = 0; c < OUTSTANDING; c++) {
            int over = 0;
            expect_ok(self, peal_test(pending[c], &over, &diag), &diag);
            done += over != 0;
        }
    }
}

static void body_asked(struct member *self, peal_comm *comm)
{
    static const size_t counts[OUTSTANDING] = {7, 30000, 1, 4096};
    static int32_t in[RANKS][OUTSTANDING][30000], out[RANKS][OUTSTANDING][30000];
    peal_pending *pending[OUTSTANDING];
    peal_diag diag = PEAL_DIAG_INIT;
    for (uint32_t c = 0; c < OUTSTANDING; c++) {
        peal_call call = PEAL_CALL_INIT;
        call.in = in[self->rank][c];
        call.out = out[self->rank][c];
        call.count = counts[c];
        call.dtype = PEAL_INT32;
        expect_ok(self, peal_pending_create(comm, &call, &diag, &pending[c]), &diag);
    }
    comm->timeout_ms = 5000;
    end_thread(comm);
    for (uint32_t round = 0; round < 20 && self->status == PEAL_OK; round++) {
        for (uint32_t c = 0; c < OUTSTANDING; c++) {
            fill(in[self->rank][c], counts[c], self->rank, round + c);
            expect_ok(self, peal_start(pending[c], &diag), &diag);
        }
        ask_for_all(self, pending);
        for (uint32_t c = 0; c < OUTSTANDING && self->status == PEAL_OK; c++)
            self->wrong += count_wrong(out[self->rank][c], counts[c], round + c);
    }
    begin_thread(comm);
    for (uint32_t c = 0; c < OUTSTANDING; c++)
        peal_pending_destroy(pending[c]);
}

START_TEST(test_asked)
{
    run_members(body_asked, 1 + (uint32_t)_i, 0);
}
END_TEST

/* Acknowledgements that nobody was in a hurry for are paid by who replaces the table. */
static void body_replaced(struct member *self, peal_comm *comm)
{
    peal_diag diag = PEAL_DIAG_INIT;
    comm->timeout_ms = 5000;
    end_thread(comm);
    for (uint32_t round = 0; round < 4 && self->status == PEAL_OK; round++) {
        for (size_t count = 1; count < 20000; count *= 13)
            reduce_once(self, comm, self->rank, RANKS, count, 0);
        expect_ok(self, peal_comm_replace(comm, round % 2 ? four : anew, &diag), &diag);
    }
    begin_thread(comm);
}

START_TEST(test_replaced)
{
    run_members(body_replaced, 2, 0);
}
END_TEST

/* ---- splits */

/* Rank 0 is the first of two parts, and for a while in the first of them, whose other rank is late:
 * who waits for it in the second one is no stranger. */
static void body_parts(struct member *self, peal_comm *comm)
{
    static const uint32_t parts[2][2] = {{0, 1}, {0, 2}};
    (void)comm;
    if (self->rank == 1)
        rt_sleep_us(1200000);
    for (uint32_t i = 0; i < 2; i++) {
        peal_diag diag = PEAL_DIAG_INIT;
        peal_world *world = NULL;
        peal_comm *part = NULL;
        if (self->rank != 0 && self->rank != i + 1)
            continue;
        uint32_t place = self->rank != 0;
        expect_ok(self, peal_world_split(self->world, parts[i], 2, two, &diag, &world), &diag);
        if (self->status != PEAL_OK)
            return;
        expect_ok(self, peal_comm_create(world, two, place, &diag, &part), &diag);
        reduce_once(self, part, place, 2, 1000, 0);
        peal_comm_destroy(part);
        peal_world_destroy(world);
    }
}

START_TEST(test_parts)
{
    run_members(body_parts, 1, 0);
}
END_TEST

/* ---- two comms, by turns: one has its table replaced while a call of the other is under way */

static void body_two(struct member *self, peal_comm *comm)
{
    static const uint32_t all[RANKS] = {0, 1, 2, 3};
    static int32_t in[RANKS][BIG], out[RANKS][BIG];
    peal_diag diag = PEAL_DIAG_INIT;
    peal_world *world = NULL;
    peal_comm *beside = NULL;
    peal_pending *pending = NULL;
    peal_call call = PEAL_CALL_INIT;
    call.in = in[self->rank];
    call.out = out[self->rank];
    call.count = BIG;
    call.dtype = PEAL_INT32;
    expect_ok(self, peal_world_split(self->world, all, RANKS, four, &diag, &world), &diag);
    if (self->status == PEAL_OK)
        expect_ok(self, peal_comm_create(world, four, self->rank, &diag, &beside), &diag);
    if (self->status == PEAL_OK)
        expect_ok(self, peal_pending_create(beside, &call, &diag, &pending), &diag);
    for (uint32_t round = 0; round < 4 && self->status == PEAL_OK; round++) {
        int done = 0;
        fill(in[self->rank], BIG, self->rank, round);
        expect_ok(self, peal_start(pending, &diag), &diag);
        reduce_once(self, comm, self->rank, RANKS, 5000, 0);
        expect_ok(self, peal_test(pending, &done, &diag), &diag);
        expect_ok(self, peal_comm_replace(comm, round % 2 ? four : anew, &diag), &diag);
        for (uint32_t i = 0; i < 3; i++) {
            if (!done)
                expect_ok(self, peal_test(pending, &done, &diag), &diag);
            reduce_once(self, comm, self->rank, RANKS, 100 * i + 1, 0);
        }
        while (self->status == PEAL_OK && !done)
            expect_ok(self, peal_test(pending, &done, &diag), &diag);
        self->wrong += count_wrong(out[self->rank], BIG, round);
    }
    peal_pending_destroy(pending);
    peal_comm_destroy(beside);
    peal_world_destroy(world);
}

START_TEST(test_two)
{
    run_members(body_two, 2, 0);
}
END_TEST

/* ---- what ranks of two hosts have asked for */

static pthread_barrier_t all_told;

static void body_differ(struct member *self, peal_comm *comm)
{
    static int32_t in[RANKS][8], out[RANKS][8];
    peal_diag diag = PEAL_DIAG_INIT;
    int odd = self->rank == RANKS - 1;
    reduce_once(self, comm, self->rank, RANKS, 100, 0);
    peal_status status = peal_allreduce(comm, in[self->rank], out[self->rank], odd ? 5 : 8,
                                        PEAL_INT32, PEAL_SUM, &diag);
    self->wrong += status != PEAL_ERR_MISMATCH || !strstr(diag.text, "allreduce of 5 int32, sum") ||
                   !strstr(diag.text, "allreduce of 8 int32, sum");
    (void)snprintf(self->text, sizeof self->text, "%s", diag.text);
    (void)pthread_barrier_wait(&all_told);
}

START_TEST(test_differ)
{
    ck_assert_int_eq(pthread_barrier_init(&all_told, NULL, RANKS), 0);
    run_members(body_differ, 2, 0);
    (void)pthread_barrier_destroy(&all_told);
}
END_TEST

/* ---- aborts */

struct aborter {
    peal_comm *comm;
    uint32_t after_us;
};

static uint32_t abort_after_us;
static int abort_is_held_up;

static void *abort_main(void *user)
{
    const struct aborter *aborter = user;
    struct rt_error error = {.status = PEAL_ERR_ABORTED, .rank = 1, .culprit = RT_NOBODY};
    rt_sleep_us(aborter->after_us);
    if (abort_is_held_up)
        rt_fail(aborter->comm->base, &error);
    else
        peal_comm_abort(aborter->comm);
    return NULL;
}

/* Another thread ends the comm while its caller receives: buffers are the caller's again. */
static void body_aborted(struct member *self, peal_comm *comm)
{
    struct aborter aborter = {comm, abort_after_us};
    peal_diag diag = PEAL_DIAG_INIT;
    pthread_t thread;
    peal_status status = PEAL_OK;
    int aborts = self->rank == 1;
    if (aborts)
        (void)pthread_create(&thread, NULL, abort_main, &aborter);
    for (size_t count = BIG; status == PEAL_OK; count = count == BIG ? 100 : BIG) {
        int32_t *in = calloc(count, sizeof *in);
        int32_t *out = calloc(count, sizeof *out);
        status = peal_allreduce(comm, in, out, count, PEAL_INT32, PEAL_SUM, &diag);
        free(in);
        free(out);
    }
    if (aborts)
        (void)pthread_join(thread, NULL);
    self->wrong += status != PEAL_ERR_ABORTED || !strstr(diag.text, "rank 1");
    (void)snprintf(self->text, sizeof self->text, "%d: %s", status, diag.text);
}

START_TEST(test_aborted)
{
    abort_after_us = 3000 + 9000 * (uint32_t)_i;
    run_members(body_aborted, 2, 0);
}
END_TEST

/* The one that aborts has not told other hosts yet when ranks of its own leave: these do. */
START_TEST(test_aborted_and_left)
{
    abort_after_us = 3000;
    abort_is_held_up = 1;
    run_members(body_aborted, 2, 0);
    abort_is_held_up = 0;
}
END_TEST

/* ---- one link by itself, of which the other end is the test's */

struct lone {
    struct rt_job job;
    struct rt_far far;
    struct rt_ident idents[2];
    uint8_t is_far[2];
    uint8_t missed[2];
    struct rt_sent sent[2];
    peal_comm comm;
    char *base;
    struct net *net;
    int listener;
    int there[2]; /* the other ends of the streams */
};

#define LONE_BYTES (1u << 20)

static int lone_listen(struct sock_addr *addr, int room)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    socklen_t bytes = sizeof to;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (room && setsockopt(fd, SOL_SOCKET, 33 /* SO_RCVBUFFORCE */, &room, sizeof room) != 0) {
        (void)close(fd);
        return -1;
    }
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&to, sizeof to), 0);
    ck_assert_int_eq(listen(fd, 8), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&to, &bytes), 0);
    *addr = (struct sock_addr){.family = 4, .ip = {127, 0, 0, 1}, .port = ntohs(to.sin_port)};
    return fd;
}

/* room: for that much in a socket, which not everybody may have; 0: any. NULL: it was not to be
 * had. */
static struct lone *lone_make(uint32_t streams, int room)
{
    struct lone *self = calloc(1, sizeof *self);
    struct sock_wait wait = {rt_now_ns() + 5000000000u, NULL};
    struct sock_addr addr;
    struct far_transport *made;
    int links[4] = {-1, -1, -1, -1};
    self->listener = lone_listen(&addr, room);
    if (self->listener < 0) {
        free(self);
        return NULL;
    }
    for (uint32_t s = 0; s < streams; s++) {
        ck_assert_int_eq(sock_dial(&addr, NULL, wait, &self->there[s], NULL), PEAL_OK);
        while ((links[streams + s] = sock_accept(self->listener)) < 0)
            rt_sleep_us(100);
    }
    self->job =
        (struct rt_job){.ctx = ctx, .nranks = 2, .sockets = streams, .idents = self->idents};
    self->is_far[1] = 1;
    self->far = (struct rt_far){.ctx = ctx,
                                .job = &self->job,
                                .is_far = self->is_far,
                                .missed = self->missed,
                                .sent = self->sent};
    self->base = aligned_alloc(4096, LONE_BYTES);
    memset(self->base, 0, LONE_BYTES);
    self->comm.base = self->base;
    self->comm.nranks = 2;
    self->comm.far = &self->far;
    self->comm.layout =
        (struct rt_layout){.nranks = 2, .nsems = 1, .boards = 65536, .sems = 131072};
    self->comm.board = rt_board(self->base, &self->comm.layout, 0);
    ck_assert_int_eq(rt_net_make(&self->far, links, NULL, &made), PEAL_OK);
    self->net = net_of(made);
    self->net->comm = &self->comm;
    return self;
}

static void lone_free(struct lone *self)
{
    self->net->transport.free(&self->net->transport);
    sock_close(&self->listener);
    for (uint32_t s = 0; s < self->job.sockets; s++)
        sock_close(&self->there[s]);
    free(self->base);
    free(self);
}

static void send_all(int fd, const void *data, size_t bytes)
{
    struct sock_wait wait = {rt_now_ns() + 5000000000u, NULL};
    ck_assert_int_eq(sock_send(fd, data, bytes, wait), PEAL_OK);
}

static struct rt_board *their_board(const struct lone *self)
{
    return rt_board(self->base, &self->comm.layout, 1);
}

/* So many frames that the last ones come with the last read of a turn: they are taken in it, for
 * the socket, which is empty then, tells of nothing more. */
#define STATUS_BYTES (sizeof(struct frame) + sizeof(struct frame_wait))

START_TEST(test_last_read)
{
    struct lone *self = lone_make(1, 8 << 20);
    if (!self)
        return; /* it takes a privilege */
    size_t in_first = NET_BUFFER / STATUS_BYTES;
    size_t frames = in_first * (NET_READS - 1) + 6;
    char *all = malloc(frames * STATUS_BYTES);
    struct frame_wait nothing = {0};
    ck_assert_uint_lt(frames * STATUS_BYTES, (size_t)NET_BUFFER * NET_READS);
    for (size_t i = 0; i < frames; i++) {
        struct frame head = {.kind = FRAME_STATUS, .bytes = sizeof nothing, .at = i + 1};
        frame_seal(&head, &nothing);
        memcpy(all + i * STATUS_BYTES, &head, sizeof head);
        memcpy(all + i * STATUS_BYTES + sizeof head, &nothing, sizeof nothing);
    }
    send_all(self->there[0], all, frames * STATUS_BYTES);
    rt_sleep_us(20000);
    ck_assert_int_eq(net_receive(self->net, &self->net->peers[1].stream[0]), 1);
    ck_assert_uint_eq(atomic_load(&their_board(self)->done), frames);
    free(all);
    lone_free(self);
}
END_TEST

static size_t put_frame(char *to, struct frame head, const void *body)
{
    frame_seal(&head, body);
    memcpy(to, &head, sizeof head);
    if (head.bytes)
        memcpy(to + sizeof head, body, head.bytes);
    return sizeof head + head.bytes;
}

static uint32_t raised(const struct lone *self)
{
    return (uint32_t)atomic_load(rt_sem(self->base, &self->comm.layout, 0, 1, 0));
}

/* Frames that come byte by byte: each is used when it is whole, and not before. */
START_TEST(test_dribble)
{
    struct lone *self = lone_make(1, 0);
    char out[100], data[100], all[600];
    uint64_t before = 1;
    memset(out, 0, sizeof out);
    memset(data, 'x', sizeof data);
    atomic_store(&self->far.out, (uint64_t)(uintptr_t)out);
    atomic_store(&self->far.out_bytes, sizeof out);
    size_t bytes = put_frame(
        all, (struct frame){.kind = FRAME_DATA, .bytes = sizeof data, .at = FAR_OUT, .a = 1}, data);
    size_t whole = bytes;
    bytes += put_frame(all + bytes,
                       (struct frame){.kind = FRAME_SIGNAL, .bytes = 8, .a = 1, .b = 1}, &before);
    uint32_t wrong = 0;
    for (size_t i = 0; i < bytes; i++) {
        send_all(self->there[0], all + i, 1);
        wrong += net_receive(self->net, &self->net->peers[1].stream[0]) != 1;
        wrong += i + 1 < whole && self->net->peers[1].stream[0].data_in != 0;
        wrong += i + 1 < bytes && raised(self) != 0;
    }
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_eq(raised(self), 1);
    ck_assert_mem_eq(out, data, sizeof data);
    lone_free(self);
}
END_TEST

/* A flag that claims more data than came before it on its own stream would be waited for for ever.
 */
START_TEST(test_claim)
{
    struct lone *self = lone_make(1, 0);
    uint64_t before = 1;
    char all[64];
    size_t bytes =
        put_frame(all, (struct frame){.kind = FRAME_SIGNAL, .bytes = 8, .a = 1, .b = 1}, &before);
    send_all(self->there[0], all, bytes);
    rt_sleep_us(20000);
    ck_assert_int_eq(net_receive(self->net, &self->net->peers[1].stream[0]), 0);
    ck_assert(rt_world_failed(&self->comm));
    ck_assert_uint_eq(raised(self), 0);
    lone_free(self);
}
END_TEST

/* Another stream of a peer may be seen to end before what it has said on the first was read: why it
 * ended is known all the same. */
START_TEST(test_last_words)
{
    struct lone *self = lone_make(2, 0);
    struct rt_error error = {.status = PEAL_ERR_MISMATCH, .rank = 1, .culprit = 0, .call = 7};
    struct frame head = {.kind = FRAME_ERROR, .bytes = sizeof error};
    frame_seal(&head, &error);
    send_all(self->there[0], &head, sizeof head);
    send_all(self->there[0], &error, sizeof error);
    sock_close(&self->there[1]);
    rt_sleep_us(20000);
    ck_assert_int_eq(net_receive(self->net, &self->net->peers[1].stream[1]), 0);
    ck_assert(rt_world_failed(&self->comm));
    lone_free(self);
}
END_TEST

/* Of a rank that the caller knows to be lost no leave is taken for as long as others may take. */
START_TEST(test_deserted)
{
    struct lone *self = lone_make(1, 0);
    struct far_transport *net = &self->net->transport;
    self->comm.timeout_ms = 60000;
    ck_assert_int_eq(net->start(net, &self->comm, NULL), PEAL_OK);
    rt_far_miss(&self->comm, 1);
    uint64_t before = rt_now_ns();
    net->stop(net);
    ck_assert_uint_lt((rt_now_ns() - before) / 1000000, 30000);
    lone_free(self);
}
END_TEST

/* An error that is nobody's may come from another host. */
START_TEST(test_nobody)
{
    struct lone *self = lone_make(1, 0);
    struct rt_error error = {.status = PEAL_ERR_MISMATCH, .rank = 1, .culprit = RT_NOBODY};
    char text[RT_CALL_TEXT];
    ck_assert_int_eq(rt_calls_differ(&self->comm, &error, text, sizeof text), 0);
    lone_free(self);
}
END_TEST

/* ---- meeting */

struct impostor {
    int listener;
    struct auth_key key;
    uint32_t sockets;
};

/* Rank 0 of two, which holds the key, and is not as it has to be. */
static void *impostor_main(void *user)
{
    const struct impostor *self = user;
    static struct auth_gate gate;
    struct sock_wait wait = {rt_now_ns() + 5000000000u, NULL};
    struct auth_claim claim;
    struct rt_ident idents[2] = {{0}};
    struct rt_verdict verdict = {.sockets = self->sockets};
    int fd = -1;
    auth_gate_open(&gate, self->listener, &self->key);
    if (auth_gate_next(&gate, wait, &fd, &claim) == PEAL_OK &&
        sock_recv(fd, &idents[1], sizeof idents[1], wait) == PEAL_OK &&
        sock_send(fd, &verdict, sizeof verdict, wait) == PEAL_OK)
        (void)!sock_send(fd, idents, sizeof idents, wait);
    auth_gate_close(&gate);
    sock_close(&fd);
    return NULL;
}

START_TEST(test_impostor)
{
    static const uint32_t sockets[] = {0, 9, 1u << 30};
    struct impostor impostor = {.sockets = sockets[_i]};
    struct sock_addr addr = {.family = 4, .ip = {127, 0, 0, 1}};
    peal_diag diag = PEAL_DIAG_INIT;
    peal_join_params params = PEAL_JOIN_PARAMS_INIT;
    peal_world *world = NULL;
    pthread_t thread;
    ck_assert_int_eq(sock_listen(&addr, &impostor.listener, NULL), PEAL_OK);
    auth_key_from("k", 1, &impostor.key);
    ck_assert_int_eq(pthread_create(&thread, NULL, impostor_main, &impostor), 0);
    params.rank = 1;
    params.ranks = 2;
    params.address = "127.0.0.1";
    params.port = addr.port;
    params.key = "k";
    params.key_bytes = 1;
    params.timeout_ms = 5000;
    ck_assert_int_eq(peal_world_join(ctx, &params, two, &diag, &world), PEAL_ERR_PEER);
    ck_assert_msg(strstr(diag.text, "sockets between two ranks") != NULL, "%s", diag.text);
    (void)pthread_join(thread, NULL);
    sock_close(&impostor.listener);
}
END_TEST

/* A network of its own with one port to call from; 0: not to be had. */
static int narrow_network(void)
{
    struct ifreq lo = {.ifr_flags = IFF_UP};
    static const char range[] = "40000 40000";
    if (syscall(SYS_unshare, 0x40000000 /* CLONE_NEWNET */) != 0)
        return 0;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    memcpy(lo.ifr_name, "lo", 3);
    int up = ioctl(fd, SIOCSIFFLAGS, &lo) == 0;
    (void)close(fd);
    fd = open("/proc/sys/net/ipv4/ip_local_port_range", O_WRONLY);
    int narrow = up && fd >= 0 && write(fd, range, sizeof range - 1) == (ssize_t)sizeof range - 1;
    if (fd >= 0)
        (void)close(fd);
    return narrow;
}

/* 0: as it has to be. */
static int dial_itself(void)
{
    struct sock_addr addr = {.family = 4, .ip = {127, 0, 0, 1}, .port = 40000};
    struct sock_wait wait = {rt_now_ns() + 5000000000u, NULL};
    int fd = -1, listener = -1;
    if (!narrow_network())
        return 0;
    for (int i = 0; i < 3; i++)
        if (sock_dial(&addr, NULL, wait, &fd, NULL) != PEAL_AGAIN)
            return 1;
    return sock_listen(&addr, &listener, NULL) != PEAL_OK;
}

/* Who calls a port of this host on which nobody listens yet may be given that port to call from. */
START_TEST(test_itself)
{
    int how = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(dial_itself());
    ck_assert_int_eq(waitpid(pid, &how, 0), pid);
    ck_assert_int_eq(how, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net alone");
    TCase *alone = tcase_create("alone");
    tcase_set_timeout(alone, 200);
    tcase_add_unchecked_fixture(alone, set_up, tear_down);
    tcase_add_checked_fixture(alone, set_up_test, tear_down_test);
    tcase_add_loop_test(alone, test_asked, 0, 2);
    tcase_add_test(alone, test_replaced);
    tcase_add_test(alone, test_parts);
    tcase_add_test(alone, test_two);
    tcase_add_test(alone, test_differ);
    tcase_add_loop_test(alone, test_aborted, 0, 3);
    tcase_add_test(alone, test_aborted_and_left);
    tcase_add_test(alone, test_last_read);
    tcase_add_test(alone, test_dribble);
    tcase_add_test(alone, test_claim);
    tcase_add_test(alone, test_last_words);
    tcase_add_test(alone, test_deserted);
    tcase_add_test(alone, test_nobody);
    tcase_add_loop_test(alone, test_impostor, 0, 3);
    tcase_add_test(alone, test_itself);
    suite_add_tcase(suite, alone);
    return run_suite(suite, CK_FORK_GETENV);
}
