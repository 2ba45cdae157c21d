/* SPDX-License-Identifier: Apache-2.0 */
/* The vocabularies as text, from names.def. */
#include "base.h"

static const char *const dtype_names[] = {
#define DTYPE(value, name, bytes) [value] = name,
#include "names.def"
#undef DTYPE
};
static const unsigned char dtype_bytes[] = {
#define DTYPE(value, name, bytes) [value] = bytes,
#include "names.def"
#undef DTYPE
};
static const char *const op_names[] = {
#define OP(value, name) [value] = name,
#include "names.def"
#undef OP
};
static const char *const collective_names[] = {
#define COLLECTIVE(value, name) [value] = name,
#include "names.def"
#undef COLLECTIVE
};
static const char *const link_class_names[] = {
#define LINK_CLASS(value, name) [value] = name,
#include "names.def"
#undef LINK_CLASS
};
static const char *const engine_names[] = {
#define ENGINE(value, name, reduces, asynchronous) [value] = name,
#include "names.def"
#undef ENGINE
};

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])
_Static_assert(COUNT_OF(dtype_names) == PEAL_DTYPE_COUNT, "names.def lacks a dtype");
_Static_assert(COUNT_OF(op_names) == PEAL_OP_COUNT, "names.def lacks an op");
_Static_assert(COUNT_OF(collective_names) == PEAL_COLLECTIVE_COUNT, "names.def lacks a collective");
_Static_assert(COUNT_OF(link_class_names) == PEAL_LINK_CLASS_COUNT, "names.def lacks a link class");
_Static_assert(COUNT_OF(engine_names) == PEAL_ENGINE_COUNT, "names.def lacks an engine");

/* A value out of range may come from a cast of anything: compared as unsigned. */
static const char *name_of(const char *const *names, size_t count, unsigned value)
{
    return value < count ? names[value] : NULL;
}

/* The index of a name, or count. */
static size_t find_name(const char *const *names, size_t count, const char *name)
{
    size_t i = 0;
    while (name && i < count && !peal_streq(names[i], name))
        i++;
    return name ? i : count;
}

/* The two functions of one vocabulary: one shape, five types. */
#define VOCABULARY(word)                                                                           \
    const char *peal_##word##_name(peal_##word value)                                              \
    {                                                                                              \
        return name_of(word##_names, COUNT_OF(word##_names), (unsigned)value);                     \
    }                                                                                              \
    peal_status peal_##word##_parse(const char *name, peal_##word *out)                            \
    {                                                                                              \
        size_t index = find_name(word##_names, COUNT_OF(word##_names), name);                      \
        if (index == COUNT_OF(word##_names))                                                       \
            return PEAL_ERR_ARG;                                                                   \
        *out = (peal_##word)index;                                                                 \
        return PEAL_OK;                                                                            \
    }

VOCABULARY(dtype)
VOCABULARY(op)
VOCABULARY(collective)
VOCABULARY(link_class)
VOCABULARY(engine)

size_t peal_dtype_size(peal_dtype dtype)
{
    return (unsigned)dtype < COUNT_OF(dtype_bytes) ? dtype_bytes[dtype] : 0;
}
