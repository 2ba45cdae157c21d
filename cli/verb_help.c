/* SPDX-License-Identifier: Apache-2.0 */
/* peal help, in three forms: for a terminal, as JSON, and as the reference of docs/cli.md. */
#include "cli_json.h"

#include <string.h>

static int applies(uint32_t option, uint32_t verb)
{
    return (cli_options[option].verbs >> verb & 1) != 0;
}

static const char *spelling(uint32_t option, char *text, size_t size)
{
    const struct option *about = &cli_options[option];
    char letter[8] = "    ";
    if (about->letter)
        (void)snprintf(letter, sizeof letter, "-%c, ", about->letter);
    (void)snprintf(text, size, "%s--%s%s%s", letter, about->name, about->argument ? " " : "",
                   about->argument ? about->argument : "");
    return text;
}

void help_verb(enum verb_id verb, FILE *file)
{
    const struct verb *about = &cli_verbs[verb];
    fprintf(file, "usage: peal %s %s%s[options]\n%s\n\n", about->name, about->operands,
            about->operands[0] ? " " : "", about->summary);
    for (uint32_t i = 0; i < OPTIONS; i++) {
        char text[96];
        if (applies(i, verb))
            fprintf(file, "  %-34s %s\n", spelling(i, text, sizeof text), cli_options[i].help);
    }
    fprintf(file, "\nexample: %s\n", about->example);
}

void help_all(FILE *file)
{
    fputs("usage: peal VERB ...\n"
          "compiles topologies into collective schedules, proves them, and runs them\n\n",
          file);
    for (uint32_t i = 0; i < VERBS; i++)
        fprintf(file, "  %-12s %s\n", cli_verbs[i].name, cli_verbs[i].summary);
    fputs("\nTOPO is a topology file (NCCL, RCCL or cluster XML), host:N for N processes of this "
          "host,\nor - for standard input; PLAN is what compile or asm wrote, or dump's text.\n"
          "Sizes are 8, 64K, 1M, 1G (powers of 1024), ranges 8:1G.\n"
          "Exit codes: 0 yes, 1 no (not proven, different, wrong elements), 2 usage, 3 bad input,\n"
          "4 a failure at run time.\n"
          "'peal help VERB' or 'peal VERB --help' has the options.\n",
          file);
}

static void markdown(FILE *file)
{
    for (uint32_t v = 0; v < VERBS; v++) {
        const struct verb *about = &cli_verbs[v];
        fprintf(file, "### peal %s\n", about->name);
        fprintf(file, "`peal %s%s%s`: %s. For example `%s`.\n\n", about->name,
                about->operands[0] ? " " : "", about->operands, about->summary, about->example);
        fputs("| option | |\n|---|---|\n", file);
        for (uint32_t i = 0; i < OPTIONS; i++) {
            char text[96];
            if (!applies(i, v))
                continue;
            const char *shown = spelling(i, text, sizeof text);
            fputs("| `", file);
            for (shown += strspn(shown, " "); *shown; shown++)
                fprintf(file, *shown == '|' ? "\\%c" : "%c", *shown);
            fprintf(file, "` | %s |\n", cli_options[i].help);
        }
        fputc('\n', file);
    }
}

static void json_help(const struct output *output)
{
    json_t *root = json_begin("peal.help/1");
    json_t *verbs = json_list(root, "verbs");
    for (uint32_t v = 0; v < VERBS; v++) {
        json_t *item = json_item(verbs);
        json_text(item, "name", cli_verbs[v].name);
        json_text(item, "operands", cli_verbs[v].operands);
        json_text(item, "summary", cli_verbs[v].summary);
        json_text(item, "example", cli_verbs[v].example);
        json_t *options = json_list(item, "options");
        for (uint32_t i = 0; i < OPTIONS; i++) {
            char letter[2] = {cli_options[i].letter, '\0'};
            if (!applies(i, v))
                continue;
            json_t *option = json_item(options);
            json_text(option, "name", cli_options[i].name);
            json_text(option, "letter", letter[0] ? letter : NULL);
            json_text(option, "argument", cli_options[i].argument);
            json_text(option, "help", cli_options[i].help);
        }
    }
    json_end(root, output);
}

static const char *verb_word(uint32_t index)
{
    return cli_verbs[index].name;
}

static int help_named(const char *word, FILE *file)
{
    for (uint32_t i = 0; i < VERBS; i++)
        if (strcmp(word, cli_verbs[i].name) == 0) {
            help_verb((enum verb_id)i, file);
            return EXIT_YES;
        }
    const char *meant = nearest(word, verb_word, VERBS);
    return meant ? say_usage("unknown verb '%s'; did you mean '%s'?", word, meant)
                 : say_usage("unknown verb '%s'", word);
}

int verb_help(struct cli *cli)
{
    struct output output;
    int code = EXIT_YES;
    if (cli->operands > 1)
        return cli_operands(cli, 1);
    CLI_TRY(output_open(cli, &output));
    if (cli_given(cli, OPT_MARKDOWN))
        markdown(output.file);
    else if (cli_given(cli, OPT_JSON))
        json_help(&output);
    else if (cli->operands)
        code = help_named(cli->operand[0], output.file);
    else
        help_all(output.file);
    return output_close(&output, code);
}
