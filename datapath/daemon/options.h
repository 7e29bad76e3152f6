/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of ktsnd.
 */
#ifndef KTSN_DAEMON_OPTIONS_H
#define KTSN_DAEMON_OPTIONS_H

#include "log.h"
#include "quota.h"
#include "shaper.h"

#include <stdbool.h>
#include <stdint.h>

enum uplink_kind {
	UPLINK_DIRECT, /* ktsnd puts frames into the tunnel and sends them on the interface */
	UPLINK_OVS,    /* Open vSwitch takes frames, wraps and sends them */
};

struct options {
	const char *interface;
	const char *device; /* DPDK device instead of a packet socket on the interface; NULL: none */
	enum uplink_kind uplink;
	const char *vhost_path; /* only with UPLINK_OVS */
	const char *control_path;
	const char *instance_dir;  /* NULL: no supervisor */
	const char *instance_name; /* NULL: none */
	uint32_t local_address_be; /* 0: the interface's first */
	uint16_t vxlan_port;
	uint16_t encrypted_port;
	int cpu; /* -1: any */
	int fifo_priority;
	int64_t spin_ns;
	int64_t late_after_ns;
	int64_t stale_after_ns;
	int64_t delta_ns;
	enum ktsn_strategy strategy;
	uint64_t link_speed_bps; /* 0: what the interface reports */
	int64_t guard_band_ns;
	uint16_t vlan_id; /* 0: none */
	uint32_t ring_slots;
	uint64_t ring_memory_bytes; /* of all rings */
	uint32_t packets;
	uint32_t departures;        /* departures that are kept */
	struct quota_limits limits; /* of each pod */
	uint32_t receiver_quota;    /* percentage of a CPU for a receiver of this node */
	bool keep_awake;
	const char *latency_device; /* device that keep_awake opens; empty: none */
	bool take_over;
	enum log_level log_level;
};

/*
 * Reads the command line. Returns 0, 1 after answering --help or --version, or -EINVAL after a message on
 * standard error. Strings point into argv.
 */
int options_parse(int argc, char **argv, struct options *options);

/* Gives the sending thread the only CPU that ktsnd may run on (-1: there are several) unless --cpu names
 * one. Returns 0, or -EINVAL after a message on standard error when an option needs a CPU and none is set. */
int options_cpu_complete(struct options *options, int only_cpu);

#endif
