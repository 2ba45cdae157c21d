/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* Before each block, so that a wrong size at its return is seen. */
struct header {
    alignas(max_align_t) size_t bytes;
};

static pthread_mutex_t heap_lock = PTHREAD_MUTEX_INITIALIZER;

static void die(const char *what, const char *detail)
{
    (void)fprintf(stderr, "test support: %s: %s\n", what, detail);
    exit(99);
}

static void heap_release(struct test_heap *heap, struct header *block, size_t old_bytes)
{
    if (block->bytes != old_bytes)
        die("heap", "a block came back with another size than it was asked for");
    heap->blocks--;
    heap->bytes -= (int64_t)old_bytes;
}

static void *heap_take(struct test_heap *heap, struct header *old, size_t old_bytes,
                       size_t new_bytes)
{
    heap->calls++;
    if (heap->calls == heap->fail_at)
        return NULL;
    struct header *block = malloc(sizeof *block + new_bytes);
    if (!block)
        return NULL;
    block->bytes = new_bytes;
    heap->blocks++;
    heap->bytes += (int64_t)new_bytes;
    if (old) { /* always moves: a pointer kept across a growth shows under ASan */
        memcpy(block + 1, old + 1, old_bytes < new_bytes ? old_bytes : new_bytes);
        heap_release(heap, old, old_bytes);
        free(old);
    }
    return block + 1;
}

void *test_heap_realloc(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    struct test_heap *heap = user;
    struct header *old = ptr ? (struct header *)ptr - 1 : NULL;
    void *result = NULL;
    (void)pthread_mutex_lock(&heap_lock);
    if (new_bytes) {
        result = heap_take(heap, old, old_bytes, new_bytes);
    } else if (old) {
        heap_release(heap, old, old_bytes);
        free(old);
    }
    (void)pthread_mutex_unlock(&heap_lock);
    return result;
}

peal_ctx *test_ctx(struct test_heap *heap)
{
    *heap = (struct test_heap){0};
    peal_host host = {.size = sizeof host, .user = heap, .realloc_fn = test_heap_realloc};
    peal_ctx *ctx = NULL;
    if (peal_ctx_create(&host, &ctx) != PEAL_OK)
        die("context", "cannot be made");
    return ctx;
}

/* One run with allocation k failing, counted after the context's own. 1: the sweep goes
 * on, 0: done, -1: a complaint was printed. */
static int oom_run(test_oom_fn body, void *user, uint64_t k)
{
    struct test_heap heap;
    peal_ctx *ctx = test_ctx(&heap);
    heap.fail_at = heap.calls + k;
    peal_status status = body(ctx, user);
    int failed = heap.calls >= heap.fail_at;
    peal_ctx_destroy(ctx);
    if (heap.blocks != 0 || heap.bytes != 0) {
        printf("oom sweep: allocation %llu failing leaves %lld blocks, %lld bytes\n",
               (unsigned long long)k, (long long)heap.blocks, (long long)heap.bytes);
        return -1;
    }
    peal_status expected = failed ? PEAL_ERR_MEMORY : PEAL_OK;
    if (status != expected) {
        printf("oom sweep: allocation %llu failing gives %s, not %s\n", (unsigned long long)k,
               peal_status_name(status), peal_status_name(expected));
        return -1;
    }
    return failed;
}

int test_oom_sweep(test_oom_fn body, void *user, uint64_t limit, uint64_t *runs_out)
{
    uint64_t k = 1;
    int go_on = 1;
    while (go_on > 0 && (limit == 0 || k <= limit)) {
        go_on = oom_run(body, user, k);
        k += go_on > 0;
    }
    if (runs_out)
        *runs_out = k - 1;
    return go_on < 0 ? -1 : 0;
}

static const char *join(char *out, size_t bytes, const char *dir, const char *relative)
{
    int length = snprintf(out, bytes, "%s/%s", dir, relative);
    if (length < 0 || (size_t)length >= bytes)
        die("path too long", relative);
    return out;
}

const char *test_source_path(const char *relative)
{
    static char path[4096];
    const char *root = getenv("PEAL_SOURCE");
    return join(path, sizeof path, root ? root : ".", relative);
}

const char *test_corpus_path(const char *relative)
{
    static char path[4096];
    static int said;
    const char *root = getenv("PEAL_CORPUS");
    if (root && access(root, R_OK) == 0)
        return join(path, sizeof path, root, relative);
    if (!said)
        printf("skipped in part: no corpus of topology files (set PEAL_CORPUS)\n");
    said = 1;
    return NULL;
}

char *test_read_file(const char *path, size_t *bytes_out)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        die("cannot open", path);
    size_t capacity = 4096;
    size_t used = 0;
    char *data = malloc(capacity + 1);
    while (data) {
        used += fread(data + used, 1, capacity - used, file);
        if (used < capacity)
            break;
        capacity *= 2;
        char *more = realloc(data, capacity + 1);
        if (!more)
            free(data);
        data = more;
    }
    if (!data || ferror(file))
        die("cannot read", path);
    (void)fclose(file);
    data[used] = '\0';
    *bytes_out = used;
    return data;
}
