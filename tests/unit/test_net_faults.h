/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Four ranks, processes of two hosts as far as they know, and one thing that goes wrong. Whatever
 * it is: nobody waits beyond the deadline, no wrong result is reported as right, all others hear
 * of it and whom it is about, and nothing is left behind.
 */
#ifndef PEAL_TESTS_NET_FAULTS_H
#define PEAL_TESTS_NET_FAULTS_H

#include "net.h"
#include "support.h"
#include "test_forks.h"
#include "test_two_hosts.h"

#include <arpa/inet.h>
#include <check.h>
#include <dirent.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RANKS 4u
#define COUNT 3000u
#define CALLS 60u
#define SECONDS_MAX 40 /* of one run, on a busy machine */
#define PAUSE_MS 2400  /* more than the patience of that run */

enum fault {
    F_NONE,
    F_KILL,
    F_STOP,
    F_CUT,
    F_TRUNCATED,
    F_CORRUPTED,
    F_FLIPPED,
    F_STRANGERS,
    F_SLOW,
    F_OTHER_PLAN,
    F_OTHER_CALL,
    F_NO_SHM,
    F_NO_MEMORY,
    F_ABORT,
    F_SHRINK,
    F_OPPOSITE,
    F_PAUSE,
    F_KINDS
};
static const char *const fault_names[F_KINDS] = {
    "none",      "kill",      "stop",   "cut",        "truncated",  "corrupted",
    "flipped",   "strangers", "slow",   "other plan", "other call", "no shm",
    "no memory", "abort",     "shrink", "opposite",   "pause"};

struct outcome {
    _Atomic uint32_t calls; /* done */
    _Atomic uint32_t ended; /* the rank has left its part in good order */
    peal_status status;     /* of what ended it */
    char text[512];
    uint32_t wrong; /* elements in results reported as right, and what is left of memory */
    uint32_t again; /* shrink: calls by the survivors */
    double seconds; /* that the failing call took */
};

/* Planned and proven once for all runs. */
struct fault_tables {
    struct test_heap heap;
    peal_ctx *ctx;
    peal_table *all;
    peal_table *other;
    peal_table *without[RANKS]; /* one rank */
};

struct play {
    enum fault fault;
    uint64_t random;
    uint32_t victim;
    uint32_t at; /* call */
    uint32_t timeout_ms;
    uint16_t port;
    int unsealed;
    peal_ctx *ctx;
    struct outcome *outcome;
};

static uint64_t next_random(struct play *play)
{
    play->random ^= play->random << 13;
    play->random ^= play->random >> 7;
    play->random ^= play->random << 17;
    return play->random * 0x2545f4914f6cdd1du >> 20;
}

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void nap(unsigned ms)
{
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    (void)nanosleep(&t, NULL);
}

/* ---- tables */

static peal_table *table_of_group(peal_ctx *ctx, const uint32_t *group, uint32_t count,
                                  uint64_t bytes)
{
    return plan_two_hosts(ctx, PEAL_ALLREDUCE, NULL, group, count, bytes);
}

static struct fault_tables tables;

static void make_tables(void)
{
    static const uint32_t all[RANKS] = {0, 1, 8, 9};
    tables.ctx = test_ctx(&tables.heap);
    tables.all = table_of_group(tables.ctx, all, RANKS, 65536);
    tables.other = table_of_group(tables.ctx, all, RANKS, 32768);
    for (uint32_t victim = 0; victim < RANKS; victim++) {
        uint32_t left[RANKS], count = 0;
        for (uint32_t r = 0; r < RANKS; r++)
            if (r != victim)
                left[count++] = all[r];
        tables.without[victim] = table_of_group(tables.ctx, left, count, 65536);
    }
}

static void drop_tables(void)
{
    peal_table_destroy(tables.all);
    peal_table_destroy(tables.other);
    for (uint32_t r = 0; r < RANKS; r++)
        peal_table_destroy(tables.without[r]);
    peal_ctx_destroy(tables.ctx);
    ck_assert_int_eq(tables.heap.blocks, 0);
}

/* ---- one rank's part */

static void note(struct outcome *o, peal_status status, const peal_diag *diag)
{
    o->status = status;
    (void)snprintf(o->text, sizeof o->text, "%s", diag->text);
}

static uint32_t count_wrong(const float *out, uint32_t ranks, uint32_t call)
{
    float sum = (float)(ranks * (ranks + 1) / 2 + ranks * (call % 7));
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < COUNT; i++)
        wrong += out[i] != sum;
    return wrong;
}

static peal_status one_call(struct outcome *o, peal_comm *comm, uint32_t rank, uint32_t ranks,
                            uint32_t call, size_t count)
{
    static float in[COUNT], out[COUNT];
    peal_diag diag = PEAL_DIAG_INIT;
    for (uint32_t i = 0; i < COUNT; i++) {
        in[i] = (float)(rank + 1 + call % 7);
        out[i] = -1;
    }
    double start = now();
    peal_status status = peal_allreduce(comm, in, out, count, PEAL_FLOAT32, PEAL_SUM, &diag);
    o->seconds = now() - start;
    if (status == PEAL_OK)
        o->wrong += count == COUNT ? count_wrong(out, ranks, call) : 0;
    else
        note(o, status, &diag);
    return status;
}

static struct net *net_of_world(peal_world *world)
{
    return net_of(world->job->far->transport);
}

/* A connection of this rank's with a far rank, which one by chance. */
static int some_link(struct play *play, peal_world *world)
{
    struct net *net = net_of_world(world);
    struct net_peer *peer;
    do
        peer = &net->peers[next_random(play) % RANKS];
    while (!peer->streams);
    return peer->stream[next_random(play) % peer->streams].fd;
}

static void send_garbage(struct play *play, peal_world *world)
{
    int fd = some_link(play, world);
    struct frame frames[4];
    size_t bytes = play->fault == F_TRUNCATED ? 1 + next_random(play) % 47 : sizeof frames;
    unsigned char *at = (unsigned char *)frames;
    for (size_t i = 0; i < sizeof frames; i++)
        at[i] = (unsigned char)next_random(play);
    if (play->fault == F_FLIPPED) { /* a frame that is right but for one bit */
        frames[0] = (struct frame){.kind = FRAME_ASK};
        frame_seal(&frames[0], NULL);
        uint64_t bit = next_random(play) % (8 * sizeof frames[0]);
        at[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    (void)!send(fd, frames, bytes, MSG_NOSIGNAL);
    if (play->fault == F_TRUNCATED)
        (void)shutdown(fd, SHUT_WR);
}

static void *abort_main(void *user)
{
    peal_comm_abort(user);
    return NULL;
}

/* What the victim does to itself at its call; the parent kills and stops. */
static size_t misbehave(struct play *play, peal_world *world, peal_comm *comm, uint32_t call)
{
    pthread_t thread;
    switch (play->fault) {
    case F_CUT:
        (void)shutdown(some_link(play, world), SHUT_RDWR);
        return COUNT;
    case F_TRUNCATED:
    case F_CORRUPTED:
    case F_FLIPPED:
        send_garbage(play, world);
        return COUNT;
    case F_SLOW:
        nap(20 + (unsigned)(next_random(play) % 60));
        return COUNT;
    case F_ABORT:
        if (pthread_create(&thread, NULL, abort_main, comm) == 0)
            (void)pthread_join(thread, NULL);
        return COUNT;
    case F_OTHER_CALL:
        return COUNT - 1 - call % 8;
    default:
        return COUNT;
    }
}

/* The parent kills or stops the victim, and until then calls go on. */
static int is_struck(const struct play *play)
{
    return play->fault == F_KILL || play->fault == F_STOP || play->fault == F_SHRINK;
}

static void play_calls(struct play *play, peal_world *world, peal_comm *comm, uint32_t rank)
{
    struct outcome *o = &play->outcome[rank];
    uint32_t calls = is_struck(play) ? UINT32_MAX : CALLS;
    for (uint32_t call = 0; call < calls; call++) {
        size_t count = COUNT;
        int mine = rank == play->victim && call >= play->at;
        if (mine && (call == play->at || play->fault == F_SLOW))
            count = misbehave(play, world, comm, call);
        if (play->fault == F_PAUSE && call == play->at && rank != play->victim)
            nap(PAUSE_MS / 4 * 3); /* the victim waits, and is stopped meanwhile */
        if (one_call(o, comm, rank, RANKS, call, count) != PEAL_OK)
            return;
        atomic_fetch_add(&o->calls, 1);
    }
}

static peal_status play_join(struct play *play, uint32_t rank, uint16_t port, const char *host,
                             peal_world **world, peal_diag *diag)
{
    peal_join_params params = PEAL_JOIN_PARAMS_INIT;
    params.rank = rank;
    params.ranks = RANKS;
    params.address = "127.0.0.1";
    params.port = port;
    params.key = "faults";
    params.key_bytes = 6;
    params.host = host;
    params.timeout_ms = play->timeout_ms;
    params.heap_bytes = 1 << 20;
    int other = play->fault == F_OTHER_PLAN && rank == play->victim;
    return peal_world_join(play->ctx, &params, other ? tables.other : tables.all, diag, world);
}

/* The survivors go on by themselves. */
static peal_status carry_on(struct play *play, peal_world *world, peal_comm *comm, uint32_t rank)
{
    struct outcome *o = &play->outcome[rank];
    unsigned char lost[RANKS];
    uint32_t left[RANKS], count = 0, place = 0;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table = tables.without[play->victim];
    peal_world *next;
    peal_comm *comm_next;
    if (peal_comm_lost(comm, lost) != PEAL_OK)
        return PEAL_ERR_INTERNAL;
    for (uint32_t r = 0; r < RANKS; r++) {
        place = r == rank ? count : place;
        if (!lost[r])
            left[count++] = r;
    }
    peal_status status = count == RANKS - 1 ? PEAL_OK : PEAL_ERR_INTERNAL;
    if (status == PEAL_OK)
        status = peal_world_split(world, left, count, table, &diag, &next);
    if (status == PEAL_OK) {
        status = peal_comm_create(next, table, place, &diag, &comm_next);
        for (uint32_t call = 0; call < 10 && status == PEAL_OK; call++) {
            status = one_call(o, comm_next, place, count, call, COUNT);
            o->again += status == PEAL_OK;
        }
        peal_comm_destroy(status == PEAL_OK || o->again ? comm_next : NULL);
        peal_world_destroy(next);
    }
    if (status != PEAL_OK)
        note(o, status, &diag);
    return status;
}

/* Two comms, which ranks of different hosts use in different orders. */
static void play_opposite(struct play *play, uint32_t rank, const char *host)
{
    struct outcome *o = &play->outcome[rank];
    peal_world *worlds[2] = {NULL, NULL};
    peal_comm *comms[2] = {NULL, NULL};
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status = PEAL_OK;
    for (unsigned i = 0; i < 2 && status == PEAL_OK; i++) {
        status = play_join(play, rank, (uint16_t)(play->port + i), host, &worlds[i], &diag);
        if (status == PEAL_OK)
            status = peal_comm_create(worlds[i], tables.all, rank, &diag, &comms[i]);
    }
    if (status != PEAL_OK)
        note(o, status, &diag);
    for (unsigned i = 0; i < 2 && status == PEAL_OK; i++)
        status = one_call(o, comms[(i + rank / 2) % 2], rank, RANKS, i, COUNT);
    for (unsigned i = 0; i < 2; i++) {
        peal_comm_destroy(comms[i]);
        peal_world_destroy(worlds[i]);
    }
}

static void play_one(struct play *play, uint32_t rank, const char *host)
{
    struct outcome *o = &play->outcome[rank];
    peal_diag diag = PEAL_DIAG_INIT;
    peal_world *world = NULL;
    peal_comm *comm = NULL;
    peal_status status = play_join(play, rank, play->port, host, &world, &diag);
    if (status == PEAL_OK)
        status = peal_comm_create(world, tables.all, rank, &diag, &comm);
    if (status == PEAL_OK) {
        play_calls(play, world, comm, rank);
        if (play->fault == F_ABORT && peal_comm_error(comm, &diag) != PEAL_ERR_ABORTED)
            o->wrong++;
        if (play->fault == F_SHRINK && rank != play->victim)
            (void)carry_on(play, world, comm, rank);
    } else {
        note(o, status, &diag);
    }
    peal_comm_destroy(comm);
    peal_world_destroy(world);
}

static void play_rank(struct play *play, uint32_t rank)
{
    struct outcome *o = &play->outcome[rank];
    const char *host = rank < RANKS / 2 ? "here" : "there";
    struct test_heap heap;
    play->random += rank;
    play->ctx = test_ctx(&heap);
    if (play->fault == F_NO_MEMORY && rank == play->victim)
        heap.fail_at = heap.calls + 1 + play->at * 3;
    if (play->fault == F_OPPOSITE)
        play_opposite(play, rank, host);
    else
        play_one(play, rank, host);
    peal_ctx_destroy(play->ctx);
    o->wrong += heap.blocks != 0;
    atomic_store(&o->ended, 1);
}

/* ---- strangers */

static void knock(struct play *play)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(play->port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fds[50];
    for (unsigned i = 0; i < COUNT; i++) {
        int *fd = &fds[i % 50];
        char garbage[200];
        if (i >= 50 && *fd >= 0)
            (void)close(*fd);
        *fd = socket(AF_INET, SOCK_STREAM, 0);
        if (*fd < 0 || connect(*fd, (struct sockaddr *)&to, sizeof to) != 0)
            continue;
        for (size_t k = 0; k < sizeof garbage; k++)
            garbage[k] = (char)next_random(play);
        if (next_random(play) % 2)
            memcpy(garbage, "PEALNET1", 8);
        (void)!send(*fd, garbage, next_random(play) % sizeof garbage, MSG_NOSIGNAL);
    }
    _exit(0);
}

/* ---- a run */

/* Two in a row that no outgoing connection takes, and no other run that goes on beside this one. */
static uint16_t pick_port(void)
{
    for (uint32_t i = (uint32_t)getpid();; i++) {
        struct sock_addr first = {.family = 4, .ip = {127, 0, 0, 1}}, second = first;
        int fds[2] = {-1, -1};
        first.port = (uint16_t)(16384 + 2 * (i % 8000));
        second.port = (uint16_t)(first.port + 1);
        int both = sock_listen(&first, &fds[0], NULL) == PEAL_OK &&
                   sock_listen(&second, &fds[1], NULL) == PEAL_OK;
        sock_close(&fds[0]);
        sock_close(&fds[1]);
        if (both)
            return first.port;
    }
}

static int all_over(const struct play *play)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        int gone = r == play->victim && is_struck(play);
        if (!gone && !atomic_load(&play->outcome[r].ended))
            return 0;
    }
    return 1;
}

/* Stopped for longer than anybody is patient, while the others were late: what the victim has
 * waited for is there when it goes on. */
static void pause_victim(pid_t pid)
{
    nap(PAUSE_MS / 8);
    (void)kill(pid, SIGSTOP);
    nap(PAUSE_MS);
    (void)kill(pid, SIGCONT);
}

/* Kills or stops the victim in the midst of its calls. */
static void strike(struct play *play, const pid_t *pids)
{
    struct outcome *o = &play->outcome[play->victim];
    if (!is_struck(play) && play->fault != F_PAUSE)
        return;
    while (atomic_load(&o->calls) < play->at && !atomic_load(&o->ended))
        nap(1);
    if (play->fault == F_PAUSE) {
        pause_victim(pids[play->victim]);
        return;
    }
    struct timespec t = {0, (long)(next_random(play) % 2000000)};
    (void)nanosleep(&t, NULL);
    (void)kill(pids[play->victim], play->fault == F_STOP ? SIGSTOP : SIGKILL);
}

/* Gives whether all came to an end. */
static int run_play(struct play *play)
{
    pid_t pids[RANKS + 1] = {0};
    (void)fflush(NULL);
    for (uint32_t r = 0; r < RANKS; r++)
        if ((pids[r] = fork()) == 0) {
            play_rank(play, r);
            _exit(0);
        }
    if (play->fault == F_STRANGERS && (pids[RANKS] = fork()) == 0)
        knock(play);
    strike(play, pids);
    double until = now() + SECONDS_MAX;
    while (!all_over(play) && now() < until)
        nap(2);
    int over = all_over(play);
    for (uint32_t r = 0; r <= RANKS; r++) {
        int how, done = r < RANKS && atomic_load(&play->outcome[r].ended);
        if (pids[r] <= 0)
            continue;
        if (!done)
            (void)kill(pids[r], SIGKILL);
        (void)waitpid(pids[r], &how, 0);
        /* One that crashes has not ended in good order. */
        over &= !done || (WIFEXITED(how) && WEXITSTATUS(how) == 0);
    }
    return over;
}

/* ---- what has to hold */

static int names(const struct outcome *o, uint32_t rank)
{
    char text[64];
    (void)snprintf(text, sizeof text, "rank %u on %s", rank, rank < RANKS / 2 ? "here" : "there");
    return strstr(o->text, text) != NULL;
}

static int is_right(const struct play *play, uint32_t rank, const struct outcome *o)
{
    int other = rank != play->victim;
    switch (play->fault) {
    case F_NONE:
    case F_SLOW:
    case F_PAUSE:
    case F_STRANGERS:
        return o->status == PEAL_OK && o->calls == CALLS;
    case F_KILL:
    case F_STOP:
        return !other || (o->status == PEAL_ERR_PEER && names(o, play->victim));
    case F_SHRINK:
        return !other || o->again == 10;
    case F_CUT:
    case F_TRUNCATED: /* of a link that the plan has no use for, nobody need hear */
        return o->status == PEAL_ERR_PEER || (o->status == PEAL_OK && o->calls == CALLS);
    case F_CORRUPTED:
    case F_FLIPPED:
        return o->status == PEAL_ERR_PEER;
    case F_OTHER_PLAN:
    case F_OTHER_CALL:
        return o->status == PEAL_ERR_MISMATCH;
    case F_ABORT:
        return o->status == PEAL_ERR_ABORTED;
    case F_NO_SHM:
        return play->unsealed ? o->status == PEAL_ERR_MEMORY || o->status == PEAL_ERR_IO
                              : o->status == PEAL_OK;
    default: /* memory may have been enough, two comms may have passed each other */
        return o->status == PEAL_OK || o->status < 0;
    }
}

static int judge(const struct play *play, int over)
{
    int right = over;
    for (uint32_t r = 0; r < RANKS; r++) {
        const struct outcome *o = &play->outcome[r];
        right &= o->wrong == 0 && is_right(play, r, o) && o->seconds < play->timeout_ms / 1e3 + 10;
    }
    for (uint32_t r = 0; r < RANKS && !right; r++) {
        const struct outcome *o = &play->outcome[r];
        printf("  rank %u: status %d after %u calls, %u wrong, %.2f s: %s\n", r, o->status,
               o->calls, o->wrong, o->seconds, o->text);
    }
    return right;
}

/* A /dev/shm of our own, of so many bytes; 0: not to be had. */
static int own_shm(unsigned long bytes)
{
    char options[64];
    (void)snprintf(options, sizeof options, "size=%lu", bytes);
    return syscall(SYS_unshare, 0x00020000 /* CLONE_NEWNS */) == 0 &&
           mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("peal", "/dev/shm", "tmpfs", 0, options) == 0;
}

static unsigned left_in_shm(void)
{
    DIR *dir = opendir("/dev/shm");
    unsigned count = 0;
    const struct dirent *entry;
    while (dir && (entry = readdir(dir)) != NULL)
        if (strncmp(entry->d_name, "peal-", 5) == 0) {
            printf("  left: /dev/shm/%s\n", entry->d_name);
            count++;
        }
    if (dir)
        (void)closedir(dir);
    return count;
}

/* One run; where it may, with a /dev/shm of its own, in which nothing is to be left. Whether all
 * was as it has to be. */
static int run_one(uint64_t seed, enum fault fault)
{
    struct play play = {.fault = fault, .random = (seed + 1) * 0x9e3779b97f4a7c15u};
    struct outcome *o =
        mmap(NULL, RANKS * sizeof *o, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (o == MAP_FAILED)
        return 0;
    for (unsigned i = 0; i < 8; i++)
        (void)next_random(&play);
    play.victim = (uint32_t)(next_random(&play) % RANKS);
    play.at = 1 + (uint32_t)(next_random(&play) % (CALLS - 5));
    play.timeout_ms =
        fault == F_STOP || fault == F_OPPOSITE || fault == F_NO_MEMORY || fault == F_PAUSE ? 2000
                                                                                           : 15000;
    play.port = pick_port();
    play.outcome = o;
    int right = 1, private_shm = own_shm(fault == F_NO_SHM ? 16384 : 64ul << 20);
    /* Half of these do not see each other's sealed memory: /dev/shm has to have room for it. */
    play.unsealed = private_shm && (fault == F_NO_SHM || fault == F_NONE) &&
                    seed / F_KINDS % 2 == 0 && mount("peal", "/proc", "tmpfs", 0, "size=4k") == 0;
    if (private_shm || fault != F_NO_SHM)
        right = judge(&play, run_play(&play));
    if (private_shm)
        right &= left_in_shm() == 0;
    if (!right)
        printf("%s, victim %u at %u: is not as it has to be\n", fault_names[fault], play.victim,
               play.at);
    (void)fflush(stdout);
    (void)munmap(o, RANKS * sizeof *o);
    return right;
}

#endif
