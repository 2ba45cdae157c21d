/* SPDX-License-Identifier: Apache-2.0 */
/* Coming together around rank 0, and what all ranks have to have in common. */
#include "clock.h"
#include "far.h"
#include "job.h"

#include <stdio.h>

#define RETRY_US 20000u
#define REFUSALS_MAX 25u
#define SHAKE_NS 5000000000u /* a peer that is there answers within this time */
#define GRACE_NS 2000000000u /* for the others to come and hear that it has failed */

/* ---- what a rank says of itself */

static peal_status describe_table(struct rt_job *job, const peal_table *table,
                                  struct rt_ident *ident, peal_diag *diag)
{
    peal_status status;
    struct peal_hash128 digest = rt_table_digest(job->ctx, table, &status);
    if (status != PEAL_OK)
        return peal_fail(diag, status, "out of memory");
    ident->table[0] = digest.low;
    ident->table[1] = digest.high;
    ident->origin[0] = table->rows[0].plan->origin.low;
    ident->origin[1] = table->rows[0].plan->origin.high;
    return PEAL_OK;
}

static peal_status describe(struct rt_job *job, const struct job_plan *plan,
                            const peal_table *table, struct rt_ident *ident, peal_diag *diag)
{
    memset(ident, 0, sizeof *ident);
    if (table)
        PEAL_TRY(describe_table(job, table, ident, diag));
    ident->version = JOB_VERSION;
    ident->rank = plan->rank;
    ident->ranks = plan->ranks;
    ident->sockets = plan->sockets;
    ident->heap_bytes = plan->heap_bytes;
    ident->addr = job->addr;
    peal_copy_text(ident->library, sizeof ident->library, peal_version());
    if (plan->host_id) {
        peal_copy_text(ident->host_id, sizeof ident->host_id, plan->host_id);
        peal_copy_text(ident->host, sizeof ident->host, plan->host);
        return PEAL_OK;
    }
    peal_status status = rt_host_name(plan->host, ident->host_id, sizeof ident->host_id,
                                      ident->host, sizeof ident->host);
    return status == PEAL_OK ? PEAL_OK : peal_fail(diag, status, "a host's name is too long");
}

static void end_texts(struct rt_ident *ident)
{
    ident->library[sizeof ident->library - 1] = '\0';
    ident->host_id[sizeof ident->host_id - 1] = '\0';
    ident->host[sizeof ident->host - 1] = '\0';
}

static peal_status heaps_differ(const struct rt_ident *theirs, const struct rt_ident *ours,
                                peal_diag *diag)
{
    if (theirs->heap_bytes == ours->heap_bytes)
        return PEAL_OK;
    return peal_fail(diag, PEAL_ERR_MISMATCH,
                     "rank %u on %s has a heap of %llu bytes, rank 0 on %s of %llu", theirs->rank,
                     theirs->host, (unsigned long long)theirs->heap_bytes, ours->host,
                     (unsigned long long)ours->heap_bytes);
}

static int brings_table(const struct rt_ident *ident)
{
    return ident->table[0] || ident->table[1];
}

static peal_status differ(const struct rt_ident *theirs, const struct rt_ident *ours,
                          peal_diag *diag)
{
    if (theirs->version != ours->version || strcmp(theirs->library, ours->library) != 0)
        return peal_fail(diag, PEAL_ERR_MISMATCH, "rank %u on %s runs peal %s, rank 0 on %s %s",
                         theirs->rank, theirs->host, theirs->library, ours->host, ours->library);
    if (theirs->ranks != ours->ranks)
        return peal_fail(diag, PEAL_ERR_MISMATCH,
                         "rank %u on %s is one of %u ranks, rank 0 on %s one of %u", theirs->rank,
                         theirs->host, theirs->ranks, ours->host, ours->ranks);
    if (memcmp(theirs->table, ours->table, sizeof ours->table) == 0)
        return heaps_differ(theirs, ours, diag);
    if (brings_table(theirs) != brings_table(ours))
        return peal_fail(diag, PEAL_ERR_MISMATCH,
                         "rank %u on %s %s, rank 0 on %s %s (is there a policy or a script on all "
                         "ranks, or on none?)",
                         theirs->rank, theirs->host,
                         brings_table(theirs) ? "has planned by itself" : "waits for a table",
                         ours->host,
                         brings_table(ours) ? "hands none out" : "is to hand a table out");
    int planned = memcmp(theirs->origin, ours->origin, sizeof ours->origin) != 0;
    return peal_fail(diag, PEAL_ERR_MISMATCH,
                     "rank %u on %s has another plan (%016llx) than rank 0 on %s (%016llx)%s",
                     theirs->rank, theirs->host, (unsigned long long)theirs->table[1], ours->host,
                     (unsigned long long)ours->table[1],
                     planned ? ": planned from another topology, or with other options" : "");
}

/* ---- rank 0: who comes */

struct reception {
    struct auth_gate gate;
    uint32_t here; /* ranks, with this one */
    peal_status status;
    peal_diag why;
};

static void note(struct reception *r, struct rt_job *job, peal_status status)
{
    if (status == PEAL_OK || r->status != PEAL_OK)
        return;
    r->status = status;
    job->wait.deadline = rt_job_soon(job, GRACE_NS).deadline;
}

static void mark(const struct rt_job *job, uint32_t rank, uint8_t came)
{
    if (job->came)
        atomic_store_explicit(&job->came[rank], came, memory_order_relaxed);
}

/* A rank that has come and ended may be started anew, as long as others are awaited. 1: it had. */
static int forget(struct reception *r, struct rt_job *job, uint32_t rank)
{
    if (!job->restarts || job->star[rank] < 0 || !sock_has_ended(job->star[rank]))
        return 0;
    sock_close(&job->star[rank]);
    mark(job, rank, 0);
    r->here--;
    return 1;
}

static int all_here(struct reception *r, struct rt_job *job)
{
    int ended = 0;
    if (r->here < job->nranks)
        return 0;
    for (uint32_t i = 1; i < job->nranks && r->status == PEAL_OK; i++)
        ended |= forget(r, job, i);
    return !ended;
}

/* One that listens everywhere: where it is found from here. */
static peal_status name_any(int fd, struct sock_addr *addr)
{
    struct sock_addr other;
    if (!sock_is_any(addr))
        return PEAL_OK;
    PEAL_TRY(sock_other(fd, &other));
    other.port = addr->port;
    *addr = other;
    return PEAL_OK;
}

/* One that has proven itself says who it is. */
static void receive(struct reception *r, struct rt_job *job, int fd, const struct auth_claim *claim)
{
    struct rt_ident ident;
    peal_diag why = PEAL_DIAG_INIT;
    struct rt_ident *ours = &job->idents[0];
    if (claim->purpose != AUTH_MEET ||
        sock_recv(fd, &ident, sizeof ident, rt_job_soon(job, SHAKE_NS)) != PEAL_OK) {
        sock_close(&fd);
        return;
    }
    end_texts(&ident);
    (void)!name_any(fd, &ident.addr); /* one that is gone again is noticed below, or later */
    peal_status status = differ(&ident, ours, &why);
    if (status == PEAL_OK && (ident.rank == 0 || ident.rank >= job->nranks))
        status = peal_fail(&why, PEAL_ERR_MISMATCH, "one on %s comes as rank %u of %u", ident.host,
                           ident.rank, job->nranks);
    if (status == PEAL_OK)
        (void)forget(r, job, ident.rank);
    if (status == PEAL_OK && r->status != PEAL_OK) {
        status = r->status;
        why = r->why;
    }
    if (status == PEAL_OK && job->star[ident.rank] >= 0)
        status = peal_fail(&why, PEAL_ERR_MISMATCH, "two come as rank %u, on %s and on %s",
                           ident.rank, job->idents[ident.rank].host, ident.host);
    if (status != PEAL_OK) {
        struct rt_verdict verdict;
        rt_verdict_set(&verdict, status, &why);
        (void)!sock_send(fd, &verdict, sizeof verdict, rt_job_soon(job, SHAKE_NS));
        sock_close(&fd);
        if (r->status == PEAL_OK)
            r->why = why;
        note(r, job, status);
        r->here++; /* one of those that were to come */
        return;
    }
    job->idents[ident.rank] = ident;
    job->star[ident.rank] = fd;
    mark(job, ident.rank, 1);
    r->here++;
}

/* Where it listens is half of what there is to know: a host's name may be its loopback's. */
static const char *listening(const struct rt_job *job, const struct auth_gate *gate, char *text,
                             size_t size)
{
    char at[SOCK_TEXT], refused[80] = "";
    struct sock_addr addr = job->addr;
    if (job->door >= 0)
        (void)!sock_own(job->door, &addr, NULL);
    if (gate->refused)
        (void)snprintf(refused, sizeof refused,
                       "; %llu connections did not prove to have this job's key",
                       (unsigned long long)gate->refused);
    (void)snprintf(text, size, " (rank 0 listens on %s%s%s)", sock_text(&addr, at),
                   sock_is_loopback(&addr) ? ", which only its own host reaches" : "", refused);
    return text;
}

static peal_status absent(const struct rt_job *job, const struct auth_gate *gate, peal_diag *diag)
{
    char list[128] = "", where[240];
    size_t used = 0;
    uint32_t count = 0;
    for (uint32_t r = 1; r < job->nranks; r++) {
        if (job->star[r] >= 0)
            continue;
        count++;
        if (used + 16 < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%u", used ? ", " : "", r);
    }
    return peal_fail(diag, PEAL_ERR_TIMEOUT, "%u of %u ranks did not come within %u ms: %s%s%s",
                     count, job->nranks, job->timeout_ms, list,
                     used + 16 < sizeof list ? "" : ", ...",
                     listening(job, gate, where, sizeof where));
}

/* Why no more ranks are received. */
static peal_status give_up(const struct rt_job *job, struct reception *r, peal_status status)
{
    if (status == PEAL_ERR_TIMEOUT)
        return absent(job, &r->gate, &r->why);
    return peal_fail(&r->why, status, "%s",
                     status == PEAL_ERR_IO ? AUTH_NO_FILES : "joining was called off");
}

static void tell_all(struct rt_job *job, const struct rt_verdict *verdict)
{
    for (uint32_t r = 1; r < job->nranks; r++) {
        if (job->star[r] < 0)
            continue;
        struct sock_wait wait = {rt_now_ns() + SHAKE_NS, job->wait.cancel};
        peal_status sent = sock_send(job->star[r], verdict, sizeof *verdict, wait);
        if (sent == PEAL_OK && verdict->status == PEAL_OK)
            (void)!sock_send(job->star[r], job->idents, job->nranks * sizeof *job->idents, wait);
    }
}

static peal_status receive_all(struct rt_job *job, struct reception *r)
{
    auth_gate_open(&r->gate, job->door >= 0 ? job->door : job->listener, &job->key);
    r->here = 1;
    while (!all_here(r, job)) {
        struct auth_claim claim;
        int fd;
        peal_status status = auth_gate_next(&r->gate, job->wait, &fd, &claim);
        if (status == PEAL_OK) {
            receive(r, job, fd, &claim);
            continue;
        }
        if (r->status == PEAL_OK)
            r->status = give_up(job, r, status);
        break;
    }
    auth_gate_close(&r->gate);
    return r->status;
}

static peal_status meet_as_root(struct rt_job *job, const peal_diag *refusal, peal_diag *diag)
{
    struct rt_verdict verdict;
    struct reception *r = peal_calloc(job->ctx, 1, sizeof *r);
    if (!r)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    r->why = (peal_diag)PEAL_DIAG_INIT;
    r->status = auth_random(job->world, sizeof job->world, &r->why);
    if (r->status == PEAL_OK && refusal) {
        r->why = *refusal;
        note(r, job, refusal->status);
    }
    if (r->status == PEAL_OK || refusal)
        r->status = receive_all(job, r);
    sock_close(&job->door);
    rt_verdict_set(&verdict, r->status, &r->why);
    verdict.sockets = job->sockets;
    memcpy(verdict.world, job->world, sizeof verdict.world);
    peal_free(job->ctx, r, sizeof *r);
    tell_all(job, &verdict);
    return rt_verdict_take(&verdict, diag);
}

/* ---- the others: finding rank 0 */

/* *keyless becomes 1 where somebody listens, but rank 0's key is not to be found. */
static peal_status call_root(struct rt_job *job, const struct sock_addr *root,
                             const struct job_plan *plan, int *keyless, peal_diag *diag)
{
    struct auth_claim claim = {.purpose = AUTH_MEET, .ranks = job->nranks, .rank = job->rank};
    PEAL_TRY(sock_dial(root, NULL, rt_job_soon(job, SHAKE_NS), &job->star[0], diag));
    if (plan->wait_for_key && rt_key_get(job->key_name, &job->key) != PEAL_OK) {
        *keyless = 1;
        sock_close(&job->star[0]);
        return PEAL_AGAIN;
    }
    peal_status status = auth_prove(job->star[0], &job->key, &claim, rt_job_soon(job, SHAKE_NS));
    if (status != PEAL_OK)
        sock_close(&job->star[0]);
    return status;
}

static peal_status no_root(const struct rt_job *job, const struct sock_addr *root, int keyless,
                           peal_diag *diag)
{
    char text[SOCK_TEXT];
    if (!keyless)
        return peal_fail(diag, PEAL_ERR_TIMEOUT, "no rank 0 on %s within %u ms",
                         sock_text(root, text), job->timeout_ms);
    return peal_fail(
        diag, PEAL_ERR_TIMEOUT,
        "somebody listened on %s, but rank %u has no key for the job, nor was there one "
        "of rank 0's in /dev/shm%s: give it the secret that rank 0 has (peal run: "
        "PEAL_JOB_KEY or PEAL_JOB_KEY_FILE)",
        sock_text(root, text), job->rank, job->key_name);
}

/* Rank 0 may be late, and strangers may keep it busy. */
static peal_status find_root(struct rt_job *job, const struct job_plan *plan, peal_diag *diag)
{
    char text[SOCK_TEXT];
    const struct sock_addr *root = plan->roots;
    uint32_t refusals = 0;
    int keyless = 0;
    for (uint32_t i = 0;; i++) {
        root = &plan->roots[i % plan->nroots];
        peal_status status = call_root(job, root, plan, &keyless, diag);
        if (status == PEAL_OK) {
            mark(job, 0, 1);
            return PEAL_OK;
        }
        if (status == PEAL_ERR_ABORTED)
            return rt_job_lost(job, status, 0, diag);
        if (status == PEAL_ERR_IO)
            return status;
        refusals += status == PEAL_ERR_PEER && !plan->may_be_busy;
        if (refusals > REFUSALS_MAX)
            return peal_fail(diag, PEAL_ERR_PEER,
                             "who listens on %s does not hold this job's key (is it the same on "
                             "all ranks, and is the port rank 0's?)",
                             sock_text(root, text));
        if (rt_now_ns() > job->wait.deadline)
            return no_root(job, root, keyless, diag);
        if (i % plan->nroots == plan->nroots - 1)
            rt_sleep_us(RETRY_US);
    }
}

static peal_status meet_root(struct rt_job *job, peal_diag *diag)
{
    struct rt_verdict verdict;
    size_t bytes = job->nranks * sizeof *job->idents;
    peal_status status =
        sock_send(job->star[0], &job->idents[job->rank], sizeof *job->idents, job->wait);
    if (status == PEAL_OK) {
        struct sock_wait wait = job->wait; /* rank 0's patience ends first */
        wait.deadline += GRACE_NS;
        status = sock_recv(job->star[0], &verdict, sizeof verdict, wait);
    }
    if (status != PEAL_OK)
        return rt_job_lost(job, status, 0, diag);
    PEAL_TRY(rt_verdict_take(&verdict, diag));
    if (verdict.sockets == 0 || verdict.sockets > JOB_SOCKETS_MAX)
        return peal_fail(diag, PEAL_ERR_PEER, "rank 0 asks for %u sockets between two ranks",
                         verdict.sockets);
    status = sock_recv(job->star[0], job->idents, bytes, job->wait);
    if (status != PEAL_OK)
        return rt_job_lost(job, status, 0, diag);
    memcpy(job->world, verdict.world, sizeof job->world);
    job->sockets = verdict.sockets;
    if (name_any(job->star[0], &job->idents[0].addr) != PEAL_OK)
        return rt_job_lost(job, PEAL_ERR_PEER, 0, diag);
    for (uint32_t r = 0; r < job->nranks; r++)
        end_texts(&job->idents[r]);
    return PEAL_OK;
}

/* ---- listening for ranks of other hosts */

/* Where rank 0 is reached from, unless told otherwise: not on all interfaces. Rank 0 is met where
 * all look for it, which may be another network than the one that is to carry the data. */
static peal_status open_listener(struct rt_job *job, const struct job_plan *plan, peal_diag *diag)
{
    struct sock_addr met;
    PEAL_TRY(sock_own(job->listener >= 0 ? job->listener : job->star[0], &met, diag));
    job->addr = met;
    if (plan->interface)
        PEAL_TRY(sock_interface(plan->interface, met.family, job->wait, &job->addr, diag));
    if (job->listener >= 0 && sock_same_host(&met, &job->addr)) {
        job->addr.port = met.port;
        return PEAL_OK;
    }
    job->door = job->listener;
    job->listener = -1;
    job->addr.port = 0;
    return sock_listen(&job->addr, &job->listener, diag);
}

static peal_status meet(struct rt_job *job, const struct job_plan *plan, const peal_table *table,
                        peal_diag *diag)
{
    if (job->rank != 0)
        PEAL_TRY(find_root(job, plan, diag));
    PEAL_TRY(open_listener(job, plan, diag));
    PEAL_TRY(describe(job, plan, table, &job->idents[job->rank], diag));
    return job->rank == 0 ? meet_as_root(job, plan->refusal, diag) : meet_root(job, diag);
}

/* ---- */

static peal_status fill(struct rt_job *job, const struct job_plan *plan)
{
    job->rank = plan->rank;
    job->nranks = plan->ranks;
    job->sockets = plan->sockets;
    job->timeout_ms = plan->timeout_ms;
    peal_copy_text(job->rdma, sizeof job->rdma, plan->rdma ? plan->rdma : "");
    job->listener = plan->listener;
    job->lent = plan->lent;
    job->spare = job->door = -1;
    job->wait.cancel = plan->cancel;
    job->came = plan->came;
    job->restarts = plan->restarts;
    rt_job_refresh(job);
    if (plan->deadline)
        job->wait.deadline = plan->deadline;
    if (plan->key)
        job->key = *plan->key;
    peal_copy_text(job->key_name, sizeof job->key_name, plan->key_name ? plan->key_name : "");
    job->star = peal_alloc(job->ctx, job->nranks * sizeof *job->star);
    job->idents = peal_calloc(job->ctx, job->nranks, sizeof *job->idents);
    for (uint32_t r = 0; job->star && r < job->nranks; r++)
        job->star[r] = -1;
    return job->star && job->idents ? PEAL_OK : PEAL_ERR_MEMORY;
}

peal_status rt_job_make(peal_ctx *ctx, const struct job_plan *plan, const peal_table *table,
                        peal_diag *diag, struct rt_job **job_out)
{
    struct rt_job *job = peal_calloc(ctx, 1, sizeof *job);
    if (!job) {
        int listener = plan->lent ? -1 : plan->listener;
        sock_close(&listener);
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    }
    job->ctx = ctx;
    peal_status status = fill(job, plan);
    if (status != PEAL_OK)
        status = peal_fail(diag, status, "out of memory");
    else
        status = meet(job, plan, table, diag);
    if (job->rank == 0)
        rt_key_remove(job->key_name);
    job->key_name[0] = '\0';
    job->came = NULL;
    if (status != PEAL_OK) {
        rt_job_free(job);
        return status;
    }
    job->spare = sock_share(job->listener);
    *job_out = job;
    return PEAL_OK;
}

void rt_job_free(struct rt_job *job)
{
    if (!job)
        return;
    rt_far_free(job->far);
    for (uint32_t r = 0; job->star && r < job->nranks; r++)
        sock_close(&job->star[r]);
    if (!job->lent)
        sock_close(&job->listener);
    sock_close(&job->spare);
    sock_close(&job->door);
    peal_free(job->ctx, job->star, job->nranks * sizeof *job->star);
    peal_free(job->ctx, job->idents, job->nranks * sizeof *job->idents);
    peal_free(job->ctx, job, sizeof *job);
}
