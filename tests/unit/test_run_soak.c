/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixed collectives on eight processes with private buffers, every result checked, until the time
 * is over; memory stays flat. PEAL_SOAK_SECONDS: how long (3); ten minutes:
 *
 *   PEAL_SOAK_SECONDS=600 build/ci/tests/test_run_soak
 */
#include "support.h"
#include "test_suite.h"

#include <check.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RANKS 8u
#define LARGEST (1u << 21)         /* bytes of a message */
#define ROOM (LARGEST / 4 * RANKS) /* elements */
/* Pages that a rank may take after the first third; sanitizers keep books of their own. */
#ifdef PEAL_SANITIZED
#define GROWTH 65536
#else
#define GROWTH 64
#endif

static const peal_collective kinds[] = {PEAL_ALLREDUCE, PEAL_REDUCE_SCATTER, PEAL_ALLGATHER,
                                        PEAL_BROADCAST, PEAL_ALLTOALL};
#define KINDS (sizeof kinds / sizeof *kinds)

struct shared {
    volatile int stop;         /* rank 0: after the next agreement */
    volatile uint64_t calls;   /* of rank 0 */
    volatile long grown;       /* pages, of the rank that grew most */
    volatile int wrong[RANKS]; /* 1: a result; 2: an error; 3: memory */
    char text[RANKS][600];
};

struct soak {
    struct shared *shared;
    struct test_heap *heap;
    peal_comm *comm;
    uint32_t rank;
    uint64_t random; /* the same on every rank */
    int32_t *in;
    int32_t *out;
};

static double seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Of its own: the world's segment is of a fixed size, and touched bit by bit. */
static long pages_held(void)
{
    long size = 0, held = 0, shared = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld %ld", &size, &held, &shared) != 3)
        held = shared = 0;
    if (file)
        (void)fclose(file);
    return held - shared;
}

static uint64_t draw(struct soak *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random * 0x2545f4914f6cdd1du >> 20;
}

/* ---- one call */

static int32_t value(uint32_t rank, size_t i, uint32_t salt)
{
    return (int32_t)(rank * 7 + i * 3 + salt);
}

static int32_t wanted(const struct soak *s, peal_collective kind, size_t i, size_t count,
                      uint32_t root, uint32_t salt)
{
    int32_t sum = 7 * (int32_t)(RANKS * (RANKS - 1) / 2);
    switch (kind) {
    case PEAL_ALLREDUCE:
        return (int32_t)RANKS * value(0, i, salt) + sum;
    case PEAL_REDUCE_SCATTER:
        return (int32_t)RANKS * value(0, s->rank * count + i, salt) + sum;
    case PEAL_ALLGATHER:
        return value((uint32_t)(i / count), i % count, salt);
    case PEAL_BROADCAST:
        return value(root, i, salt);
    default:
        return value((uint32_t)(i / count), s->rank * count + i % count, salt);
    }
}

static int report(struct soak *s, int how, const char *text)
{
    (void)snprintf(s->shared->text[s->rank], sizeof s->shared->text[0], "rank %u: %s", s->rank,
                   text);
    s->shared->wrong[s->rank] = how;
    return 0;
}

/* Blocking, or started and waited for, by chance. */
static int make(struct soak *s, const peal_call *call, int starts)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_pending *pending;
    peal_status status = peal_pending_create(s->comm, call, &diag, &pending);
    if (status != PEAL_OK)
        return report(s, 2, diag.text);
    status = peal_start(pending, &diag);
    for (int done = 0; starts && status == PEAL_OK && !done;)
        status = peal_test(pending, &done, &diag);
    if (status == PEAL_OK)
        status = peal_wait(pending, &diag);
    peal_pending_destroy(pending);
    return status == PEAL_OK ? 1 : report(s, 2, diag.text);
}

static int one_call(struct soak *s)
{
    peal_collective kind = kinds[draw(s) % KINDS];
    size_t most = LARGEST / 4 / (kind == PEAL_ALLREDUCE || kind == PEAL_BROADCAST ? 1 : RANKS);
    size_t count = draw(s) % 4 ? draw(s) % 600 : draw(s) % most;
    uint32_t salt = (uint32_t)(draw(s) % 1000), root = draw(s) % 2 ? 5 : 0;
    int starts = (int)(draw(s) % 2);
    size_t ins = kind == PEAL_REDUCE_SCATTER || kind == PEAL_ALLTOALL ? count * RANKS : count;
    size_t outs = kind == PEAL_ALLGATHER || kind == PEAL_ALLTOALL ? count * RANKS : count;
    peal_call call = PEAL_CALL_INIT;
    call.collective = kind;
    call.in = s->in;
    call.out = s->out;
    call.count = count;
    call.dtype = PEAL_INT32;
    call.root = kind == PEAL_BROADCAST ? root : 0;
    for (size_t i = 0; i < ins; i++)
        s->in[i] = value(s->rank, i, salt);
    memset(s->out, 0xee, outs * 4);
    if (!make(s, &call, starts))
        return 0;
    for (size_t i = 0; i < outs; i++)
        if (s->out[i] != wanted(s, kind, i, count, root, salt))
            return report(s, 1, peal_collective_name(kind));
    return 1;
}

/* ---- a rank */

/* All stop behind the same call: a barrier makes what rank 0 has decided everybody's. */
static int go_on(struct soak *s, double end)
{
    peal_diag diag = PEAL_DIAG_INIT;
    if (s->rank == 0 && seconds() > end)
        s->shared->stop = 1;
    if (peal_barrier(s->comm, &diag) != PEAL_OK)
        return report(s, 2, diag.text);
    int stop = s->shared->stop;
    return peal_barrier(s->comm, &diag) == PEAL_OK ? !stop : report(s, 2, diag.text);
}

static void soak(struct soak *s, double length)
{
    double begin = seconds();
    long pages = 0;
    int64_t bytes = 0;
    for (uint64_t round = 0; go_on(s, begin + length); round++) {
        if (!pages && seconds() > begin + length / 3) {
            pages = pages_held();
            bytes = s->heap->bytes;
        }
        for (int i = 0; i < 5; i++)
            if (!one_call(s))
                return;
        if (s->rank == 0)
            s->shared->calls += 5;
    }
    long grown = pages ? pages_held() - pages : 0;
    if (grown > s->shared->grown)
        s->shared->grown = grown;
    if (grown > GROWTH || (pages && s->heap->bytes != bytes))
        (void)report(s, 3, "memory has grown");
}

static void rank_process(struct shared *shared, struct test_heap *heap, peal_world *world,
                         peal_table *table, uint32_t rank, double length)
{
    struct soak s = {.shared = shared, .heap = heap, .rank = rank, .random = 0x5eed};
    peal_diag diag = PEAL_DIAG_INIT;
    s.in = calloc(ROOM, 4);
    s.out = calloc(ROOM, 4);
    if (!s.in || !s.out || peal_comm_create(world, table, rank, &diag, &s.comm) != PEAL_OK) {
        (void)report(&s, 2, diag.text);
        _exit(1);
    }
    memset(s.in, 1, ROOM * 4);
    memset(s.out, 1, ROOM * 4);
    soak(&s, length);
    _exit(shared->wrong[rank] != 0);
}

/* ---- */

static peal_table *plan_all(peal_ctx *ctx)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_fabric *fabric;
    peal_table *table = NULL;
    ck_assert_int_eq(peal_fabric_host(ctx, RANKS, &diag, &fabric), PEAL_OK);
    for (uint32_t i = 0; i < KINDS + 2; i++) {
        peal_request request = PEAL_REQUEST_INIT;
        peal_table *one;
        request.collective = i < KINDS ? kinds[i] : i == KINDS ? PEAL_BARRIER : PEAL_BROADCAST;
        request.root = i == KINDS + 1 ? 5 : 0;
        request.max_bytes = LARGEST;
        request.private_buffers = 1;
        ck_assert_msg(peal_table_plan(ctx, fabric, &request, &diag, &one) == PEAL_OK, "%s",
                      diag.text);
        ck_assert_msg(peal_table_compile(one, fabric, &diag) == PEAL_OK, "%s", diag.text);
        if (table) {
            ck_assert_int_eq(peal_table_join(table, one, &diag), PEAL_OK);
            peal_table_destroy(one);
        } else {
            table = one;
        }
    }
    peal_fabric_destroy(fabric);
    return table;
}

START_TEST(test_soak)
{
    struct test_heap heap;
    const char *word = getenv("PEAL_SOAK_SECONDS");
    double length = word ? atof(word) : 3;
    peal_ctx *ctx = test_ctx(&heap);
    peal_table *table = plan_all(ctx);
    peal_diag diag = PEAL_DIAG_INIT;
    peal_world *world;
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.ranks = RANKS;
    params.heap_bytes = 16u << 20;
    params.private_buffers = 1;
    params.attach_bytes = 1u << 18;
    ck_assert_msg(peal_world_create(ctx, &params, table, &diag, &world) == PEAL_OK, "%s",
                  diag.text);
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    pid_t pid[RANKS];
    for (uint32_t r = 0; r < RANKS; r++)
        if ((pid[r] = fork()) == 0)
            rank_process(shared, &heap, world, table, r, length);
    int how, bad = 0;
    for (uint32_t r = 0; r < RANKS; r++)
        bad |= waitpid(pid[r], &how, 0) != pid[r] || how != 0;
    for (uint32_t r = 0; r < RANKS; r++)
        ck_assert_msg(!shared->wrong[r], "%s", shared->text[r]);
    ck_assert_int_eq(bad, 0);
    ck_assert_uint_gt(shared->calls, 0);
    printf("%llu calls, at most %ld pages more\n", (unsigned long long)shared->calls,
           shared->grown);
    (void)munmap(shared, sizeof *shared);
    peal_world_destroy(world);
    peal_table_destroy(table);
    peal_ctx_destroy(ctx);
    ck_assert_int_eq(heap.blocks, 0);
}
END_TEST

int main(void)
{
    const char *word = getenv("PEAL_SOAK_SECONDS");
    Suite *suite = suite_create("soak");
    TCase *tests = tcase_create("soak");
    tcase_set_timeout(tests, 200 + 2 * (word ? atof(word) : 3));
    tcase_add_test(tests, test_soak);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
