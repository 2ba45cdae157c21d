/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: lua */
/* Algorithms in Lua are as good as those in C: some numbers of ranks (test_script_peers_all.c has
 * the others). */
#include "test_scripts.h"
#include "test_suite.h"

START_TEST(some)
{
    static const uint32_t ranks[] = {2, 3, 8, 16, 24};
    peal_ctx *ctx;
    ck_assert(peal_ctx_create(NULL, &ctx) == PEAL_OK);
    peal_fabric *cluster = test_example(ctx, "cluster-h100-128.xml");
    peal_fabric *host = test_example(ctx, "host:64");
    scripts_all(ctx, cluster, host, ranks[_i], 2);
    scripts_prove(ctx, cluster, "two-level.lua", 3 * ranks[_i] / 2,
                  scripts_local(3 * ranks[_i] / 2));
    scripts_prove(ctx, cluster, "ring.lua", ranks[_i] + 3, 8);
    peal_fabric_destroy(cluster);
    peal_fabric_destroy(host);
    peal_ctx_destroy(ctx);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("script_peers");
    TCase *tcase = tcase_create("script_peers");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, some, 0, 5);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_NOFORK);
}
