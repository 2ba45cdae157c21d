/* SPDX-License-Identifier: Apache-2.0 */
/* What calls take of the schedules that ranks of one memory may choose from. */
#ifndef PEAL_CLI_FIT_CALLS_H
#define PEAL_CLI_FIT_CALLS_H

#include "cli.h"

#define CALL_SIZES 16u
#define CALL_TURNS 6u
#define SCHEDULES_MAX 512u

struct schedule {
    peal_collective collective;
    int private_buffers;
    char algorithm[64];
    char detail[128];
    uint64_t tile_bytes;
    uint64_t bytes[CALL_SIZES];         /* of the messages */
    double run[CALL_TURNS][CALL_SIZES]; /* us; 0: not served, or not measured */
    double flag[CALL_TURNS];            /* around each run; 0: not looked at, or it changed */
    double us[CALL_SIZES];              /* the least of those that count */
};

struct calling {
    struct cli *cli;
    uint32_t ranks;
    int crowded; /* more ranks than cores: they are threads, and no flag tells anything */
    int procs;
    uint32_t sizes;
    uint64_t size[CALL_SIZES];
    peal_fabric *unit;    /* of unit costs */
    uint32_t runs, alike; /* with a flag, and of these so many in one state, */
    double flag_us;       /* in which a flag takes so long; 0: not looked at */
    double other_us;      /* the middle one of the others */
    uint32_t count;
    struct schedule schedule[SCHEDULES_MAX];
};

/* A machine on which a start-up takes 1 us and a rank copies 1e9 bytes a second. calls: what it
 * says of measured ones. */
int calls_unit(struct cli *cli, uint32_t ranks, const char *calls, peal_fabric **out);
/* Fills in all schedules, with what they take. */
int calls_measure(struct calling *calling);

#endif
