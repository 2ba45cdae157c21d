/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into the program, makes it one whose author set a locale with a decimal comma, as
 * people who embed the library may: tests/cli/locale.sh. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((constructor)) static void set_locale(void)
{
    char text[8] = "";
    if (setlocale(LC_NUMERIC, "comma"))
        (void)snprintf(text, sizeof text, "%.1f", 1.5);
    if (strcmp(text, "1,5") != 0)
        abort();
}
