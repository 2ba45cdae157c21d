/* SPDX-License-Identifier: Apache-2.0 */
/* The pictures of a report alone: one SVG, each drawing below the other, with what its colours
 * mean below it. */
#include "report.h"

#include <stdlib.h>
#include <string.h>

#define MARGIN 12.0
#define KEY_LINE 18.0
#define KEY_WIDTH 250.0

/* A drawing of the page, and the list of colours behind it. */
struct piece {
    const char *title; /* the last heading before it, and its end */
    const char *title_end;
    const char *box; /* its viewBox, "0 0 WIDTH HEIGHT" */
    const char *body;
    const char *end; /* at </svg> */
    const char *key; /* NULL: none */
    double width, height;
};

/* The next drawing at or behind `at`; 0: there is none. */
static int find_piece(const char *at, struct piece *piece)
{
    const char *svg = strstr(at, "<svg "), *title = at;
    *piece = (struct piece){.title = NULL};
    if (!svg)
        return 0;
    while ((title = strstr(title, "<h3")) != NULL && title < svg) {
        title = strchr(title, '>') + 1;
        piece->title = title;
        piece->title_end = strchr(title, '<');
    }
    piece->box = strstr(svg, "viewBox=\"") + strlen("viewBox=\"");
    piece->body = strchr(svg, '>') + 1;
    piece->end = strstr(svg, "</svg>");
    (void)sscanf(piece->box, "0 0 %lf %lf", &piece->width, &piece->height);
    const char *key = strstr(piece->end, "<ul class=\"key\">"), *next = strstr(piece->end, "<svg ");
    piece->key = key && (!next || key < next) ? key : NULL;
    return 1;
}

/* The entry at or behind `at`, its text and its colour: "--gpu"; 0: the list is over. */
static int find_entry(const char *at, const char **text, char *colour, size_t size)
{
    const char *entry = strstr(at, "<li>"), *end = strstr(at, "</ul>");
    if (!entry || !end || entry > end)
        return 0;
    const char *style = strchr(entry, '"') + 1; /* of its <i> */
    int length = (int)strcspn(style, "\"");
    if (strncmp(style, "color:var(", 10) == 0)
        (void)snprintf(colour, size, "%.*s", length - 11, style + 10);
    else if (style[0] == 'k' && style[1] >= '0' && style[1] <= '9')
        (void)snprintf(colour, size, "--s%.*s", length - 1, style + 1);
    else
        (void)snprintf(colour, size, "--%.*s", length, style);
    *text = strstr(entry, "</i>") + 4;
    return 1;
}

static uint32_t entries(const struct piece *piece)
{
    uint32_t count = 0;
    char colour[32];
    for (const char *at = piece->key; at && find_entry(at, &at, colour, sizeof colour);)
        count++;
    return count;
}

static uint32_t columns(const struct piece *piece)
{
    double fit = piece->width / KEY_WIDTH;
    return fit < 1 ? 1 : (uint32_t)fit;
}

static double height_of(const struct piece *piece)
{
    uint32_t in_a_row = columns(piece), count = entries(piece);
    return piece->height + MARGIN + (piece->title ? KEY_LINE : 0) +
           KEY_LINE * ((count + in_a_row - 1) / in_a_row);
}

static void put_key(FILE *file, const struct piece *piece, double y)
{
    uint32_t nth = 0, in_a_row = columns(piece);
    char colour[32];
    for (const char *at = piece->key; at && find_entry(at, &at, colour, sizeof colour); nth++) {
        double left = MARGIN + nth % in_a_row * KEY_WIDTH;
        double top = y + nth / in_a_row * KEY_LINE;
        fprintf(file,
                "<rect x=\"%.0f\" y=\"%.0f\" width=\"18\" height=\"4\" style=\"fill:var(%s)\"/>"
                "<text x=\"%.0f\" y=\"%.0f\">%.*s</text>\n",
                left, top + 7, colour, left + 24, top + 13, (int)strcspn(at, "<"), at);
    }
}

static void put_piece(FILE *file, const struct piece *piece, double y)
{
    if (piece->title) {
        fprintf(file, "<text x=\"%.0f\" y=\"%.0f\">%.*s</text>\n", MARGIN, y + 12,
                (int)(piece->title_end - piece->title), piece->title);
        y += KEY_LINE;
    }
    fprintf(file,
            "<svg x=\"0\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\" viewBox=\"%.*s\">%.*s</svg>\n",
            y, piece->width, piece->height, (int)strcspn(piece->box, "\""), piece->box,
            (int)(piece->end - piece->body), piece->body);
    put_key(file, piece, y + piece->height);
}

static void put_picture(FILE *file, const char *html, const char *name)
{
    struct piece piece;
    double width = 0, height = 0, y = 0;
    for (const char *at = html; find_piece(at, &piece); at = piece.end) {
        width = piece.width > width ? piece.width : width;
        height += height_of(&piece);
    }
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
            "height=\"%.0f\" role=\"img\">\n<title>",
            width, height, width, height);
    page_text(file, name);
    fputs("</title>\n<style>", file);
    page_style(file);
    fputs("</style>\n<rect width=\"100%\" height=\"100%\" style=\"fill:var(--panel)\"/>\n", file);
    for (const char *at = html; find_piece(at, &piece); at = piece.end) {
        put_piece(file, &piece, y);
        y += height_of(&piece);
    }
    fputs("</svg>\n", file);
}

int report_svg(struct report *r, int (*draw)(struct report *r))
{
    char *html = NULL;
    size_t bytes = 0;
    struct output output;
    struct cli to = *r->cli;
    if (!cli_given(r->cli, OPT_SVG))
        return EXIT_YES;
    r->info.size = sizeof r->info;
    CLI_TRY(say_diag(peal_fabric_get(r->fabric, &r->info), NULL));
    r->file = need(open_memstream(&html, &bytes));
    int code = draw(r);
    (void)fclose(r->file);
    to.value[OPT_OUTPUT] = r->cli->value[OPT_SVG];
    if (code == EXIT_YES)
        code = output_open(&to, &output);
    if (code == EXIT_YES) {
        put_picture(output.file, html, r->info.name && r->info.name[0] ? r->info.name : r->path);
        code = output_close(&output, EXIT_YES);
    }
    free(html);
    return code;
}
