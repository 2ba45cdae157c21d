/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport over TCP. Two ranks of different hosts have some sockets, their streams. What is
 * put stands in a queue for each peer, in order; any stream takes the next part of the data when
 * it has room, stream 0 alone carries words and signals. A signal says how much data was sent on
 * each stream before it, and is raised when that is in place: data and flags keep their order
 * although several sockets carry them.
 *
 * The calling thread sends as much as the sockets take and never waits to send. While it waits for
 * what others send it receives it itself, which spares waking anybody; else one thread for each
 * comm receives, acknowledges, and sends what was left. Frames leave in trains, as many as there
 * are by one system call: a small put is held for the signal behind it, and all that the lanes of a
 * small call have for a peer until none of them can go on (far.h), so that they are mostly one
 * packet.
 */
#ifndef PEAL_RUNTIME_NET_H
#define PEAL_RUNTIME_NET_H

#include "frame.h"

#define NET_QUEUE 1024u        /* of a peer; a power of two */
#define NET_WINDOW 64u         /* data frames of a stream not yet acknowledged; a power of two */
#define NET_BUFFER (64u << 10) /* read at once, but for large bodies */
#define NET_TRAIN 16u          /* frames */
#define NET_READS 16u          /* of a stream, before others have their turn */

struct net_item {
    uint32_t kind; /* FRAME_DATA, _STORE, _SIGNAL */
    uint32_t count;
    struct rt_event *event;
    struct rt_piece *pieces;
    uint64_t at;
    uint64_t word;
};

struct net_frame {
    struct frame head;
    const char *body;
    struct rt_event *frees; /* its transfer's sources are free behind this frame; NULL: none's */
    char small[FRAME_BODY_MAX];
};

struct net_stream {
    int fd;
    uint32_t index;
    struct net_peer *peer;
    int armed;   /* asks to be told when the socket has room */
    int stalled; /* stream 0: a signal waits for data on others */
    int closed;

    /* the frames being sent: made when the last are out */
    struct net_frame train[NET_TRAIN];
    uint32_t next; /* of them, the first that is not out */
    uint32_t frames;
    uint32_t items; /* that began in this train */
    size_t sent;    /* of the next, head and body */
    size_t loaded;  /* bytes of data in the train: at most FRAME_DATA_MAX */
    char *spare;    /* what is left of them when a call has failed: FRAME_DATA_MAX bytes */

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
    int hurried; /* some data since the last look is waited for until it is acknowledged */
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
    uint8_t held;   /* what is in the queue waits for net_flush, or a signal */
    uint8_t listed; /* in net->held */
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
    uint32_t *held;          /* peers that may be; as many as ranks. Of the calling thread */
    uint32_t nheld;
    pthread_t thread;
    int poll;
    int wake;
    _Atomic uint32_t stop;
    _Atomic uint32_t driven; /* 1: the calling thread has listened since the thread last looked */
    int beside;              /* another transport: then the thread never leaves all to it */
    int owes_acks;           /* that nobody waits for; under the lock */
    struct rt_error error;   /* what peers are owed */
};

static inline struct net *net_of(struct far_transport *self)
{
    return (struct net *)(void *)self;
}

/* ---- net_send.c; under the lock. Sends what the sockets take. */
void net_pump(struct net *net, struct net_peer *peer);
void net_acked(struct net_stream *stream, uint64_t acked);
void net_cut(struct net_peer *peer);
int net_unsent(const struct net_peer *peer);
int net_idle(const struct net_peer *peer); /* nothing is left to be sent or acknowledged */

/* ---- net_recv.c; with `hearing`. 0: the link is of no use any more. */
int net_receive(struct net *net, struct net_stream *stream);
/* A peer's link is over. */
void net_lose(struct net *net, struct net_peer *peer);
void net_watch(const struct net *net, const struct net_stream *stream);

#endif
