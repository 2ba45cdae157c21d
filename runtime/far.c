/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank does for ranks of other hosts, whatever the transport. */
#include "far.h"
#include "clock.h"

#include <string.h>

#define WONDER_NS 50000000u    /* between questions of those who look on */
#define DESERTED_NS 300000000u /* a rank that was only quiet answers a good-bye in this time */

/* ---- which plans can */

static int crosses(const struct rt_job *job, uint32_t a, uint32_t b)
{
    return a != b && !rt_job_near(job, a, b);
}

/* A network writes, later, to memory that is no packet's. */
static int can_cross(const struct plan_step *step, uint32_t operand, uint8_t buffer)
{
    return step->op == PLAN_PUT && step->engine != PEAL_ENGINE_SM && operand >= step->nsrc &&
           buffer != PLAN_BUF_PACKET;
}

static peal_status check_step(const struct rt_job *job, const struct peal_plan *plan, uint32_t rank,
                              const struct plan_step *step, peal_diag *diag)
{
    const struct plan_operand *operands = peal_plan_program(plan, rank)->operands + step->operands;
    for (uint32_t i = 0; i < (uint32_t)step->nsrc + step->ndst; i++) {
        uint32_t other = operands[i].rank;
        if (!crosses(job, rank, other) || can_cross(step, i, operands[i].buffer))
            continue;
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "%s, %s: rank %u on %s reaches into memory of rank %u on %s by %s: the "
                         "plan has them on one host. Start the ranks as its hosts are, or plan "
                         "for the hosts there are",
                         peal_collective_name(plan->collective), plan->algorithm, rank,
                         job->idents[rank].host, other, job->idents[other].host,
                         peal_engine_name((peal_engine)step->engine));
    }
    return PEAL_OK;
}

static peal_status check_plan(const struct rt_job *job, const struct peal_plan *plan,
                              peal_diag *diag)
{
    if (plan->ahead)
        return peal_fail(diag, PEAL_ERR_UNSUPPORTED,
                         "%s, %s: the plan runs ahead, and ranks of other hosts do not see how far",
                         peal_collective_name(plan->collective), plan->algorithm);
    for (uint32_t r = peal_plan_first(plan); r < peal_plan_end(plan); r++) {
        const struct plan_rank *rank = peal_plan_program(plan, r);
        for (uint32_t i = 0; i < rank->nsteps; i++)
            if (peal_plan_op_moves(rank->steps[i].op))
                PEAL_TRY(check_step(job, plan, r, &rank->steps[i], diag));
    }
    return PEAL_OK;
}

peal_status rt_far_check(const struct rt_job *job, const peal_table *table, peal_diag *diag)
{
    int far = 0;
    for (uint32_t r = 0; r < job->nranks; r++)
        far |= crosses(job, 0, r);
    for (uint32_t i = 0; far && i < table->nrows; i++)
        PEAL_TRY(check_plan(job, table->rows[i].plan, diag));
    return PEAL_OK;
}

/* ---- links */

#define SHAKE_NS 5000000000u
#define RETRY_US 20000u

static peal_status no_link(const struct rt_job *job, uint32_t rank, peal_status status,
                           peal_diag *diag)
{
    char text[SOCK_TEXT];
    const struct rt_ident *ident = &job->idents[rank];
    if (status == PEAL_ERR_ABORTED)
        return peal_fail(diag, status, "joining was called off");
    if (status == PEAL_ERR_IO)
        return peal_fail(diag, status, "%s", AUTH_NO_FILES);
    return peal_fail(diag, status == PEAL_ERR_TIMEOUT ? status : PEAL_ERR_PEER,
                     "no connection with rank %u on %s, %s", rank, ident->host,
                     sock_text(&ident->addr, text));
}

static peal_status dial_one(struct rt_job *job, uint32_t rank, uint32_t stream, int *fd)
{
    struct auth_claim claim = {
        .purpose = AUTH_LINK, .ranks = job->nranks, .rank = job->rank, .stream = stream};
    memcpy(claim.world, job->world, sizeof claim.world);
    for (;;) {
        struct sock_wait wait = job->wait;
        uint64_t now = rt_now_ns();
        wait.deadline = now + SHAKE_NS < wait.deadline ? now + SHAKE_NS : wait.deadline;
        peal_status status = sock_dial(&job->idents[rank].addr, &job->addr, wait, fd, NULL);
        if (status == PEAL_OK) {
            status = auth_prove(*fd, &job->key, &claim, job->wait);
            if (status == PEAL_OK)
                return PEAL_OK;
            sock_close(fd);
        }
        if (status == PEAL_ERR_ABORTED || rt_now_ns() > job->wait.deadline)
            return status == PEAL_ERR_ABORTED ? status : PEAL_ERR_TIMEOUT;
        rt_sleep_us(RETRY_US);
    }
}

static int *link_at(const struct rt_job *job, int *links, uint32_t rank, uint32_t stream)
{
    return &links[rank * job->sockets + stream];
}

/* Ranks call those below them, and are called by those above: rank 0 needs nobody, so all of
 * them come to an end. */
static peal_status dial_lower(struct rt_job *job, int *links, peal_diag *diag)
{
    for (uint32_t r = 0; r < job->rank; r++)
        for (uint32_t s = 0; s < job->sockets && crosses(job, r, job->rank); s++) {
            peal_status status = dial_one(job, r, s, link_at(job, links, r, s));
            if (status != PEAL_OK)
                return no_link(job, r, status, diag);
        }
    return PEAL_OK;
}

static int is_ours(const struct rt_job *job, const struct auth_claim *claim, int *links)
{
    return claim->purpose == AUTH_LINK && claim->ranks == job->nranks && claim->rank > job->rank &&
           claim->rank < job->nranks && claim->stream < job->sockets &&
           memcmp(claim->world, job->world, sizeof claim->world) == 0 &&
           crosses(job, claim->rank, job->rank) &&
           *link_at(job, links, claim->rank, claim->stream) < 0;
}

static peal_status accept_upper(struct rt_job *job, int *links, struct auth_gate *gate,
                                peal_diag *diag)
{
    for (uint32_t r = job->rank + 1; r < job->nranks; r++)
        for (uint32_t s = 0; s < job->sockets && crosses(job, r, job->rank);) {
            struct auth_claim claim;
            int fd;
            if (*link_at(job, links, r, s) >= 0) {
                s++;
                continue;
            }
            peal_status status = auth_gate_next(gate, job->wait, &fd, &claim);
            if (status != PEAL_OK)
                return no_link(job, r, status, diag);
            if (is_ours(job, &claim, links))
                *link_at(job, links, claim.rank, claim.stream) = fd;
            else
                sock_close(&fd);
        }
    return PEAL_OK;
}

static peal_status link_all(struct rt_job *job, int *links, peal_diag *diag)
{
    struct auth_gate *gate = peal_calloc(job->ctx, 1, sizeof *gate);
    if (!gate)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    auth_gate_open(gate, job->listener, &job->key);
    job->wait.deadline = rt_now_ns() + (uint64_t)job->timeout_ms * 1000000u;
    peal_status status = dial_lower(job, links, diag);
    if (status == PEAL_OK)
        status = accept_upper(job, links, gate, diag);
    auth_gate_close(gate);
    peal_free(job->ctx, gate, sizeof *gate);
    return status;
}

/* ---- making */

static peal_status fill(struct rt_far *far, struct rt_job *job)
{
    far->ctx = job->ctx;
    far->job = job;
    if (pthread_mutex_init(&far->asking, NULL) != 0)
        return PEAL_ERR_MEMORY;
    far->can_ask = 1;
    far->is_far = peal_calloc(job->ctx, job->nranks, 1);
    far->missed = peal_calloc(job->ctx, job->nranks, 1);
    far->by_rdma = peal_calloc(job->ctx, job->nranks, 1);
    far->sent = peal_calloc(job->ctx, job->nranks, sizeof *far->sent);
    far->offers = peal_calloc(job->ctx, job->nranks, sizeof *far->offers);
    for (uint32_t r = 0; far->is_far && r < job->nranks; r++)
        far->is_far[r] = (uint8_t)crosses(job, r, job->rank);
    int made = far->is_far && far->missed && far->by_rdma && far->sent && far->offers;
    return made ? PEAL_OK : PEAL_ERR_MEMORY;
}

static peal_status make_transports(struct rt_far *far, const struct rt_rdma_ask *ask,
                                   peal_diag *diag)
{
    struct rdma *rdma = NULL;
    PEAL_TRY(rt_rdma_link(far, ask, &rdma, diag));
    peal_status status = rt_net_make(far, ask->links, diag, &far->transport);
    far->tcp = far->transport;
    if (status == PEAL_OK && rdma)
        far->transport = rt_rdma_around(rdma, far->transport);
    else
        rt_rdma_drop(rdma);
    return status;
}

static peal_status make_linked(struct rt_job *job, struct rt_far *far, struct rt_rdma_ask *ask,
                               peal_diag *diag)
{
    size_t count = (size_t)job->nranks * job->sockets;
    int *links = peal_alloc(job->ctx, count * sizeof *links);
    if (!links)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    for (size_t i = 0; i < count; i++)
        links[i] = -1;
    peal_status status = link_all(job, links, diag);
    ask->links = links;
    if (status == PEAL_OK)
        status = make_transports(far, ask, diag);
    for (size_t i = 0; status != PEAL_OK && i < count; i++)
        sock_close(&links[i]);
    peal_free(job->ctx, links, count * sizeof *links);
    return status;
}

peal_status rt_far_make(struct rt_job *job, const peal_table *table,
                        const struct rt_segment *segment, peal_diag *diag)
{
    struct rt_rdma_ask ask = {.table = table, .segment = segment};
    int any = 0;
    for (uint32_t r = 0; r < job->nranks; r++)
        any |= crosses(job, r, job->rank);
    if (!any)
        return PEAL_OK;
    struct rt_far *far = peal_calloc(job->ctx, 1, sizeof *far);
    if (!far)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    job->far = far;
    peal_status status = fill(far, job);
    if (status != PEAL_OK)
        return peal_fail(diag, status, "out of memory");
    return make_linked(job, far, &ask, diag);
}

void rt_far_free(struct rt_far *far)
{
    if (!far)
        return;
    if (far->transport)
        far->transport->free(far->transport);
    if (far->can_ask)
        (void)pthread_mutex_destroy(&far->asking);
    peal_free(far->ctx, far->is_far, far->job->nranks);
    peal_free(far->ctx, far->missed, far->job->nranks);
    peal_free(far->ctx, far->by_rdma, far->job->nranks);
    peal_free(far->ctx, far->sent, far->job->nranks * sizeof *far->sent);
    peal_free(far->ctx, far->offers, far->job->nranks * sizeof *far->offers);
    peal_free(far->ctx, far, sizeof *far);
}

/* ---- how all are linked */

struct census {
    uint32_t rdma;
    uint32_t tcp;
    char why[sizeof((struct rt_far *)0)->why];
};

static struct census count_links(const struct rt_job *job)
{
    const struct rt_far *far = job->far;
    struct census mine = {0};
    for (uint32_t r = 0; r < job->nranks; r++) {
        mine.rdma += far->by_rdma[r];
        mine.tcp += far->is_far[r] && !far->by_rdma[r];
    }
    if (mine.tcp)
        peal_copy_text(mine.why, sizeof mine.why, far->why);
    return mine;
}

peal_status rt_far_census(struct rt_job *job, peal_diag *diag)
{
    struct rt_far *far = job->far;
    if (!far)
        return PEAL_OK;
    struct census mine = count_links(job);
    struct census *all = peal_calloc(job->ctx, job->nranks, sizeof *all);
    if (!all)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    peal_status status = rt_job_exchange(job, &mine, sizeof mine, all, diag);
    far->why[0] = '\0';
    for (uint32_t r = 0; r < job->nranks && status == PEAL_OK; r++) {
        far->links_rdma += all[r].rdma;
        far->links_tcp += all[r].tcp;
        all[r].why[sizeof all[r].why - 1] = '\0';
        if (!far->why[0])
            peal_copy_text(far->why, sizeof far->why, all[r].why);
    }
    peal_free(job->ctx, all, job->nranks * sizeof *all);
    return status;
}

int rt_far_does(const struct peal_comm *comm, uint32_t rank, uint32_t other, uint8_t engine)
{
    const struct rt_far *far = comm->far;
    if (!far || !crosses(far->job, rank, other))
        return 0;
    int rdma = far->links_tcp == 0;
    if (rank == comm->rank || other == comm->rank)
        rdma = far->by_rdma[rank == comm->rank ? other : rank];
    return engine == PEAL_ENGINE_RDMA ? rdma : engine == PEAL_ENGINE_TCP && !rdma;
}

static const char *transport_name(const struct rt_job *job, uint32_t rank)
{
    if (!job->far || !job->far->is_far[rank])
        return "memory";
    return job->far->by_rdma[rank] ? "rdma" : "tcp";
}

peal_status peal_world_link(const peal_world *world, uint32_t rank, peal_link_state *state)
{
    if (!world || !world->job || !state || rank >= world->job->nranks)
        return PEAL_ERR_ARG;
    const struct rt_far *far = world->job->far;
    peal_link_state full = {.size = sizeof full};
    full.transport = transport_name(world->job, rank);
    full.device = far && far->by_rdma[rank] ? far->device : "";
    full.why = far ? far->why : "";
    if (far) {
        full.links_rdma = far->links_rdma;
        full.links_tcp = far->links_tcp;
        full.puts = atomic_load_explicit(&far->sent[rank].puts, memory_order_relaxed);
        full.bytes = atomic_load_explicit(&far->sent[rank].bytes, memory_order_relaxed);
        full.signals = atomic_load_explicit(&far->sent[rank].signals, memory_order_relaxed);
        full.writes = atomic_load_explicit(&far->sent[rank].writes, memory_order_relaxed);
    }
    return peal_export(state, &full, sizeof full);
}

static void set_answers(struct rt_far *far, int answers)
{
    (void)pthread_mutex_lock(&far->asking);
    far->answers = answers;
    (void)pthread_mutex_unlock(&far->asking);
}

void rt_far_wonder(struct rt_far *far)
{
    uint64_t now = rt_now_ns();
    (void)pthread_mutex_lock(&far->asking);
    if (far->answers && now - far->asked_ns > WONDER_NS) {
        far->asked_ns = now;
        far->transport->ask(far->transport);
    }
    (void)pthread_mutex_unlock(&far->asking);
}

/* Far ranks' boards say where their buffers are: in ranges that transports understand. Plans do
 * not read a far rank's input. */
peal_status rt_far_start(struct peal_comm *comm, peal_diag *diag)
{
    struct rt_far *far = comm->far;
    if (!far)
        return PEAL_OK;
    for (uint32_t r = 0; r < comm->nranks; r++) {
        struct rt_board *board = rt_board(comm->base, &comm->layout, r);
        if (!far->is_far[r])
            continue;
        atomic_store_explicit(&board->out, FAR_OUT, memory_order_relaxed);
        atomic_store_explicit(&board->joined, 2, memory_order_release);
    }
    if (far->comm)
        return peal_fail(diag, PEAL_ERR_ARG, "a joined world is for one comm");
    far->comm = comm;
    peal_status status = far->transport->start(far->transport, comm, diag);
    if (status != PEAL_OK)
        far->comm = NULL;
    else
        set_answers(far, 1);
    return status;
}

void rt_far_stop(struct peal_comm *comm)
{
    if (comm->far && comm->far->comm == comm) {
        set_answers(comm->far, 0);
        /* They may hear sooner that this rank has left than why, from the one that has ended it. */
        rt_failure_pass(comm);
        comm->far->transport->stop(comm->far->transport);
        comm->far->comm = NULL;
    }
}

void rt_far_miss(struct peal_comm *comm, uint32_t rank)
{
    if (rt_is_far(comm, rank))
        comm->far->missed[rank] = 1;
}

int rt_far_deserted(const struct rt_far *far, uint32_t rank, uint64_t since, uint64_t heard)
{
    return far->missed[rank] && heard < since && rt_now_ns() - since > DESERTED_NS;
}

void rt_far_give_up(const struct peal_comm *comm)
{
    if (comm->far && !comm->far->comm)
        rt_net_hang_up(comm->far->tcp);
}

/* ---- steps */

void rt_far_mark(const struct peal_comm *comm, struct rt_row *row, struct rt_step *step)
{
    if (!comm->far)
        return;
    if (step->kind == RT_SIGNAL || step->kind == RT_TELL) {
        step->out->far = comm->far->is_far[step->peer];
        return;
    }
    for (uint32_t i = 0; step->kind == RT_ASYNC && i < step->ndst; i++)
        if (comm->far->is_far[row->operands[step->operands + step->nsrc + i].rank])
            step->kind = RT_FAR;
}

/* The pieces of destination i stand together, for its rank; *near: those that are here are
 * moved at once. */
static void cut_pieces(struct peal_comm *comm, const struct rt_row *row, const struct rt_lane *lane,
                       const struct rt_step *step, uint32_t *counts)
{
    struct rt_piece *pieces = row->pieces + step->pieces;
    const struct rt_operand *dst = row->operands + step->operands + step->nsrc;
    uint32_t nth = 0;
    size_t run;
    while ((run = rt_move_bytes(row, step, rt_next_run(comm, row, lane, step, &nth))) != 0)
        for (unsigned i = 0; i < step->ndst; i++) {
            if (comm->far->is_far[dst[i].rank])
                pieces[i * (step->more + 1) + counts[i]++] =
                    (struct rt_piece){comm->src[0], comm->dst[i], run, 0, run};
            else if (comm->dst[i] != comm->src[0])
                memcpy(comm->dst[i], comm->src[0], run);
        }
}

static int is_delivered(struct rt_event *event)
{
    return atomic_load_explicit(&event->delivered, memory_order_acquire) == event->issued;
}

/* What a call before this one has left behind is no concern of this one's. */
static int may_issue(const struct rt_lane *lane, struct rt_event *event)
{
    if (!event->eased || lane->trip > 0)
        return is_delivered(event);
    return atomic_load_explicit(&event->freed, memory_order_acquire) == event->issued;
}

static void issue(struct rt_event *event, uint32_t moving)
{
    event->issued++;
    event->far = 1;
    event->unread = event->unwritten = moving;
    if (moving == 0) {
        atomic_store_explicit(&event->freed, event->issued, memory_order_relaxed);
        atomic_store_explicit(&event->delivered, event->issued, memory_order_relaxed);
    }
}

static int has_room(struct peal_comm *comm, const struct rt_operand *dst, uint32_t ndst)
{
    struct far_transport *via = comm->far->transport;
    for (uint32_t i = 0; i < ndst; i++)
        if (comm->far->is_far[dst[i].rank] && !via->room(via, dst[i].rank, ndst))
            return 0;
    return 1;
}

/* The calling thread's alone to write. */
static void add(rt_word *word, uint64_t more)
{
    uint64_t now = atomic_load_explicit(word, memory_order_relaxed);
    atomic_store_explicit(word, now + more, memory_order_relaxed);
}

void rt_far_sent(struct rt_far *far, uint32_t rank, uint64_t bytes)
{
    struct rt_sent *sent = &far->sent[rank];
    add(&sent->bytes, bytes);
    add(bytes ? &sent->puts : &sent->signals, 1);
}

static void count_put(struct peal_comm *comm, uint32_t rank, const struct rt_piece *pieces,
                      uint32_t count)
{
    struct rt_far *far = comm->far;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += pieces[i].bytes;
    add(&far->sent[rank].puts, 1);
    add(&far->sent[rank].bytes, bytes);
    comm->carried[far->by_rdma[rank] ? PEAL_TRANSPORT_RDMA : PEAL_TRANSPORT_TCP] += bytes;
}

int rt_far_move(struct peal_comm *comm, const struct rt_row *row, struct rt_lane *lane,
                const struct rt_step *step)
{
    struct far_transport *via = comm->far->transport;
    struct rt_event *event = &lane->events[step->event];
    const struct rt_operand *dst = row->operands + step->operands + step->nsrc;
    uint32_t counts[PLAN_OPERANDS_MAX + 1] = {0};
    uint32_t moving = 0;
    if (!may_issue(lane, event) || !has_room(comm, dst, step->ndst))
        return 0;
    cut_pieces(comm, row, lane, step, counts);
    for (uint32_t i = 0; i < step->ndst; i++)
        moving += counts[i] != 0;
    event->unhurried = event->eased && row->trips == 1;
    if (event->eased)
        via->issue(via, event, moving);
    else
        issue(event, moving);
    for (uint32_t i = 0; i < step->ndst; i++) {
        struct rt_piece *pieces = row->pieces + step->pieces + (size_t)i * (step->more + 1);
        if (!counts[i])
            continue;
        count_put(comm, dst[i].rank, pieces, counts[i]);
        via->put(via, dst[i].rank, event, pieces, counts[i]);
    }
    return 1;
}

/* Behind a far transfer the transport keeps the order; another has to be over first. */
int rt_far_signal(struct peal_comm *comm, struct rt_lane *lane, const struct rt_step *step)
{
    struct far_transport *via = comm->far->transport;
    struct rt_sem_out *sem = step->out;
    if (step->after != PLAN_NO_EVENT) {
        struct rt_event *event = &lane->events[step->after];
        if (!event->far && !is_delivered(event))
            return 0;
    }
    if (!via->room(via, step->peer, 2))
        return 0;
    if (step->kind == RT_TELL) {
        uint64_t at = (uint64_t)((uintptr_t)rt_count_place(comm, step) - (uintptr_t)comm->base);
        via->store(via, step->peer, at, rt_count_told(comm, step->peer));
    }
    uint32_t index = (uint32_t)(sem - comm->sem_out) % comm->layout.nsems;
    add(&comm->far->sent[step->peer].signals, 1);
    via->signal(via, step->peer, index, ++sem->sent, comm->digest);
    return 1;
}

/* ---- failure */

void rt_far_fail(struct peal_comm *comm, const struct rt_error *error)
{
    if (comm->far && comm->far->comm && comm->far->comm->base == comm->base)
        comm->far->transport->tell(comm->far->transport, error);
}

void rt_far_ask(struct peal_comm *comm)
{
    if (comm->far)
        comm->far->transport->ask(comm->far->transport);
}

enum far_state rt_far_state(const struct peal_comm *comm, uint32_t rank, uint64_t *heard_ns)
{
    return comm->far->transport->state(comm->far->transport, rank, heard_ns);
}
