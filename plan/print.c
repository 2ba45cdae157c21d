/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text form (docs/plan-format.md). Canonical: what peal_table_print writes is assembled to the
 * same bytes, and what is at its default is left out. Numbers are put by hand, for plans have
 * millions of them.
 */
#include "wire.h"

#include <string.h>

#define FLUSH_BYTES (1u << 16)

char *peal_plan_decimal(char *at, uint64_t value)
{
    char digits[20];
    size_t count = 0;
    do {
        digits[sizeof digits - ++count] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    memcpy(at, digits + sizeof digits - count, count);
    return at + count;
}

static void put_number(struct peal_buf *out, const char *before, uint64_t value)
{
    char digits[20];
    peal_buf_str(out, before);
    peal_buf_put(out, digits, (size_t)(peal_plan_decimal(digits, value) - digits));
}

static void put_quoted(struct peal_buf *out, const char *before, const char *text)
{
    peal_buf_str(out, before);
    peal_buf_str(out, "\"");
    peal_buf_str(out, text);
    peal_buf_str(out, "\"");
}

/* ---- steps */

static void print_operand(uint32_t rank, const struct plan_operand *operand, struct peal_buf *out)
{
    static const char *const buffers[] = {"in[", "out[", "s", "p"};
    peal_buf_str(out, " ");
    if (operand->rank != rank) {
        put_number(out, "r", operand->rank);
        peal_buf_str(out, ".");
    }
    put_number(out, buffers[operand->buffer & 3], operand->index);
    if (operand->buffer >= PLAN_BUF_SCRATCH)
        put_number(out, "[", operand->slot);
    peal_buf_str(out, "]");
    if (operand->link != PLAN_NO_LINK)
        put_number(out, "@", operand->link);
}

static void print_data(const struct peal_plan *plan, uint32_t rank, const struct plan_step *step,
                       struct peal_buf *out)
{
    const struct plan_operand *operands = &peal_plan_program(plan, rank)->operands[step->operands];
    put_number(out, " c", step->chunk);
    if (step->more)
        put_number(out, "*", (uint64_t)step->more + 1);
    if (step->stride > 1)
        put_number(out, "+", step->stride);
    if (step->skip)
        put_number(out, "~", step->skip + 1u);
    peal_buf_str(out, ":");
    for (uint32_t i = 0; i < (uint32_t)step->nsrc + step->ndst; i++) {
        if (i == step->nsrc)
            peal_buf_str(out, " ->");
        print_operand(rank, &operands[i], out);
    }
    peal_buf_str(out, " ");
    peal_buf_str(out, peal_engine_name((peal_engine)step->engine));
    if (step->event != PLAN_NO_EVENT)
        put_number(out, " e", step->event);
    if (step->flags & PLAN_FLAG_FINAL)
        peal_buf_str(out, " final");
}

static void print_semaphore(const struct plan_step *step, struct peal_buf *out)
{
    put_number(out, " r", step->peer);
    put_number(out, ".", step->sem);
}

static void print_signal(const struct plan_step *step, struct peal_buf *out)
{
    print_semaphore(step, out);
    peal_buf_str(out, " ");
    peal_buf_str(out, peal_engine_name((peal_engine)step->engine));
    if (step->after != PLAN_NO_EVENT)
        put_number(out, " after e", step->after);
}

static void print_wait(const struct plan_step *step, struct peal_buf *out)
{
    print_semaphore(step, out);
    if (step->lag)
        put_number(out, " lag ", step->lag);
}

void peal_plan_print_step(const struct peal_plan *plan, uint32_t rank, const struct plan_step *step,
                          struct peal_buf *out)
{
    peal_buf_str(out, peal_plan_op_name(step->op));
    switch (step->op) {
    case PLAN_SIGNAL:
    case PLAN_TELL:
        print_signal(step, out);
        break;
    case PLAN_WAIT:
    case PLAN_LEARN:
        print_wait(step, out);
        break;
    case PLAN_AWAIT:
        put_number(out, " e", step->event);
        peal_buf_str(out, step->what ? " delivered" : " free");
        break;
    default:
        print_data(plan, rank, step, out);
        break;
    }
}

/* ---- ranks */

static void print_section(const struct peal_plan *plan, uint32_t rank, const char *name,
                          uint32_t first, uint32_t count, struct peal_buf *out)
{
    if (count == 0)
        return;
    peal_buf_str(out, "      ");
    peal_buf_str(out, name);
    peal_buf_str(out, "\n");
    for (uint32_t i = 0; i < count; i++) {
        peal_buf_str(out, "        ");
        peal_plan_print_step(plan, rank, &peal_plan_program(plan, rank)->steps[first + i], out);
        peal_buf_str(out, "\n");
    }
}

void peal_plan_print_rank(const struct peal_plan *plan, uint32_t rank, struct peal_buf *out)
{
    const struct plan_rank *self = peal_plan_program(plan, rank);
    put_number(out, "  rank ", rank);
    put_number(out, " host ", self->host);
    if (self->arch)
        put_number(out, " arch ", self->arch);
    if (self->busid[0])
        put_quoted(out, " busid ", self->busid);
    if (self->nic[0])
        put_quoted(out, " nic ", self->nic);
    peal_buf_str(out, "\n");
    for (uint32_t i = 0; i < self->nlanes; i++) {
        const struct plan_lane *lane = &self->lanes[i];
        put_number(out, "    lane  # ", i);
        peal_buf_str(out, "\n");
        print_section(plan, rank, "pre", lane->first, lane->pre, out);
        print_section(plan, rank, "body", lane->first + lane->pre, lane->body, out);
        print_section(plan, rank, "post", lane->first + lane->pre + lane->body, lane->post, out);
    }
}

/* ---- what all ranks share */

static void print_costs(const struct peal_plan *plan, struct peal_buf *out)
{
    if (plan->time_ps)
        put_number(out, "  predicted_ps ", plan->time_ps);
    if (plan->bound_ps)
        put_number(out, plan->time_ps ? " bound_ps " : "  bound_ps ", plan->bound_ps);
    if (plan->time_ps || plan->bound_ps)
        peal_buf_str(out, "\n");
}

static void print_origin(const struct peal_plan *plan, struct peal_buf *out)
{
    char hex[32];
    if (!plan->origin.low && !plan->origin.high)
        return;
    peal_plan_hex(hex, plan->origin);
    peal_buf_str(out, "  origin ");
    peal_buf_put(out, hex, sizeof hex);
    peal_buf_str(out, "\n");
}

static void print_chunks(const struct peal_plan *plan, struct peal_buf *out)
{
    put_number(out, "  chunks ", plan->nchunks);
    for (uint32_t i = 0; plan->weights && i < plan->nchunks; i++) {
        if (i % 16 == 0)
            peal_buf_str(out, i == 0 ? " weights" : "\n   ");
        put_number(out, " ", plan->weights[i]);
    }
    peal_buf_str(out, "\n");
}

static void print_region(const struct peal_plan *plan, uint32_t index, struct peal_buf *out)
{
    const struct plan_region *region = &plan->regions[index];
    peal_buf_str(out, region->buffer == PLAN_BUF_PACKET ? "  region packet" : "  region scratch");
    if (region->wire) {
        peal_buf_str(out, " wire ");
        peal_buf_str(out, peal_wire_name((peal_wire)region->wire));
    }
    put_number(out, " width ", region->width);
    put_number(out, " depth ", region->depth);
    put_number(out, " slot ", region->slot_bytes);
    put_number(out, "  # region ", index);
    peal_buf_str(out, "\n");
}

static void print_link(const struct peal_plan *plan, uint32_t index, struct peal_buf *out)
{
    const struct plan_link *link = &plan->links[index];
    put_number(out, "  link r", link->from);
    put_number(out, " -> r", link->to);
    peal_buf_str(out, " ");
    peal_buf_str(out, peal_link_class_name((peal_link_class)link->link_class));
    if (link->direct)
        peal_buf_str(out, link->multicast ? " direct multicast" : " direct");
    if (link->via[0])
        put_quoted(out, " ", link->via);
    put_number(out, "  # link ", (uint64_t)index + 1);
    peal_buf_str(out, "\n");
}

static void print_pairs(const struct peal_plan *plan, struct peal_buf *out)
{
    for (uint32_t i = 0; i < plan->npairs; i++) {
        put_number(out, "  pair r", plan->pairs[2 * (size_t)i]);
        put_number(out, " -> r", plan->pairs[2 * (size_t)i + 1]);
        put_number(out, "  # block ", i);
        peal_buf_str(out, "\n");
    }
}

/* In lines that are not too long to be read back. */
static void print_ranks(const uint32_t *ranks, uint32_t count, struct peal_buf *out)
{
    for (uint32_t i = 0; i < count; i++)
        put_number(out, i && i % 64 == 0 ? "\n    r" : " r", ranks[i]);
}

static void print_blocks(const struct peal_plan *plan, struct peal_buf *out)
{
    for (uint32_t i = 0; i < plan->nblocks; i++) {
        struct peal_block block = peal_plan_block(plan, i);
        peal_buf_str(out, "  block");
        print_ranks(block.from, block.nfrom, out);
        peal_buf_str(out, " ->");
        print_ranks(block.to, block.nto, out);
        put_number(out, "  # block ", i);
        peal_buf_str(out, "\n");
    }
}

void peal_plan_print_head(const struct peal_plan *plan, struct peal_buf *out)
{
    peal_buf_str(out, "plan ");
    peal_buf_str(out, peal_collective_name(plan->collective));
    put_number(out, " ranks ", plan->nranks);
    if (plan->sliced)
        put_number(out, " slice ", plan->slice_rank);
    if (peal_plan_collective(plan->collective)->rooted)
        put_number(out, " root ", plan->root);
    if (plan->collective == PEAL_SENDRECV)
        put_number(out, " peer ", plan->peer);
    put_number(out, " bytes ", plan->min_bytes);
    put_number(out, "..", plan->max_bytes);
    peal_buf_str(out, "\n  algorithm ");
    peal_buf_str(out, plan->algorithm);
    peal_buf_str(out, "\n");
    if (plan->detail[0]) {
        put_quoted(out, "  detail ", plan->detail);
        peal_buf_str(out, "\n");
    }
    put_number(out, "  channels ", plan->channels);
    peal_buf_str(out, "\n");
    print_costs(plan, out);
    print_origin(plan, out);
    if (plan->tile_bytes) {
        put_number(out, "  tile ", plan->tile_bytes);
        peal_buf_str(out, "\n");
    }
    if (plan->ahead)
        peal_buf_str(out, "  ahead\n");
    print_pairs(plan, out);
    print_blocks(plan, out);
    print_chunks(plan, out);
    if (plan->nsems) {
        put_number(out, "  semaphores ", plan->nsems);
        peal_buf_str(out, "\n");
    }
    for (uint32_t i = 0; i < plan->nregions; i++)
        print_region(plan, i, out);
    for (uint32_t i = 0; i < plan->nlinks; i++)
        print_link(plan, i, out);
}

void peal_plan_print(const struct peal_plan *plan, struct peal_buf *out)
{
    peal_plan_print_head(plan, out);
    for (uint32_t r = peal_plan_first(plan); r < peal_plan_end(plan); r++)
        peal_plan_print_rank(plan, r, out);
}

/* ---- a table, in pieces */

/* Hands over what has gathered and empties the buffer. */
static peal_status flush(struct peal_buf *out, peal_write_fn write, void *user)
{
    PEAL_TRY(out->status);
    PEAL_TRY(write(user, out->data, out->used));
    out->used = 0;
    return PEAL_OK;
}

static peal_status print_rows(const peal_table *table, struct peal_buf *out, peal_write_fn write,
                              void *user)
{
    put_number(out, "peal-table ", TEXT_VERSION);
    peal_buf_str(out, "\n");
    for (uint32_t i = 0; i < table->nrows; i++) {
        const struct peal_plan *plan = table->rows[i].plan;
        peal_plan_print_head(plan, out);
        for (uint32_t r = peal_plan_first(plan); r < peal_plan_end(plan); r++) {
            peal_plan_print_rank(plan, r, out);
            if (out->used >= FLUSH_BYTES)
                PEAL_TRY(flush(out, write, user));
        }
    }
    return flush(out, write, user);
}

peal_status peal_table_print(const peal_table *table, peal_write_fn write, void *user,
                             peal_diag *diag)
{
    if (!table || !write)
        return peal_fail(diag, PEAL_ERR_ARG, "a table and a writer are needed");
    PEAL_TRY(peal_table_check_rows(table, NULL, NULL, diag));
    struct peal_buf out;
    peal_buf_init(&out, table->ctx, TEXT_BYTES_MAX);
    peal_status status = print_rows(table, &out, write, user);
    peal_buf_free(&out);
    return status == PEAL_OK ? PEAL_OK
                             : peal_fail(diag, status, "printing: %s", peal_status_text(status));
}
