/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

#include "address.h"
#include "socket_options.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/if_packet.h>
#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <string.h>

enum {
	IP_PROTOCOL_TYPE = 52, /* IP_PROTOCOL of linux/in.h, since Linux 6.5 */
	PRIORITY_MAX = 15,     /* whether more than 6 is granted, ktsnd knows */
};

/* Returns an int within bounds, or -EINVAL. */
static int number_read(const struct control *control, int min, int max, int *number)
{
	if (control->bytes != CMSG_LEN(sizeof(*number)))
		return -EINVAL;
	memcpy(number, control->data, sizeof(*number));
	return *number < min || *number > max ? -EINVAL : 0;
}

static int source_take(struct ktsn_app_key *key, const void *address, size_t bytes, int interface)
{
	if (interface < 0)
		return -EINVAL;
	if (interface && key->interface && key->interface != (uint32_t)interface)
		return -EINVAL;
	if (interface)
		key->interface = (uint32_t)interface;
	memset(key->source, 0, sizeof(key->source));
	memcpy(key->source, address, bytes);
	return 0;
}

/* `ipv4`: the message goes to IPv4 from an IPv6 socket; its source is IPv4-mapped. */
static int pktinfo_ipv6_read(const struct control *control, bool ipv4, struct ktsn_app_key *key)
{
	struct in6_pktinfo info;

	if (control->bytes < CMSG_LEN(sizeof(info)))
		return -EINVAL;
	memcpy(&info, control->data, sizeof(info));
	if (!ipv4)
		return source_take(key, &info.ipi6_addr, sizeof(info.ipi6_addr), (int)info.ipi6_ifindex);
	if (!IN6_IS_ADDR_V4MAPPED(&info.ipi6_addr))
		return -EINVAL;
	return source_take(key, info.ipi6_addr.s6_addr + 12, 4, (int)info.ipi6_ifindex);
}

static int pktinfo_ipv4_read(const struct control *control, struct ktsn_app_key *key)
{
	struct in_pktinfo info;

	if (control->bytes != CMSG_LEN(sizeof(info)))
		return -EINVAL;
	memcpy(&info, control->data, sizeof(info));
	return source_take(key, &info.ipi_spec_dst, sizeof(info.ipi_spec_dst), info.ipi_ifindex);
}

static void tos_take(struct ktsn_app_key *key, int tos)
{
	key->tos = (uint8_t)tos;
	key->carries |= KTSN_APP_CARRIES_TOS;
}

static int tos_read(const struct control *control, struct ktsn_app_key *key)
{
	int tos, err = 0;

	if (control->bytes == CMSG_LEN(1))
		tos = control->data[0];
	else
		err = number_read(control, 0, UINT8_MAX, &tos);
	if (!err)
		tos_take(key, tos);
	return err;
}

static int ttl_read(const struct control *control, int min, struct ktsn_app_key *key)
{
	int ttl, err = number_read(control, min, UINT8_MAX, &ttl);

	if (err || ttl < 0)
		return err;
	key->ttl = (uint8_t)ttl;
	key->carries |= KTSN_APP_CARRIES_TTL;
	return 0;
}

/* The kernel checks it for all sockets and uses it for raw ones. */
static int protocol_read(const struct control *control)
{
	int protocol;

	return number_read(control, 1, UINT8_MAX, &protocol);
}

static int ipv4_control_read(const struct control *control, struct ktsn_app_key *key)
{
	switch (control->type) {
	case IP_PKTINFO:
		return pktinfo_ipv4_read(control, key);
	case IP_TTL:
		return ttl_read(control, 1, key);
	case IP_TOS:
		return tos_read(control, key);
	case IP_PROTOCOL_TYPE:
		return protocol_read(control);
	case IP_RETOPTS:
		return -EOPNOTSUPP; /* options make the header longer */
	default:
		return -EINVAL;
	}
}

static int ipv6_control_read(const struct control *control, struct ktsn_app_key *key)
{
	int tclass, err;

	switch (control->type) {
	case IPV6_PKTINFO:
	case IPV6_2292PKTINFO:
		return pktinfo_ipv6_read(control, false, key);
	case IPV6_HOPLIMIT:
	case IPV6_2292HOPLIMIT:
		return ttl_read(control, -1, key);
	case IPV6_TCLASS:
		err = number_read(control, -1, UINT8_MAX, &tclass);
		if (!err && tclass >= 0)
			tos_take(key, tclass);
		else if (!err) /* -1: the socket's value, whatever an earlier control message set */
			key->carries &= (uint8_t)~KTSN_APP_CARRIES_TOS;
		return err;
	case IPV6_DONTFRAG:
		return 0; /* nothing is ever fragmented */
	case IPV6_FLOWINFO:
	case IPV6_HOPOPTS:
	case IPV6_2292HOPOPTS:
	case IPV6_DSTOPTS:
	case IPV6_2292DSTOPTS:
	case IPV6_RTHDRDSTOPTS:
	case IPV6_RTHDR:
	case IPV6_2292RTHDR:
		return -EOPNOTSUPP; /* headers of their own, or a leased label */
	default:
		return -EINVAL;
	}
}

/* Returns whether the kernel would let the process mark packets. */
static bool may_mark(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};

	return kernel_call(SYS_capget, &header, data) >= 0 &&
	       data[0].effective & (1U << CAP_NET_ADMIN | 1U << CAP_NET_RAW);
}

/* A mark can choose the route, and ktsnd looks routes up without one. */
static int mark_read(const struct control *control)
{
	int mark;

	if (!may_mark())
		return -EPERM;
	return number_read(control, INT32_MIN, INT32_MAX, &mark) ? -EINVAL : -EOPNOTSUPP;
}

static int timestamping_read(const struct control *control)
{
	int flags, err = number_read(control, INT32_MIN, INT32_MAX, &flags);

	return !err && flags & ~SOF_TIMESTAMPING_TX_RECORD_MASK ? -EINVAL : err;
}

/* For a socket that numbers its time stamps itself (SOF_TIMESTAMPING_OPT_ID). */
static int timestamp_number_read(const struct control *control, int fd)
{
	int flags = 0;

	if (socket_option_read(fd, SOL_SOCKET, SO_TIMESTAMPING_OLD, &flags) ||
	    !(flags & SOF_TIMESTAMPING_OPT_ID))
		return -EINVAL;
	return control->bytes == CMSG_LEN(sizeof(uint32_t)) ? 0 : -EINVAL;
}

static int priority_read(const struct control *control, struct ktsn_app_key *key)
{
	int priority, err = number_read(control, INT32_MIN, INT32_MAX, &priority);

	if (err)
		return err;
	if (priority < 0 || priority > PRIORITY_MAX)
		return -EPERM;
	key->priority = (uint32_t)priority;
	key->carries |= KTSN_APP_CARRIES_PRIORITY;
	return 0;
}

/* Follows __sock_cmsg_send() of the kernel. */
static int socket_control_read(const struct control *control, int fd, struct ktsn_app_key *key)
{
	switch (control->type) {
	case SO_PRIORITY:
		return priority_read(control, key);
	case SO_MARK:
		return mark_read(control);
	case SO_TIMESTAMPING_OLD:
	case SO_TIMESTAMPING_NEW:
		return timestamping_read(control);
	case SCM_TS_OPT_ID_TYPE:
		return timestamp_number_read(control, fd);
	case SCM_TXTIME:      /* read by message_txtime() */
	case SCM_RIGHTS:      /* of unix sockets; the kernel ignores it here */
	case SCM_CREDENTIALS: /* likewise */
		return 0;
	default:
		return -EINVAL;
	}
}

static int control_read(const struct control *control, struct socket_kind kind, int fd,
			struct ktsn_app_key *key)
{
	/* To IPv4 an IPv6 socket sends as an IPv4 socket does. */
	bool ipv4 = kind.domain == AF_INET || key->family == AF_INET;

	if (control->level == SOL_SOCKET)
		return socket_control_read(control, fd, key);
	if (kind.domain == AF_PACKET)
		return 0;
	if (ipv4 && kind.domain == AF_INET6 && control->level == SOL_IPV6 && control->type == IPV6_PKTINFO)
		return pktinfo_ipv6_read(control, true, key);
	if (ipv4 && control->level == IPPROTO_IP)
		return ipv4_control_read(control, key);
	if (!ipv4 && control->level == SOL_IPV6)
		return ipv6_control_read(control, key);
	return 0;
}

/* Reads all control messages except SCM_TXTIME and those of UDP (segment.h) into *key, whose address is
 * filled in. 0 or -errno as message_destination_read(). */
static int message_controls_read(const struct msghdr *message, struct socket_kind kind, int fd,
				 struct ktsn_app_key *key)
{
	struct control control;
	int more, err = 0;

	for (size_t offset = 0; (more = control_at(message, offset, &control)) > 0 && !err;
	     offset = control_end(&control))
		err = control_read(&control, kind, fd, key);
	return err ? err : more;
}

enum {
	SIN6_BYTES_RFC2133 = 24, /* without the scope */
	TXTIME_ALONE_BYTES = CMSG_SPACE(sizeof(int64_t)),
};

static void ipv4_take(struct ktsn_app_key *key, const void *address, uint16_t port_be)
{
	key->family = AF_INET;
	key->port_be = port_be;
	memcpy(key->address, address, 4);
}

static int sockaddr_ipv4_read(const struct msghdr *message, struct ktsn_app_key *key)
{
	struct sockaddr_in to;

	if (message->msg_namelen < sizeof(to))
		return -EINVAL;
	memcpy(&to, message->msg_name, sizeof(to));
	if (to.sin_family != AF_INET && to.sin_family != AF_UNSPEC)
		return -EAFNOSUPPORT;
	if (to.sin_port == 0)
		return -EINVAL;
	ipv4_take(key, &to.sin_addr, to.sin_port);
	return 1;
}

static void ipv6_take(struct ktsn_app_key *key, const struct sockaddr_in6 *to)
{
	const struct ktsn_address address = ktsn_address_of_ipv6(&to->sin6_addr);

	if (ktsn_address_is_ipv4(&address)) {
		ipv4_take(key, to->sin6_addr.s6_addr + 12, to->sin6_port);
		return;
	}
	key->family = AF_INET6;
	key->port_be = to->sin6_port;
	memcpy(key->address, &to->sin6_addr, sizeof(key->address));
	if (ktsn_address_is_link_local(&address))
		key->interface = to->sin6_scope_id;
}

static int sockaddr_ipv6_read(const struct msghdr *message, struct ktsn_app_key *key)
{
	struct sockaddr_in6 to = {.sin6_family = AF_UNSPEC};
	size_t bytes = message->msg_namelen < sizeof(to) ? message->msg_namelen : sizeof(to);

	if (bytes < sizeof(to.sin6_family))
		return -EINVAL;
	memcpy(&to, message->msg_name, bytes);
	if (to.sin6_family == AF_INET)
		return sockaddr_ipv4_read(message, key);
	/* Whatever follows the family: the message goes to the connected address. */
	if (to.sin6_family == AF_UNSPEC)
		return 0;
	if (to.sin6_family != AF_INET6 || bytes < SIN6_BYTES_RFC2133 || to.sin6_port == 0)
		return -EINVAL;
	ipv6_take(key, &to);
	return 1;
}

/* The Ethernet header of the message decides all but the interface. */
static int header_read(const struct msghdr *message, struct ktsn_app_key *key)
{
	uint8_t header[ETHERNET_HEADER_BYTES];

	if (message_payload_copy(message, header, sizeof(header)) < sizeof(header))
		return -EINVAL;
	memcpy(key->address, header, 12);
	memcpy(&key->port_be, header + 12, sizeof(key->port_be));
	return 1;
}

static int sockaddr_link_read(const struct msghdr *message, bool raw, struct ktsn_app_key *key)
{
	struct sockaddr_ll to;

	key->family = AF_PACKET;
	/* SOCK_DGRAM takes the hardware address from the socket address (eth_header). */
	if (!message->msg_name || message->msg_namelen == 0)
		return raw ? header_read(message, key) : -EINVAL;
	if (message->msg_namelen < sizeof(to))
		return -EINVAL;
	memcpy(&to, message->msg_name, sizeof(to));
	if (message->msg_namelen < to.sll_halen + offsetof(struct sockaddr_ll, sll_addr))
		return -EINVAL;
	if (to.sll_ifindex <= 0)
		return -ENXIO;
	key->interface = (uint32_t)to.sll_ifindex;
	if (raw)
		return header_read(message, key);
	key->port_be = to.sll_protocol;
	memcpy(key->address, to.sll_addr, 6);
	return 1;
}

static int address_read(const struct msghdr *message, struct socket_kind kind, struct ktsn_app_key *key)
{
	if (kind.domain == AF_PACKET)
		return sockaddr_link_read(message, kind.raw, key);
	if (!message->msg_name || message->msg_namelen == 0)
		return 0;
	return kind.domain == AF_INET ? sockaddr_ipv4_read(message, key) : sockaddr_ipv6_read(message, key);
}

static bool carries_something(const struct ktsn_app_key *key)
{
	static const uint8_t none[sizeof(key->source)];

	return key->carries || key->interface || memcmp(key->source, none, sizeof(none)) != 0;
}

int message_destination_read(const struct msghdr *message, struct socket_kind kind, int fd,
			     struct ktsn_app_key *key)
{
	int has_address, err;

	memset(key, 0, sizeof(*key));
	has_address = address_read(message, kind, key);
	/* The control messages hold the transmit time, and have room for nothing else. */
	if (has_address < 0 || (uint32_t)message->msg_controllen <= TXTIME_ALONE_BYTES)
		return has_address;
	err = message_controls_read(message, kind, fd, key);
	return err ? err : has_address || carries_something(key);
}
