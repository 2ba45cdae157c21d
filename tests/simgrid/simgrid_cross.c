/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator against SimGrid: the same plans on the same platforms, with SimGrid's model of
 * flows set to max-min shares and nothing else (CM02, no cross-traffic, no TCP window). Every
 * case is a process, since SimGrid has one engine in each. Prints a table; fails where the times
 * differ by more than 1 %. With arguments: FABRIC COLLECTIVE ALGORITHM BYTES, that one.
 */
#include "simgrid_run.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 0.01
#define UNSERVED 3

/* Of the examples, of the corpus behind a +, N processes of one host, or a cluster's text. */
static const char *const fabrics[] = {
    "dgx-h100.xml",
    "dgx-a100.xml",
    "dgx1-v100.xml",
    "hgx-b200.xml",
    "pcie-8gpu.xml",
    "slingshot-4gpu.xml",
    "cluster-h100-2.xml",
    "+nccl-topo/topo_8p6l_4nic.xml",
    "+nccl-topo/topo_4p3l.xml",
    "+nccl-topo/topo_8p_pcie.xml",
    "+nccl-topo/topo_8p_940.xml",
    "+nccl-topo/topo_4p_940.xml",
    "+nccl-topo/mlperf_dell_xe8545_4xa100.xml",
    "host:8",
    "<peal version=\"1\" name=\"uneven\"><host name=\"a\" topology=\"dgx1-v100.xml\"/>"
    "<host name=\"b\" topology=\"slingshot-4gpu.xml\"/><network kind=\"leaf-spine\"/></peal>",
    "<peal version=\"1\" name=\"spine\"><host name=\"h\" count=\"4\" ranks=\"2\">"
    "<nic name=\"mlx5_0\" speed-gbits=\"100\"/></host>"
    "<network kind=\"leaf-spine\" hosts-per-leaf=\"2\" oversubscription=\"2\"/></peal>",
};

static const struct {
    peal_collective collective;
    const char *algorithm;
    uint64_t bytes;
} plans[] = {
    {PEAL_ALLREDUCE, "ring", 1u << 20},    {PEAL_ALLREDUCE, "tree", 1u << 20},
    {PEAL_ALLREDUCE, "twoshot", 1u << 22}, {PEAL_ALLREDUCE, "halving", 1u << 22},
    {PEAL_ALLREDUCE, "oneshot", 4096},     {PEAL_ALLREDUCE, "hierarchical", 1u << 22},
    {PEAL_ALLTOALL, "direct", 1u << 20},   {PEAL_ALLGATHER, "packed", 1u << 22},
    {PEAL_BROADCAST, "chain", 1u << 20},   {PEAL_GATHER, "direct", 1u << 20},
};

static void name_of(const char *fabric, char *text, size_t room)
{
    const char *name = strstr(fabric, "name=\""), *slash = strrchr(fabric, '/');
    if (fabric[0] == '<' && name)
        (void)snprintf(text, room, "%.*s", (int)strcspn(name + 6, "\""), name + 6);
    else
        (void)snprintf(text, room, "%s", slash ? slash + 1 : fabric);
}

static peal_status open_fabric(peal_ctx *ctx, const char *name, peal_diag *diag,
                               peal_fabric **fabric)
{
    char path[4096];
    if (strncmp(name, "host:", 5) == 0)
        return peal_fabric_host(ctx, (uint32_t)atoi(name + 5), diag, fabric);
    if (name[0] == '+')
        return peal_fabric_load(ctx, test_corpus_path(name + 1), diag, fabric);
    if (name[0] == '<') {
        (void)snprintf(path, sizeof path, "%s", test_source_path("examples/topologies"));
        return peal_fabric_parse(ctx, name, strlen(name), "cluster", path, diag, fabric);
    }
    (void)snprintf(path, sizeof path, "examples/topologies/%s", name);
    return peal_fabric_load(ctx, test_source_path(path), diag, fabric);
}

static int compare(const char *fabric_name, peal_collective collective, const char *algorithm,
                   uint64_t bytes)
{
    peal_ctx *ctx;
    peal_fabric *fabric;
    peal_table *table;
    peal_sim *sim;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_request request = PEAL_REQUEST_INIT;
    peal_sim_info info = {.size = sizeof info};
    peal_sim_params params = PEAL_SIM_PARAMS_INIT;
    char name[64];
    params.keep = 1;
    request.collective = collective;
    request.algorithm = algorithm;
    request.min_bytes = request.max_bytes = bytes;
    if (peal_ctx_create(NULL, &ctx) != PEAL_OK ||
        open_fabric(ctx, fabric_name, &diag, &fabric) != PEAL_OK) {
        fprintf(stderr, "%s: %s\n", fabric_name, diag.text);
        return 1;
    }
    peal_status status = peal_table_plan(ctx, fabric, &request, &diag, &table);
    if (status == PEAL_ERR_UNSUPPORTED)
        return UNSERVED;
    if (status != PEAL_OK || peal_table_compile(table, fabric, &diag) != PEAL_OK ||
        peal_simulate(ctx, fabric, table, 0, &params, &diag, &sim) != PEAL_OK ||
        peal_sim_get(sim, &info) != PEAL_OK) {
        fprintf(stderr, "%s: %s\n", fabric_name, diag.text);
        return 1;
    }
    double theirs = simgrid_run_plan(sim), difference = info.time_us / theirs - 1;
    name_of(fabric_name, name, sizeof name);
    printf("%-28s %-10s %-12s %9llu %12.3f %12.3f %+8.4f %%\n", name,
           peal_collective_name(collective), algorithm, (unsigned long long)bytes, info.time_us,
           theirs, 100 * difference);
    (void)fflush(stdout);
    _exit(fabs(difference) > MOST); /* SimGrid's own end takes long */
}

static int compare_apart(const char *fabric, peal_collective collective, const char *algorithm,
                         uint64_t bytes)
{
    int status = 0;
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(compare(fabric, collective, algorithm, bytes));
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return 1;
    return WEXITSTATUS(status);
}

static peal_collective collective_of(const char *name)
{
    int c = 0;
    while (c < PEAL_COLLECTIVE_COUNT && strcmp(peal_collective_name((peal_collective)c), name) != 0)
        c++;
    return (peal_collective)c;
}

int main(int argc, char **argv)
{
    uint32_t compared = 0, wrong = 0, served = 0;
    printf("%-28s %-10s %-12s %9s %12s %12s %10s\n", "fabric", "collective", "algorithm", "bytes",
           "peal us", "simgrid us", "difference");
    if (argc == 5)
        return compare_apart(argv[1], collective_of(argv[2]), argv[3], strtoull(argv[4], NULL, 0));
    int corpus = test_corpus_path("MANIFEST.tsv") != NULL;
    for (size_t f = 0; f < sizeof fabrics / sizeof fabrics[0]; f++) {
        uint32_t before = compared;
        for (size_t p = 0; p < sizeof plans / sizeof plans[0]; p++) {
            if (fabrics[f][0] == '+' && !corpus)
                continue;
            int result =
                compare_apart(fabrics[f], plans[p].collective, plans[p].algorithm, plans[p].bytes);
            compared += result != UNSERVED;
            if (result != UNSERVED && result != 0) {
                printf("WRONG: %s %s %s\n", fabrics[f], peal_collective_name(plans[p].collective),
                       plans[p].algorithm);
                wrong++;
            }
        }
        served += compared > before;
    }
    printf("%u plans on %u fabrics, %u wrong\n", compared, served, wrong);
    return wrong || served < 7;
}
