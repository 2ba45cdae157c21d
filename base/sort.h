/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting in place, for what may take no memory but the context's: the C library's may. */
#ifndef PEAL_BASE_SORT_H
#define PEAL_BASE_SORT_H

#include <stddef.h>

/* Whether *a comes before *b: 0 for equals. `with` is what peal_sort was given. */
typedef int (*peal_before_fn)(const void *a, const void *b, const void *with);

/* A heap sort of `count` elements of `bytes` each. It is not stable: where the order of equals
 * shows, `before` has to tell them apart. */
void peal_sort(void *at, size_t count, size_t bytes, peal_before_fn before, const void *with);

#endif
