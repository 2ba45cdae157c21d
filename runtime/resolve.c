/* SPDX-License-Identifier: Apache-2.0 */
/* A question to the system's resolver, which knows of no deadline and cannot be called off: a
 * thread of its own asks, and is left alone with it when nobody waits any more. So what the
 * question is in is not the context's memory, which may be gone by the time of an answer, but a
 * mapping, that the last of the two gives back. */
#include "clock.h"
#include "sock.h"

#include <netdb.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define NAP_US 200u

enum { ASKED, ANSWERED, FORSAKEN };

struct question {
    _Atomic uint32_t state;
    int failed;
    struct addrinfo *found;
    char name[SOCK_NAME];
};

static void drop(struct question *question)
{
    (void)munmap(question, sizeof *question);
}

/* 0: the other one has been faster. */
static int change(struct question *question, uint32_t to)
{
    uint32_t asked = ASKED;
    return atomic_compare_exchange_strong_explicit(&question->state, &asked, to,
                                                   memory_order_acq_rel, memory_order_acquire);
}

static void *ask(void *argument)
{
    struct question *question = argument;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    question->failed = getaddrinfo(question->name, NULL, &hints, &question->found);
    if (change(question, ANSWERED))
        return NULL;
    if (!question->failed)
        freeaddrinfo(question->found);
    drop(question);
    return NULL;
}

static int begin(struct question *question)
{
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) != 0)
        return 0;
    int made = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0 &&
               pthread_create(&thread, &attributes, ask, question) == 0;
    (void)pthread_attr_destroy(&attributes);
    return made;
}

static peal_status await(struct question *question, struct sock_wait wait)
{
    while (atomic_load_explicit(&question->state, memory_order_acquire) == ASKED) {
        int off = wait.cancel && atomic_load_explicit(wait.cancel, memory_order_acquire);
        if ((off || rt_now_ns() > wait.deadline) && change(question, FORSAKEN))
            return off ? PEAL_ERR_ABORTED : PEAL_ERR_TIMEOUT;
        rt_sleep_us(NAP_US);
    }
    return PEAL_OK;
}

peal_status sock_ask(const char *name, struct sock_wait wait, struct addrinfo **found, int *failed)
{
    void *memory = mmap(NULL, sizeof(struct question), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return PEAL_ERR_MEMORY;
    struct question *question = memory;
    peal_copy_text(question->name, sizeof question->name, name);
    if (!begin(question)) {
        drop(question);
        return PEAL_ERR_MEMORY;
    }
    PEAL_TRY(await(question, wait));
    *found = question->found;
    *failed = question->failed;
    drop(question);
    return PEAL_OK;
}
