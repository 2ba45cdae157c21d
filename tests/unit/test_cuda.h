/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks on the stand-in for the CUDA driver: threads of this process, a device each. */
#ifndef PEAL_TESTS_CUDA_H
#define PEAL_TESTS_CUDA_H

#include "support.h"

#include <check.h>
#include <dlfcn.h>
#include <peal/peal_cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#ifndef RANKS
#define RANKS 4u
#endif
#define COUNT 5000u /* elements of a block */

struct rank {
    uint32_t number;
    peal_cuda *cuda;
    peal_cuda_comm *comm;
    void *stream;
    uint32_t *in; /* device memory, symmetric: RANKS blocks each */
    uint32_t *out;
    uint32_t host[RANKS * COUNT];
    struct team *team;
    char problem[1024]; /* "": none */
};

struct team {
    peal_world *world;
    peal_table *table;
    peal_cuda_params params;
    void (*body)(struct rank *rank);
    pthread_barrier_t meet;
    struct rank ranks[RANKS];
};

static inline const char *fake_path(void)
{
    static char path[1024];
    const char *build = getenv("PEAL_BUILD");
    (void)snprintf(path, sizeof path, "%s/fakecuda/libcuda.so.1", build ? build : ".");
    return path;
}

/* Notes the first thing that is wrong. */
#define SAY(rank, condition, ...)                                                                  \
    do {                                                                                           \
        if (!(condition) && !(rank)->problem[0])                                                   \
            (void)snprintf((rank)->problem, sizeof(rank)->problem, __VA_ARGS__);                   \
    } while (0)
#define SAY_OK(rank, call, diag)                                                                   \
    do {                                                                                           \
        peal_status say_status = (call);                                                           \
        SAY(rank, say_status == PEAL_OK, "line %d: %s: %s", __LINE__,                              \
            peal_status_name(say_status), (diag).text);                                            \
    } while (0)

static inline void take_buffers(struct rank *rank)
{
    size_t bytes = sizeof rank->host;
    rank->in = peal_cuda_mem_alloc(rank->comm, bytes);
    rank->out = peal_cuda_mem_alloc(rank->comm, bytes);
    SAY(rank, rank->in && rank->out, "no symmetric memory");
}

static inline void *rank_main(void *user)
{
    struct rank *rank = user;
    struct team *team = rank->team;
    peal_diag diag = PEAL_DIAG_INIT;
    peal_cuda_params params = team->params;
    params.device = rank->number;
    peal_status status = peal_cuda_comm_create(rank->cuda, team->world, team->table, rank->number,
                                               &params, &diag, &rank->comm);
    SAY(rank, status == PEAL_OK, "%s: %s", peal_status_name(status), diag.text);
    if (status != PEAL_OK)
        return NULL;
    SAY_OK(rank, peal_cuda_stream_create(rank->comm, &diag, &rank->stream), diag);
    take_buffers(rank);
    if (!rank->problem[0])
        team->body(rank);
    (void)!peal_cuda_stream_wait(rank->comm, rank->stream, &diag);
    (void)pthread_barrier_wait(&team->meet);
    peal_cuda_stream_destroy(rank->comm, rank->stream);
    peal_cuda_comm_destroy(rank->comm);
    return NULL;
}

/* "" or what went wrong on some rank. */
static inline const char *run_team(peal_ctx *context, struct team *team, uint32_t timeout_ms)
{
    static char problem[1100];
    peal_diag diag = PEAL_DIAG_INIT;
    peal_world_params params = PEAL_WORLD_PARAMS_INIT;
    pthread_t threads[RANKS];
    peal_cuda *cuda = NULL;
    params.ranks = RANKS;
    params.heap_bytes = 1u << 16;
    params.timeout_ms = timeout_ms;
    ck_assert_msg(peal_cuda_open(context, fake_path(), &diag, &cuda) == PEAL_OK, "%s", diag.text);
    ck_assert_int_eq(peal_world_create(context, &params, team->table, &diag, &team->world),
                     PEAL_OK);
    (void)pthread_barrier_init(&team->meet, NULL, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        struct rank *rank = &team->ranks[r];
        memset(rank, 0, sizeof *rank);
        rank->number = r;
        rank->cuda = cuda;
        rank->team = team;
        ck_assert_int_eq(pthread_create(&threads[r], NULL, rank_main, rank), 0);
    }
    problem[0] = '\0';
    for (uint32_t r = 0; r < RANKS; r++) {
        (void)pthread_join(threads[r], NULL);
        if (team->ranks[r].problem[0] && !problem[0])
            (void)snprintf(problem, sizeof problem, "rank %u: %s", r, team->ranks[r].problem);
    }
    (void)pthread_barrier_destroy(&team->meet);
    peal_world_destroy(team->world);
    peal_cuda_close(cuda);
    return problem;
}

static inline peal_table *plan_on(peal_ctx *context, peal_fabric *fabric,
                                  peal_collective collective, const char *algorithm, int zero_sm)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table = NULL;
    peal_request request = PEAL_REQUEST_INIT;
    request.collective = collective;
    request.ranks = RANKS;
    request.algorithm = algorithm;
    request.zero_sm = zero_sm;
    request.min_bytes = 4;
    request.max_bytes = 1u << 20;
    ck_assert_msg(peal_table_plan(context, fabric, &request, &diag, &table) == PEAL_OK, "%s",
                  diag.text);
    ck_assert_msg(peal_table_compile(table, fabric, &diag) == PEAL_OK, "%s", diag.text);
    peal_fabric_destroy(fabric);
    return table;
}

static inline peal_table *plan_for(peal_ctx *context, peal_collective collective,
                                   const char *algorithm, int zero_sm)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_fabric *fabric = NULL;
    ck_assert_int_eq(peal_fabric_load(context, test_source_path("examples/topologies/dgx-h100.xml"),
                                      &diag, &fabric),
                     PEAL_OK);
    return plan_on(context, fabric, collective, algorithm, zero_sm);
}

/* Of a host whose switches multicast and fold. */
static inline peal_table *plan_switch(peal_ctx *context, peal_collective collective)
{
    static const char text[] = "<peal version=\"1\">"
                               "<host topology=\"dgx-h100.xml\" multicast=\"yes\"/></peal>";
    peal_diag diag = PEAL_DIAG_INIT;
    peal_fabric *fabric = NULL;
    peal_status status = peal_fabric_parse(context, text, sizeof text - 1, "a switch",
                                           test_source_path("examples/topologies"), &diag, &fabric);
    ck_assert_msg(status == PEAL_OK, "%s", diag.text);
    return plan_on(context, fabric, collective, "nvls", 0);
}

/* ---- allgathers, which every kind of call can do */

static inline uint32_t value_of(uint32_t rank, uint32_t index, uint32_t salt)
{
    return (salt * 31 + rank) * 100003u + index * 7;
}

/* Gives the device new input, and spoils the output. */
static inline void put_input(struct rank *rank, uint32_t salt)
{
    peal_diag diag = PEAL_DIAG_INIT;
    for (uint32_t i = 0; i < COUNT; i++)
        rank->host[i] = value_of(rank->number, i, salt);
    SAY_OK(rank, peal_cuda_copy(rank->comm, rank->in, rank->host, 4 * COUNT, rank->stream, &diag),
           diag);
    SAY_OK(rank, peal_cuda_stream_wait(rank->comm, rank->stream, &diag), diag);
    memset(rank->host, 0xee, sizeof rank->host);
    SAY_OK(
        rank,
        peal_cuda_copy(rank->comm, rank->out, rank->host, sizeof rank->host, rank->stream, &diag),
        diag);
    SAY_OK(rank, peal_cuda_stream_wait(rank->comm, rank->stream, &diag), diag);
}

static inline void check_output(struct rank *rank, uint32_t salt)
{
    peal_diag diag = PEAL_DIAG_INIT;
    SAY_OK(
        rank,
        peal_cuda_copy(rank->comm, rank->host, rank->out, sizeof rank->host, rank->stream, &diag),
        diag);
    SAY_OK(rank, peal_cuda_stream_wait(rank->comm, rank->stream, &diag), diag);
    for (uint32_t i = 0; i < RANKS * COUNT; i++)
        SAY(rank, rank->host[i] == value_of(i / COUNT, i % COUNT, salt),
            "salt %u: element %u is %#x", salt, i, rank->host[i]);
}

static inline peal_status gather(struct rank *rank, int zero_sm, int symmetric, peal_diag *diag)
{
    peal_cuda_call call = PEAL_CUDA_CALL_INIT;
    call.collective = PEAL_ALLGATHER;
    call.dtype = PEAL_UINT32;
    call.count = COUNT;
    call.in = rank->in;
    call.out = rank->out;
    call.zero_sm = zero_sm;
    call.symmetric = symmetric;
    return peal_cuda_enqueue(rank->comm, &call, rank->stream, diag);
}

#endif
