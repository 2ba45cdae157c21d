/* SPDX-License-Identifier: Apache-2.0 */
/* string.format: %d %i %u %c %x %X %o %e %E %f %F %g %G %s %q %%, widths and precisions below 100.
 */
#include "box.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_TEXT 512 /* %.99f of the largest double has 409 characters */

struct spec {
    int left;
    int zero;
    int sign; /* '+', ' ' or 0 */
    int sharp;
    int width;
    int precision; /* -1: none */
    char what;
};

static const char *read_two_digits(lua_State *L, const char *at, const char *end, int *value)
{
    const char *first = at;
    for (*value = 0; at < end && *at >= '0' && *at <= '9'; at++)
        *value = at - first < 2 ? 10 * *value + (*at - '0') : 100;
    if (*value > 99)
        peal_lua_error(L, "a width or precision of a format is too large");
    return at;
}

static const char *read_spec(lua_State *L, const char *at, const char *end, struct spec *spec)
{
    memset(spec, 0, sizeof *spec);
    spec->precision = -1;
    for (; at < end && memchr("-0+ #", *at, 5); at++) {
        spec->left |= *at == '-';
        spec->zero |= *at == '0';
        spec->sharp |= *at == '#';
        spec->sign = *at == '+' || (*at == ' ' && !spec->sign) ? *at : spec->sign;
    }
    at = read_two_digits(L, at, end, &spec->width);
    if (at < end && *at == '.')
        at = read_two_digits(L, at + 1, end, &spec->precision);
    if (at == end)
        peal_lua_error(L, "a format ends within a '%%'");
    spec->what = *at;
    return at + 1;
}

static void put_many(struct box_text *out, char c, int n)
{
    while (n-- > 0)
        peal_text_put(out, &c, 1);
}

/* A sign or 0x, then zeros where asked for, then the rest. */
static void put_padded(struct box_text *out, const struct spec *spec, const char *prefix,
                       const char *text, size_t bytes, int zeros)
{
    int pad = spec->width - (int)strlen(prefix) - (int)(bytes < 1024 ? bytes : 1024);
    put_many(out, ' ', spec->left || zeros ? 0 : pad);
    peal_text_put(out, prefix, strlen(prefix));
    put_many(out, '0', zeros && !spec->left ? pad : 0);
    peal_text_put(out, text, bytes);
    put_many(out, ' ', spec->left ? pad : 0);
}

static const char *sign_of(const struct spec *spec, int negative)
{
    return negative ? "-" : spec->sign == '+' ? "+" : spec->sign ? " " : "";
}

static lua_Integer whole_argument(lua_State *L, int arg)
{
    int is;
    lua_Integer value = lua_tointegerx(L, arg, &is);
    if (!is)
        value = peal_arg_integer(L, arg); /* says what is wrong */
    return value;
}

static void put_integer(struct box_text *out, const struct spec *spec, int arg)
{
    char text[NUMBER_TEXT];
    lua_Integer value = whole_argument(out->L, arg);
    int plain = spec->what == 'd' || spec->what == 'i', negative = plain && value < 0;
    uint64_t size = negative ? 0 - (uint64_t)value : (uint64_t)value;
    int digits = spec->precision < 0 ? 1 : spec->precision, n;
    const char *prefix = plain ? sign_of(spec, negative) : "";
    if (spec->what == 'x')
        n = snprintf(text, sizeof text, "%.*" PRIx64, digits, size);
    else if (spec->what == 'X')
        n = snprintf(text, sizeof text, "%.*" PRIX64, digits, size);
    else if (spec->what == 'o')
        n = snprintf(text, sizeof text, "%.*" PRIo64, digits, size);
    else
        n = snprintf(text, sizeof text, "%.*" PRIu64, digits, size);
    if (spec->sharp && value && (spec->what == 'x' || spec->what == 'X'))
        prefix = spec->what == 'x' ? "0x" : "0X";
    put_padded(out, spec, prefix, text, (size_t)n, spec->zero && spec->precision < 0);
}

static void put_number(struct box_text *out, const struct spec *spec, int arg)
{
    char text[NUMBER_TEXT];
    lua_Number value = peal_arg_number(out->L, arg);
    int digits = spec->precision < 0 ? 6 : spec->precision, n;
    switch (spec->what) {
    case 'e':
        n = snprintf(text, sizeof text, "%.*e", digits, value);
        break;
    case 'E':
        n = snprintf(text, sizeof text, "%.*E", digits, value);
        break;
    case 'f':
    case 'F':
        n = snprintf(text, sizeof text, "%.*f", digits, value);
        break;
    case 'g':
        n = snprintf(text, sizeof text, "%.*g", digits, value);
        break;
    default:
        n = snprintf(text, sizeof text, "%.*G", digits, value);
    }
    int negative = text[0] == '-', finite = value - value == 0;
    put_padded(out, spec, sign_of(spec, negative), text + negative, (size_t)(n - negative),
               spec->zero && finite);
}

static void put_string(struct box_text *out, const struct spec *spec, int arg)
{
    size_t bytes;
    peal_arg_any(out->L, arg);
    const char *text = peal_sandbox_tostring(out->L, arg, &bytes);
    if (spec->precision >= 0 && (size_t)spec->precision < bytes)
        bytes = (size_t)spec->precision;
    put_padded(out, spec, "", text, bytes, 0);
    lua_pop(out->L, 1);
}

/* As Lua would read it back. */
static void put_quoted(struct box_text *out, int arg)
{
    size_t bytes;
    peal_arg_any(out->L, arg);
    if (lua_type(out->L, arg) != LUA_TSTRING) {
        const char *text = peal_sandbox_tostring(out->L, arg, &bytes);
        peal_text_put(out, text, bytes);
        lua_pop(out->L, 1);
        return;
    }
    const char *text = lua_tolstring(out->L, arg, &bytes);
    peal_sandbox_charge(out->L, bytes);
    peal_text_put(out, "\"", 1);
    for (size_t i = 0; i < bytes; i++) {
        char escaped[8];
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\' || c == '\n')
            peal_text_put(out, "\\", 1);
        if (c < 32 && c != '\n')
            peal_text_put(out, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\%03u", c));
        else
            peal_text_put(out, text + i, 1);
    }
    peal_text_put(out, "\"", 1);
}

static void put_character(struct box_text *out, const struct spec *spec, int arg)
{
    char c = (char)(unsigned char)peal_arg_integer(out->L, arg);
    put_padded(out, spec, "", &c, 1, 0);
}

static void put_argument(struct box_text *out, const struct spec *spec, int arg)
{
    if (memchr("diuxXo", spec->what, 6))
        put_integer(out, spec, arg);
    else if (memchr("eEfFgG", spec->what, 6))
        put_number(out, spec, arg);
    else if (spec->what == 's')
        put_string(out, spec, arg);
    else if (spec->what == 'q')
        put_quoted(out, arg);
    else if (spec->what == 'c')
        put_character(out, spec, arg);
    else
        peal_lua_error(out->L, "no format '%%%c'", spec->what);
}

int peal_box_format(lua_State *L)
{
    size_t bytes;
    const char *at = peal_arg_string(L, 1, &bytes), *end = at + bytes;
    struct box_text out;
    peal_text_begin(&out, L);
    for (int arg = 1; at < end;) {
        struct spec spec;
        const char *mark = memchr(at, '%', (size_t)(end - at));
        peal_sandbox_charge(L, 8 + (uint64_t)((mark ? mark : end) - at) / 16);
        peal_text_put(&out, at, (size_t)((mark ? mark : end) - at));
        if (!mark)
            break;
        at = mark + 1;
        if (at < end && *at == '%') {
            peal_text_put(&out, at++, 1);
            continue;
        }
        at = read_spec(L, at, end, &spec);
        if (++arg >= out.index)
            peal_lua_error(L, "a format has more '%%' than there are values");
        put_argument(&out, &spec, arg);
    }
    peal_text_push(&out);
    return 1;
}
