/* SPDX-License-Identifier: Apache-2.0 */
/* Capturing and replaying by the driver's own functions, which peal has no use for. */
#ifndef PEAL_TESTS_CUDA_GRAPHS_H
#define PEAL_TESTS_CUDA_GRAPHS_H

#include "test_cuda.h"

struct graphs {
    int (*begin)(void *stream, int mode);
    int (*end)(void *stream, void **graph);
    int (*make)(void **exec, void *graph, unsigned long long flags);
    int (*launch)(void *exec, void *stream);
    int (*drop)(void *graph);
    int (*drop_exec)(void *exec);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*retain)(void **context, int device);
    int (*release)(int device);
    void *library;
};

static inline void find(struct graphs *graphs, const char *name, void *to)
{
    void *symbol = dlsym(graphs->library, name);
    ck_assert_msg(symbol != NULL, "%s", name);
    memcpy(to, &symbol, sizeof symbol);
}

static inline void load_graphs(struct graphs *graphs)
{
    graphs->library = dlopen(fake_path(), RTLD_NOW);
    ck_assert_ptr_nonnull(graphs->library);
    find(graphs, "cuStreamBeginCapture_v2", &graphs->begin);
    find(graphs, "cuStreamEndCapture", &graphs->end);
    find(graphs, "cuGraphInstantiateWithFlags", &graphs->make);
    find(graphs, "cuGraphLaunch", &graphs->launch);
    find(graphs, "cuGraphDestroy", &graphs->drop);
    find(graphs, "cuGraphExecDestroy", &graphs->drop_exec);
    find(graphs, "cuCtxPushCurrent_v2", &graphs->push);
    find(graphs, "cuCtxPopCurrent_v2", &graphs->pop);
    find(graphs, "cuDevicePrimaryCtxRetain", &graphs->retain);
    find(graphs, "cuDevicePrimaryCtxRelease_v2", &graphs->release);
}

#endif
