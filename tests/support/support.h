/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests share: an allocator that counts and fails on demand, sweeps over
 * every allocation of an operation, files of the tree and of the corpus.
 * Independent of Check, so that fuzzers use it too.
 */
#ifndef PEAL_TESTS_SUPPORT_H
#define PEAL_TESTS_SUPPORT_H

#include <peal/peal.h>
#include <stdio.h>
#include <stdlib.h>

/* Counts what it gives, checks that each block comes back with the size it was asked
 * for, and fails the allocation number fail_at (from 1; 0: none). Threads may share it. */
struct test_heap {
    uint64_t calls; /* allocations asked for, growing ones included */
    uint64_t fail_at;
    int64_t blocks; /* alive */
    int64_t bytes;
};
void *test_heap_realloc(void *user, void *ptr, size_t old_bytes, size_t new_bytes);
/* A context over *heap, which is reset. Ends the program when it cannot be made. */
peal_ctx *test_ctx(struct test_heap *heap);

/*
 * Runs `body` with the first allocation failing, then the second, and so on until a run
 * meets no failure. `body` gets a fresh context each time and returns the status of the
 * operation under test; it must free what it made on success. Each failed run must give
 * PEAL_ERR_MEMORY and every run must leave nothing alive. Returns 0 when all held, else
 * prints what did not. *runs_out (may be NULL): how many allocations were failed.
 * `limit` bounds the sweep (0: none): for long operations, the first `limit` allocations.
 */
typedef peal_status (*test_oom_fn)(peal_ctx *ctx, void *user);
int test_oom_sweep(test_oom_fn body, void *user, uint64_t limit, uint64_t *runs_out);

/* A file of the source tree ("examples/topologies/dgx-h100.xml") or of the corpus. The
 * text is valid until the next call of the same function. corpus: NULL when this machine
 * has no corpus, and then says so once on stdout; the test returns early. */
const char *test_source_path(const char *relative);
const char *test_corpus_path(const char *relative);

/* A whole file, zero-terminated, freed with free(). Ends the program when unreadable. */
char *test_read_file(const char *path, size_t *bytes_out);

#endif
