/* SPDX-License-Identifier: Apache-2.0 */
#include "warm_up.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ETHERTYPE_LOCAL_EXPERIMENTAL = 0x88b5, FRAME_BYTES = 128 };

struct warm_up {
	int fd;
	unsigned char frame[FRAME_BYTES];
};

static int sink_attach(int fd, const struct sockaddr_ll *loopback)
{
	struct sock_filter drop_all = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog program = {.len = 1, .filter = &drop_all};
	int bypass = 1;

	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) ||
	    setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &bypass, sizeof(bypass)) ||
	    bind(fd, (const struct sockaddr *)loopback, sizeof(*loopback)))
		return -errno;
	return 0;
}

int warm_up_create(struct warm_up **created)
{
	struct sockaddr_ll loopback = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETHERTYPE_LOCAL_EXPERIMENTAL),
		.sll_ifindex = (int)if_nametoindex("lo"),
	};
	struct warm_up *warm_up = calloc(1, sizeof(*warm_up));
	struct ethhdr *header;
	int err;

	if (!warm_up)
		return -ENOMEM;
	header = (struct ethhdr *)warm_up->frame;
	header->h_proto = htons(ETHERTYPE_LOCAL_EXPERIMENTAL);
	warm_up->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	err = warm_up->fd < 0 ? -errno : sink_attach(warm_up->fd, &loopback);
	if (err) {
		warm_up_destroy(warm_up);
		return err;
	}
	*created = warm_up;
	return 0;
}

void warm_up_once(struct warm_up *warm_up)
{
	/* Loopback may be down: then this has no effect, which is harmless. */
	(void)send(warm_up->fd, warm_up->frame, sizeof(warm_up->frame), MSG_DONTWAIT);
}

void warm_up_destroy(struct warm_up *warm_up)
{
	if (!warm_up)
		return;
	if (warm_up->fd >= 0)
		close(warm_up->fd);
	free(warm_up);
}
