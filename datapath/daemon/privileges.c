/* SPDX-License-Identifier: Apache-2.0 */
#include "privileges.h"

#include "log.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
	int capability;
	const char *name;
	const char *why;
} needed[] = {
	{CAP_NET_RAW, "CAP_NET_RAW", "to send on the interface"},
	{CAP_NET_ADMIN, "CAP_NET_ADMIN", "to have the kernel resolve neighbours"},
	{CAP_SYS_ADMIN, "CAP_SYS_ADMIN", "to look into the pods' network namespaces"},
};

static bool held(const struct __user_cap_data_struct data[2], int capability)
{
	return data[capability / 32].effective & (UINT32_C(1) << (capability % 32));
}

int privileges_check(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};

	if (syscall(SYS_capget, &header, data))
		return -errno;
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		if (held(data, needed[i].capability))
			continue;
		log_error("needs %s %s; run it as root or give it that capability", needed[i].name,
			  needed[i].why);
		return -EPERM;
	}
	return 0;
}
