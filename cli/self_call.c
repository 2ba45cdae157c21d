/* SPDX-License-Identifier: Apache-2.0 */
/* Where a call's buffers lie, and the call. */
#include "self.h"

/* ---- buffers */

static uint64_t shift(const struct self *self, uint32_t call, int second)
{
    if (!self->job->shake)
        return 0;
    size_t size = peal_dtype_size(self->job->dtype);
    uint64_t hash = elem_mix(self->rank * 1000u + self->number, 2 * call + (unsigned)second);
    return hash % (128 / size) * size;
}

static char *slot(const struct self *self, uint32_t call, int second)
{
    char *at = self->memory + yard_slot(self->bytes) * (2ull * call + (unsigned)second);
    return at + 2 * YARD_GUARD + shift(self, call, second);
}

struct view self_view(const struct self *self, uint32_t call)
{
    const struct job *job = self->job;
    uint32_t ranks = self->crew->ranks;
    struct view view = {.size = peal_dtype_size(job->dtype)};
    view.nin = job->count * action_input(&job->action, self->rank, ranks);
    view.nout = job->count * action_output(&job->action, self->rank, ranks);
    view.shared = job->in_place;
    view.in = slot(self, call, 0);
    view.out = view.shared ? view.in : slot(self, call, 1);
    uint64_t own = view.size * job->count * self->rank;
    if (view.shared && view.nout > view.nin && view.nin)
        view.in += own;
    if (view.shared && view.nin > view.nout && view.nout)
        view.out += own;
    return view;
}

/* ---- calls */

/* A buffer that this rank's part has no use for is now and then none at all. */
static void drop_unused(const struct self *self, uint32_t call, struct view *view)
{
    int whole = !action_blocks(&self->job->action); /* in place, all ranks name one buffer */
    int none = call % 2 == 1 || (view->shared && !whole);
    if (!self->job->count || !none)
        return;
    if (!view->nin)
        view->in = NULL;
    if (!view->nout)
        view->out = NULL;
}

static peal_status call_rooted(peal_comm *comm, const struct job *job, const struct view *view,
                               peal_diag *diag)
{
    size_t count = (size_t)job->count;
    uint32_t root = job->action.root;
    switch (job->action.collective) {
    case PEAL_BROADCAST:
        return peal_broadcast(comm, view->in, view->out, count, job->dtype, root, diag);
    case PEAL_REDUCE:
        return peal_reduce(comm, view->in, view->out, count, job->dtype, job->op, root, diag);
    case PEAL_SCATTER:
        return peal_scatter(comm, view->in, view->out, count, job->dtype, root, diag);
    case PEAL_GATHER:
        return peal_gather(comm, view->in, view->out, count, job->dtype, root, diag);
    default:
        return peal_sendrecv(comm, view->in, view->out, count, job->dtype, root, job->action.peer,
                             diag);
    }
}

uint64_t self_length(const struct self *self, uint32_t call, uint32_t from, uint32_t to)
{
    const struct job *job = self->job;
    uint64_t pair = (uint64_t)from * self->crew->ranks + to;
    uint64_t hash = elem_mix(self->crew->seed + self->number, pair * job->calls + call);
    if (!job->ragged || hash % 4 == 0)
        return job->count;
    return hash % 4 == 1 ? 0 : hash / 4 % (job->count + 1);
}

/* What goes to each rank; behind it there is room for what comes. */
static size_t *fill_counts(const struct self *self, uint32_t call)
{
    size_t *send = self->counts + 2 * (size_t)call * self->crew->ranks;
    for (uint32_t r = 0; r < self->crew->ranks; r++)
        send[r] = (size_t)self_length(self, call, self->rank, r);
    return send;
}

static peal_status call_counted(struct self *self, uint32_t call, const struct view *view,
                                peal_diag *diag)
{
    const struct job *job = self->job;
    size_t *send = fill_counts(self, call);
    return peal_alltoallv(self->comm, view->in, send, view->out, send + self->crew->ranks,
                          (size_t)job->count, job->dtype, diag);
}

static peal_status call_rootless(peal_comm *comm, const struct job *job, const struct view *view,
                                 peal_diag *diag)
{
    size_t count = (size_t)job->count;
    switch (job->action.collective) {
    case PEAL_ALLREDUCE:
        return peal_allreduce(comm, view->in, view->out, count, job->dtype, job->op, diag);
    case PEAL_REDUCE_SCATTER:
        return peal_reduce_scatter(comm, view->in, view->out, count, job->dtype, job->op, diag);
    case PEAL_ALLGATHER:
        return peal_allgather(comm, view->in, view->out, count, job->dtype, diag);
    case PEAL_CUSTOM:
        return peal_custom(comm, view->in, view->out, count, job->dtype, job->op, diag);
    case PEAL_ALLTOALL:
        return peal_alltoall(comm, view->in, view->out, count, job->dtype, diag);
    default:
        return peal_barrier(comm, diag);
    }
}

int self_call(struct self *self, uint32_t call)
{
    peal_diag diag = PEAL_DIAG_INIT;
    const struct job *job = self->job;
    struct view view = self_view(self, call);
    drop_unused(self, call, &view);
    peal_status status;
    if (self->gpu)
        status = gpu_call(self, call, &view, &diag);
    else if (job->action.collective == PEAL_ALLTOALLV)
        status = call_counted(self, call, &view, &diag);
    else if (action_rooted(&job->action))
        status = call_rooted(self->comm, job, &view, &diag);
    else
        status = call_rootless(self->comm, job, &view, &diag);
    if (status != PEAL_OK)
        yard_fail(self->yard, self->rank, status, &diag);
    return status == PEAL_OK;
}

int self_pending(struct self *self, uint32_t call, peal_pending **pending)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_call args = PEAL_CALL_INIT;
    const struct job *job = self->job;
    struct view view = self_view(self, call);
    args.collective = job->action.collective;
    args.in = view.in;
    args.out = view.out;
    args.count = (size_t)job->count;
    args.dtype = job->dtype;
    args.op = job->op;
    args.root = job->action.root;
    args.peer = job->action.peer;
    if (args.collective == PEAL_ALLTOALLV) {
        size_t *send = fill_counts(self, call);
        args.send_counts = send;
        args.recv_counts = send + self->crew->ranks;
    }
    peal_status status = peal_pending_create(self->comm, &args, &diag, pending);
    if (status != PEAL_OK)
        yard_fail(self->yard, self->rank, status, &diag);
    return status == PEAL_OK;
}
