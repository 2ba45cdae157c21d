/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <memory ranks= entry-us=><rate use= bytes= gbs=/>... <call/>...</memory>: what ranks of one
 * memory do, measured with so many of them, on the cores that they share: what a call takes besides
 * its steps, and how fast a rank copies in a message of so many bytes: out of callers'
 * buffers (load), into those too (store), or by way of memory that ranks write for each other
 * (exchange).
 */
#include "cluster.h"

#include "defaults.h"

const char *peal_topo_use_name(enum topo_rate_use use)
{
    static const char *const names[TOPO_USES] = {"load", "store", "exchange", "doubling", "halving",
                                                 "ring", "swing", "star",     "tree"};
    return names[use];
}

static peal_status read_rate(struct cluster_reader *reader, const struct topo_elem *elem,
                             struct topo_memory *memory)
{
    static const char *const attributes[] = {"use", "bytes", "gbs", NULL};
    const char *use = peal_topo_attr(reader->doc, elem, "use");
    struct topo_rate rate = {0, 0};
    int to = 0;

    if (!peal_streq(elem->name, "rate"))
        return peal_topo_cluster_refuse(reader, elem, "not an element of <memory>",
                                        "<rate> or <call>");
    PEAL_TRY(peal_topo_cluster_known(reader, elem, attributes, "use, bytes or gbs"));
    PEAL_TRY(peal_topo_cluster_leaf(reader, elem));
    while (use && to < TOPO_USES && !peal_streq(use, peal_topo_use_name((enum topo_rate_use)to)))
        to++;
    if (!use || to == TOPO_USES)
        return peal_topo_cluster_refuse(reader, elem, "no such use",
                                        "load, store, exchange, or an algorithm that exchanges");
    PEAL_TRY(peal_topo_cluster_real(reader, elem, "bytes", 1, 1e15, &rate.bytes));
    PEAL_TRY(peal_topo_cluster_real(reader, elem, "gbs", 0.001, 1e6, &rate.gbs));
    if (!(rate.bytes > 0) || !(rate.gbs > 0))
        return peal_topo_cluster_refuse(reader, elem, "bytes or gbs is missing", "both");
    if (memory->count[to] == TOPO_RATES_MAX)
        return peal_topo_cluster_refuse(reader, elem, "one rate too many", "at most 32 of one use");
    if (memory->count[to] && rate.bytes <= memory->rate[to][memory->count[to] - 1].bytes)
        return peal_topo_cluster_refuse(reader, elem, "bytes that do not rise", "rising sizes");
    memory->rate[to][memory->count[to]++] = rate;
    return PEAL_OK;
}

peal_status peal_topo_cluster_memory(struct cluster_reader *reader, const struct topo_elem *elem)
{
    static const char *const attributes[] = {"ranks", "entry-us", NULL};
    struct topo_memory *memory = &reader->fabric->profile.memory;
    const struct topo_elem *child = peal_topo_first(reader->doc, elem);

    if (memory->count[TOPO_USE_LOAD])
        return peal_topo_cluster_refuse(reader, elem, "a second memory", "one");
    PEAL_TRY(peal_topo_cluster_known(reader, elem, attributes, "ranks or entry-us"));
    PEAL_TRY(peal_topo_cluster_count(reader, elem, "ranks", TOPO_RANKS_MAX, &memory->ranks));
    memory->line = elem->line;
    PEAL_TRY(peal_topo_cluster_real(reader, elem, "entry-us", 0, 1e6, &memory->entry_us));
    for (; child; child = peal_topo_next(reader->doc, child))
        if (!peal_streq(child->name, "call"))
            PEAL_TRY(read_rate(reader, child, memory));
    for (int use = 0; use <= TOPO_USE_EXCHANGE; use++)
        if (!memory->count[use])
            return peal_topo_cluster_refuse(reader, elem, "no rate of one use",
                                            "a <rate> of load, of store and of exchange");
    return peal_topo_cluster_calls(reader, elem, memory);
}

const struct topo_memory *peal_topo_memory(const peal_fabric *fabric)
{
    const struct topo_memory *memory = &fabric->profile.memory;

    return memory->count[TOPO_USE_LOAD] && fabric->hosts == 1 && fabric->type[0].shared_memory
               ? memory
               : NULL;
}

/* Straight lines between the measured times, and through 0 before the first. */
double peal_topo_memory_us(const struct topo_memory *memory, enum topo_rate_use use, double bytes)
{
    if (!memory->count[use])
        use = TOPO_USE_EXCHANGE;
    const struct topo_rate *rate = memory->rate[use];
    uint32_t last = memory->count[use] - 1, at = 1;
    double from, to;

    if (bytes <= rate[0].bytes || last == 0)
        return bytes / (rate[0].gbs * 1e3);
    if (bytes >= rate[last].bytes)
        return bytes / (rate[last].gbs * 1e3);
    while (bytes > rate[at].bytes)
        at++;
    from = rate[at - 1].bytes / rate[at - 1].gbs;
    to = rate[at].bytes / rate[at].gbs;
    return (from +
            (to - from) * (bytes - rate[at - 1].bytes) / (rate[at].bytes - rate[at - 1].bytes)) /
           1e3;
}
