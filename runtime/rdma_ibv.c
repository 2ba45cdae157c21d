/* SPDX-License-Identifier: Apache-2.0 */
/* A device by libibverbs, where that was there when peal was built. */
#include "rdma_nic.h"

#include <stdio.h>

#ifndef PEAL_HAVE_VERBS

struct rdma_nic *rdma_open(peal_ctx *ctx, const struct rdma_ask *ask, char *why, size_t room)
{
    (void)ctx;
    (void)ask;
    (void)snprintf(why, room, "this peal was built without libibverbs");
    return NULL;
}

#else

#include "auth.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PORTS_MAX 8u
#define GIDS_MAX 256
#define TIMEOUT 18 /* 4.096 us << 18 = 1.1 s before a packet is sent again */
#define RETRIES 7
#define RNR_TIMER 12  /* 0.64 ms, */
#define RNR_FOREVER 7 /* as often as it takes: deadlines are the transport's */
#define INLINE_WANT 128u
#define HOPS 64

struct ibv {
    struct rdma_nic nic; /* first */
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_port_attr port;
    union ibv_gid gid;
    uint8_t number; /* of the port */
    uint8_t gid_index;
    unsigned events; /* not yet acknowledged */
};

static struct ibv *ibv_of(struct rdma_nic *nic)
{
    return (struct ibv *)(void *)nic;
}

/* ---- memory */

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static int keep_region(struct ibv_mr *mr, char *at, uint64_t bytes, struct rdma_region *region)
{
    if (!mr)
        return 0;
    *region = (struct rdma_region){
        .at = at, .bytes = bytes, .own_key = mr->lkey, .peer_key = mr->rkey, .handle = mr};
    return 1;
}

static int make_region(struct rdma_nic *nic, char *at, uint64_t bytes, struct rdma_region *region)
{
    return keep_region(ibv_reg_mr(ibv_of(nic)->pd, at, bytes, ACCESS), at, bytes, region);
}

static int make_region_dmabuf(struct rdma_nic *nic, int fd, char *at, uint64_t bytes,
                              struct rdma_region *region)
{
    return keep_region(
        ibv_reg_dmabuf_mr(ibv_of(nic)->pd, 0, bytes, (uint64_t)(uintptr_t)at, fd, ACCESS), at,
        bytes, region);
}

static void drop_region(struct rdma_nic *nic, struct rdma_region *region)
{
    (void)nic;
    (void)ibv_dereg_mr(region->handle);
}

/* ---- queue pairs */

static int to_init(const struct ibv *self, struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = self->number,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0;
}

static struct ibv_qp_init_attr ask_for(struct ibv_cq *cq, uint32_t sends, uint32_t receives,
                                       uint32_t inline_bytes)
{
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq};
    init.qp_type = IBV_QPT_RC;
    init.cap.max_send_wr = sends;
    init.cap.max_recv_wr = receives;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    init.cap.max_inline_data = inline_bytes;
    return init;
}

/* What the other end has to know of it; 0: it is no more. */
static int introduce(const struct ibv *self, struct ibv_qp *qp, struct rdma_end *mine)
{
    *mine = (struct rdma_end){.number = qp->qp_num,
                              .lid = self->port.lid,
                              .mtu = (uint8_t)self->port.active_mtu,
                              .ethernet = self->port.link_layer == IBV_LINK_LAYER_ETHERNET};
    memcpy(mine->gid, self->gid.raw, sizeof mine->gid);
    if (auth_random(&mine->first, sizeof mine->first, NULL) != PEAL_OK || !to_init(self, qp)) {
        (void)ibv_destroy_qp(qp);
        return 0;
    }
    mine->first &= 0xffffff;
    return 1;
}

static int make_pair(struct rdma_nic *nic, uint32_t sends, uint32_t receives, void **pair,
                     struct rdma_end *mine)
{
    struct ibv *self = ibv_of(nic);
    struct ibv_qp_init_attr init = ask_for(self->cq, sends, receives, INLINE_WANT);
    struct ibv_qp *qp = ibv_create_qp(self->pd, &init);
    if (!qp) { /* one that takes nothing inline */
        init = ask_for(self->cq, sends, receives, 0);
        qp = ibv_create_qp(self->pd, &init);
    }
    if (!qp)
        return 0;
    if (init.cap.max_inline_data < nic->inline_bytes)
        nic->inline_bytes = init.cap.max_inline_data;
    if (!introduce(self, qp, mine))
        return 0;
    *pair = qp;
    return 1;
}

static int make_alone(struct rdma_nic *nic, uint32_t sends, uint32_t completions,
                      struct rdma_alone *to, struct rdma_end *mine)
{
    struct ibv *self = ibv_of(nic);
    struct ibv_cq *cq = ibv_create_cq(self->context, (int)completions, NULL, NULL, 0);
    if (!cq)
        return 0;
    struct ibv_qp_init_attr init = ask_for(cq, sends, 0, sizeof(uint64_t)); /* a word in an entry */
    struct ibv_qp *qp = ibv_create_qp(self->pd, &init);
    if (!qp || !introduce(self, qp, mine)) {
        (void)ibv_destroy_cq(cq);
        return 0;
    }
    *to = (struct rdma_alone){qp, cq};
    return 1;
}

static void drop_alone(struct rdma_nic *nic, struct rdma_alone *alone)
{
    (void)nic;
    (void)ibv_destroy_qp(alone->pair);
    (void)ibv_destroy_cq(alone->queue);
}

static int to_receive(const struct ibv *self, struct ibv_qp *qp, const struct rdma_end *mine,
                      const struct rdma_end *theirs)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .dest_qp_num = theirs->number,
                               .rq_psn = theirs->first,
                               .max_dest_rd_atomic = 1,
                               .min_rnr_timer = RNR_TIMER};
    attr.path_mtu = (enum ibv_mtu)(mine->mtu < theirs->mtu ? mine->mtu : theirs->mtu);
    attr.ah_attr.port_num = self->number;
    attr.ah_attr.dlid = theirs->lid;
    if (mine->ethernet || !theirs->lid) {
        attr.ah_attr.is_global = 1;
        memcpy(attr.ah_attr.grh.dgid.raw, theirs->gid, sizeof theirs->gid);
        attr.ah_attr.grh.sgid_index = self->gid_index;
        attr.ah_attr.grh.hop_limit = HOPS;
    }
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0;
}

static int join_pair(struct rdma_nic *nic, void *pair, const struct rdma_end *mine,
                     const struct rdma_end *theirs)
{
    if (theirs->ethernet != mine->ethernet || theirs->mtu < IBV_MTU_256 ||
        theirs->mtu > IBV_MTU_4096 || !to_receive(ibv_of(nic), pair, mine, theirs))
        return 0;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                               .timeout = TIMEOUT,
                               .retry_cnt = RETRIES,
                               .rnr_retry = RNR_FOREVER,
                               .sq_psn = mine->first,
                               .max_rd_atomic = 1};
    return ibv_modify_qp(pair, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0;
}

static void fail_pair(struct rdma_nic *nic, void *pair)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    (void)nic;
    (void)ibv_modify_qp(pair, &attr, IBV_QP_STATE);
}

static void drop_pair(struct rdma_nic *nic, void *pair)
{
    (void)nic;
    (void)ibv_destroy_qp(pair);
}

/* ---- work */

static void fill_work(const struct rdma_work *work, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
    static const enum ibv_wr_opcode codes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
                                               IBV_WR_SEND};
    *sge = (struct ibv_sge){(uint64_t)(uintptr_t)work->from, work->bytes, work->own_key};
    *wr = (struct ibv_send_wr){.wr_id = work->id, .opcode = codes[work->op]};
    wr->sg_list = sge;
    wr->num_sge = work->bytes != 0;
    wr->send_flags = (work->told ? IBV_SEND_SIGNALED : 0u) | (work->copied ? IBV_SEND_INLINE : 0u);
    wr->wr.rdma.remote_addr = work->to;
    wr->wr.rdma.rkey = work->peer_key;
}

static uint32_t post_work(struct rdma_nic *nic, void *pair, const struct rdma_work *work,
                          uint32_t count)
{
    struct ibv_send_wr wr[RDMA_POST_MAX], *bad = wr;
    struct ibv_sge sge[RDMA_POST_MAX];
    (void)nic;
    for (uint32_t i = 0; i < count; i++) {
        fill_work(&work[i], &wr[i], &sge[i]);
        if (i)
            wr[i - 1].next = &wr[i];
    }
    return ibv_post_send(pair, wr, &bad) == 0 ? count : (uint32_t)(bad - wr);
}

static int post_receive(struct rdma_nic *nic, void *pair, uint64_t id, char *to, uint32_t bytes,
                        uint32_t own_key)
{
    struct ibv_sge sge = {(uint64_t)(uintptr_t)to, bytes, own_key};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;
    (void)nic;
    return ibv_post_recv(pair, &wr, &bad) == 0;
}

static enum rdma_how how_of(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_SUCCESS:
        return RDMA_FINE;
    case IBV_WC_WR_FLUSH_ERR:
        return RDMA_FLUSHED;
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
        return RDMA_REFUSED;
    default:
        return RDMA_BROKEN;
    }
}

static int poll_queue(struct rdma_nic *nic, struct rdma_done *done, int room)
{
    struct ibv_wc wc[32];
    int count = ibv_poll_cq(ibv_of(nic)->cq, room < 32 ? room : 32, wc);
    for (int i = 0; i < count; i++) {
        done[i] = (struct rdma_done){.id = wc[i].wr_id, .how = (uint8_t)how_of(wc[i].status)};
        if (wc[i].status != IBV_WC_SUCCESS)
            continue;
        done[i].received = (wc[i].opcode & IBV_WC_RECV) != 0;
        done[i].flag = wc[i].opcode == IBV_WC_RECV_RDMA_WITH_IMM;
        done[i].bytes = wc[i].byte_len;
    }
    return count;
}

static int arm_queue(struct rdma_nic *nic)
{
    struct ibv *self = ibv_of(nic);
    struct ibv_cq *cq;
    void *user;
    while (ibv_get_cq_event(self->channel, &cq, &user) == 0)
        self->events++;
    return ibv_req_notify_cq(self->cq, 0) == 0;
}

/* ---- finding a device */

static void real_place(const char *before, const char *name, const char *behind,
                       char place[PATH_MAX])
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s%.64s%s", before, name, behind);
    if (!realpath(path, place))
        place[0] = '\0';
}

static int is_up(struct ibv_context *context, uint32_t port, struct ibv_port_attr *attr)
{
    return ibv_query_port(context, (uint8_t)port, attr) == 0 && attr->state == IBV_PORT_ACTIVE;
}

static int has_port(struct ibv_device *device, uint32_t *port)
{
    struct ibv_port_attr attr;
    struct ibv_context *context = ibv_open_device(device);
    uint32_t first = *port ? *port : 1, last = *port ? *port : PORTS_MAX;
    int found = 0;
    for (uint32_t p = first; context && p <= last && !found; p++)
        if (is_up(context, p, &attr)) {
            *port = p;
            found = 1;
        }
    if (context)
        (void)ibv_close_device(context);
    return found;
}

/* The one of a name, or of those whose ports are up the closest, in turns. */
static struct ibv_device *pick(struct ibv_device **list, int count, const struct rdma_ask *ask,
                               struct rdma_choice *choice)
{
    char here[PATH_MAX], there[PATH_MAX];
    const char *name = choice->device[0] ? choice->device : ask->plan;
    uint32_t best = 0, equals = 0, nth = 0;
    real_place("/sys/bus/pci/devices/", ask->busid[0] ? ask->busid : "none", "", here);
    for (int i = 0; i < count; i++) {
        uint32_t port = choice->port;
        if (peal_streq(ibv_get_device_name(list[i]), name) && has_port(list[i], &port)) {
            choice->port = port;
            return list[i];
        }
    }
    for (int pass = 0; pass < 2 && !choice->device[0]; pass++)
        for (int i = 0; i < count; i++) {
            uint32_t port = 0;
            if (!has_port(list[i], &port))
                continue;
            real_place("/sys/class/infiniband/", ibv_get_device_name(list[i]), "/device", there);
            uint32_t close = here[0] ? 1 + rdma_closeness(here, there) : 1;
            if (pass == 0 && close >= best) {
                equals = close == best ? equals + 1 : 1;
                best = close;
            }
            if (pass == 1 && close == best && nth++ == ask->turn % equals) {
                choice->port = port;
                return list[i];
            }
        }
    return NULL;
}

/* Index of the GID by which peers reach this port. */
static int find_gid(struct ibv *self, int32_t chosen)
{
    int best = 0, at = -1;
    if (chosen >= 0 || self->port.link_layer != IBV_LINK_LAYER_ETHERNET)
        at = chosen >= 0 ? chosen : 0;
    for (int i = 0; at < 0 && best < 6 && i < self->port.gid_tbl_len && i < GIDS_MAX; i++) {
        struct ibv_gid_entry entry;
        if (ibv_query_gid_ex(self->context, self->number, (uint32_t)i, &entry, 0) != 0)
            continue;
        int rank = rdma_gid_rank(entry.gid.raw, entry.gid_type == IBV_GID_TYPE_ROCE_V2);
        if (rank > best) {
            best = rank;
            self->gid_index = (uint8_t)i;
        }
    }
    if (at >= 0)
        self->gid_index = (uint8_t)at;
    else if (best == 0)
        return 0;
    return ibv_query_gid(self->context, self->number, self->gid_index, &self->gid) == 0;
}

/* ---- life */

static void close_nic(struct rdma_nic *nic)
{
    struct ibv *self = ibv_of(nic);
    if (self->cq && self->events)
        ibv_ack_cq_events(self->cq, self->events);
    if (self->cq)
        (void)ibv_destroy_cq(self->cq);
    if (self->channel)
        (void)ibv_destroy_comp_channel(self->channel);
    if (self->pd)
        (void)ibv_dealloc_pd(self->pd);
    if (self->context)
        (void)ibv_close_device(self->context);
    peal_free(nic->ctx, self, sizeof *self);
}

static const struct rdma_nic_ops ops = {
    .region = make_region,
    .region_dmabuf = make_region_dmabuf,
    .unregion = drop_region,
    .pair = make_pair,
    .join = join_pair,
    .fail = fail_pair,
    .unpair = drop_pair,
    .post = post_work,
    .receive = post_receive,
    .poll = poll_queue,
    .arm = arm_queue,
    .alone = make_alone,
    .unalone = drop_alone,
    .close = close_nic,
};

static int set_up(struct ibv *self, const struct rdma_ask *ask, const struct rdma_choice *choice)
{
    struct ibv_device_attr about;
    uint64_t entries = (uint64_t)ask->pairs * ask->entries;
    self->number = (uint8_t)choice->port;
    if (!is_up(self->context, choice->port, &self->port) || !find_gid(self, choice->gid) ||
        ibv_query_device(self->context, &about) != 0 || entries > (uint64_t)about.max_cqe)
        return 0;
    self->pd = ibv_alloc_pd(self->context);
    self->channel = ibv_create_comp_channel(self->context);
    if (!self->pd || !self->channel)
        return 0;
    self->nic.fd = self->channel->fd;
    int flags = fcntl(self->nic.fd, F_GETFL);
    if (fcntl(self->nic.fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return 0;
    self->cq = ibv_create_cq(self->context, (int)entries, NULL, self->channel, 0);
    return self->cq != NULL;
}

static struct rdma_nic *open_one(peal_ctx *ctx, struct ibv_device *device,
                                 const struct rdma_ask *ask, const struct rdma_choice *choice)
{
    struct ibv *self = peal_calloc(ctx, 1, sizeof *self);
    if (!self)
        return NULL;
    self->nic = (struct rdma_nic){.ops = &ops, .ctx = ctx, .inline_bytes = UINT32_MAX, .fd = -1};
    (void)snprintf(self->nic.name, sizeof self->nic.name, "%.50s:%u", ibv_get_device_name(device),
                   choice->port);
    self->context = ibv_open_device(device);
    if (self->context && set_up(self, ask, choice))
        return &self->nic;
    close_nic(&self->nic);
    return NULL;
}

struct rdma_nic *rdma_open(peal_ctx *ctx, const struct rdma_ask *ask, char *why, size_t room)
{
    struct rdma_choice choice = {.gid = -1};
    int count = 0;
    if (ask->chosen[0] && !rdma_choice_read(ask->chosen, &choice)) {
        (void)snprintf(why, room, "'%.32s' is no DEVICE:PORT:GID", ask->chosen);
        return NULL;
    }
    /* The library looks in more places than a host without such devices has. */
    struct ibv_device **list =
        access("/sys/class/infiniband", F_OK) == 0 ? ibv_get_device_list(&count) : NULL;
    struct ibv_device *device = list ? pick(list, count, ask, &choice) : NULL;
    struct rdma_nic *nic = device ? open_one(ctx, device, ask, &choice) : NULL;
    if (!nic && device)
        (void)snprintf(why, room, "%.32s cannot be used", ibv_get_device_name(device));
    else if (!nic && choice.device[0])
        (void)snprintf(why, room, "no RDMA device %.32s that is up", choice.device);
    else if (!nic)
        (void)snprintf(why, room, "no RDMA device");
    if (list)
        ibv_free_device_list(list);
    return nic;
}

#endif
