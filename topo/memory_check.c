/* SPDX-License-Identifier: Apache-2.0 */
/* Whether what a file says of measured ranks and calls is of the machine that it describes. */
#include "fabric.h"

#define RULE "measured"

static peal_status check_memory(peal_fabric *fabric)
{
    const struct topo_memory *memory = &fabric->profile.memory;

    if (!peal_topo_memory(fabric))
        return peal_topo_trap(&fabric->notes, RULE, memory->line,
                              "<memory> is of ranks that share one host's memory; this is a "
                              "machine of %s, where nothing of it counts",
                              fabric->hosts > 1 ? "several hosts" : "accelerators");
    if (memory->ranks && memory->ranks != fabric->ranks)
        return peal_topo_trap(&fabric->notes, RULE, memory->line,
                              "measured with %u ranks, and the file has %u: its calls decide "
                              "nothing, and its rates are those of %u",
                              (unsigned)memory->ranks, (unsigned)fabric->ranks,
                              (unsigned)memory->ranks);
    return PEAL_OK;
}

static int is_same(const struct topo_call *a, const struct topo_call *b)
{
    return peal_streq(a->collective, b->collective) && peal_streq(a->algorithm, b->algorithm) &&
           peal_streq(a->detail ? a->detail : "", b->detail ? b->detail : "") &&
           !(a->tile_bytes < b->tile_bytes) && !(a->tile_bytes > b->tile_bytes) &&
           a->private_buffers == b->private_buffers;
}

/* Of two of one schedule the planner goes by the first. */
static peal_status check_call(peal_fabric *fabric, uint32_t index)
{
    const struct topo_memory *memory = &fabric->profile.memory;
    const struct topo_call *call = &memory->call[index];
    peal_collective collective;

    if (peal_collective_parse(call->collective, &collective) != PEAL_OK)
        return peal_topo_trap(&fabric->notes, RULE, call->line,
                              "a <call> of '%.60s', which is no collective: it decides nothing",
                              call->collective);
    for (uint32_t i = 0; i < index; i++)
        if (is_same(&memory->call[i], call))
            return peal_topo_trap(&fabric->notes, RULE, call->line,
                                  "a second <call> of %s by %.60s; the one of line %u counts",
                                  call->collective, call->algorithm,
                                  (unsigned)memory->call[i].line);
    return PEAL_OK;
}

peal_status peal_topo_memory_check(peal_fabric *fabric)
{
    const struct topo_memory *memory = &fabric->profile.memory;

    if (!memory->count[TOPO_USE_LOAD])
        return PEAL_OK;
    PEAL_TRY(check_memory(fabric));
    for (uint32_t i = 0; i < memory->calls; i++)
        PEAL_TRY(check_call(fabric, i));
    return PEAL_OK;
}
