/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: plain */
/*
 * Slices: one rank's program made alone is that rank's program of the whole plan, step for step,
 * with its own few links; in any order of ranks, of every algorithm, and on as many ranks as the
 * format allows.
 */
#include "compiler.h"
#include "machines.h"
#include "support.h"
#include "test_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct test_heap heap;
static peal_ctx *ctx;
static peal_fabric *fabric;

static void set_up(void)
{
    ctx = test_ctx(&heap);
    fabric = NULL;
}

static void tear_down(void)
{
    peal_fabric_destroy(fabric);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
    ck_assert_int_eq(heap.bytes, 0);
}

static void load_hosts(const char *topology, uint32_t count)
{
    fabric = test_cluster(ctx, topology, count, "rails");
}

/* NULL: the algorithm does not serve the request. */
static peal_table *planned(peal_collective collective, const char *algorithm, uint32_t ranks)
{
    peal_request request = PEAL_REQUEST_INIT;
    peal_table *table = NULL;
    peal_diag diag = PEAL_DIAG_INIT;
    request.collective = collective;
    request.algorithm = algorithm;
    request.ranks = ranks;
    request.max_bytes = 64u << 20;
    if (peal_plan_collective(collective)->rooted)
        request.root = ranks > 1;
    if (collective == PEAL_SENDRECV && ranks == 1)
        return NULL;
    peal_status status = peal_table_plan(ctx, fabric, &request, &diag, &table);
    ck_assert_msg(status == PEAL_OK || status == PEAL_ERR_UNSUPPORTED, "%s", diag.text);
    return table;
}

/* ---- a slice and the program of the whole plan */

static void same_operand(const struct plan_slice *slice, const struct peal_plan *plan,
                         struct plan_operand a, struct plan_operand b)
{
    ck_assert_int_eq(a.link == PLAN_NO_LINK, b.link == PLAN_NO_LINK);
    if (a.link != PLAN_NO_LINK) {
        ck_assert_uint_le(a.link, slice->nlinks);
        const struct plan_link *x = &slice->links[a.link - 1], *y = &plan->links[b.link - 1];
        ck_assert_uint_eq(x->from, y->from);
        ck_assert_uint_eq(x->to, y->to);
        ck_assert_uint_eq(x->link_class, y->link_class);
        ck_assert_uint_eq(x->direct, y->direct);
        ck_assert_str_eq(x->via, y->via);
    }
    a.link = b.link = PLAN_NO_LINK;
    ck_assert_mem_eq(&a, &b, sizeof a);
}

static void same_program(const struct plan_slice *slice, const struct peal_plan *plan,
                         uint32_t rank)
{
    const struct plan_rank *a = &slice->program, *b = &plan->ranks[rank];
    ck_assert_uint_eq(a->host, b->host);
    ck_assert_uint_eq(a->arch, b->arch);
    ck_assert_str_eq(a->busid, b->busid);
    ck_assert_str_eq(a->nic, b->nic);
    ck_assert_uint_eq(a->nlanes, b->nlanes);
    ck_assert_uint_eq(a->nsteps, b->nsteps);
    ck_assert_uint_eq(a->noperands, b->noperands);
    if (a->nlanes)
        ck_assert_mem_eq(a->lanes, b->lanes, a->nlanes * sizeof *a->lanes);
    if (a->nsteps)
        ck_assert_mem_eq(a->steps, b->steps, a->nsteps * sizeof *a->steps);
    for (uint32_t i = 0; i < a->noperands; i++)
        same_operand(slice, plan, a->operands[i], b->operands[i]);
}

/* Every link of the slice is named by an operand, or carries a signal of this rank. */
static void no_link_too_many(const struct plan_slice *slice, uint32_t rank)
{
    const struct plan_rank *program = &slice->program;
    for (uint32_t l = 0; l < slice->nlinks; l++) {
        int named = 0;
        for (uint32_t i = 0; i < program->noperands; i++)
            named |= program->operands[i].link == l + 1;
        for (uint32_t s = 0; s < program->nsteps; s++)
            named |= program->steps[s].op == PLAN_SIGNAL && slice->links[l].from == rank &&
                     slice->links[l].to == program->steps[s].peer;
        ck_assert(named);
        for (uint32_t k = 0; k < l; k++)
            ck_assert(slice->links[k].from != slice->links[l].from ||
                      slice->links[k].to != slice->links[l].to);
    }
}

/* Every row: the whole plan, then each rank alone, last rank first. */
static uint32_t check_table(peal_table *table)
{
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
    for (uint32_t row = 0; row < table->nrows; row++) {
        const struct peal_plan *plan = table->rows[row].plan;
        struct emission *emission;
        ck_assert_msg(peal_emission_of_row(table, row, fabric, &diag, &emission) == PEAL_OK, "%s",
                      diag.text);
        const struct plan_source *source = peal_emission_source(emission);
        ck_assert_uint_eq(source->head->nranks, plan->nranks);
        ck_assert_uint_eq(source->head->nchunks, plan->nchunks);
        ck_assert_uint_eq(source->head->nregions, plan->nregions);
        for (uint32_t r = plan->nranks; r-- > 0;) {
            const struct plan_slice *slice;
            ck_assert_int_eq(source->read(source->user, r, &slice), PEAL_OK);
            same_program(slice, plan, r);
            no_link_too_many(slice, r);
        }
        const struct plan_slice *none;
        ck_assert_int_eq(source->read(source->user, plan->nranks, &none), PEAL_ERR_ARG);
        peal_emission_end(emission);
    }
    return table->nrows;
}

static const char *const topologies[] = {"dgx1-v100.xml", "pcie-8gpu.xml", "slingshot-4gpu.xml"};

static uint32_t check_fabric(uint32_t ranks)
{
    uint32_t rows = 0;
    for (uint32_t c = 0; c < PEAL_CUSTOM; c++)
        for (uint32_t a = 0; a < ALGO_COUNT; a++) {
            peal_table *table = planned((peal_collective)c, peal_algorithm_name(a), ranks);
            rows += table ? check_table(table) : 0;
            peal_table_destroy(table);
        }
    return rows;
}

START_TEST(a_slice_is_the_ranks_program)
{
    static const uint32_t counts[] = {1, 2, 5};
    for (size_t i = 0; i < sizeof topologies / sizeof topologies[0]; i++) {
        uint32_t rows = 0;
        load_hosts(topologies[i], 2);
        for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++)
            rows += check_fabric(counts[k]);
        ck_assert_uint_gt(rows, 60);
        peal_fabric_destroy(fabric);
        fabric = NULL;
    }
}
END_TEST

/* Three hosts, the last of them not whole: the ring turns, gateways differ. */
START_TEST(a_slice_of_several_hosts)
{
    load_hosts("slingshot-4gpu.xml", 3);
    ck_assert_uint_gt(check_fabric(11), 20);
}
END_TEST

/* ---- slices as files and text */

static peal_status into_buf(void *user, const char *data, size_t bytes)
{
    peal_buf_put(user, data, bytes);
    return ((struct peal_buf *)user)->status;
}

static struct peal_buf saved(const peal_table *table)
{
    struct peal_buf file;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_buf_init(&file, ctx, 1u << 26);
    ck_assert_msg(peal_table_save(table, into_buf, &file, &diag) == PEAL_OK, "%s", diag.text);
    return file;
}

/* Through a file, and from there through text. */
static void check_round_trip(const peal_table *table)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *loaded, *read;
    struct peal_buf file = saved(table), text;
    ck_assert_msg(peal_table_load(ctx, file.data, file.used, "f", &diag, &loaded) == PEAL_OK, "%s",
                  diag.text);
    peal_buf_init(&text, ctx, 1u << 26);
    ck_assert_int_eq(peal_table_print(loaded, into_buf, &text, &diag), PEAL_OK);
    ck_assert_msg(peal_table_assemble(ctx, text.data, text.used, "t", &diag, &read) == PEAL_OK,
                  "%u:%u %s", diag.line, diag.column, diag.text);
    struct peal_buf again = saved(read);
    ck_assert_uint_eq(again.used, file.used);
    ck_assert_mem_eq(again.data, file.data, file.used);
    peal_buf_free(&file);
    peal_buf_free(&text);
    peal_buf_free(&again);
    peal_table_destroy(loaded);
    peal_table_destroy(read);
}

static peal_table *sliced(const peal_table *table, uint32_t rank, uint32_t row)
{
    peal_table *slice;
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_msg(peal_table_slice(table, fabric, rank, row, &diag, &slice) == PEAL_OK, "%s",
                  diag.text);
    return slice;
}

START_TEST(slices_of_one_plan_have_one_id)
{
    load_hosts("slingshot-4gpu.xml", 3);
    peal_table *table = planned(PEAL_ALLREDUCE, NULL, 12);
    peal_table *first = sliced(table, 0, PEAL_EVERY_ROW);
    ck_assert_uint_gt(table->nrows, 2);
    for (uint32_t r = 0; r < 12; r++) {
        peal_table *slice = sliced(table, r, PEAL_EVERY_ROW);
        peal_table_info info = {.size = sizeof info};
        ck_assert_int_eq(peal_table_get(slice, &info), PEAL_OK);
        ck_assert(info.compiled && info.sliced && !info.verified && info.slice_rank == r);
        check_round_trip(slice);
        for (uint32_t row = 0; row < table->nrows; row++) {
            char id[33], other[33];
            ck_assert_int_eq(peal_table_id(first, row, id), PEAL_OK);
            ck_assert_int_eq(peal_table_id(slice, row, other), PEAL_OK);
            ck_assert_str_eq(id, other);
            ck_assert_int_eq(peal_table_id(slice, row ? 0 : 1, other), PEAL_OK);
            ck_assert_str_ne(id, other);
        }
        peal_table_destroy(slice);
    }
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_int_eq(peal_table_compile(table, fabric, &diag), PEAL_OK);
    for (uint32_t row = 0; row < table->nrows;
         row++) /* the whole carries the origin of its slices */
        ck_assert_mem_eq(&table->rows[row].plan->origin, &first->rows[row].plan->id,
                         sizeof(struct peal_hash128));
    ck_assert_int_eq(peal_table_verify(first, NULL, NULL, NULL, &diag), PEAL_ERR_UNSUPPORTED);
    peal_table_destroy(first);
    peal_table_destroy(table);
}
END_TEST

START_TEST(another_origin_for_whatever_differs)
{
    load_hosts("slingshot-4gpu.xml", 2);
    struct peal_hash128 seen[6];
    static const struct {
        uint32_t ranks, channels, engine;
        uint64_t tile, max;
    } rows[6] = {{8, 1, 0, 0, 1 << 20},    {7, 1, 0, 0, 1 << 20},
                 {8, 2, 0, 0, 1 << 20},    {8, 1, PEAL_ENGINE_CE + 1, 0, 1 << 20},
                 {8, 1, 0, 4096, 1 << 20}, {8, 1, 0, 0, 1 << 21}};
    for (size_t i = 0; i < 6; i++) {
        peal_request request = PEAL_REQUEST_INIT;
        peal_table *table;
        request.algorithm = "ring";
        request.min_bytes = 1 << 20;
        request.max_bytes = rows[i].max;
        request.ranks = rows[i].ranks;
        request.channels = rows[i].channels;
        request.tile_bytes = rows[i].tile;
        request.move_engine[PEAL_LINK_NVLINK] = (uint8_t)rows[i].engine;
        ck_assert_int_eq(peal_table_plan(ctx, fabric, &request, NULL, &table), PEAL_OK);
        peal_table *slice = sliced(table, 3, 0);
        seen[i] = slice->rows[0].plan->origin;
        for (size_t k = 0; k < i; k++)
            ck_assert(memcmp(&seen[i], &seen[k], sizeof seen[i]) != 0);
        peal_table_destroy(slice);
        peal_table_destroy(table);
    }
}
END_TEST

#define SLICE                                                                                      \
    "peal-table 1 plan broadcast ranks 9 slice 4 root 0 bytes 8..256 algorithm hand "              \
    "origin 0123456789abcdef0123456789abcdef chunks 1 semaphores 1 "

static const struct {
    const char *text, *golden;
} texts[] = {
    {SLICE "link r4 -> r5 nvlink direct rank 4 lane body put c0: out[0] -> r5.out[0]@1 sm", ""},
    {SLICE "rank 4", ""},
    {SLICE "rank 0", "a slice holds the program of its own rank"},
    {SLICE "rank 4 rank 5", "expected plan, found 'rank'"},
    {SLICE "link r3 -> r5 nvlink rank 4", "a link of a slice has no end at its rank"},
    {"peal-table 1 plan broadcast ranks 9 slice 9 root 0 bytes 8..256 algorithm hand chunks 1 "
     "rank 9",
     "a slice of a rank beyond the plan's"},
    {"peal-table 1 plan broadcast ranks 9 slice 4 root 0 bytes 8..256 algorithm hand chunks 1 "
     "rank 4",
     "a slice has to state the origin of its plan"},
    {"peal-table 1 plan broadcast ranks 1 root 0 bytes 8..256 algorithm hand chunks 1 origin 0 "
     "rank 0",
     "an origin is 32 of 0-9 and a-f, not all of them 0"},
    {"peal-table 1 plan broadcast ranks 1 root 0 bytes 8..256 algorithm hand chunks 1 origin "
     "00000000000000000000000000000000 rank 0",
     "an origin is 32 of 0-9 and a-f, not all of them 0"},
    {"peal-table 1 plan broadcast ranks 1 root 0 bytes 8..256 algorithm hand chunks 1 origin "
     "000000000000000000000000000000aG rank 0",
     "an origin is 32 of 0-9 and a-f, not all of them 0"},
    {SLICE "rank 4 plan broadcast ranks 9 slice 5 root 0 bytes 257..512 algorithm hand origin "
           "0123456789abcdef0123456789abcdee chunks 1 rank 5",
     "plan 1 is not of the same rank as those before, or not whole as they are"},
};

START_TEST(slices_in_text)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table = NULL;
    peal_status status =
        peal_table_assemble(ctx, texts[_i].text, strlen(texts[_i].text), "t", &diag, &table);
    if (texts[_i].golden[0]) {
        ck_assert_int_ne(status, PEAL_OK);
        ck_assert_msg(strstr(diag.text, texts[_i].golden) != NULL, "%s", diag.text);
        return;
    }
    ck_assert_msg(status == PEAL_OK, "%s", diag.text);
    check_round_trip(table);
    peal_table_destroy(table);
}
END_TEST

/* Every byte of a slice file changed in turn, its checksum put right: it loads or is refused, and
 * what loads is saved as the same bytes. */
START_TEST(broken_slice_files)
{
    load_hosts("slingshot-4gpu.xml", 1);
    peal_table *table = planned(PEAL_ALLREDUCE, "ring", 4), *slice = sliced(table, 2, 0);
    struct peal_buf file = saved(slice);
    for (size_t i = 24; i + 8 < file.used; i++) {
        char *copy = malloc(file.used);
        peal_table *loaded = NULL;
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, file.data, file.used);
        copy[i] = (char)(copy[i] ^ (1 << i % 8));
        uint64_t sum = peal_hash64(copy, file.used - 8);
        for (unsigned k = 0; k < 8; k++)
            copy[file.used - 8 + k] = (char)(sum >> (8 * k) & 0xff);
        if (peal_table_load(ctx, copy, file.used, "f", NULL, &loaded) == PEAL_OK) {
            struct peal_buf again = saved(loaded);
            ck_assert_uint_eq(again.used, file.used);
            ck_assert_mem_eq(again.data, copy, file.used);
            peal_buf_free(&again);
        }
        peal_table_destroy(loaded);
        free(copy);
    }
    peal_buf_free(&file);
    peal_table_destroy(slice);
    peal_table_destroy(table);
}
END_TEST

/* Whole and sliced, each allocation failing in turn. */
static peal_status compile_and_slice(peal_ctx *own, void *user)
{
    peal_request request = PEAL_REQUEST_INIT;
    peal_table *table, *slice = NULL;
    peal_fabric *host;
    (void)user;
    PEAL_TRY(peal_fabric_host(own, 3, NULL, &host));
    request.max_bytes = 1 << 20;
    peal_status status = peal_table_plan(own, host, &request, NULL, &table);
    if (status == PEAL_OK) {
        status = peal_table_slice(table, host, 1, PEAL_EVERY_ROW, NULL, &slice);
        if (status == PEAL_OK)
            status = peal_table_compile(table, host, NULL);
        peal_table_destroy(slice);
        peal_table_destroy(table);
    }
    peal_fabric_destroy(host);
    return status;
}

START_TEST(memory_may_run_out)
{
    ck_assert_int_eq(test_oom_sweep(compile_and_slice, NULL, 2000, NULL), 0);
}
END_TEST

/* ---- as many ranks as the format allows */

#define MANY 65536u

/* held_max: bytes of an emission, with the largest of the programs. */
static void read_some(peal_table *table, uint32_t steps_max, int64_t held_max)
{
    static const uint32_t ranks[] = {0, 1, 7, 8, 32768, 65535};
    peal_diag diag = PEAL_DIAG_INIT;
    for (uint32_t row = 0; row < table->nrows; row++) {
        struct emission *emission;
        int64_t before = heap.bytes;
        int64_t room = 0;
        size_t count = sizeof ranks / sizeof ranks[0];
        ck_assert_msg(peal_emission_of_row(table, row, fabric, &diag, &emission) == PEAL_OK, "%s",
                      diag.text);
        const struct plan_source *source = peal_emission_source(emission);
        for (size_t i = 0; i < 2 * count; i++) {
            const struct plan_slice *slice;
            uint32_t rank = ranks[i % count];
            ck_assert_int_eq(source->read(source->user, rank, &slice), PEAL_OK);
            ck_assert_uint_gt(slice->program.nsteps, 0);
            ck_assert_uint_le(slice->program.nsteps, steps_max);
            ck_assert_uint_le(slice->nlinks, 100);
            ck_assert_uint_eq(slice->program.host, rank / 8);
            room = i + 1 == count ? heap.bytes : room;
        }
        ck_assert_int_eq(heap.bytes, room); /* the second time all found room enough */
        ck_assert_int_lt(heap.bytes - before, held_max);
        peal_emission_end(emission);
    }
}

START_TEST(sixty_five_thousand_ranks)
{
    load_hosts("dgx-h100.xml", MANY / 8);
    peal_table *table = planned(PEAL_ALLREDUCE, NULL, MANY);
    ck_assert_ptr_nonnull(table);
    /* A few hundred steps each, and which unit and shard each rank belongs to. */
    read_some(table, 4096, MANY * 32l);
    /* All programs at once are refused, and nothing is left half made. */
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table_info info = {.size = sizeof info};
    ck_assert_int_eq(peal_table_compile(table, fabric, &diag), PEAL_ERR_LIMIT);
    ck_assert_ptr_nonnull(strstr(diag.text, "one rank's are"));
    ck_assert_int_eq(peal_table_get(table, &info), PEAL_OK);
    ck_assert(!info.compiled && !info.sliced);
    peal_table *slice = sliced(table, MANY - 1, 0);
    check_round_trip(slice);
    peal_table_destroy(slice);
    ck_assert_int_eq(peal_table_slice(table, fabric, MANY, 0, &diag, &slice), PEAL_ERR_ARG);
    ck_assert_int_eq(peal_table_slice(table, fabric, 0, table->nrows, &diag, &slice), PEAL_ERR_ARG);
    peal_table_destroy(table);
}
END_TEST

/* 2 (N - 1) sends of a plain ring, each with its wait, credit and signals. */
START_TEST(a_ring_of_sixty_five_thousand)
{
    load_hosts("dgx-h100.xml", MANY / 8);
    peal_request request = PEAL_REQUEST_INIT;
    peal_table *table;
    request.algorithm = "ring";
    request.channels = 1;
    ck_assert_int_eq(peal_table_plan(ctx, fabric, &request, NULL, &table), PEAL_OK);
    read_some(table, 9 * MANY, MANY * 1024l);
    peal_table_destroy(table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("slice");
    TCase *tc = tcase_create("slice");
    tcase_set_timeout(tc, 300);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, a_slice_is_the_ranks_program);
    tcase_add_test(tc, a_slice_of_several_hosts);
    tcase_add_test(tc, slices_of_one_plan_have_one_id);
    tcase_add_test(tc, another_origin_for_whatever_differs);
    tcase_add_loop_test(tc, slices_in_text, 0, sizeof texts / sizeof texts[0]);
    tcase_add_test(tc, broken_slice_files);
    tcase_add_test(tc, memory_may_run_out);
    tcase_add_test(tc, sixty_five_thousand_ranks);
    tcase_add_test(tc, a_ring_of_sixty_five_thousand);
    suite_add_tcase(suite, tc);
    return run_suite(suite, CK_NOFORK);
}
