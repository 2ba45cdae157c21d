/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <cost link= engine= alpha-us= beta-gbs= gap-us= share=/> puts measured figures in the
 * place of defaults. Without engine, or with the one that moves data over that class by
 * itself (sm inside a host, rdma between hosts), it speaks of the class; with another
 * engine, of what that engine makes of it.
 */
#include "cluster.h"

static peal_engine own_engine(peal_link_class link_class)
{
    return link_class == PEAL_LINK_NET ? PEAL_ENGINE_RDMA : PEAL_ENGINE_SM;
}

static peal_status which(const struct cluster_reader *reader, const struct topo_elem *elem,
                         peal_link_class *link_class, peal_engine *engine)
{
    const char *link = peal_topo_attr(reader->doc, elem, "link");
    const char *name = peal_topo_attr(reader->doc, elem, "engine");

    if (!link || peal_link_class_parse(link, link_class) != PEAL_OK ||
        *link_class == PEAL_LINK_LOOPBACK)
        return peal_topo_cluster_refuse(reader, elem, link ? "unknown link class" : "no link",
                                        "link=\"nvlink\", xgmi, c2c, shm, pcie, smp or net");
    *engine = own_engine(*link_class);
    if (name && peal_engine_parse(name, engine) != PEAL_OK)
        return peal_topo_cluster_refuse(reader, elem, "unknown engine",
                                        "engine=\"sm\", tma, ce, rdma, staged, tcp or ibgda");
    return PEAL_OK;
}

peal_status peal_topo_cluster_cost(struct cluster_reader *reader, const struct topo_elem *elem)
{
    static const char *const attributes[] = {"link",   "engine", "alpha-us", "beta-gbs",
                                             "gap-us", "share",  NULL};
    struct topo_profile *profile = &reader->fabric->profile;
    peal_link_class c;
    peal_engine e;
    struct topo_engine_cost *cost;
    double alpha = -1;
    double beta = -1;
    double gap = -1;
    double share = -1;

    PEAL_TRY(peal_topo_cluster_known(reader, elem, attributes,
                                     "link, engine, alpha-us, beta-gbs, gap-us or share"));
    PEAL_TRY(peal_topo_cluster_leaf(reader, elem));
    PEAL_TRY(which(reader, elem, &c, &e));
    PEAL_TRY(peal_topo_cluster_real(reader, elem, "alpha-us", 0, 1e6, &alpha));
    PEAL_TRY(peal_topo_cluster_real(reader, elem, "beta-gbs", 0.001, 1e6, &beta));
    PEAL_TRY(peal_topo_cluster_real(reader, elem, "gap-us", 0, 1e6, &gap));
    PEAL_TRY(peal_topo_cluster_real(reader, elem, "share", 0.001, 1, &share));
    if (beta > 0 && share > 0)
        return peal_topo_cluster_refuse(reader, elem, "both beta-gbs and share", "one of them");
    if (c == PEAL_LINK_NET && e == PEAL_ENGINE_TCP) {
        profile->tcp_stated |= alpha >= 0;
        profile->tcp_scaled |= beta > 0 || share > 0;
    }
    if (c == PEAL_LINK_NET && alpha >= 0 && !peal_topo_attr(reader->doc, elem, "engine"))
        profile->net_alpha_us = alpha;
    cost = &profile->engine[c][e];
    if (gap >= 0)
        cost->gap_us = gap;
    if (share > 0)
        cost->beta_scale = share;
    if (e != own_engine(c)) {
        if (alpha >= 0)
            cost->alpha_us = alpha;
        if (beta > 0)
            profile->engine_gbs[c][e] = beta;
        return PEAL_OK;
    }
    if (gap >= 0)
        profile->gap_us[c] = gap;
    if (alpha >= 0)
        profile->alpha_us[c] = alpha;
    if (beta > 0)
        profile->beta_gbs[c] = beta;
    return PEAL_OK;
}

peal_status peal_topo_cluster_reduce(struct cluster_reader *reader, const struct topo_elem *elem)
{
    static const char *const attributes[] = {"gbs", NULL};

    PEAL_TRY(peal_topo_cluster_known(reader, elem, attributes, "gbs"));
    PEAL_TRY(peal_topo_cluster_leaf(reader, elem));
    if (!peal_topo_attr(reader->doc, elem, "gbs"))
        return peal_topo_cluster_refuse(reader, elem, "no gbs",
                                        "gbs=\"1600\", 1e9 bytes of input a "
                                        "second");
    return peal_topo_cluster_real(reader, elem, "gbs", 0.001, 1e6,
                                  &reader->fabric->profile.reduce_gbs);
}
