/* SPDX-License-Identifier: Apache-2.0 */
/* From options to a request, and from a request to a table. */
#include "action.h"
#include "launch.h"
#include "team.h"

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

static int read_wire(const struct cli *cli, peal_request *request)
{
    const char *word = cli->value[OPT_WIRE];
    if (!word)
        return EXIT_YES;
    for (int i = PEAL_WIRE_NONE + 1; i < PEAL_WIRE_COUNT; i++)
        if (strcmp(word, peal_wire_name((peal_wire)i)) == 0) {
            request->wire = (peal_wire)i;
            return EXIT_YES;
        }
    return say_usage("--wire is bf16 or fp8, not '%s'", word);
}

/* An empty message has no plan of its own: the row of the smallest ones serves it. */
static int read_sizes(const struct cli *cli, peal_request *request)
{
    CLI_TRY(cli_range(cli, OPT_BYTES, &request->min_bytes, &request->max_bytes));
    if (!cli_given(cli, OPT_BYTES))
        return EXIT_YES;
    if (!request->max_bytes)
        return say_usage("--bytes 0: an empty message needs no plan; that of one byte serves it");
    request->min_bytes = request->min_bytes ? request->min_bytes : 1;
    return EXIT_YES;
}

int read_request(struct cli *cli, peal_request *request)
{
    uint32_t list[LIST_MAX], count = 0;
    if (cli->verb != VERB_RUN) { /* which takes lists of these */
        CLI_TRY(read_sizes(cli, request));
        CLI_TRY(cli_u32(cli, OPT_RANKS, &request->ranks));
        if (!script_given(cli))
            CLI_TRY(cli_names(cli, OPT_ALGORITHM, algorithm_word, algorithm_words(), list, &count));
        if (count > 1)
            return say_usage("'peal %s' takes one algorithm", cli_verbs[cli->verb].name);
        if (count)
            request->algorithm = algorithm_word(list[0]);
        if (cli_given(cli, OPT_RANKS) && request->ranks == 0)
            return say_usage("--ranks 0: there is no collective of nobody");
    }
    CLI_TRY(team_read(cli, &cli->team));
    team_request(&cli->team, request);
    CLI_TRY(cli_u32(cli, OPT_CHANNELS, &request->channels));
    CLI_TRY(cli_u32(cli, OPT_GATEWAYS, &request->gateways));
    request->levels = cli->value[OPT_LEVELS];
    request->inner = cli->value[OPT_INNER];
    request->outer = cli->value[OPT_OUTER];
    CLI_TRY(cli_u32(cli, OPT_INCAST, &request->incast));
    CLI_TRY(cli_size(cli, OPT_TILE, &request->tile_bytes));
    if (cli_given(cli, OPT_TILE) && !request->tile_bytes)
        return say_usage("--tile 0: a tile holds something");
    CLI_TRY(cli_u32(cli, OPT_DEPTH, &request->depth));
    CLI_TRY(cli_size(cli, OPT_SCRATCH, &request->scratch_limit));
    if (cli_given(cli, OPT_SCRATCH) && !request->scratch_limit)
        request->scratch_limit = 1; /* which no scratch is as small as */
    CLI_TRY(cli_real(cli, OPT_SM_PRICE, &request->sm_price));
    CLI_TRY(cli_u32(cli, OPT_MAX_SMS, &request->max_sms));
    if (cli_given(cli, OPT_MAX_SMS) && request->max_sms == 0)
        return say_usage("--max-sms 0: that is --zero-sm");
    request->zero_sm = cli_given(cli, OPT_ZERO_SM);
    request->deterministic = cli_given(cli, OPT_DETERMINISTIC);
    request->repeatable = cli_given(cli, OPT_REPEATABLE);
    CLI_TRY(read_wire(cli, request));
    CLI_TRY(read_policy(cli, request));
    request->private_buffers = cli_given(cli, OPT_PRIVATE);
    return read_engines(cli, request);
}

int count_ranks(const struct cli *cli, const peal_fabric *fabric, uint32_t wanted,
                uint32_t *ranks_out)
{
    peal_fabric_info info = {.size = sizeof info};
    CLI_TRY(say_diag(peal_fabric_get(fabric, &info), NULL));
    *ranks_out = cli->team.ranks ? (uint32_t)cli->team.ranks : wanted ? wanted : info.ranks;
    return EXIT_YES;
}

/* The table of a request, by the caller's own schedule if there is one. */
static int plan_any(const struct cli *cli, const peal_fabric *fabric, peal_request *request,
                    peal_diag *diag, peal_status *status, peal_table **table_out)
{
    peal_schedule *script = NULL;
    *status = PEAL_OK;
    if (script_given(cli))
        CLI_TRY(script_load(cli, fabric, request, diag, status, &script));
    if (*status == PEAL_OK) {
        request->schedule = script;
        request->algorithm = script ? peal_schedule_name(script) : request->algorithm;
        *status = peal_table_plan(cli->ctx, fabric, request, diag, table_out);
    }
    peal_schedule_destroy(script);
    return EXIT_YES;
}

static void say_unserved(const peal_request *request, const peal_diag *diag)
{
    const char *what = peal_collective_name(request->collective);
    if (request->algorithm)
        say(SAY_NOTE, "%s is left out: it does not serve %s by %lu ranks here", request->algorithm,
            what, (unsigned long)request->ranks);
    else
        say(SAY_NOTE, "%s is left out: %s", what, diag->text);
}

int plan_table(struct cli *cli, const peal_fabric *fabric, const peal_request *request,
               const struct action *action, int *skip, int loud, peal_table **table_out)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_request full = *request;
    full.collective = action->collective;
    full.root = action->root;
    full.peer = action->peer;
    full.pairs = action->pairs;
    full.npairs = action->npairs;
    peal_status status;
    CLI_TRY(plan_any(cli, fabric, &full, &diag, &status, table_out));
    if (status == PEAL_OK)
        say_fallback(&diag);
    if (status != PEAL_ERR_UNSUPPORTED || !skip)
        return say_diag(status, &diag);
    full.algorithm = request->algorithm;           /* a script's is gone */
    if (loud && action->collective != PEAL_CUSTOM) /* which "all" need not mean */
        say_unserved(&full, &diag);
    *skip = 1;
    *table_out = NULL;
    return EXIT_YES;
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

static int add_table(peal_table **to, peal_table *from)
{
    peal_diag diag = PEAL_DIAG_INIT;
    if (!*to) {
        *to = from;
        return EXIT_YES;
    }
    peal_status status = peal_table_join(*to, from, &diag);
    peal_table_destroy(from);
    return say_diag(status, &diag);
}

/* One rank's programs in place of the planned table. */
static int slice_table(const peal_fabric *fabric, uint32_t rank, uint32_t row, peal_table **table)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table_info info = {.size = sizeof info};
    peal_table *slice = NULL;
    CLI_TRY(say_diag(peal_table_get(*table, &info), NULL));
    if (rank >= info.ranks)
        return say_usage("--rank %lu: the plans have %lu ranks", (unsigned long)rank,
                         (unsigned long)info.ranks);
    if (row != PEAL_EVERY_ROW && row >= info.rows)
        return say_usage("--row %lu: the table has %lu rows", (unsigned long)row,
                         (unsigned long)info.rows);
    CLI_TRY(say_diag(peal_table_slice(*table, fabric, rank, row, &diag, &slice), &diag));
    peal_table_destroy(*table);
    *table = slice;
    return EXIT_YES;
}

/* peal verify proves what it has, once, and peal sim runs nothing: it takes plans as they are, and
 * says where one does not end. Only compiling looks at whether all rows reduce in one order. */
static int lower_or_compile(const struct cli *cli, const peal_fabric *fabric, peal_table *table)
{
    peal_diag diag = PEAL_DIAG_INIT;
    int as_it_is = cli->verb == VERB_VERIFY || cli->verb == VERB_SIM;
    if (!as_it_is || cli_given(cli, OPT_DETERMINISTIC))
        return compile_table(fabric, table);
    return say_diag(peal_table_lower(table, fabric, &diag), &diag);
}

int make_table(struct cli *cli, const peal_fabric *fabric, const peal_request *request,
               const struct action *action, int *skip, int loud, peal_table **to)
{
    peal_table *table;
    CLI_TRY(plan_table(cli, fabric, request, action, skip, loud, &table));
    if (!table)
        return EXIT_YES;
    int code = launch_slices(cli) ? slice_table(fabric, cli->launch->rank, PEAL_EVERY_ROW, &table)
                                  : lower_or_compile(cli, fabric, table);
    if (code == EXIT_YES)
        return add_table(to, table);
    peal_table_destroy(table);
    return code;
}

/* --rank. */
static int make_slice(struct cli *cli, const peal_fabric *fabric, const peal_request *request,
                      const struct action *action, int *skip, uint32_t row, peal_table **to)
{
    peal_table *table;
    uint32_t rank = 0;
    CLI_TRY(cli_u32(cli, OPT_RANK, &rank));
    CLI_TRY(plan_table(cli, fabric, request, action, skip, 1, &table));
    if (!table)
        return EXIT_YES;
    int code = slice_table(fabric, rank, row, &table);
    if (code == EXIT_YES)
        return add_table(to, table);
    peal_table_destroy(table);
    return code;
}

static int compile_chosen(struct cli *cli, const peal_fabric *fabric, const struct choice *choice,
                          struct actions *actions, peal_table **to)
{
    peal_request request = PEAL_REQUEST_INIT;
    uint32_t kept = 0;
    CLI_TRY(read_request(cli, &request));
    CLI_TRY(count_ranks(cli, fabric, request.ranks, &request.ranks));
    CLI_TRY(choose_all(choice, request.ranks, 0, actions));
    uint32_t row = PEAL_EVERY_ROW;
    if (actions->count == 1 && cli_given(cli, OPT_RANK) && cli_given(cli, OPT_ROW)) {
        CLI_TRY(cli_u32(cli, OPT_ROW, &row));
        actions->first_row = row;
    }
    for (uint32_t i = 0; i < actions->count; i++) {
        const struct action *action = &actions->list[i];
        int skip = 0;
        int *may_skip = choice->all ? &skip : NULL;
        if (cli_given(cli, OPT_RANK))
            CLI_TRY(make_slice(cli, fabric, &request, action, may_skip, row, to));
        else
            CLI_TRY(make_table(cli, fabric, &request, action, may_skip, 1, to));
        if (!skip)
            actions->list[kept++] = *action;
    }
    actions->count = kept;
    return *to ? EXIT_YES : say_diag(PEAL_ERR_UNSUPPORTED, NULL);
}

int compile_all(struct cli *cli, const peal_fabric *fabric, peal_table **table_out,
                struct actions *actions)
{
    struct choice choice;
    peal_table *table = NULL;
    CLI_TRY(read_choice(cli, 0, &choice));
    int code = compile_chosen(cli, fabric, &choice, actions, &table);
    if (code == EXIT_YES)
        *table_out = table;
    else
        peal_table_destroy(table);
    return code;
}

int check_decided(const struct cli *cli, const peal_table *table)
{
    static const enum option_id decided[] = {
        OPT_ALGORITHM, OPT_CHANNELS,   OPT_GATEWAYS,      OPT_TILE,    OPT_SCRATCH, OPT_ENGINE,
        OPT_SM_PRICE,  OPT_NCCL_GRAPH, OPT_DETERMINISTIC, OPT_MAX_SMS, OPT_ZERO_SM, OPT_GROUP,
        OPT_SIBLINGS,  OPT_GRID,       OPT_AXIS,          OPT_INCAST,  OPT_LEVELS,  OPT_INNER,
        OPT_OUTER,     OPT_WIRE,       OPT_DEPTH,         OPT_POLICY,  OPT_SLICE};
    peal_table_info info = {.size = sizeof info};
    uint32_t ranks;
    CLI_TRY(say_diag(peal_table_get(table, &info), NULL));
    for (size_t i = 0; i < COUNT_OF(decided); i++)
        if (cli_given(cli, decided[i]))
            return say_usage("--%s is decided in a plan file; give the topology",
                             cli_options[decided[i]].name);
    if (cli_given(cli, OPT_BYTES) && cli->verb != VERB_RUN && cli->verb != VERB_SIM)
        return say_usage("--bytes is decided in a plan file; give the topology");
    ranks = info.ranks;
    CLI_TRY(cli_u32(cli, OPT_RANKS, &ranks));
    if (ranks != info.ranks)
        return say_usage("the plan is for %lu ranks", (unsigned long)info.ranks);
    return EXIT_YES;
}

static int read_decided(struct cli *cli, const peal_table *table, struct actions *actions)
{
    struct choice choice;
    CLI_TRY(read_choice(cli, 0, &choice));
    CLI_TRY(check_decided(cli, table));
    return choose_of_table(&choice, table, actions);
}

int finish_loaded(struct cli *cli, const peal_fabric *fabric, peal_table **table,
                  struct actions *actions)
{
    if (fabric)
        return compile_all(cli, fabric, table, actions);
    return read_decided(cli, *table, actions);
}

int load_compiled(struct cli *cli, const char *path, peal_table **table_out,
                  struct actions *actions)
{
    peal_fabric *fabric;
    peal_table *table;
    CLI_TRY(load_any(cli, path, &fabric, &table));
    int code = finish_loaded(cli, fabric, &table, actions);
    peal_fabric_destroy(fabric);
    if (code == EXIT_YES)
        *table_out = table;
    else
        peal_table_destroy(table);
    return code;
}
