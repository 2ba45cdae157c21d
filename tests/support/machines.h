/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machines that tests plan on, and tables for them. What cannot be made ends the program. The
 * caller destroys what it gets.
 */
#ifndef PEAL_TESTS_MACHINES_H
#define PEAL_TESTS_MACHINES_H

#include <peal/peal.h>

/* A file of examples/topologies, or "host:N": N ranks of one memory. */
peal_fabric *test_example(peal_ctx *ctx, const char *name);
/* The text of a topology; hosts may refer to those files. */
peal_fabric *test_machine(peal_ctx *ctx, const char *xml);
/* `count` hosts like that of an example; a network of the kind ("rails", "leaf-spine") joins two
 * and more. */
peal_fabric *test_cluster(peal_ctx *ctx, const char *host, unsigned count, const char *network);
/* Boxes of eight A100 as the rows of oracles/throughput-optimum.tsv have them: 300 GB/s an
 * accelerator inside, 25 between boxes. */
peal_fabric *test_boxes_of_a100(peal_ctx *ctx, unsigned boxes);

peal_table *test_planned(peal_ctx *ctx, const peal_fabric *fabric, const peal_request *request);
peal_row_info test_row(const peal_table *table, uint32_t row);
/* The first row of such a table, which is not kept. */
peal_row_info test_planned_row(peal_ctx *ctx, const peal_fabric *fabric,
                               const peal_request *request);

#endif
