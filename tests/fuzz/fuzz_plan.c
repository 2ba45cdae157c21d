/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a plan file from a stranger. What loads is saved, printed and
 * assembled again, and verified: the proof must end, whatever the schedule. Each input is also
 * tried with its checksum put right, since mutations would hardly get past it otherwise.
 */
#include "base.h"
#include "fuzz.h"
#include "support.h"

#include <string.h>

static peal_status into_buf(void *user, const char *data, size_t bytes)
{
    struct peal_buf *buf = user;
    peal_buf_put(buf, data, bytes);
    return buf->status;
}

/* A file is the one encoding of what it says, and its text says the same. */
static void check_round_trips(peal_ctx *ctx, const peal_table *table, const uint8_t *data,
                              size_t bytes)
{
    struct peal_buf file;
    struct peal_buf text;
    struct peal_buf again;
    peal_table *read = NULL;
    peal_buf_init(&file, ctx, SIZE_MAX);
    peal_buf_init(&text, ctx, SIZE_MAX);
    peal_buf_init(&again, ctx, SIZE_MAX);
    if (peal_table_save(table, into_buf, &file, NULL) != PEAL_OK || file.used != bytes ||
        memcmp(file.data, data, bytes) != 0)
        abort();
    if (peal_table_print(table, into_buf, &text, NULL) != PEAL_OK ||
        peal_table_assemble(ctx, text.data, text.used, "fuzz.s", NULL, &read) != PEAL_OK ||
        peal_table_save(read, into_buf, &again, NULL) != PEAL_OK || again.used != bytes ||
        memcmp(again.data, data, bytes) != 0)
        abort();
    peal_table_destroy(read);
    peal_buf_free(&file);
    peal_buf_free(&text);
    peal_buf_free(&again);
}

static void load(const uint8_t *data, size_t bytes)
{
    struct test_heap heap;
    peal_ctx *ctx = test_ctx(&heap);
    peal_table *table = NULL;
    if (peal_table_load(ctx, data, bytes, "fuzz.peal", NULL, &table) == PEAL_OK) {
        check_round_trips(ctx, table, data, bytes);
        peal_verify_report report = {.size = sizeof report};
        peal_status status = peal_table_verify(table, NULL, NULL, &report, NULL);
        (void)status;
        peal_table_destroy(table);
    }
    peal_ctx_destroy(ctx);
    if (heap.blocks != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    load(data, bytes);
    if (bytes < 8)
        return 0;
    uint8_t *sealed = malloc(bytes);
    if (!sealed)
        return 0;
    memcpy(sealed, data, bytes - 8);
    uint64_t sum = peal_hash64(sealed, bytes - 8);
    for (unsigned i = 0; i < 8; i++) /* little-endian, whatever the machine */
        sealed[bytes - 8 + i] = (uint8_t)(sum >> (8 * i));
    load(sealed, bytes);
    free(sealed);
    return 0;
}
