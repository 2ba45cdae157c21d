/* SPDX-License-Identifier: Apache-2.0 */
/* A report of a machine as one page: HTML with pictures in SVG, nothing from elsewhere. */
#ifndef PEAL_CLI_REPORT_H
#define PEAL_CLI_REPORT_H

#include "action.h"

struct report {
    struct cli *cli;
    FILE *file;
    peal_fabric *fabric;
    peal_fabric_info info;
    const char *path;
    uint32_t ranks; /* that take part */
    int asked_only; /* 1: the collectives that are asked for, and not some more */
};

/* ---- report_page.c: the page around it, and text in it */
void page_begin(const struct report *r);
void page_end(FILE *file);
void page_text(FILE *file, const char *text); /* what HTML would read as its own is escaped */
/* At most `room` letters of it, the last of them a dot of an ellipsis when it is longer. */
void page_short(FILE *file, const char *text, size_t room);
#define COLOURS 21u          /* of algorithms; more of these than there are algorithms do no harm */
void page_style(FILE *file); /* of what is drawn: colours by role, light and dark */
void page_heading(FILE *file, const char *id, const char *text);
/* An <svg> of that size, which grows to the width of the page, not beyond `most` pixels; it is
 * described by `label`. */
void page_svg(FILE *file, double width, double height, double most, const char *label);
const char *page_time(double us, char *text);    /* "1.50 &micro;s", "20.0 ms": HTML */
const char *page_size(double bytes, char *text); /* "1.78 KiB" */

/* ---- the parts */
void report_fabric(const struct report *r);  /* report_fabric.c: one host */
void report_network(const struct report *r); /* report_network.c: what is between hosts */
int report_choices(struct report *r);        /* report_choices.c: curves and tables */
int report_plan(struct report *r);           /* report_plan.c: one plan, simulated */
int report_estimate(struct report *r);       /* report_model.c: with --model */
void report_notes(const struct report *r);   /* report_page.c */

/* ---- report_svg.c: what `draw` draws of the page, to the file of --svg, if that is given */
int report_svg(struct report *r, int (*draw)(struct report *r));

/* ---- report_chart.c: curves over sizes; x is log2 of bytes */
#define CHART_POINTS 64u
struct curve {
    const char *style; /* its class */
    const char *name;
    uint32_t count;
    double x[CHART_POINTS];
    double y[CHART_POINTS];
};
struct chart {
    const char *title;
    const char *label; /* of the y axis, with its unit */
    int log_y;
    double x_low, x_high;
    double y_low, y_high;
};
void chart_begin(FILE *file, const struct chart *chart);
void chart_curve(FILE *file, const struct chart *chart, const struct curve *curve);
/* A strip along the bottom, from one size to another, and a line at its beginning. */
void chart_strip(FILE *file, const struct chart *chart, double from, double to, const char *style,
                 const char *title);
void chart_end(FILE *file);

#endif
