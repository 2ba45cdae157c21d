/* SPDX-License-Identifier: Apache-2.0 */
/* A measured timeline for Chrome's and Perfetto's viewers, laid out as the predicted one is: a
 * process for each rank, a track for each lane. Times are us from the first event on. */
#include "comm.h"

#define TRACKS (1u + PLAN_EVENTS_MAX) /* of a lane, as in the predicted one */
#define PASS_BYTES 65536u

struct text {
    struct peal_buf buf;
    peal_write_fn write;
    void *user;
    peal_status status;
};

static void pass(struct text *text, size_t least)
{
    if (text->status == PEAL_OK && text->buf.status != PEAL_OK)
        text->status = text->buf.status;
    if (text->status != PEAL_OK || text->buf.used < least || text->buf.used == 0)
        return;
    text->status = text->write(text->user, text->buf.data, text->buf.used);
    text->buf.used = 0;
}

static void put_time(struct peal_buf *buf, const char *key, uint64_t ns)
{
    peal_buf_fmt(buf, "\"%s\":%llu.%03llu", key, (unsigned long long)(ns / 1000),
                 (unsigned long long)(ns % 1000));
}

static void put_names(const peal_table *table, struct text *text)
{
    for (uint32_t r = 0; r < table->nranks; r++) {
        uint32_t lanes = 0;
        for (uint32_t i = 0; i < table->nrows; i++)
            if (table->rows[i].plan->ranks[r].nlanes > lanes)
                lanes = table->rows[i].plan->ranks[r].nlanes;
        peal_buf_fmt(&text->buf,
                     ",\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"tid\":0,\"args\":{"
                     "\"name\":\"rank %u\"}}",
                     r, r);
        for (uint32_t l = 0; l < lanes; l++)
            peal_buf_fmt(&text->buf,
                         ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":%u,"
                         "\"args\":{\"name\":\"lane %u\"}}",
                         r, l * TRACKS, l);
        pass(text, PASS_BYTES);
    }
}

static int is_of(const peal_table *table, const peal_trace_event *event)
{
    if (event->size != sizeof *event || event->row >= table->nrows || event->rank >= table->nranks)
        return 0;
    const struct plan_rank *rank = &table->rows[event->row].plan->ranks[event->rank];
    if (event->lane >= rank->nlanes || event->end_ns < event->start_ns)
        return 0;
    const struct plan_lane *lane = &rank->lanes[event->lane];
    return event->step < lane->pre + lane->body + lane->post;
}

static void put_event(const peal_table *table, const peal_trace_event *event, uint64_t origin,
                      struct text *text)
{
    const struct peal_plan *plan = table->rows[event->row].plan;
    const struct plan_rank *rank = &plan->ranks[event->rank];
    const struct plan_step *step = &rank->steps[rank->lanes[event->lane].first + event->step];
    struct peal_buf *buf = &text->buf;
    peal_buf_fmt(buf, ",\n{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"pid\":%u,\"tid\":%u,",
                 event->waits ? "wait" : peal_plan_op_name(step->op),
                 event->waits ? "wait" : peal_engine_name((peal_engine)step->engine), event->rank,
                 event->lane * TRACKS);
    put_time(buf, "ts", event->start_ns - origin);
    peal_buf_str(buf, ",");
    put_time(buf, "dur", event->end_ns - event->start_ns);
    peal_buf_str(buf, ",\"args\":{\"step\":\"");
    peal_plan_print_step(plan, event->rank, step, buf);
    peal_buf_fmt(buf, "\",\"trip\":%u,\"bytes\":%llu,\"call\":%llu,\"algorithm\":\"%s\"}}",
                 event->trip, (unsigned long long)event->bytes, (unsigned long long)event->call,
                 plan->algorithm);
}

static peal_status check(const peal_table *table, const peal_trace_event *events, uint32_t count,
                         uint64_t *origin, peal_diag *diag)
{
    *origin = UINT64_MAX;
    for (uint32_t i = 0; i < table->nrows; i++)
        if (!table->rows[i].plan || !table->rows[i].plan->ranks || table->rows[i].plan->sliced)
            return peal_fail(diag, PEAL_ERR_ARG, "row %u has no programs of all ranks", i);
    for (uint32_t i = 0; i < count; i++) {
        if (!is_of(table, &events[i]))
            return peal_fail(diag, PEAL_ERR_ARG, "event %u is not of this table", i);
        if (events[i].start_ns < *origin)
            *origin = events[i].start_ns;
    }
    return PEAL_OK;
}

peal_status peal_trace_write(const peal_table *table, const peal_trace_event *events,
                             uint32_t count, peal_write_fn write, void *user, peal_diag *diag)
{
    uint64_t origin;
    if (!table || !write || (count && !events))
        return peal_fail(diag, PEAL_ERR_ARG, "a trace needs a table, events and a writer");
    PEAL_TRY(check(table, events, count, &origin, diag));
    struct text text = {.write = write, .user = user};
    peal_buf_init(&text.buf, table->ctx, SIZE_MAX);
    peal_buf_str(&text.buf, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"program\":\"peal\","
                            "\"measured\":true},\n\"traceEvents\":[\n{\"ph\":\"M\",\"name\":"
                            "\"trace\",\"pid\":0,\"tid\":0}");
    put_names(table, &text);
    for (uint32_t i = 0; i < count && text.status == PEAL_OK; i++) {
        put_event(table, &events[i], origin, &text);
        pass(&text, PASS_BYTES);
    }
    peal_buf_str(&text.buf, "\n]}\n");
    pass(&text, 0);
    peal_buf_free(&text.buf);
    return text.status == PEAL_OK ? PEAL_OK : peal_fail(diag, text.status, "writing the trace");
}
