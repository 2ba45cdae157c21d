/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buckets against the backward pass, as text and as SVG. Both are drawn to the same scale of whole
 * units, so that no number is printed with a decimal point that a locale could change.
 */
#include "emit.h"
#include "estimate.h"

#define TEXT_UNITS 60u
#define SVG_UNITS 800u
#define ROWS_MAX 40u /* of more buckets, groups in a row share a line */

/* One line: buckets first to last. */
struct line {
    uint32_t first, last;
    double ready_us, start_us, end_us;
};

struct drawing {
    const peal_estimate *estimate;
    const peal_estimate_bucket *bucket;
    struct emit *emit;
    double span_us; /* of the whole width */
    uint32_t lines;
    uint32_t units;
    struct line line[ROWS_MAX];
};

static uint32_t at(const struct drawing *d, double us)
{
    return d->span_us > 0 ? (uint32_t)(us / d->span_us * d->units + 0.5) : 0;
}

static unsigned long long whole_us(double us)
{
    return (unsigned long long)(us + 0.5);
}

static void lay_out(struct drawing *d)
{
    uint32_t count = d->bucket->count, each = (count + ROWS_MAX - 1) / ROWS_MAX;
    uint64_t total = peal_estimate_gradient(d->estimate);
    double backward = d->estimate->info.backward_us, end = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct estimate_slot slot = peal_estimate_slot(d->bucket, total, backward, i, end);
        struct line *line = &d->line[i / each];
        if (i % each == 0)
            *line = (struct line){i, i, slot.ready_us, slot.start_us, slot.end_us};
        line->last = i;
        line->end_us = end = slot.end_us;
    }
    d->lines = (count + each - 1) / each;
    d->span_us = end > backward ? end : backward;
}

static void put_name(struct drawing *d, const struct line *line)
{
    if (line->first == line->last)
        peal_buf_fmt(&d->emit->buf, "bucket %u", line->first);
    else
        peal_buf_fmt(&d->emit->buf, "buckets %u-%u", line->first, line->last);
}

static const char *operation(const struct drawing *d)
{
    return d->estimate->params.zero ? "reduce-scatter" : "allreduce";
}

/* ---- text */

static void put_bar(struct drawing *d, uint32_t from, uint32_t to, char fill)
{
    uint32_t end = to > from ? to : from + 1;
    uint32_t edge = at(d, d->estimate->info.backward_us);
    char bar[TEXT_UNITS + 2];
    for (uint32_t i = 0; i <= TEXT_UNITS; i++)
        bar[i] = i >= from && i < end ? fill : i == edge ? '|' : ' ';
    uint32_t length = TEXT_UNITS + 1;
    while (length > 0 && bar[length - 1] == ' ')
        length--;
    peal_buf_put(&d->emit->buf, bar, length);
    peal_buf_str(&d->emit->buf, "\n");
    peal_emit_pass(d->emit);
}

static void text_line(struct drawing *d, const struct line *line)
{
    struct peal_buf *buf = &d->emit->buf;
    size_t begun = buf->used;
    put_name(d, line);
    for (size_t used = buf->used - begun; used < 18; used++)
        peal_buf_str(buf, " ");
    peal_buf_fmt(buf, "%10llu  %10llu  %10llu  ", whole_us(line->ready_us),
                 whole_us(line->start_us), whole_us(line->end_us));
    put_bar(d, at(d, line->start_us), at(d, line->end_us), '#');
}

static void emit_text(struct drawing *d)
{
    struct peal_buf *buf = &d->emit->buf;
    peal_buf_fmt(buf, "%s of gradients in %u buckets of %llu bytes against the backward pass\n",
                 operation(d), d->bucket->count, (unsigned long long)d->bucket->bytes);
    peal_buf_fmt(buf, "%-18s%10s  %10s  %10s\n", "", "ready us", "from us", "until us");
    peal_buf_fmt(buf, "%-18s%10s  %10u  %10llu  ", "backward pass", "", 0u,
                 whole_us(d->estimate->info.backward_us));
    put_bar(d, 0, at(d, d->estimate->info.backward_us), '=');
    for (uint32_t i = 0; i < d->lines; i++)
        text_line(d, &d->line[i]);
    peal_buf_fmt(buf, "exposed: %llu us\n", whole_us(d->bucket->exposed_us));
}

/* ---- SVG */

#define LEFT 130u
#define ROW 16u
#define TOP 40u

static void svg_bar(struct drawing *d, uint32_t row, double from_us, double to_us,
                    const char *colour)
{
    uint32_t from = at(d, from_us), to = at(d, to_us);
    peal_buf_fmt(&d->emit->buf,
                 "<rect x=\"%u\" y=\"%u\" width=\"%u\" height=\"%u\" fill=\"%s\"><title>%llu to "
                 "%llu us</title></rect>\n",
                 LEFT + from, TOP + row * ROW, to > from ? to - from : 1, ROW - 4, colour,
                 whole_us(from_us), whole_us(to_us));
    peal_emit_pass(d->emit);
}

static void svg_label(struct drawing *d, uint32_t row)
{
    peal_buf_fmt(&d->emit->buf, "<text x=\"4\" y=\"%u\">", TOP + row * ROW + 10);
}

static void svg_line(struct drawing *d, uint32_t row, const struct line *line)
{
    double backward = d->estimate->info.backward_us;
    double edge = line->end_us < backward     ? line->end_us
                  : line->start_us > backward ? line->start_us
                                              : backward;
    svg_label(d, row);
    put_name(d, line);
    peal_buf_str(&d->emit->buf, "</text>\n");
    if (edge > line->start_us)
        svg_bar(d, row, line->start_us, edge, "#2e7d32"); /* hidden */
    if (line->end_us > edge)
        svg_bar(d, row, edge, line->end_us, "#b71c1c"); /* exposed */
}

static void emit_svg(struct drawing *d)
{
    struct peal_buf *buf = &d->emit->buf;
    double backward = d->estimate->info.backward_us;
    uint32_t height = TOP + (d->lines + 1) * ROW + 8, edge = LEFT + at(d, backward);
    peal_buf_fmt(buf,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" "
                 "font-family=\"sans-serif\" font-size=\"11\">\n",
                 LEFT + SVG_UNITS + 20, height);
    peal_buf_fmt(buf,
                 "<text x=\"4\" y=\"16\">%s of gradients in %u buckets of %llu bytes; exposed "
                 "%llu us</text>\n",
                 operation(d), d->bucket->count, (unsigned long long)d->bucket->bytes,
                 whole_us(d->bucket->exposed_us));
    svg_label(d, 0);
    peal_buf_str(buf, "backward pass</text>\n");
    svg_bar(d, 0, 0, backward, "#90a4ae");
    for (uint32_t i = 0; i < d->lines; i++)
        svg_line(d, i + 1, &d->line[i]);
    peal_buf_fmt(buf,
                 "<line x1=\"%u\" y1=\"%u\" x2=\"%u\" y2=\"%u\" stroke=\"#37474f\"/>\n</svg>\n",
                 edge, TOP - 8, edge, height - 4);
}

/* ---- peal.h */

static const peal_estimate_bucket *chosen(const peal_estimate *estimate)
{
    for (uint32_t i = 0; i < estimate->info.buckets; i++)
        if (estimate->bucket[i].chosen)
            return &estimate->bucket[i];
    return NULL;
}

peal_status peal_estimate_write(const peal_estimate *estimate, const char *form,
                                peal_write_fn write, void *user, peal_diag *diag)
{
    struct emit emit;
    struct drawing d = {.estimate = estimate, .emit = &emit};
    if (!estimate || !form || !write)
        return peal_fail(diag, PEAL_ERR_ARG, "an argument is missing");
    int svg = peal_streq(form, "svg");
    if (!svg && !peal_streq(form, "text"))
        return peal_fail(diag, PEAL_ERR_ARG, "there is no form '%s' of an estimate", form);
    d.bucket = chosen(estimate);
    if (!d.bucket)
        return peal_fail(diag, PEAL_ERR_ARG, "without replicas there are no buckets to draw");
    d.units = svg ? SVG_UNITS : TEXT_UNITS;
    peal_emit_init(&emit, estimate->ctx, write, user);
    lay_out(&d);
    if (svg)
        emit_svg(&d);
    else
        emit_text(&d);
    return peal_emit_end(&emit, diag);
}
