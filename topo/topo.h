/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the compiler reads of a fabric. A fabric holds host types (one per
 * distinct topology file), hosts that refer to a type, and the network between
 * them; ranks are numbered host by host. Nothing here costs more than the size
 * of one host type, so that a cluster of thousands is as cheap as one node.
 */
#ifndef PEAL_TOPO_TOPO_H
#define PEAL_TOPO_TOPO_H

#include <peal/peal.h>

#define TOPO_PATH_MAX 24 /* resources on one path, both hosts and the network */

/* A physical resource that transfers share: one direction of a link, a NIC
 * port, a switch uplink. Ids are dense over the fabric: [0, topo_resource_count). */
struct topo_use {
    uint64_t resource;
    double gbs; /* capacity, 1e9 B/s */
};

struct topo_path {
    peal_link_class link_class; /* the farthest class on the way */
    double alpha_us;            /* start-up of one transfer over it, SM load/store or RDMA */
    double beta_gbs;            /* narrowest resource */
    double gap_us;              /* what each message costs its issuer and NIC, not overlapped */
    double sockets_gbs;         /* between hosts: what the ranks of a NIC carry by sockets; 0: no
                                   limit is known */
    int direct;                 /* loads and stores by an SM reach the other end */
    int multicast;              /* over one switch that multicasts and folds: use[0] is the way up
                                   to it, use[1] down from it */
    peal_engine mover;          /* the engine when not direct: rdma, tcp or staged */
    uint32_t uses;
    struct topo_use use[TOPO_PATH_MAX];
};

/* Orders in which the channels of a graph file visit the ranks of a host (local numbers). */
struct topo_orders {
    uint32_t channels;
    uint32_t ranks;
    uint32_t *order; /* channels x ranks */
};
/* NULL when the fabric has been given none. Of a tree, the first rank is the host's head and each
 * further one hangs below the one before it. */
const struct topo_orders *peal_topo_rings(const peal_fabric *fabric);
const struct topo_orders *peal_topo_trees(const peal_fabric *fabric);

uint32_t peal_topo_ranks(const peal_fabric *fabric);
uint32_t peal_topo_hosts(const peal_fabric *fabric);
uint32_t peal_topo_host_of(const peal_fabric *fabric, uint32_t rank);
uint32_t peal_topo_host_first(const peal_fabric *fabric, uint32_t host); /* its first rank */
uint32_t peal_topo_host_ranks(const peal_fabric *fabric, uint32_t host);
/* Hosts of one type have equal graphs. */
uint32_t peal_topo_host_type(const peal_fabric *fabric, uint32_t host);
uint64_t peal_topo_resources(const peal_fabric *fabric);
/* A person's name for a resource, "h0/gpu3>nvs0", written to text. */
void peal_topo_resource_name(const peal_fabric *fabric, uint64_t resource, char *text, size_t size);
/* Its name again, and the nodes it lies between; each text of `size` bytes. */
void peal_topo_resource_names(const peal_fabric *fabric, uint64_t resource, char *name, char *from,
                              char *to, size_t size);
/* Where packets queue: at what leaves a host, or at what a switch sends (to a NIC, or to another
 * switch). */
enum topo_port { TOPO_PORT_NONE, TOPO_PORT_LEAVES, TOPO_PORT_SWITCH };
enum topo_port peal_topo_resource_port(const peal_fabric *fabric, uint64_t resource);
double peal_topo_resource_gbs(const peal_fabric *fabric, uint64_t resource);

/* The route from one rank to another (from != to). Deterministic. The NICs are
 * those nearest to each rank (rail-aligned where rails exist). */
void peal_topo_path(const peal_fabric *fabric, uint32_t from, uint32_t to, struct topo_path *path);
void peal_topo_via(const peal_fabric *fabric, uint32_t from, uint32_t to, char *text, size_t size);

/* The NIC the rank sends through: index on its host, -1 none. Ranks of a host
 * with an equal value share a NIC. */
int32_t peal_topo_rank_nic(const peal_fabric *fabric, uint32_t rank);
/* Compute capability x 10 of an NVIDIA accelerator, else 0. */
uint32_t peal_topo_rank_arch(const peal_fabric *fabric, uint32_t rank);
/* Ranks that reach each other by nvlink, xgmi, c2c or shm share a domain. */
uint32_t peal_topo_rank_domain(const peal_fabric *fabric, uint32_t rank);
/* What the rank is in: ranks in the same unit get the same number. Pairs (an NVLink domain that is
 * smaller than its host, else a PCIe switch) and NUMA nodes are numbered by host, pods (the hosts
 * below one leaf switch, or one group of rail switches) over the fabric. */
enum topo_unit { TOPO_UNIT_PAIR, TOPO_UNIT_NUMA, TOPO_UNIT_POD };
uint32_t peal_topo_rank_unit(const peal_fabric *fabric, uint32_t rank, enum topo_unit unit);

/* What an engine adds to, or takes from, a link class: the cost profile.
 * alpha_us replaces the path's where >= 0; beta_scale multiplies its bandwidth. */
struct topo_engine_cost {
    double alpha_us;
    double beta_scale;
    double gap_us;
};
void peal_topo_engine_cost(const peal_fabric *fabric, peal_link_class link_class,
                           peal_engine engine, struct topo_engine_cost *cost);
/* One hop over a path by an engine: its start-up and gap, and the part of the bandwidth it gets. */
void peal_topo_hop_cost(const peal_fabric *fabric, const struct topo_path *path, peal_engine engine,
                        struct topo_engine_cost *cost);
/* Of ranks that share one host's memory, measured (cluster_memory.c): how fast one of them copies,
 * by the bytes of the message, and what a call takes besides its steps. */
enum topo_rate_use {
    TOPO_USE_LOAD,
    TOPO_USE_STORE,
    TOPO_USE_EXCHANGE,
    TOPO_USE_DOUBLING, /* from here on: exchanges of one algorithm, where it was measured */
    TOPO_USE_HALVING,
    TOPO_USE_RING,
    TOPO_USE_SWING,
    TOPO_USE_STAR,
    TOPO_USE_TREE,
    TOPO_USES
};
#define TOPO_RATES_MAX 32u
struct topo_rate {
    double bytes;
    double gbs;
};
/* What calls of one schedule took. */
#define TOPO_TIMES_MAX 32u
#define TOPO_CALLS_MAX 1024u
struct topo_time {
    double bytes;
    double us;
};
struct topo_call {
    const char *collective;
    const char *algorithm;
    const char *detail; /* of its schedules which, as candidates are described; NULL: any */
    double tile_bytes;  /* 0: whole chunks */
    int private_buffers;
    uint32_t line; /* of the file */
    uint32_t times;
    struct topo_time *time;
};
struct topo_memory {
    uint32_t ranks; /* measured with so many; 0: with those of the file */
    uint32_t line;
    double entry_us;
    uint32_t count[TOPO_USES];
    struct topo_rate rate[TOPO_USES][TOPO_RATES_MAX];
    uint32_t calls;
    const struct topo_call *call; /* the fabric's */
};
/* As <rate use=> says it. */
const char *peal_topo_use_name(enum topo_rate_use use);
/* NULL: not measured. */
const struct topo_memory *peal_topo_memory(const peal_fabric *fabric);
/* A call, by the times measured; count > 0. */
double peal_topo_times_us(const struct topo_time *time, uint32_t count, double bytes);
/* Copying as much as the message is. */
double peal_topo_memory_us(const struct topo_memory *memory, enum topo_rate_use use, double bytes);
/* What one lane moves: the mean of what it reads and what it writes, 1e9 bytes per second. */
double peal_topo_lane_gbs(const peal_fabric *fabric, uint32_t rank);
/* Transfers that a rank's copy engines carry at a time. */
uint32_t peal_topo_copy_engines(void);
/* 1: an accelerator; 0: a host process, which has one core for all its lanes. */
int peal_topo_rank_accelerates(const peal_fabric *fabric, uint32_t rank);
/* Buffer of one switch of the network, MiB; -1 not stated. */
int peal_topo_switch_buffer(const peal_fabric *fabric);
/* Reduction rate of one rank's reducing unit, input bytes / 1e9 per second. */
double peal_topo_reduce_gbs(const peal_fabric *fabric, uint32_t rank);

#endif
