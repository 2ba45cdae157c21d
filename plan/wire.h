/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this room share about the form of a plan and its file. */
#ifndef PEAL_PLAN_WIRE_H
#define PEAL_PLAN_WIRE_H

#include "plan.h"

#define WIRE_MAGIC "PEALPLAN"
#define WIRE_MAGIC_BYTES 8u
#define WIRE_VERSION 2u
#define TEXT_VERSION 1u
#define WIRE_HEADER_BYTES 24u /* magic, version, collective, ranks, rows */
#define WIRE_ROW_BYTES 16u    /* offset, length */
#define WIRE_RANK_BYTES 24u   /* offset, length, hash */
#define WIRE_CHECKSUM_BYTES 8u
#define WIRE_ROWS_MAX 4096u
#define WIRE_FILE_BYTES_MAX (1ull << 32)
#define TEXT_BYTES_MAX (1ull << 30)
#define TEXT_LINE_MAX 65536u

#define PLAN_TRIPS_MAX (1ull << 31)
#define PLAN_MEMORY_MAX (1ull << 48) /* bytes of scratch or packets of one parity */

/* The first byte of a step: opcode, engine, and a mark. */
#define WIRE_OP_MASK 0x0fu
#define WIRE_ENGINE_SHIFT 4
#define WIRE_ENGINE_MASK 0x07u
#define WIRE_SPAN                                                                                  \
    0x0fu               /* comes first: span and stride of the data step behind                    \
                           it, and, with the mark, how far its slots lie apart */
#define WIRE_MARK 0x80u /* final; signal: after an event; await: delivered */

/* A region's first byte: its buffer, and from this bit on its wire format. */
#define WIRE_WEIGHTS 0x01u /* behind the number of chunks */
#define WIRE_AHEAD 0x02u
#define WIRE_REGION_SHIFT 2

/* The first byte of an operand. */
#define WIRE_BUFFER_MASK 0x03u
#define WIRE_REMOTE 0x04u /* a link follows, which tells the rank */
#define WIRE_OWN 0x08u    /* in, out: index is the step's chunk and not written */

/* What of a plan is meant, but for its ranks. */
enum plan_part {
    PLAN_PART_HEAD,
    PLAN_PART_ALGORITHM,
    PLAN_PART_DETAIL,
    PLAN_PART_TILE,
    PLAN_PART_CHUNKS, /* and their weights */
    PLAN_PART_SEMAPHORES,
    PLAN_PART_REGION,
    PLAN_PART_LINK,
    PLAN_PART_PAIR,
    PLAN_PART_BLOCK,
    PLAN_PARTS
};

/* Where in a plan something is; -1: none is meant. step counts from the start of the
 * rank's steps. */
struct plan_place {
    int64_t rank;
    int64_t lane;
    int64_t step;
    enum plan_part part; /* where rank is -1 */
    uint32_t index;      /* of its kind */
};

/* Checks the form and makes plan->prefix; *place (may be NULL) says where it is wrong, path what
 * the diag calls the text. */
peal_status peal_plan_check_form(struct peal_plan *plan, const char *path, struct plan_place *place,
                                 peal_diag *diag);
/* Sets the id of a plan whose form is right. */
peal_status peal_plan_identify(struct peal_plan *plan, peal_diag *diag);
/* Encodes, and tells which bytes the id of a whole plan covers. */
struct wire_part {
    size_t first;
    size_t bytes;
};
peal_status peal_plan_encode_part(const struct peal_plan *plan, struct peal_buf *out,
                                  struct wire_part *part);
/* Eight bytes, little-endian. */
void peal_plan_store64(void *at, uint64_t value);
uint64_t peal_plan_load64(const void *at);
/* Every row holds a program of the table's ranks; rows are in order, and the ranges of one
 * collective, root and peer rise without gaps; *row (may be NULL) is the one that does not. */
peal_status peal_table_check_rows(const peal_table *table, const char *path, uint32_t *row,
                                  peal_diag *diag);
/* Writes a hash as 32 hexadecimal digits, high ones first, no zero behind. */
void peal_plan_hex(char *at, struct peal_hash128 hash);
/* Writes value in decimal; returns the end. At most 20 characters, no zero behind. */
char *peal_plan_decimal(char *at, uint64_t value);
void peal_plan_print_head(const struct peal_plan *plan, struct peal_buf *out);
void peal_plan_print_rank(const struct peal_plan *plan, uint32_t rank, struct peal_buf *out);

#endif
