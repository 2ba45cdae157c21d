/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster dialect, written: n equal hosts and the network between them. */
#include "fabric.h"

#include "topo_text.h"

static void put_cluster(struct peal_buf *buf, const peal_cluster_params *params)
{
    peal_buf_str(buf, "<peal version=\"1\">\n  <host count=\"");
    peal_buf_fmt(buf, "%u", (unsigned)params->nodes);
    peal_buf_str(buf, "\" topology=\"");
    peal_topo_text_escaped(buf, params->host_path);
    peal_buf_str(buf, params->multicast ? "\" multicast=\"yes" : "");
    peal_buf_str(buf, "\"/>\n  <network kind=\"");
    peal_buf_str(buf, params->rails ? "rails" : "leaf-spine");
    if (params->oversubscription > 0) {
        peal_buf_str(buf, "\" oversubscription=\"");
        peal_buf_str(buf, peal_topo_real(params->oversubscription).text);
    }
    if (params->latency_us > 0) {
        peal_buf_str(buf, "\" latency-us=\"");
        peal_buf_str(buf, peal_topo_real(params->latency_us).text);
    }
    peal_buf_str(buf, "\"/>\n</peal>\n");
}

peal_status peal_cluster_write(peal_ctx *ctx, const peal_cluster_params *params,
                               peal_write_fn write, void *user, peal_diag *diag)
{
    peal_cluster_params full;
    struct peal_buf buf;
    peal_status status;

    if (!ctx || !params || !write || peal_import(&full, sizeof full, params) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_ARG, "peal_cluster_write: a required argument is missing");
    if (!full.host_path || !full.host_path[0] || !peal_topo_text_plain(full.host_path))
        return peal_fail(diag, PEAL_ERR_ARG,
                         "peal_cluster_write: host_path is empty or holds "
                         "control characters");
    if (!full.nodes || full.nodes > TOPO_HOSTS_MAX)
        return peal_fail(diag, PEAL_ERR_ARG, "peal_cluster_write: expected 1 to %u nodes",
                         (unsigned)TOPO_HOSTS_MAX);
    if (!(full.oversubscription >= 0) || full.oversubscription > 1000 ||
        (full.oversubscription > 0 && full.oversubscription < 1) || !(full.latency_us >= 0) ||
        full.latency_us > 1e6)
        return peal_fail(diag, PEAL_ERR_ARG,
                         "peal_cluster_write: oversubscription (1 to 1000) or "
                         "latency (0 to 1000000 us) is out of range");
    peal_buf_init(&buf, ctx, 1 << 20);
    put_cluster(&buf, &full);
    status = buf.status;
    if (status == PEAL_OK)
        status = write(user, buf.data, buf.used);
    else
        status = peal_fail(diag, status, "out of memory while writing a cluster");
    peal_buf_free(&buf);
    return status;
}
