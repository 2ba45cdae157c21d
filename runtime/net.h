/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport over TCP. Two ranks of different hosts have some sockets, their streams. What is
 * put stands in a queue for each peer, in order; any stream takes the next part of the data when
 * it has room, stream 0 alone carries words and signals. A signal says how much data was sent on
 * each stream before it, and is raised when that is in place: data and flags keep their order
 * although several sockets carry them.
 *
 * The calling thread sends as much as the sockets take and never waits. One thread for each comm
 * receives, acknowledges, and sends what was left.
 */
#ifndef PEAL_RUNTIME_NET_H
#define PEAL_RUNTIME_NET_H

#include "frame.h"

#define NET_QUEUE 1024u        /* of a peer; a power of two */
#define NET_WINDOW 64u         /* data frames of a stream not yet acknowledged; a power of two */
#define NET_BUFFER (64u << 10) /* read at once, but for large bodies */

struct net_item {
    uint32_t kind; /* FRAME_DATA, _STORE, _SIGNAL */
    uint32_t count;
    struct rt_event *event;
    struct rt_piece *pieces;
    uint64_t at;
    uint64_t word;
};

struct net_stream {
    int fd;
    uint32_t index;
    struct net_peer *peer;
    int armed;   /* asks to be told when the socket has room */
    int stalled; /* stream 0: a signal waits for data on others */
    int closed;

    /* the frame being sent */
    struct frame head;
    char small[FRAME_BODY_MAX];
    char *spare; /* what is left of a frame's data when a call has failed */
    const char *body;
    size_t sent;            /* of head and body */
    size_t total;           /* 0: none */
    struct rt_event *frees; /* its transfer's sources are free behind this frame */

    struct rt_event *flight[NET_WINDOW]; /* of data frames, by number */
    uint64_t data_sent;
    uint64_t data_acked;

    /* receiving */
    char *buffer;
    size_t begin;
    size_t end;
    struct frame in;
    char *to; /* where the body of the data frame under way goes */
    size_t body_got;
    uint64_t data_in;
    uint64_t ack_due; /* under the lock, as is the next */
    uint64_t ack_told;
    int in_body;
};

struct net_peer {
    uint32_t rank;
    uint32_t streams;
    struct net_stream *stream;
    struct net_item *queue;
    uint32_t head; /* next to be sent */
    uint32_t tail;
    uint32_t piece; /* of the item at the head, */
    size_t offset;  /* and in it */
    uint8_t owes_error, owes_ask, owes_status, owes_bye, owes_answer;
    uint8_t bye_answered;
    uint8_t left; /* it has said good-bye */
    uint8_t gone;
    _Atomic uint64_t heard_ns;
};

struct net {
    struct far_transport transport; /* first */
    struct rt_far *far;
    struct peal_comm *comm;
    uint32_t nranks;
    struct net_peer *peers;  /* by rank; near ones have no streams */
    pthread_mutex_t hearing; /* held while something is received; before `lock` */
    int deaf;                /* under it: a call has failed, data is dropped */
    pthread_mutex_t lock;    /* over all that is sent, and events */
    pthread_t thread;
    int poll;
    int wake;
    _Atomic uint32_t stop;
    struct rt_error error; /* what peers are owed */
};

static inline struct net *net_of(struct far_transport *self)
{
    return (struct net *)(void *)self;
}

/* ---- net_send.c; under the lock. Sends what the sockets take. */
void net_pump(struct net *net, struct net_peer *peer);
void net_acked(struct net_stream *stream, uint64_t acked);
void net_cut(struct net_peer *peer);
int net_idle(const struct net_peer *peer); /* nothing is left to be sent or acknowledged */

/* ---- net_recv.c; in the receiving thread. 0: the link is of no use any more. */
int net_receive(struct net *net, struct net_stream *stream);
/* A peer's link is over. */
void net_lose(struct net *net, struct net_peer *peer);
void net_watch(const struct net *net, const struct net_stream *stream);

#endif
