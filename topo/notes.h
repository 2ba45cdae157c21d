/* SPDX-License-Identifier: Apache-2.0 */
/* What the reader filled in or found suspicious, in the order of the files' lines. */
#ifndef PEAL_TOPO_NOTES_H
#define PEAL_TOPO_NOTES_H

#include "arena.h"

#define TOPO_NOTES_MAX 4096u

struct topo_note {
    int warning;
    uint32_t line;
    const char *path;
    const char *text;
    const char *rule; /* "" of none: what peal_topo_trap gave */
    uint32_t file;    /* ordinal of path among the files read */
};

struct topo_notes {
    struct topo_arena *arena; /* holds the texts */
    struct topo_note *note;
    uint32_t count;
    uint32_t capacity;
    const char *path; /* of the file being read; each file's is a pointer of its own */
};

/* Adds one; beyond TOPO_NOTES_MAX they are counted no more. Errors: MEMORY. No floating
 * point in the format: the decimal point would follow the locale. */
peal_status peal_topo_note(struct topo_notes *notes, uint32_t line, const char *format, ...)
    PEAL_PRINTF(3, 4);
peal_status peal_topo_warn(struct topo_notes *notes, uint32_t line, const char *format, ...)
    PEAL_PRINTF(3, 4);
/* A warning of one kind that others ask for by its name (peal_note_info), which is static. */
peal_status peal_topo_trap(struct topo_notes *notes, const char *rule, uint32_t line,
                           const char *format, ...) PEAL_PRINTF(4, 5);
/* Sorts by file, in the order the files were read, then by line; equals keep theirs. */
void peal_topo_notes_sort(struct topo_notes *notes);
void peal_topo_notes_free(struct topo_notes *notes);

#endif
