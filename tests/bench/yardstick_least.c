/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that a program written by hand does for each collective, with the callers' private
 * buffers: a contender of the yardstick (bench.h, outside of this tree). No plan, no checks, no
 * errors, no deadlines; ranks that die hang the others. What this does not reach, no library does
 * that has these ways to choose from.
 *
 * BENCH_LEAST names the way, and behind a '+' what goes with it:
 *   lines   what fits in LINES_BYTES is sent as lines of 56 bytes and a stamp, which a processor
 *           with AVX-512 stores at once: no flag, and no barrier, as two copies take turns. More
 *           goes as slots.
 *   slots   through slots that all map, tile by tile, copied in, and out by those who are to have
 *           it: what a tile overwrites has been taken by then, as nobody is more than a tile ahead
 *   attach  read out of the peer's buffer by the kernel (process_vm_readv), as one call each
 *   write   written into the peer's buffer by the kernel
 *   mixed   the first half written, the second one read
 *   splice  two ranks: pages lent to a pipe (vmsplice) and read out of it
 *   +nt     stores to outputs go around the caches
 *   +back   every second call goes backwards
 *   +early  the own block is copied before peers are waited for, not behind all
 *   +split  one half of it is copied before, the other one behind: both waits have company
 *   +weave  attached to by tiles, each behind one of the own block
 *   +huge   the kernel is asked to make large pages of the caller's buffers: what a program may do
 *           with its own, and a library only if told to
 *   @N      tiles of N KiB
 */
#define _GNU_SOURCE
#include "bench.h"
#include "kern.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST 8 /* ranks */
#define RING 4 /* tiles in flight: see exchange() */
#define TILE_MOST (1u << 20)
#define LINE 64u
#define LINE_DATA 56u
#define LINES 160u        /* of a rank in one call, */
#define LINES_BYTES 8192u /* which is this much, with one more for each block */
#define ONE_SHOT 8192u    /* every rank reduces all of as much */
#define CAST_LINES 32     /* broadcasts by lines that a root is ahead at most */
#define CAST_TILES 8      /* tiles of broadcasts, the same */
#define POLLS 400u        /* of another processor's ranks, before others of the own one go on */

struct word {
    _Alignas(2 * LINE) atomic_uint n;
};

enum count { ENTERED, FOLDED, LEFT, COUNTS };

struct shared {
    struct word count[COUNTS][2][MOST]; /* by turns, by the first rank of a processor for all */
    struct word sent;                   /* of broadcasts: tiles; */
    struct word got[2][MOST];           /* calls by lines, and tiles */
    struct {
        _Alignas(2 * LINE) char *in;
        char *out;
        pid_t pid;
        int pipe[MOST][2];
    } who[MOST];
    _Alignas(4096) char lines[2][MOST][LINES * LINE];
    _Alignas(4096) char cast_lines[CAST_LINES][LINES * LINE];
    _Alignas(4096) char cast_tiles[CAST_TILES][TILE_MOST];
    _Alignas(4096) char in[RING][MOST * (TILE_MOST + LINE)];
    _Alignas(4096) char folded[RING][MOST * (TILE_MOST + LINE)];
};

static struct shared *all;
static enum way { LINEWISE, SLOTS, ATTACH, WRITE, MIXED, SPLICE } way;
static int around, turns, early, splits, weaves, huge;
static size_t tile_bytes = 64u << 10;

static int me, ranks;
static int home[MOST], members[MOST], processors[MOST], nprocessors;
static unsigned told[COUNTS], tiles, stamp, cast[2], calls;
static int backward, pipe_from[MOST];

/* ---- waiting */

/* near: a rank of this processor is waited for. */
static void idle(int near, unsigned *polls)
{
    ++*polls;
    if (ranks > nprocessors ? near || *polls % POLLS == 0 : *polls > 20000)
        (void)sched_yield();
    else
        _mm_pause();
}

/* Ranks may be two times ahead of others on their processor: two counts take turns. */
static void arrive(enum count what)
{
    unsigned time = told[what]++;
    atomic_uint *count = &all->count[what][time % 2][home[me]].n;
    if (members[home[me]] == 1)
        atomic_store_explicit(count, time / 2 + 1, memory_order_release);
    else
        (void)atomic_fetch_add_explicit(count, 1, memory_order_release);
}

static int has_come(enum count what, int processor, unsigned times)
{
    const struct word *word = &all->count[what][(times - 1) % 2][processor];
    unsigned count = atomic_load_explicit(&word->n, memory_order_acquire);
    return (int)(count - ((times - 1) / 2 + 1) * (unsigned)members[processor]) >= 0;
}

static void wait_all(enum count what, unsigned times)
{
    for (unsigned polls = 0;;) {
        int here = has_come(what, home[me], times), come = here;
        for (int i = 0; i < nprocessors; i++)
            come = come && (processors[i] == home[me] || has_come(what, processors[i], times));
        if (come)
            return;
        idle(!here, &polls);
    }
}

static void wait_word(const struct word *word, unsigned n, int rank)
{
    for (unsigned polls = 0; (int)(atomic_load_explicit(&word->n, memory_order_acquire) - n) < 0;)
        idle(home[rank] == home[me], &polls);
}

static int other(int i)
{
    int rank = me + i;
    return rank < ranks ? rank : rank - ranks;
}

/* ---- copies */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void give(char *to, const char *from, size_t bytes)
{
    if (around && bytes >= 4096 && ((uintptr_t)to & (LINE - 1)) == 0)
        copynt(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

/* By pieces, the last one first. */
static void give_own(char *to, const char *from, size_t bytes)
{
    size_t piece = backward && bytes > tile_bytes ? tile_bytes : bytes, at = bytes;
    while (at) {
        size_t part = at % piece ? at % piece : piece;
        at -= part;
        give(to + at, from + at, part);
    }
}

/* ---- lines */

static __mmask64 first(size_t bytes)
{
    return bytes >= LINE_DATA ? ((__mmask64)1 << LINE_DATA) - 1 : ((__mmask64)1 << bytes) - 1;
}

static char *put_lines(char *to, const char *from, size_t bytes, unsigned long long mark)
{
    for (size_t at = 0; at < bytes; at += LINE_DATA, to += LINE) {
        __m512i line = _mm512_maskz_loadu_epi8(first(bytes - at), from + at);
        _mm512_store_si512((void *)to, _mm512_mask_set1_epi64(line, 0x80, (long long)mark));
    }
    return to;
}

static void take_lines(char *to, const char *from, size_t bytes, unsigned long long mark, int rank)
{
    unsigned polls = 0;
    __m512i marks = _mm512_set1_epi64((long long)mark);
    for (size_t at = 0; at < bytes; at += LINE_DATA, from += LINE) {
        __m512i line = _mm512_load_si512((const void *)from);
        while (!_mm512_mask_cmpeq_epi64_mask(0x80, line, marks)) {
            idle(home[rank] == home[me], &polls);
            line = _mm512_load_si512((const void *)from);
            __asm__ volatile("" : "+v"(line) : : "memory");
        }
        _mm512_mask_storeu_epi8(to + at, first(bytes - at), line);
    }
}

static size_t line_room(size_t bytes)
{
    return (bytes + LINE_DATA - 1) / LINE_DATA * LINE;
}

/* Blocks of a rank for each other: the same for all where `same`. */
static int by_lines(size_t block, int same)
{
    size_t room = line_room(block) * (size_t)(same ? 1 : ranks);
    return way == LINEWISE && room <= (size_t)LINES * LINE;
}

static void lines_put(const char *in, size_t block, int same)
{
    char *box = all->lines[++stamp & 1][me];
    if (same) {
        (void)put_lines(box, in, block, stamp);
        return;
    }
    for (int i = 1; i < ranks; i++)
        (void)put_lines(box + line_room(block) * (size_t)other(i), in + block * (size_t)other(i),
                        block, stamp);
}

static void lines_take(char *to, int rank, size_t block, int same)
{
    const char *box = all->lines[stamp & 1][rank];
    take_lines(to, box + (same ? 0 : line_room(block) * (size_t)me), block, stamp, rank);
}

static void lines_move(const char *in, char *out, size_t block, int same)
{
    size_t mine = block * (size_t)me;
    lines_put(in, block, same);
    if (early)
        memcpy(out + mine, in + (same ? 0 : mine), block);
    for (int i = 1; i < ranks; i++)
        lines_take(out + block * (size_t)other(i), other(i), block, same);
    if (!early)
        memcpy(out + mine, in + (same ? 0 : mine), block);
}

static void lines_fold(const char *in, char *out, size_t block, int same)
{
    static _Alignas(LINE) char taken[MOST][LINES * LINE];
    float *from[MOST], *to[1] = {(float *)(void *)out};
    lines_put(in, block, same);
    for (int r = 0; r < ranks; r++) {
        from[r] = (float *)(void *)taken[r];
        if (r == me)
            from[r] = (float *)(uintptr_t)(in + (same ? 0 : block * (size_t)me));
    }
    for (int i = 1; i < ranks; i++)
        lines_take(taken[other(i)], other(i), block, same);
    fuse(from, to, ranks, 1, 0, block / sizeof(float), 0);
}

/* ---- slots
 *
 * Tile t of a call is copied in, and the one before it copied out. Who copies tile t + RING in has
 * seen all enter t + 2, and so come back from t: nobody needs to tell that he has taken a tile. */

enum kind { GATHER, EXCHANGE, SCATTER };

struct job {
    enum kind kind;
    char *in, *out;
    size_t block, tile, parts;
};

static size_t tile_of(size_t block, size_t blocks)
{
    size_t tile = tile_bytes / blocks & ~(size_t)(LINE - 1);
    return least(tile ? tile : LINE, block);
}

static size_t nth(size_t t, size_t parts)
{
    return backward ? parts - 1 - t : t;
}

static char *slot(char (*ring)[MOST * (TILE_MOST + LINE)], size_t t, int rank, size_t tile,
                  int block)
{
    return ring[(tiles + t) % RING] + (size_t)rank * (TILE_MOST + LINE) + tile * (size_t)block;
}

static void copy_in(const struct job *job, size_t t)
{
    size_t at = nth(t, job->parts) * job->tile, bytes = least(job->tile, job->block - at);
    if (job->kind == GATHER)
        memcpy(slot(all->in, t, me, job->tile, 0), job->in + at, bytes);
    else
        for (int i = 1; i < ranks; i++)
            memcpy(slot(all->in, t, me, job->tile, other(i)),
                   job->in + job->block * (size_t)other(i) + at, bytes);
    arrive(ENTERED);
    size_t mine = job->block * (size_t)me + at;
    if (early && job->kind != SCATTER)
        give(job->out + mine, job->in + (job->kind == GATHER ? at : mine), bytes);
}

static void fold_slots(char *in, char *out, size_t t, size_t tile, int block, size_t bytes, int nt)
{
    float *from[MOST], *to[1] = {(float *)(void *)out};
    for (int r = 0; r < ranks; r++)
        from[r] = (float *)(void *)(r == me ? in : slot(all->in, t, r, tile, block));
    fuse(from, to, ranks, 1, 0, bytes / sizeof(float), nt);
}

static void copy_out(const struct job *job, size_t t)
{
    size_t at = nth(t, job->parts) * job->tile, bytes = least(job->tile, job->block - at);
    size_t mine = job->block * (size_t)me + at;
    wait_all(ENTERED, tiles + (unsigned)t + 1);
    if (job->kind == SCATTER) {
        fold_slots(job->in + mine, job->out + at, t, job->tile, me, bytes, around);
        return;
    }
    for (int i = 1; i < ranks; i++)
        give(job->out + job->block * (size_t)other(i) + at,
             slot(all->in, t, other(i), job->tile, job->kind == GATHER ? 0 : me), bytes);
    if (!early)
        give(job->out + mine, job->in + (job->kind == GATHER ? at : mine), bytes);
}

static void exchange(enum kind kind, char *in, char *out, size_t block)
{
    size_t tile = tile_of(block, kind == GATHER ? 1 : (size_t)ranks);
    struct job job = {kind, in, out, block, tile, (block + tile - 1) / tile};
    for (size_t t = 0; t <= job.parts; t++) {
        if (t < job.parts)
            copy_in(&job, t);
        if (t > 0)
            copy_out(&job, t - 1);
    }
    tiles += (unsigned)job.parts;
}

/* Each rank reduces one part of each tile: into its output, and a slot for the others. */
static void fold_part(const struct job *job, size_t t)
{
    size_t at = nth(t, job->parts) * job->tile, bytes = least(job->tile, job->block - at);
    size_t mine = job->block * (size_t)me + at;
    char *result = slot(all->folded, t, me, 0, 0);
    wait_all(ENTERED, tiles + (unsigned)t + 1);
    fold_slots(job->in + mine, result, t, job->tile, me, bytes, 0);
    arrive(FOLDED);
    give(job->out + mine, result, bytes);
}

static void spread_part(const struct job *job, size_t t, unsigned folded)
{
    size_t at = nth(t, job->parts) * job->tile, bytes = least(job->tile, job->block - at);
    wait_all(FOLDED, folded + (unsigned)t + 1);
    for (int i = 1; i < ranks; i++)
        give(job->out + job->block * (size_t)other(i) + at, slot(all->folded, t, other(i), 0, 0),
             bytes);
}

static void two_shot(char *in, char *out, size_t block)
{
    size_t tile = tile_of(block, (size_t)ranks);
    struct job job = {SCATTER, in, out, block, tile, (block + tile - 1) / tile};
    unsigned folded = told[FOLDED];
    for (size_t t = 0; t <= job.parts + 1; t++) {
        if (t < job.parts)
            copy_in(&job, t);
        if (t > 0 && t <= job.parts)
            fold_part(&job, t - 1);
        if (t > 1)
            spread_part(&job, t - 2, folded);
    }
    tiles += (unsigned)job.parts;
}

static void one_shot(char *in, char *out, size_t bytes)
{
    memcpy(slot(all->in, 0, me, 0, 0), in, bytes);
    arrive(ENTERED);
    wait_all(ENTERED, tiles + 1);
    fold_slots(in, out, 0, 0, 0, bytes, 0);
    tiles++;
}

/* ---- the kernel */

static void move(int rank, int writes, char *here, char *there, size_t bytes)
{
    while (bytes) {
        struct iovec mine = {here, bytes}, theirs = {there, bytes};
        ssize_t moved = writes ? process_vm_writev(all->who[rank].pid, &mine, 1, &theirs, 1, 0)
                               : process_vm_readv(all->who[rank].pid, &mine, 1, &theirs, 1, 0);
        if (moved <= 0)
            exit(1);
        here += moved, there += moved, bytes -= (size_t)moved;
    }
}

static void enter(char *in, char *out)
{
    all->who[me].in = in;
    all->who[me].out = out;
    arrive(ENTERED);
    tiles++;
}

static void leave(void)
{
    arrive(LEFT);
    wait_all(LEFT, told[LEFT]);
}

/* What is written of a block; the rest is read. */
static size_t written(size_t block)
{
    return way == WRITE ? block : way == MIXED ? block / 2 & ~(size_t)4095 : 0;
}

/* [at, at + bytes) of the blocks for each other. */
static void reach_blocks(int rank, const struct job *job, size_t at, size_t bytes)
{
    size_t mine = job->block * (size_t)me, theirs = job->block * (size_t)rank;
    size_t w = written(bytes), end = at + w;
    char *to = all->who[rank].out + mine, *from = all->who[rank].in;
    move(rank, 1, job->in + (job->kind == GATHER ? 0 : theirs) + at, to + at, w);
    move(rank, 0, job->out + theirs + end, from + (job->kind == GATHER ? 0 : mine) + end,
         bytes - w);
}

static void own_piece(const struct job *job, size_t at, size_t bytes)
{
    size_t mine = job->block * (size_t)me;
    give_own(job->out + mine + at, job->in + (job->kind == GATHER ? 0 : mine) + at, bytes);
}

/* Pieces of the own block are copied in between, when peers read what is near. */
static void weave_blocks(const struct job *job)
{
    for (size_t t = 0; t < job->parts; t++) {
        size_t at = nth(t, job->parts) * job->tile, bytes = least(job->tile, job->block - at);
        own_piece(job, at, bytes);
        if (t == 0)
            wait_all(ENTERED, tiles);
        for (int i = 1; i < ranks; i++)
            reach_blocks(other(backward ? ranks - i : i), job, at, bytes);
    }
    leave();
}

static void attach(enum kind kind, char *in, char *out, size_t block)
{
    size_t tile = least(tile_bytes, block);
    struct job job = {kind, in, out, block, tile, (block + tile - 1) / tile};
    size_t before = early ? block : splits ? block / 2 & ~(size_t)(LINE - 1) : 0;
    enter(in, out);
    if (weaves && job.parts > 1) {
        weave_blocks(&job);
        return;
    }
    own_piece(&job, 0, before);
    wait_all(ENTERED, tiles);
    for (int i = 1; i < ranks; i++)
        reach_blocks(other(backward ? ranks - i : i), &job, 0, block);
    arrive(LEFT);
    own_piece(&job, before, block - before);
    wait_all(LEFT, told[LEFT]);
}

/* A part is folded by pieces that lie in a core's own cache. */
static void attach_fold(char *in, char *out, size_t block)
{
    static _Alignas(LINE) char taken[MOST][32768];
    size_t piece = sizeof taken[0], parts = (block + piece - 1) / piece;
    float *from[MOST], *to[1];
    for (size_t t = 0; t < parts; t++) {
        size_t at = nth(t, parts) * piece, bytes = least(piece, block - at);
        size_t mine = block * (size_t)me + at;
        for (int r = 0; r < ranks; r++) {
            from[r] = (float *)(void *)(r == me ? in + mine : taken[r]);
            if (r != me)
                move(r, 0, taken[r], all->who[r].in + mine, bytes);
        }
        to[0] = (float *)(void *)(out + at);
        fuse(from, to, ranks, 1, 0, bytes / sizeof(float), around);
    }
}

static void attach_reduce(char *in, char *out, size_t block, int scatters)
{
    enter(in, out);
    wait_all(ENTERED, tiles);
    attach_fold(in, scatters ? out : out + block * (size_t)me, block);
    if (!scatters) {
        arrive(FOLDED);
        wait_all(FOLDED, told[FOLDED]);
        for (int i = 1; i < ranks; i++) {
            size_t theirs = block * (size_t)other(i);
            move(other(i), 0, out + theirs, all->who[other(i)].out + theirs, block);
        }
    }
    leave();
}

/* ---- pipes */

#define LENT ((size_t)512 << 10)

static void meet_pipes(void)
{
    char path[64];
    for (int r = 0; r < ranks; r++)
        if (r != me && pipe2(all->who[me].pipe[r], O_NONBLOCK) == 0)
            (void)fcntl(all->who[me].pipe[r][1], F_SETPIPE_SZ, 1 << 20);
    ctl_barrier();
    for (int r = 0; r < ranks && way == SPLICE; r++) {
        (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)all->who[r].pid,
                       all->who[r].pipe[me][0]);
        pipe_from[r] = r == me ? -1 : open(path, O_RDONLY | O_NONBLOCK);
    }
    ctl_barrier();
}

static void lend(int rank, char *from, size_t bytes)
{
    while (bytes) {
        struct iovec pages = {from, bytes};
        ssize_t lent = vmsplice(all->who[me].pipe[rank][1], &pages, 1, 0);
        if (lent > 0)
            from += lent, bytes -= (size_t)lent;
    }
}

static void receive(int fd, char *to, size_t bytes)
{
    while (bytes) {
        ssize_t got = read(fd, to, bytes);
        if (got > 0)
            to += got, bytes -= (size_t)got;
    }
}

static void by_pipe(enum kind kind, char *in, char *out, size_t block)
{
    size_t mine = block * (size_t)me, theirs = block * (size_t)(1 - me);
    for (size_t at = 0; at < block; at += LENT) {
        size_t bytes = least(LENT, block - at);
        lend(1 - me, in + (kind == GATHER ? 0 : theirs) + at, bytes);
        receive(pipe_from[1 - me], out + theirs + at, bytes);
    }
    arrive(LEFT);
    give_own(out + mine, in + (kind == GATHER ? 0 : mine), block);
    wait_all(LEFT, told[LEFT]);
}

/* ---- broadcast: rank 0 need not wait for who is not a ring behind */

enum cast { BY_LINES, BY_TILES };

static unsigned next_place(enum cast what, unsigned ring)
{
    unsigned n = ++cast[what];
    if (me == 0 && n % (ring / 2) == 0)
        for (int r = 1; r < ranks; r++)
            wait_word(&all->got[what][r], n - ring / 2 - 1, r);
    return n;
}

static void took(enum cast what, unsigned ring)
{
    if (cast[what] % (ring / 2) == ring / 2 - 1)
        atomic_store_explicit(&all->got[what][me].n, cast[what], memory_order_release);
}

static void cast_lines(char *data, size_t bytes)
{
    unsigned n = next_place(BY_LINES, CAST_LINES);
    char *box = all->cast_lines[n % CAST_LINES];
    if (me == 0) {
        (void)put_lines(box, data, bytes, n);
        return;
    }
    take_lines(data, box, bytes, n, 0);
    took(BY_LINES, CAST_LINES);
}

static void cast_slots(char *data, size_t bytes)
{
    size_t parts = (bytes + tile_bytes - 1) / tile_bytes;
    for (size_t t = 0; t < parts; t++) {
        unsigned n = next_place(BY_TILES, CAST_TILES);
        size_t at = nth(t, parts) * tile_bytes, size = least(tile_bytes, bytes - at);
        char *box = all->cast_tiles[n % CAST_TILES];
        if (me == 0) {
            memcpy(box, data + at, size);
            atomic_store_explicit(&all->sent.n, n, memory_order_release);
            continue;
        }
        wait_word(&all->sent, n, 0);
        give(data + at, box, size);
        took(BY_TILES, CAST_TILES);
    }
}

/* Rank 0 writes as much to the ranks of other processors as leaves all of these the same to do. */
static void cast_attach(char *data, size_t bytes)
{
    size_t w = way == ATTACH ? 0 : bytes / (size_t)ranks & ~(size_t)4095;
    enter(data, data);
    if (me != 0 || w)
        wait_all(ENTERED, tiles);
    for (int r = 1; me == 0 && w && r < ranks; r++)
        if (home[r] != home[0])
            move(r, 1, data, all->who[r].out, w);
    if (me != 0) {
        size_t from = home[me] == home[0] ? 0 : w;
        move(0, 0, data + from, all->who[0].in + from, bytes - from);
    }
    arrive(LEFT);
    if (me == 0 || w)
        wait_all(LEFT, told[LEFT]);
}

/* ---- the contender */

static void begin(void)
{
    backward = turns && ++calls % 2;
}

static int by_kernel(void)
{
    return way == ATTACH || way == WRITE || way == MIXED;
}

static void move_blocks(enum kind kind, void *in, void *out, size_t block)
{
    begin();
    if (by_lines(block, kind == GATHER))
        lines_move(in, out, block, kind == GATHER);
    else if (by_kernel())
        attach(kind, in, out, block);
    else if (way == SPLICE && ranks == 2)
        by_pipe(kind, in, out, block);
    else
        exchange(kind, in, out, block);
}

static void allgather(void *in, void *out, size_t block)
{
    move_blocks(GATHER, in, out, block);
}

static void alltoall(void *in, void *out, size_t block)
{
    move_blocks(EXCHANGE, in, out, block);
}

static void allreduce(void *in, void *out, size_t bytes)
{
    begin();
    if (bytes <= ONE_SHOT && by_lines(bytes, 1))
        lines_fold(in, out, bytes, 1);
    else if (bytes <= ONE_SHOT)
        one_shot(in, out, bytes);
    else if (by_kernel())
        attach_reduce(in, out, bytes / (size_t)ranks, 0);
    else
        two_shot(in, out, bytes / (size_t)ranks);
}

static void reduce_scatter(void *in, void *out, size_t bytes)
{
    size_t block = bytes / (size_t)ranks;
    begin();
    if (by_lines(block, 0))
        lines_fold(in, out, block, 0);
    else if (by_kernel())
        attach_reduce(in, out, block, 1);
    else
        exchange(SCATTER, in, out, block);
}

static void broadcast(void *data, size_t bytes)
{
    begin();
    if (by_lines(bytes, 1))
        cast_lines(data, bytes);
    else if (by_kernel())
        cast_attach(data, bytes);
    else
        cast_slots(data, bytes);
}

static void *allocate(size_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, huge ? 2u << 20 : 4096, bytes) != 0)
        return NULL;
    if (huge)
        (void)madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

static void choose_way(void)
{
    static const char *const names[] = {"lines", "slots", "attach", "write", "mixed", "splice"};
    const char *word = getenv("BENCH_LEAST");
    word = word ? word : "lines";
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (strncmp(word, names[i], strlen(names[i])) == 0)
            way = (enum way)i;
    around = strstr(word, "+nt") != NULL;
    turns = strstr(word, "+back") != NULL;
    early = strstr(word, "+early") != NULL;
    splits = strstr(word, "+split") != NULL;
    weaves = strstr(word, "+weave") != NULL;
    huge = strstr(word, "+huge") != NULL;
    const char *tile = strchr(word, '@');
    if (tile)
        tile_bytes = least(strtoul(tile + 1, NULL, 10) << 10, TILE_MOST);
}

static void find_processors(void)
{
    int here = sched_getcpu(), where[MOST];
    oob_allgather(&here, where, sizeof here);
    for (int r = 0; r < ranks; r++) {
        home[r] = 0;
        while (where[home[r]] != where[r])
            home[r]++;
        if (home[r] == r)
            processors[nprocessors++] = r;
        members[home[r]]++;
    }
}

static void init(int *argc, char ***argv, int *rank, int *size)
{
    (void)argc, (void)argv;
    char path[64];
    me = *rank, ranks = *size;
    choose_way();
    (void)snprintf(path, sizeof path, "/dev/shm/peal_least_%s", getenv("BENCH_ID"));
    int file = open(path, O_CREAT | O_RDWR, 0600);
    if (ranks > MOST || file < 0 || ftruncate(file, sizeof *all) != 0)
        exit(1);
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (all == MAP_FAILED)
        exit(1);
    (void)close(file);
    all->who[me].pid = getpid();
    ctl_barrier();
    if (me == 0)
        (void)unlink(path);
    find_processors();
    if (way == SPLICE)
        meet_pipes();
}

backend BE = {.name = "least",
              .init = init,
              .alloc = allocate,
              .allreduce = allreduce,
              .bcast = broadcast,
              .allgather = allgather,
              .alltoall = alltoall,
              .redscat = reduce_scatter};
