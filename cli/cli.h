/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the verbs of peal(1) share. Data goes to standard output, everything else to standard
 * error. Functions that can fail return an exit code, EXIT_YES when all is well, and have said
 * why on standard error.
 */
#ifndef PEAL_CLI_CLI_H
#define PEAL_CLI_CLI_H

#include <peal/peal.h>
#include <stdarg.h>
#include <stdio.h>

enum exit_code {
    EXIT_YES = 0,
    EXIT_NO = 1,      /* asked and answered: not proven, different, wrong elements */
    EXIT_USAGE = 2,   /* the command line */
    EXIT_INPUT = 3,   /* a file, or something it cannot serve */
    EXIT_RUNTIME = 4, /* out of memory, output failed, a rank failed, a defect */
};

#define CLI_TRY(expr)                                                                              \
    do {                                                                                           \
        int cli_try_code = (expr);                                                                 \
        if (cli_try_code != EXIT_YES)                                                              \
            return cli_try_code;                                                                   \
    } while (0)

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* ---- the command line (options.c): verbs.def and options.def as tables */
enum verb_id {
#define VERB(id, name, function, operands, summary, example) VERB_##id,
#include "verbs.def"
#undef VERB
    VERBS
};

enum option_id {
#define OPTION(id, name, letter, argument, verbs, help) OPT_##id,
#include "options.def"
#undef OPTION
    OPTIONS
};

/* Ranks of the fabric (team.c); none: the first ones. And memory for other lists. */
struct team {
    uint32_t *group;
    size_t ranks, group_room;
    uint32_t *sibling; /* one group behind the other */
    size_t siblings, sibling_room;
    struct team_kept *kept;
    struct custom *customs; /* custom.c */
};

#define POLICIES_MAX 16u

struct cli {
    peal_ctx *ctx;
    enum verb_id verb;
    const char *value[OPTIONS]; /* NULL: not given; a flag that is given has "" */
    char **operand;
    uint32_t operands;
    struct team team;
    const char *policy[POLICIES_MAX]; /* every --policy */
    uint32_t policies;
    peal_policy *made;     /* of them */
    struct launch *launch; /* launch.h */
};

struct verb {
    const char *name;
    int (*run)(struct cli *cli);
    const char *operands;
    const char *summary;
    const char *example;
};
extern const struct verb cli_verbs[VERBS];

struct option {
    const char *name;
    char letter;
    const char *argument; /* NULL: a flag */
    uint32_t verbs;       /* bit 1 << verb */
    const char *help;
};
extern const struct option cli_options[OPTIONS];

/* argv[2...] into cli, whose verb is set. Operands end up in argv's own memory. */
int cli_parse(struct cli *cli, int argc, char **argv);
int cli_given(const struct cli *cli, enum option_id option);
/* The number of operands has to be `count`. */
int cli_operands(const struct cli *cli, uint32_t count);

/* Each leaves *out as it is when the option is not given. */
int cli_u32(const struct cli *cli, enum option_id option, uint32_t *out);
int cli_u64(const struct cli *cli, enum option_id option, uint64_t *out);
int cli_real(const struct cli *cli, enum option_id option, double *out);
int cli_size(const struct cli *cli, enum option_id option, uint64_t *out);
int cli_range(const struct cli *cli, enum option_id option, uint64_t *low, uint64_t *high);

#define LIST_MAX 256u
/* Splits "a,b,c". The numbers of a list; sizes != 0: with K, M, G. */
int cli_numbers(const struct cli *cli, enum option_id option, int sizes, uint64_t *list,
                uint32_t *count);
typedef const char *(*name_fn)(uint32_t index);
/* The indices of names of a vocabulary in a comma list; "all" is every one of `known`. */
int cli_names(const struct cli *cli, enum option_id option, name_fn name, uint32_t known,
              uint32_t *list, uint32_t *count);
const char *dtype_word(uint32_t index);
const char *op_word(uint32_t index);
const char *collective_word(uint32_t index);
const char *algorithm_word(uint32_t index); /* NULL behind the last */
uint32_t algorithm_words(void);

/* ---- numbers (number.c) */
int parse_u64(const char *text, size_t length, uint64_t *out); /* 0: is none */
int parse_size(const char *text, size_t length, uint64_t *out);
#define NUMBER_TEXT 32
const char *size_text(uint64_t bytes, char *text); /* "64K"; "1000" */
const char *real_text(double value, char *text);   /* three digits that matter, no exponent */
const char *engines_text(uint32_t bits, char *text, size_t size); /* "sm+tma" */

/* ---- talking (say.c) */
enum say { SAY_ERROR, SAY_WARNING, SAY_NOTE };
void say(enum say kind, const char *format, ...) PEAL_PRINTF(2, 3);
/* "file:line:col: error: text", and the exit code that fits; nothing for PEAL_OK. */
int say_diag(peal_status status, const peal_diag *diag);
int say_usage(const char *format, ...) PEAL_PRINTF(1, 2); /* EXIT_USAGE */
/* Of `known` words the one nearest to `word`, or NULL. */
const char *nearest(const char *word, name_fn name, uint32_t known);
/* A number of things done, on a terminal and after two seconds; done == total clears it. */
void say_progress(const char *what, uint64_t done, uint64_t total);
uint64_t now_ns(void);
void *need(void *memory); /* ends the program when NULL */

/* ---- input (input.c): "-" is standard input, "host:N" a host of N ranks */
int load_fabric(struct cli *cli, const char *path, peal_fabric **fabric_out);
/* One of the two: what the file is decides. A text of a plan is assembled. */
int load_any(struct cli *cli, const char *path, peal_fabric **fabric_out, peal_table **table_out);
/* Applies --degrade. */
int degrade_fabric(const struct cli *cli, peal_fabric *fabric);
/* 1: what limits the row is a link that --degrade has killed, so that it never ends. */
int crosses_dead(const struct cli *cli, const peal_fabric *fabric, const peal_row_info *row);
int read_file(const char *path, char **data_out, size_t *bytes_out); /* free() */

/* ---- requests (request.c) */
struct action; /* action.h */
struct actions;
/* All but the collective and its ends. */
int read_request(struct cli *cli, peal_request *request);
/* The number of ranks that a request for so many (0: all, or the group's) means. */
int count_ranks(const struct cli *cli, const peal_fabric *fabric, uint32_t wanted,
                uint32_t *ranks_out);
/* skip: NULL, or set to 1 instead of an error, with *table_out NULL, when the action cannot be
 * served; loud: a note says so. */
/* --algorithm FILE.lua (script.c): 1 if it is one; the schedule for a request, whose status is
 * the library's. */
int script_given(const struct cli *cli);
int script_load(const struct cli *cli, const peal_fabric *fabric, const peal_request *request,
                peal_diag *diag, peal_status *status, peal_schedule **script_out);
int plan_table(struct cli *cli, const peal_fabric *fabric, const peal_request *request,
               const struct action *action, int *skip, int loud, peal_table **table_out);
int compile_table(const peal_fabric *fabric, peal_table *table);
/* Plans and compiles; the table joins *to, or becomes *to when that is NULL. */
int make_table(struct cli *cli, const peal_fabric *fabric, const peal_request *request,
               const struct action *action, int *skip, int loud, peal_table **to);
/* Options may only repeat what a plan file says. */
int check_decided(const struct cli *cli, const peal_table *table);
/* A compiled table of a topology or a plan file, and which of what it serves is meant. */
int load_compiled(struct cli *cli, const char *path, peal_table **table_out,
                  struct actions *actions);
/* The same of what load_any gave: *table is made where there is a fabric, else a file's. */
int finish_loaded(struct cli *cli, const peal_fabric *fabric, peal_table **table,
                  struct actions *actions);
/* A compiled table of a topology. */
int compile_all(struct cli *cli, const peal_fabric *fabric, peal_table **table_out,
                struct actions *actions);

/* ---- policies (policy_input.c) */
/* The policy of all --policy; the request refers to it. */
int read_policy(struct cli *cli, peal_request *request);
/* The planner went on without the policy: why. */
void say_fallback(const peal_diag *diag);
void script_line(void *user, const char *line, size_t bytes); /* of a script, to a FILE */

/* ---- plain.c: what strangers have written, with its control characters shown as \x1b */
char *plain(const char *text, size_t bytes); /* to be freed */
/* The text as a whole, but for a newline at its end; its lines, each for itself. */
void put_plain(FILE *file, const char *format, ...) PEAL_PRINTF(2, 3);
void put_plain_list(FILE *file, const char *format, va_list args) PEAL_PRINTF(2, 0);
void put_lines(FILE *file, const char *text, size_t bytes);

/* ---- output (output.c): a file appears whole or not at all */
struct output {
    FILE *file;
    int in_place; /* standard output, or something that is no regular file */
    char path[4096];
};
/* To the file of --output, or standard output. */
int output_open(const struct cli *cli, struct output *output);
/* Keeps what was written when code is EXIT_YES or EXIT_NO; gives code, or what went wrong. */
int output_close(struct output *output, int code);
peal_status output_write(void *user, const char *data, size_t bytes); /* a peal_write_fn */
/* How a file that the output is to refer to is named there (topo_cluster.c). */
int path_from_output(const struct cli *cli, const char *host, char *path, size_t size);
/* A plan file as the whole output. */
int save_table(const struct cli *cli, const peal_table *table);
int output_coloured(const struct output *output);

/* ---- tables of text (grid.c) */
#define GRID_COLUMNS 16u
struct grid {
    uint32_t columns;
    uint32_t right; /* bit per column: flush right */
    char **cell;    /* row by row, the first is the heading */
    size_t cells;
    size_t room;
};
/* heading: "|"-separated; a column whose heading starts with ">" is flush right. */
void grid_begin(struct grid *grid, const char *heading);
void grid_add(struct grid *grid, const char *format, ...) PEAL_PRINTF(2, 3); /* the next cell */
void grid_print(struct grid *grid, const struct output *output);             /* and frees */
void grid_free(struct grid *grid);

/* ---- verbs */
#define VERB(id, name, function, operands, summary, example) int function(struct cli *cli);
#include "verbs.def"
#undef VERB
void help_all(FILE *file);
void help_verb(enum verb_id verb, FILE *file);

#endif
