/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer says is believed as far as it names what is there. */
#include "rdma.h"

static const uint8_t hello_mark[8] = RDMA_MARK;

static int store_fits(const struct rdma_record *record, const struct rdma_bounds *bounds)
{
    const struct rt_layout *layout = bounds->layout;
    uint64_t word = bounds->peer * sizeof(rt_word);
    uint64_t own = layout->counts + 2 * layout->count_bytes * bounds->rank + word;
    return word < layout->count_bytes &&
           (record->at == own || record->at == own + layout->count_bytes);
}

int rdma_record_right(const struct rdma_record *record, uint32_t bytes,
                      const struct rdma_bounds *bounds)
{
    if (bytes != sizeof *record)
        return 0;
    for (uint32_t p = bounds->pairs; p < JOB_SOCKETS_MAX; p++)
        if (record->flags[p])
            return 0;
    switch (record->kind) {
    case RDMA_STORE:
        return store_fits(record, bounds);
    case RDMA_SIGNAL:
        return record->at < bounds->layout->nsems;
    case RDMA_WANT:
        return 1;
    case RDMA_OUT: /* a key has 32 bits; what lies behind it is the peer's */
        return record->at <= UINT32_MAX && record->a <= UINT64_MAX - record->b;
    case RDMA_BYE:
        return record->at <= 1;
    default:
        return 0;
    }
}

int rdma_hello_right(const struct rdma_hello *hello, uint32_t pairs, uint64_t scratch_bytes)
{
    if (memcmp(hello->mark, hello_mark, sizeof hello_mark) != 0 || hello->has > 1)
        return 0;
    return !hello->has || (hello->pairs == pairs && hello->scratch_bytes == scratch_bytes &&
                           hello->scratch <= UINT64_MAX - scratch_bytes);
}
