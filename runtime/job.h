/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job: the processes of a joined world, on one host or several. Rank 0 is the middle of a star
 * through which all of them agree; ranks of one host then share a segment, ranks of different
 * hosts are linked (far.h).
 */
#ifndef PEAL_RUNTIME_JOB_H
#define PEAL_RUNTIME_JOB_H

#include "auth.h"
#include "shm.h"

#include <string.h>

#define JOB_VERSION 6u
#define JOB_TEXT 400u
#define JOB_EXCHANGE_MAX 65536u
#define JOB_SOCKETS_MAX 8u
#define JOB_ROOTS_MAX 8u

/* What a rank says of itself when it comes; the form on the wire. */
struct rt_ident {
    uint32_t version;
    uint32_t rank;
    uint32_t ranks;
    uint32_t sockets;
    uint64_t heap_bytes;
    uint64_t table[2];  /* digest of the table */
    uint64_t origin[2]; /* of its first plan */
    char library[16];
    char host_id[128]; /* equal: shared memory is */
    char host[64];     /* for people */
    struct sock_addr addr;
};

/* Rank 0's answer, or what came of a stage on some rank. */
struct rt_verdict {
    int32_t status; /* a peal_status */
    uint32_t sockets;
    uint8_t world[16];
    char text[JOB_TEXT];
};

struct rt_far;

/* Rounds of messages through the star. One that fails is the last. */
struct rt_rounds {
    uint32_t begun;
    int over;
    char why[JOB_TEXT];
};

struct rt_job {
    peal_ctx *ctx;
    uint32_t rank;
    uint32_t nranks;
    uint32_t sockets;
    uint32_t timeout_ms;
    struct auth_key key;
    uint8_t world[16];
    int listener;          /* for links, and worlds that are split off */
    int lent;              /* the listener is another job's */
    int spare;             /* the same socket, given up where there are no files left; or -1 */
    int door;              /* rank 0, while ranks come together elsewhere than there; else -1 */
    struct sock_addr addr; /* of the listener */
    int *star;             /* rank 0: one to each rank; else the first leads to rank 0 */
    int restarts;
    _Atomic uint8_t *came; /* while ranks come together; NULL: nobody looks */
    struct rt_rounds rounds;
    struct rt_ident *idents;
    struct rt_far *far; /* NULL: all ranks are on this host */
    char key_name[64];  /* "": none; the shared-memory object that holds the key */
    char rdma[96];      /* the device to use; "": found out, "off": none */
    struct sock_wait wait;
};

/* What a rank brings along. */
struct job_plan {
    uint32_t rank;
    uint32_t ranks;
    uint32_t sockets;
    uint32_t timeout_ms;
    uint64_t deadline; /* of the meeting; 0: timeout_ms from its beginning */
    uint64_t heap_bytes;
    const char *host;
    const char *host_id; /* NULL: found out */
    const char *interface;
    const char *rdma; /* NULL: found out */
    const struct auth_key *key;
    const struct sock_addr *roots; /* where rank 0 may be found */
    uint32_t nroots;
    int listener; /* rank 0: taken over, or lent; else -1, or a listener to be kept */
    int lent;
    const peal_diag *refusal; /* rank 0: why there is to be no job, for all who come; or NULL */
    int restarts;             /* a rank that has come and ended may come again */
    int wait_for_key;         /* the key is in key_name, once rank 0 has put it there */
    int may_be_busy;          /* rank 0 may be in another meeting, whose key this one's is not */
    const char *key_name;
    const _Atomic uint32_t *cancel;
    /* 1: here; rank 0 knows it of all, the others of rank 0. NULL: nobody asks. */
    _Atomic uint8_t *came;
};

/* Join parameters, read. */
struct rt_ask {
    peal_join_params params;
    struct job_plan plan; /* refers to what is below */
    struct auth_key key;
    struct sock_addr roots[JOB_ROOTS_MAX];
    char key_name[64];
};

/* ---- boot_join.c: table NULL: the meeting is about none, and rank 0's listener is lent. Also on
 * errors the plan's listener is the caller's to close. */
peal_status rt_ask_read(const peal_join_params *given, const peal_table *table,
                        const _Atomic uint32_t *cancel, struct rt_ask *ask, peal_diag *diag);

/* What another thread sees of a join, and has to say in it; NULL: none does. */
struct rt_watch {
    const _Atomic uint32_t *cancel;
    _Atomic uint8_t *came; /* as in struct job_plan */
};
/* The meeting of the parameters is used up, whatever comes of it. */
peal_status rt_join(peal_ctx *ctx, const peal_join_params *params, const peal_table *table,
                    const struct rt_watch *watch, peal_diag *diag, peal_world **world_out);
void rt_join_drop(const peal_join_params *given); /* the meeting; given: NULL, or of any size */

/* ---- boot.c: coming together. All ranks get the same answer. table NULL: nobody brings one. */
peal_status rt_job_make(peal_ctx *ctx, const struct job_plan *plan, const peal_table *table,
                        peal_diag *diag, struct rt_job **job_out);
void rt_job_free(struct rt_job *job);
static inline int rt_job_near(const struct rt_job *job, uint32_t a, uint32_t b)
{
    return strncmp(job->idents[a].host_id, job->idents[b].host_id, sizeof job->idents[a].host_id) ==
           0;
}
struct peal_hash128 rt_table_digest(peal_ctx *ctx, const peal_table *table, peal_status *status);

/* ---- boot_star.c: rounds through the star, which all ranks make in the same order. Where a rank
 * is lost in one, or makes another, all that follow are ABORTED and say why. */
/* The first failure of any rank, on all of them. */
peal_status rt_job_agree(struct rt_job *job, peal_status status, peal_diag *diag);
peal_status rt_job_exchange(struct rt_job *job, const void *mine, size_t bytes, void *all,
                            peal_diag *diag);
void rt_job_refresh(struct rt_job *job); /* the deadline of job->wait */
struct sock_wait rt_job_soon(const struct rt_job *job, uint64_t ns);
peal_status rt_job_lost(const struct rt_job *job, peal_status status, uint32_t rank,
                        peal_diag *diag);
void rt_verdict_set(struct rt_verdict *verdict, peal_status status, const peal_diag *diag);
peal_status rt_verdict_take(struct rt_verdict *verdict, peal_diag *diag);

/* ---- boot_segment.c: what the ranks of a host share; nobody has it by a name behind this. */
peal_status rt_job_segment(struct rt_job *job, const peal_table *table, uint64_t heap_bytes,
                           struct rt_segment *segment, peal_diag *diag);

/* ---- boot_host.c: what a host is, and the key that its processes share */
peal_status rt_host_name(const char *given, char *id, size_t id_bytes, char *name,
                         size_t name_bytes);
/* Rank 0 puts a fresh key where only processes of this user and host find it. */
peal_status rt_key_put(const char *name, struct auth_key *key, peal_diag *diag);
peal_status rt_key_get(const char *name, struct auth_key *key); /* PEAL_AGAIN: not there */
void rt_key_remove(const char *name);

#endif
