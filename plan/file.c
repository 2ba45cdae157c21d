/* SPDX-License-Identifier: Apache-2.0 */
/* A table as a file: header, index of plans, plans, checksum (docs/plan-format.md, "File"). */
#include "wire.h"

#include <string.h>

static void put_u32(struct peal_buf *out, uint32_t value)
{
    unsigned char bytes[8];
    peal_plan_store64(bytes, value);
    peal_buf_put(out, bytes, 4);
}

static uint32_t load32(const unsigned char *at)
{
    unsigned char bytes[8] = {0};
    memcpy(bytes, at, 4);
    return (uint32_t)peal_plan_load64(bytes);
}

/* ---- saving */

static peal_status encode_rows(const peal_table *table, struct peal_buf *out)
{
    size_t index = out->used;
    static const unsigned char blank[WIRE_ROW_BYTES];
    for (uint32_t i = 0; i < table->nrows; i++)
        peal_buf_put(out, blank, sizeof blank);
    for (uint32_t i = 0; i < table->nrows; i++) {
        size_t first = out->used;
        PEAL_TRY(peal_plan_encode(table->rows[i].plan, out));
        char *entry = out->data + index + (size_t)i * WIRE_ROW_BYTES;
        peal_plan_store64(entry, first);
        peal_plan_store64(entry + 8, out->used - first);
    }
    return PEAL_OK;
}

static peal_status encode_table(const peal_table *table, struct peal_buf *out)
{
    peal_buf_put(out, WIRE_MAGIC, WIRE_MAGIC_BYTES);
    put_u32(out, WIRE_VERSION);
    put_u32(out, (uint32_t)table->rows[0].plan->collective);
    put_u32(out, table->nranks);
    put_u32(out, table->nrows);
    PEAL_TRY(encode_rows(table, out));
    PEAL_TRY(out->status);
    unsigned char checksum[WIRE_CHECKSUM_BYTES];
    peal_plan_store64(checksum, peal_hash64(out->data, out->used));
    peal_buf_put(out, checksum, sizeof checksum);
    return out->status;
}

peal_status peal_table_save(const peal_table *table, peal_write_fn write, void *user,
                            peal_diag *diag)
{
    if (!table || !write)
        return peal_fail(diag, PEAL_ERR_ARG, "a table and a writer are needed");
    PEAL_TRY(peal_table_check_rows(table, NULL, NULL, diag));
    struct peal_buf out;
    peal_buf_init(&out, table->ctx, WIRE_FILE_BYTES_MAX);
    peal_status status = encode_table(table, &out);
    if (status == PEAL_OK)
        status = write(user, out.data, out.used);
    peal_buf_free(&out);
    return status == PEAL_OK ? PEAL_OK
                             : peal_fail(diag, status, "saving: %s", peal_status_text(status));
}

/* ---- loading */

struct file {
    const unsigned char *data;
    size_t bytes; /* without the checksum */
    const char *name;
    peal_diag *diag;
};

static peal_status broken(const struct file *file, peal_status status, const char *what)
{
    return peal_fail_at(file->diag, status, file->name, 0, 0, "%s", what);
}

/* The version comes before the checksum: a later one may have another. */
static peal_status check_whole(struct file *file)
{
    if (file->bytes < WIRE_MAGIC_BYTES || memcmp(file->data, WIRE_MAGIC, WIRE_MAGIC_BYTES) != 0)
        return broken(file, PEAL_ERR_INPUT, "not a peal plan: it does not start with " WIRE_MAGIC);
    if (file->bytes < WIRE_HEADER_BYTES + WIRE_CHECKSUM_BYTES)
        return broken(file, PEAL_ERR_INPUT, "the file is cut short");
    uint32_t version = load32(file->data + 8);
    if (version != WIRE_VERSION)
        return peal_fail_at(file->diag, PEAL_ERR_UNSUPPORTED, file->name, 0, 0,
                            "format version %u, and this library reads version %u", version,
                            WIRE_VERSION);
    if ((uint64_t)file->bytes > WIRE_FILE_BYTES_MAX)
        return broken(file, PEAL_ERR_LIMIT, "the file is larger than 4 GiB");
    file->bytes -= WIRE_CHECKSUM_BYTES;
    if (peal_hash64(file->data, file->bytes) != peal_plan_load64(file->data + file->bytes))
        return broken(file, PEAL_ERR_INPUT,
                      "the checksum is wrong: the file is damaged or cut short");
    return PEAL_OK;
}

static peal_status load_row(const struct file *file, peal_table *table, uint32_t row, size_t *at)
{
    const unsigned char *entry = file->data + WIRE_HEADER_BYTES + (size_t)row * WIRE_ROW_BYTES;
    uint64_t offset = peal_plan_load64(entry);
    uint64_t length = peal_plan_load64(entry + 8);
    if (offset != *at || length > file->bytes - *at)
        return broken(file, PEAL_ERR_INPUT, "a plan's place is not right behind what precedes it");
    PEAL_TRY(peal_plan_decode(table->ctx, file->data + *at, (size_t)length, file->name, file->diag,
                              &table->rows[row].plan));
    *at += (size_t)length;
    return PEAL_OK;
}

static peal_status load_rows(const struct file *file, peal_table *table)
{
    size_t at = WIRE_HEADER_BYTES + (size_t)table->nrows * WIRE_ROW_BYTES;
    for (uint32_t i = 0; i < table->nrows; i++)
        PEAL_TRY(load_row(file, table, i, &at));
    if (at != file->bytes)
        return broken(file, PEAL_ERR_INPUT, "bytes behind the last plan");
    if (load32(file->data + 12) != (uint32_t)table->rows[0].plan->collective)
        return broken(file, PEAL_ERR_INPUT,
                      "the header names another collective than the first plan");
    PEAL_TRY(peal_table_check_rows(table, file->name, NULL, file->diag));
    peal_copy_text(table->name, sizeof table->name, file->name ? file->name : "");
    for (uint32_t i = 0; i < table->nrows; i++)
        peal_plan_describe(table->rows[i].plan, &table->rows[i].info);
    return PEAL_OK;
}

static peal_status make_table(const struct file *file, peal_ctx *ctx, peal_table **table_out)
{
    uint32_t nrows = load32(file->data + 20);
    if (nrows == 0 || nrows > WIRE_ROWS_MAX)
        return broken(file, PEAL_ERR_INPUT, "a table has 1 to 4096 plans");
    if (nrows > (file->bytes - WIRE_HEADER_BYTES) / WIRE_ROW_BYTES)
        return broken(file, PEAL_ERR_INPUT, "more plans than bytes for their index");
    if (peal_table_create(ctx, nrows, table_out) != PEAL_OK)
        return broken(file, PEAL_ERR_MEMORY, "out of memory");
    (*table_out)->nranks = load32(file->data + 16);
    return PEAL_OK;
}

peal_status peal_table_load(peal_ctx *ctx, const void *data, size_t bytes, const char *name,
                            peal_diag *diag, peal_table **table_out)
{
    if (!ctx || (!data && bytes) || !table_out)
        return peal_fail(diag, PEAL_ERR_ARG,
                         "a context, data and a place for the table are needed");
    struct file file = {.data = data, .bytes = bytes, .name = name, .diag = diag};
    PEAL_TRY(check_whole(&file));
    peal_table *table = NULL;
    PEAL_TRY(make_table(&file, ctx, &table));
    peal_status status = load_rows(&file, table);
    if (status != PEAL_OK) {
        peal_table_destroy(table);
        return status;
    }
    *table_out = table;
    return PEAL_OK;
}
