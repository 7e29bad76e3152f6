/* SPDX-License-Identifier: Apache-2.0 */
#include "captured.h"

#include <errno.h>

static int need_nothing(void)
{
	return 0;
}

static int send_one(int fd, const struct msghdr *message)
{
	return sendmsg(fd, message, 0) < 0 ? -errno : 0;
}

const struct captured_method by_sendmsg = {"sendmsg", need_nothing, send_one};
