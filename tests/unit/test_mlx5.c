/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of the GPU-driven path's work queue entries against those that rdma-core's mlx5dv.h
 * makes. Compiled out where there is no such header. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "device/dev_mlx5.h"
#include "mlx5_nic.h"
#include "test_suite.h"

/* What the device headers ask of a host; nothing here waits. */
void dev_host_turn(struct dev_thread *t)
{
    (void)t;
}

void dev_host_sync(struct dev_thread *t)
{
    (void)t;
}

int dev_host_sync_or(struct dev_thread *t, uint32_t value)
{
    (void)t;
    return value != 0;
}

struct queues {
    _Alignas(64) unsigned char entries[8][64];
    uint32_t record;
    uint64_t doorbell;
    uint32_t taken;
    _Alignas(64) unsigned char done[16][64];
    struct dev_mlx5_queue queue;
};

static void make(struct queues *q)
{
    memset(q, 0, sizeof *q);
    q->queue.entries = (uintptr_t)q->entries;
    q->queue.record = (uintptr_t)&q->record;
    q->queue.doorbell = (uintptr_t)&q->doorbell;
    q->queue.done = (uintptr_t)q->done;
    q->queue.number = 0xabc123;
    q->queue.blocks = 8;
    q->queue.taken = (uintptr_t)&q->taken;
    q->queue.cqes = 16;
    memset(q->done, 0xff, sizeof q->done); /* as the host leaves it: nothing is done */
}

#if defined(PEAL_HAVE_MLX5DV)
#include "cuda_mlx5.h"

/* As a driver that uses the setters would. */
static void wanted(unsigned char *block, uint16_t index, uint8_t opcode, uint32_t immediate,
                   uint64_t raddr, uint32_t rkey)
{
    struct mlx5_wqe_raddr_seg remote = {htobe64(raddr), htobe32(rkey), 0};
    memset(block, 0, 64);
    mlx5dv_set_ctrl_seg((struct mlx5_wqe_ctrl_seg *)(void *)block, index, opcode, 0, 0xabc123,
                        MLX5_WQE_CTRL_CQ_UPDATE, 3, 0, htobe32(immediate));
    memcpy(block + 16, &remote, sizeof remote);
}

START_TEST(test_put)
{
    struct queues q;
    unsigned char block[64];
    struct dev_mlx5_target to = {0x1122334455667788u, 0xdeadbeefu, 0x00c0ffeeu};
    make(&q);
    q.queue.posted = 0x1fffau + (uint32_t)_i; /* over the index's 16 bits, and around the queue */
    uint32_t at = q.queue.posted & 7;
    dev_mlx5_put(&q.queue, 0x99aabbccddeeff00u, &to, 0x12345678);
    wanted(block, (uint16_t)(0xfffa + _i), MLX5_OPCODE_RDMA_WRITE, 0, to.address, to.key);
    mlx5dv_set_data_seg((struct mlx5_wqe_data_seg *)(void *)(block + 32), 0x12345678, 0x00c0ffee,
                        0x99aabbccddeeff00u);
    ck_assert_mem_eq(q.entries[at], block, sizeof block);
}
END_TEST

START_TEST(test_number)
{
    struct queues q;
    unsigned char block[64];
    struct dev_mlx5_target to = {0x0807060504030201u, 7, 9};
    make(&q);
    dev_mlx5_put_number(&q.queue, 0x1000, &to, 4096, 0x01020304);
    wanted(block, 0, MLX5_OPCODE_RDMA_WRITE_IMM, 0x01020304, to.address, to.key);
    mlx5dv_set_data_seg((struct mlx5_wqe_data_seg *)(void *)(block + 32), 4096, 9, 0x1000);
    ck_assert_mem_eq(q.entries[0], block, sizeof block);
}
END_TEST

START_TEST(test_signal)
{
    struct queues q;
    unsigned char block[64];
    struct dev_mlx5_target to = {0xffeeddccbbaa9988u, 0x80000001u, 0};
    struct mlx5_wqe_inl_data_seg head = {htobe32(MLX5_INLINE_SEG | 8)};
    uint64_t word = 0x0123456789abcdefu;
    make(&q);
    dev_mlx5_signal(&q.queue, &to, word);
    wanted(block, 0, MLX5_OPCODE_RDMA_WRITE, 0, to.address, to.key);
    memcpy(block + 32, &head, sizeof head);
    memcpy(block + 36, &word, sizeof word);
    ck_assert_mem_eq(q.entries[0], block, sizeof block);
}
END_TEST

static void complete(struct queues *q, uint32_t at, uint16_t entry, uint8_t opcode)
{
    struct mlx5_cqe64 *cqe = (struct mlx5_cqe64 *)(void *)q->done[at];
    cqe->wqe_counter = htobe16(entry);
    cqe->op_own = (uint8_t)(opcode << 4 | 1);
}

/* Each entry's completion in its place, what is older told by its number; or one for all. */
START_TEST(test_completion)
{
    struct queues q;
    int failed = 0;
    make(&q);
    q.queue.posted = 4;
    ck_assert_uint_eq(dev_mlx5_finished(&q.queue, 3, &failed), 0);
    ck_assert_int_eq(failed, 0);
    complete(&q, 2, 2, MLX5_CQE_REQ);
    ck_assert_uint_eq(dev_mlx5_count(&q.queue, dev_mlx5_finished(&q.queue, 3, &failed)), 3);
    ck_assert_uint_eq(dev_mlx5_finished(&q.queue, 4, &failed), 0);
    q.queue.posted = 22; /* the 19th is awaited, whose place the 3rd had */
    ck_assert_uint_eq(dev_mlx5_count(&q.queue, dev_mlx5_finished(&q.queue, 19, &failed)), 3);
    complete(&q, 2, 18, MLX5_CQE_REQ);
    ck_assert_uint_eq(dev_mlx5_count(&q.queue, dev_mlx5_finished(&q.queue, 19, &failed)), 19);
    complete(&q, 3, 19, MLX5_CQE_REQ_ERR);
    (void)dev_mlx5_finished(&q.queue, 19, &failed);
    ck_assert_int_eq(failed, 0);
    (void)dev_mlx5_finished(&q.queue, 20, &failed);
    ck_assert_int_eq(failed, 1);
    q.queue.cqes = 1;
    complete(&q, 0, 41, MLX5_CQE_REQ);
    ck_assert_uint_eq(dev_mlx5_finished(&q.queue, 7, &failed), 42);
    ck_assert_int_eq(failed, 0);
}
END_TEST

/* What mlx5dv_init_obj says of a queue pair, taken for what kernels know, or refused. */
START_TEST(test_queue_pair)
{
    static unsigned char blocks[64 * 64], completions[256 * 64], page[64];
    static uint32_t records[2], cq_records[2];
    struct mlx5dv_qp qp = {
        .dbrec = records, .sq = {.buf = blocks, .wqe_cnt = 64, .stride = 64}, .bf = {.reg = page}};
    struct mlx5dv_cq cq = {.buf = completions, .dbrec = cq_records, .cqe_cnt = 256, .cqe_size = 64};
    struct mlx5_places places;
    ck_assert(cuda_mlx5_fits(&qp, &cq));
    cuda_mlx5_places(&qp, &cq, &places);
    ck_assert(places.entries == blocks && places.entries_bytes == sizeof blocks);
    ck_assert(places.done == completions && places.done_bytes == sizeof completions);
    ck_assert(places.record == &records[MLX5_SND_DBR] && places.taken == &cq_records[0]);
    ck_assert(places.doorbell == page);
    struct mlx5dv_qp other = qp;
    other.sq.stride = 128;
    ck_assert(!cuda_mlx5_fits(&other, &cq));
    other = qp;
    other.sq.wqe_cnt = 48;
    ck_assert(!cuda_mlx5_fits(&other, &cq));
    other.sq.wqe_cnt = 256; /* more than half of the completions */
    ck_assert(!cuda_mlx5_fits(&other, &cq));
    other = qp;
    other.bf.reg = NULL;
    ck_assert(!cuda_mlx5_fits(&other, &cq));
    cq.cqe_size = 128;
    ck_assert(!cuda_mlx5_fits(&qp, &cq));
    cq.cqe_size = 64;
    qp.sq.wqe_cnt = 1 << 15; /* counters of 16 bits */
    cq.cqe_cnt = 1 << 16;
    ck_assert(!cuda_mlx5_fits(&qp, &cq));
}
END_TEST

/* Consumer indices have 24 bits. */
START_TEST(test_take)
{
    struct queues q;
    make(&q);
    dev_mlx5_take(&q.queue, 3);
    ck_assert_uint_eq(q.taken, 0);
    dev_mlx5_take(&q.queue, 4);
    ck_assert_uint_eq(q.taken, htobe32(4));
    q.queue.told = 0x0fffffe;
    dev_mlx5_take(&q.queue, 0x1000002);
    ck_assert_uint_eq(q.taken, htobe32(2));
    q.queue.taken = 0;
    dev_mlx5_take(&q.queue, 0x2000000);
}
END_TEST
#endif

START_TEST(test_ring)
{
    struct queues q;
    struct dev_mlx5_target to = {16, 1, 2};
    unsigned char record[4];
    make(&q);
    for (uint32_t i = 0; i < 11; i++) {
        dev_mlx5_put(&q.queue, 64, &to, i);
        dev_mlx5_ring(&q.queue);
        ck_assert_mem_eq(&q.doorbell, q.entries[i % 8], 8);
    }
    memcpy(record, &q.record, sizeof record);
    ck_assert_uint_eq(record[3], 11);
    ck_assert_int_eq(record[0] + record[1] + record[2], 0);
    ck_assert_uint_eq(dev_mlx5_count(&q.queue, 9), 9);
    q.queue.posted = 0x30002; /* over the counter's 16 bits */
    ck_assert_uint_eq(dev_mlx5_count(&q.queue, 0xfffe), 0x2fffe);
    ck_assert_uint_eq(dev_mlx5_count(&q.queue, 2), 0x30002);
}
END_TEST

/* ---- entries that a NIC carries out, around its queue and over the counter's 16 bits */

START_TEST(test_nic)
{
    static char here[4096], there[4096];
    static struct nic nic;
    memset(&nic, 0, sizeof nic);
    nic.random = 5;
    struct nic_queue *made = nic_add_queue(&nic, 8);
    ck_assert_ptr_nonnull(made);
    ck_assert(nic_add_region(&nic, 7, (uintptr_t)here, sizeof here, here));
    ck_assert(nic_add_region(&nic, 9, 0x40000, sizeof there, there));
    struct dev_mlx5_queue queue = {.entries = (uintptr_t)made->entries,
                                   .record = (uintptr_t)&made->record,
                                   .doorbell = (uintptr_t)&made->doorbell,
                                   .done = (uintptr_t)made->done,
                                   .taken = (uintptr_t)&made->taken,
                                   .cqes = made->cqes,
                                   .number = made->number,
                                   .blocks = made->blocks};
    struct dev_mlx5_target to = {0x40000, 9, 7};
    int failed = 0;
    for (uint64_t i = 0; i < 70000 && !nic.complaint; i++) {
        uint32_t at = (uint32_t)(i * 24 % 4000);
        memcpy(here + at, &i, sizeof i);
        uint32_t want = queue.posted - 6, count;
        while ((count = dev_mlx5_count(&queue, dev_mlx5_finished(&queue, want, &failed)),
                (int32_t)(count - want) < 0 && !nic.complaint))
            (void)nic_serve(&nic);
        dev_mlx5_take(&queue, count);
        to.address = 0x40000 + at;
        dev_mlx5_put(&queue, (uintptr_t)here + at, &to, sizeof i);
        to.address = 0x40000 + 4088;
        dev_mlx5_signal(&queue, &to, i + 1);
        dev_mlx5_ring(&queue);
        uint64_t seen;
        memcpy(&seen, there + 4088, sizeof seen);
        while (seen != i + 1 && !nic.complaint) {
            (void)nic_serve(&nic);
            memcpy(&seen, there + 4088, sizeof seen);
        }
        ck_assert_mem_eq(there + at, &i, sizeof i); /* the data is in front of its flag */
    }
    ck_assert_msg(!nic.complaint, "%s", nic.complaint);
    ck_assert_uint_eq(nic.entries, 140000);
    /* What no key covers is an error that is told. */
    to.address = 0x40000 + 4090;
    dev_mlx5_put(&queue, (uintptr_t)here, &to, 8);
    dev_mlx5_ring(&queue);
    for (int i = 0; i < 100 && !failed; i++) {
        (void)nic_serve(&nic);
        (void)dev_mlx5_finished(&queue, queue.posted, &failed);
    }
    ck_assert_int_eq(failed, 1);
    nic_clear(&nic);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mlx5");
    TCase *tests = tcase_create("mlx5");
#if defined(PEAL_HAVE_MLX5DV)
    tcase_add_loop_test(tests, test_put, 0, 12);
    tcase_add_test(tests, test_number);
    tcase_add_test(tests, test_signal);
    tcase_add_test(tests, test_completion);
    tcase_add_test(tests, test_take);
    tcase_add_test(tests, test_queue_pair);
#endif
    tcase_add_test(tests, test_ring);
    tcase_add_test(tests, test_nic);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
