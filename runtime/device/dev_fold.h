/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folds of one type, in one pass over memory: included once for each type, by dev_move.h, with
 *   TYPE        name of the functions
 *   MEMBER      of union dev_vec, EACH elements of it in 16 bytes
 *   ACC         what is accumulated in; LOAD and STORE go there and back
 *   SUM, PROD, MIN, MAX, DIV
 * Sources are folded from left to right, and rounded once, when stored.
 */
#define DEV_PASTE_(a, b) a##b
#define DEV_PASTE(a, b) DEV_PASTE_(a, b)
#define FN(name) DEV_PASTE(name, TYPE)
#define DEEP (EACH > 8 ? 1u : EACH > 4 ? 2u : 4u) /* vectors of the sources behind the first */

DEV_FN void FN(dev_step_)(ACC *acc, const union dev_vec *vec, uint32_t op, uint32_t each)
{
    switch (op) {
    case DEV_OP_PROD:
        DEV_UNROLL
        for (uint32_t e = 0; e < each; e++)
            acc[e] = PROD(acc[e], LOAD(vec->MEMBER[e]));
        break;
    case DEV_OP_MIN:
        DEV_UNROLL
        for (uint32_t e = 0; e < each; e++)
            acc[e] = MIN(acc[e], LOAD(vec->MEMBER[e]));
        break;
    case DEV_OP_MAX:
        DEV_UNROLL
        for (uint32_t e = 0; e < each; e++)
            acc[e] = MAX(acc[e], LOAD(vec->MEMBER[e]));
        break;
    default:
        DEV_UNROLL
        for (uint32_t e = 0; e < each; e++)
            acc[e] = SUM(acc[e], LOAD(vec->MEMBER[e]));
    }
}

DEV_FN void FN(dev_begin_)(ACC *acc, const union dev_vec *vec, uint32_t each)
{
    DEV_UNROLL
    for (uint32_t e = 0; e < each; e++)
        acc[e] = LOAD(vec->MEMBER[e]);
}

DEV_FN void FN(dev_end_)(const ACC *acc, union dev_vec *vec, uint32_t divisor, uint32_t each)
{
    if (divisor) {
        DEV_UNROLL
        for (uint32_t e = 0; e < each; e++)
            vec->MEMBER[e] = STORE(DIV(acc[e], divisor));
    } else {
        DEV_UNROLL
        for (uint32_t e = 0; e < each; e++)
            vec->MEMBER[e] = STORE(acc[e]);
    }
}

/* 16 bytes, all operands aligned to them. Loads of some sources are under way at once. */
DEV_FN void FN(dev_vec_)(struct dev_thread *t, const struct dev_fold *f, uint64_t at)
{
    ACC acc[EACH];
    union dev_vec vec[DEEP];
    vec[0] = dev_load_vec(t->block->src[0] + at);
    FN(dev_begin_)(acc, &vec[0], EACH);
    DEV_ROLLED
    for (uint32_t s = 1; s < f->nsrc; s += DEEP) {
        DEV_UNROLL
        for (uint32_t k = 0; k < DEEP; k++)
            if (s + k < f->nsrc)
                vec[k] = dev_load_vec(t->block->src[s + k] + at);
        DEV_UNROLL
        for (uint32_t k = 0; k < DEEP; k++)
            if (s + k < f->nsrc)
                FN(dev_step_)(acc, &vec[k], f->op, EACH);
    }
    FN(dev_end_)(acc, &vec[0], f->divisor, EACH);
    DEV_ROLLED
    for (uint32_t d = 0; d < f->ndst; d++)
        dev_store_vec(t->block->dst[d] + at, vec[0]);
}

/* One element, aligned to itself. */
DEV_FN void FN(dev_one_)(struct dev_thread *t, const struct dev_fold *f, uint64_t at)
{
    ACC acc[1];
    union dev_vec vec;
    uint32_t bytes = 16 / EACH;
    dev_load_some(&vec, t->block->src[0] + at, bytes);
    FN(dev_begin_)(acc, &vec, 1);
    DEV_ROLLED
    for (uint32_t s = 1; s < f->nsrc; s++) {
        dev_load_some(&vec, t->block->src[s] + at, bytes);
        FN(dev_step_)(acc, &vec, f->op, 1);
    }
    FN(dev_end_)(acc, &vec, f->divisor, 1);
    DEV_ROLLED
    for (uint32_t d = 0; d < f->ndst; d++)
        dev_store_some(&vec, t->block->dst[d] + at, bytes);
}

DEV_FN void FN(dev_fold_)(struct dev_thread *t, const struct dev_fold *f, struct dev_cut cut)
{
    uint32_t size = 16 / EACH;
    DEV_ROLLED
    for (uint64_t at = t->tid * size; at < cut.head; at += t->threads * size)
        FN(dev_one_)(t, f, at);
    DEV_ROLLED
    for (uint64_t at = cut.head + 16ull * t->tid; at < cut.body; at += 16ull * t->threads)
        FN(dev_vec_)(t, f, at);
    DEV_ROLLED
    for (uint64_t at = cut.body + t->tid * size; at < cut.end; at += t->threads * size)
        FN(dev_one_)(t, f, at);
}

/* Eight bytes of payload, some of which may come from packets: `count` elements of them. */
DEV_FN void FN(dev_packets_)(struct dev_thread *t, const struct dev_fold *f, uint64_t bytes)
{
    uint32_t each = EACH / 2;
    DEV_ROLLED
    for (uint64_t at = 8ull * t->tid; at < bytes && !t->failed; at += 8ull * t->threads) {
        ACC acc[EACH / 2];
        union dev_vec vec;
        uint32_t some = bytes - at < 8 ? (uint32_t)(bytes - at) : 8;
        vec.u64[0] = dev_gather(t, f, 0, at, some);
        FN(dev_begin_)(acc, &vec, each);
        DEV_ROLLED
        for (uint32_t s = 1; s < f->nsrc; s++) {
            vec.u64[0] = dev_gather(t, f, s, at, some);
            FN(dev_step_)(acc, &vec, f->op, each);
        }
        FN(dev_end_)(acc, &vec, f->divisor, each);
        dev_scatter(t, f, at, some, vec.u64[0]);
    }
}

#undef FN
#undef DEEP
#undef DEV_PASTE
#undef DEV_PASTE_
#undef TYPE
#undef MEMBER
#undef EACH
#undef ACC
#undef LOAD
#undef STORE
#undef SUM
#undef PROD
#undef MIN
#undef MAX
#undef DIV
