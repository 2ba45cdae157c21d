/* SPDX-License-Identifier: Apache-2.0 */
/* Measured times and the lines through them: what the files fit_*.c share. */
#ifndef PEAL_MODEL_FIT_H
#define PEAL_MODEL_FIT_H

#include "base.h"

#define FIT_SERIES_MAX 4096u
#define FIT_POINTS_MAX (1u << 20)
#define FIT_SIZES_MAX 1024u
#define FIT_TERMS (PEAL_FIT_SEGMENTS + 1) /* 1, bytes, and a bend for each further segment */

struct fit_series {
    peal_series_info info;
    peal_point *point;
    uint32_t capacity;
};

struct peal_measured {
    peal_ctx *ctx;
    struct fit_series *series;
    uint32_t count;
    uint32_t capacity;
};

/* ---- fit_set.c */
/* As peal_measured_add, with the line of the first point. */
peal_status peal_fit_add(struct peal_measured *set, const peal_series_info *info,
                         const peal_point *point, uint32_t line);
void peal_fit_clear(struct peal_measured *set);

/* ---- fit_columns.c: columns with names between tabs */
struct fit_text {
    const char *data;
    size_t bytes;
    size_t at;
    const char *path;
    uint32_t line;
    peal_diag *diag;
    struct peal_measured *set;
    peal_series_info info; /* of the lines that follow */
};
#define FIT_LINE 4096u
#define FIT_WORDS 64u
#define FIT_LONG 2
/* The next line without its end, in a buffer of FIT_LINE. 1: there is one, FIT_LONG: and more of it
 * than there is room for, 0: no more; and an error when it is no text. */
peal_status peal_fit_line(struct fit_text *text, char *line, int *got);
/* Cuts a line in place at blanks. Gives the number of words, FIT_WORDS at most. */
uint32_t peal_fit_words(char *line, char **word);
int peal_fit_real(const char *word, double *out); /* plain decimals, with an exponent */
int peal_fit_whole(const char *word, uint64_t *out);
int peal_fit_is_head(const char *line); /* of columns between tabs */
peal_status peal_fit_columns(struct fit_text *text, char *head);

/* ---- fit_log.c: the line behind what launchers and logs put before it */
char *peal_fit_content(char *line);

/* ---- fit_about.c: what lines behind a # say */
#define FIT_HOSTS 8192u
struct fit_reader {
    struct fit_text text;
    uint32_t words; /* of the heading; 0: there has been none */
    uint32_t time;  /* the column */
    uint32_t again; /* of the time in place; 0: there is none */
    int tail;       /* the heading's last column may be empty */
    double rate;    /* the column is a bandwidth: MB/s for each of it; 0: it is a time */
    double both;    /* of a bandwidth that is announced: of both directions together */
    uint32_t tables;
    uint32_t early; /* the line of a first row before any heading */
    int told;       /* the ranks that have been told are of a table before */
    uint32_t ranks;
    uint32_t nodes;
    uint64_t host[FIT_HOSTS];
};
/* The words behind the #. Errors: INPUT (a table whose times are not those of calls). */
peal_status peal_fit_comment(struct fit_reader *r, char *const *word, uint32_t words);
/* A command line that names its program: ./build/all_reduce_perf -b 8 -e 8G */
void peal_fit_command(struct fit_reader *r, char *const *word, uint32_t words);

/* ---- fit_solve.c: least squares of a few terms */
struct fit_rows {
    uint32_t rows;
    uint32_t terms;
    double a[FIT_SIZES_MAX][FIT_TERMS];
    double weight[FIT_SIZES_MAX];
};
/* Solves a x = 1, row by row with the weights; inverse: of the weighted normal matrix. 0: the terms
 * cannot be told apart. */
int peal_fit_solve(const struct fit_rows *rows, double *x, double inverse[FIT_TERMS][FIT_TERMS]);

/* ---- fit_huber.c: one arrangement of bends, fitted robustly */
struct fit_model {
    uint32_t terms; /* of the rows: alpha, a slope, bends; the slope is left out when flat */
    int flat;       /* the first segment does not grow */
    uint32_t bends;
    double bend[PEAL_FIT_SEGMENTS - 1]; /* bytes */
    double x[FIT_TERMS];                /* us, us per byte, changes of the slope */
    double inverse[FIT_TERMS][FIT_TERMS];
    double scale; /* of relative deviations */
    double error; /* mean |ln(fitted / measured)| */
    double variance;
    uint32_t outliers;
};
/* 0: no such lines, or a slope or start-up below 0. The rows are for scratch. */
int peal_fit_huber(struct fit_rows *rows, const peal_point *point, uint32_t count,
                   struct fit_model *model);
double peal_fit_at(const struct fit_model *model, double bytes);

#endif
