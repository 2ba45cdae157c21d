/* SPDX-License-Identifier: Apache-2.0 */
/* peal(1): finds the verb and runs it. */
#include "launch.h"
#include "team.h"

#include <string.h>

const struct verb cli_verbs[VERBS] = {
#define VERB(id, name, function, operands, summary, example)                                       \
    {name, function, operands, summary, example},
#include "verbs.def"
#undef VERB
};

static const char *verb_word(uint32_t index)
{
    return cli_verbs[index].name;
}

static int find_verb(const char *word, enum verb_id *out)
{
    for (uint32_t i = 0; i < VERBS; i++)
        if (strcmp(word, cli_verbs[i].name) == 0) {
            *out = (enum verb_id)i;
            return EXIT_YES;
        }
    const char *meant = nearest(word, verb_word, VERBS);
    if (meant)
        return say_usage("unknown verb '%s'; did you mean '%s'?", word, meant);
    return say_usage("unknown verb '%s'; 'peal help' lists them", word);
}

static int run_verb(int argc, char **argv)
{
    struct launch launch = {.by = LAUNCH_NONE};
    struct cli cli = {.launch = &launch};
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0)
        word = "version";
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        word = "help";
    CLI_TRY(find_verb(word, &cli.verb));
    CLI_TRY(cli_parse(&cli, argc, argv));
    if (cli_given(&cli, OPT_HELP)) {
        help_verb(cli.verb, stdout);
        return EXIT_YES;
    }
    peal_status status = peal_ctx_create(NULL, &cli.ctx);
    if (status != PEAL_OK)
        return say_diag(status, NULL);
    int code = cli_verbs[cli.verb].run(&cli);
    peal_policy_destroy(cli.made);
    launch_end(&launch);
    peal_ctx_destroy(cli.ctx);
    team_free(&cli.team);
    return code;
}

int main(int argc, char **argv)
{
    /* Ranks that a launcher started share a terminal: their lines come whole. */
    (void)setvbuf(stderr, NULL, _IOLBF, 0);
    if (argc < 2) {
        help_all(stderr);
        return EXIT_USAGE;
    }
    int code = run_verb(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        say(SAY_ERROR, "writing to standard output failed");
        return EXIT_RUNTIME;
    }
    return code;
}
