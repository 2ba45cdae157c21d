/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel, by its name. */
#include "fake.h"

#include <string.h>

static const size_t argument_bytes = 0;

cu_result cuModuleLoadData(cu_handle *module, const void *image)
{
    static int loaded;
    (void)fake_current("cuModuleLoadData");
    fake_not_captured("cuModuleLoadData");
    if (!image)
        return CU_INVALID_VALUE;
    *module = &loaded;
    return CU_SUCCESS;
}

cu_result cuModuleUnload(cu_handle module)
{
    (void)fake_current("cuModuleUnload");
    return module ? CU_SUCCESS : CU_INVALID_VALUE;
}

cu_result cuModuleGetFunction(cu_handle *function, cu_handle module, const char *name)
{
    if (!module || strcmp(name, "peal_dev_kernel") != 0)
        return CU_NOT_FOUND;
    *function = (void *)(uintptr_t)&argument_bytes;
    return CU_SUCCESS;
}

cu_result cuFuncSetAttribute(cu_handle function, int attribute, int value)
{
    return function && attribute == CU_FUNC_DYNAMIC_SHARED && value <= 227 * 1024
               ? CU_SUCCESS
               : CU_INVALID_VALUE;
}

cu_result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, cu_handle function, int threads,
                                                      size_t shared)
{
    (void)shared;
    *blocks = 2048 / threads;
    return function ? CU_SUCCESS : CU_INVALID_VALUE;
}

void fake_launch_kernel(const struct fake_op *op)
{
    (void)op;
}
