/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: plain */
/* Halving, Swing and the star: proven for every number of ranks up to 64, whole and by tiles; what
 * they move and with whom. How many ranks eager serves. That they compute is run_collectives'
 * business. */
#include "compiler.h"
#include "machines.h"
#include "support.h"
#include "test_fixture.h"
#include "test_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define RANKS 64u

/* Compiled, and so proven, for the sizes of one row; NULL: not served. */
static peal_table *compiled(const peal_fabric *fabric, const char *algorithm,
                            peal_collective collective, uint32_t ranks, uint64_t tile,
                            uint64_t bytes)
{
    peal_request request = PEAL_REQUEST_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table = NULL;
    request.algorithm = algorithm;
    request.collective = collective;
    request.ranks = ranks;
    request.tile_bytes = tile;
    request.min_bytes = request.max_bytes = bytes;
    peal_status status = peal_table_plan(ctx, fabric, &request, &diag, &table);
    if (status == PEAL_ERR_UNSUPPORTED)
        return NULL;
    ck_assert_msg(status == PEAL_OK, "%s", diag.text);
    status = peal_table_compile(table, fabric, &diag);
    ck_assert_msg(status == PEAL_OK, "%s by %u, %s, tile %llu: %s", algorithm, ranks,
                  peal_collective_name(collective), (unsigned long long)tile, diag.text);
    return table;
}

static peal_fabric *host_of(uint32_t ranks)
{
    peal_fabric *fabric = NULL;
    ck_assert_int_eq(peal_fabric_host(ctx, ranks, NULL, &fabric), PEAL_OK);
    return fabric;
}

/* Messages to other ranks and chunks in them. */
struct sent {
    uint32_t messages;
    uint32_t chunks;
    uint32_t peers[RANKS]; /* of the messages, in order */
};

static struct sent count_sent(const struct peal_plan *plan, uint32_t rank)
{
    struct sent sent = {0};
    const struct plan_rank *program = &plan->ranks[rank];
    for (uint32_t i = 0; i < program->nsteps; i++) {
        const struct plan_step *step = &program->steps[i];
        if (step->op != PLAN_PUT)
            continue;
        ck_assert_uint_lt(sent.messages, RANKS);
        sent.peers[sent.messages++] = program->operands[step->operands + step->nsrc].rank;
        sent.chunks += step->more + 1;
    }
    return sent;
}

static const peal_collective halved[] = {PEAL_ALLREDUCE, PEAL_REDUCE_SCATTER, PEAL_ALLGATHER};

/* (n - 1) / n of the message each way from each rank, whatever n is. */
START_TEST(halving_is_proven_and_moves_no_more_than_it_must)
{
    peal_fabric *fabric = host_of(RANKS);
    for (uint32_t n = 2; n <= RANKS; n++)
        for (uint32_t c = 0; c < 3; c++) {
            peal_table *table = compiled(fabric, "halving", halved[c], n, 0, 1u << 20);
            const struct peal_plan *plan = table->rows[0].plan;
            uint32_t ways = halved[c] == PEAL_ALLREDUCE ? 2 : 1;
            ck_assert_uint_eq(plan->nchunks, n);
            for (uint32_t r = 0; r < n; r++) {
                struct sent sent = count_sent(plan, r);
                ck_assert_uint_eq(sent.chunks, ways * (n - 1));
                /* One message in each round of a power of two, two where ranges wrap around. */
                uint32_t rounds = 0;
                while (1u << rounds < n)
                    rounds++;
                ck_assert_uint_ge(sent.messages, ways * rounds);
                ck_assert_uint_le(sent.messages, ways * rounds * (n & (n - 1) ? 2 : 1));
            }
            peal_table_destroy(table);
        }
    peal_fabric_destroy(fabric);
}
END_TEST

START_TEST(tiles_are_proven)
{
    static const char *const names[] = {"halving", "swing", "star"};
    peal_fabric *fabric = host_of(RANKS);
    for (uint32_t n = 2; n <= 18; n++)
        for (uint32_t a = 0; a < 3; a++)
            for (uint32_t c = 0; c < 3; c++) {
                peal_table *table = compiled(fabric, names[a], halved[c], n, 4096, 1u << 20);
                int served = a == 0 || (c == 0 && (a == 2 || n % 2 == 0));
                ck_assert_int_eq(table != NULL, served);
                /* An allgather has no slots; of two, Swing exchanges whole messages. */
                if (table && c < 2 && (a != 1 || n > 2))
                    ck_assert_uint_eq(table->rows[0].plan->tile_bytes, 4096);
                peal_table_destroy(table);
            }
    peal_fabric_destroy(fabric);
}
END_TEST

/* Broadcast hands out each block once, down a tree, and gathers all; reduce halves and gathers. */
START_TEST(halving_with_a_root_is_proven)
{
    peal_fabric *fabric = host_of(RANKS);
    for (uint32_t n = 2; n <= 35; n++)
        for (uint32_t root = 0; root < n; root += n < 12 ? 1 : n / 3) {
            peal_request request = PEAL_REQUEST_INIT;
            request.algorithm = "halving";
            request.ranks = n;
            request.root = root;
            request.min_bytes = request.max_bytes = 1u << 20;
            for (uint32_t c = 0; c < 3; c++) {
                peal_table *table = NULL;
                peal_diag diag = PEAL_DIAG_INIT;
                uint32_t chunks = 0;
                request.collective = c == 0 ? PEAL_BROADCAST : PEAL_REDUCE;
                request.tile_bytes = c == 2 ? 4096 : 0;
                ck_assert_int_eq(peal_table_plan(ctx, fabric, &request, &diag, &table), PEAL_OK);
                ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%u from %u: %s",
                              n, root, diag.text);
                for (uint32_t r = 0; r < n; r++)
                    chunks += count_sent(table->rows[0].plan, r).chunks;
                if (c > 0) /* n (n - 1) to add up and one from each rank but the root */
                    ck_assert_uint_eq(chunks, n * (n - 1) + n - 1);
                else /* at most n / 2 log n down the tree, and n (n - 1) to all */
                    ck_assert_uint_le(chunks, n * (n - 1) + n * 6 / 2);
                peal_table_destroy(table);
            }
        }
    peal_fabric_destroy(fabric);
}
END_TEST

static uint32_t ring_distance(uint32_t n, uint32_t a, uint32_t b)
{
    uint32_t far = a > b ? a - b : b - a;
    return far < n - far ? far : n - far;
}

/* Partners at distances 1, 1, 3, 5, 11, 21; back the same way. */
START_TEST(swing_meets_the_partners_of_the_paper)
{
    static const uint32_t distance[] = {1, 1, 3, 5, 11, 21};
    peal_fabric *fabric = host_of(RANKS);
    for (uint32_t rounds = 2; rounds <= 6; rounds++) {
        uint32_t n = 1u << rounds;
        peal_table *table = compiled(fabric, "swing", PEAL_ALLREDUCE, n, 4096, 1u << 20);
        for (uint32_t r = 0; r < n; r++) {
            struct sent sent = count_sent(table->rows[0].plan, r);
            ck_assert_uint_eq(sent.messages, 2 * rounds);
            ck_assert_uint_eq(sent.chunks, 2 * (n - 1));
            for (uint32_t k = 0; k < rounds; k++) {
                ck_assert_uint_eq(ring_distance(n, r, sent.peers[k]),
                                  ring_distance(n, 0, distance[k] % n));
                ck_assert_uint_eq(sent.peers[k], sent.peers[2 * rounds - 1 - k]);
            }
        }
        peal_table_destroy(table);
        table = compiled(fabric, "swing", PEAL_ALLREDUCE, n, 0, 8);
        ck_assert_uint_eq(count_sent(table->rows[0].plan, n - 1).messages, rounds);
        peal_table_destroy(table);
    }
    peal_fabric_destroy(fabric);
}
END_TEST

/* No byte more than it must be, to one partner a round, where the sets of the paper overlap, too.
 */
START_TEST(swing_serves_every_even_number)
{
    peal_fabric *fabric = host_of(RANKS);
    for (uint32_t n = 4; n <= RANKS; n += 2)
        for (uint32_t tile = 0; tile <= 4096; tile += 4096) {
            peal_table *table = compiled(fabric, "swing", PEAL_ALLREDUCE, n, tile, 1u << 20);
            const struct peal_plan *plan = table->rows[0].plan;
            uint32_t rounds = 0;
            while (1u << rounds < n)
                rounds++;
            for (uint32_t r = 0; r < n; r++) {
                const struct plan_rank *program = &plan->ranks[r];
                uint32_t chunks = 0, peers = 0, last = r;
                for (uint32_t i = 0; i < program->nsteps; i++) {
                    const struct plan_step *step = &program->steps[i];
                    if (step->op != PLAN_PUT)
                        continue;
                    uint32_t to = program->operands[step->operands + step->nsrc].rank;
                    peers += to != last;
                    last = to;
                    chunks += step->more + 1;
                }
                ck_assert_uint_eq(chunks, 2 * (plan->nchunks - plan->nchunks / n));
                ck_assert_uint_eq(peers, 2 * rounds - 1);
            }
            peal_table_destroy(table);
        }
    peal_fabric_destroy(fabric);
}
END_TEST

/* Accelerators in rows and columns with links to their neighbours, around the ends. */
static peal_fabric *torus_of(uint32_t rows, uint32_t columns)
{
    char *text = NULL;
    size_t bytes = 0;
    peal_fabric *fabric = NULL;
    peal_diag diag = PEAL_DIAG_INIT;
    FILE *to = open_memstream(&text, &bytes);
    fprintf(to, "<peal version=\"1\" name=\"torus\"><host name=\"h\"><system version=\"1\">"
                "<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" "
                "modelid=\"79\">");
    for (uint32_t i = 0; i < rows * columns; i++) {
        uint32_t row = i / columns, column = i % columns;
        const uint32_t next[4] = {(row + 1) % rows * columns + column,
                                  (row + rows - 1) % rows * columns + column,
                                  row * columns + (column + 1) % columns,
                                  row * columns + (column + columns - 1) % columns};
        fprintf(to,
                "<pci busid=\"0000:%02x:00.0\" class=\"0x030200\" link_speed=\"8.0 GT/s PCIe\" "
                "link_width=\"16\"><gpu dev=\"%u\" sm=\"70\" rank=\"%u\" gdr=\"0\">",
                16 + i, i, i);
        for (uint32_t k = 0; k < 4; k++)
            fprintf(to, "<nvlink target=\"0000:%02x:00.0\" count=\"1\" tclass=\"0x030200\"/>",
                    16 + next[k]);
        fprintf(to, "</gpu></pci>");
    }
    fprintf(to, "</cpu></system></host></peal>");
    (void)fclose(to);
    ck_assert_msg(peal_fabric_parse(ctx, text, bytes, "torus", NULL, &diag, &fabric) == PEAL_OK,
                  "%s", diag.text);
    free(text);
    return fabric;
}

static int are_next(uint32_t a, uint32_t b)
{
    return ring_distance(4, a / 4, b / 4) + ring_distance(4, a % 4, b % 4) == 1;
}

/* Nothing leaves the links of a torus of four by four, which a ring of sixteen has to at 3 and 5;
 * and so small and medium messages take no ring and no tree. */
START_TEST(swing_goes_along_a_torus)
{
    peal_fabric *fabric = torus_of(4, 4);
    for (uint64_t bytes = 1024; bytes <= 1u << 20; bytes *= 1024) {
        peal_table *table = compiled(fabric, "swing", PEAL_ALLREDUCE, 16, 0, bytes);
        const struct peal_plan *plan = table->rows[0].plan;
        ck_assert_msg(strstr(plan->detail, "torus 4 x 4"), "%s", plan->detail);
        for (uint32_t r = 0; r < 16; r++) {
            const struct plan_rank *program = &plan->ranks[r];
            for (uint32_t i = 0; i < program->nsteps; i++)
                if (program->steps[i].op == PLAN_PUT)
                    ck_assert(are_next(r, program->operands[program->steps[i].operands + 1].rank));
        }
        double swing_us = table->rows[0].info.time_us;
        peal_table_destroy(table);
        table = compiled(fabric, "ring", PEAL_ALLREDUCE, 16, 0, bytes);
        ck_assert_double_lt(swing_us, table->rows[0].info.time_us * (bytes == 1024 ? 0.25 : 0.7));
        peal_table_destroy(table);
        table = compiled(fabric, NULL, PEAL_ALLREDUCE, 16, 0, bytes);
        ck_assert_str_eq(table->rows[0].plan->algorithm, "swing");
        peal_table_destroy(table);
    }
    peal_fabric_destroy(fabric);
}
END_TEST

START_TEST(a_star_has_one_centre)
{
    peal_fabric *fabric = host_of(300);
    static const uint32_t sizes[] = {2, 3, 17, 64, 129, 300};
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint32_t n = sizes[i];
        peal_table *table = compiled(fabric, "star", PEAL_ALLREDUCE, n, 0, 1u << 10);
        for (uint32_t r = 1; r < n; r++) {
            struct sent sent = count_sent(table->rows[0].plan, r);
            ck_assert_uint_eq(sent.messages, 1);
            ck_assert_uint_eq(sent.peers[0], 0);
        }
        peal_table_destroy(table);
    }
    peal_fabric_destroy(fabric);
}
END_TEST

/* Two hosts of eight GPUs: with places across the hosts the large halves stay inside. */
START_TEST(large_halves_stay_within_hosts)
{
    const char *path = test_source_path("examples/topologies/cluster-h100-2.xml");
    peal_diag diag = PEAL_DIAG_INIT;
    peal_fabric *fabric = NULL;
    ck_assert_msg(peal_fabric_load(ctx, path, &diag, &fabric) == PEAL_OK, "%s", diag.text);
    for (uint32_t c = 0; c < 3; c++) {
        peal_table *table = compiled(fabric, "halving", halved[c], 16, 0, 64u << 20);
        const struct peal_plan *plan = table->rows[0].plan;
        uint32_t per_rank = plan->nchunks / 16, ways = c == 0 ? 2 : 1;
        ck_assert_msg(strstr(plan->detail, "within hosts"), "%s", plan->detail);
        for (uint32_t r = 0; r < 16; r++) {
            uint32_t away = 0;
            const struct plan_rank *program = &plan->ranks[r];
            for (uint32_t i = 0; i < program->nsteps; i++) {
                const struct plan_step *step = &program->steps[i];
                if (step->op == PLAN_PUT &&
                    program->operands[step->operands + step->nsrc].rank / 8 != r / 8)
                    away += step->more + 1;
            }
            ck_assert_uint_eq(away, ways * per_rank);
        }
        peal_table_destroy(table);
    }
    peal_fabric_destroy(fabric);
}
END_TEST

/* Reductions, too: it tells ranks apart by the bits of a word. */
START_TEST(eager_is_among_few)
{
    static const peal_collective folds[] = {PEAL_ALLREDUCE, PEAL_REDUCE_SCATTER, PEAL_REDUCE};
    peal_fabric *fabric = test_cluster(ctx, "dgx-h100.xml", 9, "rails");
    for (size_t i = 0; i < sizeof folds / sizeof folds[0]; i++) {
        peal_table *most = compiled(fabric, "eager", folds[i], PEERS_MAX, 0, 4096);
        ck_assert_ptr_nonnull(most);
        ck_assert_ptr_null(compiled(fabric, "eager", folds[i], PEERS_MAX + 1, 0, 4096));
        peal_table_destroy(most);
    }
    peal_fabric_destroy(fabric);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("butterfly");
    TCase *tcase = tcase_create("butterfly");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 240);
    tcase_add_test(tcase, halving_is_proven_and_moves_no_more_than_it_must);
    tcase_add_test(tcase, tiles_are_proven);
    tcase_add_test(tcase, halving_with_a_root_is_proven);
    tcase_add_test(tcase, swing_meets_the_partners_of_the_paper);
    tcase_add_test(tcase, swing_serves_every_even_number);
    tcase_add_test(tcase, swing_goes_along_a_torus);
    tcase_add_test(tcase, a_star_has_one_centre);
    tcase_add_test(tcase, eager_is_among_few);
    tcase_add_test(tcase, large_halves_stay_within_hosts);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_FORK_GETENV);
}
