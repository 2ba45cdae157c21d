/* SPDX-License-Identifier: Apache-2.0 */
/* Proofs of collectives of blocks, where a rank's input is a part of its output, or the other way
 * round, and the two are one memory in place. */
#include "support.h"
#include "test_suite.h"

#include <check.h>
#include <string.h>

static void heard(void *user, const peal_finding *finding)
{
    char *text = user;
    if (!text[0])
        (void)snprintf(text, 512, "%s: rank %d: %s", finding->kind, (int)finding->rank,
                       finding->text);
}

static peal_status proven(peal_ctx *ctx, const char *text, char found[512])
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table;
    found[0] = '\0';
    ck_assert_msg(peal_table_assemble(ctx, text, strlen(text), "blocks", &diag, &table) == PEAL_OK,
                  "%s", diag.text);
    peal_status status = peal_table_verify(table, heard, found, NULL, NULL);
    peal_table_destroy(table);
    return status;
}

#define SCATTER                                                                                    \
    "peal-table 1 plan reduce-scatter ranks 2 bytes 0..4096 algorithm x chunks 2 semaphores 2 "    \
    "region scratch width 1 depth 1 slot 4352 "                                                    \
    "link r0 -> r1 shm direct link r1 -> r0 shm direct "
#define RANK0                                                                                      \
    "rank 0 lane pre signal r1.0 sm wait r1.0 body "                                               \
    "reduce c0: in[0] r1.in[0]@2 -> out[0] sm final post signal r1.0 sm wait r1.0 "
#define RANK1 "reduce c1: r0.in[1]@1 in[1] -> out[1] sm final post signal r0.0 sm wait r0.0 "

/* Rank 1 reads the block of rank 0's input that is its output in place. */
START_TEST(in_place_a_block_is_both)
{
    struct test_heap heap;
    peal_ctx *ctx = test_ctx(&heap);
    char found[512];
    ck_assert_msg(proven(ctx, SCATTER RANK0 "rank 1 lane pre signal r0.0 sm wait r0.0 body " RANK1,
                         found) == PEAL_OK,
                  "%s", found);
    ck_assert_int_eq(proven(ctx,
                            SCATTER RANK0 "rank 1 lane pre signal r0.0 sm wait r0.0 body "
                                          "get c0: r0.in[0]@1 -> s0[0] sm " RANK1,
                            found),
                     PEAL_ERR_UNPROVEN);
    ck_assert_msg(strncmp(found, "race", 4) == 0 && strstr(found, "(in place)"), "%s", found);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verify_blocks");
    TCase *tcase = tcase_create("verify_blocks");
    tcase_add_test(tcase, in_place_a_block_is_both);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_NOFORK);
}
