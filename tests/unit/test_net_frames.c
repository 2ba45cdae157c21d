/* SPDX-License-Identifier: Apache-2.0 */
/* Who is let in, and what a peer may name: proofs and frames, right and wrong by one bit. */
#include "clock.h"
#include "frame.h"
#include "support.h"
#include "test_suite.h"

#include <check.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

/* ---- proofs */

static struct sock_wait in_seconds(unsigned seconds)
{
    return (struct sock_wait){rt_now_ns() + seconds * 1000000000ull, NULL};
}

struct caller {
    struct sock_addr to;
    struct auth_key key;
    struct auth_claim claim;
    peal_status status;
    int fd;
};

static void *call_main(void *user)
{
    struct caller *caller = user;
    caller->status = sock_dial(&caller->to, NULL, in_seconds(20), &caller->fd, NULL);
    if (caller->status == PEAL_OK)
        caller->status = auth_prove(caller->fd, &caller->key, &caller->claim, in_seconds(20));
    return NULL;
}

static struct sock_addr listen_somewhere(int *fd)
{
    struct sock_addr addr = {.family = 4, .ip = {127, 0, 0, 1}};
    ck_assert_int_eq(sock_listen(&addr, fd, NULL), PEAL_OK);
    return addr;
}

START_TEST(test_proof)
{
    static struct auth_gate gate;
    struct auth_claim claim = {0};
    struct caller caller = {.claim = {AUTH_LINK, 4, 3, 1, {9, 8, 7}}, .fd = -1};
    pthread_t thread;
    int listener, fd = -1;
    int same = _i == 0;
    auth_key_from("a key", 5, &caller.key);
    caller.to = listen_somewhere(&listener);
    struct auth_key ours = caller.key;
    ours.bytes[31] ^= same ? 0 : 1;
    auth_gate_open(&gate, listener, &ours);
    ck_assert_int_eq(pthread_create(&thread, NULL, call_main, &caller), 0);
    peal_status status = auth_gate_next(&gate, in_seconds(same ? 20 : 1), &fd, &claim);
    auth_gate_close(&gate);
    (void)pthread_join(thread, NULL);
    ck_assert_int_eq(status, same ? PEAL_OK : PEAL_ERR_TIMEOUT);
    ck_assert_int_eq(caller.status, same ? PEAL_OK : PEAL_ERR_PEER);
    if (same)
        ck_assert_mem_eq(&claim, &caller.claim, sizeof claim);
    sock_close(&fd);
    sock_close(&caller.fd);
    sock_close(&listener);
}
END_TEST

static void *prove_main(void *user)
{
    struct caller *caller = user;
    caller->status = auth_prove(caller->fd, &caller->key, &caller->claim, in_seconds(20));
    return NULL;
}

/* Of this thread. */
static uint64_t processor_ns(void)
{
    struct timespec used;
    ck_assert_int_eq(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used), 0);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

/* Who may open no more files says so, rather than wait for nothing; but first strangers go, after
 * a while that the processor does not spend on it. */
START_TEST(test_no_files)
{
    static struct auth_gate gate;
    struct auth_claim claim;
    struct caller caller = {.claim = {AUTH_MEET, 2, 1, 0, {0}}, .fd = -1};
    struct rlimit before, few;
    pthread_t thread;
    int listener, fd = -1, stranger = -1, more;
    caller.to = listen_somewhere(&listener);
    auth_gate_open(&gate, listener, &caller.key);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(sock_dial(&caller.to, NULL, in_seconds(20), &stranger, NULL), PEAL_OK);
    ck_assert_int_eq(sock_dial(&caller.to, NULL, in_seconds(20), &more, NULL), PEAL_OK);
    ck_assert_int_eq(sock_dial(&caller.to, NULL, in_seconds(20), &caller.fd, NULL), PEAL_OK);
    few = before;
    few.rlim_cur = (rlim_t)caller.fd + 1;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    peal_status status = auth_gate_next(&gate, in_seconds(1), &fd, &claim);
    few.rlim_cur++;
    (void)setrlimit(RLIMIT_NOFILE, &few);
    ck_assert_int_eq(status, PEAL_ERR_IO);
    ck_assert_int_eq(pthread_create(&thread, NULL, prove_main, &caller), 0);
    uint64_t used = processor_ns();
    status = auth_gate_next(&gate, in_seconds(20), &fd, &claim);
    used = processor_ns() - used;
    (void)pthread_join(thread, NULL);
    (void)setrlimit(RLIMIT_NOFILE, &before);
    ck_assert_uint_lt(used, 200000000);
    ck_assert_int_eq(status, PEAL_OK);
    ck_assert_int_eq(caller.status, PEAL_OK);
    auth_gate_close(&gate);
    sock_close(&stranger);
    sock_close(&more);
    sock_close(&fd);
    sock_close(&caller.fd);
    sock_close(&listener);
}
END_TEST

/* Of those who knock without a proof only so many are kept, and the one with a proof gets in. */
START_TEST(test_crowd)
{
    static struct auth_gate gate;
    struct auth_claim claim;
    struct caller caller = {.claim = {AUTH_MEET, 2, 1, 0, {0}}, .fd = -1};
    int strangers[3 * AUTH_GUESTS];
    pthread_t thread;
    int listener, fd = -1;
    caller.to = listen_somewhere(&listener);
    auth_gate_open(&gate, listener, &caller.key);
    for (unsigned i = 0; i < 3 * AUTH_GUESTS; i++) {
        ck_assert_int_eq(sock_dial(&caller.to, NULL, in_seconds(20), &strangers[i], NULL), PEAL_OK);
        (void)!send(strangers[i], i % 2 ? "GET / HTTP/1.0\r\n\r\n" : "PEALNET1", 8, MSG_NOSIGNAL);
    }
    ck_assert_int_eq(pthread_create(&thread, NULL, call_main, &caller), 0);
    ck_assert_int_eq(auth_gate_next(&gate, in_seconds(20), &fd, &claim), PEAL_OK);
    (void)pthread_join(thread, NULL);
    ck_assert_int_eq(caller.status, PEAL_OK);
    ck_assert_uint_le(gate.guests, AUTH_GUESTS);
    ck_assert_uint_ge(gate.refused, AUTH_GUESTS);
    auth_gate_close(&gate);
    for (unsigned i = 0; i < 3 * AUTH_GUESTS; i++)
        sock_close(&strangers[i]);
    sock_close(&fd);
    sock_close(&caller.fd);
    sock_close(&listener);
}
END_TEST

/* Keys differ by what they are made of; every bit of a proof counts. */
START_TEST(test_bits)
{
    struct auth_guest guest = {.fd = -1};
    struct auth_claim claim;
    struct auth_key key, other;
    uint8_t reply[AUTH_BYTES];
    auth_key_from("k", 1, &key);
    auth_key_derive(&key, "x", 1, &other);
    ck_assert_mem_ne(&key, &other, sizeof key);
    auth_key_from(NULL, 0, &other);
    ck_assert_mem_ne(&key, &other, sizeof key);
    memcpy(guest.message, "PEALNET1", 8);
    ck_assert_int_eq(auth_answer(&guest, &key, &claim, reply), 1);
    guest.answered = 1;
    for (unsigned bit = 0; bit < 8 * AUTH_PROOF_BYTES; bit += 5) {
        guest.message[bit / 8] ^= (uint8_t)(1u << bit % 8);
        ck_assert_int_eq(auth_answer(&guest, &key, &claim, reply), 0);
    }
    guest.answered = 0;
    guest.message[0] = 'X';
    ck_assert_int_eq(auth_answer(&guest, &key, &claim, reply), 0);
}
END_TEST

/* ---- frames */

static struct rt_layout layout = {.nranks = 4,
                                  .nsems = 3,
                                  .count_bytes = 128,
                                  .packet_bytes = 4096,
                                  .scratch_bytes = 8192,
                                  .sems = 8192,
                                  .counts = 65536,
                                  .packets = 131072,
                                  .scratch = 262144,
                                  .heap = 524288,
                                  .total = 1048576};

static struct frame_bounds bounds(void)
{
    return (struct frame_bounds){.layout = &layout,
                                 .rank = 1,
                                 .peer = 2,
                                 .streams = 2,
                                 .received = 5,
                                 .sent = 9,
                                 .acked = 7,
                                 .out_bytes = 1000,
                                 .sems = 3};
}

static int passes(struct frame frame, struct frame_bounds b)
{
    char body[FRAME_BODY_MAX] = {0};
    frame.head_hash = 0;
    frame.body_hash = 0;
    if (frame.bytes <= sizeof body)
        frame_seal(&frame, body);
    else
        frame.head_hash = peal_hash64(&frame, offsetof(struct frame, head_hash));
    return frame_check(&frame, &b);
}

#define OWN_SCRATCH (262144ull + 2 * 8192)
START_TEST(test_frames)
{
    static const struct {
        struct frame frame;
        uint32_t stream;
        int passes;
    } cases[] = {
        {{FRAME_DATA, 100, OWN_SCRATCH, 6, 0, 0, 0}, 1, 1},
        {{FRAME_DATA, 100, OWN_SCRATCH, 5, 0, 0, 0}, 1, 0},
        {{FRAME_DATA, 0, OWN_SCRATCH, 6, 0, 0, 0}, 1, 0},
        {{FRAME_DATA, 8192, OWN_SCRATCH, 6, 0, 0, 0}, 0, 1},
        {{FRAME_DATA, 8192, OWN_SCRATCH + 8192, 6, 0, 0, 0}, 0, 1},
        {{FRAME_DATA, 8192, OWN_SCRATCH + 1, 6, 0, 0, 0}, 0, 0},
        {{FRAME_DATA, 1, OWN_SCRATCH + 2 * 8192, 6, 0, 0, 0}, 0, 0},
        {{FRAME_DATA, 1, OWN_SCRATCH - 1, 6, 0, 0, 0}, 0, 0},
        {{FRAME_DATA, 1, 0, 6, 0, 0, 0}, 0, 0},
        {{FRAME_DATA, 1, UINT64_MAX, 6, 0, 0, 0}, 0, 0},
        {{FRAME_DATA, 1000, FAR_OUT, 6, 0, 0, 0}, 0, 1},
        {{FRAME_DATA, 1001, FAR_OUT, 6, 0, 0, 0}, 0, 0},
        {{FRAME_DATA, 1, FAR_OUT + 1000, 6, 0, 0, 0}, 0, 0},
        {{FRAME_DATA, FRAME_DATA_MAX + 1, FAR_OUT, 6, 0, 0, 0}, 0, 0},
        {{FRAME_STORE, 0, 65536 + 2 * 128 + 16, 1, 0, 0, 0}, 0, 1},
        {{FRAME_STORE, 0, 65536 + 3 * 128 + 16, 1, 0, 0, 0}, 0, 1},
        {{FRAME_STORE, 0, 65536 + 2 * 128 + 16, 1, 0, 0, 0}, 1, 0},
        {{FRAME_STORE, 0, 65536 + 2 * 128 + 8, 1, 0, 0, 0}, 0, 0},
        {{FRAME_STORE, 0, 65536 + 4 * 128 + 16, 1, 0, 0, 0}, 0, 0},
        {{FRAME_STORE, 8, 65536 + 2 * 128 + 16, 1, 0, 0, 0}, 0, 0},
        {{FRAME_SIGNAL, 16, 2, 1, 2, 0, 0}, 0, 1},
        {{FRAME_SIGNAL, 16, 3, 1, 2, 0, 0}, 0, 0},
        {{FRAME_SIGNAL, 8, 2, 1, 2, 0, 0}, 0, 0},
        {{FRAME_SIGNAL, 8, 2, 1, 1, 0, 0}, 0, 0},
        {{FRAME_SIGNAL, 16, 2, 1, 2, 0, 0}, 1, 0},
        {{FRAME_ACK, 0, 0, 7, 0, 0, 0}, 1, 1},
        {{FRAME_ACK, 0, 0, 9, 0, 0, 0}, 0, 1},
        {{FRAME_ACK, 0, 0, 10, 0, 0, 0}, 0, 0},
        {{FRAME_ACK, 0, 0, 6, 0, 0, 0}, 0, 0},
        {{FRAME_ERROR, sizeof(struct rt_error), 0, 0, 0, 0, 0}, 0, 1},
        {{FRAME_ERROR, 8, 0, 0, 0, 0, 0}, 0, 0},
        {{FRAME_ASK, 0, 0, 0, 0, 0, 0}, 0, 1},
        {{FRAME_ASK, 0, 0, 0, 0, 0, 0}, 1, 0},
        {{FRAME_STATUS, sizeof(struct frame_wait), 0, 0, 0, 0, 0}, 0, 1},
        {{FRAME_STATUS, sizeof(struct frame_wait), 0, 0, 0, 0, 0}, 1, 0},
        {{FRAME_STATUS, 1, 0, 0, 0, 0, 0}, 0, 0},
        {{FRAME_STATUS, 0, 0, 0, 0, 0, 0}, 0, 0},
        {{FRAME_BYE, 0, 0, 0, 0, 0, 0}, 0, 1},
        {{0, 0, 0, 0, 0, 0, 0}, 0, 0},
        {{9, 0, 0, 0, 0, 0, 0}, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct frame_bounds b = bounds();
        b.stream = cases[i].stream;
        ck_assert_msg(passes(cases[i].frame, b) == cases[i].passes, "case %zu", i);
    }
}
END_TEST

START_TEST(test_flips)
{
    char body[100] = "something";
    struct frame_bounds b = bounds();
    struct frame frame = {.kind = FRAME_DATA, .bytes = 100, .at = OWN_SCRATCH, .a = 6};
    frame_seal(&frame, body);
    ck_assert(frame_check(&frame, &b) && frame_body_right(&frame, body));
    for (unsigned bit = 0; bit < 8 * sizeof frame; bit++) {
        struct frame wrong = frame;
        ((unsigned char *)&wrong)[bit / 8] ^= (unsigned char)(1u << bit % 8);
        ck_assert_int_eq(frame_check(&wrong, &b), 0);
    }
    for (unsigned bit = 0; bit < 8 * sizeof body; bit++) {
        body[bit / 8] = (char)((unsigned char)body[bit / 8] ^ (1u << bit % 8));
        ck_assert_int_eq(frame_body_right(&frame, body), 0);
        body[bit / 8] = (char)((unsigned char)body[bit / 8] ^ (1u << bit % 8));
    }
}
END_TEST

/* ---- addresses */

START_TEST(test_addresses)
{
    char text[SOCK_TEXT];
    struct sock_addr list[4];
    uint32_t count = 4;
    ck_assert_int_eq(sock_resolve("127.0.0.1", 80, in_seconds(20), list, &count, NULL), PEAL_OK);
    ck_assert_uint_eq(count, 1);
    ck_assert_str_eq(sock_text(&list[0], text), "127.0.0.1:80");
    ck_assert(sock_is_here(&list[0]));
    ck_assert_int_eq(sock_resolve("[2001:db8::7]", 1, in_seconds(20), list, &count, NULL), PEAL_OK);
    ck_assert_str_eq(sock_text(&list[0], text), "[2001:db8::7]:1");
    ck_assert(!sock_is_here(&list[0]));
    ck_assert_int_eq(sock_resolve("", 1, in_seconds(20), list, &count, NULL), PEAL_ERR_ARG);
    ck_assert_int_eq(sock_interface("lo", 4, in_seconds(20), &list[0], NULL), PEAL_OK);
    ck_assert_int_eq(list[0].ip[0], 127);
    ck_assert_int_ne(sock_interface("no such interface", 0, in_seconds(20), &list[0], NULL),
                     PEAL_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net frames");
    TCase *proofs = tcase_create("proofs");
    tcase_set_timeout(proofs, 100);
    tcase_add_loop_test(proofs, test_proof, 0, 2);
    tcase_add_test(proofs, test_no_files);
    tcase_add_test(proofs, test_crowd);
    tcase_add_test(proofs, test_bits);
    suite_add_tcase(suite, proofs);
    TCase *frames = tcase_create("frames");
    tcase_add_test(frames, test_frames);
    tcase_add_test(frames, test_flips);
    tcase_add_test(frames, test_addresses);
    suite_add_tcase(suite, frames);
    return run_suite(suite, CK_FORK_GETENV);
}
