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
    load->own = peal_calloc(ctx, (size_t)load->resources + 1, sizeof(double));
    load->touched = peal_calloc(ctx, (size_t)load->resources + 1, sizeof(uint64_t));
    return load->us && load->own && load->touched ? PEAL_OK : PEAL_ERR_MEMORY;
}

void peal_load_free(struct load *load)
{
    if (!load->ctx)
        return;
    peal_free(load->ctx, load->us, ((size_t)load->resources + 1) * sizeof(double));
    peal_free(load->ctx, load->own, ((size_t)load->resources + 1) * sizeof(double));
    peal_free(load->ctx, load->touched, ((size_t)load->resources + 1) * sizeof(uint64_t));
    load->us = NULL;
    load->own = NULL;
    load->touched = NULL;
}

void peal_load_clear(struct load *load)
{
    for (uint64_t i = 0; i < load->ntouched; i++)
        load->us[load->touched[i]] = load->own[load->touched[i]] = 0;
    load->ntouched = 0;
    load->worst = load->worst_own = 0;
    load->worst_resource = 0;
}

void peal_load_use(struct load *load, uint64_t resource, double us, double own)
{
    if (load->us[resource] == 0)
        load->touched[load->ntouched++] = resource;
    load->us[resource] += us;
    load->own[resource] += own;
    /* What the group does not use cannot hold it up. */
    if (load->own[resource] > 0 && load->us[resource] > load->worst) {
        load->worst = load->us[resource];
        load->worst_resource = resource;
    }
    if (load->own[resource] > load->worst_own)
        load->worst_own = load->own[resource];
}

void peal_load_add(struct load *load, const struct topo_path *path, double share, double scale,
                   int own)
{
    for (uint32_t i = 0; i < path->uses; i++) {
        double us = share / (path->use[i].gbs * scale * 1e3);
        peal_load_use(load, path->use[i].resource, us, own ? us : 0);
    }
}

double peal_load_alone(const struct topo_path *path, double scale)
{
    double worst = 0;
    for (uint32_t i = 0; i < path->uses; i++) {
        double us = 1 / (path->use[i].gbs * scale * 1e3);
        worst = us > worst ? us : worst;
    }
    return worst;
}

double peal_load_of(const struct load *load, const struct topo_path *path, int own)
{
    const double *us = own ? load->own : load->us;
    double worst = 0;
    for (uint32_t i = 0; i < path->uses; i++)
        if (us[path->use[i].resource] > worst)
            worst = us[path->use[i].resource];
    return worst;
}
