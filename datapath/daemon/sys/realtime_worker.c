/* SPDX-License-Identifier: Apache-2.0 */
#include "realtime_worker.h"

#include "realtime.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

struct realtime_worker {
	int fifo_priority, off_cpu;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Under the lock. */
	void (*run)(void *argument); /* NULL: nothing to do */
	void *argument;
	bool ends;
};

static void *worker_run(void *argument)
{
	struct realtime_worker *realtime_worker = argument;
	const struct sched_param param = {.sched_priority = realtime_worker->fifo_priority};

	realtime_stay_off(realtime_worker->off_cpu);
	/* Without it the thread is as good as the one that waits for it. */
	if (realtime_worker->fifo_priority > 0)
		(void)pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
	pthread_mutex_lock(&realtime_worker->lock);
	while (!realtime_worker->ends) {
		if (realtime_worker->run) {
			realtime_worker->run(realtime_worker->argument);
			realtime_worker->run = NULL;
			pthread_cond_broadcast(&realtime_worker->changed);
		}
		pthread_cond_wait(&realtime_worker->changed, &realtime_worker->lock);
	}
	pthread_mutex_unlock(&realtime_worker->lock);
	return NULL;
}

int realtime_worker_create(struct realtime_worker **created, int fifo_priority, int off_cpu)
{
	struct realtime_worker *realtime_worker = calloc(1, sizeof(*realtime_worker));
	int err;

	if (!realtime_worker)
		return -ENOMEM;
	realtime_worker->fifo_priority = fifo_priority;
	realtime_worker->off_cpu = off_cpu;
	pthread_mutex_init(&realtime_worker->lock, NULL);
	pthread_cond_init(&realtime_worker->changed, NULL);
	err = pthread_create(&realtime_worker->thread, NULL, worker_run, realtime_worker);
	if (err) {
		free(realtime_worker);
		return -err;
	}
	pthread_setname_np(realtime_worker->thread, "ktsnd-realtime_worker");
	*created = realtime_worker;
	return 0;
}

void realtime_worker_destroy(struct realtime_worker *realtime_worker)
{
	if (!realtime_worker)
		return;
	pthread_mutex_lock(&realtime_worker->lock);
	realtime_worker->ends = true;
	pthread_cond_broadcast(&realtime_worker->changed);
	pthread_mutex_unlock(&realtime_worker->lock);
	pthread_join(realtime_worker->thread, NULL);
	pthread_cond_destroy(&realtime_worker->changed);
	pthread_mutex_destroy(&realtime_worker->lock);
	free(realtime_worker);
}

void realtime_worker_run(struct realtime_worker *realtime_worker, void (*run)(void *argument), void *argument)
{
	if (!realtime_worker) {
		run(argument);
		return;
	}
	pthread_mutex_lock(&realtime_worker->lock);
	realtime_worker->run = run;
	realtime_worker->argument = argument;
	pthread_cond_broadcast(&realtime_worker->changed);
	while (realtime_worker->run)
		pthread_cond_wait(&realtime_worker->changed, &realtime_worker->lock);
	pthread_mutex_unlock(&realtime_worker->lock);
}
