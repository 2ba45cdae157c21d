/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers and bus ids to and from text, the same in every locale.
 */
#ifndef PEAL_TOPO_TOPO_TEXT_H
#define PEAL_TOPO_TOPO_TEXT_H

#include "base.h"

#include <stddef.h>
#include <stdint.h>

/* Whole-string parsers; surrounding blanks are allowed. Return 1 and write *out, or
 * return 0. Integers as strtol reads them with base 0 (sign, 0x, leading 0 octal);
 * hex is base 16 with or without 0x. */
int peal_topo_read_int(const char *text, int64_t *out);
int peal_topo_read_hex(const char *text, uint64_t *out);
int peal_topo_read_double(const char *text, double *out);

/* A PCI bus id as one number, the way the vendor libraries compare them: its hex digits in
 * a row. Refuses anything but hex digits, ':' and '.', fewer than 4 digits or more than 16. */
int peal_topo_read_bus(const char *text, uint64_t *out);
/* All digits f: the link's far end is not visible to the guest. */
int peal_topo_bus_hidden(const char *text);

int peal_topo_has_prefix(const char *text, const char *prefix);
int peal_topo_word_begins(const char *text, const char *const *prefixes); /* NULL-terminated */

/* A bounded line of text: appends what fits, always terminated. */
struct topo_text {
    char *data;
    size_t size;
    size_t used;
};
void peal_topo_text_init(struct topo_text *text, char *data, size_t size);
void peal_topo_text_put(struct topo_text *text, const char *what);
void peal_topo_text_u64(struct topo_text *text, uint64_t value);
/* At most three decimals, no trailing zeros: "22.5", "0.188", "450". */
void peal_topo_text_real(struct topo_text *text, double value);

/* The same as a value, for use as an argument of a format. */
struct topo_number {
    char text[32];
};
struct topo_number peal_topo_real(double value);

/* As an attribute's value in XML: what that would read as its own is escaped. Not for text that
 * peal_topo_text_plain refuses. */
void peal_topo_text_escaped(struct peal_buf *buf, const char *text);
/* 0: it holds control characters, which XML has no way to say, or would not keep. */
int peal_topo_text_plain(const char *text);

#endif
