/* SPDX-License-Identifier: Apache-2.0 */
/* A small table that uses every part of the format, as canonical text. Not a schedule that
 * anyone would run: form is what it is for. */
#ifndef PEAL_TESTS_PLAN_SAMPLE_H
#define PEAL_TESTS_PLAN_SAMPLE_H

#include "plan.h"
#include "support.h"
#include "test_fixture.h"
#include "wire.h"

#include <check.h>
#include <string.h>

#define SAMPLE_HEAD                                                                                \
    "peal-table 1\n"                                                                               \
    "plan allreduce ranks 2 bytes 8..1023\n"                                                       \
    "  algorithm oneshot\n"                                                                        \
    "  channels 1\n"                                                                               \
    "  chunks 1\n"                                                                                 \
    "  region packet width 2 depth 1 slot 1024  # region 0\n"                                      \
    "  link r0 -> r1 nvlink direct \"gpu0 > nvs0 > gpu1\"  # link 1\n"                             \
    "  link r1 -> r0 nvlink direct  # link 2\n"

#define SAMPLE_FIRST                                                                               \
    SAMPLE_HEAD                                                                                    \
    "  rank 0 host 0 arch 90 busid \"0000:07:00.0\" nic \"mlx5_0\"\n"                              \
    "    lane  # 0\n"                                                                              \
    "      body\n"                                                                                 \
    "        put c0: in[0] -> r1.p0[0]@1 sm\n"                                                     \
    "        reduce c0: in[0] p0[1] -> out[0] sm final\n"                                          \
    "  rank 1 host 0 arch 90 busid \"0000:0f:00.0\"\n"                                             \
    "    lane  # 0\n"                                                                              \
    "      body\n"                                                                                 \
    "        put c0: in[0] -> r0.p0[1]@2 sm\n"                                                     \
    "        reduce c0: p0[0] in[0] -> out[0] sm final\n"

#define SAMPLE_SECOND                                                                              \
    "plan allreduce ranks 2 bytes 1024..8589934592\n"                                              \
    "  algorithm two-level\n"                                                                      \
    "  detail \"channels 2, inner ring\"\n"                                                        \
    "  channels 2\n"                                                                               \
    "  predicted_ps 533160000 bound_ps 523000000\n"                                                \
    "  tile 262144\n"                                                                              \
    "  chunks 3 weights 1 2 70000\n"                                                               \
    "  semaphores 2\n"                                                                             \
    "  region scratch width 7 depth 2 slot 262144  # region 0\n"                                   \
    "  region packet width 1 depth 1 slot 262144  # region 1\n"                                    \
    "  link r0 -> r1 pcie  # link 1\n"                                                             \
    "  link r1 -> r0 net \"gpu1 > nic0\"  # link 2\n"                                              \
    "  rank 0 host 0 arch 90\n"                                                                    \
    "    lane  # 0\n"                                                                              \
    "      pre\n"                                                                                  \
    "        signal r1.1 staged\n"                                                                 \
    "      body\n"                                                                                 \
    "        put c0: in[0] -> s0[1] r1.s0[6]@1 staged e0\n"                                        \
    "        signal r1.0 staged after e0\n"                                                        \
    "        get c2: r1.in[2]@2 -> out[2] tma e15\n"                                               \
    "        copy c1: s0[0] -> out[1] s0[1] ce e3\n"                                               \
    "        put_reduce c0: s0[2] -> r1.out[0]@1 sm\n"                                             \
    "        get_reduce c0: r1.s0[2]@2 -> out[0] sm final\n"                                       \
    "        wait r1.1 lag 2\n"                                                                    \
    "        wait r0.0\n"                                                                          \
    "        put c0*2+2: out[0] -> r1.s0[4]@1 staged e0\n"                                         \
    "        reduce c1*2: in[1] s0[2] -> out[1] s0[2] sm\n"                                        \
    "      post\n"                                                                                 \
    "        await e0 free\n"                                                                      \
    "        await e15 delivered\n"                                                                \
    "    lane  # 1\n"                                                                              \
    "  rank 1 host 3\n"

#define SAMPLE SAMPLE_FIRST SAMPLE_SECOND

static peal_status into_buf(void *user, const char *data, size_t bytes)
{
    struct peal_buf *buf = user;
    peal_buf_put(buf, data, bytes);
    return buf->status;
}

static inline peal_table *assemble(const char *text)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table = NULL;
    peal_status status = peal_table_assemble(ctx, text, strlen(text), "t.s", &diag, &table);
    if (status != PEAL_OK)
        ck_abort_msg("%s:%u:%u: %s", diag.path, diag.line, diag.column, diag.text);
    return table;
}

/* The file of a table; freed with peal_buf_free. */
static inline struct peal_buf saved(const peal_table *table)
{
    struct peal_buf buf;
    peal_buf_init(&buf, ctx, SIZE_MAX);
    ck_assert_int_eq(peal_table_save(table, into_buf, &buf, NULL), PEAL_OK);
    return buf;
}

static inline struct peal_buf printed(const peal_table *table)
{
    struct peal_buf buf;
    peal_buf_init(&buf, ctx, SIZE_MAX);
    ck_assert_int_eq(peal_table_print(table, into_buf, &buf, NULL), PEAL_OK);
    peal_buf_put(&buf, "", 1);
    return buf;
}

#endif
