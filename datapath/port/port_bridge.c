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
 * Frames that wait in the queue of a slow receiver (with a bandwidth limit on its host end) are charged to
 * the socket that sent them. Its buffer must hold more than the queues of many such receivers, or a slow one
 * would block frames to all others. Several sockets would work as well, but the kernel takes long to close
 * each.
 */
enum { SEND_BUFFER_BYTES = 256 << 20 };

enum { BUCKETS = 256 };

struct port_bridge {
	struct ktsn_port port;
	struct ktsn_port *buffers;
	int fd;
	struct ktsn_deliveries *deliveries;
	/* Loop thread only. */
	struct ktsn_port_receiver *others; /* for links that have no receiver of their own */
	struct ktsn_port_receiver *buckets[BUCKETS];
};

static struct port_bridge *bridge_of(struct ktsn_port *port)
{
	return (struct port_bridge *)port;
}

static int frame_alloc(struct ktsn_port *port, struct ktsn_port_frame *frame)
{
	return ktsn_port_frame_alloc(bridge_of(port)->buffers, frame);
}

static void frame_free(struct ktsn_port *port, struct ktsn_port_frame *frame)
{
	ktsn_port_frame_free(bridge_of(port)->buffers, frame);
}

/* Runs in the receiver's thread. */
static int frame_send(void *context, uint32_t link_index, const uint8_t *frame, uint32_t bytes)
{
	const struct port_bridge *bridge = context;
	struct sockaddr_ll link = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_IP),
		.sll_ifindex = (int)link_index,
		.sll_halen = ETH_ALEN,
	};

	memcpy(link.sll_addr, frame, ETH_ALEN);
	return sendto(bridge->fd, frame, bytes, MSG_DONTWAIT, (const struct sockaddr *)&link, sizeof(link)) <
			       0
		       ? -errno
		       : 0;
}

/* ---- receivers ---- */

static struct ktsn_port_receiver **bucket(struct port_bridge *bridge, uint32_t link_index)
{
	return &bridge->buckets[link_index % BUCKETS];
}

static struct ktsn_port_receiver *receiver_of(struct port_bridge *bridge, uint32_t link_index)
{
	struct ktsn_port_receiver *receiver = *bucket(bridge, link_index);

	while (receiver && receiver->link_index != link_index)
		receiver = receiver->next;
	return receiver ? receiver : bridge->others;
}

static int receiver_begin(struct ktsn_port *port, uint32_t link_index, struct ktsn_port_receiver **receiver)
{
	return ktsn_delivery_begin(bridge_of(port)->deliveries, link_index, receiver);
}

static void receiver_end(struct ktsn_port *port, struct ktsn_port_receiver *receiver)
{
	(void)port;
	ktsn_delivery_end(receiver);
}

static void receiver_use(struct ktsn_port *port, struct ktsn_port_receiver *receiver)
{
	struct ktsn_port_receiver **first = bucket(bridge_of(port), receiver->link_index);

	receiver->next = *first;
	*first = receiver;
}

static void receiver_leave(struct ktsn_port *port, struct ktsn_port_receiver *receiver)
{
	struct ktsn_port_receiver **at = bucket(bridge_of(port), receiver->link_index);

	while (*at != receiver)
		at = &(*at)->next;
	*at = receiver->next;
}

static void receiver_expect(struct ktsn_port *port, uint32_t link_index)
{
	ktsn_delivery_expect(receiver_of(bridge_of(port), link_index));
}

static void receivers_hold(struct ktsn_port *port, int64_t timeout_ns)
{
	if (timeout_ns < 0)
		ktsn_deliveries_resume(bridge_of(port)->deliveries);
	else
		(void)ktsn_deliveries_hold(bridge_of(port)->deliveries, timeout_ns);
}

static struct ktsn_port_delivery_counts delivery_counts(struct ktsn_port *port)
{
	return ktsn_deliveries_counts(bridge_of(port)->deliveries);
}

/* ---- the port ---- */

/* If a frame fails because the queue of its receiver is full, it is the last taken frame, so that the caller
 * knows which failed. No frame is refused, because that would delay later frames for other receivers. */
static uint32_t frames_send(struct ktsn_port *port, struct ktsn_port_frame *frames, uint32_t count,
			    uint32_t *errors)
{
	*errors = 0;
	for (uint32_t i = 0; i < count; i++) {
		int err =
			ktsn_delivery_put(receiver_of(bridge_of(port), frames[i].receiver_index), &frames[i]);

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
	/* A receiver's thread is still in a send and uses the port. The process ends now anyway. */
	if (!ktsn_deliveries_destroy(bridge_of(port)->deliveries))
		return;
	close(bridge_of(port)->fd);
	free(port);
}

static const struct ktsn_port_ops ops = {
	.frame_alloc = frame_alloc,
	.frame_free = frame_free,
	.send = frames_send,
	.receiver_begin = receiver_begin,
	.receiver_end = receiver_end,
	.receiver_use = receiver_use,
	.receiver_leave = receiver_leave,
	.receiver_expect = receiver_expect,
	.receivers_hold = receivers_hold,
	.delivery_counts = delivery_counts,
	.destroy = destroy,
};

/* With protocol 0 the socket receives nothing. */
static int socket_open(int *fd)
{
	int bypass = 1, bytes = SEND_BUFFER_BYTES;

	*fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (*fd < 0)
		return -errno;
	(void)setsockopt(*fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
	return setsockopt(*fd, SOL_PACKET, PACKET_QDISC_BYPASS, &bypass, sizeof(bypass)) ? -errno : 0;
}

static int deliveries_create(struct port_bridge *bridge, const struct ktsn_delivery_config *config)
{
	struct ktsn_delivery_config complete = *config;
	int err;

	complete.send = frame_send;
	complete.context = bridge;
	err = ktsn_deliveries_create(&bridge->deliveries, &complete);
	return err ? err : ktsn_delivery_begin(bridge->deliveries, 0, &bridge->others);
}

int ktsn_port_bridge_create(struct ktsn_port **port, struct ktsn_port *buffers,
			    const struct ktsn_delivery_config *config)
{
	struct port_bridge *bridge = calloc(1, sizeof(*bridge));
	int err;

	if (!bridge)
		return -ENOMEM;
	bridge->port.ops = &ops;
	bridge->buffers = buffers;
	err = socket_open(&bridge->fd);
	if (!err)
		err = deliveries_create(bridge, config);
	if (err) {
		(void)ktsn_deliveries_destroy(bridge->deliveries);
		if (bridge->fd >= 0)
			close(bridge->fd);
		free(bridge);
		return err;
	}
	*port = &bridge->port;
	return 0;
}
