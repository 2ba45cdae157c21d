/* SPDX-License-Identifier: Apache-2.0 */
/* A topology of ranks that share one memory, as they were measured. */
#include "fit.h"

#include "topo.h"
#include "topo_text.h"

static void put_rate(struct peal_buf *buf, const peal_memory_rate *rate)
{
    static const char *const uses[PEAL_MEMORY_USE_COUNT] = {
        "load", "store", "exchange", "doubling", "halving", "ring", "swing", "star", "tree"};
    peal_buf_fmt(buf, "    <rate use=\"%s\" bytes=\"%llu\" gbs=\"", uses[rate->use],
                 (unsigned long long)rate->bytes);
    peal_buf_str(buf, peal_topo_real(rate->gbs).text);
    peal_buf_str(buf, "\"/>\n");
}

/* The class's bandwidth, which the bound follows from, is the best that was seen. */
static void put_head(struct peal_buf *buf, uint32_t ranks, double alpha_us, double entry_us,
                     double best)
{
    peal_buf_fmt(buf, "<?xml version=\"1.0\"?>\n<peal version=\"1\">\n  <host ranks=\"%lu\"/>\n",
                 (unsigned long)ranks);
    peal_buf_str(buf, "  <cost link=\"shm\" alpha-us=\"");
    peal_buf_str(buf, peal_topo_real(alpha_us).text);
    peal_buf_str(buf, "\" beta-gbs=\"");
    peal_buf_str(buf, peal_topo_real(best).text);
    peal_buf_str(buf, "\" gap-us=\"0\"/>\n  <memory entry-us=\"");
    peal_buf_str(buf, peal_topo_real(entry_us).text);
    peal_buf_str(buf, "\">\n");
}

static int right(const peal_memory_rate *rates, uint32_t count, double *best)
{
    uint32_t seen[PEAL_MEMORY_USE_COUNT] = {0};
    uint64_t last[PEAL_MEMORY_USE_COUNT] = {0};
    for (uint32_t i = 0; i < count; i++) {
        unsigned use = (unsigned)rates[i].use;
        if (use >= PEAL_MEMORY_USE_COUNT || !(rates[i].gbs >= 0.001 && rates[i].gbs < 1e6) ||
            rates[i].bytes <= last[use])
            return 0;
        last[use] = rates[i].bytes;
        seen[use]++;
        *best = rates[i].gbs > *best ? rates[i].gbs : *best;
    }
    for (int use = 0; use < PEAL_MEMORY_USE_COUNT; use++)
        if ((!seen[use] && use <= PEAL_MEMORY_EXCHANGE) || seen[use] > TOPO_RATES_MAX)
            return 0;
    return 1;
}

peal_status peal_memory_write(peal_ctx *ctx, uint32_t ranks, double alpha_us, double entry_us,
                              const peal_memory_rate *rates, uint32_t count, peal_write_fn write,
                              void *user, peal_diag *diag)
{
    struct peal_buf buf;
    double best = 0;
    if (!ctx || !write || !rates || !ranks || !(alpha_us >= 0 && alpha_us < 1e6) ||
        !(entry_us >= 0 && entry_us < 1e6) || !right(rates, count, &best))
        return peal_fail(diag, PEAL_ERR_ARG, "peal_memory_write: an argument is missing or wrong");
    peal_buf_init(&buf, ctx, 1 << 20);
    put_head(&buf, ranks, alpha_us, entry_us, best);
    for (uint32_t i = 0; i < count; i++)
        put_rate(&buf, &rates[i]);
    peal_buf_str(&buf, "  </memory>\n</peal>\n");
    peal_status status = buf.status;
    if (status == PEAL_OK)
        status = write(user, buf.data, buf.used);
    else
        status = peal_fail(diag, status, "out of memory while writing a topology");
    peal_buf_free(&buf);
    return status;
}
