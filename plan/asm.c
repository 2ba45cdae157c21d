/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text form, read back. Line ends mean no more than other blanks: what something is
 * follows from its first word. Every form error is reported at the step or setting that has it.
 */
#include "asm.h"

#include <string.h>

#define RANK_TEXT_BYTES 6u /* "rank 0": the least that declares one */

/* Where each rank, step or setting of the plan at hand was written, for form errors. */
struct asm_places {
    uint32_t *at;
    uint32_t capacity;
    uint32_t count;
};

struct assembler {
    struct asm_source in;
    struct peal_plan **plans; /* done, in order */
    uint32_t nplans;
    uint32_t plans_capacity;
    struct peal_plan *plan;  /* at hand */
    struct asm_places steps; /* of all its ranks, in order */
    struct asm_places ranks;
    struct asm_places parts[PLAN_PARTS]; /* the settings */
    struct asm_places places;            /* of the plans */
    size_t plan_at;
    uint32_t rank;
    uint32_t seen; /* settings of the plan or rank, as bits */
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const engine_words[] = {
#define ENGINE(id, name, reduces, async) name,
#include "names.def"
#undef ENGINE
};
static const char *const class_words[] = {
#define LINK_CLASS(id, name) name,
#include "names.def"
#undef LINK_CLASS
};
static const char *const collective_words[] = {
#define COLLECTIVE(id, name) name,
#include "names.def"
#undef COLLECTIVE
};
static const char *const step_words[] = {
#define X(id, name, moves, text) name,
#include "opcodes.def"
#undef X
};

static const struct asm_choice engines = {"an engine", engine_words, COUNT(engine_words)};
static const struct asm_choice classes = {"a link class", class_words, COUNT(class_words)};
static const struct asm_choice collectives = {"a collective", collective_words,
                                              COUNT(collective_words)};

static struct plan_rank *self_of(const struct assembler *as)
{
    return peal_plan_program(as->plan, as->rank);
}

/* ---- memory */

static peal_status memory_status(struct assembler *as, peal_status status)
{
    return status == PEAL_OK ? PEAL_OK
                             : peal_asm_fail(&as->in, status, as->in.at, peal_status_text(status));
}

static peal_status remember(struct assembler *as, struct asm_places *places, size_t at)
{
    PEAL_TRY(
        memory_status(as, peal_grow(as->in.ctx, (void **)(void *)&places->at, &places->capacity,
                                    (size_t)places->count + 1, sizeof *places->at, UINT32_MAX)));
    places->at[places->count++] = (uint32_t)at;
    return PEAL_OK;
}

/* A setting that may be given once. */
static peal_status once(struct assembler *as, size_t at, uint32_t bit)
{
    if (as->seen & bit)
        return peal_asm_fail(&as->in, PEAL_ERR_INPUT, at, "this is given twice");
    as->seen |= bit;
    return PEAL_OK;
}

/* ---- operands */

static int is_operand(struct asm_word word)
{
    return peal_asm_word_is(word, "in") || peal_asm_word_is(word, "out") ||
           peal_asm_is_tagged(word, 's') || peal_asm_is_tagged(word, 'p') ||
           peal_asm_is_tagged(word, 'r');
}

static peal_status read_index(struct asm_source *in, uint64_t most, uint64_t *value)
{
    PEAL_TRY(peal_asm_mark(in, "["));
    PEAL_TRY(peal_asm_number(in, "an index", most, value));
    return peal_asm_mark(in, "]");
}

static peal_status read_chunk_operand(struct asm_source *in, uint8_t buffer,
                                      struct plan_operand *operand)
{
    uint64_t index = 0;
    PEAL_TRY(read_index(in, UINT32_MAX, &index));
    operand->buffer = buffer;
    operand->index = (uint32_t)index;
    return PEAL_OK;
}

static peal_status read_slot_operand(struct asm_source *in, struct plan_operand *operand)
{
    int packet = peal_asm_is_tagged(peal_asm_peek(in), 'p');
    uint64_t slot = 0;
    PEAL_TRY(peal_asm_tagged(in, packet ? 'p' : 's', "in[], out[], sR[] or pR[]",
                             PLAN_REGIONS_MAX - 1, &operand->index));
    PEAL_TRY(read_index(in, UINT16_MAX, &slot));
    operand->buffer = packet ? PLAN_BUF_PACKET : PLAN_BUF_SCRATCH;
    operand->slot = (uint16_t)slot;
    return PEAL_OK;
}

static peal_status read_operand(struct assembler *as, struct plan_operand *operand)
{
    struct asm_source *in = &as->in;
    operand->rank = as->rank;
    if (peal_asm_is_tagged(peal_asm_peek(in), 'r')) {
        PEAL_TRY(peal_asm_tagged(in, 'r', "a rank", UINT32_MAX, &operand->rank));
        PEAL_TRY(peal_asm_mark(in, "."));
    }
    if (peal_asm_accept(in, "in"))
        PEAL_TRY(read_chunk_operand(in, PLAN_BUF_IN, operand));
    else if (peal_asm_accept(in, "out"))
        PEAL_TRY(read_chunk_operand(in, PLAN_BUF_OUT, operand));
    else
        PEAL_TRY(read_slot_operand(in, operand));
    size_t at = peal_asm_skip(in);
    if (!peal_asm_accept_mark(in, "@"))
        return PEAL_OK;
    PEAL_TRY(peal_asm_u32(in, "a link's number", &operand->link));
    return operand->link ? PEAL_OK
                         : peal_asm_fail(in, PEAL_ERR_INPUT, at, "links are counted from 1");
}

/* One or more operands; *count must stay within a byte. */
static peal_status read_operands(struct assembler *as, uint8_t *count)
{
    struct plan_rank *rank = self_of(as);
    uint32_t first = rank->noperands;
    do {
        if (rank->noperands - first == PLAN_OPERANDS_MAX)
            return peal_asm_fail(&as->in, PEAL_ERR_LIMIT, as->in.at, "more than 255 operands");
        PEAL_TRY(memory_status(as, peal_grow(as->in.ctx, (void **)(void *)&rank->operands,
                                             &rank->operands_capacity, (size_t)rank->noperands + 1,
                                             sizeof *rank->operands, UINT32_MAX)));
        struct plan_operand operand = {.link = PLAN_NO_LINK};
        PEAL_TRY(read_operand(as, &operand));
        rank->operands[rank->noperands++] = operand;
    } while (is_operand(peal_asm_peek(&as->in)));
    *count = (uint8_t)(rank->noperands - first);
    return PEAL_OK;
}

/* ---- steps */

static peal_status read_event(struct asm_source *in, uint8_t *event)
{
    uint32_t number = 0;
    PEAL_TRY(peal_asm_tagged(in, 'e', "an event, e0 to e15", PLAN_EVENTS_MAX - 1, &number));
    *event = (uint8_t)number;
    return PEAL_OK;
}

static peal_status read_engine(struct asm_source *in, uint8_t *engine)
{
    uint32_t index = 0;
    PEAL_TRY(peal_asm_choose(in, &engines, &index));
    *engine = (uint8_t)index;
    return PEAL_OK;
}

/* Behind the chunk, where there are several: how many, and how far apart when not side by side. */
static peal_status read_span(struct asm_source *in, struct plan_step *step)
{
    uint32_t span = 0;
    if (!peal_asm_accept_mark(in, "*"))
        return PEAL_OK;
    size_t at = peal_asm_skip(in);
    PEAL_TRY(peal_asm_u32(in, "a number of chunks", &span));
    if (span < 2)
        return peal_asm_fail(in, PEAL_ERR_INPUT, at, "a span has at least 2 chunks");
    step->more = span - 1;
    step->stride = 1;
    if (peal_asm_accept_mark(in, "+"))
        PEAL_TRY(peal_asm_u32(in, "chunks from one to the next", &step->stride));
    at = peal_asm_skip(in);
    if (!peal_asm_accept_mark(in, "~"))
        return PEAL_OK;
    uint32_t jump = 0;
    PEAL_TRY(peal_asm_u32(in, "slots from one to the next", &jump));
    if (jump < 2 || jump > UINT16_MAX)
        return peal_asm_fail(in, PEAL_ERR_INPUT, at, "slots lie from 2 to 65535 apart");
    step->skip = (uint16_t)(jump - 1);
    return PEAL_OK;
}

static peal_status read_data(struct assembler *as, struct plan_step *step)
{
    struct asm_source *in = &as->in;
    PEAL_TRY(peal_asm_tagged(in, 'c', "a chunk, as in c3:", UINT32_MAX, &step->chunk));
    PEAL_TRY(read_span(in, step));
    PEAL_TRY(peal_asm_mark(in, ":"));
    step->operands = self_of(as)->noperands;
    PEAL_TRY(read_operands(as, &step->nsrc));
    PEAL_TRY(peal_asm_mark(in, "->"));
    PEAL_TRY(read_operands(as, &step->ndst));
    PEAL_TRY(read_engine(in, &step->engine));
    if (peal_plan_engine_async(step->engine))
        PEAL_TRY(read_event(in, &step->event));
    if (peal_asm_accept(in, "final"))
        step->flags = PLAN_FLAG_FINAL;
    return PEAL_OK;
}

static peal_status read_semaphore(struct asm_source *in, struct plan_step *step)
{
    uint64_t sem = 0;
    PEAL_TRY(peal_asm_tagged(in, 'r', "a rank and semaphore, as in r1.0", UINT32_MAX, &step->peer));
    PEAL_TRY(peal_asm_mark(in, "."));
    PEAL_TRY(peal_asm_number(in, "a semaphore's number", UINT16_MAX, &sem));
    step->sem = (uint16_t)sem;
    return PEAL_OK;
}

static peal_status read_signal(struct asm_source *in, struct plan_step *step)
{
    PEAL_TRY(read_semaphore(in, step));
    PEAL_TRY(read_engine(in, &step->engine));
    return peal_asm_accept(in, "after") ? read_event(in, &step->after) : PEAL_OK;
}

static peal_status read_wait(struct asm_source *in, struct plan_step *step)
{
    uint64_t lag = 0;
    PEAL_TRY(read_semaphore(in, step));
    if (!peal_asm_accept(in, "lag"))
        return PEAL_OK;
    PEAL_TRY(peal_asm_number(in, "a lag of at most 65535", UINT16_MAX, &lag));
    step->lag = (uint16_t)lag;
    return PEAL_OK;
}

static peal_status read_await(struct asm_source *in, struct plan_step *step)
{
    static const char *const words[] = {"free", "delivered"};
    static const struct asm_choice what = {"free or delivered", words, COUNT(words)};
    uint32_t index = 0;
    PEAL_TRY(read_event(in, &step->event));
    PEAL_TRY(peal_asm_choose(in, &what, &index));
    step->what = (uint8_t)index;
    return PEAL_OK;
}

static peal_status read_step_tail(struct assembler *as, struct plan_step *step)
{
    switch (step->op) {
    case PLAN_SIGNAL:
        return read_signal(&as->in, step);
    case PLAN_WAIT:
        return read_wait(&as->in, step);
    case PLAN_AWAIT:
        return read_await(&as->in, step);
    case PLAN_TELL:
        PEAL_TRY(read_semaphore(&as->in, step));
        return read_engine(&as->in, &step->engine);
    case PLAN_LEARN:
        return read_semaphore(&as->in, step);
    default:
        return read_data(as, step);
    }
}

static peal_status read_step(struct assembler *as, uint8_t op, size_t at)
{
    struct plan_rank *rank = self_of(as);
    struct plan_step step = {.op = op, .event = PLAN_NO_EVENT, .after = PLAN_NO_EVENT};
    PEAL_TRY(read_step_tail(as, &step));
    PEAL_TRY(memory_status(as, peal_grow(as->in.ctx, (void **)(void *)&rank->steps,
                                         &rank->steps_capacity, (size_t)rank->nsteps + 1,
                                         sizeof *rank->steps, UINT32_MAX)));
    rank->steps[rank->nsteps++] = step;
    return remember(as, &as->steps, at);
}

/* ---- lanes */

static const char *const lane_words[] = {
    "pre", "body", "post", "lane", "rank", "plan",
#define X(id, name, moves, text) name,
#include "opcodes.def"
#undef X
};
static const struct asm_choice in_lane = {"a step, pre, body, post, lane, rank or plan", lane_words,
                                          COUNT(lane_words)};

static int known_step(struct asm_word word, uint8_t *op)
{
    for (uint8_t i = 0; i < COUNT(step_words); i++) {
        if (peal_asm_word_is(word, step_words[i])) {
            *op = i;
            return 1;
        }
    }
    return 0;
}

/* Whether a lane ends here: at the end, or before the next lane, rank or plan. */
static int lane_ends(struct asm_source *in)
{
    if (peal_asm_ended(in))
        return 1;
    struct asm_word word = peal_asm_peek(in);
    return peal_asm_word_is(word, "lane") || peal_asm_word_is(word, "rank") ||
           peal_asm_word_is(word, "plan");
}

/* Enters the next word's section if it names one: 0 none yet, 1 pre, 2 body, 3 post. */
static peal_status enter_section(struct asm_source *in, uint32_t *section, int *entered)
{
    static const char *const words[] = {"pre", "body", "post"};
    struct asm_word word = peal_asm_peek(in);
    *entered = 0;
    for (uint32_t i = 0; i < COUNT(words); i++) {
        if (!peal_asm_word_is(word, words[i]))
            continue;
        if (i + 1 <= *section)
            return peal_asm_expected(in, "sections in the order pre, body, post");
        *section = i + 1;
        *entered = 1;
        in->at += word.length;
    }
    return PEAL_OK;
}

static peal_status read_lane_steps(struct assembler *as, uint32_t counts[4])
{
    struct asm_source *in = &as->in;
    uint32_t section = 0;
    while (!lane_ends(in)) {
        int entered;
        uint8_t op;
        PEAL_TRY(enter_section(in, &section, &entered));
        if (entered)
            continue;
        struct asm_word word = peal_asm_peek(in);
        size_t at = in->at;
        if (!known_step(word, &op))
            return peal_asm_unknown(in, &in_lane);
        if (section == 0)
            return peal_asm_expected(in, "pre, body or post before the first step");
        in->at += word.length;
        PEAL_TRY(read_step(as, op, at));
        counts[section]++;
    }
    return PEAL_OK;
}

static peal_status read_lane(struct assembler *as)
{
    struct plan_rank *rank = self_of(as);
    if (rank->nlanes == PLAN_LANES_MAX)
        return peal_asm_fail(&as->in, PEAL_ERR_LIMIT, as->in.at, "more than 64 lanes");
    PEAL_TRY(memory_status(as, peal_grow(as->in.ctx, (void **)(void *)&rank->lanes,
                                         &rank->lanes_capacity, (size_t)rank->nlanes + 1,
                                         sizeof *rank->lanes, PLAN_LANES_MAX)));
    uint32_t first = rank->nsteps;
    uint32_t counts[4] = {0, 0, 0, 0};
    PEAL_TRY(read_lane_steps(as, counts));
    rank->lanes[rank->nlanes++] = (struct plan_lane){first, counts[1], counts[2], counts[3]};
    return PEAL_OK;
}

/* ---- ranks */

static peal_status read_rank_setting(struct assembler *as, struct plan_rank *rank, int *found)
{
    struct asm_source *in = &as->in;
    size_t at = peal_asm_skip(in);
    *found = 1;
    if (peal_asm_accept(in, "host")) {
        PEAL_TRY(once(as, at, 1));
        return peal_asm_u32(in, "a host's number", &rank->host);
    }
    if (peal_asm_accept(in, "arch")) {
        PEAL_TRY(once(as, at, 2));
        return peal_asm_u32(in, "a compute capability times ten", &rank->arch);
    }
    if (peal_asm_accept(in, "busid")) {
        PEAL_TRY(once(as, at, 4));
        return peal_asm_quoted(in, rank->busid, sizeof rank->busid);
    }
    if (peal_asm_accept(in, "nic")) {
        PEAL_TRY(once(as, at, 8));
        return peal_asm_quoted(in, rank->nic, sizeof rank->nic);
    }
    *found = 0;
    return PEAL_OK;
}

static const char *const rank_words[] = {"host", "arch", "busid", "nic", "lane", "rank", "plan"};
static const struct asm_choice in_rank = {"host, arch, busid, nic, lane, rank or plan", rank_words,
                                          COUNT(rank_words)};

static peal_status read_rank(struct assembler *as)
{
    struct asm_source *in = &as->in;
    struct plan_rank *rank = self_of(as);
    size_t at = peal_asm_skip(in);
    PEAL_TRY(peal_asm_word(in, "rank"));
    PEAL_TRY(remember(as, &as->ranks, at));
    at = peal_asm_skip(in);
    uint64_t number = 0;
    PEAL_TRY(peal_asm_number(in, "a rank's number", PLAN_RANKS_MAX, &number));
    if (number != as->rank)
        return peal_asm_fail(in, PEAL_ERR_INPUT, at,
                             as->plan->sliced ? "a slice holds the program of its own rank"
                                              : "ranks are written in order, from 0");
    as->seen = 0;
    int found = 1;
    while (found)
        PEAL_TRY(read_rank_setting(as, rank, &found));
    while (peal_asm_accept(in, "lane"))
        PEAL_TRY(read_lane(as));
    return lane_ends(in) ? PEAL_OK : peal_asm_unknown(in, &in_rank);
}

/* ---- what all ranks share */

static peal_status read_weights(struct assembler *as)
{
    struct asm_source *in = &as->in;
    struct peal_plan *plan = as->plan;
    if (plan->nchunks > (in->bytes - in->at) / 2)
        return peal_asm_fail(in, PEAL_ERR_INPUT, in->at, "fewer weights than chunks");
    plan->weights = peal_calloc(in->ctx, plan->nchunks, sizeof *plan->weights);
    if (!plan->weights)
        return memory_status(as, PEAL_ERR_MEMORY);
    for (uint32_t i = 0; i < plan->nchunks; i++)
        PEAL_TRY(peal_asm_u32(in, "a weight for each chunk", &plan->weights[i]));
    return PEAL_OK;
}

static peal_status read_chunks(struct assembler *as)
{
    uint64_t count = 0;
    PEAL_TRY(
        peal_asm_number(&as->in, "a number of chunks, at most 4194304", PLAN_CHUNKS_MAX, &count));
    as->plan->nchunks = (uint32_t)count;
    return peal_asm_accept(&as->in, "weights") ? read_weights(as) : PEAL_OK;
}

static peal_status read_region_wire(struct asm_source *in, struct plan_region *region)
{
    static const char *const words[] = {"bf16", "fp8"};
    static const struct asm_choice formats = {"bf16 or fp8", words, COUNT(words)};
    uint32_t format = 0;
    if (!peal_asm_accept(in, "wire"))
        return PEAL_OK;
    PEAL_TRY(peal_asm_choose(in, &formats, &format));
    region->wire = (uint8_t)(format + 1);
    return PEAL_OK;
}

static peal_status read_region_sizes(struct asm_source *in, struct plan_region *region)
{
    uint64_t width = 0;
    uint64_t depth = 0;
    PEAL_TRY(peal_asm_word(in, "width"));
    PEAL_TRY(peal_asm_number(in, "a width of at most 65535", UINT16_MAX, &width));
    PEAL_TRY(peal_asm_word(in, "depth"));
    PEAL_TRY(peal_asm_number(in, "a depth of at most 65535", UINT16_MAX, &depth));
    PEAL_TRY(peal_asm_word(in, "slot"));
    PEAL_TRY(peal_asm_number(in, "bytes of a slot", UINT64_MAX, &region->slot_bytes));
    region->width = (uint16_t)width;
    region->depth = (uint16_t)depth;
    return PEAL_OK;
}

static peal_status read_region(struct assembler *as)
{
    static const char *const words[] = {"scratch", "packet"};
    static const struct asm_choice kinds = {"scratch or packet", words, COUNT(words)};
    struct peal_plan *plan = as->plan;
    struct plan_region region = {0};
    uint32_t kind = 0;
    PEAL_TRY(peal_asm_choose(&as->in, &kinds, &kind));
    region.buffer = kind ? PLAN_BUF_PACKET : PLAN_BUF_SCRATCH;
    PEAL_TRY(read_region_wire(&as->in, &region));
    PEAL_TRY(read_region_sizes(&as->in, &region));
    PEAL_TRY(memory_status(as, peal_grow(as->in.ctx, (void **)(void *)&plan->regions,
                                         &plan->regions_capacity, (size_t)plan->nregions + 1,
                                         sizeof *plan->regions, PLAN_REGIONS_MAX)));
    plan->regions[plan->nregions++] = region;
    return PEAL_OK;
}

static peal_status read_link(struct assembler *as)
{
    struct asm_source *in = &as->in;
    struct peal_plan *plan = as->plan;
    struct plan_link link = {0};
    uint32_t link_class = 0;
    PEAL_TRY(peal_asm_tagged(in, 'r', "a rank, as in r0", UINT32_MAX, &link.from));
    PEAL_TRY(peal_asm_mark(in, "->"));
    PEAL_TRY(peal_asm_tagged(in, 'r', "a rank, as in r0", UINT32_MAX, &link.to));
    PEAL_TRY(peal_asm_choose(in, &classes, &link_class));
    link.link_class = (uint8_t)link_class;
    link.direct = (uint8_t)peal_asm_accept(in, "direct");
    link.multicast = (uint8_t)(link.direct && peal_asm_accept(in, "multicast"));
    peal_asm_skip(in);
    if (in->at < in->bytes && in->text[in->at] == '"')
        PEAL_TRY(peal_asm_quoted(in, link.via, sizeof link.via));
    PEAL_TRY(memory_status(as, peal_grow(in->ctx, (void **)(void *)&plan->links,
                                         &plan->links_capacity, (size_t)plan->nlinks + 1,
                                         sizeof *plan->links, UINT32_MAX - 1)));
    plan->links[plan->nlinks++] = link;
    return PEAL_OK;
}

static peal_status read_pair(struct assembler *as)
{
    struct asm_source *in = &as->in;
    uint32_t from = 0, to = 0;
    PEAL_TRY(peal_asm_tagged(in, 'r', "a rank, as in r0", UINT32_MAX, &from));
    PEAL_TRY(peal_asm_mark(in, "->"));
    PEAL_TRY(peal_asm_tagged(in, 'r', "a rank, as in r0", UINT32_MAX, &to));
    return memory_status(as, peal_plan_add_pair(as->plan, from, to));
}

/* Ranks up to the next word that is none. */
static peal_status read_ranks(struct assembler *as, uint32_t *ranks, uint32_t *count)
{
    struct asm_source *in = &as->in;
    size_t at = peal_asm_skip(in);
    do {
        if (*count == PLAN_RANKS_MAX)
            return peal_asm_fail(in, PEAL_ERR_LIMIT, at, "more ranks than a plan has");
        PEAL_TRY(peal_asm_tagged(in, 'r', "a rank, as in r0", UINT32_MAX, &ranks[(*count)++]));
    } while (peal_asm_is_tagged(peal_asm_peek(in), 'r'));
    return PEAL_OK;
}

static peal_status read_block(struct assembler *as)
{
    peal_ctx *ctx = as->in.ctx;
    size_t room = 2 * (size_t)PLAN_RANKS_MAX * sizeof(uint32_t);
    uint32_t *from = peal_alloc(ctx, room), *to = from ? from + PLAN_RANKS_MAX : NULL;
    struct peal_block block = {0, 0, from, to};
    if (!from)
        return memory_status(as, PEAL_ERR_MEMORY);
    peal_status status = read_ranks(as, from, &block.nfrom);
    if (status == PEAL_OK)
        status = peal_asm_mark(&as->in, "->");
    if (status == PEAL_OK)
        status = read_ranks(as, to, &block.nto);
    if (status == PEAL_OK)
        status = memory_status(as, peal_plan_add_block(as->plan, &block));
    peal_free(ctx, from, room);
    return status;
}

enum setting {
    SET_ALGORITHM,
    SET_DETAIL,
    SET_CHANNELS,
    SET_PREDICTED,
    SET_BOUND,
    SET_ORIGIN,
    SET_TILE,
    SET_AHEAD,
    SET_CHUNKS,
    SET_SEMAPHORES,
    SET_REGION,
    SET_LINK,
    SET_PAIR,
    SET_BLOCK,
    SET_RANK /* the settings end here */
};
static const char *const setting_words[] = {
    "algorithm", "detail",     "channels", "predicted_ps", "bound_ps", "origin", "tile", "ahead",
    "chunks",    "semaphores", "region",   "link",         "pair",     "block",  "rank"};
static const uint8_t parts[] = {[SET_ALGORITHM] = PLAN_PART_ALGORITHM,
                                [SET_DETAIL] = PLAN_PART_DETAIL,
                                [SET_TILE] = PLAN_PART_TILE,
                                [SET_CHUNKS] = PLAN_PART_CHUNKS,
                                [SET_SEMAPHORES] = PLAN_PART_SEMAPHORES,
                                [SET_REGION] = PLAN_PART_REGION,
                                [SET_LINK] = PLAN_PART_LINK,
                                [SET_PAIR] = PLAN_PART_PAIR,
                                [SET_BLOCK] = PLAN_PART_BLOCK,
                                [SET_RANK] = PLAN_PART_HEAD};
static const struct asm_choice settings = {"a setting of the plan, or rank", setting_words,
                                           COUNT(setting_words)};

static peal_status read_semaphores(struct assembler *as)
{
    uint64_t count = 0;
    PEAL_TRY(peal_asm_number(&as->in, "a number of semaphores", UINT16_MAX, &count));
    as->plan->nsems = (uint16_t)count;
    return PEAL_OK;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* 32 hexadecimal digits, not all of them 0. */
static peal_status read_origin(struct assembler *as)
{
    struct asm_source *in = &as->in;
    struct peal_hash128 *origin = &as->plan->origin;
    size_t at = peal_asm_skip(in);
    char hex[64];
    PEAL_TRY(peal_asm_name(in, hex, sizeof hex));
    int good = strlen(hex) == 32;
    for (unsigned i = 0; good && i < 32; i++) {
        uint64_t *half = i < 16 ? &origin->high : &origin->low;
        good = hex_digit(hex[i]) >= 0;
        *half = *half << 4 | (uint64_t)(good ? hex_digit(hex[i]) : 0);
    }
    return good && (origin->low || origin->high)
               ? PEAL_OK
               : peal_asm_fail(in, PEAL_ERR_INPUT, at,
                               "an origin is 32 of 0-9 and a-f, not all of them 0");
}

static peal_status read_setting(struct assembler *as, uint32_t setting)
{
    struct asm_source *in = &as->in;
    struct peal_plan *plan = as->plan;
    switch (setting) {
    case SET_ALGORITHM:
        return peal_asm_name(in, plan->algorithm, sizeof plan->algorithm);
    case SET_DETAIL:
        return peal_asm_quoted(in, plan->detail, sizeof plan->detail);
    case SET_CHANNELS:
        return peal_asm_u32(in, "a number of channels", &plan->channels);
    case SET_PREDICTED:
        return peal_asm_number(in, "picoseconds", UINT64_MAX, &plan->time_ps);
    case SET_BOUND:
        return peal_asm_number(in, "picoseconds", UINT64_MAX, &plan->bound_ps);
    case SET_ORIGIN:
        return read_origin(as);
    case SET_TILE:
        return peal_asm_number(in, "bytes of a tile", UINT64_MAX, &plan->tile_bytes);
    case SET_AHEAD:
        plan->ahead = 1;
        return PEAL_OK;
    case SET_CHUNKS:
        return read_chunks(as);
    case SET_SEMAPHORES:
        return read_semaphores(as);
    case SET_REGION:
        return read_region(as);
    case SET_PAIR:
        return read_pair(as);
    case SET_BLOCK:
        return read_block(as);
    default:
        return read_link(as);
    }
}

/* Settings in any order, up to the first rank. */
static peal_status read_settings(struct assembler *as)
{
    struct asm_source *in = &as->in;
    as->seen = 0;
    while (!peal_asm_word_is(peal_asm_peek(in), "rank")) {
        size_t at = peal_asm_skip(in);
        uint32_t setting = 0;
        PEAL_TRY(peal_asm_choose(in, &settings, &setting));
        if (parts[setting] != PLAN_PART_HEAD)
            PEAL_TRY(remember(as, &as->parts[parts[setting]], at));
        if (setting != SET_REGION && setting != SET_LINK && setting != SET_PAIR &&
            setting != SET_BLOCK)
            PEAL_TRY(once(as, at, 1u << setting));
        PEAL_TRY(read_setting(as, setting));
    }
    if (!(as->seen & 1u << SET_ALGORITHM) || !(as->seen & 1u << SET_CHUNKS))
        return peal_asm_fail(in, PEAL_ERR_INPUT, as->plan_at,
                             "a plan needs algorithm and chunks before its ranks");
    return PEAL_OK;
}

/* ---- plans */

/* Where the form error was written. */
static size_t place_in_text(const struct assembler *as, const struct plan_place *place)
{
    const struct asm_places *part = &as->parts[place->part];
    if (place->rank < 0)
        return place->index < part->count ? part->at[place->index] : as->plan_at;
    uint32_t first = peal_plan_first(as->plan);
    if (place->step < 0)
        return as->ranks.at[place->rank - first];
    size_t before = 0;
    for (uint32_t r = first; r < place->rank; r++)
        before += peal_plan_program(as->plan, r)->nsteps;
    return as->steps.at[before + (size_t)place->step];
}

static peal_status check_form(struct assembler *as)
{
    peal_diag diag = PEAL_DIAG_INIT;
    struct plan_place place;
    peal_status status = peal_plan_check_form(as->plan, NULL, &place, &diag);
    if (status == PEAL_ERR_PLAN)
        return peal_asm_fail(&as->in, status, place_in_text(as, &place), diag.text);
    PEAL_TRY(memory_status(as, status));
    return peal_plan_identify(as->plan, as->in.diag);
}

/* "slice R": the program of one rank follows, whatever their number. */
static peal_status begin_slice(struct assembler *as, uint32_t ranks)
{
    struct asm_source *in = &as->in;
    uint32_t rank = 0;
    size_t at = peal_asm_skip(in);
    PEAL_TRY(peal_asm_u32(in, "the rank of the slice", &rank));
    if (rank >= ranks)
        return peal_asm_fail(in, PEAL_ERR_INPUT, at, "a slice of a rank beyond the plan's");
    return memory_status(as, peal_plan_create_slice(in->ctx, ranks, rank, &as->plan));
}

static peal_status begin_plan(struct assembler *as)
{
    struct asm_source *in = &as->in;
    uint32_t collective = 0;
    uint64_t ranks = 0;
    as->plan_at = peal_asm_skip(in);
    PEAL_TRY(peal_asm_word(in, "plan"));
    PEAL_TRY(peal_asm_choose(in, &collectives, &collective));
    PEAL_TRY(peal_asm_word(in, "ranks"));
    size_t at = peal_asm_skip(in);
    PEAL_TRY(peal_asm_number(in, "a number of ranks, at most 65536", PLAN_RANKS_MAX, &ranks));
    if (peal_asm_accept(in, "slice"))
        PEAL_TRY(begin_slice(as, (uint32_t)ranks));
    else if (ranks == 0 || ranks > (in->bytes - in->at) / RANK_TEXT_BYTES)
        return peal_asm_fail(in, PEAL_ERR_INPUT, at,
                             "each rank has to be written, and there is at least one");
    else
        PEAL_TRY(memory_status(as, peal_plan_create(in->ctx, (uint32_t)ranks, &as->plan)));
    as->plan->collective = (peal_collective)collective;
    if (peal_asm_accept(in, "root"))
        PEAL_TRY(peal_asm_u32(in, "the root's rank", &as->plan->root));
    if (peal_asm_accept(in, "peer"))
        PEAL_TRY(peal_asm_u32(in, "the receiver's rank", &as->plan->peer));
    PEAL_TRY(peal_asm_word(in, "bytes"));
    PEAL_TRY(peal_asm_number(in, "a size in bytes", UINT64_MAX, &as->plan->min_bytes));
    PEAL_TRY(peal_asm_mark(in, ".."));
    return peal_asm_number(in, "a size in bytes", UINT64_MAX, &as->plan->max_bytes);
}

static peal_status read_plan(struct assembler *as)
{
    as->steps.count = 0;
    as->ranks.count = 0;
    for (uint32_t i = 0; i < PLAN_PARTS; i++)
        as->parts[i].count = 0;
    PEAL_TRY(begin_plan(as));
    PEAL_TRY(read_settings(as));
    uint32_t end = peal_plan_end(as->plan);
    for (as->rank = peal_plan_first(as->plan); as->rank < end; as->rank++)
        PEAL_TRY(read_rank(as));
    PEAL_TRY(check_form(as));
    PEAL_TRY(
        memory_status(as, peal_grow(as->in.ctx, (void **)(void *)&as->plans, &as->plans_capacity,
                                    (size_t)as->nplans + 1, sizeof *as->plans, WIRE_ROWS_MAX)));
    as->plans[as->nplans++] = as->plan;
    as->plan = NULL;
    return remember(as, &as->places, as->plan_at);
}

static peal_status read_header(struct asm_source *in)
{
    uint64_t version = 0;
    PEAL_TRY(peal_asm_word(in, "peal-table"));
    size_t at = peal_asm_skip(in);
    PEAL_TRY(peal_asm_number(in, "the version of the text form", UINT32_MAX, &version));
    if (version != TEXT_VERSION)
        return peal_asm_fail(
            in, PEAL_ERR_UNSUPPORTED, at,
            "a version of the text form that this library does not read; it reads 1");
    return PEAL_OK;
}

static peal_status read_text(struct assembler *as)
{
    PEAL_TRY(peal_asm_check(&as->in));
    PEAL_TRY(read_header(&as->in));
    do
        PEAL_TRY(read_plan(as));
    while (!peal_asm_ended(&as->in));
    return PEAL_OK;
}

/* ---- the table */

/* For what is found out later. */
static void note_lines(const struct assembler *as, peal_table *table)
{
    uint32_t line = 1, at = 0;
    peal_copy_text(table->name, sizeof table->name, as->in.name ? as->in.name : "");
    for (uint32_t i = 0; i < table->nrows; i++) {
        for (; at < as->places.at[i]; at++)
            line += as->in.text[at] == '\n';
        table->rows[i].line = line;
    }
}

/* Moves the plans into a table of their own. */
static peal_status make_table(struct assembler *as, peal_table **table_out)
{
    peal_table *table;
    PEAL_TRY(memory_status(as, peal_table_create(as->in.ctx, as->nplans, &table)));
    table->nranks = as->plans[0]->nranks;
    for (uint32_t i = 0; i < table->nrows; i++)
        table->rows[i].plan = as->plans[i];
    as->nplans = 0;
    note_lines(as, table);
    peal_diag diag = PEAL_DIAG_INIT;
    uint32_t row = 0;
    peal_status status = peal_table_check_rows(table, NULL, &row, &diag);
    if (status != PEAL_OK)
        status = peal_asm_fail(&as->in, status, as->places.at[row], diag.text);
    if (status != PEAL_OK) {
        peal_table_destroy(table);
        return status;
    }
    for (uint32_t i = 0; i < table->nrows; i++)
        peal_plan_describe(table->rows[i].plan, &table->rows[i].info);
    *table_out = table;
    return PEAL_OK;
}

static void release(struct assembler *as)
{
    peal_ctx *ctx = as->in.ctx;
    peal_plan_destroy(as->plan);
    for (uint32_t i = 0; i < as->nplans; i++)
        peal_plan_destroy(as->plans[i]);
    peal_free(ctx, as->plans, as->plans_capacity * sizeof(struct peal_plan *));
    peal_free(ctx, as->steps.at, as->steps.capacity * sizeof *as->steps.at);
    peal_free(ctx, as->ranks.at, as->ranks.capacity * sizeof *as->ranks.at);
    for (uint32_t i = 0; i < PLAN_PARTS; i++)
        peal_free(ctx, as->parts[i].at, as->parts[i].capacity * sizeof *as->parts[i].at);
    peal_free(ctx, as->places.at, as->places.capacity * sizeof *as->places.at);
}

peal_status peal_table_assemble(peal_ctx *ctx, const char *text, size_t bytes, const char *name,
                                peal_diag *diag, peal_table **table_out)
{
    if (!ctx || (!text && bytes) || !table_out)
        return peal_fail(diag, PEAL_ERR_ARG,
                         "a context, text and a place for the table are needed");
    struct assembler as = {.in = {ctx, text ? text : "", 0, bytes, name, diag}};
    peal_status status = read_text(&as);
    if (status == PEAL_OK)
        status = make_table(&as, table_out);
    release(&as);
    return status;
}
