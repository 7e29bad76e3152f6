/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktsnd's command line.
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
	UPLINK_OVS,    /* Open vSwitch does */
};

struct options {
	const char *interface;
	const char *device; /* DPDK device instead of af_packet on the interface; NULL */
	enum uplink_kind uplink;
	const char *vhost_path; /* of UPLINK_OVS */
	const char *control_path;
	const char *instance_dir;  /* NULL: no supervisor, no age */
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
	uint64_t ring_memory_bytes; /* of all rings together */
	uint32_t packets;
	uint32_t departures;        /* that are remembered */
	struct quota_limits limits; /* of each pod */
	uint32_t receiver_quota;    /* of a processor, for a receiver of this node; percent */
	bool keep_awake;
	const char *latency_device; /* that keep_awake opens; empty: none */
	bool take_over;
	enum log_level log_level;
};

enum options_result { OPTIONS_RUN, OPTIONS_DONE, OPTIONS_BAD };

/* Reads the command line. --help and --version are answered (OPTIONS_DONE); what is wrong is said in a
 * sentence on standard error (OPTIONS_BAD). Strings point into argv. */
enum options_result options_parse(int argc, char **argv, struct options *options);

/* Without --cpu the sending thread has the only CPU that ktsnd may run on; -1: there are several. 0, or
 * -EINVAL where an option needs a CPU and there is none, said on standard error. */
int options_cpu_complete(struct options *options, int only_cpu);

#endif
