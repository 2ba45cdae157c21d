/* SPDX-License-Identifier: Apache-2.0 */
/* From options to a request, and from a request to a table. */
#include "cli.h"

#include <string.h>

static const char *engine_word(uint32_t index)
{
    return peal_engine_name((peal_engine)index);
}

static const char *class_word(uint32_t index)
{
    return peal_link_class_name((peal_link_class)index);
}

static int find_word(const char *what, const char *word, name_fn name, uint32_t known,
                     uint32_t *out)
{
    for (*out = 0; *out < known; ++*out)
        if (strcmp(word, name(*out)) == 0)
            return EXIT_YES;
    const char *meant = nearest(word, name, known);
    if (meant)
        return say_usage("unknown %s '%s'; did you mean '%s'?", what, word, meant);
    return say_usage("unknown %s '%s'", what, word);
}

/* "nvlink=tma,net=rdma" */
static int read_engines(const struct cli *cli, peal_request *request)
{
    const char *at = cli->value[OPT_ENGINE];
    while (at && *at) {
        char pair[64];
        size_t length = strcspn(at, ",");
        (void)snprintf(pair, sizeof pair, "%.*s", length < 63 ? (int)length : 63, at);
        char *equals = strchr(pair, '=');
        if (!equals)
            return say_usage("--engine '%s' is not CLASS=ENGINE", pair);
        *equals = '\0';
        uint32_t link_class, engine;
        CLI_TRY(find_word("link class", pair, class_word, PEAL_LINK_CLASS_COUNT, &link_class));
        CLI_TRY(find_word("engine", equals + 1, engine_word, PEAL_ENGINE_COUNT, &engine));
        request->move_engine[link_class] = (uint8_t)(engine + 1);
        at += length + (at[length] == ',');
    }
    return EXIT_YES;
}

int read_request(const struct cli *cli, peal_request *request)
{
    uint32_t list[LIST_MAX], count = 0;
    CLI_TRY(cli_names(cli, OPT_COLLECTIVE, collective_word, PEAL_COLLECTIVE_COUNT, list, &count));
    if (count)
        request->collective = (peal_collective)list[0];
    if (cli->verb != VERB_RUN) { /* which takes lists of these */
        count = 0;
        CLI_TRY(cli_range(cli, OPT_BYTES, &request->min_bytes, &request->max_bytes));
        CLI_TRY(cli_u32(cli, OPT_RANKS, &request->ranks));
        CLI_TRY(cli_names(cli, OPT_ALGORITHM, algorithm_word, ALGORITHMS, list, &count));
        if (count > 1)
            return say_usage("'peal %s' takes one algorithm", cli_verbs[cli->verb].name);
        if (count)
            request->algorithm = algorithm_word(list[0]);
        if (cli_given(cli, OPT_RANKS) && request->ranks == 0)
            return say_usage("--ranks 0: there is no collective of nobody");
    }
    CLI_TRY(cli_u32(cli, OPT_CHANNELS, &request->channels));
    CLI_TRY(cli_u32(cli, OPT_GATEWAYS, &request->gateways));
    CLI_TRY(cli_size(cli, OPT_TILE, &request->tile_bytes));
    CLI_TRY(cli_size(cli, OPT_SCRATCH, &request->scratch_limit));
    CLI_TRY(cli_real(cli, OPT_SM_PRICE, &request->sm_price));
    return read_engines(cli, request);
}

int plan_table(struct cli *cli, const peal_fabric *fabric, const peal_request *request,
               peal_table **table_out)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status = peal_table_plan(cli->ctx, fabric, request, &diag, table_out);
    return status == PEAL_OK ? EXIT_YES : say_diag(status, &diag);
}

int compile_table(const peal_fabric *fabric, peal_table *table)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status = peal_table_compile(table, fabric, &diag);
    if (status == PEAL_ERR_UNPROVEN) { /* the compiler's fault, not an answer */
        (void)say_diag(status, &diag);
        return EXIT_RUNTIME;
    }
    return status == PEAL_OK ? EXIT_YES : say_diag(status, &diag);
}

int plan_and_compile(struct cli *cli, const peal_fabric *fabric, peal_table **table_out)
{
    peal_request request = PEAL_REQUEST_INIT;
    peal_table *table;
    CLI_TRY(read_request(cli, &request));
    CLI_TRY(plan_table(cli, fabric, &request, &table));
    int code = compile_table(fabric, table);
    if (code == EXIT_YES)
        *table_out = table;
    else
        peal_table_destroy(table);
    return code;
}

int check_decided(const struct cli *cli, const peal_table *table)
{
    static const enum option_id decided[] = {OPT_ALGORITHM, OPT_CHANNELS, OPT_GATEWAYS, OPT_TILE,
                                             OPT_SCRATCH,   OPT_ENGINE,   OPT_SM_PRICE};
    peal_table_info info = {.size = sizeof info};
    uint32_t ranks;
    CLI_TRY(say_diag(peal_table_get(table, &info), NULL));
    for (size_t i = 0; i < COUNT_OF(decided); i++)
        if (cli_given(cli, decided[i]))
            return say_usage("--%s is decided in a plan file; give the topology",
                             cli_options[decided[i]].name);
    if (cli_given(cli, OPT_BYTES) && cli->verb != VERB_RUN)
        return say_usage("--bytes is decided in a plan file; give the topology");
    ranks = info.ranks;
    CLI_TRY(cli_u32(cli, OPT_RANKS, &ranks));
    if (ranks != info.ranks)
        return say_usage("the plan is for %lu ranks", (unsigned long)info.ranks);
    return EXIT_YES;
}

int load_compiled(struct cli *cli, const char *path, peal_table **table_out)
{
    peal_fabric *fabric;
    CLI_TRY(load_any(cli, path, &fabric, table_out));
    if (!fabric) {
        int decided = check_decided(cli, *table_out);
        if (decided != EXIT_YES)
            peal_table_destroy(*table_out);
        return decided;
    }
    int code = plan_and_compile(cli, fabric, table_out);
    peal_fabric_destroy(fabric);
    return code;
}
