/* SPDX-License-Identifier: Apache-2.0 */
/* Words, numbers and complaints of the text form: what asm.c is written in. */
#ifndef PEAL_PLAN_ASM_H
#define PEAL_PLAN_ASM_H

#include "wire.h"

struct asm_source {
    peal_ctx *ctx;
    const char *text;
    size_t at;
    size_t bytes;
    const char *name;
    peal_diag *diag;
};

/* A piece of the text; empty (length 0) where there is no word. */
struct asm_word {
    const char *text;
    size_t length;
};

/* Words that may stand somewhere, for "did you mean". */
struct asm_choice {
    const char *expected; /* "a step" */
    const char *const *words;
    size_t count;
};

/* Refuses text that is too long, as a whole or in a line. */
peal_status peal_asm_check(struct asm_source *in);
/* Reports at offset `at`. */
peal_status peal_asm_fail(const struct asm_source *in, peal_status status, size_t at,
                          const char *text);
/* Reports that something else was expected here; choice may be NULL when there are no words. */
peal_status peal_asm_expected(struct asm_source *in, const char *expected);
peal_status peal_asm_unknown(struct asm_source *in, const struct asm_choice *choice);

/* Skips blanks and comments; returns the offset of what follows. */
size_t peal_asm_skip(struct asm_source *in);
int peal_asm_ended(struct asm_source *in);
/* The next word, not taken. */
struct asm_word peal_asm_peek(struct asm_source *in);
int peal_asm_word_is(struct asm_word word, const char *text);
/* Takes the word if it is the next; the character sequence (such as "->") likewise. */
int peal_asm_accept(struct asm_source *in, const char *word);
int peal_asm_accept_mark(struct asm_source *in, const char *mark);
peal_status peal_asm_word(struct asm_source *in, const char *word);
peal_status peal_asm_mark(struct asm_source *in, const char *mark);
/* A decimal number of at most `most`. */
peal_status peal_asm_number(struct asm_source *in, const char *expected, uint64_t most,
                            uint64_t *value);
peal_status peal_asm_u32(struct asm_source *in, const char *expected, uint32_t *value);
/* A letter and a number: r12. */
int peal_asm_is_tagged(struct asm_word word, char letter);
peal_status peal_asm_tagged(struct asm_source *in, char letter, const char *expected, uint64_t most,
                            uint32_t *value);
/* Text between quotes, into an array. */
peal_status peal_asm_quoted(struct asm_source *in, char *text, size_t bytes);
/* Characters up to a blank, into an array: an algorithm's name. */
peal_status peal_asm_name(struct asm_source *in, char *text, size_t bytes);
/* The index of the next word among the choice's. */
peal_status peal_asm_choose(struct asm_source *in, const struct asm_choice *choice,
                            uint32_t *index);

#endif
