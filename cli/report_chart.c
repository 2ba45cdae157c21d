/* SPDX-License-Identifier: Apache-2.0 */
/* Curves over message sizes: x in powers of two, y in powers of ten or from 0 up. */
#include "report.h"

#include <math.h>

#define WIDTH 560.0
#define HEIGHT 330.0
#define LEFT 62.0
#define RIGHT 14.0
#define TOP 30.0
#define BOTTOM 52.0
#define STRIP 8.0

static double x_of(const struct chart *chart, double x)
{
    double span = chart->x_high > chart->x_low ? chart->x_high - chart->x_low : 1;
    return LEFT + (x - chart->x_low) / span * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct chart *chart, double y)
{
    double low = chart->log_y ? log10(chart->y_low) : chart->y_low;
    double high = chart->log_y ? log10(chart->y_high) : chart->y_high;
    double at = chart->log_y ? log10(y > 0 ? y : chart->y_low) : y;
    return HEIGHT - BOTTOM - (at - low) / (high > low ? high - low : 1) * (HEIGHT - TOP - BOTTOM);
}

static void y_tick(FILE *file, const struct chart *chart, double value, const char *text)
{
    double y = y_of(chart, value);
    fprintf(file,
            "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
            "<text class=\"e\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
            LEFT, WIDTH - RIGHT, y, y, LEFT - 6, y + 4, text);
}

/* "10 &#181;s": powers of ten are written short. */
static const char *power_text(double us, char *text)
{
    if (us >= 1e6)
        (void)snprintf(text, NUMBER_TEXT, "%g s", us / 1e6);
    else if (us >= 1e3)
        (void)snprintf(text, NUMBER_TEXT, "%g ms", us / 1e3);
    else
        (void)snprintf(text, NUMBER_TEXT, "%g &#181;s", us);
    return text;
}

static void y_ticks(FILE *file, const struct chart *chart)
{
    char text[NUMBER_TEXT];
    if (chart->log_y) {
        for (double value = chart->y_low; value <= chart->y_high * 1.0001; value *= 10)
            y_tick(file, chart, value, power_text(value, text));
        return;
    }
    double step = pow(10, floor(log10(chart->y_high > 0 ? chart->y_high : 1)));
    step = chart->y_high / step < 2.5 ? step / 4 : chart->y_high / step < 5 ? step / 2 : step;
    for (double value = 0; value <= chart->y_high * 1.0001; value += step) {
        (void)snprintf(text, sizeof text, "%g", value);
        y_tick(file, chart, value, text);
    }
}

static void x_ticks(FILE *file, const struct chart *chart)
{
    double span = chart->x_high - chart->x_low, step = 1;
    char text[NUMBER_TEXT];
    while (span / step > 9)
        step++;
    for (double x = chart->x_low; x <= chart->x_high + 1e-9; x += step)
        fprintf(file,
                "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                "<text class=\"m\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
                x_of(chart, x), x_of(chart, x), TOP, HEIGHT - BOTTOM, x_of(chart, x),
                HEIGHT - BOTTOM + STRIP + 16, size_text((uint64_t)(exp2(x) + 0.5), text));
    fprintf(file, "<text class=\"m s\" x=\"%.1f\" y=\"%.1f\">bytes of the message</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8);
}

void chart_begin(FILE *file, const struct chart *chart)
{
    page_svg(file, WIDTH, HEIGHT, 760, chart->title);
    fprintf(
        file,
        "<text x=\"%.1f\" y=\"15\">%s</text><text class=\"s e\" x=\"%.1f\" y=\"15\">%s</text>\n",
        LEFT, chart->title, WIDTH - RIGHT, chart->label);
    y_ticks(file, chart);
    x_ticks(file, chart);
}

void chart_curve(FILE *file, const struct chart *chart, const struct curve *curve)
{
    int open = 0;
    if (curve->count == 0)
        return;
    fprintf(file, "<path class=\"%s\" d=\"", curve->style);
    for (uint32_t i = 0; i < curve->count; i++) {
        int inside = curve->y[i] >= chart->y_low * 0.999 && curve->y[i] <= chart->y_high * 1.001;
        if (inside)
            fprintf(file, "%s%.1f %.1f", open ? "L" : "M", x_of(chart, curve->x[i]),
                    y_of(chart, curve->y[i]));
        open = inside;
    }
    fputs("\"><title>", file);
    page_text(file, curve->name);
    fputs("</title></path>\n", file);
}

void chart_strip(FILE *file, const struct chart *chart, double from, double to, const char *style_,
                 const char *title)
{
    double left = x_of(chart, from), right = x_of(chart, to);
    if (from > chart->x_low)
        fprintf(file,
                "<line class=\"axis\" stroke-dasharray=\"2 4\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" "
                "y2=\"%.1f\"/>\n",
                left, left, TOP, HEIGHT - BOTTOM);
    fprintf(file, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\"><title>",
            style_, left, HEIGHT - BOTTOM, right > left + 1 ? right - left : 1, STRIP);
    page_text(file, title);
    fputs("</title></rect>\n", file);
}

void chart_end(FILE *file)
{
    fputs("</svg>\n", file);
}
