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
	LOOK_AGAIN_MS = 100,
	/* Nobody has served for so long: whoever ended does not come back at once. */
	ALONE_MS = 1000,
	/* It has stood by for so long, and nobody told it to end: it is not the one that was replaced. */
	OUTLIVED_MS = 30000,
	/* Serving processes in a row whose predecessor had ended, or did not answer. */
	TRIES = 20,
	EXIT_SIGNALLED = 128, /* and the signal's number, as a shell has it */
};

/* What a serving process says to its supervisor, a byte each. */
enum report { REPORT_SERVING = 'S', REPORT_HANDED_OVER = 'H' };

struct supervisor {
	const struct supervisor_config *config;
	struct events *events;
	struct event_source signals;
	struct probe probe;
	struct serving serving;     /* the instance that serves, while this one does not */
	pid_t child;                /* 0: there is none */
	struct event_source ending; /* of the child: a pidfd */
	struct event_source reports;
	bool standing_by;
	bool renewed; /* once: or two would take turns for ever */
	bool told_to_end;
	bool ended;
	int exit_status;
	int tries;
	int64_t look_ms;  /* when to connect; 0: not */
	int64_t since_ms; /* when nobody was found first; 0: somebody was */
	int64_t renew_ms; /* when to be the youngest; 0: not */
};

/* Of the serving process itself; -1 where there is no supervisor. */
static int report_fd = -1;
static struct probe *own_probe;

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
	if (probe_answer(own_probe, events, PROBE_SERVING, ""))
		log_warning("cannot answer probes");
}

void supervised_handed_over(struct events *events)
{
	if (report_fd < 0)
		return;
	events_remove(events, &own_probe->listener);
	report(REPORT_HANDED_OVER);
}

static void end(struct supervisor *supervisor, int exit_status)
{
	supervisor->ended = true;
	supervisor->exit_status = exit_status;
}

/* At once, or ms from now. */
static void look(struct supervisor *supervisor, int in_ms)
{
	supervisor->look_ms = clock_monotonic_ms() + in_ms;
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

/* Its descriptors of the supervisor are closed; what they are of is not changed, because both share it. */
static void child_become(struct supervisor *supervisor, pid_t parent, int to_supervisor)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(SERVED_FAILED);
	close(supervisor->signals.fd);
	events_destroy(supervisor->events);
	supervisor->probe.listener.watched = 0;
	own_probe = &supervisor->probe;
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
	serving_leave(&supervisor->serving, supervisor->events);
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

static void again(struct supervisor *supervisor)
{
	if (++supervisor->tries > TRIES)
		end(supervisor, SERVED_FAILED);
	else
		look(supervisor, LOOK_AGAIN_MS);
}

static void child_ended(struct supervisor *supervisor, int exit_status)
{
	if (supervisor->told_to_end && exit_status >= SERVED_HANDED_OVER && exit_status < EXIT_SIGNALLED) {
		end(supervisor, SERVED_TOLD);
	} else if (exit_status == SERVED_HANDED_OVER) {
		stand_by(supervisor, "a younger ktsnd has taken over");
		look(supervisor, 0);
	} else if (exit_status == SERVED_REFUSED) {
		stand_by(supervisor, "a younger ktsnd serves");
		look(supervisor, 0);
	} else if (exit_status == SERVED_AGAIN) {
		again(supervisor);
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
		/* It ends, which shows elsewhere. */
		events_remove(supervisor->events, reports);
		return;
	}
	supervisor->tries = 0;
	if (byte == REPORT_SERVING)
		events_remove(supervisor->events, &supervisor->probe.listener);
	else
		stand_by(supervisor, "a younger ktsnd has taken over");
}

/* The one that serves has said who it is. */
static void serving_judge(struct supervisor *supervisor)
{
	const struct instance *other = &supervisor->serving.instance;
	const struct instance *own = supervisor->config->instance;

	if (supervisor->standing_by ? instance_is_older(other, own) : !instance_is_older(own, other)) {
		child_start(supervisor);
		return;
	}
	supervisor->since_ms = 0;
	stand_by(supervisor, "a younger ktsnd serves");
	serving_tell(&supervisor->serving, own->name);
}

static void serving_readable(struct event_source *connection)
{
	struct supervisor *supervisor = connection->owner;
	bool said = supervisor->serving.said;

	/* One that ends it without a word may do so again and again. */
	if (serving_read(&supervisor->serving, supervisor->events))
		look(supervisor, said ? 0 : LOOK_AGAIN_MS);
	else if (!said && supervisor->serving.said)
		serving_judge(supervisor);
}

/* Who stands by gives another the time to come. */
static void nobody_serves(struct supervisor *supervisor)
{
	int64_t now_ms = clock_monotonic_ms();

	if (!supervisor->since_ms)
		supervisor->since_ms = now_ms;
	if (!supervisor->standing_by || now_ms - supervisor->since_ms >= ALONE_MS)
		child_start(supervisor);
	else
		look(supervisor, LOOK_AGAIN_MS);
}

/* To be waited for is one that is there and accepts nobody, or sends all away: whoever started it ends it. */
static void other_ask(struct supervisor *supervisor)
{
	int err = serving_ask(&supervisor->serving, supervisor->events);

	if (err && err != -EAGAIN && err != -EPIPE && err != -ECONNRESET) {
		nobody_serves(supervisor);
		return;
	}
	supervisor->since_ms = 0;
	if (err)
		look(supervisor, LOOK_AGAIN_MS);
}

static void look_now(struct supervisor *supervisor)
{
	supervisor->look_ms = 0;
	if (!supervisor->config->take_over && !supervisor->standing_by)
		child_start(supervisor);
	else
		other_ask(supervisor);
}

/*
 * Whoever replaces pods ends the older one when the younger one serves. One that stays all the same is
 * wanted, as after a rollback in the middle of an upgrade: the younger one will be ended, as soon as this one
 * serves.
 */
static void renew_now(struct supervisor *supervisor)
{
	supervisor->renew_ms = 0;
	supervisor->renewed = true;
	log_info("stood by for %d s without being ended", OUTLIVED_MS / 1000);
	if (!instance_renew(supervisor->config->instance, supervisor->config->folder))
		child_start(supervisor);
}

/* When to be the youngest; 0: not, or not before somebody serves who says so: if nobody does, this one serves
 * next anyway. */
static int64_t renew_at_ms(const struct supervisor *supervisor)
{
	return supervisor->serving.said ? supervisor->renew_ms : 0;
}

/* For how long to wait at most; -1: for ever. */
static int timeout_ms(const struct supervisor *supervisor)
{
	int64_t until_ms = supervisor->look_ms, renew_ms = renew_at_ms(supervisor);

	if (renew_ms && (!until_ms || renew_ms < until_ms))
		until_ms = renew_ms;
	if (!until_ms)
		return -1;
	until_ms -= clock_monotonic_ms();
	return until_ms < 0 ? 0 : (int)until_ms;
}

static bool due(int64_t when_ms)
{
	return when_ms && when_ms <= clock_monotonic_ms();
}

static void signal_readable(struct event_source *signals)
{
	struct supervisor *supervisor = signals->owner;
	struct signalfd_siginfo info;

	if (read(signals->fd, &info, sizeof(info)) != sizeof(info))
		return;
	supervisor->told_to_end = true;
	if (supervisor->child)
		(void)kill(supervisor->child, SIGTERM);
	else
		end(supervisor, SERVED_TOLD);
}

static int begin(struct supervisor *supervisor)
{
	int fd, err = events_create(&supervisor->events);

	if (err)
		return err;
	/* If whoever started ktsnd ignores it, nobody is told how a child ended. */
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
	look(supervisor, 0);
	while (!supervisor->ended) {
		int err = 0;

		if (due(supervisor->look_ms))
			look_now(supervisor);
		else if (due(renew_at_ms(supervisor)))
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
	static struct supervisor supervisor; /* the child has it as well */
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
