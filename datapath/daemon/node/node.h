/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ktsnd knows of its node: pods with their sockets and endpoints, remote nodes, and the applications
 * that are connected. The control thread's own; the loop thread sees none of it.
 *
 *   node --+-- peer*                      a remote node of an overlay and the pod subnets behind it
 *          +-- pod* --+-- endpoint*       an interface of the pod on an overlay
 *                     +-- process* -- flow* -- destination*
 *                         (a connection; a ring)  (a socket)  (an address it sends to)
 */
#ifndef KTSN_DAEMON_NODE_H
#define KTSN_DAEMON_NODE_H

#include "address.h"
#include "app_protocol.h"
#include "counters.h"
#include "events.h"
#include "loop.h"
#include "namespace.h"
#include "pod_limits.h"
#include "pod_thread.h"
#include "refusal.h"
#include "ring_charges.h"
#include "ring_memory.h"
#include "socket_identity.h"
#include "wakes.h"

#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/un.h>

enum {
	NODE_IDENTITY_MAX = 128,
	NODE_POD_NAME_MAX = 317, /* as long as Kubernetes' can be: a namespace's 63, a slash, a pod's 253 */
	PEER_SUBNETS_MAX = 64,
	/* Of one interface; more of them than anybody has. */
	ENDPOINT_ADDRESSES_MAX = 16,
	/* libktsn remembers 8 addresses of a socket; twice as many stay valid here, so that an entry that it
	 * still uses is never dropped. */
	FLOW_DESTINATIONS_MAX = 16,
	/* Sockets that outlive the process that opened them: passed on, or kept over exec. */
	POD_RECENT_MAX = 256,
};

struct subnet {
	struct ktsn_address network;
	uint8_t prefix_bits; /* of all 128: an IPv4 subnet has KTSN_ADDRESS_MAPPED_BITS more than it is written with */
};

struct peer {
	uint32_t vni;
	uint32_t address_be;
	struct subnet subnets[PEER_SUBNETS_MAX];
	uint32_t subnet_count;
	struct peer *next;
};

/* How a socket gives its transmit times (struct sock_txtime). */
struct txtime_mode {
	enum ktsn_clock clock;
	bool deadline;
	bool report;
};

/* A socket of which ktsnd knows that it asked for SO_TXTIME, by the kernel's cookie (SO_COOKIE). */
struct timed_socket {
	uint64_t cookie; /* 0: none */
	struct txtime_mode mode;
};

struct pod {
	struct node *node;
	char identity[NODE_IDENTITY_MAX + 1];
	char name[NODE_POD_NAME_MAX + 1]; /* for people, "": nobody said one */
	/* What logs call it: "NAME (IDENTITY)", or the identity. */
	char called[NODE_POD_NAME_MAX + NODE_IDENTITY_MAX + sizeof(" ()")];
	struct quota *quota;
	struct pod_thread *thread;
	struct event_source listener; /* fd -1: no socket yet */
	bool listener_rests;          /* it is not watched: too much is still to be done */
	uint32_t connections_resting; /* whose first request waits unread */
	char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	struct endpoint *endpoints;
	struct process *processes;
	bool version_warned;                        /* of a libktsn.so of another version */
	bool unanswered_warned;                     /* of having answered too late */
	struct timed_socket recent[POD_RECENT_MAX]; /* timed sockets that their processes closed, a ring */
	uint32_t recent_next;
	struct pod *next;
};

struct endpoint {
	char interface[IF_NAMESIZE];
	char netns[PATH_MAX]; /* as given */
	struct namespace *ns;
	uint32_t vni;
	int link_index;
	uint32_t mtu_bytes;
	uint8_t mac[6];
	uint32_t
		port_link_index; /* the other end of its veth pair, in ktsnd's namespace if it is a port of the bridge */
	struct ktsn_address addresses[ENDPOINT_ADDRESSES_MAX];
	uint32_t address_count;
	bool addresses_stale;       /* they have changed since they were read */
	char bridge[IF_NAMESIZE];   /* of the network on this node; "": none, no pod here is reached */
	uint32_t bridge_link_index; /* 0 likewise */
	struct endpoint *next;
};

struct process {
	struct pod *pod;                      /* NULL once the connection is closed */
	char identity[NODE_IDENTITY_MAX + 1]; /* the pod's, also after that */
	struct quota *quota;                  /* of the pod */
	struct pod_thread *thread;            /* of the pod */
	struct doorbells *doorbells;          /* of the node */
	struct event_source connection;
	struct app_request
		*request;       /* the one that is being read or served; NULL once the connection is closed */
	pid_t pid;              /* of whoever connected, in ktsnd's PID namespace; 0: not visible in it */
	bool resuming;          /* between HAND_BACK and RESUME */
	bool rests;             /* its first request waits unread: its pod has had many rings lately */
	struct loop_ring *ring; /* NULL before HELLO or HAND_BACK */
	struct ktsn_ring_memory memory; /* of the ring, */
	struct ring_charge *charge;     /* and what it counts for */
	int doorbell_fd;                /* the application has it too; -1: no ring */
	int doorbell_set_fd;            /* what it is in (doorbells.h); -1: none yet */
	struct doorbell_work *joining;  /* NULL: it is not just being put there */
	struct flow *flows[LOOP_FLOWS_PER_RING];
	struct destination *destinations[LOOP_DESTINATIONS_PER_RING];
	uint32_t destination_hint; /* where to look for a free number */
	struct process *next;      /* among its pod's, or among those that are closing */
};

struct flow {
	struct process *process;
	struct loop_flow *loop;
	struct txtime_mode mode;
	uint32_t index;
	uint64_t cookie; /* of the socket */
	struct namespace *ns;
	struct socket_manner manner;
	struct destination *destinations[FLOW_DESTINATIONS_MAX]; /* of unconnected sends, a ring */
	uint32_t destinations_next;
	struct destination *connected;
	struct waker *alarm, *space; /* NULL: nobody waits for that */
	bool closed;                 /* its number stays taken until the loop is done with it */
	bool ended; /* taken over from another ktsnd, where it was closed; closed once its messages are taken */
};

struct destination {
	struct node *node;
	struct process *process;
	bool closed; /* its number stays taken until the loop is done with it */
	bool ended;  /* as of a flow */
	struct loop_destination *loop;
	uint32_t index;
	uint32_t vni;
	struct namespace *ns; /* of the endpoint; only compared, never used */
	int link_index;       /* of the endpoint */
	bool endpoint_gone;
	struct ktsn_app_key key;      /* as the library asked for it */
	struct ktsn_address next_hop; /* of one that is unicast IP */
	struct ktsn_address address;  /* likewise */
	struct loop_route route;      /* as last told to the loop */
	struct neighbor
		*inner; /* the pod that receives, or its gateway; in the sender's namespace. NULL: it is not
				 * IP, or to a group */
	struct neighbor
		*outer; /* the remote node, or the gateway to it; in ktsnd's namespace. NULL: on this node */
	struct neighbor_tie inner_tie, outer_tie;
	const struct endpoint *here;               /* on this node: where it goes; NULL: on another */
	struct many *many;                         /* it goes to several (copies.c); NULL: to one */
	struct destination *next, **previous_next; /* in the node's list */
};

struct node_uplink {
	char interface[IF_NAMESIZE];
	int link_index;
	uint32_t mtu_bytes; /* now, as far as there is room for it: */
	uint32_t
		mtu_bytes_max; /* when ktsnd started; buffers of the port and slots of rings are made for it */
	uint8_t mac[6];
	uint32_t local_address_be;
	uint16_t vxlan_port;
	uint16_t vlan_id; /* 0: frames carry no tag */
	bool switched;    /* Open vSwitch puts frames into the tunnel, not ktsnd */
};

/* What the uplink's shaper was told last; the loop has the same. */
struct node_shaping {
	enum ktsn_strategy strategy;
	struct loop_classes classes;
	uint64_t link_speed_bps;
	int64_t guard_band_ns;
	struct loop_gates *gates; /* node_shaping_init() makes the first: all are open */
};

/* What is traced now (tracing.c). */
struct node_trace {
	uint32_t number;                      /* 0: nothing is */
	char identity[NODE_IDENTITY_MAX + 1]; /* "": of all pods */
	uint64_t flow;                        /* 0: all flows */
	uint64_t before;                      /* the loop's last record of an earlier trace */
};

struct node {
	struct events *events;
	struct loop *loop;
	struct realtime_worker *realtime_worker; /* the caller's; NULL: none */
	struct node_uplink uplink;
	struct node_shaping shaping;
	struct ktsn_ring_geometry ring_geometry; /* of each process's */
	struct ring_charges ring_charges;
	bool rings_warned;          /* that one could not be made */
	struct quota_limits limits; /* of each pod, but for what its networks have of their own */
	struct network_limits *network_limits;
	uint32_t network_limits_count;
	uint32_t quota_count; /* of pods, and of those that are gone and whose messages still leave */
	struct namespace *own_ns;
	struct namespace *namespaces;
	struct pod *pods;
	struct peer *peers;
	struct destination *destinations;
	struct event_source retired; /* the loop gives objects back */
	struct event_source wakes;   /* and wants applications to be woken */
	struct pod_threads *threads;
	struct doorbells *doorbells;
	uint32_t listeners_resting;
	uint32_t connections_resting;
	struct process *closing; /* connection closed, ring not given back by the loop yet */
	struct grave *graves;    /* objects that commands under way may still name */
	uint64_t limit_refusals; /* what a pod asked for above its limits */
	uint64_t flow_numbers;
	struct node_trace trace;
	bool mtus_changed;         /* since the destinations followed them, */
	int64_t mtus_followed_ms;  /* at that time on CLOCK_MONOTONIC (mtus.c) */
	bool ports_changed;        /* links of ktsnd's namespace have, and with them maybe ports of bridges */
	struct bridge_port *ports; /* of all bridges, when they were looked at last (copies.c) */
	uint32_t port_count;
	uint32_t trace_numbers;
	uint32_t socket_count, endpoint_count, peer_count, process_count, flow_count;
	struct said_counts said_closed; /* of processes that are gone */
};

/* Prepares an empty node; `loop` and `events` are the caller's. 0 or -errno. */
int node_init(struct node *node, struct events *events, struct loop *loop, const struct node_uplink *uplink,
	      const struct node_shaping *shaping, const struct quota_limits *limits, uint32_t ring_slots,
	      uint64_t ring_bytes_max);
/* Closes all sockets and endpoints; the loop still runs. */
void node_close(struct node *node);
/* Frees what the loop held. Its thread must have ended. */
void node_fini(struct node *node);

/* Periodic work: neighbours to confirm, objects to free. Returns ms until it is due again, -1: not. */
int node_tick(struct node *node);

/* The pod of that identity, or NULL. */
struct pod *pod_find(const struct node *node, const char *identity);

/* pods.c: what the control socket changes. 0, or -EINVAL with *refusal filled in; then nothing changed. */
int node_socket_add(struct node *node, const char *identity, const char *path, struct refusal *refusal);
int node_socket_del(struct node *node, const char *identity);
/* What people call the pod, for lists and logs; nothing is decided by it. */
int node_pod_name_set(struct node *node, const char *identity, const char *name, struct refusal *refusal);
/* The listening socket itself is another ktsnd's: *fd becomes the pod's on success. */
int node_socket_take_over(struct node *node, const char *identity, const char *path, int fd);
int node_endpoint_add(struct node *node, const char *identity, const char *interface, const char *netns,
		      uint32_t vni, const char *bridge, struct refusal *refusal);
/* The endpoint of a network on this node that has the address, or hardware address; or NULL. */
const struct endpoint *node_endpoint_of(struct node *node, uint32_t vni, const struct ktsn_address *address);
const struct endpoint *node_endpoint_of_mac(const struct node *node, uint32_t vni, const uint8_t mac[6]);
/* The endpoint on a link, or NULL: whichever pod's. */
struct endpoint *node_endpoint_at(const struct node *node, const struct namespace *ns, int link_index);
/* Addresses of a link were added or removed; link_index 0: of any. */
void node_addresses_changed(struct node *node, const struct namespace *ns, int link_index);
int node_endpoint_del(struct node *node, const char *identity, const char *interface);
void pod_free(struct pod *pod);

/* peers.c */
int node_peer_add(struct node *node, uint32_t vni, uint32_t address_be, const struct subnet *subnets,
		  uint32_t subnet_count, struct refusal *refusal);
int node_peer_del(struct node *node, uint32_t vni, uint32_t address_be);
/* The remote node behind which an address lives (longest prefix), or NULL. */
const struct peer *node_peer_of(const struct node *node, uint32_t vni, const struct ktsn_address *address);

/* shaping.c: when frames leave. 0, -ENOMEM, or -EINVAL with *fault filled in; then the schedule before goes
 * on. */
int node_schedule_set(struct node *node, const struct ktsn_schedule *schedule,
		      struct ktsn_schedule_fault *fault);
int node_shaping_init(struct node *node, const struct node_shaping *shaping);
/* Gates to be filled in, NULL when out of memory; and those that are in effect from now on, which become the node's. */
struct loop_gates *gates_blank(void);
void node_gates_set(struct node *node, struct loop_gates *gates);
void node_strategy_set(struct node *node, enum ktsn_strategy strategy);
void node_classes_set(struct node *node, const struct loop_classes *classes);

/* processes.c: the application socket */
void process_accept(struct event_source *listener);
/* Listens again to those that may have more. */
void listeners_wake(struct node *node);
/* The same for connections whose first request waits. */
void connections_wake(struct node *node);
/* A process of the pod; its connection is `fd`, or -1. */
int process_make(struct pod *pod, int fd, struct process **made);
/* One that has no ring; its connection is the caller's again. */
void process_unmake(struct process *process);
/* A ring of memory that is there, with all that the loop needs of it; the memory becomes the process's on success. */
int process_ring_make(struct process *process, const struct ktsn_ring_memory *memory);
/* Has the loop look after it. */
void process_ring_open(struct process *process);
void process_close(struct process *process);
void process_free(struct node *node, struct process *process);
void process_destinations_detach(struct process *process);
/* Adds what the process's library has counted. */
void process_said_add(const struct process *process, struct said_counts *sum);

/* process_requests.c: what a process asks for */
/* Serves a request that was read; it goes on with the connection or closes it. */
void process_request_serve(struct process *process);

/* processes_taken.c: processes of a ktsnd that is replaced */
/* Until no request is half-way; connections on which one still is are closed. */
void processes_settle(struct node *node);
/* What another ktsnd had of a process; memory and doorbell -1: no ring yet. connection -1: it has ended. */
struct process_descriptors {
	int memory, doorbell, connection;
	struct ktsn_ring_geometry geometry; /* of the memory */
};
/* On success the descriptors are the process's. Nothing is taken from its ring before processes_taken_open(). */
int process_take_over(struct node *node, const char *identity, const struct process_descriptors *descriptors,
		      bool resuming, struct process **taken);
void processes_taken_open(struct node *node);

/* flows.c: sockets of a process. Fill in the reply, status included. */
void flow_open(struct process *process, const struct app_request *from, struct ktsn_app_reply *reply);
void flow_close_request(struct process *process, const struct ktsn_app_request *request,
			struct ktsn_app_reply *reply);
void flow_destination_request(struct process *process, const struct ktsn_app_request *request,
			      struct ktsn_app_reply *reply);
void flow_wake_request(struct process *process, struct app_request *from, struct ktsn_app_reply *reply);
/* What another ktsnd knew of a flow and its destinations, under the numbers that they had. 0 or -errno. */
struct flow_description {
	uint32_t index;
	struct txtime_mode mode;
	uint64_t cookie;
	uint64_t netns_cookie;
	struct socket_manner manner;
	bool ended;
};
struct destination_description {
	uint32_t index;
	uint32_t flow;
	struct ktsn_app_key key;
	bool connected; /* the flow's own, not one of an unconnected send */
	bool ended;
};
int flow_take_over(struct process *process, const struct flow_description *description);
int flow_destination_take_over(struct process *process, const struct destination_description *description);
/* Closes those that had ended. */
void flows_taken_close(struct process *process);
void flow_free(struct flow *flow);

/* wakes.c: waking who waits for a socket. `why` is NOTIFY_... of the loop. */
void flow_wake(struct flow *flow, uint32_t why);
/* The waker becomes the flow's. */
void flow_waker_set(struct flow *flow, struct waker *waker);
void flow_wakes_close(struct flow *flow);
void wakes_serve(struct node *node);
void wakes_readable(struct event_source *source);

/* tracing.c: which messages are recorded one by one. 0, or -EINVAL with *refusal filled in; then nothing
 * changed. */
int node_trace_start(struct node *node, const char *identity, uint64_t flow, struct refusal *refusal);
void node_trace_stop(struct node *node);
/* A flow is new. */
void flow_trace(struct flow *flow);
/* Marks the ring and all flows of a process anew, or those of all. */
void process_trace(struct process *process);
void processes_trace(struct node *node);

/* timed_sockets.c: sockets that wander from process to process */
/* A flow of the pod ends: another process may still have its socket. */
void timed_socket_remember(struct pod *pod, const struct flow *flow);
/* 0 with *mode, or -ENOENT when no process of the pod ever registered the socket. */
void timed_socket_take_over(struct node *node, const char *identity, const struct timed_socket *socket);
int timed_socket_find(const struct pod *pod, uint64_t cookie, struct txtime_mode *mode);

/* destinations.c: addresses that sockets send to */
/* Makes a destination of the flow, under that number if it is not KTSN_APP_NONE, and announces it to the
 * loop. 0 with *created, which is NULL when the pod's routes lead through another interface; or -errno as
 * sendmsg gives it. */
int destination_create(struct flow *flow, const struct ktsn_app_key *key, uint32_t number,
		       struct destination **created);
/* Tells the loop that no new messages come for it. */
void destination_close(struct destination *destination);
/* No neighbour and no peer has anything to say about it any more. */
void destination_detach(struct destination *destination);
void destination_free(struct destination *destination);
/* A neighbour changed, or peers did: tells the loop what follows from it. */
void destinations_neighbor_changed(const struct neighbor *neighbor);
void destinations_peers_changed(struct node *node, uint32_t vni);
/* Messages to this namespace's endpoints have nowhere to go any more. */
void destinations_endpoint_gone(struct node *node, const struct endpoint *endpoint);

/* Pods came to this node, or left it. */
void destinations_ports_changed(struct node *node);
/* Links carry longer or shorter messages. */
void destinations_mtus_changed(struct node *node);

/* mtus.c: a link has that MTU now; 0: it has gone. */
void mtu_changed(struct node *node, const struct namespace *ns, int link_index, uint32_t mtu_bytes);
/* The kernel dropped notifications of a namespace: asks for each link that counts, one by one, for a pod may have any number
 * of others. */
void mtus_reread(struct node *node, const struct namespace *ns);
/* Has the destinations follow. Returns ms until it wants to be called again, -1: not. */
int mtus_tick(struct node *node);

/* ways.c: from an address to a route for frames */
/* Fills in the destination's way: key is set. 1: through another interface, and nothing is held; 0; or -errno. */
int way_find(struct destination *destination, const struct flow *flow);
/* The remote node of a unicast destination and the way to it; follows peers. */
int way_outer_find(struct destination *destination);
/* The longest payload that the links of a destination's way carry now; `sender` is the endpoint that it leaves through. */
void way_payload_max_find(struct destination *destination, const struct endpoint *sender);
/* Where the tunnel to a remote node leads, and through whom. 0 or -errno; neighbour and address are filled in. */
int way_tunnel_find(struct node *node, uint32_t remote_be, struct ktsn_frame_tunnel *tunnel,
		    struct neighbor **outer);

/* copies.c: what goes to several */
/* Looks at the ports of bridges. True when they are others than before. */
bool node_ports_read(struct node *node);
/* Finds out who they are. 0 or -errno. */
int many_find(struct destination *destination, const struct endpoint *sender);
void many_free(struct many *many);
/* The same anew. */
void many_refind(struct destination *destination);
/* What the neighbours of the copies say now; returns the state of all together. */
enum loop_destination_state many_apply(struct destination *destination);
/* What the loop has to know of it; NULL when out of memory. */
struct loop_replication *many_copies(const struct destination *destination);
/* Its neighbours have nothing to say about it any more. */
void many_untie(struct many *many);

/* graves.c */
void graves_retired(struct event_source *source);
void graves_sweep(struct node *node);
/* Once the loop's thread has ended: nothing is under way any more. */
void graves_free_all(struct node *node);

#endif
