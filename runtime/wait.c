/* SPDX-License-Identifier: Apache-2.0 */
/* The slow side of waiting: deadlines, peers that died or call something else, and the record
 * of the first error, from which all ranks tell the same story. */
#include "clock.h"
#include "far.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_NS 2000000u /* between looks at the peers */
/* After this long, sleep rather than yield: some rounds of all ranks on their processors, or, of
 * ranks that have one each, what is long for anybody who waits. */
#define DOZE_CROWDED_NS 2000000u
#define DOZE_NS 20000000u
#define YIELDS_PER_LOOK 32u
#define ASK_NS 100000000u /* between questions to other hosts */
#define ERROR_WORDS (sizeof(struct rt_error) / 4)

/* ---- the record */

void rt_fail(char *base, const struct rt_error *error)
{
    struct rt_head *head = rt_head(base);
    uint32_t alive = RT_ALIVE;
    if (!atomic_compare_exchange_strong_explicit(&head->state, &alive, RT_FAILING,
                                                 memory_order_acq_rel, memory_order_acquire))
        return;
    uint32_t words[ERROR_WORDS];
    memcpy(words, error, sizeof words);
    for (size_t i = 0; i < ERROR_WORDS; i++)
        atomic_store_explicit(&head->error[i], words[i], memory_order_relaxed);
    atomic_store_explicit(&head->state, RT_FAILED, memory_order_release);
}

/* 0: its writer does not come to an end. */
static int read_error(char *base, struct rt_error *error)
{
    struct rt_head *head = rt_head(base);
    for (int i = 0; atomic_load_explicit(&head->state, memory_order_acquire) != RT_FAILED; i++) {
        if (i == 1000)
            return 0;
        rt_sleep_us(100);
    }
    uint32_t words[ERROR_WORDS];
    for (size_t i = 0; i < ERROR_WORDS; i++)
        words[i] = atomic_load_explicit(&head->error[i], memory_order_relaxed);
    memcpy(error, words, sizeof words);
    return 1;
}

/* "rank 5", and its host where there are several. */
#define WHO_TEXT 96
static const char *who(const struct peal_comm *comm, uint32_t rank, char *text)
{
    const char *host = peal_world_host(comm->world, rank);
    (void)snprintf(text, WHO_TEXT, host ? "rank %u on %s" : "rank %u", (unsigned)rank, host);
    return text;
}

static const char *fate(uint32_t reason)
{
    switch ((enum rt_reason)reason) {
    case RT_GONE:
        return "is gone (it ended, or the network was cut)";
    case RT_LEFT:
        return "has left";
    case RT_STOPPED:
        return "is stopped";
    case RT_SILENT:
        return "does not answer";
    case RT_DAMAGED:
        return "sent damaged data";
    case RT_BROKEN:
        return "is not reached any more (a queue pair failed)";
    case RT_REFUSED:
        return "refused a write to its memory (remote access error)";
    default:
        return "died";
    }
}

/* What it was about when it saw that. */
#define WHERE_TEXT 64
static const char *where(const struct rt_error *error, char *text)
{
    if (error->lane != RT_NOBODY)
        (void)snprintf(text, WHERE_TEXT, "lane %u, step %u, call %u", (unsigned)error->lane,
                       (unsigned)error->step, (unsigned)error->call);
    else
        (void)snprintf(text, WHERE_TEXT,
                       error->step == RT_CHANGING ? "changing tables before call %u" : "joining",
                       (unsigned)error->call);
    return text;
}

/* To all but the one whose patience ended, a peer has given up. */
static peal_status tell_timeout(const struct peal_comm *comm, const struct rt_error *error,
                                peal_status status, peal_diag *diag)
{
    char seer[WHO_TEXT], culprit[WHO_TEXT], at[WHERE_TEXT];
    (void)who(comm, error->rank, seer);
    (void)where(error, at);
    if (error->culprit == RT_NOBODY)
        return peal_fail(diag, status, "%s, %s: waited %u ms for its own transfers", seer, at,
                         comm->timeout_ms);
    return peal_fail(diag, status, "%s, %s: waited %u ms for %s%s", seer, at, comm->timeout_ms,
                     who(comm, error->culprit, culprit),
                     error->reason == RT_HELD_UP
                         ? ", whose device is in a call of another comm: comms that wait for each "
                           "other are to be launched in one order on all ranks"
                         : "");
}

static peal_status tell_about(const struct peal_comm *comm, const struct rt_error *error,
                              peal_diag *diag)
{
    char seer[WHO_TEXT], culprit[WHO_TEXT], what[2 * RT_CALL_TEXT + 8], at[WHERE_TEXT];
    peal_status status = (peal_status)error->status;
    (void)who(comm, error->rank, seer);
    (void)who(comm, error->culprit, culprit);
    switch (status) {
    case PEAL_ERR_ABORTED:
        return peal_fail(diag, status, "%s aborted", seer);
    case PEAL_ERR_MISMATCH:
        if (!rt_calls_differ(comm, error, what, sizeof what))
            peal_copy_text(what, sizeof what,
                           "collective, root, count, type, operation, in place or not, plan");
        return peal_fail(diag, status, "%s, %s: %s makes another call (%s)", seer, where(error, at),
                         culprit, what);
    case PEAL_ERR_PEER:
        return peal_fail(diag, status, "%s %s; %s, %s needs it", culprit, fate(error->reason), seer,
                         where(error, at));
    default:
        return tell_timeout(comm, error,
                            error->rank == comm->rank ? PEAL_ERR_TIMEOUT : PEAL_ERR_PEER, diag);
    }
}

void rt_failure_pass(struct peal_comm *comm)
{
    struct rt_error error;
    if (rt_world_failed(comm) && read_error(comm->base, &error))
        rt_far_fail(comm, &error);
}

peal_status rt_failure_now(const struct peal_comm *comm, peal_diag *diag)
{
    struct rt_error error;
    if (!rt_world_failed(comm))
        return PEAL_OK;
    if (!read_error(comm->base, &error))
        return peal_fail(diag, PEAL_ERR_PEER, "a rank died while it recorded an error");
    return tell_about(comm, &error, diag);
}

peal_status rt_failure(struct peal_comm *comm, peal_diag *diag)
{
    struct rt_error error;
    int first = !comm->failed;
    comm->failed = 1;
    if (!read_error(comm->base, &error))
        return peal_fail(diag, PEAL_ERR_PEER, "a rank died while it recorded an error");
    if (first && (peal_status)error.status == PEAL_ERR_MISMATCH)
        rt_calls_learn(comm, &error);
    if (first)
        return tell_about(comm, &error, diag);
    return peal_fail(diag, PEAL_ERR_ABORTED, "the comm ended with an earlier error of rank %u",
                     error.rank);
}

/* ---- peers */

/* Pids mean nothing across pid namespaces; 0: unknown. */
uint64_t rt_pid_space(void)
{
    struct stat about;
    return stat("/proc/self/ns/pid", &about) == 0 ? (uint64_t)about.st_ino : 0;
}

/* As the kernel shows it: 'Z' and 'X' run no more, although a child that nobody has waited for
 * still has its pid; 'T' and 't' are stopped. 0: unknown. */
static char process_state(uint32_t pid)
{
    char text[512];
    (void)snprintf(text, sizeof text, "/proc/%u/stat", (unsigned)pid);
    int fd = open(text, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, text, sizeof text - 1);
    (void)close(fd);
    text[got > 0 ? got : 0] = '\0';
    const char *end = strrchr(text, ')');
    return end && end[1] == ' ' ? end[2] : 0;
}

/* The process of a near rank, if it can be looked at; 0: not, or it is this one. */
static uint32_t pid_of(const struct peal_comm *comm, struct rt_board *board)
{
    uint32_t pid = atomic_load_explicit(&board->pid, memory_order_acquire);
    uint64_t space = atomic_load_explicit(&board->pid_space, memory_order_relaxed);
    return comm->pid_space == 0 || space != comm->pid_space || pid == (uint32_t)getpid() ? 0 : pid;
}

static int has_ended(uint32_t pid)
{
    char state = process_state(pid);
    return (kill((pid_t)pid, 0) != 0 && errno == ESRCH) || state == 'Z' || state == 'X';
}

static enum rt_reason far_fate(enum far_state state)
{
    static const enum rt_reason fates[] = {[FAR_HERE] = RT_FINE,
                                           [FAR_LEFT] = RT_LEFT,
                                           [FAR_GONE] = RT_GONE,
                                           [FAR_BROKEN] = RT_BROKEN,
                                           [FAR_REFUSED] = RT_REFUSED};
    return fates[state];
}

/* What is known of a rank that others wait for; RT_FINE: nothing against it. *quiet: that it is
 * stopped or silent, which may change. */
static enum rt_reason fate_of(const struct peal_comm *comm, uint32_t rank, enum rt_reason *quiet)
{
    struct rt_board *board = rt_board(comm->base, &comm->layout, rank);
    *quiet = RT_FINE;
    if (rt_is_far(comm, rank)) {
        uint64_t heard;
        enum far_state state = rt_far_state(comm, rank, &heard);
        if (rt_now_ns() > heard + (uint64_t)comm->timeout_ms * 500000u)
            *quiet = RT_SILENT;
        return far_fate(state);
    }
    if (atomic_load_explicit(&board->left, memory_order_acquire))
        return RT_LEFT;
    uint32_t pid = pid_of(comm, board);
    if (pid == 0)
        return RT_FINE;
    if (has_ended(pid))
        return RT_DIED;
    if ((process_state(pid) | 0x20) == 't')
        *quiet = RT_STOPPED;
    return RT_FINE;
}

enum rt_reason rt_fate(const struct peal_comm *comm, uint32_t rank)
{
    enum rt_reason quiet;
    return fate_of(comm, rank, &quiet);
}

/* One that has returned from this call, and then ended, is missed by nobody in it; but by who waits
 * for what it sent, if it went without a good-bye: that may have been lost with the link. */
static enum rt_reason missed(const struct peal_comm *comm, const struct rt_blocked *blocked,
                             uint32_t rank, enum rt_reason *quiet)
{
    enum rt_reason reason = fate_of(comm, rank, quiet);
    struct rt_board *board = rt_board(comm->base, &comm->layout, rank);
    uint32_t done = atomic_load_explicit(&board->done, memory_order_acquire);
    int waits = blocked->culprit == rank || blocked->culprit == RT_NOBODY;
    int cut_off = waits && rt_is_far(comm, rank) && reason != RT_LEFT;
    return (int32_t)(done - comm->stamp) < 0 || cut_off ? reason : RT_FINE;
}

/* What is behind a long wait. */
struct cause {
    peal_status status; /* PEAL_OK: nothing that patience could not mend */
    uint32_t culprit;
    enum rt_reason reason;
    uint32_t late;  /* a rank that has not entered this call, */
    int held_up;    /* and is in one of another comm */
    uint32_t quiet; /* one that is stopped or does not answer */
    enum rt_reason why_quiet;
};

/* What a board has is this call's number, and another call. */
static int is_other(const struct peal_comm *comm, uint64_t entered)
{
    return (uint32_t)entered == comm->stamp && (uint32_t)(entered >> 32) != comm->digest;
}

int rt_calls_other(const struct peal_comm *comm, uint32_t rank)
{
    const struct rt_board *board = rt_board(comm->base, &comm->layout, rank);
    uint64_t call = atomic_load_explicit(&board->call, memory_order_acquire);
    uint64_t left = atomic_load_explicit(&board->ahead[comm->stamp % (2 * RT_AHEAD_MOST)],
                                         memory_order_acquire);
    return is_other(comm, call) || is_other(comm, left);
}

static void look_at_peers(const struct peal_comm *comm, const struct rt_blocked *blocked,
                          struct cause *cause)
{
    *cause = (struct cause){.culprit = RT_NOBODY, .late = RT_NOBODY, .quiet = RT_NOBODY};
    for (uint32_t r = 0; r < comm->nranks && cause->status == PEAL_OK; r++) {
        enum rt_reason quiet;
        if (r == comm->rank)
            continue;
        struct rt_board *board = rt_board(comm->base, &comm->layout, r);
        uint64_t call = atomic_load_explicit(&board->call, memory_order_acquire);
        cause->culprit = r;
        if (rt_calls_other(comm, r))
            cause->status = PEAL_ERR_MISMATCH;
        if (cause->late == RT_NOBODY && (int32_t)((uint32_t)call - comm->stamp) < 0) {
            cause->late = r;
            cause->held_up = atomic_load_explicit(&board->held_up, memory_order_relaxed) != 0;
        }
        cause->reason = missed(comm, blocked, r, &quiet);
        if (cause->reason != RT_FINE && cause->status == PEAL_OK)
            cause->status = PEAL_ERR_PEER;
        if (quiet != RT_FINE && cause->quiet == RT_NOBODY) {
            cause->quiet = r;
            cause->why_quiet = quiet;
        }
    }
}

/* One that has left its comm may take part in the next one, unless it has ended since. */
static int is_lost(const struct peal_comm *comm, uint32_t rank)
{
    enum rt_reason quiet, fate = fate_of(comm, rank, &quiet);
    if (fate != RT_LEFT)
        return fate != RT_FINE || quiet != RT_FINE;
    uint32_t pid =
        rt_is_far(comm, rank) ? 0 : pid_of(comm, rt_board(comm->base, &comm->layout, rank));
    return pid != 0 && has_ended(pid);
}

peal_status peal_comm_lost(peal_comm *comm, unsigned char *lost)
{
    struct rt_error error = {.culprit = RT_NOBODY};
    if (!comm || !lost)
        return PEAL_ERR_ARG;
    if (rt_world_failed(comm))
        (void)read_error(comm->base, &error);
    for (uint32_t r = 0; r < comm->nranks; r++) {
        /* What others have found out is known before this rank finds it itself. */
        int told = error.status == PEAL_ERR_PEER && error.culprit == r;
        lost[r] = r != comm->rank && (told || is_lost(comm, r));
        if (lost[r])
            rt_far_miss(comm, r);
    }
    return PEAL_OK;
}

peal_status peal_comm_error(const peal_comm *comm, peal_diag *diag)
{
    return comm ? rt_failure_now(comm, diag) : peal_fail(diag, PEAL_ERR_ARG, "no comm");
}

/* ---- waiting */

static peal_status give_up(struct peal_comm *comm, const struct rt_blocked *blocked,
                           const struct cause *cause, peal_diag *diag)
{
    struct rt_error error = {.status = cause->status,
                             .rank = comm->rank,
                             .culprit = cause->culprit,
                             .lane = blocked->lane,
                             .step = blocked->step,
                             .call = comm->stamp,
                             .reason = cause->reason};
    rt_fail(comm->base, &error);
    rt_far_fail(comm, &error);
    return rt_failure(comm, diag);
}

/* A deadline is over: who is to blame? One that is known to do nothing, else one that has not
 * come, else the one that this rank waits for. */
static void blame(const struct rt_blocked *blocked, struct cause *cause)
{
    cause->status = PEAL_ERR_TIMEOUT;
    cause->culprit = cause->late != RT_NOBODY && !blocked->ahead ? cause->late : blocked->culprit;
    if (cause->late != RT_NOBODY && !blocked->ahead && cause->held_up)
        cause->reason = RT_HELD_UP;
    if (cause->quiet == RT_NOBODY)
        return;
    cause->status = PEAL_ERR_PEER;
    cause->culprit = cause->quiet;
    cause->reason = cause->why_quiet;
}

static peal_status look(struct peal_comm *comm, const struct rt_blocked *blocked, uint64_t now,
                        peal_diag *diag)
{
    struct cause cause;
    atomic_store_explicit(&comm->board->lane, blocked->lane, memory_order_relaxed);
    atomic_store_explicit(&comm->board->step, blocked->step, memory_order_relaxed);
    atomic_store_explicit(&comm->board->awaited, blocked->culprit, memory_order_relaxed);
    atomic_store_explicit(&comm->board->waiting, comm->stamp, memory_order_release);
    look_at_peers(comm, blocked, &cause);
    if (cause.status != PEAL_OK)
        return give_up(comm, blocked, &cause, diag);
    if (comm->far && now - comm->last_ask > ASK_NS) {
        comm->last_ask = now;
        rt_far_ask(comm);
    }
    if (now - comm->wait_start < (uint64_t)comm->timeout_ms * 1000000u)
        return PEAL_OK;
    blame(blocked, &cause);
    return give_up(comm, blocked, &cause, diag);
}

/* A process that was stopped (a debugger, a snapshot of its machine), or whose caller did something
 * else, has not waited meanwhile, and what it waits for may be on its way to where it looks: from
 * one look to the next no more than a quarter of a deadline counts. */
static void look_again(struct peal_comm *comm, uint64_t now)
{
    uint64_t most = (uint64_t)comm->timeout_ms * 250000u, late = now - comm->next_look;
    if (late > most)
        comm->wait_start += late - most;
    comm->next_look = now + LOOK_NS;
}

/* The first look at the clock since anything moved, by whoever asks: a call may begin under one who
 * waits and go on under one who only asks now and then. */
static void begin_timing(struct peal_comm *comm, uint64_t now)
{
    if (comm->timed)
        return;
    comm->timed = 1;
    comm->wait_start = now;
    comm->next_look = now + LOOK_NS;
}

peal_status rt_glance(struct peal_comm *comm, const struct rt_blocked *blocked, peal_diag *diag)
{
    if (rt_world_failed(comm))
        return rt_failure(comm, diag);
    uint64_t now = rt_now_ns();
    begin_timing(comm, now);
    if (comm->polls >= UINT32_MAX / 2)
        comm->polls = comm->spin + 2 * YIELDS_PER_LOOK;
    if (now < comm->next_look)
        return PEAL_OK;
    look_again(comm, now);
    return look(comm, blocked, now, diag);
}

/* comm->polls counts on from comm->spin since anything last moved. The clock is read only after
 * some yields in vain, so a wait may last that much longer than its deadline. */
peal_status rt_wait_more(struct peal_comm *comm, const struct rt_blocked *blocked, peal_diag *diag)
{
    uint32_t yields = comm->polls - comm->spin;
    int naps = comm->far && yields > YIELDS_PER_LOOK;
    int heard = rt_far_listen(comm);
    if (!heard && (!naps || comm->crowded))
        (void)sched_yield();
    if (yields == 0 || (yields % YIELDS_PER_LOOK != 0 && !naps))
        return PEAL_OK;
    if (rt_world_failed(comm))
        return rt_failure(comm, diag);
    uint64_t now = rt_now_ns();
    begin_timing(comm, now);
    if (yields >= UINT32_MAX / 2)
        comm->polls = comm->spin + 2 * YIELDS_PER_LOOK;
    if (naps && !heard)
        rt_far_nap(comm->far, now - comm->wait_start);
    else if (!naps && now - comm->wait_start > (comm->crowded ? DOZE_CROWDED_NS : DOZE_NS))
        rt_doze(comm);
    if (now < comm->next_look)
        return PEAL_OK;
    look_again(comm, now);
    return look(comm, blocked, now, diag);
}
