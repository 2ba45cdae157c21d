/* SPDX-License-Identifier: Apache-2.0 */
#include "machines.h"
#include "support.h"

#include <string.h>

static peal_fabric *made(peal_status status, peal_fabric *fabric, const peal_diag *diag)
{
    if (status == PEAL_OK)
        return fabric;
    (void)fprintf(stderr, "test support: machine: %s:%u: %s\n", diag->path, diag->line, diag->text);
    exit(99);
}

peal_fabric *test_example(peal_ctx *ctx, const char *name)
{
    char path[256];
    peal_fabric *fabric = NULL;
    peal_diag diag = PEAL_DIAG_INIT;
    (void)snprintf(path, sizeof path, "examples/topologies/%s", name);
    peal_status status =
        strncmp(name, "host:", 5) == 0
            ? peal_fabric_host(ctx, (uint32_t)strtoul(name + 5, NULL, 10), &diag, &fabric)
            : peal_fabric_load(ctx, test_source_path(path), &diag, &fabric);
    return made(status, fabric, &diag);
}

peal_fabric *test_machine(peal_ctx *ctx, const char *xml)
{
    char base[4096];
    peal_fabric *fabric = NULL;
    peal_diag diag = PEAL_DIAG_INIT;
    (void)snprintf(base, sizeof base, "%s", test_source_path("examples/topologies"));
    peal_status status =
        peal_fabric_parse(ctx, xml, strlen(xml), "machine.xml", base, &diag, &fabric);
    return made(status, fabric, &diag);
}

peal_fabric *test_cluster(peal_ctx *ctx, const char *host, unsigned count, const char *network)
{
    char xml[512], joined[64] = "";
    if (count > 1)
        (void)snprintf(joined, sizeof joined, "<network kind=\"%s\"/>", network);
    (void)snprintf(xml, sizeof xml,
                   "<peal version=\"1\" name=\"cluster\"><host name=\"h\" count=\"%u\" "
                   "topology=\"%s\"/>%s</peal>",
                   count, host, joined);
    return test_machine(ctx, xml);
}

peal_fabric *test_boxes_of_a100(peal_ctx *ctx, unsigned boxes)
{
    char xml[512];
    (void)snprintf(xml, sizeof xml,
                   "<peal version=\"1\" name=\"boxes\">"
                   "<host name=\"a100\" count=\"%u\" topology=\"dgx-a100.xml\"/>%s"
                   "<cost link=\"nvlink\" beta-gbs=\"300\"/><cost link=\"pcie\" beta-gbs=\"1000\"/>"
                   "<cost link=\"net\" beta-gbs=\"25\"/></peal>",
                   boxes, boxes > 1 ? "<network kind=\"rails\"/>" : "");
    return test_machine(ctx, xml);
}

peal_table *test_planned(peal_ctx *ctx, const peal_fabric *fabric, const peal_request *request)
{
    peal_table *table = NULL;
    peal_diag diag = PEAL_DIAG_INIT;
    if (peal_table_plan(ctx, fabric, request, &diag, &table) == PEAL_OK)
        return table;
    (void)fprintf(stderr, "test support: %s by %u ranks: %s\n",
                  peal_collective_name(request->collective), request->ranks, diag.text);
    exit(99);
}

peal_row_info test_row(const peal_table *table, uint32_t row)
{
    peal_row_info info = {.size = sizeof info};
    if (peal_table_row(table, row, &info) == PEAL_OK)
        return info;
    (void)fprintf(stderr, "test support: the table has no row %u\n", row);
    exit(99);
}

peal_row_info test_planned_row(peal_ctx *ctx, const peal_fabric *fabric,
                               const peal_request *request)
{
    peal_table *table = test_planned(ctx, fabric, request);
    peal_row_info row = test_row(table, 0);
    peal_table_destroy(table);
    return row;
}
