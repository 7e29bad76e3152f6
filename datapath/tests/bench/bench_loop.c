/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop as ktsnd runs it, with its real rings, frames and shaper, and a port that only counts. Rings are
 * filled before the loop starts, so no producer is measured: the time covers one thread on one processor,
 * from its start to the last frame at the port. In one case a producer on another processor fills the rings
 * meanwhile.
 */
#include "bench_suites.h"
#include "clock.h"
#include "commands.h"
#include "counters.h"
#include "doorbells.h"
#include "loop.h"
#include "port_null.h"
#include "quota.h"
#include "ring_memory.h"
#include "ring_producer.h"

#include <endian.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	RINGS = 16,
	SLOTS = 4096,
	PACKETS = 4096, /* ktsnd's defaults */
	PAYLOAD_BYTES = 64,
	BUFFER_BYTES = 512,
	OFFERED_NS = 150, /* between two transmit times */
	MS = 1000000,
};

/* The project has a goal for the first case of each strategy. */
struct mode {
	const char *name;
	enum ktsn_strategy strategy;
	uint64_t link_speed_bps;
	int64_t spread_ns; /* transmit times deviate this much from their order */
	bool producer;     /* fills the rings while the loop runs */
	bool encrypted;
};
#define GBIT UINT64_C(1000000000)
/* The lateness that every message may have with strategies that drop late messages. */
#define TIMEOUT_NS INT64_C(1000000000000)

static const struct mode modes[] = {
	{"tas, 10 Gbit/s", KTSN_STRATEGY_TAS, 10 * GBIT, 0, false, false},
	{"strict-priority, 10 Gbit/s", KTSN_STRATEGY_STRICT_PRIORITY, 10 * GBIT, 0, false, false},
	{"etf, 10 Gbit/s", KTSN_STRATEGY_ETF, 10 * GBIT, 0, false, false},
	{"etf-deadline, 10 Gbit/s", KTSN_STRATEGY_ETF_DEADLINE, 10 * GBIT, 0, false, false},
	{"tas, link without limit", KTSN_STRATEGY_TAS, 0, 0, false, false},
	{"tas, 10 Gbit/s, times in any order", KTSN_STRATEGY_TAS, 10 * GBIT, 10 * MS, false, false},
	{"tas, 10 Gbit/s, producer on another processor", KTSN_STRATEGY_TAS, 10 * GBIT, 0, true, false},
	{"tas, 10 Gbit/s, encrypted", KTSN_STRATEGY_TAS, 10 * GBIT, 0, false, true},
};
enum { MODES = sizeof(modes) / sizeof(modes[0]) };

/* An application process with one flow and one destination. */
struct application {
	struct ktsn_ring_memory memory;
	struct ktsn_ring_producer producer;
	struct quota quota;
	struct doorbells *doorbells;
	int doorbell_fd;
	struct loop_ring *ring;
	struct loop_flow *flow;
	struct loop_destination *destination;
};

struct bed {
	const struct mode *mode;
	struct ktsn_port *port;
	struct loop *loop;
	struct loop_gates *gates;
	struct loop_association *association; /* NULL: nothing is encrypted */
	struct application applications[RINGS];
	uint32_t messages; /* of all applications */
	int64_t begin_tai_ns;
	uint64_t random;
};

static struct loop_route route(bool encrypted)
{
	struct ktsn_frame_path inner = {
		.source_mac = {0x02, 0, 0, 0, 0, 0x0a},
		.destination_mac = {0x02, 0, 0, 0, 0, 0x0b},
		.source_ipv4_be = htobe32(0x0a2a0002),
		.destination_ipv4_be = htobe32(0x0a2a0102),
		.source_port_be = htobe16(40000),
		.destination_port_be = htobe16(5001),
		.ttl = 64,
	};
	struct loop_route route = {.state = DESTINATION_RESOLVED,
				   .path = inner,
				   .tunnel = {.outer = inner, .vni = 42},
				   .payload_max_bytes = PAYLOAD_BYTES};

	route.tunnel.outer.destination_port_be = htobe16(4789);
	route.tunnel.esp = encrypted;
	route.encryption = encrypted ? LOOP_REQUIRED : LOOP_CLEAR;
	return route;
}

static void must(int result, const char *label)
{
	if (result == 0)
		return;
	fprintf(stderr, "ktsn-datapath-bench: cannot %s: %s\n", label, strerror(-result));
	exit(EXIT_FAILURE);
}

static void application_open(struct bed *bed, struct application *application, uint64_t number)
{
	must(ktsn_ring_memory_create(&application->memory, ktsn_ring_geometry_make(SLOTS, PAYLOAD_BYTES)),
	     "make a ring");
	must(ktsn_ring_producer_init(&application->producer, application->memory.address,
				     application->memory.bytes),
	     "use a ring");
	application->ring = bench_alloc(sizeof(*application->ring));
	application->quota = (struct quota){.pending_max = UINT32_MAX, .horizon_ns = INT64_MAX};
	for (int i = 0; i < QUOTA_LANES; i++)
		application->quota.lanes[i] = bench_alloc(ktsn_shaper_lane_bytes());
	application->ring->quota = &application->quota;
	must(doorbells_create(&application->doorbells, loop_epoll_fd(bed->loop), 0), "make a doorbell");
	application->doorbell_fd = doorbell_make();
	application->ring->doorbell_set_fd = doorbell_join(application->doorbells, application->doorbell_fd);
	must(application->ring->doorbell_set_fd < 0 ? application->ring->doorbell_set_fd : 0,
	     "listen to a doorbell");
	ktsn_ring_consumer_init(&application->ring->consumer, application->memory.address,
				application->memory.geometry.slot_count,
				application->memory.geometry.slot_bytes);
	application->flow = bench_alloc(sizeof(*application->flow));
	application->flow->ring = application->ring;
	application->flow->number = number;
	application->flow->clock = KTSN_CLOCK_TAI;
	application->flow->deadline = bed->mode->strategy == KTSN_STRATEGY_ETF_DEADLINE;
	application->destination = bench_alloc(sizeof(*application->destination));
	application->destination->flow = application->flow;
	application->destination->ring = application->ring;
	application->destination->route = route(bed->mode->encrypted);
	application->destination->priority = (uint8_t)(number % KTSN_CLASSES);
	loop_command(bed->loop, &(struct loop_command){.type = COMMAND_FLOW_OPEN,
						       .ring = application->ring,
						       .flow = application->flow});
	loop_command(bed->loop, &(struct loop_command){.type = COMMAND_DESTINATION_OPEN,
						       .ring = application->ring,
						       .destination = application->destination});
}

static void application_close(struct application *application)
{
	for (int i = 0; i < QUOTA_LANES; i++)
		free(application->quota.lanes[i]);
	doorbell_leave(application->doorbells, application->ring->doorbell_set_fd, application->doorbell_fd);
	doorbells_destroy(application->doorbells);
	ktsn_ring_memory_destroy(&application->memory);
	free(application->destination);
	free(application->flow);
	free(application->ring);
}

/* More is offered than can be sent, and nothing is dropped for that. Returns false when the ring is full. */
static bool send_one(struct bed *bed, struct application *application, uint32_t number)
{
	struct ktsn_ring_message message = {.payload_bytes = PAYLOAD_BYTES,
					    .called_tai_ns = bed->begin_tai_ns,
					    .txtime_ns = bed->begin_tai_ns + (int64_t)number * OFFERED_NS};
	uint64_t increment = 1;
	uint32_t slot;

	if (ktsn_ring_claim(&application->producer, &slot))
		return false;
	if (bed->mode->spread_ns) {
		bed->random = bed->random * UINT64_C(6364136223846793005) + 1;
		message.txtime_ns -= (int64_t)((bed->random >> 24) % (uint64_t)bed->mode->spread_ns);
	}
	if (application->flow->deadline)
		message.txtime_ns += TIMEOUT_NS;
	memset(ktsn_ring_payload(&application->producer, slot), 0x55, PAYLOAD_BYTES);
	ktsn_ring_publish(&application->producer, slot, &message);
	if (bed->mode->producer &&
	    ktsn_ring_doorbell_due(&application->producer, KTSN_CLOCK_TAI, message.txtime_ns))
		(void)!write(application->doorbell_fd, &increment, sizeof(increment));
	return true;
}

/* Fills the rings. */
static void rings_fill(struct bed *bed, uint32_t messages)
{
	for (uint32_t i = 0; i < messages; i++)
		send_one(bed, &bed->applications[i % RINGS], i);
}

static void *produce(void *argument)
{
	struct bed *bed = argument;
	uint32_t sent = 0;

	while (sent < bed->messages)
		sent += send_one(bed, &bed->applications[sent % RINGS], sent);
	return NULL;
}

/* The gates of three traffic classes whose windows are all open: they are looked up but nothing waits. */
static void gates_set(struct bed *bed)
{
	const struct ktsn_schedule schedule = {
		.gate_enabled = true,
		.gate_states = 0xff,
		.cycle_time_ns = MS,
		.entry_count = 3,
		.entries = {{300000, 0xff}, {300000, 0xff}, {400000, 0xff}},
	};
	struct ktsn_gates *none = bench_alloc(sizeof(*none));

	bed->gates = bench_alloc(sizeof(*bed->gates));
	ktsn_gates_init(none);
	ktsn_gates_change(none, &schedule, 0, &bed->gates->gates);
	free(none);
	loop_command(bed->loop, &(struct loop_command){.type = COMMAND_GATES, .gates = bed->gates});
}

/* For the node to which everybody sends. */
static void association_give(struct bed *bed)
{
	static const uint8_t key[KTSN_GCM_KEY_BYTES] = {1};
	enum { ALIGN = 64 };
	uint8_t *memory = aligned_alloc(
		ALIGN, (2 * ALIGN + sizeof(*bed->association) + ktsn_gcm_key_bytes()) / ALIGN * ALIGN);

	bench_must(memory != NULL && ktsn_gcm_begin() == 0, "cannot encrypt");
	bed->association = (struct loop_association *)memory;
	*bed->association = (struct loop_association){
		.address_be = route(true).tunnel.outer.destination_ipv4_be,
		.spi = 0x01020304,
		.key = (struct ktsn_gcm_key *)(memory +
					       (sizeof(*bed->association) + ALIGN - 1) / ALIGN * ALIGN)};
	ktsn_gcm_key_expand(bed->association->key, key);
	loop_command(bed->loop,
		     &(struct loop_command){.type = COMMAND_ASSOCIATION, .association = bed->association});
}

static void bed_init(struct bed *bed, const struct mode *mode, uint32_t messages, int cpu)
{
	struct loop_config config = {
		.packets = PACKETS,
		.spin_ns = 120000,
		.late_after_ns = 10000,
		.stale_after_ns = 100000000,
		.delta_ns = TIMEOUT_NS,
		.strategy = mode->strategy,
		.link_speed_bps = mode->link_speed_bps,
		.guard_band_ns = 20000,
		.cpu = cpu,
	};

	*bed = (struct bed){.mode = mode, .messages = messages, .random = 1};
	bed->port = config.port = port_null_create(PACKETS, BUFFER_BYTES);
	must(loop_create(&bed->loop, &config), "make the loop");
	gates_set(bed);
	if (mode->encrypted)
		association_give(bed);
	bed->begin_tai_ns = clock_tai_ns();
	port_null_expect(bed->port, messages);
	for (uint32_t i = 0; i < RINGS; i++)
		application_open(bed, &bed->applications[i], i);
	if (!mode->producer)
		rings_fill(bed, messages);
	for (uint32_t i = 0; i < RINGS; i++)
		loop_command(bed->loop, &(struct loop_command){.type = COMMAND_RING_OPEN,
							       .ring = bed->applications[i].ring});
}

static void bed_fini(struct bed *bed)
{
	loop_stop(bed->loop);
	loop_destroy(bed->loop);
	ktsn_port_destroy(bed->port);
	for (uint32_t i = 0; i < RINGS; i++)
		application_close(&bed->applications[i]);
	free(bed->gates);
	free(bed->association);
}

/* Otherwise the bench would wait for them forever. */
static void drops_none(const struct loop *loop)
{
	const struct counters *counters = loop_counters(loop);

	bench_must(counter_read(&counters->drop_missed) + counter_read(&counters->drop_txtime) +
				   counter_read(&counters->drop_invalid) ==
			   0,
		   "the loop dropped messages");
}

/* Million messages per second. */
static void mode_measure(const struct mode *mode, struct bench_case *bench, uint32_t messages, int cpu)
{
	struct bed bed;
	struct port_null_counts counts;
	struct loop_scheduling scheduling;
	pthread_t thread;

	bed_init(&bed, mode, messages, cpu);
	must(loop_start(bed.loop, &scheduling), "start the loop");
	if (mode->producer)
		must(-pthread_create(&thread, NULL, produce, &bed), "start a producer");
	while (!port_null_finished(bed.port, &counts)) {
		drops_none(bed.loop);
		usleep(500);
	}
	if (mode->producer)
		pthread_join(thread, NULL);
	bench_sample(bench, (double)counts.frames * 1000 / (double)(counts.last_ns - counts.begin_ns));
	bed_fini(&bed);
}

/* The loop gets the last allowed processor; the rest of the bench stays off it. */
static int loop_cpu(void)
{
	cpu_set_t may;
	int last = -1;

	if (sched_getaffinity(0, sizeof(may), &may) || CPU_COUNT(&may) < 2)
		return -1;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &may))
			last = cpu;
	CPU_CLR(last, &may);
	return pthread_setaffinity_np(pthread_self(), sizeof(may), &may) ? -1 : last;
}

static void figure(struct bench_report *report, const struct mode *mode, const struct bench_case *bench)
{
	struct bench_figure figure = {
		.unit = "Mpkt/s", .value = bench_median(bench), .limit = 3, .at_least = true};

	snprintf(figure.name, sizeof(figure.name), "%s: ring → frame → shaper → null port, one core",
		 ktsn_strategy_name(mode->strategy));
	report_figure(report, &figure);
}

void bench_loop(struct bench_report *report, const struct bench_plan *plan)
{
	struct bench_case *cases[MODES];
	int cpu = loop_cpu();

	for (int w = 0; w < MODES; w++)
		cases[w] = report_case(report, "Mpkt/s", "loop: %s", modes[w].name);
	for (uint32_t turn = 0; turn < plan->turns; turn++)
		for (int w = 0; w < MODES; w++)
			mode_measure(&modes[w], cases[w], plan->messages, cpu);
	for (int w = 0; w < KTSN_STRATEGIES; w++)
		figure(report, &modes[w], cases[w]);
}
