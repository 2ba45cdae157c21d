/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks a request is for, and which groups are under way at the same time: --group,
 * --siblings, --grid, --axis. */
#include "team.h"

#include <stdlib.h>
#include <string.h>

#define RANKS_MAX 65536u
#define AXES_MAX 8u

static void add_rank(struct team *team, uint32_t **list, size_t *count, uint32_t rank)
{
    size_t *room = list == &team->group ? &team->group_room : &team->sibling_room;
    if (*count == *room) {
        *room = *room ? 2 * *room : 64;
        *list = need(realloc(*list, *room * sizeof **list));
    }
    (*list)[(*count)++] = rank;
}

/* ---- lists: "0,2,4,6", "0:63:8" (first, last and stride), and both mixed */

/* FIRST[:LAST[:STRIDE]] */
static int read_range(const char *word, size_t length, uint64_t range[3])
{
    const char *at = word;
    uint32_t parts = 0;
    range[2] = 1;
    for (; parts < 3; parts++) {
        size_t left = length - (size_t)(at - word);
        const char *colon = memchr(at, ':', left);
        size_t used = colon ? (size_t)(colon - at) : left;
        if (!parse_u64(at, used, &range[parts]) || range[parts] >= RANKS_MAX)
            return 0;
        if (!colon)
            break;
        at = colon + 1;
    }
    if (parts == 0)
        range[1] = range[0];
    return parts < 3 && range[2] > 0 && range[0] <= range[1];
}

static int add_list(struct team *team, uint32_t **list, size_t *count, const char *option,
                    const char *text, size_t length)
{
    const char *end = text + length;
    while (text <= end) {
        const char *comma = memchr(text, ',', (size_t)(end - text));
        size_t used = (size_t)((comma ? comma : end) - text);
        uint64_t range[3];
        if (!read_range(text, used, range))
            return say_usage("--%s: '%.*s' is no rank and no range FIRST:LAST:STRIDE", option,
                             used < 40 ? (int)used : 40, text);
        for (uint64_t r = range[0]; r <= range[1]; r += range[2]) {
            if (*count >= RANKS_MAX)
                return say_usage("--%s: more than %u ranks", option, RANKS_MAX);
            add_rank(team, list, count, (uint32_t)r);
        }
        text += used + 1;
    }
    return EXIT_YES;
}

static int read_siblings(const struct cli *cli, struct team *team, size_t ranks)
{
    const char *at = cli->value[OPT_SIBLINGS];
    for (;;) {
        size_t length = strcspn(at, "/"), before = team->siblings;
        CLI_TRY(add_list(team, &team->sibling, &team->siblings, "siblings", at, length));
        if (team->siblings - before != ranks)
            return say_usage(
                "--siblings: '%.*s' has %llu ranks, the group %llu", length < 40 ? (int)length : 40,
                at, (unsigned long long)(team->siblings - before), (unsigned long long)ranks);
        if (at[length] == '\0')
            return EXIT_YES;
        at += length + 1;
    }
}

/* ---- grids: "tp=8,dp=4", the first axis varies fastest */

struct grid_axes {
    uint32_t count;
    char name[AXES_MAX][16];
    uint32_t size[AXES_MAX];
    uint32_t chosen; /* bit per axis */
    uint32_t ranks;
};

static int add_axis(struct grid_axes *axes, const char *word, size_t length)
{
    const char *equals = memchr(word, '=', length);
    size_t name = equals ? (size_t)(equals - word) : 0;
    uint64_t size = 0;
    if (!equals || name == 0 || name >= sizeof axes->name[0] || axes->count == AXES_MAX ||
        !parse_u64(equals + 1, length - name - 1, &size) || size == 0 ||
        size > RANKS_MAX / axes->ranks)
        return say_usage("--grid: '%.*s' is not NAME=SIZE, at most 8 of them and 65536 ranks",
                         length < 40 ? (int)length : 40, word);
    for (uint32_t i = 0; i < axes->count; i++)
        if (strlen(axes->name[i]) == name && memcmp(axes->name[i], word, name) == 0)
            return say_usage("--grid names %s twice", axes->name[i]);
    memcpy(axes->name[axes->count], word, name);
    axes->size[axes->count++] = (uint32_t)size;
    axes->ranks *= (uint32_t)size;
    return EXIT_YES;
}

static int choose_axis(struct grid_axes *axes, const char *word, size_t length)
{
    for (uint32_t i = 0; i < axes->count; i++)
        if (strlen(axes->name[i]) == length && memcmp(axes->name[i], word, length) == 0) {
            axes->chosen |= 1u << i;
            return EXIT_YES;
        }
    return say_usage("--axis: the grid has no %.*s", length < 40 ? (int)length : 40, word);
}

static int each_axis(struct grid_axes *axes, const char *text,
                     int (*take)(struct grid_axes *axes, const char *word, size_t length))
{
    for (;;) {
        size_t length = strcspn(text, ",");
        CLI_TRY(take(axes, text, length));
        if (text[length] == '\0')
            return EXIT_YES;
        text += length + 1;
    }
}

/* The rank at place `inside` of group `group`: the first counts along the chosen axes, the other
 * along the rest. */
static uint32_t rank_at(const struct grid_axes *axes, uint32_t group, uint32_t inside)
{
    uint32_t rank = 0, stride = 1;
    for (uint32_t i = 0; i < axes->count; i++) {
        uint32_t *from = axes->chosen >> i & 1 ? &inside : &group;
        rank += *from % axes->size[i] * stride;
        *from /= axes->size[i];
        stride *= axes->size[i];
    }
    return rank;
}

static int read_grid(const struct cli *cli, struct team *team)
{
    struct grid_axes axes = {.ranks = 1};
    CLI_TRY(each_axis(&axes, cli->value[OPT_GRID], add_axis));
    CLI_TRY(each_axis(&axes, cli->value[OPT_AXIS], choose_axis));
    uint32_t inside = 1;
    for (uint32_t i = 0; i < axes.count; i++)
        inside *= axes.chosen >> i & 1 ? axes.size[i] : 1;
    for (uint32_t r = 0; r < inside; r++)
        add_rank(team, &team->group, &team->ranks, rank_at(&axes, 0, r));
    for (uint32_t g = 1; g < axes.ranks / inside; g++)
        for (uint32_t r = 0; r < inside; r++)
            add_rank(team, &team->sibling, &team->siblings, rank_at(&axes, g, r));
    return EXIT_YES;
}

/* ---- */

static int check_together(const struct cli *cli)
{
    int grid = cli_given(cli, OPT_GRID);
    if (grid != cli_given(cli, OPT_AXIS))
        return say_usage("--grid says how the ranks are cut, --axis along which; give both");
    if (grid && (cli_given(cli, OPT_GROUP) || cli_given(cli, OPT_SIBLINGS)))
        return say_usage("--grid names its groups itself");
    if (cli_given(cli, OPT_SIBLINGS) && !cli_given(cli, OPT_GROUP))
        return say_usage("--siblings are those of a --group");
    if ((grid || cli_given(cli, OPT_GROUP)) && cli_given(cli, OPT_RANKS))
        return say_usage("--ranks and a group do not go together");
    return EXIT_YES;
}

int team_read(const struct cli *cli, struct team *team)
{
    const char *group = cli->value[OPT_GROUP];
    CLI_TRY(check_together(cli));
    team->ranks = team->siblings = 0; /* a verb may read its request more than once */
    if (cli_given(cli, OPT_GRID))
        return read_grid(cli, team);
    if (group)
        CLI_TRY(add_list(team, &team->group, &team->ranks, "group", group, strlen(group)));
    return cli_given(cli, OPT_SIBLINGS) ? read_siblings(cli, team, team->ranks) : EXIT_YES;
}

uint32_t team_siblings(const struct team *team)
{
    return team->ranks ? (uint32_t)(team->siblings / team->ranks) : 0;
}

void team_request(const struct team *team, peal_request *request)
{
    if (!team->ranks)
        return;
    request->ranks = request->group_size = (uint32_t)team->ranks;
    request->group = team->group;
    request->nsiblings = team_siblings(team);
    request->siblings = request->nsiblings ? team->sibling : NULL;
}

struct team_kept {
    struct team_kept *next;
    uint32_t data[];
};

uint32_t *team_keep(struct team *team, size_t count)
{
    struct team_kept *kept = need(malloc(sizeof *kept + count * sizeof *kept->data));
    kept->next = team->kept;
    team->kept = kept;
    return kept->data;
}

void team_free(struct team *team)
{
    while (team->kept) {
        struct team_kept *next = team->kept->next;
        free(team->kept);
        team->kept = next;
    }
    while (team->customs) {
        struct custom *next = team->customs->next;
        free(team->customs);
        team->customs = next;
    }
    free(team->group);
    free(team->sibling);
}
