/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs that kernels post to (engine ibgda): who makes them, and what a rank has of them.
 * A maker for a NIC would do this with mlx5dv: queues and completions in memory of the device, the
 * doorbell page mapped for it. There is none yet, as no such machine was at hand: only the tests'
 * stand-in for the driver brings one along, a NIC that reads the entries and copies.
 */
#ifndef PEAL_RUNTIME_CUDA_NIC_H
#define PEAL_RUNTIME_CUDA_NIC_H

#include <stdint.h>

struct dev_mlx5_queue;

/* Functions give 0 or a number of errno. One thread at a time. */
struct cuda_nic_calls {
    int (*open)(void **nic);
    void (*close)(void *nic); /* with its queues, which are empty, and its keys */
    /* Lets the NIC read and write memory of the device; gives it a key. */
    int (*memory)(void *nic, uint64_t at, uint64_t bytes, uint32_t *key);
    /* What another rank's NIC calls so: `here` is where this process has it. */
    int (*reach)(void *nic, uint32_t key, uint64_t at, uint64_t bytes, uint64_t here);
    /* A queue pair with so many places, a power of two. */
    int (*queue)(void *nic, uint32_t blocks, struct dev_mlx5_queue *queue);
};

/* The stand-in's, by this name. */
#define CUDA_NIC_STAND_IN "peal_stand_in_nic"

#endif
