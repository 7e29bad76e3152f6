/* SPDX-License-Identifier: Apache-2.0 */
#include "port_bridge.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * Frames that wait in the queue of a slow receiver (a limit of bandwidth on its host end) are charged to the
 * socket that sent them. It must hold more than the queues of many such receivers, or one that is slow would
 * keep frames from all others. Several sockets would do as well, but the kernel takes long to close each.
 */
enum { SEND_BUFFER_BYTES = 256 << 20 };

struct port_bridge {
	struct ktsn_port port;
	struct ktsn_port *buffers;
	int fd;
};

static struct port_bridge *of(struct ktsn_port *port)
{
	return (struct port_bridge *)port;
}

static int frame_alloc(struct ktsn_port *port, struct ktsn_port_frame *frame)
{
	return ktsn_port_frame_alloc(of(port)->buffers, frame);
}

static void frame_free(struct ktsn_port *port, struct ktsn_port_frame *frame)
{
	ktsn_port_frame_free(of(port)->buffers, frame);
}

static int frame_send(const struct port_bridge *bridge, const struct ktsn_port_frame *frame)
{
	struct sockaddr_ll link = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_IP),
		.sll_ifindex = (int)frame->link_index,
		.sll_halen = ETH_ALEN,
	};

	memcpy(link.sll_addr, frame->data, ETH_ALEN);
	return sendto(bridge->fd, frame->data, frame->bytes, MSG_DONTWAIT, (const struct sockaddr *)&link,
		      sizeof(link)) < 0
		       ? -errno
		       : 0;
}

/* A frame that failed, be it that its receiver is slow, is the last of those taken, so that the caller knows
 * which it was. None is refused: that would hold up what follows for other receivers. */
static uint32_t frames_send(struct ktsn_port *port, struct ktsn_port_frame *frames, uint32_t count,
			    uint32_t *errors)
{
	*errors = 0;
	for (uint32_t i = 0; i < count; i++) {
		int err = frame_send(of(port), &frames[i]);

		frame_free(port, &frames[i]);
		if (err) {
			*errors = 1;
			return i + 1;
		}
	}
	return count;
}

static void destroy(struct ktsn_port *port)
{
	close(of(port)->fd);
	free(port);
}

static const struct ktsn_port_ops ops = {
	.frame_alloc = frame_alloc,
	.frame_free = frame_free,
	.send = frames_send,
	.destroy = destroy,
};

/* Protocol 0: it receives nothing. */
static int socket_open(int *fd)
{
	int bypass = 1, bytes = SEND_BUFFER_BYTES;

	*fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (*fd < 0)
		return -errno;
	(void)setsockopt(*fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
	return setsockopt(*fd, SOL_PACKET, PACKET_QDISC_BYPASS, &bypass, sizeof(bypass)) ? -errno : 0;
}

int ktsn_port_bridge_create(struct ktsn_port **port, struct ktsn_port *buffers)
{
	struct port_bridge *bridge = calloc(1, sizeof(*bridge));
	int err;

	if (!bridge)
		return -ENOMEM;
	bridge->port.ops = &ops;
	bridge->buffers = buffers;
	err = socket_open(&bridge->fd);
	if (err) {
		if (bridge->fd >= 0)
			close(bridge->fd);
		free(bridge);
		return err;
	}
	*port = &bridge->port;
	return 0;
}
