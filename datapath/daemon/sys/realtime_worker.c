/* SPDX-License-Identifier: Apache-2.0 */
#include "realtime_worker.h"

#include "realtime.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

struct realtime_worker {
	struct realtime_worker_config config;
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
	struct realtime_worker *worker = argument;
	const struct sched_param param = {.sched_priority = worker->config.fifo_priority};

	realtime_stay_off(worker->config.off_cpu);
	/* Without real-time scheduling the worker is no better than its caller. */
	if (worker->config.fifo_priority > 0)
		(void)pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
	if (worker->config.nice)
		(void)setpriority(PRIO_PROCESS, (id_t)gettid(), worker->config.nice);
	pthread_mutex_lock(&worker->lock);
	while (!worker->ends) {
		if (worker->run) {
			worker->run(worker->argument);
			worker->run = NULL;
			pthread_cond_broadcast(&worker->changed);
		}
		pthread_cond_wait(&worker->changed, &worker->lock);
	}
	pthread_mutex_unlock(&worker->lock);
	return NULL;
}

int realtime_worker_create(struct realtime_worker **created, const struct realtime_worker_config *config)
{
	struct realtime_worker *worker = calloc(1, sizeof(*worker));
	int err;

	if (!worker)
		return -ENOMEM;
	worker->config = *config;
	pthread_mutex_init(&worker->lock, NULL);
	pthread_cond_init(&worker->changed, NULL);
	err = pthread_create(&worker->thread, NULL, worker_run, worker);
	if (err) {
		free(worker);
		return -err;
	}
	pthread_setname_np(worker->thread, config->name);
	*created = worker;
	return 0;
}

void realtime_worker_destroy(struct realtime_worker *worker)
{
	if (!worker)
		return;
	pthread_mutex_lock(&worker->lock);
	worker->ends = true;
	pthread_cond_broadcast(&worker->changed);
	pthread_mutex_unlock(&worker->lock);
	pthread_join(worker->thread, NULL);
	pthread_cond_destroy(&worker->changed);
	pthread_mutex_destroy(&worker->lock);
	free(worker);
}

void realtime_worker_run(struct realtime_worker *worker, void (*run)(void *argument), void *argument)
{
	if (!worker) {
		run(argument);
		return;
	}
	pthread_mutex_lock(&worker->lock);
	worker->run = run;
	worker->argument = argument;
	pthread_cond_broadcast(&worker->changed);
	while (worker->run)
		pthread_cond_wait(&worker->changed, &worker->lock);
	pthread_mutex_unlock(&worker->lock);
}
