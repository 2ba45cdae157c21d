/* SPDX-License-Identifier: Apache-2.0 */
/* Recording what went wrong, in the caller's memory. */
#include "base.h"

#include <stdio.h>
#include <string.h>

/* A caller compiled against an older header has a shorter struct: what lies beyond its
 * size is not ours to write. Text is cut rather than lost. */
static void diag_write(peal_diag *diag, peal_diag *full)
{
    size_t known = sizeof *full < diag->size ? sizeof *full : diag->size;
    full->size = diag->size;
    memcpy(diag, full, known);
    if (known > offsetof(peal_diag, path) && known < sizeof *full)
        ((char *)diag)[known - 1] = '\0';
}

static void diag_record(peal_diag *diag, peal_status status, const char *path, uint32_t line,
                        uint32_t column, const char *format, va_list args) PEAL_PRINTF(6, 0);

static void diag_record(peal_diag *diag, peal_status status, const char *path, uint32_t line,
                        uint32_t column, const char *format, va_list args)
{
    if (!diag || diag->size < offsetof(peal_diag, line))
        return;
    peal_diag full = PEAL_DIAG_INIT;
    full.status = status;
    full.line = line;
    full.column = column;
    peal_copy_text(full.path, sizeof full.path, path ? path : "");
    if (vsnprintf(full.text, sizeof full.text, format, args) < 0)
        full.text[0] = '\0';
    diag_write(diag, &full);
}

peal_status peal_fail(peal_diag *diag, peal_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    diag_record(diag, status, NULL, 0, 0, format, args);
    va_end(args);
    return status;
}

peal_status peal_fail_at(peal_diag *diag, peal_status status, const char *path, uint32_t line,
                         uint32_t column, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    diag_record(diag, status, path, line, column, format, args);
    va_end(args);
    return status;
}
