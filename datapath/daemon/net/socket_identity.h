/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identity, addresses and options of a socket that an application passed to ktsnd, read from the kernel: no
 * value comes from the application.
 *
 * Runs in the thread of the application's pod (pod_thread.h); makes only system calls on that descriptor.
 */
#ifndef KTSN_DAEMON_SOCKET_IDENTITY_H
#define KTSN_DAEMON_SOCKET_IDENTITY_H

#include "address.h"

#include <stdbool.h>
#include <stdint.h>

/* Number of values of SO_PRIORITY that ktsnd distinguishes. */
enum { SOCKET_PRIORITIES = 16 };

/* The local or remote address of a socket. */
struct socket_end {
	struct ktsn_address address;
	uint16_t port_be;   /* 0: none */
	uint32_t interface; /* of a link-local address; 0: none */
};

/* Attributes that determine the frames of a socket, from its last registration. */
struct socket_attributes {
	uint16_t family; /* AF_INET, AF_INET6 or AF_PACKET */
	bool raw;        /* AF_PACKET with SOCK_RAW: its messages begin with the Ethernet header */
	bool v6only;     /* IPV6_V6ONLY: no IPv4 */
	bool broadcast;  /* SO_BROADCAST */
	struct socket_end local;
	struct socket_end remote;
	uint32_t interface;   /* that it is bound to (SO_BINDTODEVICE, bind of AF_PACKET); 0: none */
	uint16_t protocol_be; /* AF_PACKET: the EtherType that it is bound to */
	uint8_t tos, ttl;     /* IPv4 */
	uint8_t tclass, hops; /* IPv6 */
	uint8_t multicast_ttl, multicast_hops;
	uint32_t multicast_interface;         /* IPV6_MULTICAST_IF; 0: routes decide */
	uint32_t multicast_interface_ipv4;    /* IP_MULTICAST_IF by index; the only value from the library */
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

/* Reads everything. 0; -EOPNOTSUPP for a kind of socket that ktsnd does not send for; -EINVAL when the socket
 * is not bound yet; or another -errno. */
int socket_identity_read(int fd, struct socket_identity *identity);
/* Reads only the two cookies. 0 or -errno. */
int socket_cookies_read(int fd, struct socket_identity *identity);
/* Reads the cookie of a socket's network namespace, which identifies it (namespace.h). 0 or -errno. */
int socket_netns_cookie(int fd, uint64_t *cookie);

#endif
