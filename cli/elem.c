/* SPDX-License-Identifier: Apache-2.0 */
/* See elem.h. float16 and bfloat16 are converted by arithmetic on doubles, not by tables or bits
 * shared with the library. */
#include "elem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The finalizer of splitmix64 (Steele, Lea, Flood 2014). */
uint64_t elem_mix(uint64_t a, uint64_t b)
{
    uint64_t z = a * 0x9e3779b97f4a7c15u + b * 0xd1342543de82ef95u + 0x2545f4914f6cdd1du;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* ---- types */

struct type {
    int is_float;
    int is_signed;
    unsigned bits;
    unsigned mantissa; /* stored bits; integers up to 2^(mantissa + 1) are exact */
    unsigned exponent;
};

static struct type type_of(peal_dtype dtype)
{
    switch (dtype) {
    case PEAL_FLOAT32:
        return (struct type){1, 1, 32, 23, 8};
    case PEAL_FLOAT64:
        return (struct type){1, 1, 64, 52, 11};
    case PEAL_FLOAT16:
        return (struct type){1, 1, 16, 10, 5};
    case PEAL_BFLOAT16:
        return (struct type){1, 1, 16, 7, 8};
    case PEAL_INT8:
        return (struct type){0, 1, 8, 0, 0};
    case PEAL_UINT8:
        return (struct type){0, 0, 8, 0, 0};
    case PEAL_INT32:
        return (struct type){0, 1, 32, 0, 0};
    case PEAL_UINT32:
        return (struct type){0, 0, 32, 0, 0};
    case PEAL_INT64:
        return (struct type){0, 1, 64, 0, 0};
    default:
        return (struct type){0, 0, 64, 0, 0};
    }
}

/* To the nearest of a binary format with fewer bits, ties to even. */
static uint16_t narrow(double value, struct type type)
{
    unsigned bias = (1u << (type.exponent - 1)) - 1;
    uint32_t sign = signbit(value) ? 1u << (type.bits - 1) : 0;
    uint32_t infinity = ((1u << type.exponent) - 1) << type.mantissa;
    int exponent;
    if (value == 0)
        return (uint16_t)sign;
    double part = frexp(fabs(value), &exponent); /* value = part * 2^exponent, part in [1/2, 1) */
    int power = exponent - 1 < 1 - (int)bias ? 1 - (int)bias : exponent - 1;
    double scaled = ldexp(part, exponent - power + (int)type.mantissa);
    uint64_t whole = (uint64_t)scaled;
    double rest = scaled - (double)whole;
    whole += rest > 0.5 || (rest == 0.5 && whole % 2 == 1);
    uint64_t bits = ((uint64_t)(power + (int)bias - 1) << type.mantissa) + whole;
    return (uint16_t)(sign | (bits > infinity ? infinity : (uint32_t)bits));
}

static double widen(uint16_t bits, struct type type)
{
    int bias = (1 << (type.exponent - 1)) - 1;
    int power = (int)(bits >> type.mantissa & ((1u << type.exponent) - 1));
    double part = bits & ((1u << type.mantissa) - 1);
    double sign = bits >> 15 ? -1 : 1;
    if (power == (1 << type.exponent) - 1)
        return part > 0 ? NAN : sign * INFINITY;
    if (power == 0)
        return sign * ldexp(part, 1 - bias - (int)type.mantissa);
    return sign * ldexp(part + (double)(1u << type.mantissa), power - bias - (int)type.mantissa);
}

/* ---- one element of each kind of type */

/* How large a term may be for `ranks` of them to stay within limit. */
static int64_t amplitude(uint64_t limit, uint32_t ranks)
{
    uint64_t each = limit / ranks;
    return each > 1u << 30 ? 1 << 30 : (int64_t)each;
}

/* Uniform in [-most, most]. */
static int64_t around_zero(uint64_t hash, int64_t most)
{
    return (int64_t)((hash >> 32) % (2 * (uint64_t)most + 1)) - most;
}

/* Sign-extended, or zero-extended, from the type's bits. */
static uint64_t extend(uint64_t value, struct type type)
{
    if (type.bits == 64)
        return value;
    uint64_t mask = (1ull << type.bits) - 1;
    value &= mask;
    return type.is_signed && value >> (type.bits - 1) ? value | ~mask : value;
}

/* Integers wrap, so sums and products may be anything; an average is divided afterwards. */
static uint64_t int_input(const struct elem_job *job, struct type type, uint32_t rank, uint64_t i)
{
    uint64_t hash = elem_mix(job->seed * 0x10001u + rank, i);
    if (job->op == PEAL_PROD)
        return extend(hash | 1, type);
    if (job->op != PEAL_AVG)
        return extend(hash, type);
    uint64_t limit = ~(uint64_t)0 >> (64 - type.bits + (unsigned)type.is_signed);
    int64_t most = amplitude(limit, job->ranks);
    if (type.is_signed)
        return (uint64_t)around_zero(hash, most);
    return (hash >> 32) % ((uint64_t)most + 1);
}

/* Who contributes to a result. */
static uint32_t contributors(const struct elem_job *job)
{
    return job->givers ? job->ngivers : job->ranks;
}

static uint32_t contributor(const struct elem_job *job, uint32_t nth)
{
    return job->givers ? job->givers[nth] : nth;
}

static uint64_t int_result(const struct elem_job *job, struct type type, uint64_t i)
{
    uint64_t result = int_input(job, type, contributor(job, 0), i);
    for (uint32_t k = 1; k < contributors(job); k++) {
        uint64_t x = int_input(job, type, contributor(job, k), i);
        int below = type.is_signed ? (int64_t)x < (int64_t)result : x < result;
        switch (job->op) {
        case PEAL_PROD:
            result *= x;
            break;
        case PEAL_MIN:
            result = below ? x : result;
            break;
        case PEAL_MAX:
            result = below ? result : x;
            break;
        default:
            result += x;
        }
    }
    if (job->op == PEAL_AVG && type.is_signed)
        result = (uint64_t)((int64_t)extend(result, type) / (int64_t)job->ranks);
    else if (job->op == PEAL_AVG)
        result = extend(result, type) / job->ranks;
    return result;
}

/* Factors other than 1 and -1 come from three ranks: a product is never beyond 6, nor are
 * partial ones, and needs two bits. */
static double factor(const struct elem_job *job, uint32_t rank, uint64_t i)
{
    uint64_t hash = elem_mix(job->seed + 77, i);
    double value = elem_mix(job->seed * 0x10001u + rank, i) >> 63 ? -1 : 1;
    if ((hash & 0xffff) % job->ranks == rank)
        value *= 2;
    if ((hash >> 16 & 0xffff) % job->ranks == rank)
        value *= 3;
    if ((hash >> 32 & 0xffff) % job->ranks == rank)
        value *= 0.5;
    return value;
}

static double float_input(const struct elem_job *job, struct type type, uint32_t rank, uint64_t i)
{
    /* The same for all ranks of an element: keeps sums exact, and exercises exponents. */
    static const double scale[8] = {1, 2, 0.5, 1, 4, 0.25, 8, 0.0625};
    if (job->op == PEAL_PROD)
        return factor(job, rank, i);
    uint64_t hash = elem_mix(job->seed * 0x10001u + rank, i);
    uint64_t limit = 1ull << (type.mantissa + 1);
    int adds = job->op == PEAL_SUM || job->op == PEAL_AVG;
    /* Beyond 2^(mantissa + 1) ranks only so many of them have something to add. */
    if (adds && rank >= limit)
        return 0;
    uint32_t terms = adds ? (job->ranks < limit ? job->ranks : (uint32_t)limit) : 1;
    double whole = (double)around_zero(hash, amplitude(limit, terms));
    return whole == 0 ? 0 : whole * scale[i * 0x9e3779b9u >> 7 & 7];
}

static double float_result(const struct elem_job *job, struct type type, uint64_t i)
{
    double result = float_input(job, type, contributor(job, 0), i);
    for (uint32_t k = 1; k < contributors(job); k++) {
        double x = float_input(job, type, contributor(job, k), i);
        switch (job->op) {
        case PEAL_PROD:
            result *= x;
            break;
        case PEAL_MIN:
            result = x < result ? x : result;
            break;
        case PEAL_MAX:
            result = x > result ? x : result;
            break;
        default:
            result += x;
        }
    }
    if (job->op != PEAL_AVG)
        return result;
    /* The half types divide in float32, and round again when stored. */
    if (type.bits == 64)
        return result / job->ranks;
    return (double)((float)result / (float)job->ranks);
}

double elem_magnitude(const struct elem_job *job, uint32_t rank, uint64_t index)
{
    struct type type = type_of(job->dtype);
    double sum = 0;
    if (job->moved)
        return fabs(float_input(job, type, rank, index));
    for (uint32_t r = 0; r < job->ranks; r++)
        sum += fabs(float_input(job, type, r, index));
    return job->op == PEAL_AVG ? sum / job->ranks : sum;
}

/* Whole numbers up to 2^(mantissa + 1) by all ranks together, times the largest scale. */
double elem_largest(const struct elem_job *job)
{
    return 8 * ldexp(1, (int)type_of(job->dtype).mantissa + 1);
}

/* ---- blocks of elements */

static void store_int(unsigned bits, uint64_t value, void *to, uint64_t at)
{
    if (bits == 8)
        ((uint8_t *)to)[at] = (uint8_t)value;
    else if (bits == 16)
        ((uint16_t *)to)[at] = (uint16_t)value;
    else if (bits == 32)
        ((uint32_t *)to)[at] = (uint32_t)value;
    else
        ((uint64_t *)to)[at] = value;
}

static void store_float(struct type type, double value, void *to, uint64_t at)
{
    if (type.bits == 64)
        ((double *)to)[at] = value;
    else if (type.bits == 32)
        ((float *)to)[at] = (float)value;
    else
        ((uint16_t *)to)[at] = narrow(value, type);
}

/* What is moved only may be anything, also no number. */
static void plain_input(const struct elem_job *job, struct type type, uint32_t rank, uint64_t first,
                        uint64_t count, void *to)
{
    for (uint64_t i = 0; i < count; i++)
        store_int(type.bits, elem_mix(job->seed * 0x10001u + rank, first + i), to, i);
}

void elem_input(const struct elem_job *job, uint32_t rank, uint64_t first, uint64_t count, void *to)
{
    struct type type = type_of(job->dtype);
    if (job->plain) {
        plain_input(job, type, rank, first, count, to);
        return;
    }
    for (uint64_t i = 0; i < count && type.is_float; i++)
        store_float(type, float_input(job, type, rank, first + i), to, i);
    for (uint64_t i = 0; i < count && !type.is_float; i++)
        store_int(type.bits, int_input(job, type, rank, first + i), to, i);
}

void elem_result(const struct elem_job *job, uint64_t first, uint64_t count, void *to)
{
    struct type type = type_of(job->dtype);
    for (uint64_t i = 0; i < count && type.is_float; i++)
        store_float(type, float_result(job, type, first + i), to, i);
    for (uint64_t i = 0; i < count && !type.is_float; i++)
        store_int(type.bits, int_result(job, type, first + i), to, i);
}

static double load_float(struct type type, const void *element)
{
    uint16_t half;
    float single;
    double whole;
    if (type.bits == 16) {
        memcpy(&half, element, sizeof half);
        return widen(half, type);
    }
    if (type.bits == 32) {
        memcpy(&single, element, sizeof single);
        return (double)single;
    }
    memcpy(&whole, element, sizeof whole);
    return whole;
}

const char *elem_text(peal_dtype dtype, const void *element, char *text)
{
    struct type type = type_of(dtype);
    uint64_t bits = 0;
    memcpy(&bits, element, type.bits / 8); /* little-endian */
    if (type.is_float)
        (void)snprintf(text, ELEM_TEXT, "%.9g (0x%llx)", load_float(type, element),
                       (unsigned long long)bits);
    else if (type.is_signed)
        (void)snprintf(text, ELEM_TEXT, "%lld", (long long)extend(bits, type));
    else
        (void)snprintf(text, ELEM_TEXT, "%llu", (unsigned long long)bits);
    return text;
}
