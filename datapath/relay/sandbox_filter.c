/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox.h"

#include <errno.h>
#include <seccomp.h>
#include <stddef.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

static int allowed_add(scmp_filter_ctx filter, const char *const *allowed, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int number = seccomp_syscall_resolve_name(allowed[i]);
		int err = number == __NR_SCMP_ERROR ? 0 : seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0);

		/* Not every architecture has every call. */
		if (err && err != -EDOM)
			return err;
	}
	return 0;
}

/* Sockets of this machine only, and memory that is not executed. */
static int arguments_add(scmp_filter_ctx filter)
{
	const struct scmp_arg_cmp family = {.arg = 0, .op = SCMP_CMP_EQ, .datum_a = AF_UNIX};
	const struct scmp_arg_cmp protection = {
		.arg = 2, .op = SCMP_CMP_EQ, .datum_a = PROT_READ | PROT_WRITE};
	int err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1, family);

	return err ? err : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, protection);
}

int sandbox_filter_load(const char *const *allowed, size_t count)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int err;

	if (!filter)
		return -ENOMEM;
	err = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	if (!err && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)))
		err = -errno;
	if (!err)
		err = allowed_add(filter, allowed, count);
	if (!err)
		err = arguments_add(filter);
	if (!err)
		err = seccomp_load(filter);
	seccomp_release(filter);
	return err;
}

int sandbox_capabilities_drop(void)
{
	cap_t none = cap_init();
	int err = !none || cap_set_proc(none) ? -errno : 0;

	cap_free(none);
	return err;
}
