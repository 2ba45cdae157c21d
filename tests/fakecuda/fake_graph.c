/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capturing and replaying: a graph has a branch for each stream that took part, whose operations
 * are done one after the other, by a thread of its own.
 */
#include "fake.h"

#include <stdlib.h>

#define NODES 65536u
#define BRANCHES 32u
#define NONE UINT32_MAX

struct node {
    struct fake_op op;
    uint32_t branch;
    uint32_t waits; /* for that node; NONE */
    int done;
    uint64_t round;
};

struct fake_graph {
    uint32_t users;
    uint32_t count;
    uint32_t capacity;
    uint32_t branches;
    int joined[BRANCHES];    /* nothing was added since it was last waited for */
    uint32_t last[BRANCHES]; /* recorded node */
    struct fake_stream *stream[BRANCHES];
    struct node *nodes;
    uint64_t round; /* how often it was launched; one launch at a time */
};

/* ---- capturing; with the lock held */

static uint32_t append(struct fake_graph *graph, uint32_t branch, const struct fake_op *op,
                       uint32_t waits)
{
    if (graph->count == graph->capacity) {
        graph->capacity = graph->capacity ? 2 * graph->capacity : 64;
        struct node *nodes = realloc(graph->nodes, graph->capacity * sizeof *nodes);
        if (!nodes || graph->capacity > NODES)
            fake_misuse("a graph of more than %u nodes", NODES);
        graph->nodes = nodes;
    }
    graph->nodes[graph->count] = (struct node){.op = *op, .branch = branch, .waits = waits};
    graph->joined[branch] = 0;
    return graph->count++;
}

int fake_captured(struct fake_stream *stream, const struct fake_op *op)
{
    if (!stream->capture)
        return 0;
    if (op->kind == FAKE_GRAPH)
        fake_misuse("cuGraphLaunch into a capture");
    (void)append(stream->capture, stream->branch, op, NONE);
    return 1;
}

void fake_capture_record(struct fake_stream *stream, struct fake_event *event)
{
    struct fake_op op = {.kind = FAKE_RECORD}; /* no event's: the node itself */
    event->graph = stream->capture;
    event->node = append(stream->capture, stream->branch, &op, NONE);
    stream->capture->last[stream->branch] = event->node;
}

int fake_capture_wait(struct fake_stream *stream, struct fake_event *event)
{
    struct fake_graph *graph = event->graph;
    struct fake_op op = {.kind = FAKE_RECORD};
    if (!graph && !stream->capture)
        return 0;
    if (!graph) /* of work in front of the capture */
        fake_misuse("a captured stream waits for an event of no capture");
    if (!stream->capture) {
        if (graph->branches == BRANCHES || stream->pending)
            fake_misuse("%s", stream->pending ? "a stream with work joins a capture"
                                              : "a capture of too many streams");
        stream->capture = graph;
        stream->branch = graph->branches;
        graph->stream[graph->branches] = stream;
        graph->last[graph->branches] = NONE;
        graph->branches++;
    }
    if (stream->capture != graph)
        fake_misuse("a captured stream waits for another capture");
    uint32_t from = graph->nodes[event->node].branch;
    (void)append(graph, stream->branch, &op, event->node);
    if (from != stream->branch && graph->last[from] == event->node)
        graph->joined[from] = 1;
    return 1;
}

cu_result cuStreamBeginCapture_v2(cu_handle handle, int mode)
{
    struct fake_stream *stream = handle;
    (void)fake_current("cuStreamBeginCapture");
    (void)mode;
    struct fake_graph *graph = calloc(1, sizeof *graph);
    if (!stream || !graph || stream->capture)
        fake_misuse("cuStreamBeginCapture of the legacy stream, or of one that is captured");
    (void)pthread_mutex_lock(&fake_lock);
    graph->users = 1;
    graph->branches = 1;
    graph->stream[0] = stream;
    graph->last[0] = NONE;
    stream->capture = graph;
    stream->branch = 0;
    fake_count_captures(1);
    (void)pthread_mutex_unlock(&fake_lock);
    return CU_SUCCESS;
}

cu_result cuStreamEndCapture(cu_handle handle, cu_handle *to)
{
    struct fake_stream *stream = handle;
    (void)pthread_mutex_lock(&fake_lock);
    struct fake_graph *graph = stream->capture;
    if (!graph || stream->branch != 0)
        fake_misuse("cuStreamEndCapture of a stream whose capture was begun on another");
    for (uint32_t i = 1; i < graph->branches; i++)
        if (!graph->joined[i])
            fake_misuse("a captured stream was not joined again");
    for (uint32_t i = 0; i < graph->branches; i++)
        graph->stream[i]->capture = NULL;
    fake_count_captures(-1);
    (void)pthread_mutex_unlock(&fake_lock);
    *to = graph;
    return CU_SUCCESS;
}

/* ---- replaying */

struct branch {
    struct fake_graph *graph;
    uint32_t number;
};

static void await_node(struct fake_graph *graph, uint32_t node)
{
    (void)pthread_mutex_lock(&fake_lock);
    while (graph->nodes[node].round != graph->round)
        (void)pthread_cond_wait(&fake_moved, &fake_lock);
    (void)pthread_mutex_unlock(&fake_lock);
}

static void *run_branch(void *argument)
{
    const struct branch *branch = argument;
    struct fake_graph *graph = branch->graph;
    for (uint32_t i = 0; i < graph->count; i++) {
        struct node *node = &graph->nodes[i];
        if (node->branch != branch->number)
            continue;
        if (node->waits != NONE)
            await_node(graph, node->waits);
        if (node->op.kind != FAKE_RECORD)
            fake_do(&node->op);
        (void)pthread_mutex_lock(&fake_lock);
        node->round = graph->round;
        (void)pthread_cond_broadcast(&fake_moved);
        (void)pthread_mutex_unlock(&fake_lock);
    }
    return NULL;
}

static void forget(struct fake_graph *graph)
{
    if (--graph->users == 0) {
        free(graph->nodes);
        free(graph);
    }
}

void fake_graph_run(struct fake_graph *graph)
{
    struct branch branch[BRANCHES];
    pthread_t thread[BRANCHES];
    (void)pthread_mutex_lock(&fake_lock);
    graph->round++;
    (void)pthread_mutex_unlock(&fake_lock);
    for (uint32_t i = 0; i < graph->branches; i++) {
        branch[i] = (struct branch){graph, i};
        if (i && pthread_create(&thread[i], NULL, run_branch, &branch[i]) != 0)
            fake_misuse("no thread for a branch");
    }
    (void)run_branch(&branch[0]);
    for (uint32_t i = 1; i < graph->branches; i++)
        (void)pthread_join(thread[i], NULL);
    (void)pthread_mutex_lock(&fake_lock);
    forget(graph);
    (void)pthread_mutex_unlock(&fake_lock);
}

cu_result cuGraphInstantiateWithFlags(cu_handle *exec, cu_handle handle, unsigned long long flags)
{
    struct fake_graph *graph = handle;
    (void)flags;
    (void)pthread_mutex_lock(&fake_lock);
    graph->users++;
    (void)pthread_mutex_unlock(&fake_lock);
    *exec = graph;
    return CU_SUCCESS;
}

cu_result cuGraphLaunch(cu_handle exec, cu_handle handle)
{
    struct fake_op op = {.kind = FAKE_GRAPH, .graph = exec};
    (void)pthread_mutex_lock(&fake_lock);
    op.graph->users++;
    (void)pthread_mutex_unlock(&fake_lock);
    return fake_give(handle, &op);
}

static cu_result drop(struct fake_graph *graph)
{
    (void)pthread_mutex_lock(&fake_lock);
    forget(graph);
    (void)pthread_mutex_unlock(&fake_lock);
    return CU_SUCCESS;
}

cu_result cuGraphDestroy(cu_handle graph)
{
    return drop(graph);
}

cu_result cuGraphExecDestroy(cu_handle exec)
{
    return drop(exec);
}
