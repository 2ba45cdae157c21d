/* SPDX-License-Identifier: Apache-2.0 */
/* Running a table: its ranks are threads of this process, in host memory, on float32 elements. */
#include "module.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RANKS_MAX 256u

struct job {
    peal_world *world;
    peal_table *table;
    peal_collective collective;
    uint32_t ranks;
    uint32_t root;
    size_t count; /* elements of a block */
    uint32_t calls;
    uint32_t warmup;
};

struct member {
    const struct job *job;
    pthread_t thread;
    uint32_t rank;
    peal_status status;
    peal_diag diag;
    uint64_t wrong; /* elements of its result */
    double time_us; /* of a call */
};

static double now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* ---- what is in the buffers: whole numbers, so that sums are exact in any order -------------- */

static size_t in_blocks(const struct job *job, uint32_t rank)
{
    switch (job->collective) {
    case PEAL_REDUCE_SCATTER:
    case PEAL_ALLTOALL:
        return job->ranks;
    case PEAL_BROADCAST:
        return rank == job->root;
    default:
        return 1;
    }
}

static size_t out_blocks(const struct job *job, uint32_t rank)
{
    switch (job->collective) {
    case PEAL_ALLGATHER:
    case PEAL_ALLTOALL:
        return job->ranks;
    case PEAL_REDUCE:
        return rank == job->root;
    default:
        return 1;
    }
}

static float element(uint32_t rank, size_t at)
{
    return (float)((rank * 31u + at * 7u) % 64u);
}

static float sum(const struct job *job, size_t at)
{
    float all = 0;
    for (uint32_t r = 0; r < job->ranks; r++)
        all += element(r, at);
    return all;
}

static float expected(const struct job *job, uint32_t rank, size_t at)
{
    size_t block = at / job->count, within = at % job->count;
    switch (job->collective) {
    case PEAL_REDUCE_SCATTER:
        return sum(job, rank * job->count + within);
    case PEAL_ALLGATHER:
        return element((uint32_t)block, within);
    case PEAL_ALLTOALL:
        return element((uint32_t)block, rank * job->count + within);
    case PEAL_BROADCAST:
        return element(job->root, at);
    default:
        return sum(job, at);
    }
}

/* ---- one rank
 * ------------------------------------------------------------------------------------ */

static peal_status call(const struct job *job, peal_comm *comm, const float *in, float *out,
                        peal_diag *diag)
{
    switch (job->collective) {
    case PEAL_ALLREDUCE:
        return peal_allreduce(comm, in, out, job->count, PEAL_FLOAT32, PEAL_SUM, diag);
    case PEAL_REDUCE_SCATTER:
        return peal_reduce_scatter(comm, in, out, job->count, PEAL_FLOAT32, PEAL_SUM, diag);
    case PEAL_ALLGATHER:
        return peal_allgather(comm, in, out, job->count, PEAL_FLOAT32, diag);
    case PEAL_BROADCAST:
        return peal_broadcast(comm, in, out, job->count, PEAL_FLOAT32, job->root, diag);
    case PEAL_REDUCE:
        return peal_reduce(comm, in, out, job->count, PEAL_FLOAT32, PEAL_SUM, job->root, diag);
    default:
        return peal_alltoall(comm, in, out, job->count, PEAL_FLOAT32, diag);
    }
}

static peal_status measure(struct member *member, peal_comm *comm, float *in, float *out)
{
    const struct job *job = member->job;
    size_t ins = in_blocks(job, member->rank) * job->count;
    size_t outs = out_blocks(job, member->rank) * job->count;
    for (size_t i = 0; i < ins; i++)
        in[i] = element(member->rank, i);
    double begin = 0;
    for (uint32_t i = 0; i < job->warmup + job->calls; i++) {
        begin = i == job->warmup ? now_us() : begin;
        peal_status status = call(job, comm, in, out, &member->diag);
        if (status != PEAL_OK)
            return status;
    }
    member->time_us = (now_us() - begin) / job->calls;
    for (size_t i = 0; i < outs; i++)
        member->wrong += out[i] != expected(job, member->rank, i);
    return PEAL_OK;
}

static void *run_member(void *arg)
{
    struct member *member = arg;
    const struct job *job = member->job;
    peal_comm *comm = NULL;
    member->status = peal_comm_create(job->world, job->table, member->rank, &member->diag, &comm);
    if (member->status != PEAL_OK)
        return NULL;
    size_t bytes = (size_t)job->ranks * job->count * sizeof(float) + 64;
    float *in = peal_mem_alloc(comm, bytes), *out = peal_mem_alloc(comm, bytes);
    member->status = in && out ? measure(member, comm, in, out) : PEAL_ERR_MEMORY;
    if (member->status != PEAL_OK)
        peal_comm_abort(comm);
    peal_comm_destroy(comm);
    return NULL;
}

/* ---- all of them
 * ----------------------------------------------------------------------------------- */

static void run_members(struct member *members, uint32_t ranks)
{
    uint32_t started = 0;
    while (started < ranks &&
           pthread_create(&members[started].thread, NULL, run_member, &members[started]) == 0)
        started++;
    for (uint32_t i = 0; i < started; i++)
        (void)pthread_join(members[i].thread, NULL);
    for (uint32_t i = started; i < ranks; i++)
        members[i].status = PEAL_ERR_MEMORY;
}

/* Of the rank that says most: an abort is the consequence of another one's error. */
static const struct member *worst(const struct member *members, uint32_t ranks)
{
    const struct member *bad = NULL;
    for (uint32_t i = 0; i < ranks; i++)
        if (members[i].status != PEAL_OK && (!bad || bad->status == PEAL_ERR_ABORTED))
            bad = &members[i];
    return bad;
}

static void run_job(lua_State *L, struct job *job, double *time_us, uint64_t *wrong)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    struct member *members = lua_newuserdatauv(L, job->ranks * sizeof *members, 0);
    memset(members, 0, job->ranks * sizeof *members);
    params.ranks = job->ranks;
    params.heap_bytes = 2 * ((uint64_t)job->ranks * job->count * sizeof(float) + 8192) + (1u << 20);
    module_check(L, peal_world_create(module_ctx(L), &params, job->table, &diag, &job->world),
                 &diag);
    for (uint32_t i = 0; i < job->ranks; i++)
        members[i] = (struct member){.job = job, .rank = i, .diag = PEAL_DIAG_INIT};
    run_members(members, job->ranks);
    peal_world_destroy(job->world);
    const struct member *bad = worst(members, job->ranks);
    if (bad)
        module_check(L, bad->status, &bad->diag);
    *time_us = 0;
    *wrong = 0;
    for (uint32_t i = 0; i < job->ranks; i++) {
        *time_us = members[i].time_us > *time_us ? members[i].time_us : *time_us;
        *wrong += members[i].wrong;
    }
    lua_pop(L, 1);
}

static int counts_blocks(peal_collective collective)
{
    return collective == PEAL_REDUCE_SCATTER || collective == PEAL_ALLGATHER ||
           collective == PEAL_ALLTOALL;
}

/* What both have in common; the options are at index 2. */
static void read_job(lua_State *L, struct job *job)
{
    peal_table_info info = {.size = sizeof info};
    job->table = check_table(L, 1);
    module_check(L, peal_table_get(job->table, &info), NULL);
    job->ranks = info.ranks;
    job->collective = info.collective;
    option_u32(L, 2, "root", &job->root);
    option_u32(L, 2, "calls", &job->calls);
    option_u32(L, 2, "warmup", &job->warmup);
    if (!info.compiled)
        luaL_error(L, "only a compiled table runs");
    if (info.ranks > RANKS_MAX)
        luaL_error(L, "%d ranks; up to %d run here", (int)info.ranks, (int)RANKS_MAX);
    if (job->collective > PEAL_REDUCE && job->collective != PEAL_ALLTOALL)
        luaL_error(L, "%s is not run from here; peal run does",
                   peal_collective_name(job->collective));
    if (job->calls == 0 || job->calls > 1000000 || job->warmup > 1000000)
        luaL_error(L, "'calls' is 1 to 1000000");
}

#define BYTES_MAX (1ull << 40) /* of a buffer; what a rank allocates does not overflow */

static size_t count_of(lua_State *L, const struct job *job, uint64_t bytes)
{
    uint64_t count = bytes / sizeof(float);
    if (bytes > BYTES_MAX)
        luaL_error(L, "a message of more than 1 TiB");
    return (size_t)(counts_blocks(job->collective) ? count / job->ranks : count);
}

static void push_result(lua_State *L, const struct job *job, double time_us, uint64_t wrong)
{
    double bytes =
        (double)job->count * sizeof(float) * (counts_blocks(job->collective) ? job->ranks : 1);
    lua_newtable(L);
    set_text(L, "collective", peal_collective_name(job->collective));
    set_integer(L, "ranks", job->ranks);
    set_integer(L, "bytes", (uint64_t)bytes);
    set_number(L, "time_us", time_us);
    set_number(L, "algbw_gbs", time_us > 0 ? bytes / (time_us * 1e3) : 0);
    set_integer(L, "wrong", wrong);
}

/* table:run{bytes = "1M", root = 0, calls = 1} */
int module_run(lua_State *L)
{
    static const char *const words[] = {"bytes", "root", "calls", "warmup", NULL};
    struct job job = {.calls = 1};
    uint64_t bytes = 1u << 20, wrong;
    double time_us;
    check_options(L, 2, words);
    read_job(L, &job);
    option_u64(L, 2, "bytes", &bytes);
    job.count = count_of(L, &job, bytes);
    run_job(L, &job, &time_us, &wrong);
    push_result(L, &job, time_us, wrong);
    return 1;
}

/* table:bench{bytes = {"1K", "1M"}, calls = 20}: a list of results */
int module_bench(lua_State *L)
{
    static const char *const words[] = {"bytes", "root", "calls", "warmup", NULL};
    struct job job = {.calls = 20, .warmup = 5};
    check_options(L, 2, words);
    read_job(L, &job);
    lua_settop(L, 2);
    if (lua_getfield(L, 2, "bytes") != LUA_TTABLE)
        return luaL_error(L, "'bytes' is a list of sizes");
    lua_newtable(L);
    for (lua_Integer i = 1; lua_geti(L, 3, i) != LUA_TNIL; i++) {
        uint64_t wrong;
        double time_us;
        job.count = count_of(L, &job, as_size(L, lua_gettop(L)));
        lua_pop(L, 1);
        run_job(L, &job, &time_us, &wrong);
        push_result(L, &job, time_us, wrong);
        lua_seti(L, 4, i);
    }
    lua_settop(L, 4);
    return 1;
}
