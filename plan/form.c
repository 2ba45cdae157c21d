/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form of a plan: every index within its range, every step of its opcode's shape, and
 * every field that a step does not use at its resting value, so that a plan has one encoding.
 * What the steps do together is the verifier's business.
 */
#include "source.h"
#include "wire.h"

#include <string.h>

struct form {
    const struct peal_plan *plan;
    const struct plan_rank *program; /* of `rank` */
    const struct plan_link *links;   /* those that operands name */
    uint32_t nlinks;
    const char *path;
    peal_diag *diag;
    struct plan_place place;
    uint32_t step_in_lane;
    uint32_t pre; /* steps of the lane's pre */
    uint32_t rank;
    const struct plan_step *step; /* NULL: outside of steps */
};

/* ---- reporting */

static char *add_text(char *at, const char *text)
{
    size_t length = strlen(text);
    memcpy(at, text, length);
    return at + length;
}

/* "rank 3 lane 0 step 2 (put): ", as much of it as is meant; 96 bytes are enough. */
static void describe_place(const struct form *form, char *at)
{
    if (form->place.rank >= 0) {
        at = peal_plan_decimal(add_text(at, "rank "), (uint64_t)form->place.rank);
        if (form->place.lane >= 0)
            at = peal_plan_decimal(add_text(at, " lane "), (uint64_t)form->place.lane);
        if (form->step) {
            at = peal_plan_decimal(add_text(at, " step "), form->step_in_lane);
            const char *name = peal_plan_op_name(form->step->op);
            if (name)
                at = add_text(add_text(add_text(at, " ("), name), ")");
        }
        at = add_text(at, ": ");
    }
    *at = '\0';
}

static peal_status wrong(const struct form *form, const char *sentence)
{
    char where[96];
    describe_place(form, where);
    return peal_fail_at(form->diag, PEAL_ERR_PLAN, form->path, 0, 0, "%s%s", where, sentence);
}

/* value must lie below limit. */
static peal_status check_below(const struct form *form, const char *what, uint64_t value,
                               uint64_t limit)
{
    if (value < limit)
        return PEAL_OK;
    char where[96];
    describe_place(form, where);
    return peal_fail_at(form->diag, PEAL_ERR_PLAN, form->path, 0, 0, "%s%s %llu is not below %llu",
                        where, what, (unsigned long long)value, (unsigned long long)limit);
}

static peal_status check_unused(const struct form *form, const char *what, int at_rest)
{
    if (at_rest)
        return PEAL_OK;
    char where[96];
    describe_place(form, where);
    return peal_fail_at(form->diag, PEAL_ERR_PLAN, form->path, 0, 0,
                        "%sthe step has no use for its field %s, which is set", where, what);
}

/* ---- text fields */

/* Printable ASCII without quotes, ended within its array. */
static int text_ok(const char *text, size_t bytes)
{
    const char *end = memchr(text, '\0', bytes);
    if (!end)
        return 0;
    for (; text < end; text++) {
        if (*text < 0x20 || *text > 0x7e || *text == '"')
            return 0;
    }
    return 1;
}

static int algorithm_ok(const char *text, size_t bytes)
{
    const char *end = memchr(text, '\0', bytes);
    if (!end || end == text)
        return 0;
    for (; text < end; text++) {
        if (!((*text >= 'a' && *text <= 'z') || (*text >= '0' && *text <= '9') || *text == '-'))
            return 0;
    }
    return 1;
}

/* ---- operands */

/* All chunks of the step's span, counted from `first`. */
static peal_status check_chunks(const struct form *form, uint32_t first)
{
    const struct plan_step *step = form->step;
    PEAL_TRY(check_below(form, "chunk", first, form->plan->nchunks));
    return check_below(form, "the last chunk of a span",
                       first + (uint64_t)step->more * step->stride, form->plan->nchunks);
}

static peal_status check_operand_memory(const struct form *form, const struct plan_operand *operand,
                                        int is_source)
{
    const struct peal_plan *plan = form->plan;
    if (operand->zero)
        return wrong(form, "an operand's field zero is set");
    if (operand->buffer == PLAN_BUF_IN || operand->buffer == PLAN_BUF_OUT) {
        if (operand->buffer == PLAN_BUF_IN && !is_source)
            return wrong(form, "a destination lies in the caller's input");
        PEAL_TRY(check_chunks(form, operand->index));
        return operand->slot ? wrong(form, "an in or out operand has a slot") : PEAL_OK;
    }
    PEAL_TRY(check_below(form, "buffer", operand->buffer, PLAN_BUF_PACKET + 1));
    PEAL_TRY(check_below(form, "region", operand->index, plan->nregions));
    const struct plan_region *region = &plan->regions[operand->index];
    if (region->buffer != operand->buffer)
        return wrong(form, operand->buffer == PLAN_BUF_PACKET
                               ? "a packet operand names a scratch region"
                               : "a scratch operand names a packet region");
    if (form->step->more && operand->buffer == PLAN_BUF_PACKET)
        return wrong(form, "packets are not moved in spans");
    return check_below(form, "slot",
                       operand->slot + (uint64_t)form->step->more * (form->step->skip + 1u),
                       region->width);
}

/* Bytes run over a link from the rank that is read, or to the rank that is written. */
static peal_status check_operand_link(const struct form *form, const struct plan_operand *operand,
                                      int is_source)
{
    const struct peal_plan *plan = form->plan;
    PEAL_TRY(check_below(form, "an operand's rank", operand->rank, plan->nranks));
    if (operand->rank == form->rank)
        return operand->link == PLAN_NO_LINK ? PEAL_OK
                                             : wrong(form, "an operand of its own rank has a link");
    if (operand->link == PLAN_NO_LINK)
        return wrong(form, "a remote operand has no link");
    PEAL_TRY(check_below(form, "link", operand->link, (uint64_t)form->nlinks + 1));
    const struct plan_link *link = &form->links[operand->link - 1];
    uint32_t from = is_source ? operand->rank : form->rank;
    uint32_t to = is_source ? form->rank : operand->rank;
    if (link->from != from || link->to != to)
        return wrong(form, is_source ? "a link does not run from the rank that is read to this one"
                                     : "a link does not run from this rank to the one written");
    return PEAL_OK;
}

/* ---- steps */

/* One place of plain memory on each of several ranks, this one among them, in rising order. */
static peal_status check_group(const struct form *form, const struct plan_operand *member,
                               uint32_t count)
{
    int own = 0;
    if (count < 2)
        return wrong(form, "a group has at least two ranks");
    for (uint32_t i = 0; i < count; i++) {
        own |= member[i].rank == form->rank;
        if (i && member[i].rank <= member[i - 1].rank)
            return wrong(form, "the ranks of a group rise");
        if (member[i].buffer == PLAN_BUF_PACKET)
            return wrong(form, "packets are not moved by a group");
        if (member[i].buffer != member->buffer || member[i].index != member->index ||
            member[i].slot != member->slot)
            return wrong(form, "a group has one place on all its ranks");
    }
    return own ? PEAL_OK : wrong(form, "a rank moves for groups that it is in");
}

static peal_status check_groups(const struct form *form, uint32_t remote_src, uint32_t remote_dst)
{
    const struct plan_step *step = form->step;
    const struct plan_operand *src = &form->program->operands[step->operands];
    const struct plan_operand *dst = src + step->nsrc;
    if (step->op == PLAN_MULTICAST && (step->nsrc != 1 || remote_src))
        return wrong(form, "multicast has one source, of its own rank");
    if (step->op == PLAN_LOAD_REDUCE)
        PEAL_TRY(check_group(form, src, step->nsrc));
    if (step->op == PLAN_LOAD_REDUCE && !remote_dst)
        return PEAL_OK;
    PEAL_TRY(check_group(form, dst, step->ndst));
    for (uint32_t i = 0; step->op == PLAN_LOAD_REDUCE && i < step->ndst; i++)
        if (step->ndst != step->nsrc || src[i].rank != dst[i].rank)
            return wrong(form, "what is folded from a group is stored to the same group");
    return PEAL_OK;
}

static peal_status check_shape(const struct form *form, uint32_t remote_src, uint32_t remote_dst)
{
    const struct plan_step *step = form->step;
    int folds = step->op == PLAN_PUT_REDUCE || step->op == PLAN_GET_REDUCE;
    if (step->nsrc == 0 || step->ndst == 0)
        return wrong(form, "a data step needs a source and a destination");
    if (step->flags && (!peal_plan_op_folds(step->op) || step->flags != PLAN_FLAG_FINAL))
        return wrong(form, "only a reduction has a flag, final");
    if (peal_plan_op_groups(step->op))
        return check_groups(form, remote_src, remote_dst);
    if (step->op != PLAN_REDUCE && step->nsrc != 1)
        return wrong(form, "only reduce has several sources");
    if (folds && step->ndst != 1)
        return wrong(form, "put_reduce and get_reduce have one destination");
    if (step->op == PLAN_COPY && remote_src + remote_dst > 0)
        return wrong(form, "copy has no remote operand");
    if ((step->op == PLAN_PUT || step->op == PLAN_PUT_REDUCE) && (remote_src || !remote_dst))
        return wrong(form, "put needs a local source and a remote destination");
    if ((step->op == PLAN_GET || step->op == PLAN_GET_REDUCE) && (!remote_src || remote_dst))
        return wrong(form, "get needs a remote source and local destinations");
    if (peal_plan_op_converts(step->op) && remote_src)
        return wrong(form, "pack and unpack read their own rank's memory");
    if (step->op == PLAN_UNPACK && remote_dst)
        return wrong(form, "unpack writes its own rank's memory");
    return PEAL_OK;
}

/* ---- wire slots */

/* The formats of a step's sources and destinations: bit 1 << enum plan_wire for each. */
struct formats {
    uint32_t src;
    uint32_t dst;
    int packets;
};

static struct formats formats_of(const struct form *form)
{
    const struct plan_step *step = form->step;
    struct formats found = {0, 0, 0};
    for (uint32_t i = 0; i < (uint32_t)step->nsrc + step->ndst; i++) {
        const struct plan_operand *operand = &form->program->operands[step->operands + i];
        uint32_t bit = 1u << peal_plan_operand_wire(form->plan, operand);
        found.packets |= operand->buffer == PLAN_BUF_PACKET;
        if (i < step->nsrc)
            found.src |= bit;
        else
            found.dst |= bit;
    }
    return found;
}

/* What is packed is never taken for plain elements, nor one format for another. */
static peal_status check_formats(const struct form *form, struct formats found)
{
    const uint32_t plain = 1u << PLAN_WIRE_NONE;
    const struct plan_step *step = form->step;
    int one = (found.dst & (found.dst - 1)) == 0;
    switch (step->op) {
    case PLAN_PACK:
        return found.src == plain && one && found.dst != plain
                   ? PEAL_OK
                   : wrong(form, "pack takes a plain source into wire slots of one format");
    case PLAN_UNPACK:
        return found.src != plain && found.dst == plain
                   ? PEAL_OK
                   : wrong(form, "unpack takes a wire slot to plain destinations");
    case PLAN_MULTICAST:
    case PLAN_LOAD_REDUCE:
        return found.src == plain && found.dst == plain
                   ? PEAL_OK
                   : wrong(form, "wire slots are not moved by a group");
    case PLAN_REDUCE:
        return found.dst == plain ? PEAL_OK
                                  : wrong(form, "a reduction is stored as plain elements; pack it");
    case PLAN_COPY:
    case PLAN_PUT:
    case PLAN_GET:
        return found.src == found.dst
                   ? PEAL_OK
                   : wrong(form, "a move between wire slots and others; pack or unpack it");
    default:
        return found.src == plain && found.dst == plain
                   ? PEAL_OK
                   : wrong(form, "wire slots are not folded into");
    }
}

static peal_status check_wire(const struct form *form)
{
    struct formats found = formats_of(form);
    const uint32_t packed = ~(1u << PLAN_WIRE_NONE);
    PEAL_TRY(check_formats(form, found));
    if (!((found.src | found.dst) & packed))
        return PEAL_OK;
    if (form->step->more)
        return wrong(form, "wire slots are not moved in spans");
    return found.packets ? wrong(form, "a step has packets or wire slots, not both") : PEAL_OK;
}

static peal_status check_data_fields(const struct form *form)
{
    const struct plan_step *step = form->step;
    PEAL_TRY(check_unused(form, "lag", step->lag == 0));
    PEAL_TRY(check_unused(form, "peer", step->peer == 0));
    PEAL_TRY(check_unused(form, "sem", step->sem == 0));
    PEAL_TRY(check_unused(form, "after", step->after == PLAN_NO_EVENT));
    PEAL_TRY(check_unused(form, "what", step->what == 0));
    if (!peal_plan_engine_async(step->engine))
        return step->event == PLAN_NO_EVENT ? PEAL_OK : wrong(form, "a step of sm has no event");
    return check_below(form, "event", step->event, PLAN_EVENTS_MAX);
}

static peal_status check_data(const struct form *form)
{
    const struct plan_step *step = form->step;
    const struct plan_rank *rank = form->program;
    PEAL_TRY(check_below(form, "engine", step->engine, PEAL_ENGINE_COUNT));
    PEAL_TRY(check_data_fields(form));
    if (!step->more != !step->stride)
        return wrong(form, "a span of several chunks has a stride, and one chunk has none");
    if (step->more && form->plan->collective == PEAL_ALLTOALLV)
        return wrong(form, "blocks of counted lengths are moved one by one, not in spans");
    PEAL_TRY(check_chunks(form, step->chunk));
    if (step->skip && !step->more)
        return wrong(form, "one chunk skips no slots");
    uint32_t count = (uint32_t)step->nsrc + step->ndst;
    if (step->operands > rank->noperands || count > rank->noperands - step->operands)
        return wrong(form, "operands beyond those of the rank");
    uint32_t remote[2] = {0, 0};
    int slots = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct plan_operand *operand = &rank->operands[step->operands + i];
        int is_source = i < step->nsrc;
        PEAL_TRY(check_operand_memory(form, operand, is_source));
        PEAL_TRY(check_operand_link(form, operand, is_source));
        remote[is_source] += operand->link != PLAN_NO_LINK;
        slots |= operand->buffer >= PLAN_BUF_SCRATCH;
    }
    if (step->skip && !slots)
        return wrong(form, "a span without slots skips none");
    PEAL_TRY(check_shape(form, remote[1], remote[0]));
    return check_wire(form);
}

static peal_status check_no_data(const struct form *form)
{
    const struct plan_step *step = form->step;
    PEAL_TRY(check_unused(form, "flags", step->flags == 0));
    PEAL_TRY(check_unused(form, "nsrc", step->nsrc == 0));
    PEAL_TRY(check_unused(form, "ndst", step->ndst == 0));
    PEAL_TRY(check_unused(form, "chunk", step->chunk == 0));
    PEAL_TRY(check_unused(form, "span", step->more == 0 && step->stride == 0 && step->skip == 0));
    return check_unused(form, "operands", step->operands == 0);
}

static peal_status check_sem(const struct form *form)
{
    PEAL_TRY(check_unused(form, "event", form->step->event == PLAN_NO_EVENT));
    PEAL_TRY(check_unused(form, "what", form->step->what == 0));
    PEAL_TRY(check_below(form, "peer", form->step->peer, form->plan->nranks));
    return check_below(form, "semaphore", form->step->sem, form->plan->nsems);
}

static peal_status check_signal(const struct form *form)
{
    const struct plan_step *step = form->step;
    PEAL_TRY(check_no_data(form));
    PEAL_TRY(check_sem(form));
    PEAL_TRY(check_below(form, "engine", step->engine, PEAL_ENGINE_COUNT));
    PEAL_TRY(check_unused(form, "lag", step->lag == 0));
    if (step->after == PLAN_NO_EVENT)
        return PEAL_OK;
    if (!peal_plan_engine_async(step->engine))
        return wrong(form, "a signal of sm follows no event");
    return check_below(form, "event", step->after, PLAN_EVENTS_MAX);
}

static peal_status check_wait(const struct form *form)
{
    PEAL_TRY(check_no_data(form));
    PEAL_TRY(check_sem(form));
    PEAL_TRY(check_unused(form, "engine", form->step->engine == 0));
    return check_unused(form, "after", form->step->after == PLAN_NO_EVENT);
}

static peal_status check_await(const struct form *form)
{
    const struct plan_step *step = form->step;
    PEAL_TRY(check_no_data(form));
    PEAL_TRY(check_unused(form, "engine", step->engine == 0));
    PEAL_TRY(check_unused(form, "lag", step->lag == 0));
    PEAL_TRY(check_unused(form, "peer", step->peer == 0));
    PEAL_TRY(check_unused(form, "sem", step->sem == 0));
    PEAL_TRY(check_unused(form, "after", step->after == PLAN_NO_EVENT));
    PEAL_TRY(check_below(form, "event", step->event, PLAN_EVENTS_MAX));
    return check_below(form, "what", step->what, 2);
}

/* Counts are told once a call, before anything moves. */
static peal_status check_count(const struct form *form)
{
    if (form->plan->collective != PEAL_ALLTOALLV)
        return wrong(form, "only alltoallv has counts");
    if (form->step_in_lane >= form->pre)
        return wrong(form, "counts are told and learned in pre");
    return form->step->peer == form->rank ? wrong(form, "a rank knows its own counts") : PEAL_OK;
}

static peal_status check_tell(const struct form *form)
{
    PEAL_TRY(check_signal(form));
    PEAL_TRY(check_unused(form, "after", form->step->after == PLAN_NO_EVENT));
    return check_count(form);
}

static peal_status check_learn(const struct form *form)
{
    PEAL_TRY(check_wait(form));
    PEAL_TRY(check_unused(form, "lag", form->step->lag == 0));
    return check_count(form);
}

static peal_status check_step(const struct form *form)
{
    PEAL_TRY(check_below(form, "opcode", form->step->op, PLAN_OPCODE_COUNT));
    switch (form->step->op) {
    case PLAN_SIGNAL:
        return check_signal(form);
    case PLAN_WAIT:
        return check_wait(form);
    case PLAN_AWAIT:
        return check_await(form);
    case PLAN_TELL:
        return check_tell(form);
    case PLAN_LEARN:
        return check_learn(form);
    default:
        return check_data(form);
    }
}

/* ---- ranks */

/* A few bytes may stand for many moves; what they take to run and to prove is bounded here. */
static peal_status check_moves(const struct form *form, const struct plan_rank *rank)
{
    uint64_t moves = 0;
    for (uint32_t i = 0; i < rank->nsteps; i++) {
        const struct plan_step *step = &rank->steps[i];
        moves += ((uint64_t)step->nsrc + step->ndst) * ((uint64_t)step->more + 1);
        if (moves > PLAN_MOVES_MAX)
            return wrong(form, "the spans of a rank have more than 2^28 operands");
    }
    return PEAL_OK;
}

static peal_status check_lane(struct form *form, const struct plan_rank *rank, uint32_t index)
{
    const struct plan_lane *lane = &rank->lanes[index];
    form->place.lane = index;
    form->pre = lane->pre;
    uint64_t count = (uint64_t)lane->pre + lane->body + lane->post;
    if (lane->first > rank->nsteps || count > rank->nsteps - lane->first)
        return wrong(form, "steps beyond those of the rank");
    for (uint32_t i = 0; i < count; i++) {
        form->step = &rank->steps[lane->first + i];
        form->step_in_lane = i;
        form->place.step = (int64_t)lane->first + i;
        PEAL_TRY(check_step(form));
    }
    form->step = NULL;
    form->place.step = -1;
    form->place.lane = -1;
    return PEAL_OK;
}

static peal_status check_rank(struct form *form, const struct plan_rank *rank, uint32_t index)
{
    form->program = rank;
    form->rank = index;
    form->place.rank = index;
    if (!text_ok(rank->busid, sizeof rank->busid) || !text_ok(rank->nic, sizeof rank->nic))
        return wrong(form, "busid and nic are printable ASCII without quotes, of at most 23 bytes");
    PEAL_TRY(check_below(form, "host", rank->host, PLAN_RANKS_MAX));
    PEAL_TRY(check_below(form, "the number of lanes", rank->nlanes, PLAN_LANES_MAX + 1));
    uint64_t steps = 0;
    for (uint32_t i = 0; i < rank->nlanes; i++) {
        PEAL_TRY(check_lane(form, rank, i));
        steps += (uint64_t)rank->lanes[i].pre + rank->lanes[i].body + rank->lanes[i].post;
    }
    if (steps != rank->nsteps)
        return wrong(form, "the lanes do not hold each step of the rank once");
    PEAL_TRY(check_moves(form, rank));
    form->place.rank = -1;
    return PEAL_OK;
}

/* ---- the plan as a whole */

/* What follows is about this. */
static void turn_to(struct form *form, enum plan_part part, uint32_t index)
{
    form->place.part = part;
    form->place.index = index;
}

static peal_status check_regions(struct form *form)
{
    const struct peal_plan *plan = form->plan;
    PEAL_TRY(check_below(form, "the number of regions", plan->nregions, PLAN_REGIONS_MAX + 1));
    for (uint32_t i = 0; i < plan->nregions; i++) {
        const struct plan_region *region = &plan->regions[i];
        turn_to(form, PLAN_PART_REGION, i);
        if (region->buffer != PLAN_BUF_SCRATCH && region->buffer != PLAN_BUF_PACKET)
            return wrong(form, "a region is neither scratch nor packet");
        PEAL_TRY(check_below(form, "a region's wire format", region->wire, PLAN_WIRE_COUNT));
        if (region->wire && region->buffer != PLAN_BUF_SCRATCH)
            return wrong(form, "only a scratch region has wire slots");
        if (!region->width || !region->depth || !region->slot_bytes)
            return wrong(form, "a region's width, depth and slot are at least 1");
        PEAL_TRY(check_below(form, "slot bytes", region->slot_bytes, PLAN_SLOT_BYTES_MAX + 1));
    }
    if (peal_plan_memory_bytes(plan, PLAN_BUF_SCRATCH) > PLAN_MEMORY_MAX ||
        peal_plan_memory_bytes(plan, PLAN_BUF_PACKET) > PLAN_MEMORY_MAX)
        return wrong(form, "the regions take more than 2^48 bytes");
    return PEAL_OK;
}

static peal_status check_links(struct form *form)
{
    const struct peal_plan *plan = form->plan;
    for (uint32_t i = 0; i < form->nlinks; i++) {
        const struct plan_link *link = &form->links[i];
        turn_to(form, PLAN_PART_LINK, i);
        PEAL_TRY(check_below(form, "a link's rank", link->from, plan->nranks));
        PEAL_TRY(check_below(form, "a link's rank", link->to, plan->nranks));
        PEAL_TRY(check_below(form, "a link's class", link->link_class, PEAL_LINK_CLASS_COUNT));
        PEAL_TRY(check_below(form, "a link's field direct", link->direct, 2));
        PEAL_TRY(check_below(form, "a link's field multicast", link->multicast, link->direct + 1u));
        if (link->from == link->to)
            return wrong(form, "a link runs from a rank to itself");
        if (!text_ok(link->via, sizeof link->via))
            return wrong(form, "via is printable ASCII without quotes, of at most 88 bytes");
    }
    return PEAL_OK;
}

static peal_status check_weights(struct form *form)
{
    const struct peal_plan *plan = form->plan;
    uint64_t sum = 0;
    turn_to(form, PLAN_PART_CHUNKS, 0);
    for (uint32_t i = 0; plan->weights && i < plan->nchunks; i++) {
        if (plan->weights[i] == 0)
            return wrong(form, "a chunk's weight is at least 1");
        sum += plan->weights[i];
    }
    return check_below(form, "the sum of the weights", sum, 1ull << 32);
}

static peal_status check_sizes(struct form *form)
{
    const struct peal_plan *plan = form->plan;
    PEAL_TRY(check_below(form, "max bytes", plan->max_bytes, 1ull << 63));
    if (plan->min_bytes > plan->max_bytes)
        return wrong(form, "min bytes is larger than max bytes");
    turn_to(form, PLAN_PART_CHUNKS, 0);
    if (plan->nchunks == 0)
        return wrong(form, "a plan has at least one chunk");
    if (plan->nchunks % peal_plan_blocks(plan))
        return wrong(form, "the chunks are not equally many for each block of the message");
    PEAL_TRY(check_below(form, "the number of chunks", plan->nchunks, PLAN_CHUNKS_MAX + 1));
    turn_to(form, PLAN_PART_TILE, 0);
    if (plan->tile_bytes % PLAN_ALIGN)
        return wrong(form, "tile is not a multiple of 128 bytes");
    if (plan->tile_bytes && plan->max_bytes / plan->tile_bytes >= PLAN_TRIPS_MAX)
        return wrong(form, "max bytes is more than 2^31 tiles");
    turn_to(form, PLAN_PART_SEMAPHORES, 0);
    return check_below(form, "the number of semaphores", plan->nsems, PLAN_SEMS_MAX + 1);
}

/* Root and peer, where the collective has them, and 0 where not: one encoding for each plan. */
static peal_status check_ends(struct form *form)
{
    const struct peal_plan *plan = form->plan;
    int rooted = peal_plan_collective(plan->collective)->rooted;
    PEAL_TRY(check_below(form, "the root", plan->root, rooted ? plan->nranks : 1));
    PEAL_TRY(check_below(form, "the peer", plan->peer,
                         plan->collective == PEAL_SENDRECV ? plan->nranks : 1));
    if (plan->npairs && plan->collective != PEAL_SENDRECV)
        return wrong(form, "only sendrecv has pairs");
    if (plan->npairs && plan->root != plan->peer)
        return wrong(form, "root and peer of a list of pairs are its number, and equal");
    if (plan->collective == PEAL_SENDRECV && plan->root == plan->peer && !plan->npairs)
        return wrong(form, "a rank sends to itself");
    PEAL_TRY(check_below(form, "the number of pairs", plan->npairs, PLAN_PAIRS_MAX + 1));
    for (uint32_t i = 0; i < 2 * plan->npairs; i++) {
        turn_to(form, PLAN_PART_PAIR, i / 2);
        PEAL_TRY(check_below(form, "a pair's rank", plan->pairs[i], plan->nranks));
    }
    turn_to(form, PLAN_PART_HEAD, 0);
    return PEAL_OK;
}

static peal_status check_list(const struct form *form, const uint32_t *ranks, uint32_t count)
{
    if (!count)
        return wrong(form, "a block of a custom collective has somebody who gives and who gets it");
    for (uint32_t i = 0; i < count; i++) {
        PEAL_TRY(check_below(form, "a block's rank", ranks[i], form->plan->nranks));
        if (i && ranks[i] <= ranks[i - 1])
            return wrong(form, "the ranks of a block rise");
    }
    return PEAL_OK;
}

static peal_status check_blocks(struct form *form)
{
    const struct peal_plan *plan = form->plan;
    if ((plan->nblocks != 0) != (plan->collective == PEAL_CUSTOM))
        return wrong(form, "custom has blocks, and nothing else has");
    PEAL_TRY(check_below(form, "the number of blocks", plan->nblocks, PLAN_PAIRS_MAX + 1));
    for (uint32_t i = 0; i < plan->nblocks; i++) {
        struct peal_block block = peal_plan_block(plan, i);
        turn_to(form, PLAN_PART_BLOCK, i);
        PEAL_TRY(check_list(form, block.from, block.nfrom));
        PEAL_TRY(check_list(form, block.to, block.nto));
    }
    return PEAL_OK;
}

static peal_status check_plan(struct form *form)
{
    const struct peal_plan *plan = form->plan;
    PEAL_TRY(check_below(form, "collective", plan->collective, PEAL_COLLECTIVE_COUNT));
    if (plan->nranks == 0)
        return wrong(form, "a plan has at least one rank");
    PEAL_TRY(check_below(form, "the number of ranks", plan->nranks, PLAN_RANKS_MAX + 1));
    PEAL_TRY(check_ends(form));
    PEAL_TRY(check_blocks(form));
    turn_to(form, PLAN_PART_ALGORITHM, 0);
    if (!algorithm_ok(plan->algorithm, sizeof plan->algorithm))
        return wrong(form, "algorithm is 1 to 63 of a-z, 0-9 and -");
    turn_to(form, PLAN_PART_DETAIL, 0);
    if (!text_ok(plan->detail, sizeof plan->detail))
        return wrong(form, "detail is printable ASCII without quotes, of at most 127 bytes");
    turn_to(form, PLAN_PART_HEAD, 0);
    PEAL_TRY(check_sizes(form));
    PEAL_TRY(check_weights(form));
    return check_regions(form);
}

/* A slice knows itself by its origin, and no link that is not its rank's. */
static peal_status check_sliced(struct form *form)
{
    const struct peal_plan *plan = form->plan;
    turn_to(form, PLAN_PART_HEAD, 0);
    if (!plan->origin.low && !plan->origin.high)
        return wrong(form, "a slice has to state the origin of its plan");
    for (uint32_t i = 0; i < form->nlinks; i++) {
        turn_to(form, PLAN_PART_LINK, i);
        if (form->links[i].from != plan->slice_rank && form->links[i].to != plan->slice_rank)
            return wrong(form, "a link of a slice has no end at its rank");
    }
    return PEAL_OK;
}

/* Running sums of the weights, so that a chunk's place takes no loop. */
static peal_status make_prefix(struct peal_plan *plan)
{
    size_t count = (size_t)plan->nchunks + 1;
    peal_free(plan->ctx, plan->prefix, count * sizeof *plan->prefix);
    plan->prefix = NULL;
    if (!plan->weights)
        return PEAL_OK;
    uint32_t *prefix = peal_calloc(plan->ctx, count, sizeof *prefix);
    if (!prefix)
        return PEAL_ERR_MEMORY;
    for (uint32_t i = 0; i < plan->nchunks; i++)
        prefix[i + 1] = prefix[i] + plan->weights[i];
    plan->prefix = prefix;
    return PEAL_OK;
}

peal_status peal_plan_check_form(struct peal_plan *plan, const char *path, struct plan_place *place,
                                 peal_diag *diag)
{
    struct form form = {.plan = plan,
                        .links = plan->links,
                        .nlinks = plan->nlinks,
                        .path = path,
                        .diag = diag,
                        .place = {.rank = -1, .lane = -1, .step = -1}};
    peal_status status = check_plan(&form);
    if (status == PEAL_OK)
        status = check_links(&form);
    if (status == PEAL_OK && plan->sliced)
        status = check_sliced(&form);
    for (uint32_t r = peal_plan_first(plan); status == PEAL_OK && r < peal_plan_end(plan); r++)
        status = check_rank(&form, peal_plan_program(plan, r), r);
    if (place)
        *place = form.place;
    PEAL_TRY(status);
    status = make_prefix(plan);
    return status == PEAL_OK ? PEAL_OK : peal_fail(diag, status, "out of memory");
}

peal_status peal_plan_check_head(const struct peal_plan *head, peal_diag *diag)
{
    struct form form = {.plan = head, .diag = diag, .place = {.rank = -1, .lane = -1, .step = -1}};
    return check_plan(&form);
}

peal_status peal_plan_check_slice(const struct peal_plan *head, uint32_t rank,
                                  const struct plan_slice *slice, peal_diag *diag)
{
    struct form form = {.plan = head,
                        .links = slice->links,
                        .nlinks = slice->nlinks,
                        .diag = diag,
                        .place = {.rank = -1, .lane = -1, .step = -1}};
    PEAL_TRY(check_links(&form));
    return check_rank(&form, &slice->program, rank);
}
