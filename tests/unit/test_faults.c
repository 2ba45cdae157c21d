/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: slow */
/*
 * Plants faults in schedules, as a person would with dump, an editor and asm, and expects the
 * verifier to reject each one. A fault that leaves the schedule right (two steps exchanged that
 * have nothing to do with each other, an await more than is needed) is listed and must be of a
 * kind that can.
 */
#include "plan.h"
#include "support.h"

#include <check.h>
#include <string.h>

#define LINES_MAX 20000
#define LINE_MAX_BYTES 512

struct text {
    char *data;
    size_t used, room;
};

static peal_status append(void *user, const char *data, size_t bytes)
{
    struct text *text = user;
    if (text->used + bytes + 1 > text->room) {
        text->room = (text->used + bytes + 1) * 2;
        text->data = realloc(text->data, text->room);
    }
    memcpy(text->data + text->used, data, bytes);
    text->used += bytes;
    text->data[text->used] = 0;
    return PEAL_OK;
}

struct document {
    char *line[LINES_MAX];
    uint32_t count;
    uint32_t step[LINES_MAX]; /* lines that hold a step */
    uint32_t steps;
};

static int is_step(const char *line)
{
    static const char *const words[] = {"copy ",       "put ",    "get ",  "reduce ", "put_reduce ",
                                        "get_reduce ", "signal ", "wait ", "await "};
    line += strspn(line, " ");
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!strncmp(line, words[i], strlen(words[i])))
            return 1;
    return 0;
}

static void split(struct document *d, char *text)
{
    d->count = d->steps = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        ck_assert_uint_lt(d->count, LINES_MAX);
        if (is_step(line))
            d->step[d->steps++] = d->count;
        d->line[d->count++] = line;
    }
}

static uint64_t rng;
static uint32_t random_below(uint32_t n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)(rng >> 33) % n;
}

/* ---- faults: each rewrites line `at` into out (may be several lines, or none); 0: does not
 * apply to this line */

static int word_is(const char *line, const char *word)
{
    line += strspn(line, " ");
    return !strncmp(line, word, strlen(word));
}

static int drop_wait(const char *line, char *out)
{
    *out = 0;
    return word_is(line, "wait ");
}

static int drop_signal(const char *line, char *out)
{
    *out = 0;
    return word_is(line, "signal ");
}

static int drop_await(const char *line, char *out)
{
    *out = 0;
    return word_is(line, "await ");
}

static int drop_data(const char *line, char *out)
{
    *out = 0;
    return strchr(line, ':') != NULL;
}

static int double_data(const char *line, char *out)
{
    sprintf(out, "%s\n%s", line, line);
    return strchr(line, ':') != NULL;
}

/* Adds one to the number that follows `mark`, at its random occurrence. */
static int bump(const char *line, char *out, const char *mark)
{
    uint32_t found = 0, pick;
    for (const char *p = line; (p = strstr(p, mark)); p++)
        found += p[strlen(mark)] >= '0' && p[strlen(mark)] <= '9';
    if (!found)
        return 0;
    pick = random_below(found);
    for (const char *p = line; (p = strstr(p, mark)); p++) {
        char *end;
        if (p[strlen(mark)] < '0' || p[strlen(mark)] > '9' || pick--)
            continue;
        unsigned long value = strtoul(p + strlen(mark), &end, 10);
        sprintf(out, "%.*s%lu%s", (int)(p + strlen(mark) - line), line,
                value ? (random_below(2) ? value + 1 : value - 1) : value + 1, end);
        return 1;
    }
    return 0;
}

/* Another chunk, consistently in the whole step. */
static int other_chunk(const char *line, char *out)
{
    const char *c = strstr(line, " c");
    if (!c || !strchr(line, ':'))
        return 0;
    unsigned long chunk = strtoul(c + 2, NULL, 10), other = chunk ? chunk - 1 : 1;
    char from[3][32], to[3][32];
    char work[LINE_MAX_BYTES * 4];
    strcpy(work, line);
    for (int f = 0; f < 3; f++) {
        static const char *const before[] = {" c", "in[", "out["}, *const behind[] = {":", "]",
                                                                                      "]"};
        snprintf(from[f], sizeof from[f], "%s%lu%s", before[f], chunk, behind[f]);
        snprintf(to[f], sizeof to[f], "%s%lu%s", before[f], other, behind[f]);
        *out = 0;
        char *rest = work, *hit;
        while ((hit = strstr(rest, from[f]))) {
            strncat(out, rest, (size_t)(hit - rest));
            strcat(out, to[f]);
            rest = hit + strlen(from[f]);
        }
        strcat(out, rest);
        strcpy(work, out);
    }
    return 1;
}

static int one_operand(const char *line, char *out)
{
    return strchr(line, ':') &&
           (random_below(2) ? bump(line, out, "in[") : bump(line, out, "out["));
}

static int shifted_slot(const char *line, char *out)
{
    for (const char *p = line; *p; p++) {
        char mark[16];
        if (p[0] != 's' && p[0] != 'p')
            continue;
        size_t digits = strspn(p + 1, "0123456789");
        if (!digits || p[1 + digits] != '[')
            continue;
        snprintf(mark, sizeof mark, "%.*s[", (int)digits + 1, p);
        return bump(line, out, mark);
    }
    return 0;
}

static int wrong_peer(const char *line, char *out)
{
    return (word_is(line, "signal ") || word_is(line, "wait ")) && bump(line, out, " r");
}

static int wrong_semaphore(const char *line, char *out)
{
    return (word_is(line, "signal ") || word_is(line, "wait ")) && bump(line, out, ".");
}

/* Replaces one text by another. */
static int exchange(const char *line, char *out, const char *from, const char *to)
{
    const char *p = strstr(line, from);
    if (!p)
        return 0;
    sprintf(out, "%.*s%s%s", (int)(p - line), line, to, p + strlen(from));
    return 1;
}

static int ce_reduces(const char *line, char *out)
{
    return word_is(line, "reduce ") && exchange(line, out, " sm", " ce e7");
}

static int no_order(const char *line, char *out)
{
    const char *p = strstr(line, " after ");
    if (!p)
        return 0;
    sprintf(out, "%.*s", (int)(p - line), line);
    return 1;
}

static int not_final(const char *line, char *out)
{
    return exchange(line, out, " final", "");
}

static int too_early_final(const char *line, char *out)
{
    if (!word_is(line, "reduce ") || strstr(line, "final"))
        return 0;
    sprintf(out, "%s final", line);
    return 1;
}

static int wrong_buffer(const char *line, char *out)
{
    if (!strchr(line, ':'))
        return 0;
    return random_below(2) ? exchange(line, out, "in[", "out[")
                           : exchange(line, out, "out[", "in[");
}

static int no_lag(const char *line, char *out)
{
    const char *p = strstr(line, " lag ");
    if (!p)
        return 0;
    sprintf(out, "%.*s", (int)(p - line), line);
    return 1;
}

static int more_lag(const char *line, char *out)
{
    return bump(line, out, " lag ");
}

static int free_only(const char *line, char *out)
{
    return exchange(line, out, " delivered", " free");
}

/* Exchanges the step with the one behind it; handled by the caller, which knows the next line. */
static int exchange_next(const char *line, char *out)
{
    strcpy(out, line);
    return 1;
}

struct fault {
    const char *name;
    int (*plant)(const char *line, char *out);
    int may_be_harmless;
};

static const struct fault faults[] = {
    {"a dropped wait", drop_wait, 0},
    {"a dropped signal", drop_signal, 0},
    {"a dropped await", drop_await, 1},
    {"a dropped move", drop_data, 0},
    {"a doubled move or reduce", double_data, 1},
    {"another chunk", other_chunk, 0},
    {"one operand's chunk changed", one_operand, 0},
    {"a shifted slot", shifted_slot, 1},
    {"a wrong peer", wrong_peer, 0},
    {"a wrong semaphore", wrong_semaphore, 0},
    {"a copy engine asked to reduce", ce_reduces, 0},
    {"a signal not behind its transfer", no_order, 0},
    {"final left out", not_final, 0},
    {"final too early", too_early_final, 0},
    {"the wrong buffer", wrong_buffer, 1},
    {"a wait without its lag", no_lag, 1},
    {"another lag", more_lag, 1},
    {"await of the source only", free_only, 1},
    {"two steps exchanged", exchange_next, 1},
};
#define FAULTS (sizeof faults / sizeof faults[0])

struct tally {
    uint32_t planted;
    uint32_t by_form;
    uint32_t by_proof;
    uint32_t harmless;
};

static void rebuild(const struct document *d, uint32_t at, const char *instead, int swap,
                    struct text *out)
{
    out->used = 0;
    for (uint32_t i = 0; i < d->count; i++) {
        if (i == at && swap && i + 1 < d->count) {
            append(out, d->line[i + 1], strlen(d->line[i + 1]));
            append(out, "\n", 1);
            append(out, d->line[i], strlen(d->line[i]));
            i++;
        } else if (i == at) {
            append(out, instead, strlen(instead));
        } else {
            append(out, d->line[i], strlen(d->line[i]));
        }
        append(out, "\n", 1);
    }
}

static void first_finding(void *user, const peal_finding *finding)
{
    char *text = user;
    if (!*text)
        snprintf(text, 480, "%s: %s", finding->kind, finding->text);
}

/* Assembles and verifies the edited text. */
static void judge(peal_ctx *ctx, const struct text *text, const struct fault *fault,
                  const char *line, struct tally *tally)
{
    peal_table *table;
    peal_diag diag = PEAL_DIAG_INIT;
    char finding[480] = "";
    tally->planted++;
    if (peal_table_assemble(ctx, text->data, text->used, "edited", &diag, &table) != PEAL_OK) {
        tally->by_form++;
        return;
    }
    peal_status status = peal_table_verify(table, first_finding, finding, NULL, &diag);
    if (status == PEAL_OK) {
        tally->harmless++;
        printf("  harmless: %s, at `%s`\n", fault->name, line + strspn(line, " "));
        ck_assert_msg(fault->may_be_harmless, "%s at `%s` was not noticed", fault->name, line);
    } else {
        ck_assert_int_eq(status, PEAL_ERR_UNPROVEN);
        tally->by_proof++;
    }
    peal_table_destroy(table);
}

static void plant_in(peal_ctx *ctx, const char *name, const char *source, uint32_t per_kind,
                     struct tally *tally)
{
    static struct document d;
    struct text out = {0};
    char *copy = malloc(strlen(source) + 1);
    strcpy(copy, source);
    split(&d, copy);
    struct tally mine = {0};
    for (size_t f = 0; f < FAULTS; f++)
        for (uint32_t done = 0, tries = 0; done < per_kind && tries < 400; tries++) {
            uint32_t at = d.step[random_below(d.steps)];
            char instead[LINE_MAX_BYTES * 4];
            int swap = faults[f].plant == exchange_next;
            if (swap && (at + 1 == d.count || !is_step(d.line[at + 1]) ||
                         !strcmp(d.line[at], d.line[at + 1])))
                continue;
            if (!faults[f].plant(d.line[at], instead) || !strcmp(instead, d.line[at]))
                continue;
            rebuild(&d, at, instead, swap, &out);
            judge(ctx, &out, &faults[f], d.line[at], &mine);
            done++;
        }
    printf("%s: %u faults planted, %u refused as text, %u refused by proof, %u harmless\n", name,
           mine.planted, mine.by_form, mine.by_proof, mine.harmless);
    tally->planted += mine.planted;
    tally->by_form += mine.by_form;
    tally->by_proof += mine.by_proof;
    tally->harmless += mine.harmless;
    free(copy);
    free(out.data);
}

static const char two_hosts[] =
    "<peal version=\"1\" name=\"two\">"
    "<host name=\"h\" count=\"2\"><system version=\"1\">"
    "<cpu numaid=\"0\" affinity=\"ffff\" arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"25\" "
    "modelid=\"1\">"
#define GPU(n)                                                                                     \
    "<pci busid=\"0000:0" #n ":00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" "           \
    "link_width=\"16\"><gpu dev=\"" #n "\" sm=\"90\" rank=\"" #n "\" gdr=\"1\">"                   \
    "<nvlink target=\"0000:c7:00.0\" count=\"18\" tclass=\"0x068000\"/></gpu></pci>"
    GPU(0) GPU(1) GPU(2)
        GPU(3) "<pci busid=\"0000:09:00.0\" class=\"0x020700\" link_speed=\"32.0 GT/s PCIe\" "
               "link_width=\"16\"><nic><net name=\"mlx5_0\" dev=\"0\" speed=\"400000\" port=\"1\" "
               "guid=\"0x1\" gdr=\"1\"/></nic></pci>"
               "</cpu></system></host><network kind=\"rails\"/></peal>";

static char *compiled(peal_ctx *ctx, const char *algorithm, uint32_t hosts, peal_engine engine,
                      uint64_t tile)
{
    peal_fabric *fabric;
    peal_table *table;
    peal_diag diag = PEAL_DIAG_INIT;
    struct text text = {0};
    peal_request request = PEAL_REQUEST_INIT;
    request.algorithm = algorithm;
    request.min_bytes = request.max_bytes = 1 << 16;
    request.channels = 1;
    request.tile_bytes = tile;
    request.ranks = hosts == 1 ? 4 : 8;
    request.move_engine[PEAL_LINK_NVLINK] = (uint8_t)(engine + 1);
    ck_assert_msg(peal_fabric_parse(ctx, two_hosts, strlen(two_hosts), "two", NULL, &diag,
                                    &fabric) == PEAL_OK,
                  "%s", diag.text);
    ck_assert_msg(peal_table_plan(ctx, fabric, &request, &diag, &table) == PEAL_OK, "%s",
                  diag.text);
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
    ck_assert_int_eq(peal_table_print(table, append, &text, &diag), PEAL_OK);
    peal_table_destroy(table);
    peal_fabric_destroy(fabric);
    return text.data;
}

START_TEST(planted_faults_are_rejected)
{
    static const struct {
        const char *name;
        const char *algorithm;
        uint32_t hosts;
        peal_engine engine;
        uint64_t tile;
    } plans[] = {
        {"ring", "ring", 2, PEAL_ENGINE_SM, 0},
        {"ring, tiled, copy engine", "ring", 2, PEAL_ENGINE_CE, 2048},
        {"tree", "tree", 2, PEAL_ENGINE_SM, 0},
        {"tree, tiled, tma", "tree", 2, PEAL_ENGINE_TMA, 4096},
        {"hierarchical", "hierarchical", 2, PEAL_ENGINE_SM, 0},
        {"hierarchical, tiled, copy engine", "hierarchical", 2, PEAL_ENGINE_CE, 4096},
        {"oneshot", "oneshot", 1, PEAL_ENGINE_SM, 0},
        {"twoshot", "twoshot", 1, PEAL_ENGINE_SM, 0},
    };
    struct test_heap heap;
    peal_ctx *ctx = test_ctx(&heap);
    struct tally all = {0};
    rng = 0x2545F4914F6CDD1Dull;
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        char *text =
            compiled(ctx, plans[i].algorithm, plans[i].hosts, plans[i].engine, plans[i].tile);
        plant_in(ctx, plans[i].name, text, 6, &all);
        free(text);
    }
    printf("in all: %u faults planted, %u refused as text, %u refused by proof, %u harmless\n",
           all.planted, all.by_form, all.by_proof, all.harmless);
    ck_assert_uint_ge(all.planted - all.harmless, 300);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("faults");
    TCase *tcase = tcase_create("faults");
    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, planted_faults_are_rejected);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
