/* SPDX-License-Identifier: Apache-2.0 */
/* strtod and printf follow the process's locale, so numbers are read and written here. */
#include "topo_text.h"

#include <string.h>

static const char *skip_blanks(const char *p)
{
    while (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n')
        p++;
    return p;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return 99;
}

/* Reads digits of a base; NULL when there are none or the value leaves 64 bits. */
static const char *read_digits(const char *p, unsigned base, uint64_t *value)
{
    const char *start = p;
    uint64_t v = 0;

    for (; digit_of(*p) < (int)base; p++) {
        uint64_t digit = (uint64_t)digit_of(*p);

        if (v > (UINT64_MAX - digit) / base)
            return NULL;
        v = v * base + digit;
    }
    *value = v;
    return p == start ? NULL : p;
}

int peal_topo_read_int(const char *text, int64_t *out)
{
    const char *p = skip_blanks(text);
    int negative = *p == '-';
    unsigned base = 10;
    uint64_t value;

    if (*p == '-' || *p == '+')
        p++;
    if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X')) {
        base = 16;
        p += 2;
    } else if (p[0] == '0') {
        base = 8;
    }
    p = read_digits(p, base, &value);
    if (!p || *skip_blanks(p) || value > INT64_MAX)
        return 0;
    *out = negative ? -(int64_t)value : (int64_t)value;
    return 1;
}

int peal_topo_read_hex(const char *text, uint64_t *out)
{
    const char *p = skip_blanks(text);
    uint64_t value;

    if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X'))
        p += 2;
    p = read_digits(p, 16, &value);
    if (!p || *skip_blanks(p))
        return 0;
    *out = value;
    return 1;
}

/* Exact where the digits fit 2^53 and there are at most 22 decimals (one correctly rounded
 * division), which covers every number a topology file holds. */
int peal_topo_read_double(const char *text, double *out)
{
    static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const char *p = skip_blanks(text);
    int negative = *p == '-';
    int digits = 0;
    int exponent = 0;
    int point = 0;
    uint64_t mantissa = 0;
    double value;

    if (*p == '-' || *p == '+')
        p++;
    for (;; p++) {
        if (*p == '.' && !point) {
            point = 1;
            continue;
        }
        if (*p < '0' || *p > '9')
            break;
        digits++;
        if (mantissa < 100000000000000000u) {
            mantissa = mantissa * 10 + (uint64_t)(*p - '0');
            exponent -= point;
        } else if (!point) {
            exponent++;
        }
    }
    if (!digits)
        return 0;
    if (*p == 'e' || *p == 'E') {
        int minus = p[1] == '-';
        uint64_t e;

        p = read_digits(p + (p[1] == '-' || p[1] == '+' ? 2 : 1), 10, &e);
        if (!p || e > 300)
            return 0;
        exponent += minus ? -(int)e : (int)e;
    }
    if (*skip_blanks(p))
        return 0;
    value = (double)mantissa;
    for (; exponent > 0; exponent -= exponent > 22 ? 22 : exponent)
        value *= power[exponent > 22 ? 22 : exponent];
    for (; exponent < 0; exponent += exponent < -22 ? 22 : -exponent)
        value /= power[exponent < -22 ? 22 : -exponent];
    if (value > 1e300)
        return 0;
    *out = negative ? -value : value;
    return 1;
}

int peal_topo_read_bus(const char *text, uint64_t *out)
{
    uint64_t value = 0;
    int digits = 0;

    for (; *text; text++) {
        if (*text == ':' || *text == '.')
            continue;
        if (digit_of(*text) > 15 || ++digits > 16)
            return 0;
        value = value << 4 | (uint64_t)digit_of(*text);
    }
    if (digits < 4)
        return 0;
    *out = value;
    return 1;
}

int peal_topo_bus_hidden(const char *text)
{
    int digits = 0;

    for (; *text; text++) {
        if (*text == ':' || *text == '.')
            continue;
        if (*text == 'f' || *text == 'F')
            digits++;
        else if (!(*text == '0' && text[1] == '\0')) /* the function number of f…:ff.0 */
            return 0;
    }
    return digits >= 8;
}

int peal_topo_has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

int peal_topo_word_begins(const char *text, const char *const *prefixes)
{
    for (; *prefixes; prefixes++) {
        if (peal_topo_has_prefix(text, *prefixes))
            return 1;
    }
    return 0;
}

void peal_topo_text_init(struct topo_text *text, char *data, size_t size)
{
    text->data = data;
    text->size = size;
    text->used = 0;
    if (size)
        data[0] = '\0';
}

void peal_topo_text_put(struct topo_text *text, const char *what)
{
    size_t length = strlen(what);
    size_t room = text->size > text->used ? text->size - text->used - 1 : 0;

    if (length > room)
        length = room;
    if (length) {
        memcpy(text->data + text->used, what, length);
        text->used += length;
        text->data[text->used] = '\0';
    }
}

void peal_topo_text_u64(struct topo_text *text, uint64_t value)
{
    char digits[24];
    size_t at = sizeof digits;

    digits[--at] = '\0';
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    peal_topo_text_put(text, digits + at);
}

void peal_topo_text_real(struct topo_text *text, double value)
{
    uint64_t thousandths;
    char decimals[5] = ".000";

    if (!(value >= 0) || value > 1e15) {
        peal_topo_text_put(text, value > 1e15 ? "inf" : value < 0 ? "-" : "nan");
        if (!(value < 0) || value < -1e15)
            return;
        value = -value;
    }
    thousandths = (uint64_t)(value * 1000 + 0.5);
    peal_topo_text_u64(text, thousandths / 1000);
    thousandths %= 1000;
    if (!thousandths)
        return;
    for (int i = 3; i > 0; i--, thousandths /= 10)
        decimals[i] = (char)('0' + thousandths % 10);
    for (int i = 3; decimals[i] == '0'; i--)
        decimals[i] = '\0';
    peal_topo_text_put(text, decimals);
}

struct topo_number peal_topo_real(double value)
{
    struct topo_number number;
    struct topo_text text;

    peal_topo_text_init(&text, number.text, sizeof number.text);
    peal_topo_text_real(&text, value);
    return number;
}

/* ---- XML */

void peal_topo_text_escaped(struct peal_buf *buf, const char *text)
{
    for (; *text; text++) {
        if (*text == '&')
            peal_buf_str(buf, "&amp;");
        else if (*text == '<')
            peal_buf_str(buf, "&lt;");
        else if (*text == '"')
            peal_buf_str(buf, "&quot;");
        else
            peal_buf_put(buf, text, 1);
    }
}

int peal_topo_text_plain(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20)
            return 0;
    return 1;
}
