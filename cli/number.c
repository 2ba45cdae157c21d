/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as people write and read them. The program never calls setlocale: the decimal point is
 * a point. */
#include "cli.h"

#include <string.h>

int parse_u64(const char *text, size_t length, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned digit = (unsigned)(unsigned char)text[i] - '0';
        if (digit > 9 || value > (UINT64_MAX - digit) / 10)
            return 0;
        value = value * 10 + digit;
    }
    if (length)
        *out = value;
    return length > 0;
}

/* How many powers of 1024 a unit is; -1: none. */
static int unit_power(const char *text, size_t length)
{
    static const char letters[] = "KMGT";
    if (length == 0 || (length == 1 && text[0] == 'B'))
        return 0;
    const char *found = strchr(letters, text[0] >= 'a' ? text[0] - 'a' + 'A' : text[0]);
    int tail = (length == 1) || (length == 2 && text[1] == 'B') ||
               (length == 3 && text[1] == 'i' && text[2] == 'B');
    return found && *found && tail ? (int)(found - letters) + 1 : -1;
}

int parse_size(const char *text, size_t length, uint64_t *out)
{
    size_t digits = 0;
    while (digits < length && text[digits] >= '0' && text[digits] <= '9')
        digits++;
    uint64_t value;
    int power = unit_power(text + digits, length - digits);
    if (power < 0 || !parse_u64(text, digits, &value))
        return 0;
    if (value > UINT64_MAX >> (10 * power))
        return 0;
    *out = value << (10 * power);
    return 1;
}

const char *size_text(uint64_t bytes, char *text)
{
    unsigned power = 0;
    while (power < 4 && bytes && bytes % 1024 == 0) {
        bytes /= 1024;
        power++;
    }
    (void)snprintf(text, NUMBER_TEXT, "%llu%.*s", (unsigned long long)bytes, power ? 1 : 0,
                   &" KMGT"[power]);
    return text;
}

const char *real_text(double value, char *text)
{
    int decimals = value < 0.001 && value > 0 ? 5 : value < 10 ? 2 : value < 100 ? 1 : 0;
    (void)snprintf(text, NUMBER_TEXT, "%.*f", decimals, value);
    return text;
}

const char *engines_text(uint32_t bits, char *text, size_t size)
{
    text[0] = '\0';
    for (uint32_t e = 0; e < PEAL_ENGINE_COUNT; e++) {
        size_t used = strlen(text);
        if (bits >> e & 1)
            (void)snprintf(text + used, size - used, "%s%s", used ? "+" : "",
                           peal_engine_name((peal_engine)e));
    }
    return text;
}
