/* SPDX-License-Identifier: Apache-2.0 */
/* What goes into a call, and what has to come out of it. */
#include "self.h"
#include "team.h"

#include <string.h>

#define BLOCK 4096u           /* elements compared at once */
#define INPUT_EACH (1u << 20) /* larger inputs are compared in the last round only */

static struct elem_job elements(const struct self *self, uint32_t call)
{
    const struct job *job = self->job;
    uint64_t seed = elem_mix(self->crew->seed + self->number, call);
    int moved = !action_reduces(&job->action);
    peal_op op = moved && job->wire ? PEAL_SUM : job->op; /* numbers, which rounding is about */
    return (struct elem_job){.dtype = job->dtype,
                             .op = op,
                             .ranks = self->crew->ranks,
                             .seed = seed,
                             .plain = moved && !job->wire,
                             .moved = moved};
}

/* Elements of this rank's input. Those of custom are numbered by their place in the message, as
 * all that give them number them: inputs that add up without rounding do so by number. */
static void make_input(const struct self *self, const struct elem_job *elem, uint64_t at,
                       uint64_t count, char *to)
{
    const struct custom *custom = self->job->action.custom;
    uint64_t each = self->job->count, part = count;
    for (uint64_t done = 0; done < count; done += part) {
        uint64_t first = at + done;
        if (custom) {
            uint64_t inside = first % each;
            part = each - inside < count - done ? each - inside : count - done;
            first = custom_block(custom, self->rank, 0, first / each) * each + inside;
        }
        elem_input(elem, self->rank, first, part, to + done * peal_dtype_size(elem->dtype));
    }
}

/* Elements of the result of all ranks; of custom, of each block's givers. */
static void make_result(const struct self *self, struct elem_job elem, uint64_t at, uint64_t count,
                        char *to)
{
    const struct custom *custom = self->job->action.custom;
    uint64_t each = self->job->count, part = count;
    for (uint64_t done = 0; done < count; done += part) {
        uint64_t first = at + done;
        if (custom) {
            part = each - first % each < count - done ? each - first % each : count - done;
            elem.givers = custom_givers(custom, (uint32_t)(first / each), &elem.ngivers);
        }
        elem_result(&elem, first, part, to + done * peal_dtype_size(elem.dtype));
    }
}

/* ---- before */

/* Guards and poison change from round to round: what is left of the last one is no result. */
static int guard_byte(uint32_t round)
{
    return 0xa5 ^ (int)(round & 0x5f);
}

static int poison_byte(uint32_t round)
{
    return 0x5a ^ (int)(round & 0xff);
}

static void put_guards(char *at, uint64_t bytes, uint32_t round)
{
    memset(at - YARD_GUARD, guard_byte(round), YARD_GUARD);
    memset(at + bytes, guard_byte(round), YARD_GUARD);
}

/* The one piece of memory of a call in place. */
static char *shared_piece(const struct view *view, uint64_t *bytes)
{
    int is_in = view->nin >= view->nout;
    *bytes = (is_in ? view->nin : view->nout) * view->size;
    return is_in ? view->in : view->out;
}

void self_prepare(const struct self *self, uint32_t call, uint32_t round)
{
    struct elem_job job = elements(self, call);
    struct view view = self_view(self, call);
    uint64_t bytes;
    if (view.shared) {
        char *at = shared_piece(&view, &bytes);
        put_guards(at, bytes, round);
    } else {
        put_guards(view.in, view.nin * view.size, round);
        put_guards(view.out, view.nout * view.size, round);
    }
    memset(view.out, poison_byte(round), (size_t)(view.nout * view.size));
    if (view.shared || round == 0) /* else it is still there, as the last round checks */
        make_input(self, &job, 0, view.nin, view.in);
}

void self_expect(const struct self *self)
{
    const struct job *job = self->job;
    if (!job->check || !action_reduces(&job->action))
        return;
    size_t size = peal_dtype_size(job->dtype);
    uint64_t count = self->bytes / size;
    uint64_t first = count * self->rank / self->crew->ranks;
    uint64_t last = count * (self->rank + 1ull) / self->crew->ranks;
    if (self->yard->far) {
        first = 0;
        last = count;
    }
    for (uint32_t c = 0; c < job->calls; c++) {
        char *to = self->yard->expected + yard_slot(self->bytes) * c;
        make_result(self, elements(self, c), first, last - first, to + first * size);
    }
}

/* ---- comparing */

/* The claim to be the first of the run that is told in words. */
static struct wrong *claim_wrong(const struct self *self, const char *what, uint64_t index)
{
    struct yard *yard = self->yard;
    (void)atomic_fetch_add_explicit(&yard->wrong, 1, memory_order_relaxed);
    if (atomic_exchange_explicit(&yard->first_wrong, 1, memory_order_acq_rel))
        return NULL;
    struct wrong *first = &yard->results[self->number].first;
    first->rank = self->rank;
    first->index = index;
    (void)snprintf(first->what, sizeof first->what, "%s", what);
    return first;
}

static void note_wrong(const struct self *self, const char *what, uint64_t index, const char *got,
                       const char *wanted)
{
    struct wrong *first = claim_wrong(self, what, index);
    if (!first)
        return;
    (void)elem_text(self->job->dtype, got, first->got);
    (void)elem_text(self->job->dtype, wanted, first->wanted);
}

static void note_count(const struct self *self, uint32_t rank, uint64_t got, uint64_t wanted)
{
    struct wrong *first = claim_wrong(self, "count of rank", rank);
    if (!first)
        return;
    (void)snprintf(first->got, sizeof first->got, "%llu", (unsigned long long)got);
    (void)snprintf(first->wanted, sizeof first->wanted, "%llu", (unsigned long long)wanted);
}

static void compare(const struct self *self, const char *what, uint64_t first, uint64_t count,
                    const char *got, const char *wanted)
{
    size_t size = peal_dtype_size(self->job->dtype);
    if (memcmp(got, wanted, (size_t)count * size) == 0)
        return;
    for (uint64_t i = 0; i < count; i++)
        if (memcmp(got + i * size, wanted + i * size, size) != 0)
            note_wrong(self, what, first + i, got + i * size, wanted + i * size);
}

/* Of one rank's elements, or of all ranks' sums: each within what its roundings may do to it. */
static void compare_near(const struct self *self, const struct elem_job *elem, uint32_t rank,
                         uint64_t index, uint64_t first, uint64_t count, const char *got,
                         const char *wanted)
{
    double largest = elem_largest(elem);
    for (uint64_t i = 0; i < count; i++) {
        float a, b;
        memcpy(&a, got + i * sizeof a, sizeof a);
        memcpy(&b, wanted + i * sizeof b, sizeof b);
        double off = (double)a - (double)b;
        double most = elem_wire_bound(elem, self->job->wire, self->job->roundings,
                                      elem_magnitude(elem, rank, index + i), largest);
        if (!(off <= most && off >= -most)) /* also what is no number */
            note_wrong(self, "element", first + i, got + i * sizeof a, wanted + i * sizeof b);
    }
}

/* Elements of the input, from `at` to `end`, are as they were. */
static void compare_input(const struct self *self, const struct view *view, uint32_t call,
                          uint64_t at, uint64_t end)
{
    uint64_t block[BLOCK];
    struct elem_job job = elements(self, call);
    for (; at < end; at += BLOCK) {
        uint64_t count = end - at < BLOCK ? end - at : BLOCK;
        make_input(self, &job, at, count, (char *)block);
        compare(self, "input", at, count, view->in + at * view->size, (const char *)block);
    }
}

/* All of the input but what the output lies over. */
static void check_input(const struct self *self, const struct view *view, uint32_t call)
{
    if (!view->shared || !view->nout) {
        compare_input(self, view, call, 0, view->nin);
    } else if (view->nin > view->nout) {
        uint64_t own = view->nout * self->rank;
        compare_input(self, view, call, 0, own);
        compare_input(self, view, call, own + view->nout, view->nin);
    }
}

static void check_guards(const struct self *self, const char *what, const char *piece,
                         uint64_t bytes, uint32_t round)
{
    for (uint64_t i = 0; i < 2 * YARD_GUARD; i++) {
        const char *byte = i < YARD_GUARD ? piece + i - YARD_GUARD : piece + bytes + i - YARD_GUARD;
        char got[8], wanted[8];
        if ((unsigned char)*byte == (unsigned char)guard_byte(round))
            continue;
        memset(got, *byte, sizeof got);
        memset(wanted, guard_byte(round), sizeof wanted);
        note_wrong(self, what, i, got, wanted);
    }
}

/* ---- the output */

/* By a list of pairs: who sends the block-th block that this rank receives, and behind how many
 * others. */
static void sent_by(const struct self *self, uint32_t block, uint64_t inside, uint32_t *rank,
                    uint64_t *index)
{
    const struct action *action = &self->job->action;
    uint32_t pair = 0, before = 0;
    if (!action->npairs)
        return;
    while (action->pairs[2 * (size_t)pair + 1] != self->rank || block-- > 0)
        pair++;
    *rank = action->pairs[2 * (size_t)pair];
    for (uint32_t i = 0; i < pair; i++)
        before += action->pairs[2 * (size_t)i] == *rank;
    *index = before * self->job->count + inside;
}

/* Where the element `at` of this rank's output comes from, if nothing is reduced. */
static void origin_of(const struct self *self, uint64_t at, uint32_t *rank, uint64_t *index)
{
    const struct job *job = self->job;
    uint64_t block = at / job->count, inside = at % job->count;
    *rank = job->action.root;
    *index = inside;
    switch (job->action.collective) {
    case PEAL_ALLGATHER:
    case PEAL_GATHER:
        *rank = (uint32_t)block;
        break;
    case PEAL_ALLTOALL:
    case PEAL_ALLTOALLV:
        *rank = (uint32_t)block;
        *index = self->rank * job->count + inside;
        break;
    case PEAL_SCATTER:
        *index = self->rank * job->count + inside;
        break;
    case PEAL_SENDRECV:
        sent_by(self, (uint32_t)block, inside, rank, index);
        break;
    default: /* broadcast */
        break;
    }
}

static void check_moved(const struct self *self, const struct view *view, uint32_t call)
{
    uint64_t block[BLOCK];
    struct elem_job job = elements(self, call);
    for (uint64_t at = 0, count; at < view->nout; at += count) {
        uint32_t rank;
        uint64_t index;
        origin_of(self, at, &rank, &index);
        count = self->job->count - at % self->job->count; /* to the block's end */
        count = count < BLOCK ? count : BLOCK;
        elem_input(&job, rank, index, count, block);
        if (self->job->wire)
            compare_near(self, &job, rank, index, at, count, view->out + at * view->size,
                         (const char *)block);
        else
            compare(self, "element", at, count, view->out + at * view->size, (const char *)block);
    }
}

/* Of an alltoallv: elements [at, end) of the block from a rank, or, with no element job, what was
 * there before. */
static void check_part(const struct self *self, const struct view *view, uint32_t rank, uint64_t at,
                       uint64_t end, const struct elem_job *elem, uint32_t round)
{
    uint64_t block[BLOCK];
    uint64_t behind = rank * self->job->count;
    memset(block, poison_byte(round), sizeof block);
    for (uint64_t count; at < end; at += count) {
        count = end - at < BLOCK ? end - at : BLOCK;
        if (elem)
            elem_input(elem, rank, self->rank * self->job->count + at, count, block);
        compare(self, elem ? "element" : "behind the end", behind + at, count,
                view->out + (behind + at) * view->size, (const char *)block);
    }
}

static void check_ragged(const struct self *self, const struct view *view, uint32_t call,
                         uint32_t round)
{
    const size_t *came = self->counts + (2 * (size_t)call + 1) * self->crew->ranks;
    struct elem_job elem = elements(self, call);
    for (uint32_t r = 0; r < self->crew->ranks; r++) {
        uint64_t length = self_length(self, call, r, self->rank);
        if (came[r] != length)
            note_count(self, r, came[r], length);
        check_part(self, view, r, 0, length, &elem, round);
        check_part(self, view, r, length, self->job->count, NULL, round);
    }
}

static void check_reduced(const struct self *self, const struct view *view, uint32_t call)
{
    const char *expected = self->yard->expected + yard_slot(self->bytes) * call;
    uint64_t before = 0;
    if (self->job->action.collective == PEAL_REDUCE_SCATTER)
        before = self->rank * view->nout;
    expected += before * view->size;
    if (self->job->wire) {
        struct elem_job elem = elements(self, call);
        compare_near(self, &elem, 0, before, 0, view->nout, view->out, expected);
        return;
    }
    compare(self, "element", 0, view->nout, view->out, expected);
}

static void check_custom(const struct self *self, const struct view *view, uint32_t call)
{
    const char *expected = self->yard->expected + yard_slot(self->bytes) * call;
    uint64_t each = self->job->count;
    for (uint64_t at = 0; at < view->nout; at += each) {
        uint64_t block = custom_block(self->job->action.custom, self->rank, 1, at / each);
        compare(self, "element", at, each, view->out + at * view->size,
                expected + block * each * view->size);
    }
}

void self_check(const struct self *self, uint32_t call, uint32_t round)
{
    const struct job *job = self->job;
    struct view view = self_view(self, call);
    if (job->action.custom)
        check_custom(self, &view, call);
    else if (action_reduces(&job->action))
        check_reduced(self, &view, call);
    else if (job->action.collective == PEAL_ALLTOALLV)
        check_ragged(self, &view, call, round);
    else
        check_moved(self, &view, call);
    if (view.shared) {
        uint64_t bytes;
        const char *at = shared_piece(&view, &bytes);
        check_guards(self, view.nout ? "guard of out" : "guard of in", at, bytes, round);
    } else {
        check_guards(self, "guard of out", view.out, view.nout * view.size, round);
        check_guards(self, "guard of in", view.in, view.nin * view.size, round);
    }
    if (self->bytes <= INPUT_EACH || job->budget_us || round + 1 == job->warmup + job->rounds)
        check_input(self, &view, call);
}

/* FNV-1a. */
static uint64_t digest_of(const char *bytes, uint64_t count)
{
    uint64_t digest = 0xcbf29ce484222325u;
    for (uint64_t i = 0; i < count; i++)
        digest = (digest ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return digest;
}

int self_compare(const struct self *self, uint32_t call)
{
    struct view view = self_view(self, call);
    struct yard *yard = self->yard;
    if (!self->job->wire || self->job->action.collective == PEAL_REDUCE_SCATTER)
        return 1;
    yard->digest[self->rank] = digest_of(view.out, view.nout * view.size);
    if (!yard_meet(yard, 0) || !yard_share_digests(yard))
        return 0;
    if (yard->digest[self->rank] != yard->digest[0]) {
        struct wrong *first = claim_wrong(self, "output", 0);
        if (first) {
            (void)snprintf(first->got, sizeof first->got, "other bits");
            (void)snprintf(first->wanted, sizeof first->wanted, "those of rank 0");
        }
    }
    return yard_meet(yard, 0);
}

/* ---- barriers */

/* Before it enters, a rank says so. */
void self_enter(struct self *self)
{
    self->barriers++;
    atomic_store_explicit(&self->yard->entered[self->rank], self->barriers, memory_order_release);
}

/* Nobody is back from a barrier that others have not entered. */
void self_leave(const struct self *self)
{
    for (uint32_t r = 0; r < self->crew->ranks && !self->yard->far; r++) {
        unsigned seen = atomic_load_explicit(&self->yard->entered[r], memory_order_acquire);
        if ((int)(seen - self->barriers) >= 0)
            continue;
        struct wrong *first = claim_wrong(self, "entry of rank", r);
        if (!first)
            continue;
        (void)snprintf(first->got, sizeof first->got, "missing");
        (void)snprintf(first->wanted, sizeof first->wanted, "before the return");
    }
}
