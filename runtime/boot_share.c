/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table for a job: rank 0 hands out what it has planned. The ranks meet as they do to join
 * (boot.c), each has got memory for the file before any of it is sent, and what came is decoded,
 * proven and compared before anybody is told that it is good.
 */
#include "comm.h"
#include "job.h"

/* Before the file. */
struct share_head {
    uint64_t bytes;
    uint64_t digest[2]; /* of the plans' ids */
};

struct share {
    struct rt_job *job;
    const peal_table *table; /* rank 0's */
    struct peal_buf file;    /* rank 0 */
    char *came;              /* the others; head.bytes of it */
    struct share_head head;
};

/* ---- rank 0 */

static peal_status into_buf(void *user, const char *data, size_t bytes)
{
    struct peal_buf *buf = user;
    peal_buf_put(buf, data, bytes);
    return buf->status;
}

/* Why there is none was in the diag when the caller came. */
static peal_status no_table(peal_diag *diag)
{
    const peal_diag why = diag ? *diag : (peal_diag)PEAL_DIAG_INIT;
    peal_status status = why.status != PEAL_OK ? why.status : PEAL_ERR_PEER;
    if (why.path[0])
        return peal_fail(diag, status, "%s:%u: %s", why.path, why.line, why.text);
    return peal_fail(diag, status, "%s", why.text[0] ? why.text : "there is no table");
}

static peal_status encode(struct share *s, peal_diag *diag)
{
    peal_status status;
    if (!s->table)
        return no_table(diag);
    PEAL_TRY(peal_table_save(s->table, into_buf, &s->file, diag));
    if (s->file.used > PEAL_SHARE_BYTES)
        return peal_fail(diag, PEAL_ERR_LIMIT, "a table of %zu bytes; at most %llu are handed out",
                         s->file.used, PEAL_SHARE_BYTES);
    struct peal_hash128 digest = rt_table_digest(s->job->ctx, s->table, &status);
    s->head = (struct share_head){s->file.used, {digest.low, digest.high}};
    return status == PEAL_OK ? PEAL_OK : peal_fail(diag, status, "out of memory");
}

/* A rank that is lost keeps the others from nothing: they hear of it afterwards. */
static peal_status send_all(const struct share *s, const void *data, size_t bytes, peal_diag *diag)
{
    peal_status first = PEAL_OK;
    for (uint32_t r = 1; r < s->job->nranks; r++) {
        peal_status status = sock_send(s->job->star[r], data, bytes, s->job->wait);
        if (status != PEAL_OK && first == PEAL_OK)
            first = peal_fail(diag, status, "the table did not reach rank %u", r);
    }
    return first;
}

/* ---- the others */

static peal_status receive(struct share *s, void *data, size_t bytes, peal_diag *diag)
{
    peal_status status = sock_recv(s->job->star[0], data, bytes, s->job->wait);
    if (status == PEAL_OK)
        return PEAL_OK;
    return peal_fail(diag, status, "the table of rank 0 did not come: %s",
                     peal_status_text(status));
}

static peal_status make_room(struct share *s, peal_diag *diag)
{
    PEAL_TRY(receive(s, &s->head, sizeof s->head, diag));
    if (s->head.bytes == 0 || s->head.bytes > PEAL_SHARE_BYTES) {
        s->head.bytes = 0;
        return peal_fail(diag, PEAL_ERR_LIMIT, "rank 0 announces a table of no or too many bytes");
    }
    s->came = peal_alloc(s->job->ctx, (size_t)s->head.bytes);
    return s->came ? PEAL_OK : peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
}

static peal_status compare(const struct share *s, peal_table *table, peal_diag *diag)
{
    peal_status status;
    struct peal_hash128 digest = rt_table_digest(s->job->ctx, table, &status);
    if (status != PEAL_OK)
        return peal_fail(diag, status, "out of memory");
    if (table->nranks != s->job->nranks || digest.low != s->head.digest[0] ||
        digest.high != s->head.digest[1])
        return peal_fail(diag, PEAL_ERR_MISMATCH, "rank 0's table came as another one");
    return peal_table_verify(table, NULL, NULL, NULL, diag);
}

static peal_status take(const struct share *s, peal_diag *diag, peal_table **table_out)
{
    peal_table *table;
    PEAL_TRY(peal_table_load(s->job->ctx, s->came, (size_t)s->head.bytes, "the table of rank 0",
                             diag, &table));
    peal_status status = compare(s, table, diag);
    if (status != PEAL_OK) {
        peal_table_destroy(table);
        return status;
    }
    *table_out = table;
    return PEAL_OK;
}

/* ---- */

static peal_status hand_out(struct share *s, peal_diag *diag, peal_table **made)
{
    struct rt_job *job = s->job;
    int gives = job->rank == 0;
    PEAL_TRY(rt_job_agree(job, gives ? encode(s, diag) : PEAL_OK, diag));
    PEAL_TRY(rt_job_agree(
        job, gives ? send_all(s, &s->head, sizeof s->head, diag) : make_room(s, diag), diag));
    peal_status status = gives ? send_all(s, s->file.data, s->file.used, diag)
                               : receive(s, s->came, (size_t)s->head.bytes, diag);
    if (status == PEAL_OK && !gives)
        status = take(s, diag, made);
    sock_close(&job->listener); /* who goes on to join must not find this meeting */
    return rt_job_agree(job, status, diag);
}

static peal_status share_in(struct rt_job *job, const peal_table *table, peal_diag *diag,
                            peal_table **table_out)
{
    struct share share = {.job = job, .table = table};
    peal_table *made = NULL;
    peal_buf_init(&share.file, job->ctx, SIZE_MAX);
    peal_status status = hand_out(&share, diag, &made);
    peal_buf_free(&share.file);
    peal_free(job->ctx, share.came, (size_t)share.head.bytes);
    if (status != PEAL_OK)
        peal_table_destroy(made);
    else if (job->rank != 0)
        *table_out = made;
    return status;
}

static peal_status check_table(const peal_join_params *params, const peal_table *table,
                               peal_diag *diag)
{
    peal_table_info info = {.size = sizeof info};
    if (!table)
        return PEAL_OK;
    PEAL_TRY(peal_table_get(table, &info));
    if (params->rank != 0)
        return peal_fail(diag, PEAL_ERR_ARG, "rank %u brings a table; rank 0's is handed out",
                         params->rank);
    if (info.sliced || !info.compiled || info.ranks != params->ranks)
        return peal_fail(diag, PEAL_ERR_ARG,
                         "a table that is handed out is compiled, whole, and of the job's ranks");
    return PEAL_OK;
}

peal_status peal_table_share(peal_ctx *ctx, const peal_join_params *params, const peal_table *table,
                             peal_diag *diag, peal_table **table_out)
{
    struct rt_ask ask;
    struct rt_job *job;
    if (!ctx || !params || !table_out)
        return peal_fail(diag, PEAL_ERR_ARG,
                         "sharing takes a context, parameters and a place for the table");
    peal_status status = rt_ask_read(params, NULL, NULL, &ask, diag);
    if (status == PEAL_OK)
        status = check_table(&ask.params, table, diag);
    if (status != PEAL_OK) {
        sock_close(&ask.plan.listener);
        return status;
    }
    PEAL_TRY(rt_job_make(ctx, &ask.plan, NULL, diag, &job));
    status = share_in(job, table, diag, table_out);
    rt_job_free(job);
    return status;
}
