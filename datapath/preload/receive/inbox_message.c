/* SPDX-License-Identifier: Apache-2.0 */
#include "inbox_message.h"

#include "inbox_abi.h"
#include "inbox_options.h"
#include "socket_options.h"

#include <string.h>

enum { MAPPED_AT = 12 };

size_t inbox_payload_copy(const struct msghdr *message, const uint8_t *payload, size_t bytes)
{
	size_t copied = 0;

	for (size_t i = 0; i < (uint32_t)message->msg_iovlen && copied < bytes; i++) {
		size_t piece = message->msg_iov[i].iov_len;

		if (piece > bytes - copied)
			piece = bytes - copied;
		if (piece)
			memcpy(message->msg_iov[i].iov_base, payload + copied, piece);
		copied += piece;
	}
	return copied;
}

/* The room for control messages that is left, and what is used of it. */
struct control {
	struct msghdr *message;
	uint8_t *to;
	size_t room;
};

/* Writes a control message as put_cmsg() of the kernel. */
static void control_put(struct control *control, int level, int type, const void *data, size_t data_bytes)
{
	struct cmsghdr header = {.cmsg_level = level, .cmsg_type = type};
	size_t bytes = CMSG_LEN(data_bytes), used = CMSG_SPACE(data_bytes);

	if (!control->to || control->room < sizeof(header)) {
		control->message->msg_flags |= MSG_CTRUNC;
		return;
	}
	if (control->room < bytes) {
		control->message->msg_flags |= MSG_CTRUNC;
		bytes = control->room;
	}
	header.cmsg_len = bytes;
	memcpy(control->to, &header, sizeof(header));
	memcpy(control->to + CMSG_LEN(0), data, bytes - CMSG_LEN(0));
	if (used > control->room)
		used = control->room;
	control->to += used;
	control->room -= used;
}

/* Both with 64 bits, which is what both have on processors of 64 bits. */
static void stamp_put(struct control *control, const struct inbox_message *datagram)
{
	const bool ns = datagram->wants & INBOX_WANTS_TIMESTAMPNS;
	const bool new = datagram->wants &INBOX_WANTS_TIMESTAMP_NEW;
	int64_t stamp[2] = {datagram->stamp.tv_sec, datagram->stamp.tv_nsec};

	if (!(datagram->wants & INBOX_WANTS_ANY_TIMESTAMP))
		return;
	if (!ns)
		stamp[1] /= 1000;
	control_put(control, SOL_SOCKET,
		    ns ? (new ? ABI_SO_TIMESTAMPNS_NEW : ABI_SO_TIMESTAMPNS_OLD)
		       : (new ? ABI_SO_TIMESTAMP_NEW : ABI_SO_TIMESTAMP_OLD),
		    stamp, sizeof(stamp));
}

/* ip_cmsg_recv_offset() */
static void control4_put(struct control *control, const struct inbox_message *datagram)
{
	const struct ktsn_receive_header *header = datagram->header;

	if (datagram->wants & INBOX_WANTS_PKTINFO) {
		struct in_pktinfo info = {.ipi_ifindex = (int)header->interface};

		memcpy(&info.ipi_addr, header->destination, sizeof(info.ipi_addr));
		info.ipi_spec_dst = info.ipi_addr;
		control_put(control, IPPROTO_IP, ABI_IP_PKTINFO, &info, sizeof(info));
	}
	if (datagram->wants & INBOX_WANTS_TTL) {
		int ttl = header->ttl;

		control_put(control, IPPROTO_IP, ABI_IP_TTL, &ttl, sizeof(ttl));
	}
	if (datagram->wants & INBOX_WANTS_TOS)
		control_put(control, IPPROTO_IP, ABI_IP_TOS, &header->tos, sizeof(header->tos));
}

static struct in6_addr address6(const struct ktsn_receive_header *header, const uint8_t bytes[16])
{
	struct in6_addr address = {0};

	if (header->family == AF_INET6) {
		memcpy(&address, bytes, sizeof(address));
		return address;
	}
	memset(address.s6_addr + MAPPED_AT - 2, 0xff, 2);
	memcpy(address.s6_addr + MAPPED_AT, bytes, sizeof(struct in_addr));
	return address;
}

/* ip6_datagram_recv_common_ctl() */
static void control_common6_put(struct control *control, const struct inbox_message *datagram)
{
	struct in6_pktinfo info = {.ipi6_ifindex = datagram->header->interface};

	if (!(datagram->wants & INBOX_WANTS_PKTINFO6))
		return;
	info.ipi6_addr = address6(datagram->header, datagram->header->destination);
	control_put(control, IPPROTO_IPV6, ABI_IPV6_PKTINFO, &info, sizeof(info));
}

/* ip6_datagram_recv_specific_ctl() */
static void control6_put(struct control *control, const struct inbox_message *datagram)
{
	int hops = datagram->header->ttl, class = datagram->header->tos;

	if (datagram->wants & INBOX_WANTS_HOPLIMIT6)
		control_put(control, IPPROTO_IPV6, ABI_IPV6_HOPLIMIT, &hops, sizeof(hops));
	if (datagram->wants & INBOX_WANTS_TCLASS6)
		control_put(control, IPPROTO_IPV6, ABI_IPV6_TCLASS, &class, sizeof(class));
}

/* Lengths are read and written in the low 32 bits, where musl and glibc both have them. */
static void controls_put(const struct inbox_message *datagram, struct msghdr *message)
{
	struct control control = {message, message->msg_control, (uint32_t)message->msg_controllen};
	const size_t room = control.room;

	stamp_put(&control, datagram);
	if (datagram->wants & INBOX_WANTS_DROPS && datagram->dropped)
		control_put(&control, SOL_SOCKET, ABI_SO_RXQ_OVFL, &datagram->dropped,
			    sizeof(datagram->dropped));
	if (datagram->family == AF_INET6)
		control_common6_put(&control, datagram);
	if (datagram->header->family == AF_INET6)
		control6_put(&control, datagram);
	else
		control4_put(&control, datagram);
	message->msg_controllen = room - control.room;
}

static void name_put(const struct inbox_message *datagram, struct msghdr *message)
{
	const struct ktsn_receive_header *header = datagram->header;
	struct sockaddr_in name4 = {.sin_family = AF_INET, .sin_port = header->source_port_be};
	struct sockaddr_in6 name6 = {.sin6_family = AF_INET6, .sin6_port = header->source_port_be};
	const void *name = datagram->family == AF_INET6 ? (const void *)&name6 : (const void *)&name4;
	socklen_t bytes = datagram->family == AF_INET6 ? sizeof(name6) : sizeof(name4);

	if (!message->msg_name)
		return;
	memcpy(&name4.sin_addr, header->source, sizeof(name4.sin_addr));
	name6.sin6_addr = address6(header, header->source);
	if (header->family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&name6.sin6_addr))
		name6.sin6_scope_id = header->interface;
	memcpy(message->msg_name, name, message->msg_namelen < bytes ? message->msg_namelen : bytes);
	message->msg_namelen = bytes;
}

size_t inbox_message_fill(const struct inbox_message *datagram, size_t copied, struct msghdr *message,
			  int flags)
{
	const size_t bytes = datagram->header->payload_bytes;

	message->msg_flags = flags & (int)MSG_CMSG_CLOEXEC;
	if (copied < bytes)
		message->msg_flags |= MSG_TRUNC;
	name_put(datagram, message);
	controls_put(datagram, message);
	return flags & MSG_TRUNC ? bytes : copied;
}
