/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox_runtime.h"

#include <stddef.h>

const char *const sandbox_runtime[] = {NULL};
