/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines: --name value, --name=value, -x value, -xvalue, --; options and operands mix. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#define V(verb) (1u << VERB_##verb)
#define ALL_VERBS ((1u << VERBS) - 1)
const struct option cli_options[OPTIONS] = {
#define OPTION(id, name, letter, argument, verbs, help) {name, letter, argument, verbs, help},
#include "options.def"
#undef OPTION
};

static int applies(const struct cli *cli, uint32_t option)
{
    return (cli_options[option].verbs >> cli->verb & 1) != 0;
}

static const char *option_word(uint32_t index)
{
    return cli_options[index].name;
}

/* ---- parsing */

static int unknown(const struct cli *cli, const char *word)
{
    const char *verb = cli_verbs[cli->verb].name;
    for (uint32_t i = 0; i < OPTIONS; i++)
        if (strcmp(cli_options[i].name, word) == 0)
            return say_usage("--%s is no option of 'peal %s'; see 'peal %s --help'", word, verb,
                             verb);
    const char *meant = nearest(word, option_word, OPTIONS);
    if (meant)
        return say_usage("unknown option --%s; did you mean --%s?", word, meant);
    return say_usage("unknown option --%s; see 'peal %s --help'", word, verb);
}

static int set_option(struct cli *cli, uint32_t option, const char *value)
{
    if (option == OPT_POLICY) {
        if (cli->policies == POLICIES_MAX)
            return say_usage("more than %u policies", POLICIES_MAX);
        cli->policy[cli->policies++] = value;
    } else if (cli->value[option] && cli_options[option].argument)
        return say_usage("--%s is given twice", cli_options[option].name);
    cli->value[option] = value;
    return EXIT_YES;
}

/* The option's value: behind it in the same word, or the next word. */
static int take_value(struct cli *cli, uint32_t option, const char *inside, int argc, char **argv,
                      int *at)
{
    const struct option *about = &cli_options[option];
    if (!about->argument) {
        if (inside)
            return say_usage("--%s takes no value", about->name);
        return set_option(cli, option, "");
    }
    if (!inside && *at + 1 >= argc)
        return say_usage("--%s needs %s", about->name, about->argument);
    return set_option(cli, option, inside ? inside : argv[++*at]);
}

static int parse_long(struct cli *cli, int argc, char **argv, int *at)
{
    char *word = argv[*at] + 2;
    char *equals = strchr(word, '=');
    if (equals)
        *equals = '\0';
    for (uint32_t i = 0; i < OPTIONS; i++)
        if (applies(cli, i) && strcmp(cli_options[i].name, word) == 0)
            return take_value(cli, i, equals ? equals + 1 : NULL, argc, argv, at);
    return unknown(cli, word);
}

static int parse_short(struct cli *cli, int argc, char **argv, int *at)
{
    const char *word = argv[*at];
    for (uint32_t i = 0; i < OPTIONS; i++)
        if (applies(cli, i) && cli_options[i].letter == word[1])
            return take_value(cli, i, word[2] ? word + 2 : NULL, argc, argv, at);
    const char *verb = cli_verbs[cli->verb].name;
    return say_usage("unknown option %s; see 'peal %s --help'", word, verb);
}

int cli_parse(struct cli *cli, int argc, char **argv)
{
    int words_only = 0;
    cli->operand = argv;
    cli->operands = 0;
    for (int i = 2; i < argc; i++) {
        char *word = argv[i];
        if (words_only || word[0] != '-' || word[1] == '\0')
            cli->operand[cli->operands++] = word; /* never ahead of what is read */
        else if (strcmp(word, "--") == 0)
            words_only = 1;
        else if (word[1] == '-')
            CLI_TRY(parse_long(cli, argc, argv, &i));
        else
            CLI_TRY(parse_short(cli, argc, argv, &i));
    }
    return EXIT_YES;
}

int cli_given(const struct cli *cli, enum option_id option)
{
    return cli->value[option] != NULL;
}

int cli_operands(const struct cli *cli, uint32_t count)
{
    const struct verb *verb = &cli_verbs[cli->verb];
    if (cli->operands == count)
        return EXIT_YES;
    if (cli->operands > count)
        return say_usage("one too many: '%s'; usage: peal %s %s", cli->operand[count], verb->name,
                         verb->operands);
    return say_usage("something is missing; usage: peal %s %s", verb->name, verb->operands);
}

/* ---- values */

static int refuse(const struct cli *cli, enum option_id option, const char *wanted)
{
    return say_usage("--%s '%s' is not %s", cli_options[option].name, cli->value[option], wanted);
}

int cli_u64(const struct cli *cli, enum option_id option, uint64_t *out)
{
    const char *value = cli->value[option];
    if (!value || parse_u64(value, strlen(value), out))
        return EXIT_YES;
    return refuse(cli, option, "a whole number");
}

int cli_u32(const struct cli *cli, enum option_id option, uint32_t *out)
{
    uint64_t wide = *out;
    CLI_TRY(cli_u64(cli, option, &wide));
    if (wide > UINT32_MAX)
        return refuse(cli, option, "below 2^32");
    *out = (uint32_t)wide;
    return EXIT_YES;
}

int cli_real(const struct cli *cli, enum option_id option, double *out)
{
    const char *value = cli->value[option];
    if (!value)
        return EXIT_YES;
    char *end;
    double number = strtod(value, &end);
    if (end == value || *end || !(number >= 0 && number < 1e15))
        return refuse(cli, option, "a number from 0 up");
    *out = number;
    return EXIT_YES;
}

int cli_size(const struct cli *cli, enum option_id option, uint64_t *out)
{
    const char *value = cli->value[option];
    if (!value || parse_size(value, strlen(value), out))
        return EXIT_YES;
    return refuse(cli, option, "a size such as 8, 64K, 1M or 1G");
}

int cli_range(const struct cli *cli, enum option_id option, uint64_t *low, uint64_t *high)
{
    const char *value = cli->value[option];
    if (!value)
        return EXIT_YES;
    const char *colon = strchr(value, ':');
    size_t length = colon ? (size_t)(colon - value) : strlen(value);
    uint64_t from, to;
    if (!parse_size(value, length, &from))
        return refuse(cli, option, "a range of sizes such as 8:1G");
    to = from;
    if (colon && !parse_size(colon + 1, strlen(colon + 1), &to))
        return refuse(cli, option, "a range of sizes such as 8:1G");
    if (from > to)
        return refuse(cli, option, "a range: it begins behind its end");
    *low = from;
    *high = to;
    return EXIT_YES;
}

/* ---- lists */

/* Calls take with each word between commas. */
static int each_word(const struct cli *cli, enum option_id option,
                     int (*take)(void *user, const char *word, size_t length), void *user)
{
    const char *at = cli->value[option];
    for (uint32_t i = 0; i < LIST_MAX; i++) {
        size_t length = strcspn(at, ",");
        CLI_TRY(take(user, at, length));
        if (at[length] == '\0')
            return EXIT_YES;
        at += length + 1;
    }
    return refuse(cli, option, "a list of at most 256");
}

struct number_list {
    const struct cli *cli;
    enum option_id option;
    int sizes;
    uint64_t *list;
    uint32_t count;
};

static int take_number(void *user, const char *word, size_t length)
{
    struct number_list *to = user;
    uint64_t *at = &to->list[to->count++];
    if (to->sizes ? parse_size(word, length, at) : parse_u64(word, length, at))
        return EXIT_YES;
    return refuse(to->cli, to->option,
                  to->sizes ? "a list of sizes such as 8,64K,1M" : "a list of whole numbers");
}

int cli_numbers(const struct cli *cli, enum option_id option, int sizes, uint64_t *list,
                uint32_t *count)
{
    if (!cli->value[option])
        return EXIT_YES;
    struct number_list to = {cli, option, sizes, list, 0};
    CLI_TRY(each_word(cli, option, take_number, &to));
    *count = to.count;
    return EXIT_YES;
}

struct name_list {
    enum option_id option;
    name_fn name;
    uint32_t known;
    uint32_t *list;
    uint32_t count;
};

static int unknown_name(const struct name_list *to, const char *word)
{
    const char *option = cli_options[to->option].name;
    const char *meant = nearest(word, to->name, to->known);
    if (meant)
        return say_usage("unknown %s '%s'; did you mean '%s'?", option, word, meant);
    char known[256] = "";
    for (uint32_t i = 0; i < to->known; i++) {
        size_t used = strlen(known);
        (void)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", to->name(i));
    }
    return say_usage("unknown %s '%s'; there are %s", option, word, known);
}

static int take_name(void *user, const char *word, size_t length)
{
    struct name_list *to = user;
    char text[64];
    (void)snprintf(text, sizeof text, "%.*s", length < sizeof text ? (int)length : 63, word);
    for (uint32_t i = 0; i < to->known; i++)
        if (strcmp(text, to->name(i)) == 0) {
            to->list[to->count++] = i;
            return EXIT_YES;
        }
    return unknown_name(to, text);
}

int cli_names(const struct cli *cli, enum option_id option, name_fn name, uint32_t known,
              uint32_t *list, uint32_t *count)
{
    if (!cli->value[option])
        return EXIT_YES;
    if (strcmp(cli->value[option], "all") == 0) {
        for (uint32_t i = 0; i < known; i++)
            list[i] = i;
        *count = known;
        return EXIT_YES;
    }
    struct name_list to = {option, name, known, list, 0};
    CLI_TRY(each_word(cli, option, take_name, &to));
    *count = to.count;
    return EXIT_YES;
}

/* ---- vocabularies */

const char *dtype_word(uint32_t index)
{
    return peal_dtype_name((peal_dtype)index);
}

const char *op_word(uint32_t index)
{
    return peal_op_name((peal_op)index);
}

const char *collective_word(uint32_t index)
{
    return peal_collective_name((peal_collective)index);
}

const char *algorithm_word(uint32_t index)
{
    return peal_algorithm_name(index);
}

uint32_t algorithm_words(void)
{
    uint32_t count = 0;
    while (algorithm_word(count))
        count++;
    return count;
}
