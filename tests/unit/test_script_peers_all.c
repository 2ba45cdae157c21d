/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: slow lua */
/* Algorithms in Lua are as good as those in C: every number of ranks from
 * 2 to 64. */
#include "test_scripts.h"
#include "test_suite.h"

START_TEST(all)
{
    peal_ctx *ctx;
    ck_assert(peal_ctx_create(NULL, &ctx) == PEAL_OK);
    peal_fabric *cluster = test_example(ctx, "cluster-h100-128.xml");
    peal_fabric *host = test_example(ctx, "host:64");
    uint32_t n = (uint32_t)_i;
    scripts_prove(ctx, host, "ring.lua", n, 0);
    scripts_prove(ctx, host, "all-pairs.lua", n, 0);
    scripts_prove(ctx, cluster, "two-level.lua", n, scripts_local(n));
    if (n < 8 || n % 32 == 0) /* the small size alone where simulations take long */
        scripts_all(ctx, cluster, host, n, n < 8 ? 2 : 1);
    peal_fabric_destroy(cluster);
    peal_fabric_destroy(host);
    peal_ctx_destroy(ctx);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("script_peers_all");
    TCase *tcase = tcase_create("script_peers_all");
    tcase_set_timeout(tcase, 600);
    tcase_add_loop_test(tcase, all, 2, 65);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_NOFORK);
}
