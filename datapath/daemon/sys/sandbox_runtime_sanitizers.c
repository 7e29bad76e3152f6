/* SPDX-License-Identifier: Apache-2.0 */
/* For tests only: the filter is far wider with it. */
#include "sandbox_runtime.h"

#include <stddef.h>

const char *const sandbox_runtime[] = {
	/* each thread, when it begins and ends */
	"sigaltstack",
	/* a report: its file, and where in the source it was */
	"open",
	"stat",
	"lstat",
	"pipe",
	"pipe2",
	"kill",
	"getcwd",
	"access",
	/* the search for leaks, when ktsnd ends: a process that has the same memory looks at all threads */
	"clone",
	"prctl",
	"getdents",
	"ptrace",
	"wait4",
	"getppid",
	NULL,
};
