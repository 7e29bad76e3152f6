/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktsnd: sends the timed datagrams of a node's pods, each at its transmit time. With --instance-dir a
 * supervisor (instance/supervisor.c) starts the process that serves, and starts it again if it ends.
 *
 * There are two threads, and one for each pod. The loop thread (loop/loop.c) is the path of a packet. The
 * main thread, called the control thread, does everything that may take time: sockets, addresses, the control
 * socket. A pod's thread (node/pod_thread.c) makes the system calls that the pod could block.
 */
#include "associations.h"
#include "clock.h"
#include "control_server.h"
#include "handover.h"
#include "instance.h"
#include "keep_awake.h"
#include "log.h"
#include "node.h"
#include "options.h"
#include "port_bridge.h"
#include "port_dpdk.h"
#include "privileges.h"
#include "process_requests.h"
#include "realtime.h"
#include "realtime_worker.h"
#include "supervisor.h"
#include "switch_link.h"
#include "unix_socket.h"
#include "uplink.h"
#include "vhost_socket.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

/* ---- serving: a list of steps, undone in reverse order when a later one fails ---- */

struct daemon {
	struct options options;
	struct instance instance;
	struct uplink uplink;
	struct ktsn_port *port;
	struct ktsn_port *bridge_port;
	struct loop *loop;
	struct loop_scheduling scheduling;
	struct realtime_budget budget;
	int64_t budget_read_ms;
	struct keep_awake awake;
	struct realtime_worker *realtime_worker;
	struct realtime_worker *delivery_starter;
	struct events *events;
	struct node node;
	struct control_server *control;
	int control_fd;
	char generations_path[PATH_MAX];
	bool handed_over;
	struct event_source signals;
	struct switch_link switch_link; /* for uplink ovs */
	struct vhost_socket vhost;      /* for uplink ovs */
	bool stop;
	bool confined;
};

static void port_error_log(const struct ktsn_port_dpdk_config *config, const char *reason, int err)
{
	if (config->vhost_path && err == -ETIMEDOUT)
		log_error("Open vSwitch connects to %s and does not answer: check that ovs-vswitchd runs "
			  "and is not stopped, then start ktsnd again",
			  config->vhost_path);
	else if (config->vhost_path)
		log_error("DPDK cannot make the socket %s: %s; check that its folder exists",
			  config->vhost_path, reason);
	else if (config->device)
		log_error("DPDK cannot open %s: %s; check --device, and for a PCI address that hugepages are "
			  "reserved",
			  config->device, reason);
	else
		log_error("DPDK cannot open %s: %s; check --interface", config->interface, reason);
}

/* Opens the port. Only Open vSwitch may connect to its socket: the peer shares memory with ktsnd. */
static int port_open(struct daemon *daemon, const struct ktsn_port_dpdk_config *config)
{
	char reason[256] = "";
	mode_t mask = umask(0077);
	int err = ktsn_port_dpdk_create(&daemon->port, config, reason, sizeof(reason));

	umask(mask);
	if (err)
		port_error_log(config, reason, err);
	return err;
}

static int port_start(struct daemon *daemon)
{
	const struct options *options = &daemon->options;
	struct ktsn_port_dpdk_config config = {
		.interface = options->interface,
		.device = options->device,
		.link_mtu_bytes = daemon->uplink.mtu_bytes,
		.buffer_count = options->packets + KTSN_PORT_BURST,
		.buffer_bytes = daemon->uplink.mtu_bytes + KTSN_ETHER_HEADER_BYTES + KTSN_VLAN_TAG_BYTES,
		.cpu = options->cpu,
		.connected = switch_link_changed,
		.withdrawn = switch_link_withdrawn,
		.context = &daemon->switch_link,
		.stale_after_ns = options->stale_after_ns,
	};
	int err = 0;

	if (options->uplink == UPLINK_OVS) {
		err = vhost_socket_choose(&daemon->vhost, options->vhost_path, options->take_over);
		if (!err)
			err = switch_link_init(&daemon->switch_link, daemon->vhost.path);
		config.vhost_path = daemon->vhost.path;
	}
	return err ? err : port_open(daemon, &config);
}

/* Arguments of pthread_create() in the worker. */
struct thread_request {
	pthread_t *thread;
	const pthread_attr_t *attributes;
	void *(*run)(void *argument);
	void *argument;
	int err;
};

static void thread_create(void *argument)
{
	struct thread_request *request = argument;

	request->err = -pthread_create(request->thread, request->attributes, request->run, request->argument);
}

/* Starts a delivery thread, which inherits the worker's priority and processors. */
static int delivery_thread_start(void *starter, pthread_t *thread, const pthread_attr_t *attributes,
				 void *(*run)(void *argument), void *argument)
{
	struct thread_request request = {.attributes = attributes, .run = run, .argument = argument};

	request.thread = thread;
	realtime_worker_run(starter, thread_create, &request);
	return request.err;
}

static int bridge_port_start(struct daemon *daemon)
{
	const struct realtime_worker_config starter = {
		.name = "ktsnd-deliver", .nice = -20, .off_cpu = daemon->options.cpu};
	int err = realtime_worker_create(&daemon->delivery_starter, &starter);

	if (!err)
		err = ktsn_port_bridge_create(
			&daemon->bridge_port, daemon->port,
			&(struct ktsn_delivery_config){.thread_start = delivery_thread_start,
						       .starter = daemon->delivery_starter,
						       .quota_percent = daemon->options.receiver_quota,
						       .stale_after_ns = daemon->options.stale_after_ns});
	if (err)
		log_error("cannot open a packet socket for the bridges: %s", strerror(-err));
	return err;
}

/* Reads the budget of real-time threads. Ordinary threads have none. */
static void budget_read(struct daemon *daemon)
{
	struct utsname kernel;

	if (!daemon->scheduling.fifo || uname(&kernel))
		return;
	realtime_budget_read(&daemon->budget, "", kernel.release,
			     daemon->scheduling.pinned ? daemon->options.cpu : -1,
			     daemon->options.keep_awake && daemon->awake.by != KEEP_AWAKE_LATENCY_LIMIT);
	loop_budget_set(daemon->loop, daemon->budget.runtime_us, daemon->budget.period_us);
	daemon->budget_read_ms = clock_monotonic_ms();
}

static void budget_log(const struct daemon *daemon)
{
	const struct realtime_budget *budget = &daemon->budget;

	if (!daemon->scheduling.fifo)
		return;
	if (budget->one_processor)
		log_info("the kernel never stops real-time threads here, but all threads of ktsnd have one "
			 "processor: the sending thread rests so that the others run");
	else if (budget->period_us)
		log_info("the kernel stops real-time threads after %u of %u us (%s): the sending thread "
			 "rests between departures so that it never does",
			 budget->runtime_us, budget->period_us, budget->source);
	else
		log_info("the kernel never stops real-time threads here: the sending thread needs no rest");
}

/* Reads the budget again when due, because an administrator may have changed it. Returns ms until the next
 * time, or -1. */
static int budget_tick(struct daemon *daemon)
{
	enum { EVERY_MS = 10000 };
	int64_t left_ms = daemon->budget_read_ms + EVERY_MS - clock_monotonic_ms();

	if (!daemon->scheduling.fifo)
		return -1;
	if (left_ms > 0)
		return (int)left_ms;
	budget_read(daemon);
	return EVERY_MS;
}

static int loop_begin(struct daemon *daemon)
{
	struct loop_config config = {
		.port = daemon->port,
		.bridge_port = daemon->bridge_port,
		.withdrawn_max = daemon->uplink.switched ? KTSN_PORT_DPDK_WITHDRAWN_MAX : 0,
		.packets = daemon->options.packets,
		.departures = daemon->options.departures,
		.spin_ns = daemon->options.spin_ns,
		.late_after_ns = daemon->options.late_after_ns,
		.stale_after_ns = daemon->options.stale_after_ns,
		.delta_ns = daemon->options.delta_ns,
		.strategy = daemon->options.strategy,
		.link_speed_bps = daemon->options.link_speed_bps,
		.guard_band_ns = daemon->options.guard_band_ns,
		.cpu = daemon->options.cpu,
		.fifo_priority = daemon->options.fifo_priority,
	};
	int err = loop_create(&daemon->loop, &config);

	if (!err)
		err = loop_start(daemon->loop, &daemon->scheduling);
	if (!err)
		err = realtime_worker_create(
			&daemon->realtime_worker,
			&(struct realtime_worker_config){
				.name = "ktsnd-realtime",
				.fifo_priority = daemon->scheduling.fifo ? daemon->options.fifo_priority : 0,
				.off_cpu = daemon->options.cpu});
	if (!err)
		budget_read(daemon);
	if (err)
		log_error("cannot start the sending thread: %s", strerror(-err));
	return err;
}

static int switch_link_begin(struct daemon *daemon)
{
	int err = 0;

	if (daemon->uplink.switched)
		err = switch_link_watch(&daemon->switch_link, daemon->loop, daemon->events,
					ktsn_port_dpdk_connected(daemon->port));
	if (err)
		log_error("cannot watch Open vSwitch: %s", strerror(-err));
	return err;
}

static void signal_readable(struct event_source *source)
{
	struct daemon *daemon = source->owner;

	daemon->stop = true;
}

static int events_open(struct daemon *daemon, const sigset_t *signals)
{
	int err = events_create(&daemon->events);
	int fd;

	if (err)
		return err;
	fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	daemon->signals = (struct event_source){.fd = fd, .readable = signal_readable, .owner = daemon};
	return events_add(daemon->events, &daemon->signals);
}

static int events_begin(struct daemon *daemon, const sigset_t *signals)
{
	int err = events_open(daemon, signals);

	if (err)
		log_error("cannot wait for events: %s", strerror(-err));
	return err;
}

static struct control_status status_fixed(const struct daemon *daemon)
{
	return (struct control_status){
		.instance = &daemon->instance,
		.pid = getpid(),
		.uplink = daemon->uplink.switched ? "ovs" : "direct",
		.interface = daemon->uplink.interface,
		.scheduler = daemon->scheduling.fifo ? "SCHED_FIFO" : "SCHED_OTHER",
		.scheduler_priority = daemon->scheduling.fifo ? daemon->options.fifo_priority : 0,
		.cpu = daemon->scheduling.pinned ? daemon->options.cpu : -1,
		.budget = &daemon->budget,
		.spin_ns = daemon->options.spin_ns,
		.awake = &daemon->awake,
	};
}

static int node_begin(struct daemon *daemon)
{
	const struct node_shaping shaping = {
		.strategy = daemon->options.strategy,
		.classes = loop_classes_default(),
		.link_speed_bps = daemon->options.link_speed_bps,
		.guard_band_ns = daemon->options.guard_band_ns,
	};

	int err = node_init(&daemon->node, daemon->events, daemon->loop, &daemon->uplink, &shaping,
			    &daemon->options.limits, daemon->options.ring_slots,
			    daemon->options.ring_memory_bytes);

	if (err)
		return err;
	/* Next to the control socket, whose path all ktsnd of the node share. */
	snprintf(daemon->generations_path, sizeof(daemon->generations_path), "%s.generations",
		 daemon->options.control_path);
	associations_generations_path_set(&daemon->node.routing, daemon->generations_path);
	return 0;
}

static void awake_start(struct daemon *daemon)
{
	int err = keep_awake_start(&daemon->awake, daemon->options.cpu, daemon->options.latency_device, "");

	if (err)
		log_warning("--keep-awake has no effect: %s", strerror(-err));
}

/* Gives up the privileges that only starting needs, once all threads run. */
static int privileges_confine(struct daemon *daemon)
{
	int err;

	if (daemon->confined)
		return 0;
	daemon->confined = true;
	realtime_lock_memory();
	/* Before dropping privileges: opening the device may need them. */
	if (daemon->options.keep_awake)
		awake_start(daemon);
	/* This thread, and those of pods, which it starts. Work that a pod makes the kernel do there with
	 * interrupts off takes the loop's processor, whatever its priority. */
	if (daemon->scheduling.pinned)
		realtime_stay_off(daemon->options.cpu);
	err = privileges_drop(daemon->uplink.switched);
	/* Without the filter ktsnd works too, after a warning. */
	if (!err)
		(void)sandbox_enter();
	return err;
}

/* Takes over from the running ktsnd; -ENOENT when there is none. This ktsnd gives up its privileges first, so
 * that it is ready when the other stops sending. */
static int predecessor_take_over(struct daemon *daemon)
{
	int err = 0;

	if (!unix_is_listened_at(daemon->options.control_path))
		return -ENOENT;
	/* Wait until Open vSwitch is connected to this ktsnd. If it is not, it will be after the other has
	 * ended. */
	if (daemon->uplink.switched && !switch_link_await(&daemon->switch_link))
		err = vhost_socket_move(&daemon->vhost);
	if (!err)
		err = privileges_confine(daemon);
	return err ? err
		   : handover_take(&daemon->node, daemon->options.control_path, &daemon->instance,
				   &daemon->control_fd);
}

/* Listens on the control socket, or takes it over. Fails when another ktsnd listens there. */
static int control_listen(struct daemon *daemon)
{
	const char *path = daemon->options.control_path;
	int err = -ENOENT;

	if (daemon->options.take_over)
		err = predecessor_take_over(daemon);
	if (err != -ENOENT)
		return err;
	err = unix_listen(path, 0600, &daemon->control_fd);
	if (err)
		log_error("--control %s: %s", path, unix_listen_advice(err));
	return err;
}

static int events_serve(struct daemon *daemon)
{
	budget_log(daemon); /* only now: a ktsnd that fails to start logs one line */
	log_info("ready: sending on %s, control socket %s", daemon->uplink.interface,
		 daemon->options.control_path);
	supervised_serving(daemon->events);
	while (!daemon->stop && !control_server_handed_over(daemon->control)) {
		int timeout_ms = events_earlier(
			events_earlier(node_tick(&daemon->node), control_server_tick(daemon->control)),
			events_earlier(budget_tick(daemon), log_tick()));
		int err;

		if (daemon->node.routing.uplink_changed)
			return -ESTALE;
		err = events_run_once(daemon->events, timeout_ms);
		if (err) {
			log_error("cannot wait for requests: %s", strerror(-err));
			return err;
		}
	}
	return 0;
}

/* Delivers frames that have left the loop for pods of this node. The successor does not wait for them
 * (handover_give.c): they are delivered while it sends. */
static void deliveries_finish(const struct daemon *daemon)
{
	enum { GO_ON = -1, TIMEOUT_NS = 100000000 };
	uint64_t queued;

	loop_receivers_hold(daemon->loop, GO_ON);
	loop_receivers_hold(daemon->loop, TIMEOUT_NS);
	queued = loop_delivery_counts(daemon->loop).queued;
	if (queued)
		log_warning("%" PRIu64
			    " frames to pods of this node are lost: their receivers took more than "
			    "their share (--receiver-quota), or had no processor for %d ms",
			    queued, TIMEOUT_NS / 1000000);
}

/* Serves, and closes sockets and rings at the end unless another ktsnd has taken them over. */
static int control_run(struct daemon *daemon)
{
	struct control_status fixed = status_fixed(daemon);
	int err = control_server_create(&daemon->control, &daemon->node, daemon->control_fd, &fixed);

	if (err) {
		log_error("cannot serve the control socket: %s", strerror(-err));
		unlink(daemon->options.control_path);
		close(daemon->control_fd);
		return err;
	}
	err = privileges_confine(daemon);
	if (!err)
		err = events_serve(daemon);
	daemon->handed_over = control_server_handed_over(daemon->control);
	/* Stop the loop before endpoints are removed, so that new messages are left to the next ktsnd instead
	 * of being dropped. A message that has left to some of its receivers leaves to the others first. */
	loop_pause(daemon->loop);
	loop_stop(daemon->loop);
	deliveries_finish(daemon);
	if (daemon->handed_over)
		supervised_handed_over(daemon->events);
	else
		/* Unlink while the socket still listens: afterwards another ktsnd could have bound the name.
		 */
		unlink(daemon->options.control_path);
	control_server_destroy(daemon->control);
	if (!daemon->handed_over)
		node_close(&daemon->node);
	return err;
}

/* Serves pods after all threads have been started. */
static int node_run(struct daemon *daemon)
{
	int err = node_begin(daemon);

	if (err) {
		log_error("cannot serve pods: %s", strerror(-err));
		return err;
	}
	daemon->node.realtime_worker = daemon->realtime_worker;
	err = control_listen(daemon);
	if (!err)
		err = control_run(daemon);
	keep_awake_stop(&daemon->awake);
	loop_stop(daemon->loop);
	node_fini(&daemon->node);
	return err;
}

/* Leaves the port to the end of the process, which Open vSwitch notices by the end of the connection. To stop
 * the port, DPDK would ask Open vSwitch for its positions in the queues and wait for the answer for ever. */
static void switched_port_leave(struct daemon *daemon)
{
	if (!daemon->port)
		return;
	switch_link_drain(&daemon->switch_link, ktsn_port_dpdk_unfetched, daemon->port);
	/* After a hand-over the successor may use the name. */
	if (!daemon->handed_over)
		(void)unlink(daemon->vhost.path);
}

/* Starts everything from the port on, serves, and stops it in reverse order. */
static int daemon_run(struct daemon *daemon, const sigset_t *termination_signals)
{
	int err = port_start(daemon);

	if (!err)
		err = bridge_port_start(daemon);
	if (!err)
		err = loop_begin(daemon);
	if (!err)
		err = events_begin(daemon, termination_signals);
	if (!err)
		err = switch_link_begin(daemon);
	if (!err)
		err = node_run(daemon);
	switch_link_fini(&daemon->switch_link);
	if (daemon->loop)
		loop_stop(daemon->loop);
	loop_destroy(daemon->loop);
	realtime_worker_destroy(daemon->realtime_worker);
	if (daemon->signals.fd > 0)
		close(daemon->signals.fd);
	events_destroy(daemon->events);
	ktsn_port_destroy(daemon->bridge_port);
	realtime_worker_destroy(daemon->delivery_starter);
	if (daemon->uplink.switched)
		switched_port_leave(daemon);
	else
		ktsn_port_destroy(daemon->port);
	return err;
}

/*
 * Serves until one of the signals, which are blocked, or until another ktsnd has taken over. May be called
 * once in a process. 0, or -errno after an error message: -EALREADY when the predecessor is younger,
 * -ECONNRESET or -EPIPE when it ended during the take-over, -ETIMEDOUT when it did not answer, -EADDRINUSE
 * when a third ktsnd has started. *handed_over: sockets and rings belong to another ktsnd now.
 */
static int daemon_serve(const struct options *options, const struct instance *instance,
			const sigset_t *termination_signals, bool *handed_over)
{
	static struct daemon daemon;
	int err;

	daemon.options = *options;
	daemon.instance = *instance;
	err = uplink_find(&daemon.options, &daemon.uplink);
	if (!err) {
		link_speed_find(&daemon.options);
		err = daemon_run(&daemon, termination_signals);
	}
	*handed_over = daemon.handed_over;
	return err;
}

/* ---- starting ---- */

struct program {
	struct options options;
	struct instance instance;
	sigset_t termination_signals; /* blocked */
};

/* Each application needs three descriptors. */
static void descriptors_allow(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* Blocks the signals before any thread is created, because threads inherit the mask. */
static void signals_block(sigset_t *signals)
{
	sigemptyset(signals);
	sigaddset(signals, SIGINT);
	sigaddset(signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, signals, NULL);
	/* Writers to a closed connection, DPDK among them, get EPIPE instead. */
	signal(SIGPIPE, SIG_IGN);
}

/* Fails before anything is started when another ktsnd listens, so that the second one does not disturb it. */
static int control_check(const struct options *options)
{
	if (options->take_over || !unix_is_listened_at(options->control_path))
		return 0;
	log_error("--control %s: %s", options->control_path, unix_listen_advice(-EADDRINUSE));
	return -EADDRINUSE;
}

/* A take-over starts again when the predecessor ended or did not answer, and when another ktsnd bound the
 * control socket meanwhile. */
static enum served exit_status_of(const struct program *program, bool handed_over, int err)
{
	if (handed_over)
		return SERVED_HANDED_OVER;
	if (!err)
		return SERVED_TERMINATED;
	if (err == -EALREADY)
		return SERVED_REFUSED;
	return program->options.take_over && (err == -ECONNRESET || err == -EPIPE || err == -ETIMEDOUT ||
					      err == -EADDRINUSE)
		       ? SERVED_RETRY
		       : SERVED_FAILED;
}

static void __attribute__((noreturn)) serve_supervised(void *context)
{
	const struct program *program = context;
	bool handed_over;
	int err = daemon_serve(&program->options, &program->instance, &program->termination_signals,
			       &handed_over);

	exit((int)exit_status_of(program, handed_over, err));
}

static int supervise(struct program *program)
{
	const struct supervisor_config config = {
		.folder = program->options.instance_dir,
		.control_path = program->options.control_path,
		.instance = &program->instance,
		.take_over = program->options.take_over,
		.signals = &program->termination_signals,
		.serve = serve_supervised,
		.context = program,
	};

	if (instance_born(&program->instance, program->options.instance_dir))
		return 1;
	return supervisor_run(&config);
}

static int run(struct program *program)
{
	bool handed_over;
	int err;

	if (program->options.instance_name)
		snprintf(program->instance.name, sizeof(program->instance.name), "%s",
			 program->options.instance_name);
	if (program->options.instance_dir)
		return supervise(program);
	err = daemon_serve(&program->options, &program->instance, &program->termination_signals,
			   &handed_over);
	return err ? 1 : 0;
}

int main(int argc, char **argv)
{
	static struct program program;
	int result;

	result = options_parse(argc, argv, &program.options);
	if (result)
		return result < 0 ? 2 : 0;
	if (options_cpu_complete(&program.options, realtime_only_cpu()))
		return 2;
	log_level_set(program.options.log_level);
	/* Pod threads allocate little: save the 64 MiB of address space of each arena. */
	(void)mallopt(M_ARENA_MAX, 1);
	if (privileges_check() || privileges_limit() || ring_support_check() ||
	    control_check(&program.options))
		return 1;
	descriptors_allow();
	signals_block(&program.termination_signals);
	return run(&program);
}
