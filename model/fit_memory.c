/* SPDX-License-Identifier: Apache-2.0 */
/* A topology of ranks that share one memory, as they were measured. */
#include "fit.h"

#include "plan.h"
#include "topo.h"
#include "topo_text.h"

static void put_rate(struct peal_buf *buf, const peal_memory_rate *rate)
{
    peal_buf_fmt(buf, "    <rate use=\"%s\" bytes=\"%llu\" gbs=\"",
                 peal_topo_use_name((enum topo_rate_use)rate->use),
                 (unsigned long long)rate->bytes);
    peal_buf_str(buf, peal_topo_real(rate->gbs).text);
    peal_buf_str(buf, "\"/>\n");
}

/* The class's bandwidth, which the bound follows from, is the best that was seen: by a rate, or by
 * a call. */
static void put_head(struct peal_buf *buf, uint32_t ranks, double alpha_us, double entry_us,
                     double best)
{
    peal_buf_fmt(buf, "<?xml version=\"1.0\"?>\n<peal version=\"1\">\n  <host ranks=\"%lu\"/>\n",
                 (unsigned long)ranks);
    peal_buf_str(buf, "  <cost link=\"shm\" alpha-us=\"");
    peal_buf_str(buf, peal_topo_real(alpha_us).text);
    peal_buf_str(buf, "\" beta-gbs=\"");
    peal_buf_str(buf, peal_topo_real(best).text);
    peal_buf_fmt(buf, "\" gap-us=\"0\"/>\n  <memory ranks=\"%lu\" entry-us=\"",
                 (unsigned long)ranks);
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

/* ---- calls */

static void put_call(struct peal_buf *buf, const peal_memory_call *call)
{
    peal_buf_fmt(buf, "    <call collective=\"%s\" algorithm=\"",
                 peal_collective_name(call->collective));
    peal_topo_text_escaped(buf, call->algorithm);
    if (call->detail) {
        peal_buf_str(buf, "\" detail=\"");
        peal_topo_text_escaped(buf, call->detail);
    }
    if (call->tile_bytes)
        peal_buf_fmt(buf, "\" tile=\"%llu", (unsigned long long)call->tile_bytes);
    peal_buf_str(buf, call->private_buffers ? "\" buffers=\"private\">\n" : "\">\n");
    for (uint32_t i = 0; i < call->count; i++) {
        peal_buf_fmt(buf, "      <time bytes=\"%llu\" us=\"",
                     (unsigned long long)call->points[i].bytes);
        peal_buf_str(buf, peal_topo_real(call->points[i].time_us).text);
        peal_buf_str(buf, "\"/>\n");
    }
    peal_buf_str(buf, "    </call>\n");
}

static int is_name(const char *text)
{
    return text && *text && peal_topo_text_plain(text);
}

static int right_call(const peal_memory_call *call)
{
    if (!peal_collective_name(call->collective) || !is_name(call->algorithm) ||
        (call->detail && !is_name(call->detail)) || !call->points || !call->count ||
        call->count > TOPO_TIMES_MAX)
        return 0;
    for (uint32_t i = 0; i < call->count; i++)
        if (!(call->points[i].time_us >= 0.001 && call->points[i].time_us < 1e9) ||
            call->points[i].bytes <= (i ? call->points[i - 1].bytes : 0))
            return 0;
    return 1;
}

static double best_of_calls(const peal_memory_costs *costs, double best)
{
    for (uint32_t i = 0; i < costs->ncalls; i++) {
        const peal_memory_call *call = &costs->calls[i];
        double factor = peal_plan_bus_factor(call->collective, costs->ranks);
        for (uint32_t k = 0; k < call->count; k++) {
            double gbs = factor * (double)call->points[k].bytes / (call->points[k].time_us * 1e3);
            best = gbs > best && gbs < 1e6 ? gbs : best;
        }
    }
    return best;
}

static int all_right(const peal_memory_costs *costs, double *best)
{
    if (!costs->ranks || !(costs->alpha_us >= 0 && costs->alpha_us < 1e6) ||
        !(costs->entry_us >= 0 && costs->entry_us < 1e6) || !costs->rates ||
        !right(costs->rates, costs->nrates, best) || (costs->ncalls && !costs->calls) ||
        costs->ncalls > TOPO_CALLS_MAX)
        return 0;
    for (uint32_t i = 0; i < costs->ncalls; i++)
        if (!right_call(&costs->calls[i]))
            return 0;
    return 1;
}

peal_status peal_memory_write(peal_ctx *ctx, const peal_memory_costs *asked, peal_write_fn write,
                              void *user, peal_diag *diag)
{
    struct peal_buf buf;
    peal_memory_costs costs;
    double best = 0;
    if (!ctx || !write || !asked || peal_import(&costs, sizeof costs, asked) != PEAL_OK ||
        !all_right(&costs, &best))
        return peal_fail(diag, PEAL_ERR_ARG, "peal_memory_write: an argument is missing or wrong");
    peal_buf_init(&buf, ctx, 1 << 22);
    put_head(&buf, costs.ranks, costs.alpha_us, costs.entry_us, best_of_calls(&costs, best));
    for (uint32_t i = 0; i < costs.nrates; i++)
        put_rate(&buf, &costs.rates[i]);
    for (uint32_t i = 0; i < costs.ncalls; i++)
        put_call(&buf, &costs.calls[i]);
    peal_buf_str(&buf, "  </memory>\n</peal>\n");
    peal_status status = buf.status;
    if (status == PEAL_OK)
        status = write(user, buf.data, buf.used);
    else
        status = peal_fail(diag, status, "out of memory while writing a topology");
    peal_buf_free(&buf);
    return status;
}
