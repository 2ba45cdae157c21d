/* SPDX-License-Identifier: Apache-2.0 */
/* A growing list of notes; texts are clipped to TOPO_NOTE_TEXT bytes. */
#include "notes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TOPO_NOTE_TEXT = 480 };

static peal_status add(struct topo_notes *notes, int warning, const char *rule, uint32_t line,
                       const char *format, va_list args) PEAL_PRINTF(5, 0);

static peal_status add(struct topo_notes *notes, int warning, const char *rule, uint32_t line,
                       const char *format, va_list args)
{
    char text[TOPO_NOTE_TEXT];
    struct topo_note *note;
    void *list = notes->note;
    peal_status status;

    if (notes->count >= TOPO_NOTES_MAX)
        return PEAL_OK;
    if (vsnprintf(text, sizeof text, format, args) < 0)
        text[0] = '\0';
    status = peal_grow(notes->arena->ctx, &list, &notes->capacity, (size_t)notes->count + 1,
                       sizeof *notes->note, TOPO_NOTES_MAX);
    notes->note = list;
    PEAL_TRY(status);
    note = &notes->note[notes->count];
    note->warning = warning;
    note->rule = rule;
    note->line = line;
    note->path = notes->path;
    note->text = peal_topo_arena_text(notes->arena, text, strlen(text));
    if (!note->text)
        return PEAL_ERR_MEMORY;
    notes->count++;
    return PEAL_OK;
}

peal_status peal_topo_note(struct topo_notes *notes, uint32_t line, const char *format, ...)
{
    va_list args;
    peal_status status;

    va_start(args, format);
    status = add(notes, 0, "", line, format, args);
    va_end(args);
    return status;
}

peal_status peal_topo_warn(struct topo_notes *notes, uint32_t line, const char *format, ...)
{
    va_list args;
    peal_status status;

    va_start(args, format);
    status = add(notes, 1, "", line, format, args);
    va_end(args);
    return status;
}

peal_status peal_topo_trap(struct topo_notes *notes, const char *rule, uint32_t line,
                           const char *format, ...)
{
    va_list args;
    peal_status status;

    va_start(args, format);
    status = add(notes, 1, rule, line, format, args);
    va_end(args);
    return status;
}

/* Files are told apart by the pointer to their path. */
static void number_files(struct topo_notes *notes)
{
    for (uint32_t i = 0; i < notes->count; i++) {
        uint32_t j = 0;

        while (notes->note[j].path != notes->note[i].path)
            j++;
        notes->note[i].file = j;
    }
}

static int after(const struct topo_note *a, const struct topo_note *b)
{
    return a->file != b->file ? a->file > b->file : a->line > b->line;
}

/* Insertion sort: stable, and the list is nearly sorted already. */
void peal_topo_notes_sort(struct topo_notes *notes)
{
    number_files(notes);
    for (uint32_t i = 1; i < notes->count; i++) {
        struct topo_note moving = notes->note[i];
        uint32_t at = i;

        for (; at > 0 && after(&notes->note[at - 1], &moving); at--)
            notes->note[at] = notes->note[at - 1];
        notes->note[at] = moving;
    }
}

void peal_topo_notes_free(struct topo_notes *notes)
{
    if (notes->arena)
        peal_free(notes->arena->ctx, notes->note, notes->capacity * sizeof *notes->note);
    notes->note = NULL;
    notes->count = notes->capacity = 0;
}
