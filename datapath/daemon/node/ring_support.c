/* SPDX-License-Identifier: Apache-2.0 */
#include "ring_support.h"

#include "log.h"
#include "ring_map.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

const char *ring_support_advice(int err)
{
	switch (err) {
	case -EPERM:
	case -EACCES:
		return "bpf() is not permitted; it needs CAP_SYS_ADMIN of the node and a "
		       "seccomp or "
		       "security profile that lets BPF maps be made";
	case -ENOSYS:
	case -EINVAL:
		return "the kernel has no BPF maps that can be mapped; it needs Linux 5.5 or later with "
		       "CONFIG_BPF_SYSCALL";
	case -ENOMEM:
		return "no memory; raise the memory limit of ktsnd's container or control group, or lower "
		       "--ring-memory so that it fits in";
	default:
		return strerror(-err);
	}
}

int ring_support_check(void)
{
	int fd = ktsn_ring_map_create(ktsn_ring_map_round(1));

	if (fd < 0) {
		log_error("cannot make the memory of rings: %s", ring_support_advice(fd));
		return fd;
	}
	close(fd);
	return 0;
}
