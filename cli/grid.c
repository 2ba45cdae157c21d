/* SPDX-License-Identifier: Apache-2.0 */
/* Tables in text: columns as wide as their widest cell, two blanks apart. */
#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void push(struct grid *grid, const char *text, size_t length)
{
    if (grid->cells == grid->room) {
        grid->room = grid->room ? 2 * grid->room : 64;
        grid->cell = need(realloc(grid->cell, grid->room * sizeof *grid->cell));
    }
    grid->cell[grid->cells++] = plain(text, length);
}

void grid_begin(struct grid *grid, const char *heading)
{
    memset(grid, 0, sizeof *grid);
    while (grid->columns < GRID_COLUMNS) {
        if (*heading == '>') {
            grid->right |= 1u << grid->columns;
            heading++;
        }
        size_t length = strcspn(heading, "|");
        push(grid, heading, length);
        grid->columns++;
        if (heading[length] == '\0')
            break;
        heading += length + 1;
    }
}

void grid_add(struct grid *grid, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length < 0)
        length = 0;
    push(grid, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

static size_t line_length(const struct grid *grid, size_t row)
{
    size_t last = grid->columns; /* nothing but blanks behind the last text */
    while (last > 0 && grid->cell[row * grid->columns + last - 1][0] == '\0')
        last--;
    return last;
}

static void print_row(const struct grid *grid, const size_t *width, size_t row, FILE *file)
{
    size_t last = line_length(grid, row);
    for (uint32_t c = 0; c < last; c++) {
        const char *text = grid->cell[row * grid->columns + c];
        int pad = (int)(width[c] - strlen(text));
        if (grid->right >> c & 1)
            fprintf(file, "%*s%s", pad, "", text);
        else
            fprintf(file, "%s%*s", text, c + 1 < last ? pad : 0, "");
        if (c + 1 < last)
            fputs("  ", file);
    }
    fputc('\n', file);
}

void grid_free(struct grid *grid)
{
    for (size_t i = 0; i < grid->cells; i++)
        free(grid->cell[i]);
    free(grid->cell);
    memset(grid, 0, sizeof *grid);
}

void grid_print(struct grid *grid, const struct output *output)
{
    size_t width[GRID_COLUMNS] = {0};
    int colour = output_coloured(output);
    for (size_t i = 0; i < grid->cells; i++) {
        size_t length = strlen(grid->cell[i]);
        if (length > width[i % grid->columns])
            width[i % grid->columns] = length;
    }
    while (grid->cells % grid->columns)
        push(grid, "", 0);
    for (size_t row = 0; row < grid->cells / grid->columns; row++) {
        if (colour && row == 0)
            fputs("\033[1m", output->file);
        print_row(grid, width, row, output->file);
        if (colour && row == 0)
            fputs("\033[0m", output->file);
    }
    grid_free(grid);
}
