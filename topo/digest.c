/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fabric's identity: a hash of what plans depend on (graph, speeds, placement, rank
 * order, network, costs), not of names of files, notes or lines. Bandwidths and times
 * enter as whole millionths, so that the last bit of a double does not.
 */
#include "defaults.h"
#include "fabric.h"

static void put(struct peal_buf *buf, uint64_t value)
{
    unsigned char bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
    peal_buf_put(buf, bytes, sizeof bytes);
}

static void put_real(struct peal_buf *buf, double value)
{
    put(buf, (uint64_t)(int64_t)(value * 1e6 + (value < 0 ? -0.5 : 0.5)));
}

static void put_text(struct peal_buf *buf, const char *text)
{
    peal_buf_str(buf, text);
    peal_buf_put(buf, "", 1);
}

static void put_graph(struct peal_buf *buf, const struct topo_type *type)
{
    put(buf, type->nodes);
    for (uint32_t n = 0; n < type->nodes; n++) {
        put(buf, type->node[n].kind);
        put(buf, (uint64_t)type->node[n].numa);
        put_text(buf, type->node[n].name);
        put_text(buf, type->node[n].busid);
    }
    put(buf, type->links);
    for (uint32_t l = 0; l < type->links; l++) {
        put(buf, type->link[l].from);
        put(buf, type->link[l].to);
        put(buf, type->link[l].link_class);
        put(buf, type->link[l].resource);
    }
    put(buf, type->resources);
    for (uint32_t r = 0; r < type->resources; r++)
        put_real(buf, type->resource[r].gbs);
}

static void put_type(struct peal_buf *buf, const struct topo_type *type)
{
    put(buf, (uint64_t)type->shared_memory);
    put(buf, type->ranks);
    if (type->multicast) /* others keep the identity that they had before there was any */
        put_text(buf, "multicast");
    put_graph(buf, type);
    for (uint32_t a = 0; a < type->accels; a++) {
        const struct topo_accel *accel = &type->accel[a];

        put(buf, accel->node);
        put(buf, (uint64_t)accel->nic);
        put(buf, accel->arch);
        put(buf, (uint64_t)accel->peer);
        put(buf, accel->bundle);
        put_text(buf, accel->gcn);
    }
    put(buf, type->nics);
    for (uint32_t n = 0; n < type->nics; n++) {
        const struct topo_nic *nic = &type->nic[n];

        put(buf, nic->node);
        put(buf, (uint64_t)nic->rail);
        put(buf, (uint64_t)nic->rdma);
        put(buf, nic->tx);
        put_real(buf, nic->gbits);
        put_real(buf, nic->latency_us);
    }
}

static void put_call(struct peal_buf *buf, const struct topo_call *call)
{
    put_text(buf, call->collective);
    put_text(buf, call->algorithm);
    put_text(buf, call->detail ? call->detail : "");
    put_real(buf, call->tile_bytes);
    put(buf, (uint64_t)call->private_buffers);
    put(buf, call->times);
    for (uint32_t i = 0; i < call->times; i++) {
        put_real(buf, call->time[i].bytes);
        put_real(buf, call->time[i].us);
    }
}

/* Nothing, where nothing was measured. */
static void put_memory(struct peal_buf *buf, const struct topo_memory *memory)
{
    for (int use = 0; use < TOPO_USES && memory->count[0]; use++) {
        put(buf, memory->count[use]);
        for (uint32_t i = 0; i < memory->count[use]; i++) {
            put_real(buf, memory->rate[use][i].bytes);
            put_real(buf, memory->rate[use][i].gbs);
        }
    }
    if (memory->count[0])
        put_real(buf, memory->entry_us);
    for (uint32_t i = 0; i < memory->calls; i++)
        put_call(buf, &memory->call[i]);
    if (memory->ranks)
        put(buf, memory->ranks);
}

/* Fabrics keep the identity that they had before there was this engine. */
static int is_default(peal_engine engine, const struct topo_engine_cost *cost)
{
    struct topo_engine_row row = peal_topo_engine_row(engine);

    return engine == PEAL_ENGINE_IBGDA && cost->alpha_us == row.absolute &&
           cost->beta_scale == row.share && cost->gap_us == row.gap;
}

static void put_profile(struct peal_buf *buf, const struct topo_profile *profile)
{
    for (int c = 0; c < PEAL_LINK_CLASS_COUNT; c++) {
        put_real(buf, profile->alpha_us[c]);
        put_real(buf, profile->gap_us[c]);
        for (int e = 0; e < PEAL_ENGINE_COUNT; e++) {
            if (is_default((peal_engine)e, &profile->engine[c][e]))
                continue;
            put_real(buf, profile->engine[c][e].alpha_us);
            put_real(buf, profile->engine[c][e].beta_scale);
            put_real(buf, profile->engine[c][e].gap_us);
        }
    }
    put_real(buf, profile->reduce_gbs);
    if (peal_topo_sockets_stated(profile))
        put(buf, 1);
    put_memory(buf, &profile->memory);
}

static void put_orders(struct peal_buf *buf, const struct topo_orders *orders)
{
    for (size_t i = 0; i < (size_t)orders->channels * orders->ranks; i++)
        put(buf, orders->order[i]);
}

peal_status peal_topo_digest(peal_fabric *fabric)
{
    const struct topo_network *network = &fabric->network;
    struct peal_buf buf;
    peal_status status;

    peal_buf_init(&buf, fabric->ctx, (size_t)1 << 30);
    /* Types in the order hosts need them: the same whether one is shared or repeated. */
    put(&buf, fabric->hosts);
    for (uint32_t s = 0; s < fabric->spans; s++) {
        put(&buf, fabric->span[s].count);
        put_type(&buf, &fabric->type[fabric->span[s].type]);
    }
    put(&buf, network->kind);
    put(&buf, network->hosts_per_leaf);
    put_real(&buf, network->oversubscription);
    put_real(&buf, network->latency_us);
    put_profile(&buf, &fabric->profile);
    put_orders(&buf, &fabric->ring);
    put_orders(&buf, &fabric->tree);
    status = buf.status;
    if (status == PEAL_OK)
        fabric->digest = peal_hash64(buf.data, buf.used);
    peal_buf_free(&buf);
    return status;
}
