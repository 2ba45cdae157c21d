/* SPDX-License-Identifier: Apache-2.0 */
/* Wire slots: the rounding kernels against an independent slow reference, the format, what the
 * proof says of plans that pack too little, and calls that the runtime refuses. */
#include "support.h"
#include "test_fixture.h"
#include "test_run.h"
#include "test_suite.h"

#include "kern_wire.h"
#include "plan.h"

#include <check.h>

static uint32_t random_bits(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* As ck_assert_msg: that one makes a call of the kernel each time all is well, a million times
 * here. */
#define HAS(condition, ...)                                                                        \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg(__VA_ARGS__);                                                             \
    } while (0)

/* ---- bfloat16. The reference looks at both neighbours, in double. */

static uint16_t slow_bf16(float value)
{
    uint16_t low = (uint16_t)(bits_of(value) >> 16), high = (uint16_t)(low + 1);
    if (isnan(value))
        return low | 0x40;
    if (isinf(value) || float_of((uint32_t)low << 16) == value)
        return low;
    double below = float_of((uint32_t)low << 16), above = float_of((uint32_t)high << 16);
    if (isinf(above)) /* what the next value would be */
        above = value < 0 ? -0x1p128 : 0x1p128;
    double to_low = fabs(value - below), to_high = fabs(above - value);
    if (to_low != to_high)
        return to_low < to_high ? low : high;
    return low % 2 ? high : low;
}

START_TEST(bf16_patterns_come_back)
{
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t half = (uint16_t)i, back;
        float value;
        kern_wire_unpack(PLAN_WIRE_BF16, &value, (const char *)&half, 1);
        HAS(bits_of(value) == i << 16, "%04x becomes %08x", i, bits_of(value));
        kern_wire_pack(PLAN_WIRE_BF16, (char *)&back, &value, 1);
        HAS(back == (isnan(value) ? half | 0x40 : half), "%04x comes back as %04x", i, back);
    }
}
END_TEST

static void check_bf16(uint32_t bits)
{
    uint16_t got;
    float value = float_of(bits);
    kern_wire_pack(PLAN_WIRE_BF16, (char *)&got, &value, 1);
    HAS(got == slow_bf16(value), "%08x: %04x, not %04x", bits, got, slow_bf16(value));
}

START_TEST(bf16_rounds_to_the_nearest)
{
    for (uint32_t high = 0; high < 65536; high++) {
        static const uint32_t low[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
        for (size_t k = 0; k < sizeof low / sizeof low[0]; k++)
            check_bf16(high << 16 | low[k]);
    }
    for (unsigned i = 0; i < 1000000; i++)
        check_bf16(random_bits());
}
END_TEST

/* ---- fp8. The reference searches the values of e4m3, and the scales one by one. */

static double e4m3_value(unsigned code)
{
    int exponent = (int)(code >> 3 & 15);
    double part = code & 7;
    double value = exponent ? ldexp(1 + part / 8, exponent - 7) : ldexp(part / 8, -6);
    return code & 0x80 ? -value : value;
}

static uint8_t slow_e4m3(double value)
{
    static double values[127];
    unsigned best = 0;
    for (unsigned code = 1; code < 127 && values[126] == 0; code++)
        values[code] = e4m3_value(code);
    for (unsigned code = 1; code < 127; code++) {
        double now = fabs(values[code] - fabs(value));
        double then = fabs(values[best] - fabs(value));
        if (now < then || (now == then && code % 2 == 0))
            best = code;
    }
    return (uint8_t)(best | (signbit(value) ? 0x80u : 0));
}

static int slow_scale(const float *x, size_t count)
{
    double most = 0;
    int power = -126;
    for (size_t i = 0; i < count; i++)
        if (isfinite(x[i]) && fabs((double)x[i]) > most)
            most = fabs((double)x[i]);
    for (double limit = ldexp(448, power); most > limit; limit *= 2)
        power++;
    return power;
}

/* One block. */
static void check_fp8(const float *x, size_t count)
{
    unsigned char got[PLAN_WIRE_BLOCK + 1];
    float back[PLAN_WIRE_BLOCK];
    int power = slow_scale(x, count);
    double most = 0;
    kern_wire_pack(PLAN_WIRE_FP8, (char *)got, x, count);
    kern_wire_unpack(PLAN_WIRE_FP8, back, (const char *)got, count);
    HAS(got[0] == power + 127, "scale %d, not %d", got[0], power + 127);
    for (size_t i = 0; i < count; i++)
        most = isfinite(x[i]) && fabs((double)x[i]) > most ? fabs((double)x[i]) : most;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(x[i])) {
            HAS(got[1 + i] == (0x7fu | (signbit(x[i]) ? 0x80u : 0)) && isnan(back[i]),
                "%a: %02x, back %a", (double)x[i], got[1 + i], (double)back[i]);
            continue;
        }
        uint8_t wanted = slow_e4m3(ldexp((double)x[i], -power));
        HAS(got[1 + i] == wanted, "%a by 2^%d: %02x, not %02x", (double)x[i], power, got[1 + i],
            wanted);
        double value = ldexp(e4m3_value(wanted), power);
        HAS(fabs(value) >= 0x1p128 ? isinf(back[i]) != 0 : (double)back[i] == value,
            "%02x by 2^%d: %a, not %a", wanted, power, (double)back[i], value);
        if (isfinite(back[i])) /* the bound that plans are held to */
            HAS(fabs(value - (double)x[i]) <=
                    0x1p-4 * fabs((double)x[i]) + 0x1p-17 * most + 0x1p-136,
                "%a: %a is too far off", (double)x[i], value);
    }
}

START_TEST(fp8_rounds_to_the_nearest)
{
    float x[PLAN_WIRE_BLOCK];
    for (unsigned n = 0; n < 40000; n++) {
        size_t count = 1 + random_bits() % PLAN_WIRE_BLOCK;
        unsigned spread = n % 40, around = random_bits() % 255;
        for (size_t i = 0; i < count; i++) {
            unsigned exponent = around > spread ? around - random_bits() % (spread + 1) : around;
            x[i] = float_of((random_bits() & 0x807fffffu) | exponent << 23);
        }
        check_fp8(x, count);
    }
}
END_TEST

/* What lies halfway between two codes, and next to it, beside an element that sets the scale. */
START_TEST(fp8_ties_go_to_even)
{
    for (unsigned code = 0; code < 126; code++) {
        float half = (float)((e4m3_value(code) + e4m3_value(code + 1)) / 2);
        float x[5] = {448, half, -half, nextafterf(half, 0), nextafterf(half, 1000)};
        check_fp8(x, 5);
    }
}
END_TEST

START_TEST(fp8_keeps_its_edges)
{
    static const uint32_t edges[] = {0,          0x80000000u, 1,          0x007fffff, 0x00800000,
                                     0x7f7fffff, 0x7f600000,  0x7f600001, 0x7f800000, 0xff800000,
                                     0x7fc00000, 0x43e00000,  0x43e00001, 0xffffffff, 0x04600000};
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++)
        for (size_t k = 0; k < sizeof edges / sizeof edges[0]; k++) {
            float x[2] = {float_of(edges[i]), float_of(edges[k])};
            check_fp8(x, 1);
            check_fp8(x, 2);
        }
}
END_TEST

/* Packed again, what was unpacked stays as it is; pieces of whole blocks make the same bytes as the
 * tile does. */
START_TEST(packing_is_stable_and_piecewise)
{
    enum { COUNT = 3 * PLAN_WIRE_BLOCK + 5 };
    for (uint8_t wire = PLAN_WIRE_BF16; wire < PLAN_WIRE_COUNT; wire++) {
        size_t bytes = (size_t)peal_plan_wire_bytes(wire, COUNT), head = 2 * PLAN_WIRE_BLOCK;
        float x[COUNT], y[COUNT];
        char once[2 * COUNT + 1], twice[2 * COUNT + 1], parts[2 * COUNT + 1];
        for (size_t i = 0; i < COUNT; i++)
            x[i] = (float)(int32_t)random_bits();
        once[bytes] = 0x55;
        kern_wire_pack(wire, once, x, COUNT);
        ck_assert_int_eq(once[bytes], 0x55);
        kern_wire_unpack(wire, y, once, COUNT);
        kern_wire_pack(wire, twice, y, COUNT);
        kern_wire_unpack(wire, x, twice, COUNT);
        ck_assert_mem_eq(x, y, sizeof x);
        kern_wire_pack(wire, parts, y, head);
        kern_wire_pack(wire, parts + peal_plan_wire_bytes(wire, head), y + head, COUNT - head);
        ck_assert_mem_eq(parts, twice, bytes);
    }
}
END_TEST

START_TEST(packed_sizes)
{
    ck_assert_uint_eq(peal_plan_wire_bytes(PLAN_WIRE_BF16, 33), 66);
    ck_assert_uint_eq(peal_plan_wire_bytes(PLAN_WIRE_FP8, 0), 0);
    ck_assert_uint_eq(peal_plan_wire_bytes(PLAN_WIRE_FP8, 1), 2);
    ck_assert_uint_eq(peal_plan_wire_bytes(PLAN_WIRE_FP8, 32), 33);
    ck_assert_uint_eq(peal_plan_wire_bytes(PLAN_WIRE_FP8, 33), 35);
    ck_assert_uint_eq(peal_plan_wire_bytes(PLAN_WIRE_BF16, UINT64_MAX), UINT64_MAX);
    ck_assert_uint_eq(peal_plan_wire_bytes(PLAN_WIRE_FP8, UINT64_MAX), UINT64_MAX);
}
END_TEST

/* ---- plans of two ranks: rank 0 owns chunk 0, rank 1 chunk 1 */

#define BF16 "region scratch wire bf16 width 4 depth 1 slot 2304 "
#define FP8 "region scratch wire fp8 width 4 depth 1 slot 1188 "
#define PLAIN "region scratch width 4 depth 1 slot 4352 "
#define SETTINGS "chunks 2 semaphores 4 " BF16 FP8 PLAIN "region packet width 1 depth 1 slot 4352 "
#define LINKS "link r0 -> r1 nvlink direct link r1 -> r0 nvlink direct "
#define GIVE0 "pack c1: in[1] -> r1.s0[0]@1 sm signal r1.0 sm "
#define GIVE1 "pack c0: in[0] -> r0.s0[0]@2 sm signal r0.0 sm "
#define FOLD0 "wait r1.0 reduce c0: in[0] s0[0] -> out[0] sm final "
#define FOLD1 "wait r0.0 reduce c1: s0[0] in[1] -> out[1] sm final "
#define SEND0 "pack c0: out[0] -> s0[1] r1.s0[2]@1 sm signal r1.1 sm "
#define SEND1 "pack c1: out[1] -> s0[1] r0.s0[2]@2 sm signal r0.1 sm "
#define KEEP0 "unpack c0: s0[1] -> out[0] sm "
#define KEEP1 "unpack c1: s0[1] -> out[1] sm "
#define TAKE0 "wait r1.1 unpack c1: s0[2] -> out[1] sm "
#define TAKE1 "wait r0.1 unpack c0: s0[2] -> out[0] sm "
#define REST1 GIVE1 FOLD1 SEND1 KEEP1 TAKE1
#define REST0 GIVE0 FOLD0 SEND0 KEEP0 TAKE0

static peal_status assemble(const char *settings, const char *body0, const char *body1,
                            peal_diag *diag, peal_table **table)
{
    char text[8192];
    int used = snprintf(text, sizeof text,
                        "peal-table 1 plan allreduce ranks 2 bytes 0..8192 algorithm x %s" LINKS
                        "rank 0 lane body %s rank 1 lane body %s",
                        settings, body0, body1);
    ck_assert_uint_lt((size_t)used, sizeof text);
    return peal_table_assemble(ctx, text, (size_t)used, "wire", diag, table);
}

struct finding {
    char kind[24];
    char text[384];
};

static void note(void *user, const peal_finding *finding)
{
    struct finding *first = user;
    if (first->kind[0])
        return;
    (void)snprintf(first->kind, sizeof first->kind, "%s", finding->kind);
    (void)snprintf(first->text, sizeof first->text, "%s", finding->text);
}

static peal_status prove(peal_table *table, struct finding *first)
{
    *first = (struct finding){{0}, {0}};
    return peal_table_verify(table, note, first, NULL, NULL);
}

/* kind "form": refused before it is executed; "": proven. */
struct planted {
    const char *settings;
    const char *body0;
    const char *body1;
    const char *kind;
    const char *text;
};

static const struct planted planted[] = {
    {SETTINGS, REST0, REST1, "", ""},
    /* a pack is missing */
    {SETTINGS, "put c1: in[1] -> r1.s0[0]@1 sm signal r1.0 sm " FOLD0 SEND0 KEEP0 TAKE0, REST1,
     "form", "a move between wire slots and others; pack or unpack it"},
    /* an unpack is missing */
    {SETTINGS, GIVE0 FOLD0 SEND0 KEEP0 "wait r1.1 copy c1: s0[2] -> out[1] sm ", REST1, "form",
     "a move between wire slots and others; pack or unpack it"},
    /* the owner keeps its sum as it was */
    {SETTINGS, GIVE0 FOLD0 SEND0 TAKE0, REST1, "numbers", "added up in another order"},
    /* so does the other one */
    {SETTINGS, REST0, GIVE1 "wait r0.0 reduce c1: s0[0] in[1] -> out[1] sm final " SEND1 TAKE1,
     "numbers", "added up in another order"},
    /* the wrong kind of region, in each place */
    {SETTINGS, "pack c1: in[1] -> r1.s2[0]@1 sm " FOLD0, REST1, "form",
     "pack takes a plain source into wire slots of one format"},
    {SETTINGS, "pack c1: s0[0] -> r1.s0[0]@1 sm " FOLD0, REST1, "form",
     "pack takes a plain source into wire slots of one format"},
    {SETTINGS, "pack c1: in[1] -> s0[0] s1[0] sm " FOLD0, REST1, "form",
     "pack takes a plain source into wire slots of one format"},
    {SETTINGS, "unpack c1: s2[0] -> out[1] sm " FOLD0, REST1, "form",
     "unpack takes a wire slot to plain destinations"},
    {SETTINGS, "unpack c1: s0[0] -> s0[1] sm " FOLD0, REST1, "form",
     "unpack takes a wire slot to plain destinations"},
    {SETTINGS, "unpack c1: s0[0] -> r1.out[1]@1 sm ", REST1, "form",
     "unpack writes its own rank's memory"},
    {SETTINGS, "unpack c1: r1.s0[0]@2 -> out[1] sm ", REST1, "form",
     "pack and unpack read their own rank's memory"},
    {SETTINGS, "put c1: s0[1] -> r1.s1[0]@1 sm ", REST1, "form",
     "a move between wire slots and others; pack or unpack it"},
    {SETTINGS, "reduce c0: in[0] s0[0] -> s0[1] sm final ", REST1, "form",
     "a reduction is stored as plain elements; pack it"},
    {SETTINGS, "put_reduce c0: in[0] -> r1.s0[1]@1 sm ", REST1, "form",
     "wire slots are not folded into"},
    {SETTINGS, "copy c0*2: s0[0] -> s0[2] sm ", REST1, "form", "wire slots are not moved in spans"},
    {SETTINGS, "reduce c0: s0[0] p3[0] -> out[0] sm ", REST1, "form",
     "a step has packets or wire slots, not both"},
    {SETTINGS, "pack c1: in[1] -> r1.s0[0]@1 sm final ", REST1, "form",
     "only a reduction has a flag, final"},
    /* an engine that converts nothing */
    {SETTINGS,
     "pack c1: in[1] -> r1.s0[0]@1 ce e0 signal r1.0 ce after e0 " FOLD0 SEND0 KEEP0 TAKE0, REST1,
     "capability", "engine ce cannot pack"},
    /* a slot of half a tile */
    {"chunks 2 semaphores 4 region scratch wire bf16 width 4 depth 1 slot 2048 ", REST0, REST1,
     "bounds", "a tile of up to 2176 bytes does not fit a slot of 2048"},
    {"chunks 2 semaphores 4 region scratch wire fp8 width 4 depth 1 slot 1121 ", REST0, REST1,
     "bounds", "a tile of up to 1122 bytes does not fit a slot of 1121"},
    {"chunks 2 semaphores 4 region scratch wire fp8 width 4 depth 1 slot 1122 ", REST0, REST1, "",
     ""},
};

START_TEST(planted_faults)
{
    const struct planted *p = &planted[_i];
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table = NULL;
    struct finding first;
    peal_status status = assemble(p->settings, p->body0, p->body1, &diag, &table);
    if (strcmp(p->kind, "form") == 0) {
        ck_assert_int_ne(status, PEAL_OK);
        ck_assert_msg(strstr(diag.text, p->text) != NULL, "%d: %s", _i, diag.text);
        return;
    }
    ck_assert_msg(status == PEAL_OK, "%d: %s", _i, diag.text);
    status = prove(table, &first);
    ck_assert_msg(strcmp(first.kind, p->kind) == 0 && strstr(first.text, p->text), "%d: %s: %s", _i,
                  first.kind, first.text);
    ck_assert_int_eq(status, p->kind[0] ? PEAL_ERR_UNPROVEN : PEAL_OK);
    peal_table_destroy(table);
}
END_TEST

/* Contributions and sums are rounded: twice. fp8 has no one order, as elements beside count. */
START_TEST(roundings_are_counted)
{
    static const char fp8[] = "chunks 2 semaphores 4 " FP8;
    for (int i = 0; i < 2; i++) {
        peal_row_info row = {.size = sizeof row};
        peal_table *table = NULL;
        struct finding first;
        ck_assert_int_eq(assemble(i ? fp8 : SETTINGS, REST0, REST1, NULL, &table), PEAL_OK);
        ck_assert_int_eq(prove(table, &first), PEAL_OK);
        ck_assert_int_eq(peal_table_row(table, 0, &row), PEAL_OK);
        ck_assert_uint_eq(row.wire_roundings, 2);
        ck_assert_int_eq(row.wire, PEAL_WIRE_FP8); /* the coarsest region */
        ck_assert_uint_eq(row.order, 0);
        peal_table_destroy(table);
    }
}
END_TEST

/* ---- the file */

static void keep(struct peal_buf *buf, peal_table *table)
{
    peal_buf_init(buf, ctx, 1u << 20);
    ck_assert_int_eq(peal_plan_encode(table->rows[0].plan, buf), PEAL_OK);
}

START_TEST(encoding_is_canonical)
{
    static const char one[] = "chunks 2 semaphores 4 " FP8;
    struct peal_buf first, second, text;
    struct peal_plan *plan;
    peal_table *table = NULL, *again = NULL;
    ck_assert_int_eq(assemble(one, REST0, REST1, NULL, &table), PEAL_OK);
    keep(&first, table);
    ck_assert_int_eq(peal_plan_decode(ctx, first.data, first.used, "wire", NULL, &plan), PEAL_OK);
    peal_buf_init(&text, ctx, 1u << 20);
    peal_buf_str(&text, "peal-table 1\n");
    peal_plan_print(plan, &text);
    ck_assert_int_eq(peal_table_assemble(ctx, text.data, text.used, "wire", NULL, &again), PEAL_OK);
    keep(&second, again);
    ck_assert_uint_eq(first.used, second.used);
    ck_assert_mem_eq(first.data, second.data, first.used);
    peal_buf_free(&text);
    peal_buf_free(&first);
    peal_buf_free(&second);
    peal_plan_destroy(plan);
    peal_table_destroy(table);
    peal_table_destroy(again);
}
END_TEST

/* Every byte of a plan, changed: it is refused, or it is another plan with one encoding. */
START_TEST(encodings_are_untrusted)
{
    static const char one[] = "chunks 2 semaphores 4 " FP8;
    struct peal_buf good, again;
    peal_table *table = NULL;
    ck_assert_int_eq(assemble(one, REST0, REST1, NULL, &table), PEAL_OK);
    keep(&good, table);
    for (size_t i = 0; i < good.used; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            struct peal_plan *plan;
            good.data[i] = (char)(good.data[i] ^ 1 << bit);
            if (peal_plan_decode(ctx, good.data, good.used, "wire", NULL, &plan) == PEAL_OK) {
                peal_buf_init(&again, ctx, 1u << 20);
                ck_assert_int_eq(peal_plan_encode(plan, &again), PEAL_OK);
                ck_assert_uint_eq(again.used, good.used);
                ck_assert_mem_eq(again.data, good.data, good.used);
                peal_buf_free(&again);
                peal_plan_destroy(plan);
            }
            good.data[i] = (char)(good.data[i] ^ 1 << bit);
        }
    peal_buf_free(&good);
    peal_table_destroy(table);
}
END_TEST

START_TEST(regions_are_scratch_of_a_known_format)
{
    struct peal_plan *plan = NULL;
    peal_table *table = NULL;
    peal_diag diag = PEAL_DIAG_INIT;
    ck_assert_int_eq(assemble(SETTINGS, REST0, REST1, NULL, &table), PEAL_OK);
    plan = table->rows[0].plan;
    plan->regions[3].wire = PLAN_WIRE_BF16; /* the packets */
    ck_assert_int_eq(peal_plan_seal(plan, &diag), PEAL_ERR_PLAN);
    ck_assert_str_eq(diag.text, "only a scratch region has wire slots");
    plan->regions[3].wire = PLAN_WIRE_NONE;
    plan->regions[0].wire = PLAN_WIRE_COUNT;
    ck_assert_int_eq(peal_plan_seal(plan, &diag), PEAL_ERR_PLAN);
    ck_assert_str_eq(diag.text, "a region's wire format 3 is not below 3");
    peal_table_destroy(table);
}
END_TEST

/* ---- calls */

#define COUNT 1001u

static int call(struct rank_thread *self, float *out, const float *in, peal_dtype dtype, peal_op op,
                peal_status wanted)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_status status = peal_allreduce(self->comm, in, out, COUNT, dtype, op, &diag);
    if (status == wanted)
        return 0;
    (void)snprintf(self->problem, sizeof self->problem, "rank %u: %s, \"%s\"; not %s", self->rank,
                   peal_status_name(status), diag.text, peal_status_name(wanted));
    return 1;
}

/* What is refused is so everywhere before anything moves: the next call is a call like any other.
 */
static int refused_then_served(struct rank_thread *self)
{
    static float shared[2][COUNT];
    float in[COUNT], out[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        in[i] = self->rank ? 1.0f / 3 : 2;
        out[i] = -1;
    }
    if (call(self, out, in, PEAL_INT32, PEAL_SUM, PEAL_ERR_UNSUPPORTED) ||
        call(self, out, in, PEAL_FLOAT16, PEAL_SUM, PEAL_ERR_UNSUPPORTED) ||
        call(self, out, in, PEAL_FLOAT32, PEAL_MAX, PEAL_ERR_UNSUPPORTED) ||
        call(self, out, in, PEAL_FLOAT32, PEAL_MIN, PEAL_ERR_UNSUPPORTED) ||
        call(self, out, in, PEAL_FLOAT32, PEAL_PROD, PEAL_ERR_UNSUPPORTED))
        return 1;
    for (unsigned i = 0; i < COUNT; i++)
        if (out[i] != -1)
            return 1;
    if (call(self, out, in, PEAL_FLOAT32, PEAL_AVG, PEAL_OK) ||
        call(self, shared[self->rank], in, PEAL_FLOAT32, PEAL_SUM, PEAL_OK))
        return 1;
    /* 1/3 to 8 bits is 0x3eab0000; the owner of the second half has it as it is. */
    float thirds = float_of(0x3eab0000u);
    float first = float_of((uint32_t)slow_bf16(2 + thirds) << 16);
    float second = float_of((uint32_t)slow_bf16(2 + 1.0f / 3) << 16);
    float *sum = shared[self->rank];
    int wrong = sum[0] != first || sum[COUNT - 1] != second ||
                out[0] != float_of((uint32_t)slow_bf16((2 + thirds) / 2) << 16);
    if (wrong)
        (void)snprintf(self->problem, sizeof self->problem, "rank %u: %a %a %a", self->rank,
                       (double)sum[0], (double)sum[COUNT - 1], (double)out[0]);
    return wrong;
}

START_TEST(only_sums_of_float32)
{
    peal_table *table = NULL;
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    ck_assert_int_eq(assemble("chunks 2 semaphores 4 " BF16, REST0, REST1, NULL, &table), PEAL_OK);
    const char *problem = run_ranks(ctx, table, 2, &params, refused_then_served, NULL);
    ck_assert_msg(!problem, "%s", problem);
    peal_table_destroy(table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire");
    TCase *tcase = tcase_create("wire");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, bf16_patterns_come_back);
    tcase_add_test(tcase, bf16_rounds_to_the_nearest);
    tcase_add_test(tcase, fp8_rounds_to_the_nearest);
    tcase_add_test(tcase, fp8_ties_go_to_even);
    tcase_add_test(tcase, fp8_keeps_its_edges);
    tcase_add_test(tcase, packing_is_stable_and_piecewise);
    tcase_add_test(tcase, packed_sizes);
    tcase_add_loop_test(tcase, planted_faults, 0, (int)(sizeof planted / sizeof planted[0]));
    tcase_add_test(tcase, roundings_are_counted);
    tcase_add_test(tcase, encoding_is_canonical);
    tcase_add_test(tcase, encodings_are_untrusted);
    tcase_add_test(tcase, regions_are_scratch_of_a_known_format);
    tcase_add_test(tcase, only_sums_of_float32);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_FORK_GETENV);
}
