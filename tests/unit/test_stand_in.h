/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stand-in's library can be told and asked, beside what it has as a driver: see
 * ../fakecuda/fake.h.
 */
#ifndef PEAL_TEST_STAND_IN_H
#define PEAL_TEST_STAND_IN_H

#include "test_cuda.h"

#include <dlfcn.h>
#include <string.h>

struct stand_in {
    void *library;
    void (*fail_at)(uint32_t nth);
    void (*do_at)(uint32_t nth, void (*what)(void));
    const char *(*failed)(void);
    void (*held)(uint32_t *counts);
};

static inline void stand_in_find(const struct stand_in *self, const char *name, void *to)
{
    void *symbol = dlsym(self->library, name);
    ck_assert_msg(symbol != NULL, "%s", name);
    memcpy(to, &symbol, sizeof symbol);
}

/* Stays open until the process ends, as a driver's library does. */
static inline void stand_in_open(struct stand_in *self)
{
    self->library = dlopen(fake_path(), RTLD_NOW);
    ck_assert_ptr_nonnull(self->library);
    stand_in_find(self, "peal_stand_in_fail", &self->fail_at);
    stand_in_find(self, "peal_stand_in_at", &self->do_at);
    stand_in_find(self, "peal_stand_in_failed", &self->failed);
    stand_in_find(self, "peal_stand_in_held", &self->held);
}

#endif
