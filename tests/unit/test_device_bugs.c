/* SPDX-License-Identifier: Apache-2.0 */
/* ctest: slow */
/*
 * Errors of order, planted one at a time into the device code or the engines beside it, and who
 * finds them: the thread sanitizer, which runs the same plans in a program of its own; the
 * emulator, by wrong results, calls that do not end, and engines used as they may not be; or the
 * model, which goes through all orders of a small program. Without an error none of them complains.
 */
#define DEVICE_LIMIT_MS (emu_bug ? 1500 : 20000)

#include "litmus.h"
#include "support.h"
#include "test_device.h"
#include "test_suite.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 6000u
#define HALF ((size_t)EMU_RANKS * BYTES + 4 * GUARD)
#define RACE 66 /* exit code of the thread sanitizer */

static struct test_heap heap;
static peal_ctx *ctx;

/* ---- what is run */

static peal_table *written(struct plan_text p, write_plan_fn write)
{
    struct plan_part part = {write, BYTES};
    return table_of(ctx, p, &part, 1);
}

static peal_table *assembled(const char *text)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table = NULL;
    if (peal_table_assemble(ctx, text, strlen(text), "text", &diag, &table) != PEAL_OK) {
        fprintf(stderr, "%u: %s\n", diag.line, diag.text);
        exit(1);
    }
    return table;
}

#define NEAR "shm direct"

static peal_table *packets(void)
{
    return written((struct plan_text){.ranks = 3, .link = NEAR, .engine = "sm"}, write_oneshot);
}

static peal_table *ring(void)
{
    return written(
        (struct plan_text){
            .link = NEAR, .engine = "sm", .tile = 256, .depth = 2, .slot = 256, .ranks = 3},
        write_ring);
}

static peal_table *twoshot(void)
{
    return written((struct plan_text){.ranks = 3, .link = NEAR, .engine = "sm", .tile = 512},
                   write_twoshot);
}

static peal_table *spans(const char *engine, const char *link)
{
    return written(
        (struct plan_text){
            .ranks = 3, .link = link, .engine = engine, .tile = 256, .depth = 2, .slot = 256},
        write_spans);
}

static peal_table *near_spans(void)
{
    return spans("sm", NEAR);
}

static peal_table *far_spans(void)
{
    return spans("rdma", "net");
}

static peal_table *async(const char *engine)
{
    return written(
        (struct plan_text){
            .ranks = 3, .link = NEAR, .engine = engine, .tile = 2048, .depth = 2, .slot = 2048},
        write_async);
}

static peal_table *bulk(void)
{
    return async("tma");
}

static peal_table *copies(void)
{
    return async("ce");
}

/* Of each semaphore the host raises those of large messages, the kernel those of small ones. */
static peal_table *both(void)
{
    static const struct plan_part parts[] = {{write_ring, 1000}, {write_async, BYTES}};
    struct plan_text p = {
        .ranks = 3, .link = NEAR, .engine = "ce", .tile = 256, .depth = 2, .slot = 256};
    return table_of(ctx, p, parts, 2);
}

#define PAIR(name, rest)                                                                           \
    "peal-table 1 plan allreduce ranks 2 bytes 0..6000 algorithm " name " channels 1 chunks "      \
    "1 " rest

/* Whoever has the packet overwrites what it was made of. */
static peal_table *echo(void)
{
    return assembled(PAIR("echo", "semaphores 1 region packet width 1 depth 1 slot 6256 "
                                  "region scratch width 1 depth 1 slot 6256 "
                                  "link r0 -> r1 shm direct link r1 -> r0 shm direct "
                                  "rank 0 host 0 lane body copy c0: in[0] -> s1[0] sm "
                                  "put c0: s1[0] -> r1.p0[0]@1 sm wait r1.0 "
                                  "copy c0: s1[0] -> out[0] sm "
                                  "rank 1 host 0 lane body "
                                  "reduce c0: p0[0] in[0] -> out[0] sm final "
                                  "put c0: out[0] -> r0.s1[0]@2 sm signal r0.0 sm"));
}

/* Sources are used again when they are free, and signals follow what was awaited. */
static peal_table *awaited(void)
{
    return assembled(PAIR("awaited", "tile 256 semaphores 4 "
                                     "region scratch width 3 depth 1 slot 256 "
                                     "link r0 -> r1 shm direct link r1 -> r0 shm direct "
                                     "rank 0 host 0 lane body copy c0: in[0] -> s0[0] sm "
                                     "wait r1.1 lag 1 put c0: s0[0] -> r1.s0[1]@1 ce e0 "
                                     "signal r1.0 ce after e0 await e0 free "
                                     "lane body wait r1.2 copy c0: s0[2] -> out[0] sm "
                                     "signal r1.3 sm "
                                     "rank 1 host 0 lane body wait r0.0 "
                                     "reduce c0: s0[1] in[0] -> out[0] sm final signal r0.1 sm "
                                     "wait r0.3 lag 1 put c0: out[0] -> r0.s0[2]@2 ce e0 "
                                     "await e0 delivered signal r0.2 sm"));
}

/* The giver is ahead by as many tiles as there are slots. */
static peal_table *pipeline_of(const char *put, const char *signal)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   PAIR("pipeline", "tile 256 semaphores 3 "
                                    "region scratch width 1 depth 2 slot 256 "
                                    "link r0 -> r1 shm direct link r1 -> r0 shm direct "
                                    "rank 0 host 0 lane body wait r1.1 lag 2 "
                                    "put c0: in[0] -> r1.s0[0]@1 %s signal r1.0 %s "
                                    "lane body wait r1.2 "
                                    "rank 1 host 0 lane body wait r0.0 "
                                    "reduce c0: s0[0] in[0] -> out[0] r0.out[0]@2 sm final "
                                    "signal r0.1 sm signal r0.2 sm"),
                   put, signal);
    return assembled(text);
}

static peal_table *pipeline(void)
{
    return pipeline_of("sm", "sm");
}

static peal_table *copied_pipeline(void)
{
    return pipeline_of("ce e0", "ce after e0");
}

/* The last signal of a call, for which its rank does not wait, and the first of the next are of
 * different lanes. */
static peal_table *swapped(void)
{
#define SWAPPED(range, one, other)                                                                 \
    " plan allreduce ranks 2 bytes " range " algorithm swapped channels 1 chunks 1 semaphores 2 "  \
    "region scratch width 1 depth 1 slot 6256 "                                                    \
    "link r0 -> r1 shm direct link r1 -> r0 shm direct rank 0 host 0 " one other                   \
    "rank 1 host 0 lane body wait r0.0 reduce c0: s0[0] in[0] -> out[0] r0.out[0]@2 sm final "     \
    "signal r0.0 sm lane body wait r0.1"
#define GIVE "lane body put c0: in[0] -> r1.s0[0]@1 ce e0 signal r1.0 ce after e0 signal r1.1 ce "
#define TAKE "lane body wait r1.0 "
    return assembled("peal-table 1" SWAPPED("0..1000", GIVE, TAKE)
                         SWAPPED("1001..6000", TAKE, GIVE));
}

static peal_table *compiled(unsigned hosts, unsigned gpus, int collective, uint8_t engine)
{
    peal_fabric *fabric = coll_cluster(ctx, hosts, gpus);
    peal_request request = PEAL_REQUEST_INIT;
    peal_table *table;
    request.ranks = hosts * gpus;
    request.max_bytes = (uint64_t)request.ranks * BYTES;
    request.tile_bytes = 512;
    request.move_engine[PEAL_LINK_NVLINK] = (uint8_t)(engine + 1);
    if (collective < 0) {
        table = coll_all(ctx, fabric, request, 1);
    } else {
        request.collective = (peal_collective)collective;
        table = coll_table(ctx, fabric, &request);
    }
    peal_fabric_destroy(fabric);
    return table;
}

static peal_table *counts(void)
{
    return compiled(1, 3, PEAL_ALLTOALLV, PEAL_ENGINE_SM);
}

static peal_table *far_counts(void)
{
    return compiled(3, 1, PEAL_ALLTOALLV, PEAL_ENGINE_SM);
}

static peal_table *lanes(void)
{
    return compiled(1, 3, -1, PEAL_ENGINE_CE);
}

struct work {
    const char *name;
    peal_table *(*make)(void);
    unsigned width; /* threads of a block */
    int apart;      /* ranks do not reach each other */
};

enum {
    PACKETS,
    RING,
    TWOSHOT,
    SPANS,
    FAR_SPANS,
    BULK,
    COPIES,
    BOTH,
    ECHO_,
    AWAITED,
    COUNTS,
    FAR_COUNTS,
    LANES,
    PIPELINE,
    COPIED,
    SWAPPED_,
    MISMATCH,
    WRAP,
    WORKS
};

static const struct work works[WORKS] = {
    [PACKETS] = {"packets", packets, 1, 0},
    [RING] = {"ring", ring, 2, 0},
    [TWOSHOT] = {"twoshot", twoshot, 2, 0},
    [SPANS] = {"spans", near_spans, 2, 0},
    [FAR_SPANS] = {"far spans", far_spans, 1, 1},
    [BULK] = {"bulk copies", bulk, 1, 0},
    [COPIES] = {"copy engine", copies, 1, 0},
    [BOTH] = {"kernel and host", both, 1, 0},
    [ECHO_] = {"echo", echo, 1, 0},
    [AWAITED] = {"awaited", awaited, 1, 0},
    [COUNTS] = {"counts", counts, 1, 0},
    [FAR_COUNTS] = {"far counts", far_counts, 1, 1},
    [LANES] = {"many lanes", lanes, 1, 0},
    [PIPELINE] = {"pipeline", pipeline, 1, 0},
    [COPIED] = {"copied pipeline", copied_pipeline, 1, 0},
    [SWAPPED_] = {"lanes swapped", swapped, 1, 0},
    [MISMATCH] = {"another call", ring, 1, 0},
    [WRAP] = {"stamps forgotten", packets, 1, 0},
};

static struct coll_call call_of(const peal_table *table, int work, uint64_t *random, unsigned i)
{
    struct coll_call c = {.ranks = table->nranks, .dtype = PEAL_INT32, .salt = i};
    c.op = (peal_op)(emu_draw(random) % 2);
    c.collective = work == COUNTS || work == FAR_COUNTS ? PEAL_ALLTOALLV : PEAL_ALLREDUCE;
    do {
        if (work == LANES)
            c.collective = (peal_collective)(emu_draw(random) % PEAL_ALLTOALL);
        c.count = 100 + (size_t)(emu_draw(random) %
                                 ((work == BOTH || work == SWAPPED_) && i % 2 ? 100 : 1300));
    } while (!coll_served(table, &c));
    return c;
}

static int packets_left(const struct emu_world *world)
{
    const struct dev_layout *layout = &world->layout;
    for (uint32_t r = 0; r < world->nranks; r++)
        for (uint64_t i = 0; i < 2 * layout->packet_bytes; i++)
            if (world->ranks[r].arena[layout->packets + i])
                return 1;
    return 0;
}

/* 0: as it should be; else *problem says what is not. */
static int run_once(int work, const peal_table *table, uint64_t seed, char problem[1024])
{
    struct emu_world *world = emu_create(ctx, table, works[work].width, seed);
    struct device_memory *memory = device_memory_make(HALF);
    struct coll_call calls[DEVICE_CALLS];
    uint64_t random = seed;
    uint32_t ncalls = work == WRAP ? 4 : DEVICE_CALLS;
    memory->damage = work == MISMATCH;
    for (uint32_t i = 0; i < ncalls; i++)
        calls[i] = call_of(table, work, &random, i);
    for (uint32_t r = 0; r < world->nranks; r++) {
        for (uint32_t p = 0; works[work].apart && p < world->nranks; p++)
            if (p != r)
                world->ranks[r].peers[p].arena = 0;
        if (work == WRAP)
            world->ranks[r].state->call = 0x3fffffff;
    }
    int wrong = device_calls(world, calls, ncalls, memory, problem);
    if (work == MISMATCH) {
        wrong = !wrong || !strstr(problem, "another call");
        (void)snprintf(problem, 1024, "what differs is not reported");
    } else if (work == WRAP && !wrong && packets_left(world)) {
        wrong = 1;
        (void)snprintf(problem, 1024, "old packets are kept");
    }
    device_memory_free(memory);
    emu_destroy(world);
    return wrong;
}

/* In this process, `seeds` from `first` on; *problem as by run_once. */
static int run_work(int work, unsigned first, unsigned seeds, char problem[1024])
{
    int wrong = 0;
    ctx = test_ctx(&heap);
    peal_table *table = works[work].make();
    for (unsigned i = 0; i < seeds && !wrong; i++)
        wrong = run_once(work, table, (first + i) * 7919u, problem);
    peal_table_destroy(table);
    peal_ctx_destroy(ctx);
    return wrong;
}

#ifdef DEVICE_CHILD

/* Under the thread sanitizer: the error's number, and where it is looked for. */
int main(int argc, char **argv)
{
    char problem[1024] = "";
    if (argc != 3)
        return 2;
    emu_bug = atoi(argv[1]);
    /* What is wrong besides is not its matter. */
    (void)run_work(atoi(argv[2]), 1, 3, problem);
    return 0;
}

#else

#include <check.h>

/* ---- the errors */

enum finder { MODEL, EMULATOR, SANITIZER };
#define FINDERS 3u
static const char *const finders[FINDERS] = {"model", "emulator", "sanitizer"};

struct bug {
    int number;
    int work;       /* where the emulator and the sanitizer look for it */
    enum finder by; /* who finds it soonest */
    const char *what;
};

static const struct bug bugs[] = {
    {1, RING, SANITIZER, "a semaphore is raised by a relaxed store"},
    {2, RING, SANITIZER, "a semaphore is read by a relaxed load"},
    {3, RING, EMULATOR, "a signal does not wait for the block's other threads"},
    {4, RING, EMULATOR, "the block's other threads do not wait for a wait"},
    {5, BULK, EMULATOR, "a signal before its bulk copy is delivered"},
    {6, ECHO_, SANITIZER, "packets are read by relaxed loads"},
    {7, ECHO_, SANITIZER, "packets are stored by relaxed stores"},
    {8, SWAPPED_, EMULATOR, "a signal of another lane's ring overtakes"},
    {9, PACKETS, MODEL, "a packet's header is stored by a relaxed store"},
    {10, PACKETS, MODEL, "a packet's header is read by a relaxed load"},
    {11, PACKETS, EMULATOR, "stamps of packets are not looked at"},
    {12, PACKETS, EMULATOR, "the epoch is not advanced"},
    {13, RING, MODEL, "scratch is the same in every call"},
    {14, PIPELINE, EMULATOR, "a slot is written before it was given back"},
    {15, RING, EMULATOR, "a wait is not counted"},
    {16, MISMATCH, EMULATOR, "digests are not compared"},
    {17, BULK, EMULATOR, "a stage is loaded again before the store has read it"},
    {18, BULK, EMULATOR, "an mbarrier's phase is not turned"},
    {19, BULK, EMULATOR, "a stage is stored from before it is loaded"},
    {20, BULK, EMULATOR, "delivered does not wait for bulk stores"},
    {22, COPIES, SANITIZER, "an order's turn is stored by a relaxed store"},
    {23, COPIES, MODEL, "an order overwrites one that was not taken"},
    {24, COPIES, EMULATOR, "a signal to the host forgets its transfer"},
    {25, COPIED, EMULATOR, "a signal to the host follows the transfer before"},
    {26, AWAITED, EMULATOR, "free is taken for delivered"},
    {27, AWAITED, SANITIZER, "delivered is read by a relaxed load"},
    {28, COPIED, EMULATOR, "an event is used again while its transfer is under way"},
    {29, BOTH, MODEL, "a signal of the kernel overtakes one of the host"},
    {30, TWOSHOT, EMULATOR, "buffers are posted after the call"},
    {31, COUNTS, EMULATOR, "a count is told behind its signal"},
    {32, COUNTS, EMULATOR, "a count is learnt before its signal"},
    {33, PIPELINE, EMULATOR, "all trips use one slot"},
    {34, RING, EMULATOR, "operands are used before all are found"},
    {35, SPANS, EMULATOR, "operands are replaced while others use them"},
    {36, FAR_SPANS, EMULATOR, "a flag is sent on another queue pair than the data"},
    {37, AWAITED, EMULATOR, "the host says delivered before it has written"},
    {38, AWAITED, EMULATOR, "the host says free before it has read"},
    {39, LANES, EMULATOR, "the first lane to end ends the call"},
    {40, COUNTS, MODEL, "counts are told in the same place in every call"},
    {41, FAR_COUNTS, EMULATOR, "the host raises a signal before the count is stored"},
    {42, WRAP, EMULATOR, "old stamps are not forgotten"},
    {43, COPIED, EMULATOR, "the host raises signals in any order"},
};
#define BUGS (sizeof bugs / sizeof bugs[0])

/* ---- who finds them: each in a process of its own, as an error may do anything */

#define SEEDS 12u
#define ROUNDS 25u
#define AT_ONCE 2u

struct hunt {
    const struct bug *bug;
    enum finder by;
    unsigned first; /* seed of the emulator, */
    unsigned seeds; /* and how many */
    pid_t child;
    int from; /* what it says */
    int done;
    int found; /* -1: there is no such finder here */
    char how[128];
};

/* Check has a handler of its own for this signal, which ends all. */
static void end_late(void)
{
    (void)signal(SIGALRM, SIG_DFL);
    (void)alarm(60);
}

static int model_finds(int bug)
{
    uint32_t wrong = 0;
    for (size_t i = 0; i < LITMUS_COUNT && !wrong; i++) {
        struct litmus program = litmus_all[i](bug);
        wrong += litmus_check(&program, NULL) != 0;
    }
    return wrong != 0;
}

static _Noreturn void emulate(const struct hunt *hunt, int to)
{
    char problem[1024] = "";
    emu_bug = hunt->bug->number;
    end_late();
    if (!freopen("/dev/null", "w", stderr))
        _exit(3);
    int wrong = run_work(hunt->bug->work, hunt->first, hunt->seeds, problem);
    if (wrong && write(to, problem, strlen(problem)) < 0)
        _exit(3);
    _exit(wrong);
}

static void sanitizer_path(char path[4096])
{
    const char *build = getenv("PEAL_BUILD");
    (void)snprintf(path, 4096, "%s/tests/device_bugs_tsan", build ? build : ".");
}

/* Its report is read by nobody: no names are looked up for it. */
static _Noreturn void sanitize(const struct hunt *hunt)
{
    char program[4096], number[16], work[16];
    sanitizer_path(program);
    (void)snprintf(number, sizeof number, "%d", hunt->bug->number);
    (void)snprintf(work, sizeof work, "%d", hunt->bug->work);
    (void)alarm(60);
    (void)setenv("TSAN_OPTIONS", "halt_on_error=1 exitcode=66 report_bugs=1 symbolize=0", 1);
    if (!freopen("/dev/null", "w", stderr))
        _exit(3);
    (void)execl(program, program, number, work, (char *)NULL);
    _exit(3);
}

static int is_here(enum finder by)
{
    char program[4096];
    sanitizer_path(program);
    return by != SANITIZER || access(program, X_OK) == 0;
}

static void begin(struct hunt *hunt)
{
    int ends[2];
    hunt->found = -1;
    hunt->done = !is_here(hunt->by);
    if (hunt->done)
        return;
    if (pipe(ends) != 0)
        exit(1);
    (void)fflush(stdout);
    hunt->child = fork();
    if (hunt->child < 0)
        exit(1);
    if (hunt->child == 0 && hunt->by == MODEL)
        _exit(model_finds(hunt->bug->number));
    if (hunt->child == 0 && hunt->by == EMULATOR)
        emulate(hunt, ends[1]);
    if (hunt->child == 0)
        sanitize(hunt);
    (void)close(ends[1]);
    hunt->from = ends[0];
}

static void end(struct hunt *hunt, int status)
{
    ssize_t got = read(hunt->from, hunt->how, sizeof hunt->how - 1);
    hunt->how[got > 0 ? got : 0] = '\0';
    (void)close(hunt->from);
    if (WIFSIGNALED(status))
        (void)snprintf(hunt->how, sizeof hunt->how, "signal %d", WTERMSIG(status));
    hunt->found =
        hunt->by == SANITIZER ? WIFEXITED(status) && WEXITSTATUS(status) == RACE : status != 0;
    hunt->done = 1;
}

/* One of those that run comes to its end. */
static void end_one(struct hunt *hunts, size_t count)
{
    int status;
    pid_t child = waitpid(-1, &status, 0);
    for (size_t i = 0; i < count; i++)
        if (hunts[i].child == child && !hunts[i].done)
            end(&hunts[i], status);
}

static void run_all(struct hunt *hunts, size_t count)
{
    size_t begun = 0, ended = 0;
    while (ended < count) {
        for (; begun < count && begun - ended < AT_ONCE; begun++)
            begin(&hunts[begun]);
        if (begun > ended)
            end_one(hunts, begun);
        ended = 0;
        for (size_t i = 0; i < begun; i++)
            ended += hunts[i].done != 0;
    }
}

static struct hunt hunt_of(const struct bug *bug, enum finder by)
{
    return (struct hunt){.bug = bug, .by = by, .first = 1, .seeds = SEEDS};
}

/* What an error does is up to the operating system's schedule too: one that nobody has found is
 * looked for by all, and then by the emulator with other seeds. */
static struct hunt hunt_on(const struct bug *bug)
{
    struct hunt hunts[FINDERS];
    for (unsigned i = 0; i < FINDERS; i++)
        hunts[i] = hunt_of(bug, (enum finder)i);
    run_all(hunts, FINDERS);
    for (unsigned i = 0; i < FINDERS; i++)
        if (hunts[i].found > 0)
            return hunts[i];
    struct hunt hunt = hunts[EMULATOR];
    for (unsigned i = 1; i < ROUNDS && hunt.found <= 0 && is_here(SANITIZER); i++) {
        hunt = hunt_of(bug, EMULATOR);
        hunt.first += i * SEEDS;
        run_all(&hunt, 1);
    }
    return hunt;
}

START_TEST(without_an_error_none_complains)
{
    static struct bug none[WORKS];
    static struct hunt hunts[2 * WORKS];
    for (int work = 0; work < WORKS; work++) {
        none[work] = (struct bug){.work = work};
        hunts[2 * work] = hunt_of(&none[work], EMULATOR);
        hunts[2 * work].seeds = 6;
        hunts[2 * work + 1] = hunt_of(&none[work], SANITIZER);
    }
    run_all(hunts, 2 * WORKS);
    for (size_t i = 0; i < 2 * WORKS; i++)
        ck_assert_msg(hunts[i].found <= 0, "%s: the %s: %s", works[hunts[i].bug->work].name,
                      finders[hunts[i].by], hunts[i].how);
    for (size_t i = 0; i < LITMUS_COUNT; i++) {
        uint32_t states;
        struct litmus program = litmus_all[i](0);
        ck_assert_msg(litmus_check(&program, &states) == 0, "%s", program.name);
        printf("model: %s: %u states, all right\n", program.name, states);
    }
}
END_TEST

START_TEST(every_error_is_found)
{
    static struct hunt hunts[BUGS];
    unsigned missed = 0, found[FINDERS] = {0};
    for (size_t i = 0; i < BUGS; i++)
        hunts[i] = hunt_of(&bugs[i], bugs[i].by);
    run_all(hunts, BUGS);
    printf("%-64s %-10s how\n", "error", "found by");
    for (size_t i = 0; i < BUGS; i++) {
        if (hunts[i].found <= 0)
            hunts[i] = hunt_on(&bugs[i]);
        printf("%2d %-61s %-10s %.70s\n", bugs[i].number, bugs[i].what,
               hunts[i].found > 0 ? finders[hunts[i].by] : "nobody", hunts[i].how);
        missed += hunts[i].found <= 0 && is_here(SANITIZER);
        found[hunts[i].by] += hunts[i].found > 0;
    }
    printf("%zu errors: %u by the model, %u by the emulator, %u by the sanitizer, %u by nobody\n",
           BUGS, found[MODEL], found[EMULATOR], found[SANITIZER], missed);
    ck_assert_uint_eq(missed, 0);
}
END_TEST

/* PEAL_BUGS=all: who of all finds which, and how long each takes. */
START_TEST(all_look_for_all)
{
    if (!getenv("PEAL_BUGS"))
        return;
    for (size_t i = 0; i < BUGS; i++) {
        printf("%2d %-61s", bugs[i].number, bugs[i].what);
        for (unsigned by = 0; by < FINDERS; by++) {
            struct timespec from, to;
            struct hunt hunt = hunt_of(&bugs[i], (enum finder)by);
            (void)clock_gettime(CLOCK_MONOTONIC, &from);
            run_all(&hunt, 1);
            (void)clock_gettime(CLOCK_MONOTONIC, &to);
            printf(" %s %s %.2f s", finders[by], hunt.found > 0 ? "yes" : "no",
                   (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9);
        }
        printf("\n");
        (void)fflush(stdout);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_bugs");
    TCase *tests = tcase_create("bugs");
    tcase_add_test(tests, without_an_error_none_complains);
    tcase_add_test(tests, every_error_is_found);
    tcase_add_test(tests, all_look_for_all);
    tcase_set_timeout(tests, 280);
    suite_add_tcase(suite, tests);
    return run_suite(suite, CK_NOFORK);
}

#endif
