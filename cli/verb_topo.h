/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of peal topo. */
#ifndef PEAL_CLI_VERB_TOPO_H
#define PEAL_CLI_VERB_TOPO_H

#include "cli_json.h"

const char *nic_name(const peal_fabric *fabric, int32_t index); /* "-": none */
void topo_json(const peal_fabric *fabric, const peal_fabric_info *info,
               const struct output *output);
/* ---- topo_calls.c: what ranks of one memory were measured to take, in text and in JSON */
void topo_calls(const peal_fabric *fabric, const peal_fabric_info *info,
                const struct output *output);
void json_measured(json_t *root, const peal_fabric *fabric, const peal_fabric_info *info);
/* The operands behind "cluster", "diff" and "detect". */
int topo_cluster(struct cli *cli);
int topo_diff(struct cli *cli);
int topo_detect(struct cli *cli);

#endif
