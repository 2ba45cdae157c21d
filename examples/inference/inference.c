/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generates tokens from a small random model, by one rank and by several, and compares.
 *
 *   inference [--tp N] [--topology FILE] [--policies DIR] [--deterministic] [--batch N]
 *             [--prompt N] [--tokens N] [--layers N] [--heads N] [--seed N] [--print]
 *             [--cuda | --cuda-driver FILE]
 */
#include "tp_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Largest difference of a logit between one rank and several. Logits are of the order of 1; what
 * differs is the order in which float32 partial sums are added up. */
#define TOLERANCE 1e-4f

struct options {
    struct shape shape;
    uint32_t tp;
    const char *topology;
    const char *policies;
    int deterministic;
    int print;
    const char *driver; /* NULL: no GPU */
};

/* ---- the command line */

static int usage(const char *what)
{
    fprintf(stderr,
            "inference: %s\nusage: inference [--tp 1..8] [--topology FILE] [--policies DIR] "
            "[--deterministic] [--batch N] [--prompt N] [--tokens N] [--layers N] [--heads N] "
            "[--seed N] [--print] [--cuda | --cuda-driver FILE]\n",
            what);
    return 0;
}

static int read_number(const char *text, uint64_t most, uint64_t *number)
{
    char *end = NULL;
    *number = text && *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    return end && !*end && *number >= 1 && *number <= most;
}

/* One option with a value; 0: it is none, or the value is not good. */
static int read_value(struct options *options, const char *name, const char *value)
{
    struct shape *shape = &options->shape;
    const struct {
        const char *name;
        uint32_t *to;
        uint64_t most;
    } numbers[] = {{"--tp", &options->tp, 8},          {"--batch", &shape->batch, 64},
                   {"--prompt", &shape->prompt, 1024}, {"--tokens", &shape->tokens, 1024},
                   {"--layers", &shape->layers, 64},   {"--heads", &shape->heads, 64}};
    uint64_t number;
    if (strcmp(name, "--topology") == 0)
        return (options->topology = value) != NULL;
    if (strcmp(name, "--policies") == 0)
        return (options->policies = value) != NULL;
    if (strcmp(name, "--cuda-driver") == 0)
        return (options->driver = value) != NULL;
    if (strcmp(name, "--seed") == 0)
        return read_number(value, UINT32_MAX, &shape->seed);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(name, numbers[i].name) == 0 && read_number(value, numbers[i].most, &number)) {
            *numbers[i].to = (uint32_t)number;
            return 1;
        }
    return 0;
}

static int read_options(int argc, char **argv, struct options *options)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--deterministic") == 0)
            options->deterministic = 1;
        else if (strcmp(argv[i], "--print") == 0)
            options->print = 1;
        else if (strcmp(argv[i], "--cuda") == 0)
            options->driver = "";
        else if (!read_value(options, argv[i], argv[i + 1]))
            return usage(argv[i]);
        else
            i++;
    }
    options->shape.hidden = options->shape.heads * HEAD;
    options->shape.units = 4 * options->shape.hidden;
    return options->tp <= options->shape.heads || usage("more ranks than heads");
}

/* The policies lie beside the program, if nothing else is said. */
static const char *beside(char *program)
{
    char *slash = strrchr(program, '/');
    if (!slash)
        return ".";
    *slash = '\0';
    return program;
}

/* ---- telling */

static void print_model(const struct shape *shape)
{
    printf("a model of %u layers, %u wide, %u heads, %u units, %u tokens; float32, seed %llu\n",
           shape->layers, shape->hidden, shape->heads, shape->units, shape->vocab,
           (unsigned long long)shape->seed);
    printf("%u sequences: %u tokens of prompt, %u made; ranks are threads on %ld processors\n\n",
           shape->batch, shape->prompt, shape->tokens, sysconf(_SC_NPROCESSORS_ONLN));
}

static void print_phases(const struct run *run)
{
    printf("phase    policy        bytes of an allreduce  algorithm\n");
    for (int p = 0; p < PHASES; p++) {
        const struct phase *phase = &run->phase[p];
        char policy[32];
        (void)snprintf(policy, sizeof policy, "%s.lua", phase->name);
        printf("%-8s %-13s %21llu  %s: %s, %s\n", phase->name, policy,
               (unsigned long long)phase->bytes, phase->row.algorithm, phase->row.detail,
               phase->row.protocol);
    }
}

static void print_speed(const struct run *run)
{
    const struct shape *shape = &run->shape;
    double prefill = (double)shape_rows(shape) / run->seconds[PREFILL];
    double decode = run->seconds[DECODE] > 0
                        ? (double)shape->batch * (shape->tokens - 1) / run->seconds[DECODE]
                        : 0;
    printf("%5u %15.0f %14.0f %13.1f %12.1f %19llu\n", run->ranks, prefill, decode,
           run->reduce_us[PREFILL], run->reduce_us[DECODE], (unsigned long long)run->allocations);
}

static void print_tokens(const struct run *run)
{
    for (uint32_t s = 0; s < run->shape.batch; s++) {
        printf("sequence %u:", s);
        for (uint32_t t = 0; t < run->shape.tokens; t++)
            printf(" %u", run->token[t * run->shape.batch + s]);
        printf("\n");
    }
}

/* ---- comparing */

static float largest_difference(const struct run *a, const struct run *b)
{
    size_t n = (size_t)a->shape.tokens * a->shape.batch * a->shape.vocab;
    float most = 0;
    for (size_t i = 0; i < n; i++) {
        float difference = fabsf(a->logits[i] - b->logits[i]);
        most = difference > most || isnan(difference) ? difference : most;
    }
    return most;
}

/* 1: several ranks have made what one has. */
static int compare(const struct run *one, const struct run *all)
{
    size_t n = (size_t)one->shape.tokens * one->shape.batch;
    int tokens = memcmp(one->token, all->token, n * sizeof *one->token) == 0;
    float difference = largest_difference(one, all);
    printf("\ntokens: %s those of one rank\n", tokens ? "the same as" : "NOT");
    printf("logits: differ by at most %.1e (tolerance %.0e); a token was chosen by at least %.1e\n",
           (double)difference, (double)TOLERANCE, (double)one->lead);
    printf("ranks: %s\n", all->same_bits ? "all have the same bits" : "NOT the same bits on all");
    return tokens && difference <= TOLERANCE && all->same_bits;
}

/* ---- */

static void say_failure(const struct run *run)
{
    const peal_diag *diag = &run->diag;
    fprintf(stderr, "inference: %u ranks: ", run->ranks);
    if (diag->line)
        fprintf(stderr, "%s:%u: ", diag->path, diag->line);
    fprintf(stderr, "%s: %s\n", peal_status_name(run->status), diag->text);
}

static int run_one(struct run *run, const struct options *options, uint32_t ranks)
{
    *run = (struct run){.shape = options->shape,
                        .ranks = ranks,
                        .policies = options->policies,
                        .deterministic = options->deterministic,
                        .driver = options->driver};
    int done = run_all(run, options->topology);
    if (!done)
        say_failure(run);
    return done;
}

int main(int argc, char **argv)
{
    struct options options = {
        .shape = {4, 0, 8, 0, 256, 4, 32, 32, 1}, .tp = 4, .policies = beside(argv[0])};
    struct run one = {.ranks = 0}, all = {.ranks = 0};
    if (!read_options(argc, argv, &options))
        return 2;
    print_model(&options.shape);
    int good = run_one(&one, &options, 1) && run_one(&all, &options, options.tp);
    if (good) {
        print_phases(&all);
        if (all.device[0])
            printf("\nsums on %s; the model computes on the host\n", all.device);
        printf("\nranks  prefill token/s  decode token/s  us a prefill  us a decode  peal's "
               "allocations\n");
        print_speed(&one);
        print_speed(&all);
        good = compare(&one, &all);
        if (options.print)
            print_tokens(&all);
    }
    run_free(&one);
    run_free(&all);
    return good ? 0 : 1;
}
