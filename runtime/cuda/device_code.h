/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's code for all devices, as nvcc has made it; NULL where peal was built without. */
#ifndef PEAL_RUNTIME_CUDA_DEVICE_CODE_H
#define PEAL_RUNTIME_CUDA_DEVICE_CODE_H

#include <stddef.h>

const void *peal_dev_code(size_t *bytes);

#endif
