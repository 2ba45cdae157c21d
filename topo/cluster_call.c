/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <call collective= algorithm= detail= tile= buffers=><time bytes= us=/>...</call>, inside
 * <memory>: what a call of one schedule took, by the bytes of its message, measured with all ranks
 * of the host.
 */
#include "cluster.h"

#include <string.h>

static peal_status read_time(const struct cluster_reader *reader, const struct topo_elem *elem,
                             double last, struct topo_time *time)
{
    static const char *const attributes[] = {"bytes", "us", NULL};

    if (!peal_streq(elem->name, "time"))
        return peal_topo_cluster_refuse(reader, elem, "not an element of <call>", "<time>");
    PEAL_TRY(peal_topo_cluster_known(reader, elem, attributes, "bytes or us"));
    PEAL_TRY(peal_topo_cluster_leaf(reader, elem));
    PEAL_TRY(peal_topo_cluster_real(reader, elem, "bytes", 1, 1e15, &time->bytes));
    PEAL_TRY(peal_topo_cluster_real(reader, elem, "us", 0.001, 1e9, &time->us));
    if (!(time->bytes > 0) || !(time->us > 0))
        return peal_topo_cluster_refuse(reader, elem, "bytes or us is missing", "both");
    if (time->bytes <= last)
        return peal_topo_cluster_refuse(reader, elem, "bytes that do not rise", "rising sizes");
    return PEAL_OK;
}

static uint32_t count_children(const struct cluster_reader *reader, const struct topo_elem *elem,
                               const char *name)
{
    const struct topo_elem *child = peal_topo_first(reader->doc, elem);
    uint32_t count = 0;

    for (; child; child = peal_topo_next(reader->doc, child))
        count += !name || peal_streq(child->name, name);
    return count;
}

static peal_status read_times(struct cluster_reader *reader, const struct topo_elem *elem,
                              struct topo_call *call)
{
    const struct topo_elem *child = peal_topo_first(reader->doc, elem);
    uint32_t count = count_children(reader, elem, NULL);

    if (!count || count > TOPO_TIMES_MAX)
        return peal_topo_cluster_refuse(reader, elem, "no <time>, or too many", "1 to 32 of them");
    call->time = peal_topo_arena_alloc(&reader->fabric->arena, count * sizeof *call->time);
    if (!call->time)
        return PEAL_ERR_MEMORY;
    for (; child; child = peal_topo_next(reader->doc, child)) {
        double last = call->times ? call->time[call->times - 1].bytes : 0;

        PEAL_TRY(read_time(reader, child, last, &call->time[call->times]));
        call->times++;
    }
    return PEAL_OK;
}

/* Names of schedules are the planner's to know. */
static peal_status read_name(struct cluster_reader *reader, const struct topo_elem *elem,
                             const char *attribute, int optional, const char **out)
{
    const char *text = peal_topo_attr(reader->doc, elem, attribute);

    if (!text && optional)
        return PEAL_OK;
    if (!text || !*text)
        return peal_topo_cluster_refuse(reader, elem, "a name is missing",
                                        "a collective and an algorithm");
    *out = peal_topo_arena_text(&reader->fabric->arena, text, strlen(text));
    return *out ? PEAL_OK : PEAL_ERR_MEMORY;
}

static peal_status read_call(struct cluster_reader *reader, const struct topo_elem *elem,
                             struct topo_call *call)
{
    static const char *const attributes[] = {"collective", "algorithm", "detail",
                                             "tile",       "buffers",   NULL};
    const char *buffers = peal_topo_attr(reader->doc, elem, "buffers");

    PEAL_TRY(peal_topo_cluster_known(reader, elem, attributes,
                                     "collective, algorithm, detail, tile or buffers"));
    PEAL_TRY(read_name(reader, elem, "collective", 0, &call->collective));
    PEAL_TRY(read_name(reader, elem, "algorithm", 0, &call->algorithm));
    PEAL_TRY(read_name(reader, elem, "detail", 1, &call->detail));
    PEAL_TRY(peal_topo_cluster_real(reader, elem, "tile", 0, 1e15, &call->tile_bytes));
    if (buffers && !peal_streq(buffers, "private") && !peal_streq(buffers, "shared"))
        return peal_topo_cluster_refuse(reader, elem, "no such buffers", "private or shared");
    call->line = elem->line;
    call->private_buffers = buffers && peal_streq(buffers, "private");
    return read_times(reader, elem, call);
}

peal_status peal_topo_cluster_calls(struct cluster_reader *reader, const struct topo_elem *elem,
                                    struct topo_memory *memory)
{
    const struct topo_elem *child = peal_topo_first(reader->doc, elem);
    uint32_t count = count_children(reader, elem, "call");

    if (count > TOPO_CALLS_MAX)
        return peal_topo_cluster_refuse(reader, elem, "too many calls", "at most 1024");
    if (!count)
        return PEAL_OK;
    struct topo_call *call =
        peal_topo_arena_alloc(&reader->fabric->arena, count * sizeof *memory->call);
    if (!call)
        return PEAL_ERR_MEMORY;
    memory->call = call;
    for (; child; child = peal_topo_next(reader->doc, child)) {
        if (!peal_streq(child->name, "call"))
            continue;
        PEAL_TRY(read_call(reader, child, &call[memory->calls]));
        memory->calls++;
    }
    return PEAL_OK;
}

/* Straight lines between the measured times; before the first as long as that, and behind the last
 * at its rate. */
double peal_topo_times_us(const struct topo_time *time, uint32_t count, double bytes)
{
    uint32_t at = 1;

    if (bytes <= time[0].bytes)
        return time[0].us;
    if (bytes >= time[count - 1].bytes)
        return time[count - 1].us * bytes / time[count - 1].bytes;
    while (bytes > time[at].bytes)
        at++;
    return time[at - 1].us + (time[at].us - time[at - 1].us) * (bytes - time[at - 1].bytes) /
                                 (time[at].bytes - time[at - 1].bytes);
}
