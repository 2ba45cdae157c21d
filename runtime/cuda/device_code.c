/* SPDX-License-Identifier: Apache-2.0 */
#include "device_code.h"

const void *peal_dev_code(size_t *bytes)
{
    *bytes = 0;
    return NULL;
}
