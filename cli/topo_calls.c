/* SPDX-License-Identifier: Apache-2.0 */
/* What a file says that calls took: in peal topo how many, of what. */
#include "cli_json.h"
#include "verb_topo.h"

#include <string.h>

static const char *buffers_word(int private_buffers)
{
    return private_buffers ? "private" : "shared";
}

/* What counts together: calls of one collective with such buffers. */
struct kind {
    const char *collective;
    int private_buffers;
    uint32_t schedules;
    uint32_t algorithms;
    uint64_t low, high;
};
/* More there are not, but for names that are no collective's. */
#define KINDS_MAX (2u * PEAL_COLLECTIVE_COUNT)

static struct kind *find_kind(struct kind *kind, uint32_t *kinds, const peal_fabric_call_info *call)
{
    uint32_t k = 0;
    while (k < *kinds && (strcmp(kind[k].collective, call->collective) != 0 ||
                          kind[k].private_buffers != call->private_buffers))
        k++;
    if (k == KINDS_MAX)
        return NULL;
    if (k == *kinds)
        kind[(*kinds)++] = (struct kind){.collective = call->collective,
                                         .private_buffers = call->private_buffers,
                                         .low = UINT64_MAX};
    return &kind[k];
}

/* Whether no call before it is of the same kind and algorithm. */
static int is_first(const peal_fabric *fabric, uint32_t index, const peal_fabric_call_info *call)
{
    peal_fabric_call_info other = {.size = sizeof other};
    for (uint32_t i = 0; i < index && peal_fabric_call(fabric, i, &other) == PEAL_OK; i++)
        if (other.private_buffers == call->private_buffers &&
            strcmp(other.collective, call->collective) == 0 &&
            strcmp(other.algorithm, call->algorithm) == 0)
            return 0;
    return 1;
}

static uint32_t gather_kinds(const peal_fabric *fabric, struct kind *kind)
{
    uint32_t kinds = 0;
    peal_fabric_call_info call = {.size = sizeof call};
    for (uint32_t i = 0; peal_fabric_call(fabric, i, &call) == PEAL_OK; i++) {
        struct kind *to = find_kind(kind, &kinds, &call);
        if (!to)
            continue;
        to->schedules++;
        to->algorithms += is_first(fabric, i, &call) ? 1 : 0;
        to->low = call.min_bytes < to->low ? call.min_bytes : to->low;
        to->high = call.max_bytes > to->high ? call.max_bytes : to->high;
    }
    return kinds;
}

void topo_calls(const peal_fabric *fabric, const peal_fabric_info *info,
                const struct output *output)
{
    struct kind kind[KINDS_MAX];
    struct grid grid;
    char low[NUMBER_TEXT], high[NUMBER_TEXT];
    if (!info->memory_ranks)
        return;
    uint32_t kinds = gather_kinds(fabric, kind);
    fprintf(output->file,
            "\nmeasured with %lu ranks: rates of copying, and calls of %lu schedules\n",
            (unsigned long)info->memory_ranks, (unsigned long)info->calls);
    if (!kinds)
        return;
    grid_begin(&grid, "collective|buffers|>schedules|>algorithms|sizes");
    for (uint32_t k = 0; k < kinds; k++) {
        grid_add(&grid, "%s", kind[k].collective);
        grid_add(&grid, "%s", buffers_word(kind[k].private_buffers));
        grid_add(&grid, "%lu", (unsigned long)kind[k].schedules);
        grid_add(&grid, "%lu", (unsigned long)kind[k].algorithms);
        grid_add(&grid, "%s..%s", size_text(kind[k].low, low), size_text(kind[k].high, high));
    }
    grid_print(&grid, output);
}

void json_measured(json_t *root, const peal_fabric *fabric, const peal_fabric_info *info)
{
    peal_fabric_call_info call = {.size = sizeof call};
    if (!info->memory_ranks) {
        json_text(root, "measured", NULL);
        return;
    }
    json_t *measured = json_child(root, "measured");
    json_count(measured, "ranks", info->memory_ranks);
    json_t *list = json_list(measured, "calls");
    for (uint32_t i = 0; peal_fabric_call(fabric, i, &call) == PEAL_OK; i++) {
        json_t *item = json_item(list);
        json_text(item, "collective", call.collective);
        json_text(item, "algorithm", call.algorithm);
        json_text(item, "detail", call.detail);
        json_count(item, "tile_bytes", call.tile_bytes);
        json_text(item, "buffers", buffers_word(call.private_buffers));
        json_count(item, "times", call.times);
        json_count(item, "min_bytes", call.min_bytes);
        json_count(item, "max_bytes", call.max_bytes);
        json_count(item, "line", call.line);
    }
}
