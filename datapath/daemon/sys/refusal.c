/* SPDX-License-Identifier: Apache-2.0 */
#include "refusal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

int refuse(struct refusal *refusal, const char *field, const char *format, ...)
{
	va_list arguments;

	snprintf(refusal->field, sizeof(refusal->field), "%s", field);
	va_start(arguments, format);
	vsnprintf(refusal->message, sizeof(refusal->message), format, arguments);
	va_end(arguments);
	return -EINVAL;
}
