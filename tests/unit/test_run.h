/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the runtime share: ranks as threads, inputs, and a reference that computes
 * in double and int64 from inputs whose results are exact. */
#ifndef PEAL_TESTS_RUN_H
#define PEAL_TESTS_RUN_H

#include "test_run_plans.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#define RANKS_MAX 8u

/* ---- elements */

static inline int is_float(peal_dtype dtype)
{
    return dtype <= PEAL_BFLOAT16;
}

static inline int is_signed(peal_dtype dtype)
{
    return is_float(dtype) || dtype == PEAL_INT8 || dtype == PEAL_INT32 || dtype == PEAL_INT64;
}

/* value is a small integer times a power of two: exact in each type. */
static inline uint16_t half_bits(double value, int mantissa, int bias)
{
    if (value == 0)
        return 0;
    int exponent;
    double fraction = frexp(fabs(value), &exponent); /* in [0.5, 1) */
    unsigned bits = (unsigned)(int)((fraction * 2 - 1) * ldexp(1, mantissa));
    bits |= (unsigned)(exponent - 1 + bias) << mantissa;
    return (uint16_t)(bits | (value < 0 ? 0x8000u : 0u));
}

static inline double half_value(uint16_t bits, int mantissa, int bias)
{
    int exponent = (bits & 0x7fff) >> mantissa;
    double fraction = ldexp(bits & ((1 << mantissa) - 1), -mantissa);
    double value = exponent ? ldexp(1 + fraction, exponent - bias) : ldexp(fraction, 1 - bias);
    return bits & 0x8000 ? -value : value;
}

static inline void put_element(void *buffer, size_t at, peal_dtype dtype, int64_t value)
{
    switch (dtype) {
    case PEAL_FLOAT32:
        ((float *)buffer)[at] = (float)value;
        break;
    case PEAL_FLOAT64:
        ((double *)buffer)[at] = (double)value;
        break;
    case PEAL_FLOAT16:
        ((uint16_t *)buffer)[at] = half_bits((double)value, 10, 15);
        break;
    case PEAL_BFLOAT16:
        ((uint16_t *)buffer)[at] = half_bits((double)value, 7, 127);
        break;
    case PEAL_INT8:
    case PEAL_UINT8:
        ((uint8_t *)buffer)[at] = (uint8_t)value;
        break;
    case PEAL_INT32:
    case PEAL_UINT32:
        ((uint32_t *)buffer)[at] = (uint32_t)value;
        break;
    case PEAL_INT64:
    case PEAL_UINT64:
        ((uint64_t *)buffer)[at] = (uint64_t)value;
        break;
    }
}

static inline int64_t get_element(const void *buffer, size_t at, peal_dtype dtype)
{
    switch (dtype) {
    case PEAL_FLOAT32:
        return (int64_t)((const float *)buffer)[at];
    case PEAL_FLOAT64:
        return (int64_t)((const double *)buffer)[at];
    case PEAL_FLOAT16:
        return (int64_t)half_value(((const uint16_t *)buffer)[at], 10, 15);
    case PEAL_BFLOAT16:
        return (int64_t)half_value(((const uint16_t *)buffer)[at], 7, 127);
    case PEAL_INT8:
        return ((const int8_t *)buffer)[at];
    case PEAL_UINT8:
        return ((const uint8_t *)buffer)[at];
    case PEAL_INT32:
        return ((const int32_t *)buffer)[at];
    case PEAL_UINT32:
        return ((const uint32_t *)buffer)[at];
    case PEAL_INT64:
        return ((const int64_t *)buffer)[at];
    default:
        return (int64_t)((const uint64_t *)buffer)[at];
    }
}

/* Modulo 2^n, as an element of the type would hold it. */
static inline int64_t wrapped(peal_dtype dtype, int64_t value)
{
    uint64_t element[1] = {0};
    if (is_float(dtype))
        return value;
    put_element(element, 0, dtype, value);
    return get_element(element, 0, dtype);
}

/* Element i of rank r's input in a run told apart by `salt`. */
static inline int64_t input_value(unsigned ranks, unsigned r, size_t i, peal_dtype dtype,
                                  peal_op op, unsigned salt)
{
    uint64_t mixed = i * 7 + r * 13 + i / 11 + salt * 5;
    if (op == PEAL_PROD)
        return (1 + (int64_t)(mixed % 2)) * (is_signed(dtype) && mixed % 3 == 0 ? -1 : 1);
    if (op == PEAL_AVG && is_float(dtype))
        return (int64_t)ranks * ((int64_t)(mixed % 4) - 1);
    if (!is_signed(dtype))
        return (int64_t)(mixed * 37 % 251);
    return (int64_t)(mixed % 7) - 3;
}

/* Inputs, and so results, come again after so many elements: what takes long is to compute them one
 * by one. */
static inline size_t value_period(peal_dtype dtype, peal_op op)
{
    return is_signed(dtype) || op == PEAL_PROD ? 154 : 2761;
}

/* The first `period` elements are there; writes the others. */
static inline void repeat(void *buffer, size_t count, size_t elem, size_t period)
{
    char *at = buffer;
    for (size_t have = period; have < count; have *= 2)
        memcpy(at + have * elem, at, (have < count - have ? have : count - have) * elem);
}

/* How many elements are to be looked at one by one: of those that repeat, a period. */
static inline size_t worth_a_look(const void *buffer, size_t count, size_t elem, size_t period)
{
    const char *at = buffer;
    int repeats = count > period && memcmp(at, at + period * elem, (count - period) * elem) == 0;
    return repeats ? period : count;
}

static inline int64_t expected_value(unsigned ranks, size_t i, peal_dtype dtype, peal_op op,
                                     unsigned salt)
{
    int64_t result = input_value(ranks, 0, i, dtype, op, salt);
    for (unsigned r = 1; r < ranks; r++) {
        int64_t value = input_value(ranks, r, i, dtype, op, salt);
        if (op == PEAL_PROD)
            result *= value;
        else if (op == PEAL_MIN)
            result = value < result ? value : result;
        else if (op == PEAL_MAX)
            result = value > result ? value : result;
        else
            result += value;
    }
    result = wrapped(dtype, result);
    return op == PEAL_AVG ? result / (int64_t)ranks : result;
}

static inline void fill_input(void *buffer, unsigned ranks, unsigned r, size_t count,
                              peal_dtype dtype, peal_op op, unsigned salt)
{
    size_t period = value_period(dtype, op);
    for (size_t i = 0; i < count && i < period; i++)
        put_element(buffer, i, dtype, input_value(ranks, r, i, dtype, op, salt));
    repeat(buffer, count, peal_dtype_size(dtype), period);
}

/* count when all is right, else the first wrong element. */
static inline size_t first_wrong(const void *buffer, unsigned ranks, size_t count, peal_dtype dtype,
                                 peal_op op, unsigned salt)
{
    size_t look = worth_a_look(buffer, count, peal_dtype_size(dtype), value_period(dtype, op));
    for (size_t i = 0; i < look; i++)
        if (get_element(buffer, i, dtype) != expected_value(ranks, i, dtype, op, salt))
            return i;
    return count;
}

/* One checked call. 0: right; else *problem says what is not. */
static inline int checked_call(peal_comm *comm, unsigned ranks, unsigned rank, void *in, void *out,
                               size_t count, peal_dtype dtype, peal_op op, unsigned salt,
                               char problem[1024])
{
    peal_diag diag = PEAL_DIAG_INIT;
    fill_input(in, ranks, rank, count, dtype, op, salt);
    if (in != out)
        memset(out, 0xee, count * peal_dtype_size(dtype));
    peal_status status = peal_allreduce(comm, in, out, count, dtype, op, &diag);
    if (status != PEAL_OK) {
        (void)snprintf(problem, 1024, "rank %u: %s: %s", rank, peal_status_name(status), diag.text);
        return 1;
    }
    size_t wrong = first_wrong(out, ranks, count, dtype, op, salt);
    if (wrong == count)
        return 0;
    (void)snprintf(problem, 1024, "rank %u: %zu %s %s %s: element %zu is %lld, not %lld", rank,
                   count, peal_dtype_name(dtype), peal_op_name(op), in == out ? "in place" : "",
                   wrong, (long long)get_element(out, wrong, dtype),
                   (long long)expected_value(ranks, wrong, dtype, op, salt));
    return 1;
}

/* ---- ranks as threads */

struct rank_thread {
    peal_world *world;
    peal_table *table;
    unsigned rank;
    unsigned ranks;
    void *user;
    /* Returns 0; else `problem` says what is wrong. comm is NULL when it was not made. */
    int (*body)(struct rank_thread *self);
    peal_comm *comm;
    char problem[1024];
    int failed;
};
typedef int (*rank_fn)(struct rank_thread *self);

static void *rank_main(void *argument)
{
    struct rank_thread *self = argument;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status = peal_comm_create(self->world, self->table, self->rank, &diag, &self->comm);
    if (status != PEAL_OK) {
        (void)snprintf(self->problem, sizeof self->problem, "rank %u: comm: %s: %s", self->rank,
                       peal_status_name(status), diag.text);
        self->failed = 1;
        return NULL;
    }
    self->failed = self->body(self);
    peal_comm_destroy(self->comm);
    return NULL;
}

/* NULL when every rank was content; else what one of them said, in a static buffer. */
static inline const char *run_ranks(peal_ctx *context, peal_table *table, unsigned ranks,
                                    const peal_world_params *given, rank_fn body, void *user)
{
    static char problem[1024];
    static struct rank_thread threads[RANKS_MAX];
    pthread_t handles[RANKS_MAX];
    peal_world *world;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_world_params params = *given;
    params.ranks = ranks;
    if (peal_world_create(context, &params, table, &diag, &world) != PEAL_OK)
        return strcpy(problem, diag.text);
    for (unsigned r = 0; r < ranks; r++) {
        threads[r] = (struct rank_thread){
            .world = world, .table = table, .rank = r, .ranks = ranks, .user = user, .body = body};
        if (pthread_create(&handles[r], NULL, rank_main, &threads[r]) != 0)
            return "no thread";
    }
    int failed = 0;
    for (unsigned r = 0; r < ranks; r++) {
        (void)pthread_join(handles[r], NULL);
        if (threads[r].failed && !failed)
            memcpy(problem, threads[r].problem, sizeof problem);
        failed |= threads[r].failed;
    }
    peal_world_destroy(world);
    return failed ? problem : NULL;
}

#endif
