/* SPDX-License-Identifier: Apache-2.0 */
/* Contention: how long the resources that simultaneous transfers share are busy. */
#include "compiler.h"

#include <string.h>

peal_status peal_load_init(struct load *load, peal_ctx *ctx, const peal_fabric *fabric)
{
    memset(load, 0, sizeof *load);
    load->ctx = ctx;
    load->resources = peal_topo_resources(fabric);
    load->us = peal_calloc(ctx, (size_t)load->resources + 1, sizeof(double));
    load->touched = peal_calloc(ctx, (size_t)load->resources + 1, sizeof(uint64_t));
    return load->us && load->touched ? PEAL_OK : PEAL_ERR_MEMORY;
}

void peal_load_free(struct load *load)
{
    if (!load->ctx)
        return;
    peal_free(load->ctx, load->us, ((size_t)load->resources + 1) * sizeof(double));
    peal_free(load->ctx, load->touched, ((size_t)load->resources + 1) * sizeof(uint64_t));
    load->us = NULL;
    load->touched = NULL;
}

void peal_load_clear(struct load *load)
{
    for (uint64_t i = 0; i < load->ntouched; i++)
        load->us[load->touched[i]] = 0;
    load->ntouched = 0;
    load->worst = 0;
    load->worst_resource = 0;
}

void peal_load_add(struct load *load, const struct topo_path *path, double share, double scale)
{
    for (uint32_t i = 0; i < path->uses; i++) {
        uint64_t resource = path->use[i].resource;
        if (load->us[resource] == 0)
            load->touched[load->ntouched++] = resource;
        load->us[resource] += share / (path->use[i].gbs * scale * 1e3);
        if (load->us[resource] > load->worst) {
            load->worst = load->us[resource];
            load->worst_resource = resource;
        }
    }
}
