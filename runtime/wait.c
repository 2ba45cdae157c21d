/* SPDX-License-Identifier: Apache-2.0 */
/* The slow side of waiting: deadlines, peers that died or call something else, and the record
 * of the first error, from which all ranks tell the same story. */
#include "clock.h"
#include "comm.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_NS 2000000u   /* between looks at the peers */
#define DOZE_NS 200000000u /* after this long, sleep rather than yield */
#define DOZE_US 100u
#define YIELDS_PER_LOOK 32u
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

static peal_status tell_about(const struct peal_comm *comm, const struct rt_error *error,
                              peal_diag *diag)
{
    peal_status status = (peal_status)error->status;
    int own = error->rank == comm->rank;
    switch (status) {
    case PEAL_ERR_ABORTED:
        return peal_fail(diag, status, "rank %u aborted", error->rank);
    case PEAL_ERR_MISMATCH:
        return peal_fail(diag, status,
                         "rank %u, lane %u, step %u, call %u: rank %u makes another call "
                         "(collective, root, count, type, operation, in place or not, plan)",
                         error->rank, error->lane, error->step, error->call, error->culprit);
    case PEAL_ERR_PEER:
        return peal_fail(diag, status, "rank %u died; rank %u, lane %u, step %u, call %u needs it",
                         error->culprit, error->rank, error->lane, error->step, error->call);
    default:
        if (error->culprit == RT_NOBODY)
            return peal_fail(diag, own ? PEAL_ERR_TIMEOUT : PEAL_ERR_PEER,
                             "rank %u, lane %u, step %u, call %u: waited %u ms for its own "
                             "transfers",
                             error->rank, error->lane, error->step, error->call, comm->timeout_ms);
        /* To all but the one whose patience ended, a peer has given up. */
        return peal_fail(diag, own ? PEAL_ERR_TIMEOUT : PEAL_ERR_PEER,
                         "rank %u, lane %u, step %u, call %u: waited %u ms for rank %u",
                         error->rank, error->lane, error->step, error->call, comm->timeout_ms,
                         error->culprit);
    }
}

peal_status rt_failure(struct peal_comm *comm, peal_diag *diag)
{
    struct rt_error error;
    int first = !comm->failed;
    comm->failed = 1;
    if (!read_error(comm->base, &error))
        return peal_fail(diag, PEAL_ERR_PEER, "a rank died while it recorded an error");
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

/* A child that nobody has waited for still has its pid, but runs no more. */
static int is_zombie(uint32_t pid)
{
    char text[512];
    (void)snprintf(text, sizeof text, "/proc/%u/stat", (unsigned)pid);
    int fd = open(text, O_RDONLY);
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, text, sizeof text - 1);
    (void)close(fd);
    text[got > 0 ? got : 0] = '\0';
    const char *end = strrchr(text, ')');
    return end && (strncmp(end, ") Z", 3) == 0 || strncmp(end, ") X", 3) == 0);
}

/* One that has returned from this call, and then ended, is missed by nobody in it. */
static int is_dead(const struct peal_comm *comm, struct rt_board *board)
{
    if (atomic_load_explicit(&board->joined, memory_order_acquire) != 2)
        return 0;
    uint32_t pid = atomic_load_explicit(&board->pid, memory_order_relaxed);
    uint64_t space = atomic_load_explicit(&board->pid_space, memory_order_relaxed);
    if (comm->pid_space == 0 || space != comm->pid_space || pid == (uint32_t)getpid())
        return 0;
    if (!(kill((pid_t)pid, 0) != 0 && errno == ESRCH) && !is_zombie(pid))
        return 0;
    uint32_t done = atomic_load_explicit(&board->done, memory_order_acquire);
    return (int32_t)(done - comm->stamp) < 0;
}

/* Looks for the cause of a long wait. *late: a rank that has not entered this call. */
static peal_status look_at_peers(const struct peal_comm *comm, uint32_t *culprit, uint32_t *late)
{
    *late = RT_NOBODY;
    for (uint32_t r = 0; r < comm->nranks; r++) {
        if (r == comm->rank)
            continue;
        struct rt_board *board = rt_board(comm->base, &comm->layout, r);
        uint64_t call = atomic_load_explicit(&board->call, memory_order_acquire);
        *culprit = r;
        if ((uint32_t)call == comm->stamp && (uint32_t)(call >> 32) != comm->digest)
            return PEAL_ERR_MISMATCH;
        if (*late == RT_NOBODY && (int32_t)((uint32_t)call - comm->stamp) < 0)
            *late = r;
        if (is_dead(comm, board))
            return PEAL_ERR_PEER;
    }
    return PEAL_OK;
}

/* ---- waiting */

static peal_status give_up(struct peal_comm *comm, const struct rt_blocked *blocked,
                           peal_status status, uint32_t culprit, peal_diag *diag)
{
    struct rt_error error = {.status = status,
                             .rank = comm->rank,
                             .culprit = culprit,
                             .lane = blocked->lane,
                             .step = blocked->step,
                             .call = comm->stamp};
    rt_fail(comm->base, &error);
    return rt_failure(comm, diag);
}

static peal_status look(struct peal_comm *comm, const struct rt_blocked *blocked, uint64_t now,
                        peal_diag *diag)
{
    uint32_t culprit;
    uint32_t late;
    atomic_store_explicit(&comm->board->lane, blocked->lane, memory_order_relaxed);
    atomic_store_explicit(&comm->board->step, blocked->step, memory_order_relaxed);
    atomic_store_explicit(&comm->board->awaited, blocked->culprit, memory_order_relaxed);
    atomic_store_explicit(&comm->board->waiting, comm->stamp, memory_order_release);
    peal_status found = look_at_peers(comm, &culprit, &late);
    if (found != PEAL_OK)
        return give_up(comm, blocked, found, culprit, diag);
    if (now - comm->wait_start < (uint64_t)comm->timeout_ms * 1000000u)
        return PEAL_OK;
    culprit = late != RT_NOBODY ? late : blocked->culprit;
    return give_up(comm, blocked, PEAL_ERR_TIMEOUT, culprit, diag);
}

peal_status rt_glance(struct peal_comm *comm, const struct rt_blocked *blocked, peal_diag *diag)
{
    if (rt_world_failed(comm))
        return rt_failure(comm, diag);
    uint64_t now = rt_now_ns();
    if (comm->polls == 1) {
        comm->wait_start = now;
        comm->next_look = now + LOOK_NS;
    }
    if (comm->polls >= UINT32_MAX / 2)
        comm->polls = comm->spin + 2 * YIELDS_PER_LOOK;
    if (now < comm->next_look)
        return PEAL_OK;
    comm->next_look = now + LOOK_NS;
    return look(comm, blocked, now, diag);
}

/* comm->polls counts on from comm->spin since anything last moved. The clock is read only after
 * some yields in vain, so a wait may last that much longer than its deadline. */
peal_status rt_wait_more(struct peal_comm *comm, const struct rt_blocked *blocked, peal_diag *diag)
{
    uint32_t yields = comm->polls - comm->spin;
    (void)sched_yield();
    if (yields == 0 || yields % YIELDS_PER_LOOK != 0)
        return PEAL_OK;
    if (rt_world_failed(comm))
        return rt_failure(comm, diag);
    uint64_t now = rt_now_ns();
    if (yields == YIELDS_PER_LOOK) {
        comm->wait_start = now;
        comm->next_look = now + LOOK_NS;
    }
    if (yields >= UINT32_MAX / 2)
        comm->polls = comm->spin + 2 * YIELDS_PER_LOOK;
    if (now - comm->wait_start > DOZE_NS)
        rt_sleep_us(DOZE_US);
    if (now < comm->next_look)
        return PEAL_OK;
    comm->next_look = now + LOOK_NS;
    return look(comm, blocked, now, diag);
}
