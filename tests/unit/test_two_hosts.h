/* SPDX-License-Identifier: Apache-2.0 */
/* Proven tables of ranks of two hosts, for tests of what goes between them. */
#ifndef PEAL_TESTS_TWO_HOSTS_H
#define PEAL_TESTS_TWO_HOSTS_H

#include "support.h"

#include <check.h>

static inline peal_fabric *load_two_hosts(peal_ctx *ctx)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_fabric *fabric;
    const char *path = test_source_path("examples/topologies/cluster-h100-2.xml");
    ck_assert_msg(peal_fabric_load(ctx, path, &diag, &fabric) == PEAL_OK, "%s", diag.text);
    return fabric;
}

/* `algorithm`: the only one, on one channel; NULL: the planner's choice. */
static inline peal_table *plan_two_hosts(peal_ctx *ctx, peal_collective collective,
                                         const char *algorithm, const uint32_t *group,
                                         uint32_t count, uint64_t max_bytes)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_fabric *fabric = load_two_hosts(ctx);
    peal_table *table;
    peal_request request = PEAL_REQUEST_INIT;
    request.algorithm = algorithm;
    request.channels = algorithm ? 1 : 0;
    request.collective = collective;
    request.ranks = request.group_size = count;
    request.group = group;
    request.min_bytes = 8;
    request.max_bytes = max_bytes;
    ck_assert_msg(peal_table_plan(ctx, fabric, &request, &diag, &table) == PEAL_OK, "%s",
                  diag.text);
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
    ck_assert_msg(peal_table_verify(table, NULL, NULL, NULL, &diag) == PEAL_OK, "%s", diag.text);
    peal_fabric_destroy(fabric);
    return table;
}

#endif
