/* SPDX-License-Identifier: Apache-2.0 */
/* peal topo detect: a topology file of the machine it runs on. */
#include "detect.h"
#include "verb_topo.h"

#include <stdlib.h>
#include <string.h>

/* Accelerators, NICs that have a port, and what they are behind. */
static void mark_shown(struct machine *m)
{
    for (uint32_t i = 0; i < m->nics; i++)
        if (m->nic[i].device != DETECT_NONE)
            m->device[m->nic[i].device].shown = 1;
    for (uint32_t i = 0; i < m->devices; i++)
        m->device[i].shown |= m->device[i].accelerator;
    for (uint32_t i = 0; i < m->devices; i++)
        for (uint32_t at = i; m->device[i].shown && at != DETECT_NONE; at = m->device[at].parent)
            m->device[at].shown = 1;
}

/* What is written has to be read again. */
static int check(struct cli *cli, const char *text, size_t bytes)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_fabric *fabric = NULL;
    peal_status status =
        peal_fabric_parse(cli->ctx, text, bytes, "what was detected", NULL, &diag, &fabric);
    peal_fabric_destroy(fabric);
    return say_diag(status, &diag);
}

static int write_text(struct cli *cli, const char *text, size_t bytes)
{
    peal_status status;
    struct output output;
    CLI_TRY(check(cli, text, bytes));
    CLI_TRY(output_open(cli, &output));
    status = output_write(&output, text, bytes);
    return output_close(&output, say_diag(status, NULL));
}

static int write_machine(struct cli *cli, struct machine *m, uint32_t ranks)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = need(open_memstream(&text, &bytes));
    detect_write(m, ranks, file);
    (void)need(fclose(file) == 0 ? text : NULL);
    int code = write_text(cli, text, bytes);
    free(text);
    return code;
}

int topo_detect(struct cli *cli)
{
    uint32_t ranks = 0;
    CLI_TRY(cli_operands(cli, 0));
    CLI_TRY(cli_u32(cli, OPT_RANKS, &ranks));
    if (cli_given(cli, OPT_RANKS) && (ranks == 0 || ranks > 4096))
        return say_usage("--ranks of 'peal topo detect' are 1 to 4096");
    if (cli_given(cli, OPT_JSON))
        return say_usage("'peal topo detect' writes XML; 'peal topo --json' reads it");
    struct machine *m = need(calloc(1, sizeof *m));
    m->root = cli_given(cli, OPT_SYSROOT) ? cli->value[OPT_SYSROOT] : "";
    detect_cpus(m);
    detect_pci(m);
    detect_nics(m);
    detect_kfd(m);
    detect_nvml(m);
    detect_cuda(m, cli->ctx);
    mark_shown(m);
    if (detect_accelerates(m) && ranks)
        say(SAY_NOTE, "--ranks is for machines without accelerators: here each is a rank");
    int code = write_machine(cli, m, ranks);
    free(m);
    return code;
}
