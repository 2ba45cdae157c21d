/* SPDX-License-Identifier: Apache-2.0 */
/* Starting the ranks of a run, and waiting for their end. */
#include "crew.h"
#include "yard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct member {
    const struct crew *crew;
    struct yard *yard;
    uint32_t rank;
    pthread_t thread;
    pid_t pid; /* 0: has ended */
    int started;
};

/* ---- the world */

uint64_t job_room(const struct job *job, uint32_t ranks)
{
    return action_room(&job->action, job->count, job->dtype, ranks);
}

uint32_t job_bursts(uint64_t bytes)
{
    return bytes <= 1u << 20 ? 41 : bytes <= 8u << 20 ? 15 : 5;
}

uint64_t job_bytes(const struct job *job, uint32_t ranks)
{
    return action_bytes(&job->action, job->count, job->dtype, ranks);
}

static uint64_t heap_bytes(const struct crew *crew)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < crew->njobs; i++) {
        const struct job *job = &crew->jobs[i];
        uint64_t slots = crew->registered ? 2ull * job->calls : 2;
        uint64_t bytes = slots * yard_slot(job_room(job, crew->ranks));
        if (bytes > most)
            most = bytes;
    }
    return crew->registered || crew->procs ? most + (1u << 20) : 1u << 20;
}

static int make_world(const struct crew *crew, struct yard *yard)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    params.ranks = crew->ranks;
    params.heap_bytes = heap_bytes(crew);
    params.timeout_ms = crew->timeout_ms;
    params.private_buffers = crew_private(crew);
    params.chaos_seed = crew->chaos;
    peal_status status =
        peal_world_create(crew->cli->ctx, &params, crew->table, &diag, &yard->world);
    return status == PEAL_OK ? EXIT_YES : say_diag(status, &diag);
}

/* ---- starting */

static void *thread_main(void *user)
{
    struct member *member = user;
    crew_rank(member->crew, member->yard, member->rank);
    (void)sem_post(&member->yard->ended);
    return NULL;
}

static void process_main(struct member *member, pid_t parent)
{
    struct yard *yard = member->yard;
    if (getppid() == parent)
        crew_rank(member->crew, yard, member->rank);
    (void)sem_post(&yard->ended);
    _exit(0);
}

static int start_one(struct member *member)
{
    pid_t self = getpid();
    if (!member->crew->procs) {
        member->started = pthread_create(&member->thread, NULL, thread_main, member) == 0;
        return member->started;
    }
    member->pid = fork();
    if (member->pid == 0)
        process_main(member, self);
    member->started = member->pid > 0;
    return member->started;
}

static void start_all(struct member *members, struct yard *yard)
{
    (void)fflush(NULL);
    for (uint32_t r = 0; r < yard->ranks; r++) {
        peal_diag diag = PEAL_DIAG_INIT;
        if (start_one(&members[r]))
            continue;
        (void)snprintf(diag.text, sizeof diag.text, "rank %lu could not be started: %s",
                       (unsigned long)r, strerror(errno));
        yard_fail(yard, r, PEAL_ERR_MEMORY, &diag);
        return;
    }
}

/* ---- waiting */

/* A process that ended in another way than by itself ends the run of all. */
static void note_death(struct member *member, int how)
{
    peal_diag diag = PEAL_DIAG_INIT;
    member->pid = 0;
    if (WIFEXITED(how) && WEXITSTATUS(how) == 0)
        return;
    if (WIFSIGNALED(how))
        (void)snprintf(diag.text, sizeof diag.text, "rank %lu was killed by signal %d",
                       (unsigned long)member->rank, WTERMSIG(how));
    else
        (void)snprintf(diag.text, sizeof diag.text, "rank %lu ended with exit code %d",
                       (unsigned long)member->rank, WEXITSTATUS(how));
    yard_fail(member->yard, member->rank, PEAL_ERR_PEER, &diag);
}

static uint32_t reap(struct member *members, uint32_t count)
{
    uint32_t left = 0;
    for (uint32_t r = 0; r < count; r++) {
        int how;
        if (members[r].pid > 0 && waitpid(members[r].pid, &how, WNOHANG) == members[r].pid)
            note_death(&members[r], how);
        left += members[r].pid > 0;
    }
    return left;
}

/* A rank ends, or a tenth of a second passes. */
static int wait_a_little(struct yard *yard)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 100000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return sem_timedwait(&yard->ended, &until) == 0;
}

static void wait_all(const struct crew *crew, struct member *members, struct yard *yard)
{
    uint32_t left = 0, still = 0;
    uint64_t seen = 0;
    for (uint32_t r = 0; r < yard->ranks; r++)
        left += members[r].started != 0;
    for (uint32_t ended = 0; ended < left;) {
        ended += wait_a_little(yard) != 0;
        if (crew->watch)
            crew_watch(yard, &seen, &still);
        if (crew->procs && reap(members, yard->ranks) == 0)
            break;
        say_progress(crew->what, atomic_load(&yard->finished), crew->njobs);
    }
    say_progress(crew->what, 1, 1);
    for (uint32_t r = 0; r < yard->ranks; r++) {
        int how;
        if (members[r].started && !crew->procs)
            (void)pthread_join(members[r].thread, NULL);
        else if (members[r].pid > 0 && waitpid(members[r].pid, &how, 0) == members[r].pid)
            note_death(&members[r], how);
    }
}

/* ---- */

static int report_failure(const struct yard *yard)
{
    char where[32];
    if (!atomic_load(&yard->failed))
        return EXIT_YES;
    (void)snprintf(where, sizeof where, "rank %lu", (unsigned long)yard->failed_rank);
    say(SAY_ERROR, "%s: %s", where,
        yard->diag.text[0] ? yard->diag.text : peal_status_text(yard->status));
    return yard->status == PEAL_ERR_UNPROVEN ? EXIT_NO : EXIT_RUNTIME;
}

int crew_private(const struct crew *crew)
{
    return crew->procs && !crew->registered;
}

uint32_t crew_rows(const struct crew *crew)
{
    peal_table_info info = {.size = sizeof info};
    return peal_table_get(crew->table, &info) == PEAL_OK ? info.rows : 0;
}

/* "RDMA (mlx5_0:1 here)", or "TCP; not by RDMA: no RDMA device". Near ranks' links tell nothing of
 * a device. */
static const char *connection_text(const struct crew *crew, const struct yard *yard, char *text,
                                   size_t size)
{
    peal_link_state link = {.size = sizeof link};
    const char *device = "";
    for (uint32_t r = 0; r < crew->ranks; r++) {
        if (peal_world_link(yard->world, r, &link) != PEAL_OK)
            return "an unknown network";
        device = link.device[0] ? link.device : device;
    }
    int used = link.links_rdma ? snprintf(text, size, "RDMA (%s here)", device) : 0;
    if (link.links_tcp)
        (void)snprintf(text + used, size - (size_t)used, "%sTCP%s%s", used ? " and " : "",
                       link.why[0] ? "; not by RDMA: " : "", link.why);
    return text;
}

/* "2 hosts (a, b), connected by TCP", before anything moves. */
static void note_hosts(const struct crew *crew, const struct yard *yard)
{
    char names[256] = "", by[256];
    size_t used = 0;
    uint32_t hosts = 0;
    for (uint32_t r = 0; r < crew->ranks; r++) {
        uint32_t k = 0;
        const char *host = peal_world_host(yard->world, r);
        while (strcmp(peal_world_host(yard->world, k), host) != 0)
            k++;
        if (k != r)
            continue;
        hosts++;
        if (used + strlen(host) + 8 < sizeof names)
            used +=
                (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", host);
    }
    if (hosts > 1)
        say(SAY_NOTE, "%lu hosts (%s), connected by %s", (unsigned long)hosts, names,
            connection_text(crew, yard, by, sizeof by));
}

/* What the ranks have left in the yard. */
static void take_results(struct crew *crew, const struct yard *yard)
{
    crew->info = yard->info;
    if (yard->counters)
        memcpy(crew->counters, yard->counters, crew_rows(crew) * sizeof *crew->counters);
    memcpy(crew->results, yard->results, crew->njobs * sizeof *crew->results);
}

static int join_part(const struct crew *crew, struct yard *yard)
{
    peal_diag diag = PEAL_DIAG_INIT;
    while (crew->part[yard->rank] != crew->launch->rank)
        yard->rank++;
    return say_diag(
        peal_world_split(crew->within, crew->part, crew->ranks, crew->table, &diag, &yard->world),
        &diag);
}

static int join(const struct crew *crew, struct yard *yard)
{
    peal_join_params params = PEAL_JOIN_PARAMS_INIT;
    if (crew->within)
        return join_part(crew, yard);
    params.heap_bytes = heap_bytes(crew);
    params.timeout_ms = crew->timeout_ms;
    params.chaos_seed = crew->chaos;
    CLI_TRY(launch_join(crew->cli, crew->launch, crew->table, &params, &yard->world));
    yard->rank = crew->launch->rank;
    if (yard->rank == 0)
        note_hosts(crew, yard);
    return EXIT_YES;
}

/* One rank is this process; the others were started elsewhere. */
static int run_joined(struct crew *crew, struct yard *yard)
{
    struct watcher *watcher = NULL;
    yard->far = 1;
    CLI_TRY(join(crew, yard));
    if (yard->rank == 0 && crew->watch)
        watcher = crew_watch_begin(yard);
    crew_rank(crew, yard, yard->rank);
    crew_watch_end(watcher);
    int traced = crew->trace && !atomic_load(&yard->failed) && yard_share_traces(yard);
    peal_world_destroy(yard->world);
    take_results(crew, yard);
    if (traced && yard->rank == 0)
        CLI_TRY(crew_trace(crew, yard));
    return report_failure(yard);
}

static int run_in(struct crew *crew, struct yard *yard)
{
    if (crew->launch->by != LAUNCH_NONE)
        return run_joined(crew, yard);
    CLI_TRY(make_world(crew, yard));
    struct member *members = need(calloc(crew->ranks, sizeof *members));
    for (uint32_t r = 0; r < crew->ranks; r++) {
        members[r].crew = crew;
        members[r].yard = yard;
        members[r].rank = r;
    }
    start_all(members, yard);
    wait_all(crew, members, yard);
    free(members);
    peal_world_destroy(yard->world);
    take_results(crew, yard);
    if (crew->trace && !atomic_load(&yard->failed))
        CLI_TRY(crew_trace(crew, yard));
    return report_failure(yard);
}

int crew_run(struct crew *crew)
{
    struct yard *yard = yard_make(crew);
    if (!yard)
        return EXIT_RUNTIME;
    int code = run_in(crew, yard);
    yard_unmake(yard);
    return code;
}
