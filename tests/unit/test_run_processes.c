/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as processes: forked after the world is made, or attached to it by name at any address;
 * private buffers; the death of one. */
#define _GNU_SOURCE
#include "shm.h"
#include "support.h"
#include "test_fixture.h"
#include "test_run.h"
#include "test_suite.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BYTES ((size_t)1 << 20)

enum kind { TWOSHOT, RING, STAR, ASYNC };

static peal_table *table_for(peal_ctx *owner, unsigned ranks, enum kind kind)
{
    static const write_plan_fn writers[] = {write_twoshot, write_ring, write_star, write_async};
    struct plan_text p = {.ranks = ranks,
                          .link = "shm direct",
                          .engine = "ce",
                          .tile = kind == RING || kind == ASYNC ? 16384 : 0,
                          .depth = 2,
                          .slot = 16384};
    struct plan_part parts[] = {{write_oneshot, 512}, {writers[kind], BYTES}};
    return table_of(owner, p, parts, 2);
}

/* ---- running a body in children */

struct child {
    peal_ctx *ctx;
    peal_world *world;
    peal_table *table;
    unsigned rank;
    unsigned ranks;
    int registered; /* buffers from peal_mem_alloc */
};
typedef int (*child_fn)(const struct child *child);

/* Exits with 0 when the body is content. */
static void run_child(const struct child *child, child_fn body)
{
    int failed = body(child);
    (void)fflush(NULL);
    _exit(failed);
}

/* Each with a rank of its own. */
static void fork_ranks(struct child *child, uint32_t count, child_fn body, pid_t *pids)
{
    for (child->rank = 0; child->rank < count; child->rank++) {
        pids[child->rank] = fork();
        ck_assert_int_ge(pids[child->rank], 0);
        if (pids[child->rank] == 0)
            run_child(child, body);
    }
}

static unsigned wait_for(const pid_t *pids, unsigned count, int killed)
{
    unsigned bad = 0;
    for (unsigned i = 0; i < count; i++) {
        int status = 0;
        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        int died = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        bad += (int)i == killed ? !died : status != 0;
    }
    return bad;
}

static int complain(const struct child *child, const char *what)
{
    (void)fprintf(stderr, "rank %u: %s\n", child->rank, what);
    return 1;
}

/* Calls of many sizes, in place and not. */
static int calls(const struct child *child, peal_comm *comm, char *in, char *out)
{
    static const size_t counts[] = {0, 3, 100, 5000, 131072, 131071, 9, 77777};
    char problem[1024];
    for (unsigned i = 0; i < 64; i++) {
        size_t count = counts[i % 8];
        char *to = i % 3 ? out : in;
        if (checked_call(comm, child->ranks, child->rank, in, to, count, PEAL_FLOAT64,
                         (peal_op)(i % PEAL_OP_COUNT), i, problem))
            return complain(child, problem);
    }
    return 0;
}

static int join_and_call(const struct child *child)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_comm *comm;
    if (peal_comm_create(child->world, child->table, child->rank, &diag, &comm) != PEAL_OK)
        return complain(child, diag.text);
    char *in = child->registered ? peal_mem_alloc(comm, BYTES) : malloc(BYTES);
    /* Not aligned to a page, nor to a line. */
    char *memory = child->registered ? peal_mem_alloc(comm, BYTES + 24) : malloc(BYTES + 24);
    if (!in || !memory)
        return complain(child, "no memory");
    int failed = calls(child, comm, in, memory + 24);
    peal_comm_destroy(comm);
    return failed;
}

/* ---- forked */

static void run_forked(enum kind kind, unsigned ranks, int registered, uint64_t chaos)
{
    struct child child = {.ctx = ctx, .ranks = ranks, .registered = registered};
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    pid_t pids[RANKS_MAX];
    params.ranks = ranks;
    params.private_buffers = !registered;
    params.chaos_seed = chaos;
    child.table = table_for(ctx, ranks, kind);
    ck_assert_int_eq(peal_table_verify(child.table, NULL, NULL, NULL, &diag), PEAL_OK);
    ck_assert_msg(peal_world_create(ctx, &params, child.table, &diag, &child.world) == PEAL_OK,
                  "%s", diag.text);
    fork_ranks(&child, ranks, join_and_call, pids);
    ck_assert_uint_eq(wait_for(pids, ranks, -1), 0);
    peal_world_destroy(child.world);
    peal_table_destroy(child.table);
}

START_TEST(forked_ranks_with_registered_buffers)
{
    run_forked((enum kind)(_i % 4), 2 + (unsigned)_i / 4, 1, 0);
}
END_TEST

/* What a program forgets that comes from threads: without a word it would write to other memory of
 * the other process. */
static int call_unseen(const struct child *child)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_comm *comm;
    float in[5000] = {1}, out[5000];
    if (peal_comm_create(child->world, child->table, child->rank, &diag, &comm) != PEAL_OK)
        return complain(child, diag.text);
    peal_status status = peal_allreduce(comm, in, out, 5000, PEAL_FLOAT32, PEAL_SUM, &diag);
    int told = status == PEAL_ERR_ARG && strstr(diag.text, "private_buffers");
    told &= peal_allreduce(comm, in, out, 0, PEAL_FLOAT32, PEAL_SUM, &diag) == PEAL_OK;
    float *seen = peal_mem_alloc(comm, sizeof in);
    memcpy(seen, in, sizeof in);
    status = peal_allreduce(comm, seen, seen, 5000, PEAL_FLOAT32, PEAL_SUM, &diag);
    int right = status == PEAL_OK && seen[0] == 2;
    peal_comm_destroy(comm);
    return told && right ? 0 : complain(child, diag.text);
}

START_TEST(forked_ranks_whose_buffers_nobody_sees)
{
    struct child child = {.ctx = ctx, .ranks = 2};
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    pid_t pids[2];
    params.ranks = 2;
    child.table = table_for(ctx, 2, TWOSHOT);
    ck_assert_int_eq(peal_world_create(ctx, &params, child.table, NULL, &child.world), PEAL_OK);
    fork_ranks(&child, 2, call_unseen, pids);
    ck_assert_uint_eq(wait_for(pids, 2, -1), 0);
    peal_world_destroy(child.world);
    peal_table_destroy(child.table);
}
END_TEST

START_TEST(forked_ranks_with_private_buffers)
{
    run_forked((enum kind)(_i % 4), 2 + (unsigned)_i / 4, 0, 0);
}
END_TEST

START_TEST(forked_ranks_with_chaotic_engines)
{
    run_forked(ASYNC, 2, _i % 2, 5 + (uint64_t)_i);
}
END_TEST

/* ---- attached */

static const char *shm_name(void)
{
    static char name[64];
    if (!name[0])
        (void)snprintf(name, sizeof name, "/peal_test_%ld_%ld", (long)getpid(), (long)time(NULL));
    return name;
}

static int object_exists(const char *name)
{
    int fd = shm_open(name, 0, 0);
    if (fd >= 0)
        (void)close(fd);
    return fd >= 0;
}

/* Own everything: context, table, world. The last rank makes the object, late; addresses
 * differ, since each process first maps something of another size. */
static int attach_and_call(const struct child *given)
{
    struct child child = *given;
    struct test_heap own;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    void *shift = mmap(NULL, (child.rank + 1) << 24, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    child.ctx = test_ctx(&own);
    child.table = table_for(child.ctx, child.ranks, RING);
    params.ranks = child.ranks;
    params.shm_name = shm_name();
    params.attach = child.rank + 1 != child.ranks;
    params.private_buffers = !child.registered;
    params.heap_bytes = child.rank ? 64u << 20 : 0; /* its maker decides */
    if (!params.attach)
        usleep(50000);
    if (shift == MAP_FAILED ||
        peal_world_create(child.ctx, &params, child.table, &diag, &child.world) != PEAL_OK)
        return complain(&child, diag.text);
    int failed = join_and_call(&child);
    if (object_exists(shm_name()) && !params.attach)
        failed = complain(&child, "the name is still there");
    peal_world_destroy(child.world);
    peal_table_destroy(child.table);
    peal_ctx_destroy(child.ctx);
    if (child.registered && own.blocks != 0)
        failed = complain(&child, "memory is left over");
    return failed;
}

START_TEST(attached_ranks)
{
    struct child child = {.ranks = 3, .registered = _i};
    pid_t pids[RANKS_MAX];
    (void)shm_name();
    fork_ranks(&child, child.ranks, attach_and_call, pids);
    ck_assert_uint_eq(wait_for(pids, child.ranks, -1), 0);
    ck_assert(!object_exists(shm_name()));
}
END_TEST

START_TEST(names_are_refused_when_wrong)
{
    peal_table *two = table_for(ctx, 2, TWOSHOT);
    peal_table *ring = table_for(ctx, 2, RING);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_world *world;
    peal_world *other;
    params.ranks = 2;
    params.timeout_ms = 30;
    params.shm_name = shm_name();
    params.attach = 1;
    ck_assert_int_eq(peal_world_create(ctx, &params, two, &diag, &world), PEAL_ERR_TIMEOUT);
    params.attach = 0;
    ck_assert_int_eq(peal_world_create(ctx, &params, two, &diag, &world), PEAL_OK);
    ck_assert_int_eq(peal_world_create(ctx, &params, two, &diag, &other), PEAL_ERR_IO);
    params.attach = 1;
    ck_assert_int_eq(peal_world_create(ctx, &params, ring, &diag, &other), PEAL_ERR_MISMATCH);
    ck_assert_int_eq(peal_world_create(ctx, &params, two, &diag, &other), PEAL_OK);
    peal_world_destroy(other);
    ck_assert(object_exists(shm_name()));
    peal_world_destroy(world);
    ck_assert(!object_exists(shm_name()));
    peal_table_destroy(two);
    peal_table_destroy(ring);
}
END_TEST

START_TEST(an_object_of_strangers_is_refused)
{
    peal_table *table = table_for(ctx, 2, TWOSHOT);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    peal_world *world;
    params.ranks = 2;
    params.timeout_ms = 30;
    params.shm_name = shm_name();
    params.attach = 1;
    int fd = shm_open(shm_name(), O_CREAT | O_EXCL | O_RDWR, 0600);
    ck_assert_int_ge(fd, 0);
    /* Too short, then never sealed. */
    ck_assert_int_eq(ftruncate(fd, 10), 0);
    ck_assert_int_eq(peal_world_create(ctx, &params, table, NULL, &world), PEAL_ERR_TIMEOUT);
    ck_assert_int_eq(ftruncate(fd, 1 << 20), 0);
    ck_assert_int_eq(peal_world_create(ctx, &params, table, NULL, &world), PEAL_ERR_TIMEOUT);
    (void)close(fd);
    (void)shm_unlink(shm_name());
    peal_table_destroy(table);
}
END_TEST

/* ---- others of this user, and of this host: none of them may have a rank die of a signal */

/* Cuts, by every way to it, the segment that the object leads to. How many ways were open. */
static unsigned cut_all(int object)
{
    struct rt_card card;
    char path[64];
    unsigned cut = 0;
    if (pread(object, &card, sizeof card, 0) == (ssize_t)sizeof card && card.mark == RT_CARD) {
        (void)snprintf(path, sizeof path, "/proc/%u/fd/%u", card.process, card.fd);
        int fd = open(path, O_RDWR);
        cut += fd < 0 || ftruncate(fd, 4096) == 0 || ftruncate(fd, 0) == 0 ||
               fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0;
        if (fd >= 0)
            (void)close(fd);
    } else {
        cut++;
    }
    (void)!ftruncate(object, 0);
    return cut;
}

/* A rank of the world that this process has made and one that attaches to it; between them a third
 * cuts what it finds by its name. */
START_TEST(a_segment_is_not_cut)
{
    struct child child = {.ctx = ctx, .ranks = 2, .registered = 1};
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_world *second, *third;
    child.table = table_for(ctx, 2, RING);
    params.ranks = 2;
    params.shm_name = shm_name();
    params.timeout_ms = 3000;
    ck_assert_int_eq(peal_world_create(ctx, &params, child.table, NULL, &child.world), PEAL_OK);
    params.attach = 1;
    ck_assert_msg(peal_world_create(ctx, &params, child.table, &diag, &second) == PEAL_OK, "%s",
                  diag.text);
    int object = shm_open(shm_name(), O_RDWR, 0);
    ck_assert_int_ge(object, 0);
    ck_assert_uint_eq(cut_all(object), 0);
    params.timeout_ms = 30;
    ck_assert_int_eq(peal_world_create(ctx, &params, child.table, NULL, &third), PEAL_ERR_TIMEOUT);
    pid_t pids[2];
    peal_world *worlds[2] = {child.world, second};
    for (child.rank = 0; child.rank < 2; child.rank++) {
        child.world = worlds[child.rank];
        pids[child.rank] = fork();
        if (pids[child.rank] == 0)
            run_child(&child, join_and_call);
    }
    ck_assert_uint_eq(wait_for(pids, 2, -1), 0);
    (void)close(object);
    peal_world_destroy(second);
    peal_world_destroy(worlds[0]);
    peal_table_destroy(child.table);
}
END_TEST

/* What is not this user's alone is not mapped, and a card that leads elsewhere not followed. */
START_TEST(objects_of_others_are_refused)
{
    peal_table *table = table_for(ctx, 2, TWOSHOT);
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_world *world, *other;
    struct stat about;
    params.ranks = 2;
    params.timeout_ms = 30;
    params.shm_name = shm_name();
    ck_assert_int_eq(peal_world_create(ctx, &params, table, NULL, &world), PEAL_OK);
    int object = shm_open(shm_name(), O_RDWR, 0);
    params.attach = 1;
    ck_assert_int_eq(fchmod(object, 0666), 0);
    ck_assert_int_eq(peal_world_create(ctx, &params, table, &diag, &other), PEAL_ERR_IO);
    ck_assert_ptr_nonnull(strstr(diag.text, "another user's"));
    ck_assert_int_eq(fchmod(object, 0600), 0);
    int plain = open("/dev/shm", O_TMPFILE | O_RDWR, 0600);
    struct rt_card card = {.mark = RT_CARD, .process = (uint32_t)getpid(), .fd = (uint32_t)plain};
    ck_assert(plain >= 0 && ftruncate(plain, 1 << 20) == 0 && fstat(plain, &about) == 0);
    card.device = about.st_dev;
    card.node = about.st_ino;
    ck_assert_int_eq(pwrite(object, &card, sizeof card, 0), (int)sizeof card);
    ck_assert_int_eq(peal_world_create(ctx, &params, table, NULL, &other), PEAL_ERR_UNSUPPORTED);
    (void)close(plain);
    (void)close(object);
    peal_world_destroy(world);
    peal_table_destroy(table);
}
END_TEST

/* ---- private buffers beyond the heap */

static int too_large(const struct child *child)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_comm *comm;
    char problem[1024];
    char *data = malloc(BYTES);
    if (!data || peal_comm_create(child->world, child->table, child->rank, &diag, &comm) != PEAL_OK)
        return 1;
    if (peal_allreduce(comm, data, data, BYTES, PEAL_INT8, PEAL_SUM, &diag) != PEAL_ERR_RANGE)
        return complain(child, "staged beyond the heap");
    int failed = checked_call(comm, child->ranks, child->rank, data, data, BYTES / 16, PEAL_INT8,
                              PEAL_SUM, 1, problem);
    peal_comm_destroy(comm);
    return failed;
}

/* Who has closed all descriptors, and opened others, keeps those: a segment that was shown by a
 * number is not hidden by that number alone. */
START_TEST(descriptors_of_others_stay_open)
{
    static const uint64_t token[2] = {1, 2};
    struct rt_layout layout;
    struct rt_segment segment = {0};
    peal_table *table = table_for(ctx, 2, TWOSHOT);
    ck_assert_int_eq(rt_layout_make(table, 2, 4096, &layout, NULL), PEAL_OK);
    if (rt_segment_seal(&layout, token, &segment)) {
        int number = (int)segment.card.fd;
        ck_assert_int_eq(dup2(STDERR_FILENO, number), number);
        rt_segment_unlink(&segment);
        ck_assert_int_eq(fcntl(number, F_GETFD), 0);
        ck_assert_int_eq(close(number), 0);
        rt_segment_unmap(&segment);
    }
    if (rt_segment_seal(&layout, token, &segment)) { /* its own is closed, once */
        int number = (int)segment.card.fd;
        rt_segment_unlink(&segment);
        ck_assert_int_eq(fcntl(number, F_GETFD), -1);
        rt_segment_unlink(&segment);
        rt_segment_unmap(&segment);
    }
    peal_table_destroy(table);
}
END_TEST

START_TEST(staging_takes_no_more_than_the_heap)
{
    struct child child = {.ctx = ctx, .ranks = 2};
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    pid_t pids[2];
    params.ranks = 2;
    params.private_buffers = 1;
    params.heap_bytes = BYTES;
    params.attach_bytes = UINT64_MAX;
    child.table = table_for(ctx, 2, TWOSHOT);
    ck_assert_int_eq(peal_world_create(ctx, &params, child.table, NULL, &child.world), PEAL_OK);
    fork_ranks(&child, 2, too_large, pids);
    ck_assert_uint_eq(wait_for(pids, 2, -1), 0);
    peal_world_destroy(child.world);
    peal_table_destroy(child.table);
}
END_TEST

/* ---- death */

static int die_or_notice(const struct child *child)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_comm *comm;
    char data[4096] = {0};
    if (peal_comm_create(child->world, child->table, child->rank, &diag, &comm) != PEAL_OK)
        return complain(child, diag.text);
    for (int i = 0; i < 100; i++)
        if (peal_allreduce(comm, data, data, 512, PEAL_FLOAT32, PEAL_SUM, &diag) != PEAL_OK)
            return complain(child, diag.text);
    if (child->rank == 1)
        (void)kill(getpid(), SIGKILL);
    peal_status status = peal_allreduce(comm, data, data, 512, PEAL_FLOAT32, PEAL_SUM, &diag);
    peal_comm_destroy(comm);
    if (status != PEAL_ERR_PEER || !strstr(diag.text, "rank 1 died"))
        return complain(child, diag.text);
    return 0;
}

/* Well before the deadline of 30 s: the children stay zombies until all are waited for. */
START_TEST(a_death_is_noticed_and_named)
{
    struct child child = {.ctx = ctx, .ranks = 3};
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    pid_t pids[3];
    params.ranks = 3;
    params.private_buffers = 1;
    child.table = table_for(ctx, 3, TWOSHOT);
    ck_assert_int_eq(peal_world_create(ctx, &params, child.table, NULL, &child.world), PEAL_OK);
    time_t start = time(NULL);
    fork_ranks(&child, 3, die_or_notice, pids);
    ck_assert_uint_eq(wait_for(pids, 3, 1), 0);
    ck_assert_int_lt((int)(time(NULL) - start), 10);
    peal_world_destroy(child.world);
    peal_table_destroy(child.table);
}
END_TEST

/* Two leave their comm behind an abort; one of them ends. */
struct parting {
    _Atomic int left; /* it has left, and goes on */
    _Atomic int seen;
};
static struct parting *parting;

static void await_word(const _Atomic int *word)
{
    const struct timespec nap = {0, 1000000};
    for (int i = 0; i < 20000 && !atomic_load(word); i++)
        (void)nanosleep(&nap, NULL);
}

/* Until the one that has ended is lost: 0: that, and no other. */
static int look_for_lost(peal_comm *comm)
{
    const struct timespec nap = {0, 1000000};
    unsigned char lost[3] = {0};
    for (int i = 0; i < 20000 && !lost[1]; i++) {
        (void)nanosleep(&nap, NULL);
        if (peal_comm_lost(comm, lost) != PEAL_OK)
            return 1;
    }
    return lost[0] || !lost[1] || lost[2];
}

static int part(const struct child *child)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_comm *comm;
    int failed = 0;
    if (peal_comm_create(child->world, child->table, child->rank, &diag, &comm) != PEAL_OK)
        return complain(child, diag.text);
    if (child->rank == 0) {
        await_word(&parting->left);
        peal_comm_abort(comm);
        failed = look_for_lost(comm);
        atomic_store(&parting->seen, 1);
    }
    peal_comm_destroy(comm);
    if (child->rank == 2) {
        atomic_store(&parting->left, 1);
        await_word(&parting->seen);
    }
    return failed ? complain(child, "other ranks are lost") : 0;
}

START_TEST(one_that_leaves_and_ends_is_lost)
{
    struct child child = {.ctx = ctx, .ranks = 3};
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    pid_t pids[3];
    params.ranks = 3;
    params.private_buffers = 1;
    parting =
        mmap(NULL, sizeof *parting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(parting, MAP_FAILED);
    child.table = table_for(ctx, 3, TWOSHOT);
    ck_assert_int_eq(peal_world_create(ctx, &params, child.table, NULL, &child.world), PEAL_OK);
    fork_ranks(&child, 3, part, pids);
    ck_assert_uint_eq(wait_for(pids, 3, -1), 0);
    peal_world_destroy(child.world);
    peal_table_destroy(child.table);
    (void)munmap(parting, sizeof *parting);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run_processes");
    TCase *tests = tcase_create("processes");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, forked_ranks_with_registered_buffers, 0, 8);
    tcase_add_test(tests, forked_ranks_whose_buffers_nobody_sees);
    tcase_add_loop_test(tests, forked_ranks_with_private_buffers, 0, 8);
    tcase_add_loop_test(tests, forked_ranks_with_chaotic_engines, 0, 4);
    tcase_add_loop_test(tests, attached_ranks, 0, 2);
    tcase_add_test(tests, names_are_refused_when_wrong);
    tcase_add_test(tests, an_object_of_strangers_is_refused);
    tcase_add_test(tests, a_segment_is_not_cut);
    tcase_add_test(tests, objects_of_others_are_refused);
    tcase_add_test(tests, descriptors_of_others_stay_open);
    tcase_add_test(tests, staging_takes_no_more_than_the_heap);
    tcase_add_test(tests, a_death_is_noticed_and_named);
    tcase_add_test(tests, one_that_leaves_and_ends_is_lost);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_FORK_GETENV);
}
