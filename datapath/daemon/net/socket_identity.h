/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel says of a socket that an application handed over: who it is, where it is connected to, and
 * what its datagrams carry. Nothing of it is the application's word.
 *
 * The thread of the pod that handed the socket over (pod_thread.h); system calls on that descriptor and
 * nothing else.
 */
#ifndef KTSN_DAEMON_SOCKET_IDENTITY_H
#define KTSN_DAEMON_SOCKET_IDENTITY_H

#include "address.h"

#include <stdbool.h>
#include <stdint.h>

/* Values of SO_PRIORITY that are told apart. */
enum { SOCKET_PRIORITIES = 16 };

/* An end of a conversation. */
struct socket_end {
	struct ktsn_address address;
	uint16_t port_be;   /* 0: none */
	uint32_t interface; /* of a link-local address; 0: none */
};

/* What decides about its frames, as last registered. */
struct socket_attributes {
	uint16_t family; /* AF_INET, AF_INET6 or AF_PACKET */
	bool raw;        /* AF_PACKET with SOCK_RAW: its messages begin with the Ethernet header */
	bool v6only;     /* IPV6_V6ONLY: no IPv4 */
	bool broadcast;  /* SO_BROADCAST */
	struct socket_end local;
	struct socket_end remote;
	uint32_t interface;   /* bound to it (SO_BINDTODEVICE, bind of AF_PACKET); 0: to none */
	uint16_t protocol_be; /* of AF_PACKET: the EtherType it is bound to */
	uint8_t tos, ttl;     /* IPv4 */
	uint8_t tclass, hops; /* IPv6 */
	uint8_t multicast_ttl, multicast_hops;
	uint32_t multicast_interface;      /* IPV6_MULTICAST_IF; 0: routes decide */
	uint32_t multicast_interface_ipv4; /* IP_MULTICAST_IF by index: the one thing that the library says */
	struct ktsn_address multicast_source; /* IP_MULTICAST_IF by address; any: none */
	uint8_t priority;                     /* SO_PRIORITY & 15 */
	bool unchecked, unchecked6; /* SO_NO_CHECK, UDP_NO_CHECK6_TX: IPv4 and IPv6 without UDP checksums */
	bool fragmentable;          /* IP_MTU_DISCOVER: IPv4 without the bit "don't fragment" */
};

struct socket_identity {
	uint64_t cookie;
	uint64_t netns_cookie;
	struct socket_attributes attributes;
};

/* 0; -EOPNOTSUPP when it is of a kind that ktsnd does not send for; -EINVAL when it is not bound yet; or
 * -errno. */
int socket_identity_read(int fd, struct socket_identity *identity);
/* Its two cookies only. 0 or -errno. */
int socket_cookies_read(int fd, struct socket_identity *identity);
/* Of a socket's network namespace, as ktsnd knows namespaces (namespace.h). 0 or -errno. */
int socket_netns_cookie(int fd, uint64_t *cookie);

#endif
