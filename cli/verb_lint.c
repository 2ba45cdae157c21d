/* SPDX-License-Identifier: Apache-2.0 */
/* peal lint: the checklist of a machine, of a collective on it, and of a model split over it. */
#include "cli_json.h"
#include "lint.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    const char *advice;
} rules[LINT_RULES] = {
#define LINT(id, name, advice) {name, advice},
#include "lint.def"
#undef LINT
};

const char *lint_rule_name(enum lint_rule rule)
{
    return rules[rule].name;
}

const char *lint_advice(enum lint_rule rule)
{
    return rules[rule].advice;
}

const char *lint_level_name(uint32_t level)
{
    static const char *const names[LINT_LEVELS] = {"info", "warning", "error"};
    return level < LINT_LEVELS ? names[level] : NULL;
}

const char *lint_star(double alpha_us, double beta_gbs, char *text)
{
    uint64_t bytes = (uint64_t)(alpha_us * beta_gbs * 1e3);
    return size_text(bytes < 4096 ? bytes : bytes / 1024 * 1024, text);
}

/* ---- the list */

static char *copy(const char *text)
{
    size_t bytes = strlen(text) + 1;
    return memcpy(need(malloc(bytes)), text, bytes);
}

void lint_add(struct lint *lint, enum lint_rule rule, enum lint_level level, const char *where,
              uint32_t line, const char *format, ...)
{
    char text[640];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (size_t i = 0; i < lint->count; i++) {
        struct finding *old = &lint->list[i];
        if (old->rule == rule && old->line == line && strcmp(old->where, where) == 0 &&
            strcmp(old->text, text) == 0) {
            old->times++;
            return;
        }
    }
    if (lint->count == lint->room) {
        lint->room = lint->room ? 2 * lint->room : 16;
        lint->list = need(realloc(lint->list, lint->room * sizeof *lint->list));
    }
    lint->list[lint->count++] = (struct finding){rule, level, copy(where), line, copy(text), 1};
}

void lint_free(struct lint *lint)
{
    for (size_t i = 0; i < lint->count; i++) {
        free(lint->list[i].where);
        free(lint->list[i].text);
    }
    free(lint->list);
    lint->list = NULL;
    lint->count = lint->room = 0;
}

/* ---- shown */

static void print_finding(const struct finding *f, FILE *file)
{
    put_plain(file, "%s", f->where);
    if (f->line)
        fprintf(file, ":%lu", (unsigned long)f->line);
    put_plain(file, ": %s: %s: %s", lint_level_name(f->level), lint_rule_name(f->rule), f->text);
    if (f->times > 1)
        fprintf(file, " (%lu times)", (unsigned long)f->times);
    fputc('\n', file);
}

/* The worst first, and those of one rule together: what to do is said once, behind them. */
static void print_text(const struct lint *lint, FILE *file)
{
    size_t count[LINT_LEVELS] = {0};
    for (uint32_t level = LINT_LEVELS; level-- > 0;)
        for (uint32_t rule = 0; rule < LINT_RULES; rule++) {
            size_t before = count[level];
            for (size_t i = 0; i < lint->count; i++)
                if (lint->list[i].level == level && lint->list[i].rule == rule) {
                    print_finding(&lint->list[i], file);
                    count[level]++;
                }
            if (count[level] > before)
                fprintf(file, "    %s\n", lint_advice((enum lint_rule)rule));
        }
    fprintf(file, "errors: %lu, warnings: %lu, infos: %lu\n", (unsigned long)count[LEVEL_ERROR],
            (unsigned long)count[LEVEL_WARNING], (unsigned long)count[LEVEL_INFO]);
}

static void print_json(const struct lint *lint, const struct output *output)
{
    json_t *root = json_begin("peal.lint/1");
    json_t *list = json_list(root, "findings");
    for (uint32_t level = LINT_LEVELS; level-- > 0;)
        for (size_t i = 0; i < lint->count; i++) {
            const struct finding *f = &lint->list[i];
            if (f->level != level)
                continue;
            json_t *item = json_item(list);
            json_text(item, "rule", lint_rule_name(f->rule));
            json_text(item, "level", lint_level_name(f->level));
            json_text(item, "where", f->where);
            if (f->line)
                json_count(item, "line", f->line);
            else
                json_text(item, "line", NULL);
            json_text(item, "text", f->text);
            json_text(item, "advice", lint_advice(f->rule));
            json_count(item, "times", f->times);
        }
    json_end(root, output);
}

/* ---- */

static int read_level(const struct cli *cli, uint32_t *level)
{
    const char *word = cli->value[OPT_LEVEL];
    *level = LEVEL_WARNING;
    if (!word)
        return EXIT_YES;
    for (*level = 0; *level < LINT_LEVELS; ++*level)
        if (strcmp(word, lint_level_name(*level)) == 0)
            return EXIT_YES;
    return say_usage("--level: expected info, warning or error, not '%.40s'", word);
}

static int look(struct lint *lint)
{
    CLI_TRY(say_diag(peal_fabric_get(lint->fabric, &lint->info), NULL));
    lint_fabric(lint);
    CLI_TRY(lint_calls(lint));
    CLI_TRY(lint_request(lint));
    return lint_model(lint);
}

static int show(const struct lint *lint, uint32_t level)
{
    struct output output;
    int code = EXIT_YES;
    CLI_TRY(output_open(lint->cli, &output));
    if (cli_given(lint->cli, OPT_JSON))
        print_json(lint, &output);
    else
        print_text(lint, output.file);
    for (size_t i = 0; i < lint->count; i++)
        code = lint->list[i].level >= level ? EXIT_NO : code;
    return output_close(&output, code);
}

int verb_lint(struct cli *cli)
{
    uint32_t level;
    peal_fabric *fabric;
    CLI_TRY(cli_operands(cli, 1));
    CLI_TRY(read_level(cli, &level));
    CLI_TRY(load_fabric(cli, cli->operand[0], &fabric));
    struct lint lint = {.cli = cli, .fabric = fabric, .info = {.size = sizeof lint.info}};
    int code = look(&lint);
    if (code == EXIT_YES)
        code = show(&lint, level);
    lint_free(&lint);
    peal_fabric_destroy(fabric);
    return code;
}
