/* SPDX-License-Identifier: Apache-2.0 */
/* What peal lint finds of the machine, and of the model's split, in a report. */
#include "lint.h"
#include "report.h"

#include <string.h>

static void put_finding(FILE *file, const struct finding *f)
{
    const char *slash = strrchr(f->where, '/');
    fprintf(file, "<tr><td%s%s</td><td>%s</td><td><code>",
            f->level == LEVEL_INFO ? ">" : " class=\"warning\">&#9888; ", lint_level_name(f->level),
            lint_rule_name(f->rule));
    page_text(file, slash ? slash + 1 : f->where);
    if (f->line)
        fprintf(file, ":%lu", (unsigned long)f->line);
    fputs("</code></td><td>", file);
    page_text(file, f->text);
    if (f->times > 1)
        fprintf(file, " (%lu times)", (unsigned long)f->times);
    fputs("<br><span class=\"muted\">", file);
    page_text(file, lint_advice(f->rule));
    fputs("</span></td></tr>\n", file);
}

static void put_findings(FILE *file, const struct lint *lint)
{
    page_heading(file, "lint", "Findings");
    if (!lint->count) {
        fputs("<p class=\"muted\">None: nothing in the file is suspicious.</p>\n", file);
        return;
    }
    fputs("<div class=\"scroll\"><table><tr><th>level</th><th>rule</th><th>where</th>"
          "<th>what, and what to do</th></tr>\n",
          file);
    for (uint32_t level = LINT_LEVELS; level-- > 0;)
        for (size_t i = 0; i < lint->count; i++)
            if (lint->list[i].level == level)
                put_finding(file, &lint->list[i]);
    fputs("</table></div>\n", file);
}

int report_lint(struct report *r)
{
    struct lint lint = {.cli = r->cli, .fabric = r->fabric, .info = r->info};
    lint_fabric(&lint);
    int code = lint_model(&lint);
    if (code == EXIT_YES)
        put_findings(r->file, &lint);
    lint_free(&lint);
    return code;
}
