/* SPDX-License-Identifier: Apache-2.0 */
/* The measured timeline of a run, as a file. */
#include "yard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct sink {
    FILE *file;
    int why; /* errno of what went wrong */
};

static peal_status write_file(void *user, const char *data, size_t bytes)
{
    struct sink *sink = user;
    if (fwrite(data, 1, bytes, sink->file) == bytes)
        return PEAL_OK;
    sink->why = errno;
    return PEAL_ERR_IO;
}

/* Half a timeline is none; what is no file of its own, such as a pipe, stays. */
static int cannot(const char *path, int why)
{
    struct stat about;
    say(SAY_ERROR, "cannot write %s: %s", path, strerror(why));
    if (stat(path, &about) == 0 && S_ISREG(about.st_mode))
        (void)remove(path);
    return EXIT_RUNTIME;
}

/* Of all ranks behind one another. */
static peal_trace_event *gather(const struct yard *yard, uint32_t *count)
{
    *count = 0;
    for (uint32_t r = 0; r < yard->ranks; r++)
        *count += yard->traced[r];
    peal_trace_event *all = need(malloc((*count + 1) * sizeof *all)), *at = all;
    for (uint32_t r = 0; r < yard->ranks; r++) {
        memcpy(at, &yard->trace[(size_t)r * TRACE_EVENTS], yard->traced[r] * sizeof *at);
        at += yard->traced[r];
        if (yard->traced[r] == TRACE_EVENTS)
            say(SAY_NOTE, "rank %lu made more than %u steps; the trace has the first of them",
                (unsigned long)r, TRACE_EVENTS);
    }
    return all;
}

int crew_trace(const struct crew *crew, const struct yard *yard)
{
    peal_diag diag = PEAL_DIAG_INIT;
    uint32_t count;
    struct sink sink = {fopen(crew->trace, "w"), 0};
    if (!sink.file) {
        say(SAY_ERROR, "cannot write %s: %s", crew->trace, strerror(errno));
        return EXIT_RUNTIME;
    }
    peal_trace_event *events = gather(yard, &count);
    peal_status status = peal_trace_write(crew->table, events, count, write_file, &sink, &diag);
    free(events);
    if (fclose(sink.file) != 0 && !sink.why)
        sink.why = errno;
    if (sink.why)
        return cannot(crew->trace, sink.why);
    return say_diag(status, &diag);
}
