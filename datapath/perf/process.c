/* SPDX-License-Identifier: Apache-2.0 */
#include "process.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

static volatile sig_atomic_t stop_requested;

static void request_stop(int signal_number)
{
	(void)signal_number;
	stop_requested = 1;
}

bool process_stop_requested(void)
{
	return stop_requested;
}

static void catch_signals(void)
{
	/* No SA_RESTART: a signal has to end clock_nanosleep() and ppoll(). */
	struct sigaction action = {.sa_handler = request_stop};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	/* A closed reader of the output is an error to report, not a reason to die. */
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, NULL);
}

static int pin_to_cpu(int64_t cpu)
{
	cpu_set_t cpus;
	int error;

	if (cpu < 0)
		return 0;
	CPU_ZERO(&cpus);
	CPU_SET((size_t)cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus) == 0)
		return 0;
	error = -errno;
	fprintf(stderr,
		"tsnperf: cannot run on CPU %lld (%s); --cpu has to name one that this machine has and this "
		"container may use.\n",
		(long long)cpu, strerror(-error));
	return error;
}

static int use_fifo(int64_t priority)
{
	struct sched_param param = {.sched_priority = (int)priority};
	int error;

	if (priority == 0 || sched_setscheduler(0, SCHED_FIFO, &param) == 0)
		return 0;
	error = -errno;
	fprintf(stderr,
		"tsnperf: cannot use SCHED_FIFO (%s); --fifo needs CAP_SYS_NICE and, where cgroups limit "
		"real-time time, a cpu.rt_runtime_us above 0.\n",
		strerror(-error));
	return error;
}

int process_prepare(const struct process_options *options)
{
	int error;

	catch_signals();
	error = pin_to_cpu(options->cpu);
	if (!error)
		error = use_fifo(options->fifo_priority);
	/* Wake-ups of ordinary threads are otherwise delayed by up to 50 us to batch them. */
	prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
	/*
	 * Not MCL_FUTURE: under a small RLIMIT_MEMLOCK later allocations would fail. MCL_ONFAULT: records
	 * that are reserved but not yet used are not made resident.
	 */
	mlockall(MCL_CURRENT | MCL_ONFAULT);
	return error;
}
