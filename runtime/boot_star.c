/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds through the star around rank 0: every rank says something, and hears what all have said.
 * A message says which round it is of, and how long it is, so that ranks that make other rounds
 * than rank 0 are told so rather than given each other's bytes. A round that fails is the last:
 * whoever did not wait for its end may be anywhere in it. Rank 0 then tells the others why, and
 * each of them rank 0.
 */
#include "clock.h"
#include "job.h"

#define SHAKE_NS 5000000000u /* a peer that is there takes an answer within this time */

enum star_kind { STAR_EXCHANGE = 1, STAR_AGREE = 2, STAR_END = 3 };

/* In front of every message. */
struct star_head {
    uint32_t kind;
    uint32_t number;
    uint64_t bytes; /* behind it */
};

/* A round, as one rank makes it. */
struct star_round {
    struct star_head head;
    const void *mine;
    char *answer;
    size_t answer_bytes;
};

struct sock_wait rt_job_soon(const struct rt_job *job, uint64_t ns)
{
    struct sock_wait wait = job->wait;
    uint64_t until = rt_now_ns() + ns;
    wait.deadline = until < wait.deadline ? until : wait.deadline;
    return wait;
}

void rt_job_refresh(struct rt_job *job)
{
    job->wait.deadline = rt_now_ns() + (uint64_t)job->timeout_ms * 1000000u;
}

peal_status rt_job_lost(const struct rt_job *job, peal_status status, uint32_t rank,
                        peal_diag *diag)
{
    const char *host = job->idents[rank].host;
    if (status == PEAL_ERR_ABORTED)
        return peal_fail(diag, status, "joining was called off");
    if (status == PEAL_ERR_TIMEOUT)
        return peal_fail(diag, status, "rank %u%s%s did not answer within %u ms", rank,
                         host[0] ? " on " : "", host, job->timeout_ms);
    return peal_fail(diag, PEAL_ERR_PEER, "rank %u%s%s is gone (it ended, or the network was cut)",
                     rank, host[0] ? " on " : "", host);
}

void rt_verdict_set(struct rt_verdict *verdict, peal_status status, const peal_diag *diag)
{
    memset(verdict, 0, sizeof *verdict);
    verdict->status = status;
    if (status != PEAL_OK)
        peal_copy_text(verdict->text, sizeof verdict->text,
                       diag && diag->text[0] ? diag->text : peal_status_text(status));
}

peal_status rt_verdict_take(struct rt_verdict *verdict, peal_diag *diag)
{
    verdict->text[sizeof verdict->text - 1] = '\0';
    if (verdict->status == PEAL_OK)
        return PEAL_OK;
    if (verdict->status > 0 || verdict->status < PEAL_ERR_INTERNAL)
        verdict->status = PEAL_ERR_PEER;
    return peal_fail(diag, (peal_status)verdict->status, "%s", verdict->text);
}

/* ---- the last round */

static void say_end(int fd, const struct rt_verdict *why, struct sock_wait wait)
{
    struct star_head head = {.kind = STAR_END, .bytes = sizeof *why};
    if (fd < 0)
        return;
    if (sock_send(fd, &head, sizeof head, wait) == PEAL_OK)
        (void)!sock_send(fd, why, sizeof *why, wait);
    sock_end(fd);
}

/* The sockets stay open: what was said last is not lost with them. */
static peal_status end(struct rt_job *job, peal_status status, const peal_diag *why,
                       peal_diag *diag)
{
    struct rt_verdict verdict;
    uint32_t links = job->rank == 0 ? job->nranks : 1;
    struct sock_wait wait = {rt_now_ns() + SHAKE_NS, job->wait.cancel};
    rt_verdict_set(&verdict, status, why);
    job->rounds.over = 1;
    peal_copy_text(job->rounds.why, sizeof job->rounds.why, verdict.text);
    for (uint32_t i = 0; i < links; i++)
        say_end(job->star[i], &verdict, wait);
    return rt_verdict_take(&verdict, diag);
}

static peal_status end_lost(struct rt_job *job, peal_status status, uint32_t rank, peal_diag *diag)
{
    peal_diag why = PEAL_DIAG_INIT;
    status = rt_job_lost(job, status, rank, &why);
    return end(job, status, &why, diag);
}

/* What came in the place of the message that was expected. */
static peal_status end_told(struct rt_job *job, int fd, const struct star_head *got,
                            const struct star_head *wanted, uint32_t rank, peal_diag *diag)
{
    struct rt_verdict told;
    peal_diag why = PEAL_DIAG_INIT;
    const char *host = job->idents[rank].host;
    if (got->kind == STAR_END && got->bytes == sizeof told &&
        sock_recv(fd, &told, sizeof told, rt_job_soon(job, SHAKE_NS)) == PEAL_OK) {
        peal_status status = rt_verdict_take(&told, &why);
        if (status != PEAL_OK && job->rank == 0)
            (void)peal_fail(&why, status, "rank %u on %s gave up: %s", rank, host, told.text);
        if (status != PEAL_OK)
            return end(job, status, &why, diag);
    }
    (void)peal_fail(&why, PEAL_ERR_MISMATCH,
                    "rank %u on %s makes another exchange than rank %u on %s: number %u, of %llu "
                    "bytes, not number %u, of %llu",
                    rank, host, job->rank, job->idents[job->rank].host, got->number,
                    (unsigned long long)got->bytes, wanted->number,
                    (unsigned long long)wanted->bytes);
    return end(job, PEAL_ERR_MISMATCH, &why, diag);
}

/* A message of the round from a rank. Not OK: the rounds are over. */
static peal_status hear(struct rt_job *job, uint32_t rank, const struct star_head *wanted, void *to,
                        struct sock_wait wait, peal_diag *diag)
{
    struct star_head got;
    int fd = job->star[rank];
    peal_status status = sock_recv(fd, &got, sizeof got, wait);
    if (status == PEAL_OK && memcmp(&got, wanted, sizeof got) != 0)
        return end_told(job, fd, &got, wanted, rank, diag);
    if (status == PEAL_OK)
        status = sock_recv(fd, to, (size_t)wanted->bytes, wait);
    return status == PEAL_OK ? PEAL_OK : end_lost(job, status, rank, diag);
}

/* Whoever takes nothing any more may have said why. */
static peal_status end_refused(struct rt_job *job, uint32_t rank, const struct star_head *head,
                               peal_diag *diag)
{
    struct star_head got;
    int fd = job->star[rank];
    if (sock_recv(fd, &got, sizeof got, rt_job_soon(job, 0)) == PEAL_OK && got.kind == STAR_END)
        return end_told(job, fd, &got, head, rank, diag);
    return end_lost(job, PEAL_ERR_PEER, rank, diag);
}

static peal_status say(struct rt_job *job, uint32_t rank, const struct star_head *head,
                       const void *what, struct sock_wait wait, peal_diag *diag)
{
    peal_status status = sock_send(job->star[rank], head, sizeof *head, wait);
    if (status == PEAL_OK)
        status = sock_send(job->star[rank], what, (size_t)head->bytes, wait);
    if (status == PEAL_ERR_PEER)
        return end_refused(job, rank, head, diag);
    return status == PEAL_OK ? PEAL_OK : end_lost(job, status, rank, diag);
}

/* ---- a round */

static peal_status begin(struct rt_job *job, peal_diag *diag)
{
    if (job->rounds.over)
        return peal_fail(diag, PEAL_ERR_ABORTED, "the ranks exchange nothing any more, since: %s",
                         job->rounds.why);
    rt_job_refresh(job);
    job->rounds.begun++;
    return PEAL_OK;
}

/* Rank 0's patience ends first, so that the others hear for whom it waited. */
static peal_status ask_root(struct rt_job *job, const struct star_round *round, peal_diag *diag)
{
    struct star_head wanted = round->head;
    struct sock_wait wait = job->wait;
    PEAL_TRY(say(job, 0, &round->head, round->mine, wait, diag));
    wanted.bytes = round->answer_bytes;
    wait.deadline += (uint64_t)job->timeout_ms * 250000u;
    return hear(job, 0, &wanted, round->answer, wait, diag);
}

static peal_status answer_all(struct rt_job *job, const struct star_round *round, peal_diag *diag)
{
    struct star_head head = round->head;
    head.bytes = round->answer_bytes;
    for (uint32_t r = 1; r < job->nranks; r++)
        PEAL_TRY(say(job, r, &head, round->answer, job->wait, diag));
    return PEAL_OK;
}

static peal_status exchange(struct rt_job *job, const void *mine, size_t bytes, char *all,
                            peal_diag *diag)
{
    struct star_round round = {.head = {STAR_EXCHANGE, job->rounds.begun, bytes},
                               .mine = mine,
                               .answer = all,
                               .answer_bytes = bytes * job->nranks};
    if (job->rank != 0)
        return ask_root(job, &round, diag);
    memcpy(all, mine, bytes);
    for (uint32_t r = 1; r < job->nranks; r++)
        PEAL_TRY(hear(job, r, &round.head, all + bytes * r, job->wait, diag));
    return answer_all(job, &round, diag);
}

peal_status rt_job_exchange(struct rt_job *job, const void *mine, size_t bytes, void *all,
                            peal_diag *diag)
{
    if (bytes > JOB_EXCHANGE_MAX)
        return peal_fail(diag, PEAL_ERR_ARG, "at most %u bytes of a rank", JOB_EXCHANGE_MAX);
    if (job->nranks == 1) {
        if (bytes)
            memcpy(all, mine, bytes);
        return PEAL_OK;
    }
    PEAL_TRY(begin(job, diag));
    if (bytes)
        return exchange(job, mine, bytes, all, diag);
    char *each = peal_calloc(job->ctx, job->nranks, 1);
    peal_status status =
        each ? exchange(job, "", 1, each, diag) : peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    peal_free(job->ctx, each, job->nranks);
    return status;
}

/* Rank 0 finds the first failure. */
static peal_status agree_root(struct rt_job *job, struct star_round *round,
                              struct rt_verdict *first, peal_diag *diag)
{
    for (uint32_t r = 1; r < job->nranks; r++) {
        struct rt_verdict one;
        PEAL_TRY(hear(job, r, &round->head, &one, job->wait, diag));
        if (first->status == PEAL_OK)
            *first = one;
    }
    peal_status status = answer_all(job, round, diag);
    return first->status == PEAL_OK ? status : PEAL_OK;
}

peal_status rt_job_agree(struct rt_job *job, peal_status own, peal_diag *diag)
{
    struct rt_verdict verdict, answer;
    peal_diag told = PEAL_DIAG_INIT;
    peal_status status;
    if (job->nranks == 1)
        return own;
    if (own != PEAL_OK)
        (void)peal_fail(&told, own, "rank %u on %s: %s", job->rank, job->idents[job->rank].host,
                        diag && diag->text[0] ? diag->text : peal_status_text(own));
    status = begin(job, diag);
    rt_verdict_set(&verdict, own, &told);
    struct star_round round = {.head = {STAR_AGREE, job->rounds.begun, sizeof verdict},
                               .mine = &verdict,
                               .answer = (char *)(job->rank == 0 ? &verdict : &answer),
                               .answer_bytes = sizeof answer};
    if (status == PEAL_OK && job->rank == 0)
        status = agree_root(job, &round, &verdict, diag);
    else if (status == PEAL_OK)
        status = ask_root(job, &round, diag);
    /* What this rank knows of itself says more than that the others are gone since. */
    if (status != PEAL_OK)
        return own == PEAL_OK ? status : peal_fail(diag, own, "%s", told.text);
    return rt_verdict_take(job->rank == 0 ? &verdict : &answer, diag);
}
