/* SPDX-License-Identifier: Apache-2.0 */
/* What a table is of: headings, and what programs say of themselves before them. */
#include "fit.h"

#include <string.h>

static int begins(const char *word, const char *with)
{
    return strncmp(word, with, strlen(with)) == 0;
}

/* The first word from *at on that begins so. */
static int has(char *const *word, uint32_t words, const char *what, uint32_t *at)
{
    for (uint32_t i = *at; i < words; i++)
        if (begins(word[i], what)) {
            *at = i;
            return 1;
        }
    return 0;
}

/* ---- headings */

static void name_table(struct fit_reader *r)
{
    peal_series_info *info = &r->text.info;
    peal_copy_text(info->name, sizeof info->name, r->text.path);
    size_t used = strlen(info->name);
    if (r->tables++ == 0 || used + 12 >= sizeof info->name)
        return;
    char digits[12], *at = digits + sizeof digits - 1;
    *at = '\0';
    for (uint32_t line = r->text.line; line; line /= 10)
        *--at = (char)('0' + line % 10);
    info->name[used] = ':';
    peal_copy_text(info->name + used + 1, sizeof info->name - used - 1, at);
}

static void start_table(struct fit_reader *r)
{
    name_table(r);
    if (r->ranks) {
        r->text.info.ranks = r->ranks;
        r->text.info.nodes = r->nodes;
    }
    r->told = 1;
}

static peal_status no_times(const struct fit_reader *r, const char *what)
{
    return peal_fail_at(r->text.diag, PEAL_ERR_INPUT, r->text.path, r->text.line, 0,
                        "a table of %s", what);
}

/* "size count type redop root time algbw busbw #wrong time algbw busbw #wrong" */
static peal_status nccl_heading(struct fit_reader *r, char *const *word, uint32_t words)
{
    uint32_t at = 1;
    if (has(word, words, "cputime", &at))
        return no_times(r, "the processor time that issues calls (--report_cputime), not of calls");
    if (!has(word, words, "time", &at))
        return PEAL_OK;
    r->words = words + (peal_streq(word[words - 1], "timestamp") ? 1 : 0); /* a date and a time */
    r->rate = 0;
    r->tail = peal_streq(word[words - 1], "algorithm");
    r->time = at++;
    r->again = has(word, words, "time", &at) && peal_streq(word[at], "time") ? at : 0;
    start_table(r);
    return PEAL_OK;
}

/* "Size  Avg Latency(us)  Min Latency(us) ...", "Size  Bandwidth (MB/s)", and of calls that do not
 * block "Size  Overall(us)  Compute(us)  Pure Comm.(us)  Overlap(%)". */
static peal_status osu_heading(struct fit_reader *r, char *const *word, uint32_t words)
{
    uint32_t at = 1;
    if (begins(word[1], "MB/s"))
        return no_times(r, "what several pairs move together (osu_mbw_mr), not of one transfer");
    r->time = begins(word[1], "Overall") && has(word, words, "Pure", &at) ? at : 1;
    at = 1;
    r->words = r->time + 1;
    r->again = 0;
    r->tail = 1; /* --full has more columns */
    r->rate = has(word, words, "Bandwidth", &at) ? r->both : 0;
    start_table(r);
    return PEAL_OK;
}

/* ---- ranks and hosts */

static uint64_t hash(const char *word)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (; *word; word++)
        h = (h ^ (unsigned char)*word) * 1099511628211u;
    return h;
}

static void take_host(struct fit_reader *r, const char *name)
{
    uint64_t h = hash(name);
    for (uint32_t n = r->nodes; n-- > 0;)
        if (r->host[n] == h)
            return;
    if (r->nodes < FIT_HOSTS)
        r->host[r->nodes++] = h;
}

/* "Rank 0 Group 0 Pid 12 on host device 0 ...": those before a table are the ranks of it. */
static void take_rank(struct fit_reader *r, char *const *word, uint32_t words)
{
    uint64_t rank;
    uint32_t at = 2;
    if (!peal_fit_whole(word[1], &rank) || rank >= UINT32_MAX)
        return;
    if (r->told)
        r->ranks = r->nodes = 0;
    r->told = 0;
    if (rank >= r->ranks)
        r->ranks = (uint32_t)rank + 1;
    if (has(word, words, "on", &at) && at + 1 < words)
        take_host(r, word[at + 1]);
}

/* ---- collectives */

/* all_reduce_perf, Allreduce, alltoall: the same but for the letters in between. */
static int names(const char *word, const char *collective)
{
    for (; *word && *collective; word++) {
        char c = *word >= 'A' && *word <= 'Z' ? (char)(*word + 32) : *word;
        if (c == '_' || c == '-')
            continue;
        while (*collective == '-' || *collective == '_')
            collective++;
        if (c != *collective++)
            return 0;
    }
    return !*collective && (!*word || begins(word, "_perf") || *word == ',');
}

static void take_collective(struct fit_reader *r, const char *word)
{
    for (int c = 0; c < PEAL_COLLECTIVE_COUNT; c++)
        if (names(word, peal_collective_name((peal_collective)c))) {
            r->text.info.collective = (peal_collective)c;
            r->text.info.has_collective = 1;
        }
}

void peal_fit_command(struct fit_reader *r, char *const *word, uint32_t words)
{
    for (uint32_t i = 0; i < words; i++) {
        const char *slash = strrchr(word[i], '/'), *name = slash ? slash + 1 : word[i];
        const char *perf = strstr(name, "_perf");
        if (perf && perf[5] == '\0')
            take_collective(r, name);
    }
}

/* Its reduce_scatter has the size of the whole buffer. */
static int counts_blocks(peal_collective collective)
{
    return collective == PEAL_ALLGATHER || collective == PEAL_ALLTOALL ||
           collective == PEAL_SCATTER || collective == PEAL_GATHER;
}

/* "OSU MPI-CUDA Reduce Latency Test v7.3", "OSU MPI Non-blocking Allreduce ...", "OSU MPI
 * Bi-Directional Bandwidth Test". Its sizes are those of blocks, where there are such. */
static void take_osu(struct fit_reader *r, char *const *word, uint32_t words)
{
    uint32_t name = begins(word[2], "Non-") && words > 3 ? 3 : 2;
    memset(&r->text.info, 0, sizeof r->text.info);
    r->ranks = r->nodes = 0;
    take_collective(r, word[name]);
    r->text.info.of_blocks = r->text.info.has_collective && counts_blocks(r->text.info.collective);
    r->both = begins(word[2], "Bi-") ? 0.5 : 1;
}

/* "... by 8 processes (pinned), private buffers, ..."; threads reach each other's in any case. */
static void take_buffers(peal_series_info *info, char *const *word, uint32_t words, uint32_t by)
{
    uint32_t at = by;
    int threads = by + 2 < words && begins(word[by + 2], "threads");
    info->has_buffers = has(word, words, "buffers", &at) || threads;
    info->private_buffers = info->has_buffers && !threads && peal_streq(word[at - 1], "private");
}

/* "peal 0.1.0, allreduce by 8 threads, ..." */
static void take_peal(struct fit_reader *r, char *const *word, uint32_t words)
{
    uint64_t ranks = 0;
    uint32_t by = 3;
    memset(&r->text.info, 0, sizeof r->text.info);
    take_collective(r, word[2]);
    if (has(word, words, "by", &by) && by + 1 < words && peal_fit_whole(word[by + 1], &ranks) &&
        ranks <= UINT32_MAX)
        r->text.info.ranks = (uint32_t)ranks;
    take_buffers(&r->text.info, word, words, by);
    r->text.info.nodes = 1;
    r->text.info.link = PEAL_LINK_SHM;
    r->text.info.has_link = 1;
}

peal_status peal_fit_comment(struct fit_reader *r, char *const *word, uint32_t words)
{
    uint32_t at = 0;
    if (words < 2)
        return PEAL_OK;
    if (peal_streq(word[0], "size"))
        return nccl_heading(r, word, words);
    if (peal_streq(word[0], "Size"))
        return osu_heading(r, word, words);
    if (peal_streq(word[0], "Rank") && words > 2)
        take_rank(r, word, words);
    else if (peal_streq(word[0], "OSU") && words > 2)
        take_osu(r, word, words);
    else if (peal_streq(word[0], "peal") && words > 3)
        take_peal(r, word, words);
    else if (has(word, words, "starting:", &at) && at + 1 < words)
        take_collective(r, word[at + 1]);
    else
        peal_fit_command(r, word, words);
    return PEAL_OK;
}
