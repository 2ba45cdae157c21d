/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timeline as Chrome and Perfetto read it: a process for each rank, a track for each lane and
 * for each event of an asynchronous engine (two transfers of one event never overlap), and an
 * arrow from each signal to the wait it ended. Times are µs with six decimals, from whole ps.
 */
#include "emit.h"

#define TRACKS (1u + PLAN_EVENTS_MAX) /* of a lane */

static void put_time(struct peal_buf *buf, const char *key, uint64_t ps)
{
    peal_buf_fmt(buf, "\"%s\":%llu.%06llu", key, (unsigned long long)(ps / 1000000),
                 (unsigned long long)(ps % 1000000));
}

static uint32_t track_of(const struct sim_lane *lane, uint8_t event)
{
    return lane->index * TRACKS + (event == PLAN_NO_EVENT ? 0 : 1u + event);
}

static void put_name(struct peal_buf *buf, const char *what, uint32_t rank, uint32_t track,
                     const char *name, uint32_t number)
{
    peal_buf_fmt(buf,
                 ",\n{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":\"%s "
                 "%u\"}}",
                 what, rank, track, name, number);
}

/* Engines by event: which one a lane's event is of, 0 none, else 1 + engine. */
static void engines_of(const struct plan_rank *rank, const struct plan_lane *lane, uint8_t *engine)
{
    for (uint32_t i = 0; i < lane->pre + lane->body + lane->post; i++) {
        const struct plan_step *step = &rank->steps[lane->first + i];
        if (peal_plan_op_moves(step->op) && step->event != PLAN_NO_EVENT)
            engine[step->event] = (uint8_t)(1 + step->engine);
    }
}

static void name_tracks(const struct peal_sim *sim, uint32_t rank, struct emit *emit)
{
    const struct plan_rank *program = &sim->plan->ranks[rank];
    put_name(&emit->buf, "process_name", rank, 0, "rank", rank);
    for (uint32_t l = 0; l < program->nlanes; l++) {
        uint8_t engine[PLAN_EVENTS_MAX] = {0};
        put_name(&emit->buf, "thread_name", rank, l * TRACKS, "lane", l);
        engines_of(program, &program->lanes[l], engine);
        for (uint32_t e = 0; e < PLAN_EVENTS_MAX; e++) {
            char name[48];
            if (!engine[e])
                continue;
            struct peal_buf text;
            peal_buf_init(&text, sim->ctx, 64);
            peal_buf_fmt(&text, "lane %u %s e", l, peal_engine_name((peal_engine)(engine[e] - 1)));
            peal_buf_put(&text, "", 1);
            if (text.status != PEAL_OK)
                emit->status = text.status;
            else
                peal_copy_text(name, sizeof name, text.data);
            peal_buf_free(&text);
            if (emit->status == PEAL_OK)
                put_name(&emit->buf, "thread_name", rank, l * TRACKS + 1 + e, name, e);
        }
        peal_emit_pass(emit);
    }
}

/* Texts of steps hold no quotes and no backslashes. */
static void put_slice(const struct peal_sim *sim, const struct sim_record *record,
                      struct emit *emit)
{
    const struct sim_lane *lane = &sim->lane[record->lane];
    const struct plan_step *step = &sim->plan->ranks[lane->rank].steps[record->step];
    struct peal_buf *buf = &emit->buf;
    const char *name = record->kind == SIM_WAIT ? "wait" : peal_plan_op_name(step->op);
    peal_buf_fmt(buf, ",\n{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"pid\":%u,\"tid\":%u,",
                 name,
                 record->kind == SIM_WAIT ? "wait" : peal_engine_name((peal_engine)step->engine),
                 lane->rank, track_of(lane, record->event));
    put_time(buf, "ts", record->start);
    peal_buf_str(buf, ",");
    put_time(buf, "dur", record->end - record->start);
    peal_buf_str(buf, ",\"args\":{\"step\":\"");
    peal_plan_print_step(sim->plan, lane->rank, step, buf);
    peal_buf_fmt(buf, "\",\"trip\":%u,\"bytes\":%llu}}", record->trip,
                 (unsigned long long)record->bytes);
}

/* From the slice the signal came behind to the slice that its wait ended. */
static void put_arrow(const struct peal_sim *sim, uint32_t index, const struct sim_record *record,
                      struct emit *emit)
{
    struct peal_buf *buf = &emit->buf;
    if (record->peer == SIM_NONE || record->pred == SIM_NONE)
        return; /* nobody waited for it, or nothing was sent before */
    const struct sim_record *sent = &sim->record[record->pred];
    while (sent->kind == SIM_SIGNAL && sent->pred != SIM_NONE)
        sent = &sim->record[sent->pred];
    if (sent->kind == SIM_SIGNAL)
        return;
    const struct sim_lane *from = &sim->lane[sent->lane], *to = &sim->lane[record->peer];
    peal_buf_fmt(buf,
                 ",\n{\"ph\":\"s\",\"name\":\"signal\",\"cat\":\"signal\",\"id\":%u,\"pid\":%u,"
                 "\"tid\":%u,",
                 index, from->rank, track_of(from, sent->event));
    put_time(buf, "ts", sent->start);
    peal_buf_fmt(buf,
                 "},\n{\"ph\":\"f\",\"bp\":\"e\",\"name\":\"signal\",\"cat\":\"signal\","
                 "\"id\":%u,\"pid\":%u,\"tid\":%u,",
                 index, to->rank, track_of(to, PLAN_NO_EVENT));
    put_time(buf, "ts", record->begin);
    peal_buf_str(buf, "}");
}

void peal_trace_emit(const struct peal_sim *sim, struct emit *emit)
{
    peal_buf_fmt(&emit->buf,
                 "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"program\":\"peal\",\"collective\":"
                 "\"%s\",\"algorithm\":\"%s\",\"bytes\":%llu},\n\"traceEvents\":[\n{\"ph\":\"M\","
                 "\"name\":\"trace\",\"pid\":0,\"tid\":0}",
                 peal_collective_name(sim->plan->collective), sim->plan->algorithm,
                 (unsigned long long)sim->bytes);
    for (uint32_t r = 0; r < sim->plan->nranks && emit->status == PEAL_OK; r++)
        name_tracks(sim, r, emit);
    for (uint32_t i = 0; i < sim->records && emit->status == PEAL_OK; i++) {
        const struct sim_record *record = &sim->record[sim->by_start[i]];
        if (record->kind == SIM_SIGNAL)
            put_arrow(sim, sim->by_start[i], record, emit);
        else
            put_slice(sim, record, emit);
        peal_emit_pass(emit);
    }
    peal_buf_str(&emit->buf, "\n]}\n");
}
