/* SPDX-License-Identifier: Apache-2.0 */
/* What a model's communication takes, in a report: the text of peal estimate, and its timeline. */
#include "estimating.h"
#include "report.h"

#include <stdlib.h>

static void put_text(const struct report *r, const struct estimating *of)
{
    char *text = NULL;
    size_t bytes = 0;
    struct output output = {.in_place = 1, .file = need(open_memstream(&text, &bytes))};
    estimate_print(r->cli, of, &output);
    (void)fclose(output.file);
    fputs("<pre>", r->file);
    page_text(r->file, text);
    fputs("</pre>\n", r->file);
    free(text);
}

static peal_status put_piece(void *user, const char *data, size_t bytes)
{
    return fwrite(data, 1, bytes, user) == bytes ? PEAL_OK : PEAL_ERR_IO;
}

static int put_estimate(struct report *r, struct estimating *of)
{
    peal_diag diag = PEAL_DIAG_INIT;
    CLI_TRY(say_diag(
        peal_estimate_create(r->cli->ctx, r->fabric, &of->model, &of->params, &diag, &of->as_is),
        &diag));
    page_heading(r->file, "estimate", "What a model takes");
    put_text(r, of);
    peal_estimate_info info = {.size = sizeof info};
    CLI_TRY(say_diag(peal_estimate_get(of->as_is, &info), NULL));
    if (info.dp < 2) /* no gradients travel */
        return EXIT_YES;
    fputs("<figure class=\"drawn\">", r->file);
    peal_status status = peal_estimate_write(of->as_is, "svg", put_piece, r->file, &diag);
    fputs("</figure>\n", r->file);
    return say_diag(status, &diag);
}

int report_estimate(struct report *r)
{
    if (!cli_given(r->cli, OPT_MODEL))
        return EXIT_YES;
    struct estimating *of = need(calloc(1, sizeof *of));
    of->fabric = r->fabric;
    int code = estimate_input(r->cli, of);
    if (code == EXIT_YES)
        code = put_estimate(r, of);
    peal_estimate_destroy(of->as_is);
    free(of->script_text);
    free(of);
    return code;
}
