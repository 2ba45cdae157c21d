/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a plan file from a stranger. What loads is verified and printed too:
 * the proof must end, whatever the schedule. Each input is also tried with its checksum
 * put right, since mutations would hardly get past it otherwise.
 */
#include "base.h"
#include "fuzz.h"
#include "support.h"

#include <string.h>

static peal_status swallow(void *user, const char *data, size_t bytes)
{
    (void)user;
    (void)data;
    (void)bytes;
    return PEAL_OK;
}

static void exercise(peal_table *table)
{
    peal_verify_report report = {.size = sizeof report};
    peal_status status = peal_table_verify(table, NULL, NULL, &report, NULL);
    if (status == PEAL_OK)
        status = peal_table_print(table, swallow, NULL, NULL);
    (void)status;
}

static void load(const uint8_t *data, size_t bytes)
{
    struct test_heap heap;
    peal_ctx *ctx = test_ctx(&heap);
    peal_table *table = NULL;
    if (peal_table_load(ctx, data, bytes, "fuzz.peal", NULL, &table) == PEAL_OK) {
        exercise(table);
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
