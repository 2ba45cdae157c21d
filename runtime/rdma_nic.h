/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the RDMA transport asks of a device: memory it may read and let others write, reliable
 * connections as queue pairs, and one queue in which their completions appear. rdma_ibv.c does it
 * by libibverbs; nothing else knows that library.
 *
 * Calls give 1 where they succeed, 0 where not. Of one thread at a time but for `poll` and `arm`,
 * which may run beside the others.
 */
#ifndef PEAL_RUNTIME_RDMA_NIC_H
#define PEAL_RUNTIME_RDMA_NIC_H

#include "base.h"

/* Memory that the device knows. */
struct rdma_region {
    char *at;
    uint64_t bytes;
    uint32_t own_key;  /* names it in work of this end's, */
    uint32_t peer_key; /* and in that of the others */
    void *handle;
};

/* One end of a queue pair, as the other has to know it; the form on the wire. */
struct rdma_end {
    uint32_t number;
    uint32_t first; /* packet number */
    uint16_t lid;   /* InfiniBand */
    uint8_t mtu;    /* as the verbs count them: 1 is 256 bytes, 5 is 4096 */
    uint8_t ethernet;
    uint8_t gid[16];
};

/* A queue pair with a completion queue of its own, as libibverbs has them: for one who posts to it
 * and polls it by himself, a GPU. Its receives are none. */
struct rdma_alone {
    void *pair;  /* struct ibv_qp *: also for `join` and `fail` */
    void *queue; /* struct ibv_cq * */
};

enum rdma_op {
    RDMA_WRITE, /* to the other end's memory */
    RDMA_FLAG,  /* nothing, behind all writes before it: takes one of the other end's receives */
    RDMA_SEND   /* into the other end's next receive */
};

struct rdma_work {
    uint8_t op;     /* enum rdma_op */
    uint8_t copied; /* 1: the source is read before `post` returns; at most inline_bytes */
    uint8_t told;   /* 1: its completion, and with it that of all before it, appears */
    uint32_t bytes;
    const char *from;
    uint32_t own_key;
    uint32_t peer_key;
    uint64_t to; /* address at the other end */
    uint64_t id;
};

enum rdma_how {
    RDMA_FINE,
    RDMA_FLUSHED, /* the pair had failed before */
    RDMA_REFUSED, /* the other end does not let this one write there */
    RDMA_BROKEN,  /* no answer, or anything else */
    RDMA_DAMAGED  /* what came made no sense */
};

/* A completion; `op`, `bytes` only of one that is fine. */
struct rdma_done {
    uint64_t id;
    uint32_t bytes;
    uint8_t received; /* 1: of a receive: a SEND has come, or a FLAG */
    uint8_t flag;
    uint8_t how; /* enum rdma_how */
};

struct rdma_nic;

struct rdma_nic_ops {
    int (*region)(struct rdma_nic *nic, char *at, uint64_t bytes, struct rdma_region *region);
    /* The same of memory that is no process's but a device's, by a dma-buf that begins with it. The
     * descriptor stays the caller's. */
    int (*region_dmabuf)(struct rdma_nic *nic, int fd, char *at, uint64_t bytes,
                         struct rdma_region *region);
    void (*unregion)(struct rdma_nic *nic, struct rdma_region *region);
    int (*pair)(struct rdma_nic *nic, uint32_t sends, uint32_t receives, void **pair,
                struct rdma_end *mine);
    int (*join)(struct rdma_nic *nic, void *pair, const struct rdma_end *mine,
                const struct rdma_end *theirs);
    /* What is under way ends as FLUSHED; nothing more arrives. */
    void (*fail)(struct rdma_nic *nic, void *pair);
    void (*unpair)(struct rdma_nic *nic, void *pair);
    /* How many it has taken; fewer: the pair is of no use any more. */
    uint32_t (*post)(struct rdma_nic *nic, void *pair, const struct rdma_work *work,
                     uint32_t count);
    int (*receive)(struct rdma_nic *nic, void *pair, uint64_t id, char *to, uint32_t bytes,
                   uint32_t own_key);
    int (*poll)(struct rdma_nic *nic, struct rdma_done *done, int room); /* how many; -1 */
    int (*arm)(struct rdma_nic *nic); /* the next completion makes `fd` readable */
    /* NULL: not of this one. */
    int (*alone)(struct rdma_nic *nic, uint32_t sends, uint32_t completions, struct rdma_alone *to,
                 struct rdma_end *mine);
    void (*unalone)(struct rdma_nic *nic, struct rdma_alone *alone);
    void (*close)(struct rdma_nic *nic);
};

#define RDMA_POST_MAX 16u /* works of one post */

struct rdma_nic {
    const struct rdma_nic_ops *ops;
    peal_ctx *ctx;
    char name[64]; /* "mlx5_0:1", device and port */
    uint32_t inline_bytes;
    int fd;
};

/* Which device: as the caller says, as the plan says, or the closest. */
struct rdma_ask {
    const char *chosen; /* "device", "device:port" or "device:port:gid index"; "": not */
    const char *plan;   /* the plan's name for this rank's NIC; "": none */
    const char *busid;  /* of what this rank runs on; "": nothing that has one */
    uint32_t turn;      /* this rank's number among those of its host: devices equally close take
                           turns */
    uint32_t pairs;     /* queue pairs that it will have, */
    uint32_t entries;   /* and completions of one that may wait to be polled */
};

/* ---- rdma_ibv.c. *why, of `room` bytes: a clause for people where there is no device. */
struct rdma_nic *rdma_open(peal_ctx *ctx, const struct rdma_ask *ask, char *why, size_t room);

/* ---- rdma_pick.c: what of it needs no device */
struct rdma_choice {
    char device[64];
    uint32_t port; /* 0: the first that is up */
    int32_t gid;   /* -1: the best */
};
/* 1: *choice is what `text` says. */
int rdma_choice_read(const char *text, struct rdma_choice *choice);
/* How good a GID of an Ethernet port is; 0: of no use. v2: RoCE v2. */
int rdma_gid_rank(const uint8_t gid[16], int v2);
/* Steps that two places in /sys/devices have in common: the same PCIe switch is closer than the
 * same root port, and that than the same root. */
uint32_t rdma_closeness(const char *a, const char *b);

#endif
