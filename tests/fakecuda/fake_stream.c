/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: threads that do what they are given, one after the other, and never look ahead. */
#include "fake.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STREAM_MAGIC 0x7374726du
#define EVENT_MAGIC 0x65766e74u
#define POLLS 200u

/* ---- operations */

static void nap(long ns)
{
    struct timespec pause = {0, ns};
    (void)nanosleep(&pause, NULL);
}

static int is_reached(const struct cu_mem_op *op, uint32_t value)
{
    return op->flags & CU_WAIT_EQ ? value == (uint32_t)op->value
                                  : (int32_t)(value - (uint32_t)op->value) >= 0;
}

static void wait_value(const struct cu_mem_op *op)
{
    const uint32_t *at = (const uint32_t *)(uintptr_t)op->address;
    for (unsigned i = 0; !is_reached(op, __atomic_load_n(at, __ATOMIC_ACQUIRE)); i++) {
        if (i < POLLS)
            (void)sched_yield();
        else
            nap(20000);
    }
}

static void do_mem_op(const struct cu_mem_op *op)
{
    if (op->operation == CU_OP_WAIT_32)
        wait_value(op);
    else if (op->operation == CU_OP_WRITE_32)
        __atomic_store_n((uint32_t *)(uintptr_t)op->address, (uint32_t)op->value, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint64_t *)(uintptr_t)op->address, op->value, __ATOMIC_RELEASE);
}

static void await_event(const struct fake_event *event, uint64_t generation)
{
    (void)pthread_mutex_lock(&fake_lock);
    while (event->done < generation)
        (void)pthread_cond_wait(&fake_moved, &fake_lock);
    (void)pthread_mutex_unlock(&fake_lock);
}

static void reach_event(struct fake_event *event, uint64_t generation)
{
    (void)pthread_mutex_lock(&fake_lock);
    if (event->done < generation)
        event->done = generation;
    (void)pthread_cond_broadcast(&fake_moved);
    (void)pthread_mutex_unlock(&fake_lock);
}

/* A few words that the host looks at while streams write them: it gets each as it is or was. All
 * else is data, which a copy may not read while it is written. */
#define WORDS_MAX 1024u

static void copy(cu_ptr to, cu_ptr from, size_t bytes)
{
    fake_check_range("a copy from", from, bytes);
    fake_check_range("a copy to", to, bytes);
    if ((to | from | bytes) % 4 || bytes > 4 * WORDS_MAX || !fake_is_pinned(to)) {
        memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
        return;
    }
    uint32_t *dst = (uint32_t *)(uintptr_t)to;
    const uint32_t *src = (const uint32_t *)(uintptr_t)from;
    for (size_t i = 0; i < bytes / 4; i++)
        dst[i] = __atomic_load_n(&src[i], __ATOMIC_RELAXED);
}

void fake_do(struct fake_op *op)
{
    switch (op->kind) {
    case FAKE_COPY:
        copy(op->to, op->from, op->bytes);
        break;
    case FAKE_COPIES: /* in no order */
        for (unsigned i = op->count; i-- > 0;)
            copy(op->ops[i].address, op->ops[i].alias, op->ops[i].value);
        break;
    case FAKE_SET:
        fake_check_range("a set", op->to, op->bytes);
        fake_set(op->to, op->value, op->bytes);
        break;
    case FAKE_MEM_OPS:
        for (unsigned i = 0; i < op->count; i++)
            do_mem_op(&op->ops[i]);
        break;
    case FAKE_LAUNCH:
        fake_launch_kernel(op);
        break;
    case FAKE_RECORD:
        reach_event(op->event, op->generation);
        break;
    case FAKE_WAIT:
        await_event(op->event, op->generation);
        break;
    case FAKE_GRAPH:
        fake_graph_run(op->graph);
    }
}

/* ---- the thread */

static struct fake_op *next_op(struct fake_stream *stream)
{
    (void)pthread_mutex_lock(&fake_lock);
    while (!stream->first && !stream->stop)
        (void)pthread_cond_wait(&fake_moved, &fake_lock);
    struct fake_op *op = stream->first;
    if (op)
        stream->first = op->next;
    (void)pthread_mutex_unlock(&fake_lock);
    return op;
}

/* Now and then a stream is late. */
static void dawdle(struct fake_stream *stream)
{
    if (!stream->random)
        return;
    stream->random = stream->random * 6364136223846793005u + 1442695040888963407u;
    if (stream->random >> 61 == 0)
        nap((long)(stream->random >> 40 & 0x3ffff));
}

static void *run(void *argument)
{
    struct fake_stream *stream = argument;
    struct fake_op *op;
    while ((op = next_op(stream)) != NULL) {
        dawdle(stream);
        fake_do(op);
        free(op);
        (void)pthread_mutex_lock(&fake_lock);
        stream->pending--;
        (void)pthread_cond_broadcast(&fake_moved);
        (void)pthread_mutex_unlock(&fake_lock);
    }
    return NULL;
}

struct fake_stream *fake_stream_new(struct fake_context *context)
{
    struct fake_stream *stream = calloc(1, sizeof *stream);
    uint64_t seed = fake_setting("FAKECUDA_DELAY", 0);
    if (!stream)
        return NULL;
    stream->magic = STREAM_MAGIC;
    stream->context = context;
    stream->random = seed ? seed + (uint64_t)(uintptr_t)stream : 0;
    if (pthread_create(&stream->thread, NULL, run, stream) != 0)
        fake_misuse("no thread for a stream");
    return stream;
}

/* ---- handles */

static struct fake_stream *stream_of(const char *function, cu_handle handle)
{
    struct fake_context *context = fake_current(function);
    struct fake_stream *stream = handle;
    if (!stream) {
        (void)pthread_mutex_lock(&fake_lock);
        if (!context->legacy)
            context->legacy = fake_stream_new(context);
        stream = context->legacy;
        (void)pthread_mutex_unlock(&fake_lock);
    }
    if (stream->magic != STREAM_MAGIC)
        fake_misuse("%s of no stream, or of one that is destroyed", function);
    if (stream->context != context)
        fake_misuse("%s: the stream is of device %d, the context of device %d", function,
                    stream->context->device, context->device);
    return stream;
}

static struct fake_event *event_of(const char *function, cu_handle handle)
{
    struct fake_event *event = handle;
    if (!event || event->magic != EVENT_MAGIC)
        fake_misuse("%s of no event, or of one that is destroyed", function);
    return event;
}

/* With the lock held. */
static void put(struct fake_stream *stream, const struct fake_op *op)
{
    struct fake_op *copy = malloc(sizeof *copy);
    if (!copy)
        fake_misuse("out of memory");
    *copy = *op;
    copy->next = NULL;
    if (stream->first)
        stream->last->next = copy;
    else
        stream->first = copy;
    stream->last = copy;
    stream->pending++;
    (void)pthread_cond_broadcast(&fake_moved);
}

static cu_result give(const char *function, cu_handle handle, const struct fake_op *op)
{
    struct fake_stream *stream = stream_of(function, handle);
    (void)pthread_mutex_lock(&fake_lock);
    if (!fake_captured(stream, op))
        put(stream, op);
    (void)pthread_mutex_unlock(&fake_lock);
    return CU_SUCCESS;
}

cu_result fake_give(cu_handle stream, const struct fake_op *op)
{
    return give("cuGraphLaunch", stream, op);
}

/* ---- the driver's functions */

cu_result cuMemcpyAsync(cu_ptr to, cu_ptr from, size_t bytes, cu_handle stream)
{
    FAKE_CALL();
    struct fake_op op = {.kind = FAKE_COPY, .to = to, .from = from, .bytes = bytes};
    const struct fake_context *context = fake_current("cuMemcpyAsync");
    fake_check_range("a copy from", from, bytes);
    fake_check_range("a copy to", to, bytes);
    fake_check_copied("a copy from", from, context);
    fake_check_copied("a copy to", to, context);
    return give("cuMemcpyAsync", stream, &op);
}

cu_result cuMemcpyPeerAsync(cu_ptr to, cu_handle there, cu_ptr from, cu_handle here, size_t bytes,
                            cu_handle stream)
{
    FAKE_CALL();
    struct fake_op op = {.kind = FAKE_COPY, .to = to, .from = from, .bytes = bytes};
    fake_check_range("a copy from", from, bytes);
    fake_check_range("a copy to", to, bytes);
    fake_check_copied("a copy from", from, here);
    fake_check_copied("a copy to", to, there);
    return give("cuMemcpyPeerAsync", stream, &op);
}

/* One that another of the batch reads or writes would have to come before or behind it. */
static void check_apart(const struct fake_op *op, unsigned i)
{
    const struct cu_mem_op *one = &op->ops[i];
    for (unsigned j = 0; j < op->count; j++) {
        const struct cu_mem_op *other = &op->ops[j];
        if (j != i && ((one->address < other->address + other->value &&
                        other->address < one->address + one->value) ||
                       (one->address < other->alias + other->value &&
                        other->alias < one->address + one->value)))
            fake_misuse("copies of a batch that depend on each other");
    }
}

cu_result cuMemcpyBatchAsync_v2(cu_ptr *to, cu_ptr *from, size_t *bytes, size_t count,
                                struct cu_copy_attributes *attributes, size_t *first, size_t kinds,
                                cu_handle stream)
{
    FAKE_CALL();
    struct fake_op op = {.kind = FAKE_COPIES, .count = (unsigned)count};
    int capturing = 0;
    if (!stream || kinds != 1 || first[0] != 0 || count == 0 || count > CU_OPS_MAX ||
        attributes->source_order != CU_SOURCE_IN_STREAM_ORDER || attributes->flags)
        return CU_INVALID_VALUE;
    if (cuStreamIsCapturing(stream, &capturing) == CU_SUCCESS && capturing)
        fake_misuse("a batch of copies into a capture");
    for (unsigned i = 0; i < op.count; i++) {
        fake_check_range("a copy from", from[i], bytes[i]);
        fake_check_range("a copy to", to[i], bytes[i]);
        fake_check_copied("a copy from", from[i], fake_current("cuMemcpyBatchAsync"));
        fake_check_copied("a copy to", to[i], fake_current("cuMemcpyBatchAsync"));
        op.ops[i].address = to[i];
        op.ops[i].alias = from[i];
        op.ops[i].value = bytes[i];
    }
    for (unsigned i = 0; i < op.count; i++)
        check_apart(&op, i);
    return give("cuMemcpyBatchAsync", stream, &op);
}

cu_result cuMemcpyBatchAsync(cu_ptr *to, cu_ptr *from, size_t *bytes, size_t count,
                             struct cu_copy_attributes *attributes, size_t *first, size_t kinds,
                             size_t *wrong, cu_handle stream)
{
    *wrong = SIZE_MAX;
    return cuMemcpyBatchAsync_v2(to, from, bytes, count, attributes, first, kinds, stream);
}

cu_result cuMemsetD8Async(cu_ptr to, unsigned char value, size_t bytes, cu_handle stream)
{
    FAKE_CALL();
    struct fake_op op = {.kind = FAKE_SET, .to = to, .value = value, .bytes = bytes};
    fake_check_range("a set", to, bytes);
    return give("cuMemsetD8Async", stream, &op);
}

cu_result cuStreamBatchMemOp_v2(cu_handle stream, unsigned count, struct cu_mem_op *ops,
                                unsigned flags)
{
    FAKE_CALL();
    struct fake_op op = {.kind = FAKE_MEM_OPS, .count = count};
    if (!fake_setting("FAKECUDA_MEM_OPS", 1))
        return CU_NOT_SUPPORTED;
    if (count == 0 || count >= 256 || flags)
        return CU_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        size_t bytes =
            ops[i].operation == CU_OP_WAIT_32 || ops[i].operation == CU_OP_WRITE_32 ? 4 : 8;
        unsigned flush = fake_setting("FAKECUDA_FLUSH", 0) ? CU_WAIT_FLUSH : 0;
        unsigned known = ops[i].operation == CU_OP_WAIT_32 ? CU_WAIT_EQ | flush : 0;
        if (ops[i].address % bytes || ops[i].flags & ~known)
            fake_misuse("a memory operation at %#llx, with flags %#x", ops[i].address,
                        ops[i].flags);
        fake_check_range("a memory operation", ops[i].address, bytes);
        fake_check_reach("a memory operation", ops[i].address, fake_current("cuStreamBatchMemOp"));
    }
    memcpy(op.ops, ops, count * sizeof *ops);
    return give("cuStreamBatchMemOp", stream, &op);
}

cu_result cuLaunchKernel(cu_handle function, unsigned x, unsigned y, unsigned z, unsigned threads,
                         unsigned threads_y, unsigned threads_z, unsigned shared, cu_handle stream,
                         void **arguments, void **extra)
{
    FAKE_CALL();
    struct fake_op op = {.kind = FAKE_LAUNCH, .blocks = x, .threads = threads, .shared = shared};
    const size_t *bytes = function;
    if (!function || y != 1 || z != 1 || threads_y != 1 || threads_z != 1 || threads % 32 ||
        threads == 0 || threads > 1024 || x == 0 || extra || *bytes > sizeof op.argument)
        fake_misuse("a launch of %u x %u x %u blocks of %u threads", x, y, z, threads);
    fake_check_loaded(function);
    op.function = function;
    op.context = fake_current("cuLaunchKernel");
    memcpy(op.argument, arguments[0], *bytes);
    return give("cuLaunchKernel", stream, &op);
}

cu_result cuStreamCreate(cu_handle *stream, unsigned flags)
{
    FAKE_CALL();
    struct fake_context *context = fake_current("cuStreamCreate");
    (void)flags;
    *stream = fake_stream_new(context);
    fake_hold(FAKE_STREAMS, 1);
    return *stream ? CU_SUCCESS : CU_OUT_OF_MEMORY;
}

/* Ends when its work is done; nothing waits for that here. */
cu_result cuStreamDestroy_v2(cu_handle handle)
{
    struct fake_stream *stream = stream_of("cuStreamDestroy", handle);
    pthread_t thread = stream->thread;
    (void)pthread_mutex_lock(&fake_lock);
    if (stream->capture)
        fake_misuse("cuStreamDestroy of a stream that is captured");
    stream->stop = 1;
    (void)pthread_cond_broadcast(&fake_moved);
    (void)pthread_mutex_unlock(&fake_lock);
    (void)pthread_join(thread, NULL);
    stream->magic = 0;
    fake_hold(FAKE_STREAMS, -1);
    free(stream);
    return CU_SUCCESS;
}

static void not_capturing(const char *function, const struct fake_stream *stream)
{
    if (stream->capture)
        fake_misuse("%s of a stream that is captured", function);
    fake_not_captured(function);
}

cu_result cuStreamSynchronize(cu_handle handle)
{
    FAKE_CALL();
    struct fake_stream *stream = stream_of("cuStreamSynchronize", handle);
    not_capturing("cuStreamSynchronize", stream);
    (void)pthread_mutex_lock(&fake_lock);
    while (stream->pending)
        (void)pthread_cond_wait(&fake_moved, &fake_lock);
    (void)pthread_mutex_unlock(&fake_lock);
    return CU_SUCCESS;
}

cu_result cuStreamQuery(cu_handle handle)
{
    struct fake_stream *stream = stream_of("cuStreamQuery", handle);
    not_capturing("cuStreamQuery", stream);
    (void)pthread_mutex_lock(&fake_lock);
    uint32_t pending = stream->pending;
    (void)pthread_mutex_unlock(&fake_lock);
    return pending ? CU_NOT_READY : CU_SUCCESS;
}

cu_result cuStreamIsCapturing(cu_handle handle, int *status)
{
    FAKE_CALL();
    struct fake_stream *stream = stream_of("cuStreamIsCapturing", handle);
    *status = stream->capture ? 1 : CU_CAPTURE_NONE;
    return CU_SUCCESS;
}

/* ---- events */

cu_result cuEventCreate(cu_handle *handle, unsigned flags)
{
    FAKE_CALL();
    struct fake_event *event = calloc(1, sizeof *event);
    (void)flags;
    if (!event)
        return CU_OUT_OF_MEMORY;
    event->context = fake_current("cuEventCreate");
    event->magic = EVENT_MAGIC;
    fake_hold(FAKE_EVENTS, 1);
    *handle = event;
    return CU_SUCCESS;
}

cu_result cuEventDestroy_v2(cu_handle handle)
{
    struct fake_event *event = event_of("cuEventDestroy", handle);
    event->magic = 0;
    fake_hold(FAKE_EVENTS, -1);
    free(event);
    return CU_SUCCESS;
}

cu_result cuEventRecord(cu_handle handle, cu_handle to)
{
    FAKE_CALL();
    struct fake_event *event = event_of("cuEventRecord", handle);
    struct fake_stream *stream = stream_of("cuEventRecord", to);
    if (event->context != stream->context)
        fake_misuse("cuEventRecord of another device's event");
    (void)pthread_mutex_lock(&fake_lock);
    event->graph = NULL;
    if (stream->capture) {
        fake_capture_record(stream, event);
    } else {
        struct fake_op op = {.kind = FAKE_RECORD, .event = event, .generation = ++event->recorded};
        put(stream, &op);
    }
    (void)pthread_mutex_unlock(&fake_lock);
    return CU_SUCCESS;
}

cu_result cuStreamWaitEvent(cu_handle to, cu_handle handle, unsigned flags)
{
    FAKE_CALL();
    struct fake_event *event = event_of("cuStreamWaitEvent", handle);
    struct fake_stream *stream = stream_of("cuStreamWaitEvent", to);
    (void)pthread_mutex_lock(&fake_lock);
    if (!fake_capture_wait(stream, event) && event->recorded) {
        struct fake_op op = {.kind = FAKE_WAIT, .event = event, .generation = event->recorded};
        put(stream, &op);
    }
    (void)pthread_mutex_unlock(&fake_lock);
    return flags ? CU_INVALID_VALUE : CU_SUCCESS;
}
