/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs that kernels post to (engine ibgda): who makes them, and what a rank has of them.
 *
 *   cuda_nic_mlx5.c   an mlx5 device's, by rdma-core, where that was there when peal was built. It
 * is compiled; no such machine was at hand to run it. the stand-in      the tests' driver brings a
 * NIC along that reads the entries and copies
 */
#ifndef PEAL_RUNTIME_CUDA_NIC_H
#define PEAL_RUNTIME_CUDA_NIC_H

#include <stddef.h>
#include <stdint.h>

struct dev_mlx5_queue;
struct peal_cuda_comm;
struct peal_table;
struct rdma_end;

/* Functions give 0 or a number of errno; *why, of `room` bytes: a clause for people, or left alone.
 * One thread at a time, the comm's context current. */
struct cuda_nic_calls {
    int (*open)(const struct peal_cuda_comm *comm, const struct peal_table *table, void **nic,
                char *why, size_t room);
    void (*close)(void *nic); /* with its queues, which are empty, and its keys */
    /* Lets the NIC read and write memory of the device; gives it a key. */
    int (*memory)(void *nic, uint64_t at, uint64_t bytes, uint32_t *key);
    /* What another rank's NIC calls so: `here` is where this process has it. NULL: the network
     * knows, and pairs are joined. */
    int (*reach)(void *nic, uint32_t key, uint64_t at, uint64_t bytes, uint64_t here);
    /* A queue pair with so many places at least, a power of two. `pair`, `mine`: for join. */
    int (*queue)(void *nic, uint32_t blocks, struct dev_mlx5_queue *queue, void **pair,
                 struct rdma_end *mine);
    int (*join)(void *nic, void *pair, const struct rdma_end *mine, const struct rdma_end *theirs);
};

/* The stand-in's, by this name. */
#define CUDA_NIC_STAND_IN "peal_stand_in_nic"

/* An mlx5 device's; open says why there is none. */
extern const struct cuda_nic_calls cuda_nic_mlx5;

#endif
