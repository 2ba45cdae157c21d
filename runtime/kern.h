/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops that touch bytes: folds, packets and streaming copies, once for each instruction
 * set. One pass over memory whatever the number of sources and destinations. All sets compute
 * the same bits.
 *
 * float16 and bfloat16 accumulate in float32 and round to nearest even once, when stored. min
 * and max give NaN if any source is NaN, and order -0 before +0, so that they commute.
 * Integers are folded modulo 2^n; a division truncates toward zero.
 */
#ifndef PEAL_RUNTIME_KERN_H
#define PEAL_RUNTIME_KERN_H

#include <peal/peal.h>
#include <stdatomic.h>

/* Folds src[0 .. nsrc) from left to right into every dst[0 .. ndst), count elements each.
 * A destination may be exactly one of the sources. divisor 0: none. */
typedef void (*kern_fold_fn)(char *const *dst, unsigned ndst, const char *const *src, unsigned nsrc,
                             size_t count, uint32_t divisor);

/* Shapes (sources, destinations) that have a loop of their own: one-shot and two-shot among
 * 2, 3, 4 and 8 ranks, and the step of a ring that keeps what it passes on. 0: any shape. */
#define KERN_SHAPES(X)                                                                             \
    X(1, 2, 1) X(2, 2, 2) X(3, 3, 1) X(4, 3, 3) X(5, 4, 1) X(6, 4, 4) X(7, 8, 1) X(8, 8, 8)
#define KERN_SHAPE_COUNT 9
#define KERN_SHAPE_MAX 8
#define KERN_OPS 4 /* avg is a sum with a divisor */

typedef _Atomic uint64_t kern_word;

struct kern_set {
    const char *name;
    kern_fold_fn fold[PEAL_DTYPE_COUNT][KERN_OPS][KERN_SHAPE_COUNT];
    /* The same with stores around the caches, complete when they return. */
    kern_fold_fn fold_stream[PEAL_DTYPE_COUNT][KERN_OPS][KERN_SHAPE_COUNT];
    void (*stream)(char *dst, const char *src, size_t bytes);
    /* Payload to packet words and back: four bytes and the stamp in one word. unpack gives 0,
     * and writes some of dst, when a word is not there yet. */
    void (*pack)(kern_word *words, const char *src, size_t bytes, uint32_t stamp);
    int (*unpack)(char *dst, const kern_word *words, size_t bytes, uint32_t stamp);
};

unsigned kern_shape(unsigned nsrc, unsigned ndst);
/* The best set that this processor runs. */
const struct kern_set *kern_select(void);

const struct kern_set *kern_set_base(void);
/* NULL where the set was not compiled. */
const struct kern_set *kern_set_avx2(void);
const struct kern_set *kern_set_avx512(void);

#endif
