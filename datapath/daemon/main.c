/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktsnd: sends the timed datagrams of a node's pods, each at its transmit time (daemon.h). With
 * --instance-dir a supervisor (instance/supervisor.c) starts the process that does so, again if need be.
 */
#include "daemon.h"
#include "log.h"
#include "privileges.h"
#include "realtime.h"
#include "ring_support.h"
#include "supervisor.h"
#include "unix_socket.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

struct program {
	struct options options;
	struct instance instance;
	sigset_t told_to_end; /* blocked */
};

/* Each application takes three descriptors. */
static void descriptors_allow(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* Blocked here, before any thread is made, so that all of them inherit it. */
static void signals_block(sigset_t *signals)
{
	sigemptyset(signals);
	sigaddset(signals, SIGINT);
	sigaddset(signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, signals, NULL);
	/* Who writes to somebody that has gone, DPDK among them, hears of it by the error. */
	signal(SIGPIPE, SIG_IGN);
}

/* Before anything is started, so that a second daemon fails at once and disturbs nothing. */
static int control_check(const struct options *options)
{
	if (options->take_over || !unix_is_listened_at(options->control_path))
		return 0;
	log_error("--control %s: %s", options->control_path, unix_listen_advice(-EADDRINUSE));
	return -EADDRINUSE;
}

/* One that had begun to take over, and whose predecessor ended or did not answer, begins anew; and so does
 * one that found the control socket bound by another that had begun meanwhile. */
static enum served served_as(const struct program *program, bool handed_over, int err)
{
	if (handed_over)
		return SERVED_HANDED_OVER;
	if (!err)
		return SERVED_TOLD;
	if (err == -EALREADY)
		return SERVED_REFUSED;
	return program->options.take_over && (err == -ECONNRESET || err == -EPIPE || err == -ETIMEDOUT ||
					      err == -EADDRINUSE)
		       ? SERVED_AGAIN
		       : SERVED_FAILED;
}

static void __attribute__((noreturn)) serve_supervised(void *context)
{
	const struct program *program = context;
	bool handed_over;
	int err = daemon_serve(&program->options, &program->instance, &program->told_to_end, &handed_over);

	exit((int)served_as(program, handed_over, err));
}

static int supervise(struct program *program)
{
	const struct supervisor_config config = {
		.folder = program->options.instance_dir,
		.control_path = program->options.control_path,
		.instance = &program->instance,
		.take_over = program->options.take_over,
		.signals = &program->told_to_end,
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
	err = daemon_serve(&program->options, &program->instance, &program->told_to_end, &handed_over);
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
	/* The threads of pods allocate next to nothing: no address space of 64 MiB for each. */
	(void)mallopt(M_ARENA_MAX, 1);
	if (privileges_check() || privileges_limit() || ring_support_check() ||
	    control_check(&program.options))
		return 1;
	descriptors_allow();
	signals_block(&program.told_to_end);
	return run(&program);
}
