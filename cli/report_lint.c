/* SPDX-License-Identifier: Apache-2.0 */
/* What peal lint finds of the machine, and of the model's split, in a report. */
#include "lint.h"
#include "report.h"

#include <string.h>

static void put_finding(FILE *file, const struct finding *f)
{
    const char *slash = strrchr(f->where, '/');
    fprintf(file, "<p><b%s%s</b> %s <code>",
            f->level == LEVEL_INFO ? ">" : " class=\"warning\">&#9888; ", lint_level_name(f->level),
            lint_rule_name(f->rule));
    page_text(file, slash ? slash + 1 : f->where);
    if (f->line)
        fprintf(file, ":%lu", (unsigned long)f->line);
    fputs("</code>: ", file);
    page_text(file, f->text);
    if (f->times > 1)
        fprintf(file, " (%lu times)", (unsigned long)f->times);
    fputs("</p>\n", file);
}

/* Those of one rule, and what to do. */
static void put_rule(FILE *file, const struct lint *lint, enum lint_level level,
                     enum lint_rule rule)
{
    uint32_t count = 0;
    for (size_t i = 0; i < lint->count; i++) {
        const struct finding *f = &lint->list[i];
        if (f->level != level || f->rule != rule)
            continue;
        if (count++ == 0)
            fputs("<div class=\"found\">\n", file);
        put_finding(file, f);
    }
    if (!count)
        return;
    fputs("<p class=\"muted\">", file);
    page_text(file, lint_advice(rule));
    fputs("</p></div>\n", file);
}

static void put_findings(FILE *file, const struct lint *lint)
{
    page_heading(file, "lint", "Findings");
    if (!lint->count)
        fputs("<p class=\"muted\">None: nothing in the file is suspicious.</p>\n", file);
    for (uint32_t level = LINT_LEVELS; level-- > 0;)
        for (uint32_t rule = 0; rule < LINT_RULES; rule++)
            put_rule(file, lint, (enum lint_level)level, (enum lint_rule)rule);
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
