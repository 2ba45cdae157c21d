/* SPDX-License-Identifier: Apache-2.0 */
/* The job's key, and the proof of holding it. */
#include "auth.h"
#include "clock.h"

#include <errno.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#define LABEL_BYTES 13u
#define GUEST_NS 5000000000u  /* a handshake takes no longer */
#define STARVED_NS 500000000u /* nor so long, where others find no room */
#define SLICE_MS 50

static const uint8_t hello_mark[8] = {'P', 'E', 'A', 'L', 'N', 'E', 'T', '1'};
static const char connects[LABEL_BYTES + 1] = "peal connects";
static const char listens[LABEL_BYTES + 1] = "peal listens ";

/* ---- keys */

static void mac(const uint8_t *key, size_t key_bytes, const char *label, const void *data,
                size_t bytes, const void *more, size_t more_bytes, uint8_t *out)
{
    struct hmac_sha256_ctx ctx;
    hmac_sha256_set_key(&ctx, key_bytes, key);
    hmac_sha256_update(&ctx, LABEL_BYTES, (const uint8_t *)label);
    hmac_sha256_update(&ctx, bytes, data);
    if (more_bytes)
        hmac_sha256_update(&ctx, more_bytes, more);
    hmac_sha256_digest(&ctx, AUTH_BYTES, out);
}

void auth_key_from(const void *secret, size_t bytes, struct auth_key *key)
{
    static const uint8_t nothing = 0;
    const uint8_t *data = bytes ? secret : &nothing;
    mac((const uint8_t *)"peal", 4, "peal job key ", data, bytes, NULL, 0, key->bytes);
}

void auth_key_derive(const struct auth_key *key, const void *what, size_t bytes,
                     struct auth_key *derived)
{
    mac(key->bytes, AUTH_BYTES, "peal derives ", what, bytes, NULL, 0, derived->bytes);
}

peal_status auth_random(void *to, size_t bytes, peal_diag *diag)
{
    char *at = to;
    while (bytes > 0) {
        ssize_t got = getrandom(at, bytes, 0);
        if (got < 0 && errno != EINTR)
            return peal_fail(diag, PEAL_ERR_IO, "drawing random bytes: %s", strerror(errno));
        if (got > 0) {
            at += got;
            bytes -= (size_t)got;
        }
    }
    return PEAL_OK;
}

/* ---- messages */

static void put_u32(uint8_t *to, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

static uint32_t get_u32(const uint8_t *from)
{
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static void put_claim(const struct auth_claim *claim, uint8_t *to)
{
    put_u32(to, claim->purpose);
    put_u32(to + 4, claim->ranks);
    put_u32(to + 8, claim->rank);
    put_u32(to + 12, claim->stream);
    memcpy(to + 16, claim->world, sizeof claim->world);
}

static void get_claim(const uint8_t *from, struct auth_claim *claim)
{
    claim->purpose = get_u32(from);
    claim->ranks = get_u32(from + 4);
    claim->rank = get_u32(from + 8);
    claim->stream = get_u32(from + 12);
    memcpy(claim->world, from + 16, sizeof claim->world);
}

/* nonces: the one of who connects, then the one of who listens. */
static void prove(const struct auth_key *key, const char *label, const uint8_t *nonces,
                  const uint8_t *claim, uint8_t *out)
{
    mac(key->bytes, AUTH_BYTES, label, nonces, 2 * (size_t)AUTH_BYTES, claim, AUTH_BYTES, out);
}

/* ---- connecting */

peal_status auth_prove(int fd, const struct auth_key *key, const struct auth_claim *claim,
                       struct sock_wait wait)
{
    uint8_t hello[AUTH_HELLO_BYTES];
    uint8_t nonces[2 * AUTH_BYTES];
    uint8_t proof[AUTH_PROOF_BYTES];
    uint8_t wanted[AUTH_BYTES];
    uint8_t answer[AUTH_BYTES];
    PEAL_TRY(auth_random(nonces, AUTH_BYTES, NULL));
    memcpy(hello, hello_mark, sizeof hello_mark);
    memcpy(hello + sizeof hello_mark, nonces, AUTH_BYTES);
    PEAL_TRY(sock_send(fd, hello, sizeof hello, wait));
    PEAL_TRY(sock_recv(fd, nonces + AUTH_BYTES, AUTH_BYTES, wait));
    put_claim(claim, proof);
    prove(key, connects, nonces, proof, proof + AUTH_BYTES);
    PEAL_TRY(sock_send(fd, proof, sizeof proof, wait));
    PEAL_TRY(sock_recv(fd, answer, sizeof answer, wait));
    prove(key, listens, nonces, proof, wanted);
    return memeql_sec(answer, wanted, AUTH_BYTES) ? PEAL_OK : PEAL_ERR_PEER;
}

/* ---- listening */

int auth_answer(struct auth_guest *guest, const struct auth_key *key, struct auth_claim *claim,
                uint8_t *reply)
{
    uint8_t wanted[AUTH_BYTES];
    const uint8_t *message = guest->message;
    if (!guest->answered) {
        if (memcmp(message, hello_mark, sizeof hello_mark) != 0 ||
            auth_random(guest->nonces + AUTH_BYTES, AUTH_BYTES, NULL) != PEAL_OK)
            return 0;
        memcpy(guest->nonces, message + sizeof hello_mark, AUTH_BYTES);
        memcpy(reply, guest->nonces + AUTH_BYTES, AUTH_BYTES);
        return 1;
    }
    prove(key, connects, guest->nonces, message, wanted);
    if (!memeql_sec(message + AUTH_BYTES, wanted, AUTH_BYTES))
        return 0;
    get_claim(message, claim);
    prove(key, listens, guest->nonces, message, reply);
    return 1;
}

void auth_gate_open(struct auth_gate *gate, int listener, const struct auth_key *key)
{
    memset(gate, 0, sizeof *gate);
    gate->listener = listener;
    gate->key = *key;
}

static void drop(struct auth_gate *gate, uint32_t at)
{
    sock_close(&gate->guest[at].fd);
    gate->guest[at] = gate->guest[--gate->guests];
}

void auth_gate_close(struct auth_gate *gate)
{
    while (gate->guests)
        drop(gate, gate->guests - 1);
}

/* The one that has been here longest without a proof. */
static uint32_t oldest(const struct auth_gate *gate)
{
    uint32_t at = 0;
    for (uint32_t i = 1; i < gate->guests; i++)
        if (gate->guest[i].since < gate->guest[at].since)
            at = i;
    return at;
}

/* Bounded, so that those who knock without end do not keep the others waiting. Where there are no
 * files left, strangers make room too; without any, waiting would change nothing. Until there is
 * room nobody listens for a knock: it would be heard all the time. */
static peal_status let_in(struct auth_gate *gate, uint64_t now)
{
    for (uint32_t i = 0; i < AUTH_GUESTS; i++) {
        int fd = sock_accept(gate->listener);
        gate->full = fd == SOCK_NO_MORE;
        if (fd == SOCK_NO_MORE && gate->guests == 0)
            return PEAL_ERR_IO;
        if (fd == SOCK_NO_MORE && now - gate->guest[oldest(gate)].since > STARVED_NS) {
            gate->refused++;
            gate->full = 0;
            drop(gate, oldest(gate));
        }
        if (fd < 0)
            return PEAL_OK;
        if (gate->guests == AUTH_GUESTS) {
            gate->refused++;
            drop(gate, oldest(gate));
        }
        struct auth_guest *guest = &gate->guest[gate->guests++];
        memset(guest, 0, sizeof *guest);
        guest->fd = fd;
        guest->since = now;
    }
    return PEAL_OK;
}

enum heard { NOTHING, GONE, PROVEN };

/* What a guest has sent, as far as its next message goes. */
static enum heard hear(struct auth_gate *gate, struct auth_guest *guest, struct auth_claim *claim)
{
    uint8_t reply[AUTH_BYTES];
    uint32_t whole = guest->answered ? AUTH_PROOF_BYTES : AUTH_HELLO_BYTES;
    ssize_t got = recv(guest->fd, guest->message + guest->got, whole - guest->got, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
        return GONE;
    guest->got += got > 0 ? (uint32_t)got : 0;
    if (guest->got < whole)
        return NOTHING;
    if (!auth_answer(guest, &gate->key, claim, reply))
        return GONE;
    /* So short that it goes whole into an empty socket. */
    if (send(guest->fd, reply, sizeof reply, MSG_NOSIGNAL) != (ssize_t)sizeof reply)
        return GONE;
    guest->got = 0;
    if (guest->answered)
        return PROVEN;
    guest->answered = 1;
    return NOTHING;
}

/* 1: *fd has proven itself. */
static int hear_all(struct auth_gate *gate, uint64_t now, int *fd, struct auth_claim *claim)
{
    for (uint32_t i = gate->guests; i-- > 0;) {
        enum heard heard = hear(gate, &gate->guest[i], claim);
        if (heard == PROVEN) {
            *fd = gate->guest[i].fd;
            gate->guest[i] = gate->guest[--gate->guests];
            return 1;
        }
        if (heard == GONE || now - gate->guest[i].since > GUEST_NS) {
            gate->refused++;
            drop(gate, i);
        }
    }
    return 0;
}

peal_status auth_gate_next(struct auth_gate *gate, struct sock_wait wait, int *fd,
                           struct auth_claim *claim)
{
    for (;;) {
        struct pollfd polled[AUTH_GUESTS + 1];
        uint64_t now = rt_now_ns();
        PEAL_TRY(let_in(gate, now));
        if (hear_all(gate, now, fd, claim))
            return PEAL_OK;
        if (wait.cancel && atomic_load_explicit(wait.cancel, memory_order_acquire))
            return PEAL_ERR_ABORTED;
        if (now > wait.deadline)
            return PEAL_ERR_TIMEOUT;
        polled[0] = (struct pollfd){.fd = gate->full ? -1 : gate->listener, .events = POLLIN};
        for (uint32_t i = 0; i < gate->guests; i++)
            polled[i + 1] = (struct pollfd){.fd = gate->guest[i].fd, .events = POLLIN};
        (void)poll(polled, gate->guests + 1, SLICE_MS);
    }
}
