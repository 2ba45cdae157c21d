/* SPDX-License-Identifier: Apache-2.0 */
/* A fuzzer's main without libFuzzer: runs the target over the files named, and over
 * each a few times cut short and with a byte changed, from a fixed seed. */
#include "fuzz.h"
#include "support.h"

#include <string.h>

/* splitmix64: small, and the same everywhere. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* An exact-sized copy, so that a read past the end is one past a heap block. */
static void run_copy(const char *data, size_t bytes, uint64_t *state, int mutate)
{
    size_t length = bytes;
    if (mutate && bytes && next_random(state) % 4 == 0)
        length = (size_t)(next_random(state) % bytes);
    char *copy = malloc(length ? length : 1);
    if (!copy)
        exit(99);
    memcpy(copy, data, length);
    for (uint64_t k = 0; mutate && length && k < 1 + next_random(state) % 3; k++)
        copy[next_random(state) % length] = (char)(next_random(state) & 0xff);
    (void)LLVMFuzzerTestOneInput((const uint8_t *)copy, length);
    free(copy);
}

int main(int argc, char **argv)
{
    uint64_t state = 1;
    const char *wanted = getenv("PEAL_FUZZ_MUTATIONS");
    long mutations = wanted ? strtol(wanted, NULL, 10) : 20;
    for (int i = 1; i < argc; i++) {
        size_t bytes;
        char *data = test_read_file(argv[i], &bytes);
        run_copy(data, bytes, &state, 0);
        for (long k = 0; k < mutations; k++)
            run_copy(data, bytes, &state, 1);
        free(data);
    }
    printf("%d files, %ld mutations of each\n", argc - 1, mutations);
    return 0;
}
