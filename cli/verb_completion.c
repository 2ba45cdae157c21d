/* SPDX-License-Identifier: Apache-2.0 */
/* peal completion: the same tables as a shell's completion. */
#include "cli.h"

#include <string.h>

static void put_words(FILE *file, name_fn name, uint32_t known)
{
    for (uint32_t i = 0; i < known; i++)
        fprintf(file, "%s%s", i ? " " : "", name(i));
}

/* Each is a list for some verb, and may be "all". */
static void put_value_case(FILE *file, enum option_id option, name_fn name, uint32_t known)
{
    fprintf(file, "    --%s", cli_options[option].name);
    if (cli_options[option].letter)
        fprintf(file, " | -%c", cli_options[option].letter);
    fputs(") words=\"", file);
    put_words(file, name, known);
    fputs(" all\" ;;\n", file);
}

static void put_values(FILE *file)
{
    fputs("    case $before in\n", file);
    put_value_case(file, OPT_DTYPE, dtype_word, PEAL_DTYPE_COUNT);
    put_value_case(file, OPT_OP, op_word, PEAL_OP_COUNT);
    put_value_case(file, OPT_COLLECTIVE, collective_word, PEAL_COLLECTIVE_COUNT);
    put_value_case(file, OPT_ALGORITHM, algorithm_word, algorithm_words());
    fputs("    esac\n", file);
}

static void put_options(FILE *file)
{
    fputs("    case ${COMP_WORDS[1]} in\n", file);
    for (uint32_t v = 0; v < VERBS; v++) {
        fprintf(file, "    %s) options=\"", cli_verbs[v].name);
        for (uint32_t i = 0; i < OPTIONS; i++)
            if (cli_options[i].verbs >> v & 1)
                fprintf(file, "--%s ", cli_options[i].name);
        fputs("\" ;;\n", file);
    }
    fputs("    esac\n", file);
}

static void bash(FILE *file)
{
    fputs("# bash completion of peal; eval \"$(peal completion bash)\"\n"
          "_peal() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
          "    local words= options= list=${word%\"${word##*,}\"}\n"
          "    COMPREPLY=()\n"
          "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
          "        COMPREPLY=($(compgen -W \"",
          file);
    for (uint32_t i = 0; i < VERBS; i++)
        fprintf(file, "%s%s", i ? " " : "", cli_verbs[i].name);
    fputs("\" -- \"$word\"))\n        return\n    fi\n", file);
    put_values(file);
    put_options(file);
    fputs("    if [ -n \"$words\" ]; then\n"
          "        COMPREPLY=($(compgen -P \"$list\" -W \"$words\" -- \"${word##*,}\"))\n"
          "    elif [ \"${word:0:1}\" = - ]; then\n"
          "        COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
          "    else\n"
          "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
          "    fi\n"
          "}\n"
          "complete -o filenames -F _peal peal\n",
          file);
}

int verb_completion(struct cli *cli)
{
    struct output output;
    CLI_TRY(cli_operands(cli, 1));
    if (strcmp(cli->operand[0], "bash") != 0)
        return say_usage("there is completion for bash only, not for '%s'", cli->operand[0]);
    CLI_TRY(output_open(cli, &output));
    bash(output.file);
    return output_close(&output, EXIT_YES);
}
