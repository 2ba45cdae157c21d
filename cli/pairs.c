/* SPDX-License-Identifier: Apache-2.0 */
/* Who sends to whom: --pairs and --shift. */
#include "team.h"

#include <stdlib.h>
#include <string.h>

#define PAIRS_MAX 65536u

/* "3>5" */
static int read_pair(const char *word, size_t length, uint32_t *ends)
{
    const char *arrow = memchr(word, '>', length);
    uint64_t from, to;
    size_t before = arrow ? (size_t)(arrow - word) : 0;
    if (!arrow || !parse_u64(word, before, &from) ||
        !parse_u64(arrow + 1, length - before - 1, &to) || from > UINT32_MAX || to > UINT32_MAX)
        return say_usage("--pairs: '%.*s' is not FROM>TO", length < 40 ? (int)length : 40, word);
    ends[0] = (uint32_t)from;
    ends[1] = (uint32_t)to;
    return EXIT_YES;
}

static size_t count_words(const char *text)
{
    size_t count = 1;
    for (; *text; text++)
        count += *text == ',';
    return count;
}

static int read_pairs(struct cli *cli, struct choice *choice)
{
    const char *at = cli->value[OPT_PAIRS];
    size_t count = count_words(at);
    if (count > PAIRS_MAX)
        return say_usage("--pairs: more than %u", PAIRS_MAX);
    uint32_t *list = team_keep(&cli->team, 2 * count);
    for (size_t i = 0; i < count; i++) {
        size_t length = strcspn(at, ",");
        CLI_TRY(read_pair(at, length, &list[2 * i]));
        at += length + 1;
    }
    choice->pairs = list;
    choice->npairs = (uint32_t)count;
    return EXIT_YES;
}

static int read_shifts(struct cli *cli, struct choice *choice)
{
    const char *at = cli->value[OPT_SHIFT];
    for (;;) {
        size_t length = strcspn(at, ",");
        int minus = at[0] == '-';
        uint64_t far;
        if (choice->nshifts == COUNT_OF(choice->shift) ||
            !parse_u64(at + minus, length - (size_t)minus, &far) || far > INT32_MAX)
            return say_usage("--shift: '%.*s' is no distance, or there are more than %u",
                             length < 40 ? (int)length : 40, at, (unsigned)COUNT_OF(choice->shift));
        choice->shift[choice->nshifts++] = minus ? -(int64_t)far : (int64_t)far;
        if (at[length] == '\0')
            return EXIT_YES;
        at += length + 1;
    }
}

int pairs_read(struct cli *cli, struct choice *choice)
{
    int list = cli_given(cli, OPT_PAIRS), shift = cli_given(cli, OPT_SHIFT);
    choice->team = &cli->team;
    if (list && shift)
        return say_usage("--pairs and --shift name two lists");
    if ((list || shift) && cli_given(cli, OPT_PEER))
        return say_usage("--peer is of one pair, --%s of many", list ? "pairs" : "shift");
    if (list)
        return read_pairs(cli, choice);
    return shift ? read_shifts(cli, choice) : EXIT_YES;
}

/* Rank r to rank r + far, around the end. */
static void make_shifts(const struct choice *choice, uint32_t ranks, struct action *action)
{
    uint32_t *list = team_keep(choice->team, 2 * (size_t)ranks * choice->nshifts), *at = list;
    for (uint32_t s = 0; s < choice->nshifts; s++)
        for (uint32_t r = 0; r < ranks; r++) {
            int64_t to = (r + choice->shift[s]) % (int64_t)ranks;
            *at++ = r;
            *at++ = (uint32_t)(to < 0 ? to + ranks : to);
        }
    action->pairs = list;
    action->npairs = ranks * choice->nshifts;
}

void pairs_choose(const struct choice *choice, uint32_t ranks, struct action *action)
{
    if (choice->nshifts) {
        make_shifts(choice, ranks, action);
    } else if (choice->npairs) {
        action->pairs = choice->pairs;
        action->npairs = choice->npairs;
    } else { /* the next rank, if none is said */
        action->peer = choice->has_peer ? choice->peer : (action->root + 1) % ranks;
        return;
    }
    action->peer = action->root; /* the number of the list */
}

int pairs_among(const struct action *action, uint32_t ranks)
{
    for (size_t i = 0; i < 2 * (size_t)action->npairs; i++)
        if (action->pairs[i] >= ranks)
            return 0;
    return 1;
}
