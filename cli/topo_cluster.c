/* SPDX-License-Identifier: Apache-2.0 */
/* peal topo cluster: many hosts like one, and the network between them. */
#include "verb_topo.h"

#include <stdlib.h>
#include <string.h>

/* The directory of a path, resolved; NULL when there is none. */
static char *directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    char text[4096];
    if (!slash)
        return realpath(".", NULL);
    int length = slash == path ? 1 : (int)(slash - path);
    (void)snprintf(text, sizeof text, "%.*s", length, path);
    return realpath(text, NULL);
}

/* A cluster finds its host's file from its own directory: beside it by name, elsewhere by the
 * whole path. What goes to standard output is taken to stay here. */
int path_from_output(const struct cli *cli, const char *host, char *path, size_t size)
{
    const char *out = cli->value[OPT_OUTPUT];
    if (strcmp(host, "-") == 0 || strncmp(host, "host:", 5) == 0)
        return say_usage("a cluster refers to a file; '%s' is none", host);
    char *from = directory(out && strcmp(out, "-") != 0 ? out : ".");
    char *to = directory(host);
    char *whole = realpath(host, NULL);
    const char *name = strrchr(host, '/') ? strrchr(host, '/') + 1 : host;
    int beside = from && to && strcmp(from, to) == 0;
    int here = !out || strcmp(out, "-") == 0;
    (void)snprintf(path, size, "%s", beside ? name : here || !whole ? host : whole);
    free(from);
    free(to);
    free(whole);
    return EXIT_YES;
}

static int read_cluster(const struct cli *cli, peal_cluster_params *params)
{
    CLI_TRY(cli_u32(cli, OPT_NODES, &params->nodes));
    CLI_TRY(cli_real(cli, OPT_OVERSUBSCRIPTION, &params->oversubscription));
    CLI_TRY(cli_real(cli, OPT_LATENCY, &params->latency_us));
    params->rails = cli_given(cli, OPT_RAILS);
    params->multicast = cli_given(cli, OPT_MULTICAST);
    if (params->nodes == 0)
        return say_usage("--nodes says how many hosts the cluster has");
    if (params->rails && cli_given(cli, OPT_LEAF_SPINE))
        return say_usage("--rails and --leaf-spine are two networks; one is to be had");
    if (cli_given(cli, OPT_OVERSUBSCRIPTION) && params->oversubscription < 1)
        return say_usage("--oversubscription is at least 1");
    return EXIT_YES;
}

int topo_cluster(struct cli *cli)
{
    peal_cluster_params params = {.size = sizeof params};
    peal_diag diag = PEAL_DIAG_INIT;
    peal_fabric *host;
    struct output output;
    char path[4096];
    CLI_TRY(cli_operands(cli, 1));
    if (cli_given(cli, OPT_JSON))
        return say_usage("'peal topo cluster' writes XML; 'peal topo --json' reads it");
    CLI_TRY(read_cluster(cli, &params));
    CLI_TRY(path_from_output(cli, cli->operand[0], path, sizeof path));
    params.host_path = path;
    CLI_TRY(load_fabric(cli, cli->operand[0], &host)); /* nothing refers to what is no host */
    peal_fabric_destroy(host);
    CLI_TRY(output_open(cli, &output));
    peal_status status = peal_cluster_write(cli->ctx, &params, output_write, &output, &diag);
    return output_close(&output, status == PEAL_OK ? EXIT_YES : say_diag(status, &diag));
}
