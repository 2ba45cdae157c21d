/* SPDX-License-Identifier: Apache-2.0 */
/* What peal lint finds, and who looks for it. */
#ifndef PEAL_CLI_LINT_H
#define PEAL_CLI_LINT_H

#include "action.h"

#include <jansson.h>

enum lint_rule {
#define LINT(id, name, advice) LINT_##id,
#include "lint.def"
#undef LINT
    LINT_RULES
};

enum lint_level { LEVEL_INFO, LEVEL_WARNING, LEVEL_ERROR };
#define LINT_LEVELS 3u

struct finding {
    enum lint_rule rule;
    enum lint_level level;
    char *where; /* a file, or the options that ask for it */
    uint32_t line;
    char *text;
    uint32_t times; /* on so many hosts, say */
};

struct lint {
    struct cli *cli;
    const peal_fabric *fabric;
    peal_fabric_info info;
    struct finding *list;
    size_t count, room;
};

/* One that was found before in the same place counts once more. */
void lint_add(struct lint *lint, enum lint_rule rule, enum lint_level level, const char *where,
              uint32_t line, const char *format, ...) PEAL_PRINTF(6, 7);
void lint_free(struct lint *lint);
const char *lint_star(double alpha_us, double beta_gbs, char *text); /* S*, to a KiB */
const char *lint_rule_name(enum lint_rule rule);
const char *lint_advice(enum lint_rule rule);
const char *lint_level_name(uint32_t level); /* NULL behind the last */

/* ---- lint_fabric.c: the machine */
void lint_fabric(struct lint *lint);
/* ---- lint_calls.c: the calls that the file has measured times of */
int lint_calls(struct lint *lint);
/* ---- lint_request.c: the collectives that --collective, --bytes and --algorithm ask for */
int lint_request(struct lint *lint);
/* ---- lint_model.c: the split of a model, when --model or an axis is given */
int lint_model(struct lint *lint);

/* ---- report_lint.c: all of them as a part of the page */
struct report;
int report_lint(struct report *r);

#endif
