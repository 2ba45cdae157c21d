/* SPDX-License-Identifier: Apache-2.0 */
/* The entry point that libFuzzer and support/replay.c call. */
#ifndef PEAL_TESTS_FUZZ_H
#define PEAL_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#endif
