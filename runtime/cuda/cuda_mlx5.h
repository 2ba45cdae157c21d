/* SPDX-License-Identifier: Apache-2.0 */
/* What mlx5dv_init_obj says of a queue pair and its completion queue, as kernels want it. */
#ifndef PEAL_RUNTIME_CUDA_MLX5_H
#define PEAL_RUNTIME_CUDA_MLX5_H

#include <infiniband/mlx5dv.h>
#include <stddef.h>

#define CUDA_MLX5_BLOCK 64u /* of the send queue, and of a completion */
#define CUDA_MLX5_CQES 16u  /* completions asked for, for each entry */

struct mlx5_places {
    void *entries;
    size_t entries_bytes;
    void *record;
    void *doorbell;
    void *done;
    size_t done_bytes;
    void *taken;
};

static inline void cuda_mlx5_places(const struct mlx5dv_qp *qp, const struct mlx5dv_cq *cq,
                                    struct mlx5_places *to)
{
    to->entries = qp->sq.buf;
    to->entries_bytes = (size_t)qp->sq.wqe_cnt * qp->sq.stride;
    to->record = &qp->dbrec[MLX5_SND_DBR];
    to->doorbell = qp->bf.reg;
    to->done = cq->buf;
    to->done_bytes = (size_t)cq->cqe_cnt * cq->cqe_size;
    to->taken = &cq->dbrec[0]; /* the consumer index; behind it what arms the queue */
}

static inline int cuda_mlx5_power(uint32_t value)
{
    return value && (value & (value - 1)) == 0;
}

/* Of the form that dev_mlx5.h knows: blocks of 64 bytes, completions of 64, and twice as many of
 * them as blocks, so that none is written over before it was told to be taken. Counters have 16
 * bits. */
static inline int cuda_mlx5_fits(const struct mlx5dv_qp *qp, const struct mlx5dv_cq *cq)
{
    return qp->sq.buf && qp->dbrec && qp->bf.reg && cq->buf && cq->dbrec &&
           qp->sq.stride == CUDA_MLX5_BLOCK && cq->cqe_size == CUDA_MLX5_BLOCK &&
           cuda_mlx5_power(qp->sq.wqe_cnt) && cuda_mlx5_power(cq->cqe_cnt) &&
           cq->cqe_cnt >= 2 * qp->sq.wqe_cnt && qp->sq.wqe_cnt + cq->cqe_cnt < 1u << 16;
}

#endif
