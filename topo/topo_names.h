/* SPDX-License-Identifier: Apache-2.0 */
/* Names as people read them. */
#ifndef PEAL_TOPO_TOPO_NAMES_H
#define PEAL_TOPO_TOPO_NAMES_H

#include "fabric.h"
#include "topo_text.h"

/* "h3/" where there are several hosts. */
void peal_topo_put_host(const peal_fabric *fabric, uint32_t host, struct topo_text *text);
/* "h3/gpu0" */
void peal_topo_put_node(const peal_fabric *fabric, const struct topo_at *at, uint32_t node,
                        struct topo_text *text);

#endif
