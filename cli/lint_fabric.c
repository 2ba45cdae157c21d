/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of a machine: the traps that reading its file found, and what its parts share. */
#include "lint.h"

#include <string.h>

#define RANKS_LOOKED_AT 1024u /* of more, the first: hosts of a kind are alike */
#define GPU_GBITS 100.0       /* of the network, below which a GPU's share of a NIC is told */

/* The warnings of reading it, each by the rule it has, or as one of the file. */
static void read_warnings(struct lint *lint)
{
    peal_note_info note = {.size = sizeof note};
    for (uint32_t i = 0; peal_fabric_note(lint->fabric, i, &note) == PEAL_OK; i++) {
        enum lint_rule rule = LINT_FILE;
        for (uint32_t r = 0; r < LINT_RULES; r++)
            if (strcmp(note.rule, lint_rule_name((enum lint_rule)r)) == 0)
                rule = (enum lint_rule)r;
        if (note.warning)
            lint_add(lint, rule, LEVEL_WARNING, note.path ? note.path : "", note.line, "%s",
                     note.text);
    }
}

static const char *name_of(const peal_rank_info *rank)
{
    return rank->busid[0] ? rank->busid : rank->model;
}

/* One switch and one root port are near; one on another socket has been told while reading. */
static void far_nics(struct lint *lint, const peal_rank_info *rank)
{
    peal_nic_distance distance;
    peal_nic_info nic = {.size = sizeof nic};
    if (rank->nic < 0 || rank->arch == 0 ||
        peal_fabric_nic(lint->fabric, (uint32_t)rank->nic, &nic) != PEAL_OK || !nic.busid[0] ||
        peal_fabric_nic_distance(lint->fabric, rank->rank, (uint32_t)rank->nic, &distance) !=
            PEAL_OK ||
        distance != PEAL_NIC_NUMA)
        return;
    lint_add(lint, LINT_FAR_NIC, LEVEL_INFO, rank->path, rank->line,
             "GPU %s and its NIC %s meet at the host bridge, under no common PCIe switch",
             name_of(rank), nic.name);
}

/* A file may have one port in several places. */
static int is_one_port(const struct lint *lint, int32_t a, int32_t b)
{
    peal_nic_info first = {.size = sizeof first}, second = {.size = sizeof second};
    return a == b ||
           (a >= 0 && b >= 0 && peal_fabric_nic(lint->fabric, (uint32_t)a, &first) == PEAL_OK &&
            peal_fabric_nic(lint->fabric, (uint32_t)b, &second) == PEAL_OK &&
            strcmp(first.name, second.name) == 0);
}

/* Ranks that have the same NIC as this one, the first of them. */
static uint32_t sharers(const struct lint *lint, const peal_rank_info *rank)
{
    uint32_t count = 0;
    peal_rank_info other = {.size = sizeof other};
    for (uint32_t r = rank->rank - rank->local;
         peal_fabric_rank(lint->fabric, r, &other) == PEAL_OK && other.host == rank->host; r++) {
        if (!is_one_port(lint, other.nic, rank->nic))
            continue;
        if (r < rank->rank)
            return 0;
        count++;
    }
    return count;
}

static void shared_nics(struct lint *lint, const peal_rank_info *rank)
{
    peal_nic_info nic = {.size = sizeof nic};
    uint32_t count = rank->nic < 0 ? 0 : sharers(lint, rank);
    char text[NUMBER_TEXT], rate[NUMBER_TEXT];
    if (count < 2 || peal_fabric_nic(lint->fabric, (uint32_t)rank->nic, &nic) != PEAL_OK)
        return;
    int short_of = nic.speed_gbits / count < GPU_GBITS;
    lint_add(lint, LINT_SHARED_NIC, short_of ? LEVEL_WARNING : LEVEL_INFO, nic.path, nic.line,
             "NIC %s serves %lu GPUs: %s of its %s Gb/s for each when all send", nic.name,
             (unsigned long)count, real_text(nic.speed_gbits / count, text),
             real_text(nic.speed_gbits, rate));
}

/* What the <switch> of a cluster says, or does not. */
static void lossless(struct lint *lint)
{
    const peal_fabric_info *info = &lint->info;
    if (strcmp(info->dialect, "cluster") != 0 || info->hosts < 2)
        return;
    if (info->pfc == 0 || info->ecn == 0)
        lint_add(lint, LINT_LOSSLESS, LEVEL_WARNING, lint->cli->operand[0], info->network_line,
                 "RDMA over Ethernet with %s off: a full switch drops packets, and go-back-N sends "
                 "them all again",
                 info->pfc == 0 && info->ecn == 0 ? "PFC and ECN"
                 : info->pfc == 0                 ? "PFC"
                                                  : "ECN");
    else if (info->pfc < 0 || info->ecn < 0)
        lint_add(lint, LINT_LOSSLESS, LEVEL_INFO, lint->cli->operand[0], info->network_line,
                 "the file does not say whether its switches have PFC and ECN on");
}

void lint_fabric(struct lint *lint)
{
    peal_rank_info rank = {.size = sizeof rank};
    read_warnings(lint);
    lossless(lint);
    for (uint32_t r = 0; r < RANKS_LOOKED_AT && peal_fabric_rank(lint->fabric, r, &rank) == PEAL_OK;
         r++) {
        far_nics(lint, &rank);
        shared_nics(lint, &rank);
    }
}
