/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may take part. Both ends of a connection prove that they hold the job's key before anything
 * else is read; the key itself never travels. All messages have one length each:
 *
 *   who connects    "PEALNET1", nonce c (32 bytes)
 *   who listens     nonce s (32)
 *   who connects    claim (32), HMAC-SHA-256(key, "peal connects" c s claim)
 *   who listens     HMAC-SHA-256(key, "peal listens " c s claim)
 *
 * A stranger gets a nonce, and is dropped when its proof is wrong, late, or when too many others
 * knock. Frames behind that are neither encrypted nor signed: the network is trusted to carry
 * what it is given, as RDMA's is.
 */
#ifndef PEAL_RUNTIME_AUTH_H
#define PEAL_RUNTIME_AUTH_H

#include "sock.h"

#define AUTH_BYTES 32u

struct auth_key {
    uint8_t bytes[AUTH_BYTES];
};

enum auth_purpose { AUTH_MEET = 1, AUTH_LINK = 2 };

/* What a connection is for. */
struct auth_claim {
    uint32_t purpose;
    uint32_t ranks; /* of the job */
    uint32_t rank;  /* whose end it is */
    uint32_t stream;
    uint8_t world[16]; /* links: which world; meetings: 0 */
};

/* From a secret of any length; 0 bytes: the key that everybody knows. */
void auth_key_from(const void *secret, size_t bytes, struct auth_key *key);
/* A key for something that the holders of `key` agree on. */
void auth_key_derive(const struct auth_key *key, const void *what, size_t bytes,
                     struct auth_key *derived);
peal_status auth_random(void *to, size_t bytes, peal_diag *diag);

/* The connecting end. ERR_PEER: the other end does not hold the key, or is gone. */
peal_status auth_prove(int fd, const struct auth_key *key, const struct auth_claim *claim,
                       struct sock_wait wait);

/* The listening end. */
#define AUTH_GUESTS 64u
#define AUTH_MESSAGE 64u
struct auth_guest {
    int fd;
    int answered; /* our nonce is out */
    uint32_t got;
    uint64_t since;
    uint8_t message[AUTH_MESSAGE];
    uint8_t nonces[2 * AUTH_BYTES];
};
struct auth_gate {
    int listener;
    struct auth_key key;
    uint32_t guests;
    uint64_t refused; /* strangers turned away */
    int full;         /* this process may open no more files: those who knock have to wait */
    struct auth_guest guest[AUTH_GUESTS];
};
void auth_gate_open(struct auth_gate *gate, int listener, const struct auth_key *key);
void auth_gate_close(struct auth_gate *gate); /* drops guests, keeps the listener */
/* The next peer that has proven itself. TIMEOUT, ABORTED; IO: AUTH_NO_FILES. */
#define AUTH_NO_FILES                                                                              \
    "no connection can be taken: this process has as many files open as it may (ulimit -n)"
peal_status auth_gate_next(struct auth_gate *gate, struct sock_wait wait, int *fd,
                           struct auth_claim *claim);

/* One message of a guest, whole: 0 if it is none of a peer's. First its hello, then its proof;
 * the answer is AUTH_BYTES in `reply`. */
int auth_answer(struct auth_guest *guest, const struct auth_key *key, struct auth_claim *claim,
                uint8_t *reply);
#define AUTH_HELLO_BYTES 40u
#define AUTH_PROOF_BYTES 64u

#endif
