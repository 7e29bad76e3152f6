/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Keys and values of the maps of receive.bpf.c, and the indexes in `counts`. Written by internal/node/receive
 * (peers, endpoints) and ktsnd (sockets, rings, controls). Also for BPF: no header of the C library.
 *
 * In the processor's byte order, except fields with the suffix _be, which are in network byte order.
 */
#ifndef KTSN_RECEIVE_MAPS_H
#define KTSN_RECEIVE_MAPS_H

#include <linux/types.h>

/* linux/socket.h, which is not for BPF. */
#define KTSN_RECEIVE_IPV4 2  /* AF_INET */
#define KTSN_RECEIVE_IPV6 10 /* AF_INET6 */

/* Map `peers`, a trie of prefixes: which sources of a network are behind which node. */
struct ktsn_receive_peer {
	__u32 prefix_bits; /* of all that follows; at least KTSN_RECEIVE_PEER_BITS */
	__u32 vni;
	__u32 node_be; /* this node's end of the tunnel: several nodes on one machine may share the map */
	__u32 peer_be; /* the peer's end: the source address of the tunnel's packets */
	__u32 family;
	__u8 source[16]; /* IPv4 in the first four */
};

#define KTSN_RECEIVE_PEER_BITS 128

/* Map `endpoints`: the pods whose datagrams may go into receive rings, or may bypass tunnel and bridge. */
struct ktsn_receive_endpoint_key {
	__u32 vni;
	__u8 mac[6];
	__u16 zero;
};

#define KTSN_RECEIVE_HAS_IPV4 1
#define KTSN_RECEIVE_HAS_IPV6 2
#define KTSN_RECEIVE_RINGS    4 /* sockets may have receive rings */
#define KTSN_RECEIVE_REDIRECT 8 /* datagrams for no ring go directly to the pod's interface, with `port` */

struct ktsn_receive_endpoint {
	__u64 netns_cookie; /* of the pod's network namespace; never reused */
	__s32 netns_id;     /* the id of that namespace in the uplink's namespace; may be reused */
	__u32 interface;    /* index in the pod */
	__u32 port;         /* index of the node's end; the entry is invalid if that no longer exists */
	__u32 uplink;       /* index of the interface through which packets for the tunnel come */
	__u32 node_be;      /* the tunnel's own address */
	__u32 ipv4_be;
	__u8 ipv6[16];
	__u16 tunnel_port_be;
	__u16 has; /* KTSN_RECEIVE_HAS_..., _RINGS, _REDIRECT */
	__u32 reserved;
};

/* Map `sockets`, the storage of a socket. */
struct ktsn_receive_socket {
	__u64 id; /* key of `rings` and `controls`: the socket's cookie */
};

/* Indexes in the map `counts`, which counts frames for a tunnel by their result. All frames after
 * KTSN_RECEIVE_REDIRECTED in this list were left to the kernel. */
enum ktsn_receive_count {
	KTSN_RECEIVE_RECEIVED,    /* put into a ring */
	KTSN_RECEIVE_FULL,        /* dropped: the ring had no space */
	KTSN_RECEIVE_REDIRECTED,  /* handed to the pod's interface */
	KTSN_RECEIVE_NO_ENDPOINT, /* for no pod in `endpoints`, or not for this tunnel */
	KTSN_RECEIVE_NOT_HOST,    /* not addressed to the uplink */
	KTSN_RECEIVE_SEGMENTS,    /* several packets in one */
	KTSN_RECEIVE_TUNNEL,      /* headers of the tunnel that are not those of a peer's packets */
	KTSN_RECEIVE_PEER,        /* no peer, or a source that is not behind it */
	KTSN_RECEIVE_PROTOCOL,    /* no UDP over IP inside, or a VLAN tag */
	KTSN_RECEIVE_FRAGMENT,
	KTSN_RECEIVE_OPTIONS, /* options of IPv4; header extensions of IPv6 count as PROTOCOL */
	KTSN_RECEIVE_LENGTH,  /* inner lengths contradict each other or the frame */
	KTSN_RECEIVE_HEADER,  /* the checksum of the inner IP header is wrong */
	KTSN_RECEIVE_DESTINATION,
	KTSN_RECEIVE_SOURCE,    /* an address that no host can have, or a link-local one */
	KTSN_RECEIVE_NO_SOCKET, /* no socket, or one without a ring */
	/* The socket is in another network namespace than the endpoint, or bound to a device. */
	KTSN_RECEIVE_FOREIGN,
	/* The socket has a ring, but the kernel applies filters to the datagram and the program cannot. */
	KTSN_RECEIVE_PACKET_FILTER,     /* hooks of packet filters in the pod's network namespace */
	KTSN_RECEIVE_POLICY,            /* policies of IPsec */
	KTSN_RECEIVE_CGROUP_PROGRAM,    /* programs of the socket's cgroup */
	KTSN_RECEIVE_REUSEPORT_PROGRAM, /* chooses among sockets that share the port */
	KTSN_RECEIVE_NO_RING,           /* the ring was removed, or no process reads it */
	KTSN_RECEIVE_TOO_LONG,          /* longer than any record */
	KTSN_RECEIVE_CHECKSUM,          /* wrong, or missing with IPv6 or where the tunnel has one */
	KTSN_RECEIVE_COUNTS
};

#endif
