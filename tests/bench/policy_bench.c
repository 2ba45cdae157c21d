/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What policies cost: policy_bench TOPO POLICY.lua HOSTILE.lua...
 * A table planned without and with the policy, look-ups in both, and hostile scripts one by one.
 */
#include <peal/peal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOKUPS 20000000u
#define ROUNDS 7

static size_t held, most;

static void *count_realloc(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user;
    held += new_bytes - old_bytes;
    most = held > most ? held : most;
    if (new_bytes)
        return realloc(ptr, new_bytes);
    free(ptr);
    return NULL;
}

static double now_ms(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at); /* whatever else the machine does */
    return (double)at.tv_sec * 1e3 + (double)at.tv_nsec / 1e6;
}

static void must(peal_status status, const peal_diag *diag)
{
    if (status == PEAL_OK)
        return;
    fprintf(stderr, "%s:%u: %s\n", diag->path, diag->line, diag->text);
    exit(1);
}

static char text[1 << 20];

static peal_policy_text read_script(const char *path)
{
    FILE *file = fopen(path, "rb");
    peal_policy_text script = {path, text, 0};
    if (!file)
        exit(1);
    script.bytes = fread(text, 1, sizeof text, file);
    (void)fclose(file);
    return script;
}

/* The best of some runs, in ms; the last table stays. */
static double plan(peal_ctx *ctx, const peal_fabric *fabric, const peal_policy *policy,
                   peal_table **table)
{
    double best = 1e300;
    *table = NULL;
    for (int i = 0; i < 3; i++) {
        peal_request request = PEAL_REQUEST_INIT;
        peal_diag diag = PEAL_DIAG_INIT;
        request.policy = policy;
        peal_table_destroy(*table);
        double from = now_ms();
        must(peal_table_plan(ctx, fabric, &request, &diag, table), &diag);
        double took = now_ms() - from;
        best = took < best ? took : best;
    }
    return best;
}

static double lookup_ns(const peal_table *table)
{
    uint32_t row = 0, sum = 0;
    uint64_t bytes = 12345;
    double from = now_ms();
    for (uint32_t i = 0; i < LOOKUPS; i++) {
        bytes = bytes * 6364136223846793005u + 1442695040888963407u;
        if (peal_table_lookup(table, PEAL_ALLREDUCE, 0, 0, 8 + (bytes >> 33), &row) != PEAL_OK)
            exit(1);
        sum += row;
    }
    double took = now_ms() - from;
    if (sum == UINT32_MAX)
        puts("");
    return took * 1e6 / LOOKUPS;
}

static void bench_plan(peal_ctx *ctx, const char *topology, const char *path)
{
    peal_fabric *fabric;
    peal_policy *policy, *same;
    peal_table *plain, *chosen;
    peal_diag diag = PEAL_DIAG_INIT;
    static const char unchanged[] = "return {cost = function(c, req, f, us) return us end}";
    peal_policy_text script = read_script(path),
                     nothing = {"same", unchanged, sizeof unchanged - 1};
    double without = 1e300, with = 1e300;
    must(peal_fabric_load(ctx, topology, &diag, &fabric), &diag);
    must(peal_policy_create(ctx, &nothing, 1, NULL, &diag, &same), &diag);
    must(peal_policy_create(ctx, &script, 1, NULL, &diag, &policy), &diag);
    double built_in = plan(ctx, fabric, NULL, &plain),
           scripted = plan(ctx, fabric, policy, &chosen);
    printf("table: %.1f ms, with the policy %.1f ms, ratio %.2f\n", built_in, scripted,
           scripted / built_in);
    peal_table_destroy(chosen);
    scripted = plan(ctx, fabric, same, &chosen); /* of as many rows */
    printf("table: with a policy that changes nothing %.1f ms, ratio %.2f\n", scripted,
           scripted / built_in);
    for (int i = 0; i < ROUNDS; i++) { /* by turns, so that a busy machine meets both */
        double one = lookup_ns(plain), other = lookup_ns(chosen);
        without = one < without ? one : without;
        with = other < with ? other : with;
    }
    printf("look-up: %.2f ns, with the policy %.2f ns, ratio %.3f\n", without, with,
           with / without);
    peal_table_destroy(plain);
    peal_table_destroy(chosen);
    peal_policy_destroy(policy);
    peal_policy_destroy(same);
    peal_fabric_destroy(fabric);
}

static void bench_hostile(peal_ctx *ctx, char **paths, int count)
{
    double worst = 0;
    size_t largest = 0;
    for (int i = 0; i < count; i++) {
        peal_policy_text script = read_script(paths[i]);
        double best = 1e300;
        peal_diag diag = PEAL_DIAG_INIT;
        for (int k = 0; k < 3; k++) {
            peal_policy *policy;
            size_t before = held;
            most = held;
            double from = now_ms();
            if (peal_policy_create(ctx, &script, 1, NULL, &diag, &policy) == PEAL_OK)
                exit(1);
            double took = now_ms() - from;
            best = took < best ? took : best;
            largest = most - before > largest ? most - before : largest;
        }
        if (best > worst)
            printf("%7.1f ms  %s: %.60s\n", best, paths[i], diag.text);
        worst = best > worst ? best : worst;
    }
    printf("%d hostile scripts: %.1f ms and %.1f MiB at most\n", count, worst,
           (double)largest / (1 << 20));
}

int main(int argc, char **argv)
{
    peal_host host = {.size = sizeof host, .realloc_fn = count_realloc};
    peal_ctx *ctx;
    if (argc < 4 || peal_ctx_create(&host, &ctx) != PEAL_OK)
        return 2;
    bench_plan(ctx, argv[1], argv[2]);
    bench_hostile(ctx, argv + 3, argc - 3);
    peal_ctx_destroy(ctx);
    return 0;
}
