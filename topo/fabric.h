/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fabric as topo/ keeps it: host types with their graphs, spans of equal hosts,
 * the network between them, the cost profile.
 *
 * Everything a host owns (ranks, NICs, nodes, resources, domains) is numbered inside
 * its type; a span adds a base and a stride, so that ids over the whole fabric are
 * arithmetic and no host beyond the first costs memory.
 */
#ifndef PEAL_TOPO_FABRIC_H
#define PEAL_TOPO_FABRIC_H

#include "defaults.h"
#include "notes.h"
#include "topo.h"

#define TOPO_NONE UINT32_MAX

/* Limits; docs/topology-xml.md lists them. */
#define TOPO_ACCELS_MAX 512u /* of one host, since paths are kept pair by pair */
#define TOPO_RANKS_MAX 4096u /* of a host without accelerators */
#define TOPO_NICS_MAX 1024u  /* of one host */
#define TOPO_NODES_MAX 4096u
#define TOPO_LINKS_MAX 262144u
#define TOPO_TYPES_MAX 64u
#define TOPO_SPANS_MAX 4096u
#define TOPO_HOSTS_MAX 65536u
#define TOPO_LISTED_HOSTS 64u /* beyond these, links of equal hosts are listed once */
#define TOPO_HALF_USES 11u    /* resources between a rank and the network: (24 - 2) / 2 */

enum topo_kind { TOPO_ACCELERATOR, TOPO_NUMA, TOPO_PCIE_SWITCH, TOPO_NVSWITCH, TOPO_NIC };

struct topo_node {
    enum topo_kind kind;
    const char *name; /* "gpu0", "mlx5_0" */
    const char *busid;
    uint64_t bus; /* busid as a number */
    int32_t numa;
    uint32_t line;
    uint32_t first; /* outgoing links: [first, first + degree) of `out` */
    uint32_t degree;
};

struct topo_link {
    uint32_t from; /* nodes */
    uint32_t to;
    peal_link_class link_class;
    uint32_t resource;
    uint32_t line;
    double gbs;
};

enum topo_resource_kind {
    TOPO_RES_LINK, /* one direction of a link: "gpu3>nvs0" */
    TOPO_RES_TX,   /* a NIC's port, leaving: "mlx5_0 tx" */
    TOPO_RES_RX,
    TOPO_RES_BUNDLE_TX, /* several NICs of one accelerator; `to` counts those beyond `from` */
    TOPO_RES_BUNDLE_RX,
    TOPO_RES_MEMORY,   /* the memory of a host whose ranks share it */
    TOPO_RES_RANK_OUT, /* what one rank of such a host copies out, and takes in */
    TOPO_RES_RANK_IN
};

struct topo_resource {
    enum topo_resource_kind kind;
    peal_link_class link_class;
    uint32_t from; /* nodes, or a local rank */
    uint32_t to;
    double gbs;
};

struct topo_accel {
    uint32_t node;
    uint32_t elem; /* in the document, while reading */
    uint32_t line;
    uint64_t vendor;
    uint64_t device_id;
    int32_t dev;   /* -1 unknown */
    int32_t rank;  /* as stated, -1 absent */
    uint32_t arch; /* compute capability x 10, 0 unknown or not NVIDIA */
    char gcn[12];  /* "942", "" for others */
    const char *model;
    int gdr;          /* 1 yes, 0 no, -1 not stated */
    int peer;         /* 0: the driver refuses peer access over PCIe */
    int has_class3d;  /* PCI class 0x0302: a compute board, not a display */
    int links_stated; /* 1: the file lists its NVLink or xGMI links */
    uint32_t links;   /* NVLinks of the device table, 0 unknown */
    enum topo_form form;
    int32_t numa;
    int32_t nic;     /* index on the host, -1 none */
    uint32_t domain; /* index on the host */
    uint32_t bundle; /* NICs it has to itself, when more than one; 0 otherwise */
    uint32_t tx;     /* resources of its NIC's port, or of the bundle */
    uint32_t rx;
    uint32_t out; /* route to its NIC (of a bundle: to what is above) and back, in `hop` */
    uint32_t outs;
    uint32_t in;
    uint32_t ins;
};

struct topo_nic {
    uint32_t node;
    uint32_t line;
    const char *name;
    int32_t dev; /* -1 not stated */
    double gbits;
    int rdma;
    int virtual_; /* a bridge, tunnel or pair, not hardware */
    int32_t rail;
    int32_t rail_stated; /* -1 absent */
    uint64_t guid;
    int32_t port;
    double latency_us; /* added to the class's start-up */
    uint32_t tx;       /* resources of its port */
    uint32_t rx;
    double port_gbs; /* effective */
    uint32_t ranks;  /* that send through it */
};

/* From one accelerator to another of the same host. */
struct topo_route {
    uint32_t hop; /* first of `hops` link indices in the type's `hop` */
    uint16_t hops;
    uint8_t link_class;
    uint8_t direct;
    uint8_t mover; /* peal_engine, where not direct */
    double gbs;
};

struct topo_type {
    const char *name;  /* of its <host> or its system */
    const char *path;  /* of its file */
    uint32_t line;     /* where it was referred to, for errors */
    int multicast;     /* 1: its NVSwitches copy stores to many ranks and fold loads from many */
    int shared_memory; /* 1: ranks without accelerators, no graph but memory */
    uint32_t ranks;

    struct topo_node *node;
    uint32_t nodes, node_room;
    struct topo_link *link;
    uint32_t links, link_room;
    uint32_t *out; /* link indices ordered by source node */
    uint32_t outs; /* how many it was made for */
    struct topo_resource *resource;
    uint32_t resources, resource_room;
    struct topo_accel *accel; /* in rank order once read */
    uint32_t accels, accel_room;
    struct topo_nic *nic;
    uint32_t nics, nic_room;
    struct topo_route *route; /* accels x accels, row = source; NULL before routing */
    uint32_t *hop;            /* link indices of all routes */
    uint32_t hops, hop_room;

    uint32_t numas;
    uint32_t domains;
    uint32_t rails;
    double smp_gbs; /* between its NUMA nodes */
    double net_gbs; /* of all NICs that ranks use, effective, one direction */
};

/* Equal hosts in a row. Bases are those of its first host. */
struct topo_span {
    uint32_t type;
    uint32_t first;
    uint32_t count;
    uint32_t rank;
    uint32_t nic;
    uint32_t numa;
    uint32_t node;
    uint32_t domain;
    uint64_t resource;
};

enum topo_network_kind { TOPO_NETWORK_NONE, TOPO_NETWORK_RAILS, TOPO_NETWORK_LEAVES };

/* Switch resources follow those of the hosts: for group g (hosts_per_leaf hosts) and rail r
 * (rails kind; leaves have one) index (g * rails + r) * 2 + direction, 0 up, 1 down. */
struct topo_network {
    enum topo_network_kind kind;
    uint32_t hosts_per_leaf;
    uint32_t groups;
    uint32_t rails;
    double oversubscription;
    double latency_us; /* added to the start-up of what crosses the spine */
    double *up_gbs;    /* of each (group, rail) */
    const char **name; /* of each, the spine last where there is one */
    int buffer_mib;    /* of one switch; -1 not stated, as pfc and ecn */
    int pfc;
    int ecn;
    uint32_t line;     /* of <switch>, or, without one, of <network> */
    uint64_t resource; /* first id */
};

/* Start-up, gap and share by class and engine; what <cost> and <reduce> say. */
struct topo_profile {
    struct topo_engine_cost engine[PEAL_LINK_CLASS_COUNT][PEAL_ENGINE_COUNT];
    double alpha_us[PEAL_LINK_CLASS_COUNT];
    double gap_us[PEAL_LINK_CLASS_COUNT];
    double beta_gbs[PEAL_LINK_CLASS_COUNT]; /* of one accelerator; 0: from the graph */
    double engine_gbs[PEAL_LINK_CLASS_COUNT][PEAL_ENGINE_COUNT]; /* the same; 0: by share */
    double reduce_gbs;                                           /* 0: by model */
    double net_alpha_us;       /* stated of the network, of no engine; -1: not */
    int tcp_stated;            /* 1: of sockets, the start-up; */
    int tcp_scaled;            /* and the bandwidth */
    struct topo_memory memory; /* count 0: not measured */
};

/* Links and switches as they are listed, made once when the fabric is. */
struct topo_listed {
    const char *from;
    const char *to;
    const char *resource;
    peal_link_class link_class;
    double alpha_us;
    double beta_gbs;
};

/* A resource that carries less than it should. */
struct topo_slow {
    uint64_t resource;
    double factor;
};

struct peal_fabric {
    peal_ctx *ctx;
    struct topo_arena arena;
    struct topo_notes notes;
    const char *name;
    const char *file; /* what it was read from */
    const char *dialect;
    struct topo_type *type;
    uint32_t types, type_room;
    struct topo_span *span;
    uint32_t spans, span_room;
    struct topo_network network;
    struct topo_profile profile;
    const peal_swap *swap; /* while reading: put in the place of what the file says */
    uint32_t swaps;
    uint32_t hosts, ranks, nics, numas, nodes; /* nodes: of hosts, switches come after */
    uint64_t resources;
    struct topo_listed *listed;
    uint32_t listeds, listed_room;
    uint32_t switches;
    struct topo_orders ring, tree; /* of a graph file */
    struct topo_slow *slow;
    uint32_t slows, slow_room;
    int references_reach_out; /* 1: a person named the cluster file; its references are free */
    uint64_t digest;
};

/* ---- graph.c: building a type's graph. Errors: LIMIT, MEMORY. Indices are stable. */
peal_status peal_topo_add_node(peal_ctx *ctx, struct topo_type *type, const struct topo_node *node,
                               uint32_t *index_out);
peal_status peal_topo_add_resource(peal_ctx *ctx, struct topo_type *type,
                                   const struct topo_resource *resource, uint32_t *index_out);
/* One direction, over a resource of its own (link->resource TOPO_NONE) or a given one. */
peal_status peal_topo_add_link(peal_ctx *ctx, struct topo_type *type, const struct topo_link *link,
                               uint32_t *index_out);
peal_status peal_topo_add_accel(peal_ctx *ctx, struct topo_type *type,
                                const struct topo_accel *accel);
peal_status peal_topo_add_nic(peal_ctx *ctx, struct topo_type *type, const struct topo_nic *nic);
/* Orders links by their source, so that routing finds them. */
peal_status peal_topo_index_links(peal_ctx *ctx, struct topo_type *type);
void peal_topo_type_free(peal_ctx *ctx, struct topo_type *type);

/* ---- nccl.c: one <system> into a type, without routes. `elem` is its element; bare: the
 * file is the whole fabric, and its name and dialect become the fabric's. */
struct topo_doc;
struct topo_elem;
peal_status peal_topo_read_system(peal_fabric *fabric, const struct topo_doc *doc,
                                  const struct topo_elem *elem, struct topo_type *type,
                                  peal_diag *diag);

/* ---- shared.c: a type by itself */
/* One without accelerators: ranks that share memory. */
peal_status peal_topo_shared_memory(peal_fabric *fabric, struct topo_type *type, uint32_t ranks);
/* ---- route.c: fills route, domain and the NIC of each rank. Needs the profile applied. */
peal_status peal_topo_route_type(peal_fabric *fabric, struct topo_type *type);
/* ---- nearest.c: chooses each rank's NIC. */
peal_status peal_topo_nearest_nics(peal_fabric *fabric, struct topo_type *type);
/* ---- topo_cost.c */
void peal_topo_profile_init(struct topo_profile *profile);
/* Puts other links in the place of those that the profile states. */
void peal_topo_profile_swap(struct topo_profile *profile, const peal_swap *swaps, uint32_t count);
/* Scales a type's graph to the bandwidths that the profile states. */
void peal_topo_profile_apply(const struct topo_profile *profile, struct topo_type *type);
/* 1: what sockets carry between hosts is stated, of them or of the network. */
int peal_topo_sockets_stated(const struct topo_profile *profile);
/* Turns bandwidths stated per engine into shares, once the graph is known. */
void peal_topo_profile_finish(peal_fabric *fabric);
/* Start-up between hosts, by RDMA or by sockets. */
double peal_topo_net_alpha(const peal_fabric *fabric, int rdma);
double peal_topo_class_gbs(const struct topo_type *type, peal_link_class link_class);

/* ---- cluster.c: peal cluster XML into types, spans and a network. base_dir NULL: no
 * references. */
peal_status peal_topo_read_cluster(peal_fabric *fabric, const struct topo_doc *doc,
                                   const char *base_dir, peal_diag *diag);
/* ---- load.c */
peal_status peal_topo_add_type(peal_fabric *fabric, const struct topo_type *type,
                               uint32_t *index_out);
peal_status peal_topo_add_span(peal_fabric *fabric, uint32_t type, uint32_t count);
/* ---- network.c: bases of spans, switch resources, listed links. */
peal_status peal_topo_number(peal_fabric *fabric, peal_diag *diag);
/* ---- memory_check.c: traps of what was measured, once hosts and ranks are known */
peal_status peal_topo_memory_check(peal_fabric *fabric);
/* ---- list.c */
peal_status peal_topo_list_links(peal_fabric *fabric);
/* ---- nccl_graph.c */
void peal_topo_orders_free(peal_ctx *ctx, struct topo_orders *orders);
/* ---- degrade.c: what is left of a resource, 1 usually */
double peal_topo_slowness(const peal_fabric *fabric, uint64_t resource);
/* ---- digest.c */
peal_status peal_topo_digest(peal_fabric *fabric);

/* ---- span.c: from ids of the fabric to a host and its own numbers */
struct topo_at {
    const struct topo_span *span;
    const struct topo_type *type;
    uint32_t host;
    uint32_t index; /* on the host */
};
struct topo_at peal_topo_at_rank(const peal_fabric *fabric, uint32_t rank);
struct topo_at peal_topo_at_host(const peal_fabric *fabric, uint32_t host);
struct topo_at peal_topo_at_nic(const peal_fabric *fabric, uint32_t nic);
struct topo_at peal_topo_at_node(const peal_fabric *fabric, uint32_t node);
struct topo_at peal_topo_at_resource(const peal_fabric *fabric, uint64_t resource);
/* First resource of a host. */
uint64_t peal_topo_host_resource(const struct topo_at *at);

const char *peal_topo_kind_name(enum topo_kind kind);

#endif
