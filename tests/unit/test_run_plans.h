/* SPDX-License-Identifier: Apache-2.0 */
/* Plans that the tests of the runtime run, written as text: no compiler is needed for them. */
#ifndef PEAL_TESTS_RUN_PLANS_H
#define PEAL_TESTS_RUN_PLANS_H

#include <peal/peal.h>

#include <stdio.h>
#include <stdlib.h>

struct plan_text {
    FILE *to;
    unsigned ranks;
    const char *link;   /* "shm direct", "net", ... */
    const char *engine; /* of moves; "sm" or an asynchronous one */
    unsigned tile;      /* bytes, 0: none */
    unsigned depth;     /* of scratch regions */
    unsigned slot;      /* bytes */
};

/* Links are numbered from 1 by (from, to), the diagonal left out. */
static inline unsigned link_of(const struct plan_text *p, unsigned from, unsigned to)
{
    return from * (p->ranks - 1) + (to > from ? to - 1 : to) + 1;
}

static inline void write_head(const struct plan_text *p, const char *algorithm,
                              unsigned long long lo, unsigned long long hi, unsigned chunks,
                              unsigned sems)
{
    int packets = sems == 0; /* of one trip */
    fprintf(p->to, "plan allreduce ranks %u bytes %llu..%llu algorithm %s channels 1\n", p->ranks,
            lo, hi, algorithm);
    if (p->tile && !packets)
        fprintf(p->to, "tile %u\n", p->tile);
    fprintf(p->to, "chunks %u\nsemaphores %u\n", chunks, sems);
}

static inline void write_links(const struct plan_text *p)
{
    for (unsigned from = 0; from < p->ranks; from++)
        for (unsigned to = 0; to < p->ranks; to++)
            if (from != to)
                fprintf(p->to, "link r%u -> r%u %s\n", from, to, p->link);
}

static inline void write_each(const struct plan_text *p, unsigned rank, const char *verb,
                              unsigned sem, const char *tail)
{
    for (unsigned i = 1; i < p->ranks; i++)
        fprintf(p->to, "%s r%u.%u %s\n", verb, (rank + i) % p->ranks, sem, tail);
}

/* Every rank sends its input to every other in packets and folds them in rank order. */
static inline void write_oneshot(const struct plan_text *p, unsigned long long lo,
                                 unsigned long long hi)
{
    write_head(p, "oneshot", lo, hi, 1, 0);
    /* The proof bounds a chunk by two roundings to 128 bytes. */
    fprintf(p->to, "region packet width %u depth 1 slot %llu\n", p->ranks, hi + 256);
    write_links(p);
    for (unsigned r = 0; r < p->ranks; r++) {
        fprintf(p->to, "rank %u host 0\nlane body\n", r);
        if (p->ranks > 1)
            fprintf(p->to, "put c0: in[0] ->");
        for (unsigned i = 0; i < p->ranks; i++)
            if (i != r)
                fprintf(p->to, " r%u.p0[%u]@%u", i, r, link_of(p, r, i));
        fprintf(p->to, p->ranks > 1 ? " sm\nreduce c0:" : "reduce c0:");
        for (unsigned i = 0; i < p->ranks; i++) {
            if (i == r)
                fprintf(p->to, " in[0]");
            else
                fprintf(p->to, " p0[%u]", i);
        }
        fprintf(p->to, " -> out[0] sm final\n");
    }
}

/* Rank r folds chunk r of every input into every output, between two barriers. */
static inline void write_twoshot(const struct plan_text *p, unsigned long long lo,
                                 unsigned long long hi)
{
    write_head(p, "twoshot", lo, hi, p->ranks, 2);
    write_links(p);
    for (unsigned r = 0; r < p->ranks; r++) {
        fprintf(p->to, "rank %u host 0\nlane pre\n", r);
        write_each(p, r, "signal", 0, "sm");
        write_each(p, r, "wait", 0, "");
        fprintf(p->to, "body\nreduce c%u:", r);
        for (unsigned i = 0; i < p->ranks; i++) {
            if (i == r)
                fprintf(p->to, " in[%u]", r);
            else
                fprintf(p->to, " r%u.in[%u]@%u", i, r, link_of(p, i, r));
        }
        fprintf(p->to, " -> out[%u]", r);
        for (unsigned i = 1; i < p->ranks; i++) {
            unsigned to = (r + i) % p->ranks;
            fprintf(p->to, " r%u.out[%u]@%u", to, r, link_of(p, r, to));
        }
        fprintf(p->to, " sm final\npost\n");
        write_each(p, r, "signal", 1, "sm");
        write_each(p, r, "wait", 1, "");
    }
}

/* A ring by tiles through scratch: reduce-scatter, then allgather, with slots given back. */
static inline void write_ring(const struct plan_text *p, unsigned long long lo,
                              unsigned long long hi)
{
    unsigned n = p->ranks;
    write_head(p, "ring", lo, hi, n, 3);
    fprintf(p->to, "region scratch width %u depth %u slot %u\n", n - 1, p->depth, p->slot);
    write_links(p);
    for (unsigned r = 0; r < n; r++) {
        unsigned next = (r + 1) % n;
        unsigned prev = (r + n - 1) % n;
        unsigned link = link_of(p, r, next);
        fprintf(p->to, "rank %u host 0\nlane body\nwait r%u.2 lag %u\n", r, next, p->depth);
        fprintf(p->to, "put c%u: in[%u] -> r%u.s0[0]@%u sm\nsignal r%u.0 sm\n", r, r, next, link,
                next);
        for (unsigned s = 0; s + 1 < n; s++) {
            unsigned c = (r + 2 * n - 1 - s) % n;
            fprintf(p->to, "wait r%u.0\nreduce c%u: s0[%u] in[%u] -> ", prev, c, s, c);
            if (s + 2 < n)
                fprintf(p->to, "r%u.s0[%u]@%u sm\nsignal r%u.0 sm\n", next, s + 1, link, next);
            else
                fprintf(p->to, "out[%u] r%u.out[%u]@%u sm final\nsignal r%u.1 sm\n", c, next, c,
                        link, next);
        }
        fprintf(p->to, "signal r%u.2 sm\n", prev);
        for (unsigned s = 0; s + 1 < n; s++) {
            unsigned c = (r + 2 * n - s) % n;
            fprintf(p->to, "wait r%u.1\n", prev);
            if (s + 2 < n)
                fprintf(p->to, "put c%u: out[%u] -> r%u.out[%u]@%u sm\nsignal r%u.1 sm\n", c, c,
                        next, c, link, next);
        }
    }
}

/* Chunks to their owners' scratch and results to every output, both by an asynchronous engine,
 * by tiles. */
static inline void write_async(const struct plan_text *p, unsigned long long lo,
                               unsigned long long hi)
{
    unsigned n = p->ranks;
    const char *engine = p->engine;
    write_head(p, "async", lo, hi, n, 3);
    fprintf(p->to, "region scratch width %u depth %u slot %u\n", n, p->depth, p->slot);
    write_links(p);
    for (unsigned r = 0; r < n; r++) {
        fprintf(p->to, "rank %u host 0\nlane body\n", r);
        for (unsigned i = 1; i < n; i++) {
            unsigned to = (r + i) % n;
            fprintf(p->to, "wait r%u.2 lag %u\nput c%u: in[%u] -> r%u.s0[%u]@%u %s e%u\n", to,
                    p->depth, to, to, to, r, link_of(p, r, to), engine, i);
            fprintf(p->to, "signal r%u.0 %s after e%u\n", to, engine, i);
        }
        write_each(p, r, "wait", 0, "");
        fprintf(p->to, "reduce c%u:", r);
        for (unsigned i = 0; i < n; i++)
            fprintf(p->to, i == r ? " in[%u]" : " s0[%u]", i);
        fprintf(p->to, " -> out[%u] sm final\n", r);
        write_each(p, r, "signal", 2, engine);
        for (unsigned i = 1; i < n; i++) {
            unsigned to = (r + i) % n;
            fprintf(p->to, "put c%u: out[%u] -> r%u.out[%u]@%u %s e%u\n", r, r, to, r,
                    link_of(p, r, to), engine, n + i);
            fprintf(p->to, "signal r%u.1 %s after e%u\n", to, engine, n + i);
        }
        write_each(p, r, "wait", 1, "");
        fprintf(p->to, "post\n");
        for (unsigned i = 1; i < n; i++)
            fprintf(p->to, "await e%u free\nawait e%u free\n", i, n + i);
    }
}

/* The same by spans: rank r owns three chunks, which travel as one: r, n + r and 2n + r of an even
 * number of ranks, else 3r, 3r + 1 and 3r + 2, which lie side by side. */
static inline void write_spans(const struct plan_text *p, unsigned long long lo,
                               unsigned long long hi)
{
    unsigned n = p->ranks;
    unsigned stride = n % 2 ? 1 : n;
    unsigned own = n % 2 ? 3 : 1; /* times the rank: its first chunk */
    int async = p->engine[0] != 's' || p->engine[1] != 'm';
    write_head(p, "spans", lo, hi, 3 * n, 3);
    fprintf(p->to, "region scratch width %u depth %u slot %u\n", 3 * n, p->depth, p->slot);
    write_links(p);
    for (unsigned r = 0; r < n; r++) {
        fprintf(p->to, "rank %u host 0\nlane body\n", r);
        for (unsigned i = 1; i < n; i++) {
            unsigned to = (r + i) % n;
            char event[16] = "";
            if (async)
                (void)snprintf(event, sizeof event, " e%u", i);
            fprintf(p->to, "wait r%u.2 lag %u\nput c%u*3+%u: in[%u] -> r%u.s0[%u]@%u %s%s\n", to,
                    p->depth, own * to, stride, own * to, to, 3 * r, link_of(p, r, to), p->engine,
                    event);
            fprintf(p->to, "signal r%u.0 %s%s%s\n", to, p->engine, async ? " after" : "", event);
        }
        write_each(p, r, "wait", 0, "");
        fprintf(p->to, "reduce c%u*3+%u:", own * r, stride);
        for (unsigned i = 0; i < n; i++)
            fprintf(p->to, i == r ? " in[%u]" : " s0[%u]", i == r ? own * i : 3 * i);
        fprintf(p->to, " -> s0[%u] out[%u] sm final\n", 3 * r, own * r);
        write_each(p, r, "signal", 2, p->engine);
        for (unsigned i = 1; i < n; i++) {
            unsigned to = (r + i) % n;
            char event[16] = "";
            if (async)
                (void)snprintf(event, sizeof event, " e%u", n + i);
            fprintf(p->to, "put c%u*3+%u: %s[%u] -> r%u.out[%u]@%u %s%s\n", own * r, stride,
                    i % 2 ? "out" : "s0", i % 2 ? own * r : 3 * r, to, own * r, link_of(p, r, to),
                    p->engine, event);
            fprintf(p->to, "signal r%u.1 %s%s%s\n", to, p->engine, async ? " after" : "", event);
        }
        write_each(p, r, "wait", 1, "");
        fprintf(p->to, "post\n");
        for (unsigned i = 1; async && i < n; i++)
            fprintf(p->to, "await e%u free\nawait e%u free\n", i, n + i);
    }
}

/* Each lane shifts: rank 0 folds what others put_reduce into it, and puts it back. */
static inline void write_star(const struct plan_text *p, unsigned long long lo,
                              unsigned long long hi)
{
    unsigned n = p->ranks;
    write_head(p, "star", lo, hi, 1, 3);
    write_links(p);
    for (unsigned r = 0; r < n; r++) {
        fprintf(p->to, "rank %u host 0\nlane body\n", r);
        if (r == 0) {
            fprintf(p->to, "copy c0: in[0] -> out[0] sm\n");
            for (unsigned i = 1; i < n; i++) {
                fprintf(p->to, "wait r%u.0\n", i);
                fprintf(p->to, "get_reduce c0: r%u.in[0]@%u -> out[0] sm%s\n", i, link_of(p, i, 0),
                        i + 1 == n ? " final" : "");
            }
            for (unsigned i = 1; i < n; i++)
                fprintf(p->to, "put c0: out[0] -> r%u.out[0]@%u sm\nsignal r%u.1 sm\n", i,
                        link_of(p, 0, i), i);
        } else {
            fprintf(p->to, "signal r0.0 sm\nwait r0.1\n");
        }
    }
}

typedef void (*write_plan_fn)(const struct plan_text *p, unsigned long long lo,
                              unsigned long long hi);

struct plan_part {
    write_plan_fn write;
    unsigned long long hi;
};

/* One row for each part. Ends the program on a defect of the text. */
static inline peal_table *table_of(peal_ctx *context, struct plan_text p,
                                   const struct plan_part *parts, unsigned count)
{
    char *text = NULL;
    size_t bytes = 0;
    p.to = open_memstream(&text, &bytes);
    fprintf(p.to, "peal-table 1\n");
    for (unsigned i = 0; i < count; i++)
        parts[i].write(&p, i ? parts[i - 1].hi + 1 : 0, parts[i].hi);
    fclose(p.to);
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table = NULL;
    if (peal_table_assemble(context, text, bytes, "test", &diag, &table) != PEAL_OK) {
        fprintf(stderr, "%s:%u:%u: %s\n%s", diag.path, diag.line, diag.column, diag.text, text);
        exit(1);
    }
    free(text);
    return table;
}

#endif
