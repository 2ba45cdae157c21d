/* SPDX-License-Identifier: Apache-2.0 */
/* A topology with fitted costs, in the dialect of docs/topology-xml.md. */
#include "fit.h"

#include "topo_text.h"

#define ALPHA_MAX 1e6
#define BETA_MAX 1e6

static void put_host(struct peal_buf *buf, const char *path, uint32_t hosts, uint32_t ranks)
{
    peal_buf_fmt(buf, "<?xml version=\"1.0\"?>\n<peal version=\"1\">\n  <host count=\"%lu\"",
                 (unsigned long)hosts);
    if (path) {
        peal_buf_str(buf, " topology=\"");
        peal_topo_text_escaped(buf, path);
        peal_buf_str(buf, "\"/>\n");
    } else {
        peal_buf_fmt(buf, " ranks=\"%lu\"/>\n", (unsigned long)ranks);
    }
}

static void put_cost(struct peal_buf *buf, const peal_profile_cost *cost)
{
    if (!(cost->alpha_us > 0) && !(cost->beta_gbs > 0))
        return;
    peal_buf_str(buf, "  <cost link=\"");
    peal_buf_str(buf, peal_link_class_name(cost->link));
    if (cost->alpha_us > 0) {
        peal_buf_str(buf, "\" alpha-us=\"");
        peal_buf_str(buf, peal_topo_real(cost->alpha_us).text);
    }
    if (cost->beta_gbs > 0) {
        peal_buf_str(buf, "\" beta-gbs=\"");
        peal_buf_str(buf, peal_topo_real(cost->beta_gbs).text);
    }
    peal_buf_str(buf, "\"/>\n");
}

peal_status peal_profile_write(peal_ctx *ctx, const char *host_path, uint32_t hosts, uint32_t ranks,
                               const peal_profile_cost *costs, uint32_t count, peal_write_fn write,
                               void *user, peal_diag *diag)
{
    struct peal_buf buf;
    if (!ctx || !write || !hosts || (!host_path && !ranks) || (count && !costs) ||
        (host_path && !peal_topo_text_plain(host_path)))
        return peal_fail(diag, PEAL_ERR_ARG, "peal_profile_write: an argument is missing or wrong");
    for (uint32_t i = 0; i < count; i++)
        if (!(costs[i].alpha_us < ALPHA_MAX) || !(costs[i].beta_gbs < BETA_MAX) ||
            (unsigned)costs[i].link >= PEAL_LINK_CLASS_COUNT)
            return peal_fail(diag, PEAL_ERR_ARG, "peal_profile_write: cost %lu is out of range",
                             (unsigned long)i);
    peal_buf_init(&buf, ctx, 1 << 20);
    put_host(&buf, host_path, hosts, ranks);
    for (uint32_t i = 0; i < count; i++)
        put_cost(&buf, &costs[i]);
    peal_buf_str(&buf, "</peal>\n");
    peal_status status = buf.status;
    if (status == PEAL_OK)
        status = write(user, buf.data, buf.used);
    else
        status = peal_fail(diag, status, "out of memory while writing a profile");
    peal_buf_free(&buf);
    return status;
}
