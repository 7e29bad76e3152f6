/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A port that is a DPDK ethdev. The only part of the project that knows DPDK.
 */
#ifndef KTSN_PORT_PORT_DPDK_H
#define KTSN_PORT_PORT_DPDK_H

#include "port.h"

#include <stdbool.h>

/* Frames that Open vSwitch may not have fetched: as many as its queue holds. */
enum { KTSN_PORT_DPDK_WITHDRAWN_MAX = 512 };

struct ktsn_port_dpdk_config {
	const char *interface; /* kernel network interface, used through net_af_packet */
	const char *device;    /* instead: a DPDK device (PCI address or "net_...,args"); NULL */
	const char
		*vhost_path; /* instead: the socket on which Open vSwitch fetches frames (vhost-user); NULL */
	uint32_t link_mtu_bytes; /* of the interface; sizes the af_packet ring */
	uint32_t buffer_count;   /* frames that may be in use at once */
	uint32_t buffer_bytes;   /* longest frame */
	int cpu;                 /* of the thread that will send, -1: any */
	/* With vhost_path: Open vSwitch has connected or disconnected. Called on a thread of DPDK. */
	void (*connected)(bool connected, void *context);
	/* With vhost_path: Open vSwitch fetched nothing, and the last `frames` that were taken are withdrawn.
	 * `astray` of them were not overwritten, because they are not in buffers of the port. Called on a
	 * thread of DPDK. */
	void (*withdrawn)(uint32_t frames, uint32_t astray, void *context);
	void *context;
	int64_t stale_after_ns;
};

/*
 * Initializes DPDK (once in a process) and opens the port. 0; or -errno with DPDK's error message in
 * `reason`. With vhost_path, -ETIMEDOUT: Open vSwitch is connected and does not answer, within 2 seconds if
 * the device exists already, and within three times as long if not. Main thread, before others start: DPDK
 * pins its caller, and this restores the affinity.
 */
int ktsn_port_dpdk_create(struct ktsn_port **port, const struct ktsn_port_dpdk_config *config, char *reason,
			  size_t reason_bytes);

/* Whether Open vSwitch fetches frames; true for other devices. Any thread. */
bool ktsn_port_dpdk_connected(const struct ktsn_port *port);

/* How many frames Open vSwitch has not fetched; 0 for other devices. Any thread, while nothing is sent. */
uint32_t ktsn_port_dpdk_unfetched(const struct ktsn_port *port);

#endif
