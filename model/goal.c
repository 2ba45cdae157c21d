/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan as a schedule in GOAL, which LogGOPSim and ATLAHS read: for each rank, operations with
 * labels and what they require. A signal is a message with what its lane has put to that rank
 * before it; a wait is the receive of it. A load from another rank is a request and its answer. A
 * packet is a message of its own, received by the step that reads it. A lane's own work is a calc
 * of as many nanoseconds as its bytes take it.
 *
 * The plan is walked twice: once to number all messages, so that receivers know what comes, and
 * once to write.
 */
#include "defaults.h"
#include "emit.h"

#include <string.h>

#define MESSAGES_MAX (1u << 27)
#define PENDING_MAX 256u
#define ANSWER_TAG (1u << 28) /* answers, apart from what their rank numbers itself */
#define NO_LABEL 0u

struct message {
    uint32_t peer;
    uint32_t tag;
    uint64_t bytes;
};

struct stream { /* the messages of a semaphore or a packet slot, in order */
    uint64_t key;
    uint32_t from;
    uint32_t to;
    struct message *list;
    uint32_t count;
    uint32_t capacity;
    uint32_t read;
    uint32_t waits;
};

struct goal {
    const struct peal_plan *plan;
    const uint64_t *chunk;
    uint32_t trips;
    struct emit *emit;
    peal_status status;
    int writing; /* second walk */
    struct stream *stream;
    uint32_t streams, stream_capacity;
    uint32_t *map;
    uint32_t buckets;
    struct stream *served; /* of each rank: what others load from it */
    uint32_t *tags;        /* of each rank */
    /* the lane that is walked */
    uint32_t rank;
    uint32_t label; /* of the rank's last operation */
    uint32_t before;
    uint32_t trip;
    uint32_t event[PLAN_EVENTS_MAX]; /* label of what is behind it */
    struct {
        uint32_t peer;
        uint64_t bytes;
    } pending[PENDING_MAX];
    uint32_t pendings;
};

/* ---- streams */

static uint32_t bucket_of(const struct goal *g, uint64_t key)
{
    key *= 0x9E3779B97F4A7C15ull;
    return (uint32_t)(key ^ key >> 29) & (g->buckets - 1);
}

static void grow_map(struct goal *g)
{
    uint32_t old = g->buckets;
    uint32_t *map = peal_calloc(g->plan->ctx, old ? 2 * (size_t)old : 1024, sizeof *map);
    if (!map) {
        g->status = PEAL_ERR_MEMORY;
        return;
    }
    peal_free(g->plan->ctx, g->map, old * sizeof *map);
    g->map = map;
    g->buckets = old ? 2 * old : 1024;
    for (uint32_t i = 0; i < g->streams; i++) {
        uint32_t at = bucket_of(g, g->stream[i].key);
        while (map[at])
            at = (at + 1) & (g->buckets - 1);
        map[at] = i + 1;
    }
}

/* NULL: none yet, and none is made unless the plan is walked for the first time. */
static struct stream *find_stream(struct goal *g, uint64_t key, uint32_t from, uint32_t to)
{
    if (!g->writing && 2 * g->streams >= g->buckets)
        grow_map(g);
    if (g->status != PEAL_OK || !g->buckets)
        return NULL;
    uint32_t at = bucket_of(g, key);
    for (; g->map[at]; at = (at + 1) & (g->buckets - 1))
        if (g->stream[g->map[at] - 1].key == key)
            return &g->stream[g->map[at] - 1];
    if (g->writing)
        return NULL;
    g->status = peal_grow(g->plan->ctx, (void **)&g->stream, &g->stream_capacity,
                          (size_t)g->streams + 1, sizeof *g->stream, MESSAGES_MAX);
    if (g->status != PEAL_OK)
        return NULL;
    g->stream[g->streams] = (struct stream){.key = key, .from = from, .to = to};
    g->map[at] = ++g->streams;
    return &g->stream[g->streams - 1];
}

static void add_message(struct goal *g, struct stream *stream, const struct message *message)
{
    if (!stream)
        return;
    peal_status status = peal_grow(g->plan->ctx, (void **)&stream->list, &stream->capacity,
                                   (size_t)stream->count + 1, sizeof *message, MESSAGES_MAX);
    if (status == PEAL_OK)
        stream->list[stream->count++] = *message;
    else
        g->status = status;
}

/* Ranks are below 2^16, semaphores below 2^8, regions below 2^10, slots of a trip below 2^16 and
 * trips under way below 2^8: the keys of the two kinds differ in the top bit. */
static uint64_t sem_key(uint32_t from, uint32_t to, uint32_t sem)
{
    return (uint64_t)from << 40 | (uint64_t)to << 16 | sem;
}

static uint64_t slot_key(const struct goal *g, const struct plan_operand *operand)
{
    uint32_t depth = g->plan->regions[operand->index].depth;
    return 1ull << 63 | (uint64_t)operand->rank << 44 | (uint64_t)operand->index << 32 |
           (uint64_t)operand->slot << 16 | (g->trip % depth & 0xffffu);
}

/* ---- operations; labels count from 1 in each rank */

static void require(struct goal *g, uint32_t label, uint32_t other)
{
    if (other != NO_LABEL)
        peal_buf_fmt(&g->emit->buf, "l%u requires l%u\n", label, other);
}

static uint32_t put_message(struct goal *g, const char *what, uint64_t bytes, const char *where,
                            uint32_t peer, uint32_t tag, uint32_t behind)
{
    uint32_t label = ++g->label;
    peal_buf_fmt(&g->emit->buf, "l%u: %s %llub %s %u tag %u\n", label, what,
                 (unsigned long long)(bytes ? bytes : 1), where, peer, tag);
    require(g, label, behind);
    peal_emit_pass(g->emit);
    return label;
}

static uint32_t put_calc(struct goal *g, uint64_t ns, uint32_t behind, uint32_t also)
{
    uint32_t label = ++g->label;
    peal_buf_fmt(&g->emit->buf, "l%u: calc %llu\n", label, (unsigned long long)ns);
    require(g, label, behind);
    if (also != behind)
        require(g, label, also);
    peal_emit_pass(g->emit);
    return label;
}

/* A message that leaves; its number is the sender's next. */
static uint32_t send_to(struct goal *g, uint64_t key, uint32_t peer, uint64_t bytes)
{
    struct message message = {g->rank, g->tags[g->rank]++, bytes};
    if (g->writing)
        return put_message(g, "send", bytes, "to", peer, message.tag, g->before);
    add_message(g, find_stream(g, key, g->rank, peer), &message);
    return NO_LABEL;
}

/* ---- steps */

static void note_put(struct goal *g, uint32_t peer, uint64_t bytes)
{
    for (uint32_t i = 0; i < g->pendings; i++)
        if (g->pending[i].peer == peer) {
            g->pending[i].bytes += bytes;
            return;
        }
    if (g->pendings == PENDING_MAX)
        return;
    g->pending[g->pendings].peer = peer;
    g->pending[g->pendings++].bytes = bytes;
}

static uint64_t take_put(struct goal *g, uint32_t peer)
{
    for (uint32_t i = 0; i < g->pendings; i++)
        if (g->pending[i].peer == peer) {
            uint64_t bytes = g->pending[i].bytes;
            g->pending[i] = g->pending[--g->pendings];
            return bytes;
        }
    return 0;
}

/* A load from another rank: asked for, and answered by it without its doing. */
static uint32_t load_from(struct goal *g, uint32_t peer, uint64_t bytes)
{
    struct message message = {g->rank, g->tags[g->rank]++, bytes};
    if (!g->writing) {
        add_message(g, &g->served[peer], &message);
        return NO_LABEL;
    }
    uint32_t asked = put_message(g, "send", 1, "to", peer, message.tag, g->before);
    return put_message(g, "recv", bytes, "from", peer, message.tag + ANSWER_TAG, asked);
}

static uint32_t read_packet(struct goal *g, const struct plan_operand *operand)
{
    struct stream *stream = find_stream(g, slot_key(g, operand), 0, g->rank);
    if (!g->writing || !stream || stream->read >= stream->count)
        return NO_LABEL;
    const struct message *message = &stream->list[stream->read++];
    return put_message(g, "recv", message->bytes, "from", message->peer, message->tag, g->before);
}

static uint64_t bytes_of(const struct goal *g, const struct plan_step *step,
                         const struct plan_operand *operand)
{
    return peal_sim_held(g->plan, g->chunk, step, operand, g->trip);
}

static uint64_t lane_ns(const struct goal *g, const struct plan_step *step,
                        const struct plan_operand *operands)
{
    enum topo_constant rate = g->plan->ranks[g->rank].busid[0] ? TOPO_LANE : TOPO_LANE_HOST;
    double touched = 0;
    for (uint32_t i = 0; i < (uint32_t)step->nsrc + step->ndst; i++)
        touched += 0.5 * (double)bytes_of(g, step, &operands[i]);
    return (uint64_t)(touched / peal_topo_constant(rate) + 0.5);
}

static void walk_sources(struct goal *g, const struct plan_step *step,
                         const struct plan_operand *operands)
{
    uint32_t first = g->before, last = g->before;
    for (uint32_t i = 0; i < step->nsrc; i++) {
        uint32_t got = NO_LABEL;
        g->before = first;
        if (operands[i].buffer == PLAN_BUF_PACKET)
            got = read_packet(g, &operands[i]);
        else if (operands[i].rank != g->rank)
            got = load_from(g, operands[i].rank, bytes_of(g, step, &operands[i]));
        if (got != NO_LABEL && last != first)
            last = put_calc(g, 0, got, last);
        else if (got != NO_LABEL)
            last = got;
    }
    g->before = last;
}

static void walk_move(struct goal *g, const struct plan_step *step)
{
    const struct plan_operand *operands = &g->plan->ranks[g->rank].operands[step->operands];
    walk_sources(g, step, operands);
    if (g->writing && !peal_plan_engine_async(step->engine))
        g->before = put_calc(g, lane_ns(g, step, operands), g->before, NO_LABEL);
    for (uint32_t i = step->nsrc; i < (uint32_t)step->nsrc + step->ndst; i++) {
        uint64_t bytes = bytes_of(g, step, &operands[i]);
        if (operands[i].buffer == PLAN_BUF_PACKET)
            (void)send_to(g, slot_key(g, &operands[i]), operands[i].rank, 2 * bytes);
        else if (operands[i].rank != g->rank)
            note_put(g, operands[i].rank, bytes);
    }
}

static void walk_signal(struct goal *g, const struct plan_step *step)
{
    uint32_t label =
        send_to(g, sem_key(g->rank, step->peer, step->sem), step->peer, take_put(g, step->peer));
    if (step->after != PLAN_NO_EVENT)
        g->event[step->after] = label;
}

static void walk_wait(struct goal *g, const struct plan_step *step)
{
    struct stream *stream =
        find_stream(g, sem_key(step->peer, g->rank, step->sem), step->peer, g->rank);
    if (!g->writing || !stream)
        return;
    uint32_t wanted = ++stream->waits > step->lag ? stream->waits - step->lag : 0;
    while (stream->read < wanted && stream->read < stream->count) {
        const struct message *message = &stream->list[stream->read++];
        g->before =
            put_message(g, "recv", message->bytes, "from", message->peer, message->tag, g->before);
    }
}

static void walk_step(struct goal *g, const struct plan_step *step)
{
    switch (step->op) {
    case PLAN_SIGNAL:
        walk_signal(g, step);
        break;
    case PLAN_WAIT:
        walk_wait(g, step);
        break;
    case PLAN_AWAIT:
        if (g->writing && g->event[step->event] != NO_LABEL)
            g->before = put_calc(g, 0, g->before, g->event[step->event]);
        break;
    default:
        walk_move(g, step);
        break;
    }
}

static void walk_lane(struct goal *g, const struct plan_lane *lane)
{
    const struct plan_step *step = &g->plan->ranks[g->rank].steps[lane->first];
    g->before = NO_LABEL;
    g->pendings = 0;
    memset(g->event, 0, sizeof g->event);
    g->trip = 0;
    for (uint32_t i = 0; i < lane->pre; i++)
        walk_step(g, &step[i]);
    for (; lane->body && g->trip < g->trips && g->status == PEAL_OK; g->trip++)
        for (uint32_t i = 0; i < lane->body; i++)
            walk_step(g, &step[lane->pre + i]);
    g->trip = 0;
    for (uint32_t i = 0; i < lane->post; i++)
        walk_step(g, &step[lane->pre + lane->body + i]);
}

/* ---- ranks */

/* What others load, and what is told but never waited for. */
static void put_rest(struct goal *g)
{
    const struct stream *served = &g->served[g->rank];
    for (uint32_t i = 0; i < served->count; i++) {
        const struct message *message = &served->list[i];
        uint32_t asked = put_message(g, "recv", 1, "from", message->peer, message->tag, NO_LABEL);
        (void)put_message(g, "send", message->bytes, "to", message->peer, message->tag + ANSWER_TAG,
                          asked);
    }
}

/* The streams of a rank hang together by `from`, once all messages know who sends them. */
static void put_unheard(struct goal *g, const uint32_t *first)
{
    for (uint32_t s = first[g->rank]; s; s = g->stream[s - 1].from) {
        struct stream *stream = &g->stream[s - 1];
        for (; stream->read < stream->count; stream->read++) {
            const struct message *message = &stream->list[stream->read];
            (void)put_message(g, "recv", message->bytes, "from", message->peer, message->tag,
                              NO_LABEL);
        }
    }
}

static void walk_rank(struct goal *g, uint32_t rank)
{
    const struct plan_rank *program = &g->plan->ranks[rank];
    g->rank = rank;
    g->label = 0;
    g->tags[rank] = 0;
    for (uint32_t l = 0; l < program->nlanes && g->status == PEAL_OK; l++)
        walk_lane(g, &program->lanes[l]);
}

static void write_ranks(struct goal *g, uint32_t *first)
{
    for (uint32_t s = g->streams; s-- > 0;) { /* `from` is told by the messages */
        g->stream[s].from = first[g->stream[s].to];
        first[g->stream[s].to] = s + 1;
    }
    g->writing = 1;
    peal_buf_fmt(&g->emit->buf, "num_ranks %u\n", g->plan->nranks);
    for (uint32_t r = 0; r < g->plan->nranks && g->status == PEAL_OK; r++) {
        peal_buf_fmt(&g->emit->buf, "\nrank %u {\n", r);
        walk_rank(g, r);
        put_rest(g);
        put_unheard(g, first);
        peal_buf_str(&g->emit->buf, "}\n");
        peal_emit_pass(g->emit);
    }
}

static void free_streams(const struct goal *g, struct stream *stream, uint32_t count)
{
    for (uint32_t i = 0; stream && i < count; i++)
        peal_free(g->plan->ctx, stream[i].list, stream[i].capacity * sizeof *stream[i].list);
}

void peal_goal_emit(const struct peal_plan *plan, const uint64_t *chunk, uint32_t trips,
                    struct emit *emit)
{
    struct goal g = {.plan = plan, .chunk = chunk, .trips = trips, .emit = emit};
    uint32_t *first = peal_calloc(plan->ctx, plan->nranks, sizeof *first);
    g.served = peal_calloc(plan->ctx, plan->nranks, sizeof *g.served);
    g.tags = peal_calloc(plan->ctx, plan->nranks, sizeof *g.tags);
    if (!first || !g.served || !g.tags)
        g.status = PEAL_ERR_MEMORY;
    for (uint32_t r = 0; r < plan->nranks && g.status == PEAL_OK; r++)
        walk_rank(&g, r);
    if (g.status == PEAL_OK)
        write_ranks(&g, first);
    if (emit->status == PEAL_OK)
        emit->status = g.status;
    free_streams(&g, g.stream, g.streams);
    free_streams(&g, g.served, plan->nranks);
    peal_free(plan->ctx, g.stream, g.stream_capacity * sizeof *g.stream);
    peal_free(plan->ctx, g.map, g.buckets * sizeof *g.map);
    peal_free(plan->ctx, g.served, plan->nranks * sizeof *g.served);
    peal_free(plan->ctx, g.tags, plan->nranks * sizeof *g.tags);
    peal_free(plan->ctx, first, plan->nranks * sizeof *first);
}
