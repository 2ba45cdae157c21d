/* SPDX-License-Identifier: Apache-2.0 */
/* The switches between hosts. */
#ifndef PEAL_TOPO_NETWORK_H
#define PEAL_TOPO_NETWORK_H

#include "fabric.h"

/* What a message uses beyond NIC ports when it leaves its switch. */
struct topo_crossing {
    uint64_t up;
    uint64_t down;
    double up_gbs;
    double down_gbs;
};
/* 1 and fills *crossing when it does; 0 when both NICs are on one switch. */
int peal_topo_crosses(const peal_fabric *fabric, uint32_t from_host, int32_t from_rail,
                      uint32_t to_host, int32_t to_rail, struct topo_crossing *crossing);
/* Index of a host's switch for a rail: [0, groups x rails). */
uint32_t peal_topo_switch(const struct topo_network *network, uint32_t host, int32_t rail);
/* "rail0", "leaf3", "rail0.2" (rail 0 of the third group). */
void peal_topo_switch_name(const struct topo_network *network, uint32_t index, char *text,
                           size_t size);
/* The NIC of a local rank, -1 none. */
int32_t peal_topo_type_rank_nic(const struct topo_type *type, uint32_t local);

/* What is known of the switches, for checks: -1 not stated. */
struct topo_switch_facts {
    int buffer_mib;
    int pfc;
    int ecn;
    uint32_t line; /* where it is stated, or could be; 0: without a network */
};
struct topo_switch_facts peal_topo_switch_facts(const peal_fabric *fabric);

#endif
