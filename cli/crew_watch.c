/* SPDX-License-Identifier: Apache-2.0 */
/* Where each rank stands, when none has moved for a while. */
#include "yard.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STILL 10u /* tenths of a second */

/* "rank 3, pid 17", or "rank 3 on node1". */
static const char *who(const struct yard *yard, uint32_t rank, const peal_rank_state *state,
                       char *text, size_t size)
{
    const char *host = peal_world_host(yard->world, rank);
    if (host)
        (void)snprintf(text, size, "rank %lu on %s", (unsigned long)rank, host);
    else
        (void)snprintf(text, size, "rank %lu, pid %lu", (unsigned long)rank,
                       (unsigned long)state->pid);
    return text;
}

/* A process that somebody has stopped, or a debugger holds: it is in no wait that it could tell of.
 */
static int is_stopped(uint32_t pid)
{
    char path[64], text[512] = "";
    (void)snprintf(path, sizeof path, "/proc/%lu/stat", (unsigned long)pid);
    FILE *file = pid ? fopen(path, "r") : NULL;
    if (!file)
        return 0;
    size_t got = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[got] = '\0';
    const char *end = strrchr(text, ')');
    return end && end[1] == ' ' && (end[2] == 'T' || end[2] == 't');
}

static void say_rank(const struct yard *yard, uint32_t rank, const peal_rank_state *state,
                     uint32_t latest)
{
    char where[128] = "", name[160];
    if (!state->joined) {
        say(SAY_NOTE, "rank %lu has not joined", (unsigned long)rank);
        return;
    }
    if (state->waits && state->awaited != UINT32_MAX)
        (void)snprintf(where, sizeof where, ", waits in lane %lu, step %lu for rank %lu",
                       (unsigned long)state->lane, (unsigned long)state->step,
                       (unsigned long)state->awaited);
    else if (state->waits)
        (void)snprintf(where, sizeof where, ", waits in lane %lu, step %lu",
                       (unsigned long)state->lane, (unsigned long)state->step);
    say(SAY_NOTE, "%s: %s call %lu%s%s%s", who(yard, rank, state, name, sizeof name),
        state->entered == state->returned ? "has returned from" : "in",
        (unsigned long)state->entered, where,
        state->entered != latest ? "; has not arrived in the others' call" : "",
        is_stopped(state->pid) ? "; its process is stopped" : "");
}

static void say_all(const struct yard *yard)
{
    uint32_t latest = 0;
    peal_rank_state state = {.size = sizeof state};
    for (uint32_t r = 0; r < yard->ranks; r++)
        if (peal_world_rank(yard->world, r, &state) == PEAL_OK && state.entered > latest)
            latest = state.entered;
    say(SAY_NOTE, "nothing has moved for a second:");
    for (uint32_t r = 0; r < yard->ranks; r++)
        if (peal_world_rank(yard->world, r, &state) == PEAL_OK)
            say_rank(yard, r, &state, latest);
}

struct watcher {
    struct yard *yard;
    pthread_t thread;
    atomic_int over;
};

static void *watch_main(void *user)
{
    static const struct timespec tenth = {0, 100000000};
    struct watcher *watcher = user;
    uint64_t seen = 0;
    uint32_t still = 0;
    while (!atomic_load(&watcher->over)) {
        crew_watch(watcher->yard, &seen, &still);
        (void)nanosleep(&tenth, NULL);
    }
    return NULL;
}

struct watcher *crew_watch_begin(struct yard *yard)
{
    struct watcher *watcher = need(calloc(1, sizeof *watcher));
    watcher->yard = yard;
    if (pthread_create(&watcher->thread, NULL, watch_main, watcher) == 0)
        return watcher;
    free(watcher);
    return NULL;
}

void crew_watch_end(struct watcher *watcher)
{
    if (!watcher)
        return;
    atomic_store(&watcher->over, 1);
    (void)pthread_join(watcher->thread, NULL);
    free(watcher);
}

void crew_watch(const struct yard *yard, uint64_t *seen, uint32_t *still)
{
    uint64_t sum = 0;
    peal_rank_state state = {.size = sizeof state};
    for (uint32_t r = 0; r < yard->ranks; r++)
        if (peal_world_rank(yard->world, r, &state) == PEAL_OK)
            sum += (uint64_t)state.entered + state.returned + (uint64_t)state.joined;
    *still = sum == *seen ? *still + 1 : 0;
    *seen = sum;
    if (*still && *still % STILL == 0)
        say_all(yard);
}
