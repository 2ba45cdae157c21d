/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This machine's own paths, by pairs: one side has the data and raises a flag, the other copies it
 * and raises one back (threads, or processes over shared memory, each side tied to a core); over
 * TCP a message goes there and back, and half of that counts. Medians of batches, after one that is
 * not counted.
 */
#define _GNU_SOURCE
#include "fit_input.h"
#include "yard.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define BATCHES 5u
#define BATCH_NS 400000u /* a batch takes about so long */
#define CALLS_MAX 2000u
#define SPINS 2000u           /* before the core is given away */
#define STUCK_NS 30000000000u /* a peer that does nothing for so long is gone */
#define STOP UINT64_MAX

enum path { BY_THREADS, BY_PROCESSES, BY_TCP, PATHS };

struct shared { /* by both sides */
    _Atomic uint64_t go;
    char apart[56];
    _Atomic uint64_t done;
    char apart_too[56];
    _Atomic uint64_t bytes;
};

struct pair {
    enum path path;
    struct shared *shared;
    char *from;
    char *to;
    uint64_t room;
    uint64_t calls;
    int fd;      /* TCP, our end */
    int peer_fd; /* its end */
    pthread_t thread;
    pid_t child;
    cpu_set_t cores; /* that we had before */
};

/* ---- the other side */

static int wait_for(const _Atomic uint64_t *flag, uint64_t value)
{
    uint64_t begin = 0;
    for (uint32_t spins = 1; atomic_load_explicit(flag, memory_order_acquire) != value; spins++) {
        if (spins % SPINS)
            continue;
        (void)sched_yield();
        if (!begin)
            begin = now_ns();
        if (spins % (SPINS * 64) == 0 && now_ns() - begin > STUCK_NS)
            return 0;
    }
    return 1;
}

static void *copy_all(void *user)
{
    struct pair *p = user;
    struct shared *s = p->shared;
    yard_pin(1);
    for (uint64_t call = 1;; call++) {
        if (!wait_for(&s->go, call))
            return NULL;
        uint64_t bytes = atomic_load_explicit(&s->bytes, memory_order_relaxed);
        if (bytes == STOP)
            return NULL;
        memcpy(p->to, p->from, bytes);
        atomic_store_explicit(&s->done, call, memory_order_release);
    }
}

static int send_all(int fd, const char *data, uint64_t bytes)
{
    while (bytes) {
        ssize_t got = send(fd, data, bytes, MSG_NOSIGNAL);
        if (got <= 0)
            return 0;
        data += got;
        bytes -= (uint64_t)got;
    }
    return 1;
}

static int receive_all(int fd, char *data, uint64_t bytes)
{
    while (bytes) {
        ssize_t got = recv(fd, data, bytes, 0);
        if (got <= 0)
            return 0;
        data += got;
        bytes -= (uint64_t)got;
    }
    return 1;
}

/* The first byte says that there is a message, the shared word how long it is. */
static void echo_all(struct pair *p)
{
    while (receive_all(p->peer_fd, p->to, 1)) {
        uint64_t bytes = atomic_load(&p->shared->bytes);
        if (!receive_all(p->peer_fd, p->to + 1, bytes - 1) || !send_all(p->peer_fd, p->to, bytes))
            return;
    }
}

/* ---- our side */

static int one_call(struct pair *p, uint64_t bytes)
{
    if (p->path == BY_TCP) {
        atomic_store(&p->shared->bytes, bytes);
        return send_all(p->fd, p->from, bytes) && receive_all(p->fd, p->from, bytes);
    }
    p->calls++;
    atomic_store_explicit(&p->shared->bytes, bytes, memory_order_relaxed);
    atomic_store_explicit(&p->shared->go, p->calls, memory_order_release);
    return wait_for(&p->shared->done, p->calls);
}

static int up(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Microseconds of one transfer; 0: the peer is gone. */
static double measure_size(struct pair *p, uint64_t bytes)
{
    double batch[BATCHES];
    uint64_t begin = now_ns();
    if (!one_call(p, bytes) || !one_call(p, bytes))
        return 0;
    uint64_t each = (now_ns() - begin) / 2 + 1;
    uint64_t calls = BATCH_NS / each < 1 ? 1 : BATCH_NS / each;
    if (calls > CALLS_MAX)
        calls = CALLS_MAX;
    for (uint32_t b = 0; b < BATCHES; b++) {
        begin = now_ns();
        for (uint64_t i = 0; i < calls; i++)
            if (!one_call(p, bytes))
                return 0;
        batch[b] = (double)(now_ns() - begin) / (double)calls * 1e-3;
    }
    qsort(batch, BATCHES, sizeof *batch, up);
    return batch[BATCHES / 2] / (p->path == BY_TCP ? 2 : 1);
}

static int measure_sizes(struct pair *p, uint64_t low, peal_measured *measured)
{
    static const char *const names[PATHS] = {"memory, two threads", "memory, two processes",
                                             "loopback TCP"};
    peal_series_info info = {.size = sizeof info, .ranks = 2, .nodes = 1};
    info.has_link = p->path != BY_TCP;
    info.link = PEAL_LINK_SHM;
    (void)snprintf(info.name, sizeof info.name, "%s", names[p->path]);
    for (uint64_t bytes = low; bytes <= p->room; bytes *= 2) {
        peal_point point = {bytes, measure_size(p, bytes)};
        if (!(point.time_us > 0)) {
            say(SAY_ERROR, "%s: the other side is gone", info.name);
            return EXIT_RUNTIME;
        }
        CLI_TRY(say_diag(peal_measured_add(measured, &info, &point, 1, NULL), NULL));
    }
    return EXIT_YES;
}

/* ---- making and ending a pair */

static int connect_both(struct pair *p)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t length = sizeof at;
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int right =
        listener >= 0 && p->fd >= 0 && bind(listener, (struct sockaddr *)&at, sizeof at) == 0 &&
        listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&at, &length) == 0 &&
        connect(p->fd, (struct sockaddr *)&at, sizeof at) == 0;
    if (right)
        p->peer_fd = accept(listener, NULL, NULL);
    if (listener >= 0)
        (void)close(listener);
    return right && p->peer_fd >= 0 &&
           setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0 &&
           setsockopt(p->peer_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0;
}

static void be_child(struct pair *p)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (p->path == BY_TCP) {
        (void)close(p->fd);
        echo_all(p);
    } else {
        (void)copy_all(p);
    }
    _exit(0);
}

static int begin_pair(struct pair *p)
{
    if (p->path == BY_TCP && !connect_both(p))
        return 0;
    if (p->path == BY_THREADS)
        return pthread_create(&p->thread, NULL, copy_all, p) == 0;
    p->child = fork();
    if (p->child == 0)
        be_child(p);
    if (p->path == BY_TCP)
        (void)close(p->peer_fd);
    p->peer_fd = -1;
    return p->child > 0;
}

static void end_pair(struct pair *p)
{
    if (p->fd >= 0)
        (void)close(p->fd);
    if (p->path != BY_TCP) {
        atomic_store(&p->shared->bytes, STOP);
        atomic_store(&p->shared->go, p->calls + 1);
    }
    if (p->path == BY_THREADS)
        (void)pthread_join(p->thread, NULL);
    else
        (void)waitpid(p->child, NULL, 0);
}

static size_t pair_bytes(const struct pair *p)
{
    return sizeof *p->shared + 2 * p->room;
}

/* With room for two buffers. */
static int make_pair(struct pair *p, enum path path, uint64_t room)
{
    *p = (struct pair){.path = path, .room = room, .fd = -1, .peer_fd = -1};
    char *memory =
        mmap(NULL, pair_bytes(p), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        say(SAY_ERROR, "no memory for two buffers of %llu bytes", (unsigned long long)room);
        return EXIT_RUNTIME;
    }
    memset(memory + sizeof *p->shared, 1, 2 * room);
    p->shared = (struct shared *)(void *)memory;
    p->from = memory + sizeof *p->shared;
    p->to = p->from + room;
    (void)sched_getaffinity(0, sizeof p->cores, &p->cores);
    if (begin_pair(p)) {
        if (path != BY_TCP) /* the other side takes the second core of those that it was given */
            yard_pin(0);
        return EXIT_YES;
    }
    say(SAY_ERROR, "cannot start the other side of a pair");
    (void)munmap(memory, pair_bytes(p));
    return EXIT_RUNTIME;
}

static void unmake_pair(struct pair *p)
{
    end_pair(p);
    (void)sched_setaffinity(0, sizeof p->cores, &p->cores);
    (void)munmap(p->shared, pair_bytes(p));
}

static int measure_pair(enum path path, uint64_t low, uint64_t high, peal_measured *measured)
{
    struct pair p;
    CLI_TRY(make_pair(&p, path, high));
    int code = measure_sizes(&p, low, measured);
    unmake_pair(&p);
    return code;
}

int measure_flag(double *us)
{
    struct pair p;
    CLI_TRY(make_pair(&p, BY_THREADS, 1));
    *us = 0;
    for (uint32_t i = 0; i < BATCHES; i++) { /* the least: others may have had a core meanwhile */
        double one = measure_size(&p, 1);
        *us = one > 0 && (!(*us > 0) || one < *us) ? one : *us;
    }
    unmake_pair(&p);
    return EXIT_YES;
}

int measure_paths(struct cli *cli, peal_measured *measured)
{
    uint64_t low = 4, high = 128u << 20;
    CLI_TRY(cli_range(cli, OPT_SIZES, &low, &high));
    if (low == 0 || high > 1u << 30 || high / 2 < low)
        return say_usage(
            "--sizes of fit --measure go from 1 to 1G, and to twice the first or more");
    for (int path = 0; path < PATHS; path++)
        CLI_TRY(measure_pair((enum path)path, low, high, measured));
    return EXIT_YES;
}
