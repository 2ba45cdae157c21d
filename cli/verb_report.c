/* SPDX-License-Identifier: Apache-2.0 */
/* peal report: a machine, what is chosen on it, and why, as one page. */
#include "lint.h"
#include "report.h"

static int write_page(struct report *r)
{
    page_begin(r);
    report_fabric(r);
    report_network(r);
    if (r->ranks > 1) {
        CLI_TRY(report_choices(r));
        CLI_TRY(report_plan(r));
    }
    CLI_TRY(report_estimate(r));
    CLI_TRY(report_lint(r));
    report_notes(r);
    page_end(r->file);
    return EXIT_YES;
}

static int write_report(struct report *r)
{
    uint32_t wanted = 0;
    struct output output;
    r->info.size = sizeof r->info;
    CLI_TRY(say_diag(peal_fabric_get(r->fabric, &r->info), NULL));
    CLI_TRY(degrade_fabric(r->cli, r->fabric));
    CLI_TRY(cli_u32(r->cli, OPT_RANKS, &wanted));
    r->ranks = wanted ? wanted : r->info.ranks;
    CLI_TRY(output_open(r->cli, &output));
    r->file = output.file;
    return output_close(&output, write_page(r));
}

int verb_report(struct cli *cli)
{
    struct report report = {.cli = cli};
    CLI_TRY(cli_operands(cli, 1));
    report.path = cli->operand[0];
    CLI_TRY(load_fabric(cli, report.path, &report.fabric));
    int code = write_report(&report);
    peal_fabric_destroy(report.fabric);
    return code;
}
