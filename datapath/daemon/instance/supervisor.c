/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor.h"

#include "clock.h"
#include "log.h"
#include "probe.h"
#include "serving.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	RETRY_MS = 100,
	/* How long no ktsnd must have served before an instance that stands by starts: another may be
	   restarting. */
	ALONE_MS = 1000,
	/* How long an instance stands by until it concludes that it is not the one being replaced. */
	OUTLIVED_MS = 30000,
	/* The most serving processes in a row whose predecessor had ended or did not answer. */
	TRIES = 20,
	EXIT_SIGNALLED = 128, /* plus the signal's number, as in a shell */
};

/* Reports of a serving process to its supervisor, one byte each. */
enum report { REPORT_SERVING = 'S', REPORT_HANDED_OVER = 'H' };

struct supervisor {
	const struct supervisor_config *config;
	struct events *events;
	struct event_source signals;
	struct probe probe;
	struct serving serving;     /* the instance that serves, while this one does not */
	pid_t child;                /* 0: none */
	struct event_source ending; /* pidfd of the child */
	struct event_source reports;
	bool standing_by;
	bool renewed; /* at most once, or two instances would replace each other for ever */
	bool terminated;
	bool ended;
	int exit_status;
	int tries;
	int64_t check_ms; /* when to connect next; 0: not */
	int64_t since_ms; /* since when no ktsnd has served; 0: one serves */
	int64_t renew_ms; /* when to become the youngest; 0: not */
};

/* State of the serving process; report_fd is -1 without a supervisor. */
static int report_fd = -1;
static struct probe *process_probe;

static void report(enum report what)
{
	const char byte = (char)what;

	if (report_fd >= 0)
		(void)!write(report_fd, &byte, 1);
}

void supervised_serving(struct events *events)
{
	if (report_fd < 0)
		return;
	report(REPORT_SERVING);
	if (probe_answer(process_probe, events, PROBE_SERVING, ""))
		log_warning("cannot answer probes");
}

void supervised_handed_over(struct events *events)
{
	if (report_fd < 0)
		return;
	events_remove(events, &process_probe->listener);
	report(REPORT_HANDED_OVER);
}

static void end(struct supervisor *supervisor, int exit_status)
{
	supervisor->ended = true;
	supervisor->exit_status = exit_status;
}

/* Schedules the next check. */
static void check_after(struct supervisor *supervisor, int in_ms)
{
	supervisor->check_ms = clock_monotonic_ms() + in_ms;
}

static void answer_as(struct supervisor *supervisor, enum probe_state state, const char *why)
{
	if (probe_answer(&supervisor->probe, supervisor->events, state, why))
		log_warning("cannot answer probes");
}

static void stand_by(struct supervisor *supervisor, const char *why)
{
	if (!supervisor->standing_by) {
		log_info("standing by: %s", why);
		if (!supervisor->renewed && supervisor->config->take_over)
			supervisor->renew_ms = clock_monotonic_ms() + OUTLIVED_MS;
	}
	supervisor->standing_by = true;
	answer_as(supervisor, PROBE_STANDING_BY, why);
}

/* Closes the supervisor's descriptors, without changing the files that both processes share. */
static void child_become(struct supervisor *supervisor, pid_t parent, int to_supervisor)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(SERVED_FAILED);
	close(supervisor->signals.fd);
	events_destroy(supervisor->events);
	supervisor->probe.listener.watched = 0;
	process_probe = &supervisor->probe;
	report_fd = to_supervisor;
	supervisor->config->serve(supervisor->config->context);
}

static int child_watch(struct supervisor *supervisor, int from_child)
{
	int err;

	supervisor->reports.fd = from_child;
	supervisor->ending.fd = (int)syscall(SYS_pidfd_open, supervisor->child, 0);
	if (supervisor->ending.fd < 0)
		return -errno;
	err = events_add(supervisor->events, &supervisor->ending);
	return err ? err : events_add(supervisor->events, &supervisor->reports);
}

static int child_fork(struct supervisor *supervisor)
{
	const pid_t parent = getpid();
	int from_to[2], err;

	if (pipe2(from_to, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	supervisor->child = fork();
	err = -errno;
	if (supervisor->child == 0) {
		close(from_to[0]);
		child_become(supervisor, parent, from_to[1]);
	}
	close(from_to[1]);
	if (supervisor->child > 0)
		return child_watch(supervisor, from_to[0]);
	supervisor->child = 0;
	close(from_to[0]);
	return err;
}

static void child_start(struct supervisor *supervisor)
{
	int err;

	if (supervisor->standing_by)
		log_info("no longer standing by: starting");
	supervisor->standing_by = false;
	supervisor->since_ms = 0;
	supervisor->renew_ms = 0;
	serving_disconnect(&supervisor->serving, supervisor->events);
	answer_as(supervisor, PROBE_STARTING, "");
	err = child_fork(supervisor);
	if (!err)
		return;
	log_error("cannot start a process that serves: %s", strerror(-err));
	end(supervisor, SERVED_FAILED);
}

static int exit_status_of(int wait_status)
{
	return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : EXIT_SIGNALLED + WTERMSIG(wait_status);
}

static void retry(struct supervisor *supervisor)
{
	if (++supervisor->tries > TRIES)
		end(supervisor, SERVED_FAILED);
	else
		check_after(supervisor, RETRY_MS);
}

static void child_ended(struct supervisor *supervisor, int exit_status)
{
	if (supervisor->terminated && exit_status >= SERVED_HANDED_OVER && exit_status < EXIT_SIGNALLED) {
		end(supervisor, SERVED_TERMINATED);
	} else if (exit_status == SERVED_HANDED_OVER) {
		stand_by(supervisor, "a younger ktsnd has taken over");
		check_after(supervisor, 0);
	} else if (exit_status == SERVED_REFUSED) {
		stand_by(supervisor, "a younger ktsnd serves");
		check_after(supervisor, 0);
	} else if (exit_status == SERVED_RETRY) {
		retry(supervisor);
	} else {
		end(supervisor, exit_status);
	}
}

static void child_readable(struct event_source *ending)
{
	struct supervisor *supervisor = ending->owner;
	int status = 0;

	if (waitpid(supervisor->child, &status, 0) < 0)
		return;
	events_remove(supervisor->events, &supervisor->ending);
	events_remove(supervisor->events, &supervisor->reports);
	close(supervisor->ending.fd);
	close(supervisor->reports.fd);
	supervisor->child = 0;
	answer_as(supervisor, PROBE_STARTING, "");
	child_ended(supervisor, exit_status_of(status));
}

static void report_readable(struct event_source *reports)
{
	struct supervisor *supervisor = reports->owner;
	char byte;

	if (read(reports->fd, &byte, 1) != 1) {
		/* The child ends, which its pidfd reports. */
		events_remove(supervisor->events, reports);
		return;
	}
	supervisor->tries = 0;
	if (byte == REPORT_SERVING)
		events_remove(supervisor->events, &supervisor->probe.listener);
	else
		stand_by(supervisor, "a younger ktsnd has taken over");
}

/* Starts, or stands by, after the serving instance has identified itself. */
static void serving_compare(struct supervisor *supervisor)
{
	const struct instance *other = &supervisor->serving.instance;
	const struct instance *this_instance = supervisor->config->instance;

	if (supervisor->standing_by ? instance_is_older(other, this_instance)
				    : !instance_is_older(this_instance, other)) {
		child_start(supervisor);
		return;
	}
	supervisor->since_ms = 0;
	stand_by(supervisor, "a younger ktsnd serves");
	serving_announce(&supervisor->serving, this_instance->name);
}

static void serving_readable(struct event_source *connection)
{
	struct supervisor *supervisor = connection->owner;
	bool identified = supervisor->serving.identified;

	/* Retry later if it closes connections without a reply. */
	if (serving_read(&supervisor->serving, supervisor->events))
		check_after(supervisor, identified ? 0 : RETRY_MS);
	else if (!identified && supervisor->serving.identified)
		serving_compare(supervisor);
}

/* Starts at once, or after ALONE_MS when standing by. */
static void nobody_serves(struct supervisor *supervisor)
{
	int64_t now_ms = clock_monotonic_ms();

	if (!supervisor->since_ms)
		supervisor->since_ms = now_ms;
	if (!supervisor->standing_by || now_ms - supervisor->since_ms >= ALONE_MS)
		child_start(supervisor);
	else
		check_after(supervisor, RETRY_MS);
}

/* Connects to the serving instance. Waits for one that does not accept connections or closes them: whoever
 * started it ends it. */
static void other_connect(struct supervisor *supervisor)
{
	int err = serving_connect(&supervisor->serving, supervisor->events);

	if (err && err != -EAGAIN && err != -EPIPE && err != -ECONNRESET) {
		nobody_serves(supervisor);
		return;
	}
	supervisor->since_ms = 0;
	if (err)
		check_after(supervisor, RETRY_MS);
}

static void check_now(struct supervisor *supervisor)
{
	supervisor->check_ms = 0;
	if (!supervisor->config->take_over && !supervisor->standing_by)
		child_start(supervisor);
	else
		other_connect(supervisor);
}

/*
 * Becomes the youngest instance and takes over. In an upgrade the older pod is ended when the younger one
 * serves. An older one that stays is wanted, as after a rollback during the upgrade: the younger one will be
 * ended as soon as this one serves.
 */
static void renew_now(struct supervisor *supervisor)
{
	supervisor->renew_ms = 0;
	supervisor->renewed = true;
	log_info("stood by for %d s without being ended", OUTLIVED_MS / 1000);
	if (!instance_renew(supervisor->config->instance, supervisor->config->folder))
		child_start(supervisor);
}

/* Returns when to become the youngest. 0: not, or not until a serving instance has identified itself; without
 * one, this instance serves next anyway. */
static int64_t renew_at_ms(const struct supervisor *supervisor)
{
	return supervisor->serving.identified ? supervisor->renew_ms : 0;
}

/* Returns the ms to wait for events, or -1 for no limit. */
static int timeout_ms(const struct supervisor *supervisor)
{
	int64_t until_ms = supervisor->check_ms, renew_ms = renew_at_ms(supervisor);

	if (renew_ms && (!until_ms || renew_ms < until_ms))
		until_ms = renew_ms;
	if (!until_ms)
		return -1;
	until_ms -= clock_monotonic_ms();
	return until_ms < 0 ? 0 : (int)until_ms;
}

static bool is_due(int64_t when_ms)
{
	return when_ms && when_ms <= clock_monotonic_ms();
}

static void signal_readable(struct event_source *signals)
{
	struct supervisor *supervisor = signals->owner;
	struct signalfd_siginfo info;

	if (read(signals->fd, &info, sizeof(info)) != sizeof(info))
		return;
	supervisor->terminated = true;
	if (supervisor->child)
		(void)kill(supervisor->child, SIGTERM);
	else
		end(supervisor, SERVED_TERMINATED);
}

static int begin(struct supervisor *supervisor)
{
	int fd, err = events_create(&supervisor->events);

	if (err)
		return err;
	/* If SIGCHLD was ignored by the parent, waitpid() could not return the status. */
	signal(SIGCHLD, SIG_DFL);
	fd = signalfd(-1, supervisor->config->signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	supervisor->signals =
		(struct event_source){.fd = fd, .readable = signal_readable, .owner = supervisor};
	supervisor->ending = (struct event_source){.readable = child_readable, .owner = supervisor};
	supervisor->reports = (struct event_source){.readable = report_readable, .owner = supervisor};
	serving_init(&supervisor->serving, supervisor->config->control_path, serving_readable, supervisor);
	return events_add(supervisor->events, &supervisor->signals);
}

static int watch(struct supervisor *supervisor)
{
	check_after(supervisor, 0);
	while (!supervisor->ended) {
		int err = 0;

		if (is_due(supervisor->check_ms))
			check_now(supervisor);
		else if (is_due(renew_at_ms(supervisor)))
			renew_now(supervisor);
		else
			err = events_run_once(supervisor->events, timeout_ms(supervisor));
		if (err)
			return err;
	}
	return 0;
}

int supervisor_run(const struct supervisor_config *config)
{
	static struct supervisor supervisor; /* used by the child as well */
	int err;

	supervisor.config = config;
	if (probe_listen(&supervisor.probe, config->folder, config->instance))
		return SERVED_FAILED;
	err = begin(&supervisor);
	if (!err) {
		answer_as(&supervisor, PROBE_STARTING, "");
		err = watch(&supervisor);
	}
	if (err)
		log_error("cannot watch over the process that serves: %s", strerror(-err));
	probe_end(&supervisor.probe, config->folder);
	return err ? SERVED_FAILED : supervisor.exit_status;
}
