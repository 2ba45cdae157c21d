/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes from a peer: as a proof of who it is, and as frames on the sockets of a link, some of
 * them with right checksums. Nothing but what a peer may write is written. */
#include "fuzz.h"
#include "net.h"
#include "support.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RANKS 3u
#define STREAMS 2u
#define SELF 1u
#define PEER 2u
#define OUT_BYTES 5000u
#define GUARD 0x5c

struct stage {
    struct test_heap heap;
    peal_ctx *ctx;
    struct peal_comm comm;
    struct rt_far far;
    struct net net;
    struct net_peer peers[RANKS];
    struct net_stream streams[STREAMS];
    int ends[STREAMS]; /* the peer's */
    struct net_item queue[NET_QUEUE];
    struct rt_segment segment;
    char out[OUT_BYTES + 2 * 64];
};

static struct rt_layout make_layout(void)
{
    struct rt_layout layout = {.nranks = RANKS, .nsems = 2, .count_bytes = RT_LINE};
    layout.packet_bytes = layout.scratch_bytes = layout.heap_bytes = RT_PAGE;
    layout.boards = RT_PAGE;
    layout.sems = 2 * RT_PAGE;
    layout.counts = 3 * RT_PAGE;
    layout.packets = 4 * RT_PAGE;
    layout.scratch = layout.packets + 2ull * RANKS * RT_PAGE;
    layout.heap = layout.scratch + 2ull * RANKS * RT_PAGE;
    layout.total = layout.heap + RANKS * RT_PAGE;
    return layout;
}

static void open_stream(struct stage *s, uint32_t index)
{
    struct net_stream *stream = &s->streams[index];
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        abort();
    (void)fcntl(pair[0], F_SETFL, O_NONBLOCK);
    (void)fcntl(pair[1], F_SETFL, O_NONBLOCK);
    *stream = (struct net_stream){.fd = pair[0], .index = index, .peer = &s->peers[PEER]};
    stream->buffer = peal_alloc(s->ctx, NET_BUFFER);
    stream->spare = peal_alloc(s->ctx, FRAME_DATA_MAX);
    s->ends[index] = pair[1];
}

static void set_up(struct stage *s)
{
    struct rt_layout layout = make_layout();
    memset(s, 0, sizeof *s);
    s->ctx = test_ctx(&s->heap);
    if (rt_segment_private(&layout, &s->segment, NULL) != PEAL_OK)
        abort();
    memset(s->segment.base + layout.scratch, GUARD, layout.total - layout.scratch);
    memset(s->out, GUARD, sizeof s->out);
    s->comm.base = s->segment.base;
    s->comm.layout = layout;
    s->comm.rank = SELF;
    s->comm.nranks = RANKS;
    s->comm.board = rt_board(s->comm.base, &layout, SELF);
    s->far.out = (uint64_t)(uintptr_t)(s->out + 64);
    s->far.out_bytes = OUT_BYTES;
    s->net.far = &s->far;
    s->net.comm = &s->comm;
    s->net.nranks = RANKS;
    s->net.peers = s->peers;
    s->net.poll = -1;
    (void)pthread_mutex_init(&s->net.lock, NULL);
    s->peers[PEER] = (struct net_peer){
        .rank = PEER, .streams = STREAMS, .stream = s->streams, .queue = s->queue};
    for (uint32_t i = 0; i < STREAMS; i++)
        open_stream(s, i);
}

static void check_guards(const struct stage *s)
{
    const struct rt_layout *layout = &s->segment.layout;
    uint64_t own = layout->scratch + 2ull * RT_PAGE * SELF;
    for (uint64_t at = layout->scratch; at < layout->total; at++)
        if ((at < own || at >= own + 2 * RT_PAGE) && s->segment.base[at] != GUARD)
            abort();
    for (unsigned i = 0; i < 64; i++)
        if (s->out[i] != GUARD || s->out[sizeof s->out - 1 - i] != GUARD)
            abort();
}

static void tear_down(struct stage *s)
{
    for (uint32_t i = 0; i < STREAMS; i++) {
        (void)close(s->streams[i].fd);
        (void)close(s->ends[i]);
        peal_free(s->ctx, s->streams[i].buffer, NET_BUFFER);
        peal_free(s->ctx, s->streams[i].spare, FRAME_DATA_MAX);
    }
    (void)pthread_mutex_destroy(&s->net.lock);
    rt_segment_unmap(&s->segment);
    peal_ctx_destroy(s->ctx);
    if (s->heap.blocks != 0)
        abort();
}

/* ---- the input: records of a byte that says what follows, and that */

struct input {
    const uint8_t *data;
    size_t left;
};

static size_t take(struct input *in, void *to, size_t bytes)
{
    size_t got = bytes < in->left ? bytes : in->left;
    memset(to, 0, bytes);
    memcpy(to, in->data, got);
    in->data += got;
    in->left -= got;
    return got;
}

/* A frame of the input's with checksums that are right, near what is allowed. */
static size_t make_frame(const struct stage *s, struct input *in, uint8_t what, char *to)
{
    struct frame frame = {.kind = what % 9};
    uint16_t small[3];
    (void)take(in, small, sizeof small);
    frame.bytes = small[0] % 6000;
    frame.a = what & 0x20 ? small[1] : s->streams[what >> 7].data_in + 1;
    frame.at = small[2] + (what & 0x40 ? FAR_OUT : s->segment.layout.scratch + 2 * RT_PAGE);
    if (frame.kind == FRAME_SIGNAL) {
        frame.at = small[2] % 4;
        frame.bytes = 8 * STREAMS;
        frame.b = STREAMS;
    } else if (frame.kind == FRAME_ERROR) {
        frame.bytes = sizeof(struct rt_error);
    } else if (frame.kind != FRAME_DATA) {
        frame.bytes = 0;
    }
    (void)take(in, to + sizeof frame, frame.bytes);
    frame_seal(&frame, to + sizeof frame);
    memcpy(to, &frame, sizeof frame);
    return sizeof frame + frame.bytes;
}

static void play_frames(struct stage *s, struct input *in)
{
    static char bytes[sizeof(struct frame) + 6000];
    uint8_t what;
    while (take(in, &what, 1)) {
        struct net_stream *stream = &s->streams[what >> 7];
        char drained[4096];
        size_t count = what & 0x10 ? take(in, bytes, what & 0x0f) : make_frame(s, in, what, bytes);
        if (write(s->ends[what >> 7], bytes, count) < 0)
            return;
        if (!net_receive(&s->net, stream))
            return;
        for (unsigned i = 0; i < STREAMS; i++)
            while (read(s->ends[i], drained, sizeof drained) > 0)
                continue;
    }
}

static void play_proof(const uint8_t *data, size_t bytes)
{
    struct auth_guest guest = {.fd = -1};
    struct auth_key key = {{1}};
    struct auth_claim claim;
    uint8_t reply[AUTH_BYTES];
    memcpy(guest.message, data, bytes < AUTH_MESSAGE ? bytes : AUTH_MESSAGE);
    guest.answered = bytes % 2;
    if (auth_answer(&guest, &key, &claim, reply) && guest.answered)
        abort(); /* a proof by guessing */
}

static void no_tell(struct far_transport *self, const struct rt_error *error)
{
    (void)self;
    (void)error;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct stage stage;
    struct input in = {data, bytes};
    play_proof(data, bytes);
    set_up(&stage);
    stage.net.transport.tell = no_tell;
    play_frames(&stage, &in);
    check_guards(&stage);
    tear_down(&stage);
    return 0;
}
