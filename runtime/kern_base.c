/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels that every processor of the target runs. */
#define KERN_NAME "base"
#define KERN_SET kern_set_base
#include "kern_set.h"
