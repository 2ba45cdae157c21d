/* SPDX-License-Identifier: Apache-2.0 */
/* Which machine, which plan, which size. */
#include "sim.h"

#include <stdlib.h>

static int one_size(const struct cli *cli, uint64_t *bytes)
{
    uint64_t low = 0, high = 0;
    CLI_TRY(cli_range(cli, OPT_BYTES, &low, &high));
    if (low != high)
        return say_usage("--bytes: one size is simulated at a time");
    if (cli_given(cli, OPT_BYTES) && high == 0)
        return say_usage("--bytes 0: of an empty message nothing moves, so there is nothing to "
                         "simulate");
    *bytes = high;
    return EXIT_YES;
}

/* The row that serves the size; without one, the table's largest message of the action. */
static int find_row(struct sim_case *c)
{
    peal_table_info info = {.size = sizeof info};
    CLI_TRY(say_diag(peal_table_get(c->table, &info), NULL));
    c->ranks = info.ranks;
    c->row.size = sizeof c->row;
    for (uint32_t r = 0; !c->bytes && r < info.rows; r++) {
        CLI_TRY(say_diag(peal_table_row(c->table, r, &c->row), NULL));
        struct action action = row_action(&c->row);
        c->index = action_same(&action, &c->action) ? r : c->index;
    }
    if (c->bytes && peal_table_lookup(c->table, c->action.collective, c->action.root,
                                      c->action.peer, c->bytes, &c->index) != PEAL_OK)
        return say_usage("the plan serves no message of %llu bytes", (unsigned long long)c->bytes);
    c->row.size = sizeof c->row;
    return say_diag(peal_table_row(c->table, c->index, &c->row), NULL);
}

static int only_action(const struct actions *actions, struct sim_case *c)
{
    if (actions->count != 1)
        return say_usage("one collective is simulated at a time; choose with --collective, --root "
                         "and --peer");
    c->action = actions->list[0];
    return EXIT_YES;
}

static int open_plan(struct cli *cli, struct sim_case *c, struct actions *actions)
{
    peal_fabric *none = NULL;
    struct choice choice;
    CLI_TRY(load_any(cli, cli->operand[1], &none, &c->table));
    if (none) {
        peal_fabric_destroy(none);
        return say_usage("'%s' is a topology, where a plan is needed", cli->operand[1]);
    }
    CLI_TRY(read_choice(cli, 0, &choice));
    CLI_TRY(check_decided(cli, c->table));
    return choose_of_table(&choice, c->table, actions);
}

static int open_case(struct cli *cli, struct sim_case *c, struct actions *actions)
{
    CLI_TRY(one_size(cli, &c->bytes));
    CLI_TRY(load_fabric(cli, cli->operand[0], &c->fabric));
    if (cli->operands == 2)
        CLI_TRY(open_plan(cli, c, actions));
    else
        CLI_TRY(compile_all(cli, c->fabric, &c->table, actions));
    CLI_TRY(only_action(actions, c));
    return find_row(c);
}

int sim_open(struct cli *cli, struct sim_case *c)
{
    struct actions *actions = need(calloc(1, sizeof *actions));
    int code = open_case(cli, c, actions);
    free(actions);
    return code;
}

int sim_run(struct cli *cli, const peal_fabric *fabric, const struct sim_case *c, int keep,
            peal_sim **sim_out)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_sim_params params = PEAL_SIM_PARAMS_INIT;
    params.bytes = c->bytes;
    params.keep = keep;
    CLI_TRY(cli_size(cli, OPT_BUFFER, &params.buffer_bytes));
    if (cli_given(cli, OPT_BUFFER) && !params.buffer_bytes)
        return say_usage("--buffer 0: a port without a buffer passes nothing on");
    return say_diag(peal_simulate(cli->ctx, fabric, c->table, c->index, &params, &diag, sim_out),
                    &diag);
}

int sim_write(const struct cli *cli, const peal_sim *sim, const char *form, const char *path)
{
    peal_diag diag = PEAL_DIAG_INIT;
    struct output output;
    struct cli to = *cli;
    to.value[OPT_OUTPUT] = path;
    CLI_TRY(output_open(&to, &output));
    peal_status status = peal_sim_write(sim, form, output_write, &output, &diag);
    return output_close(&output, say_diag(status, &diag));
}

void sim_close(struct sim_case *c)
{
    peal_sim_destroy(c->sim);
    peal_table_destroy(c->table);
    peal_fabric_destroy(c->fabric);
}
