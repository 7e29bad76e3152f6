/* SPDX-License-Identifier: Apache-2.0 */
#include "urgent.h"

#include "realtime.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

struct urgent {
	int fifo_priority, off_cpu;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Under the lock. */
	void (*run)(void *argument); /* NULL: nothing to do */
	void *argument;
	bool ends;
};

static void *urgent_run(void *argument)
{
	struct urgent *urgent = argument;
	const struct sched_param param = {.sched_priority = urgent->fifo_priority};

	realtime_stay_off(urgent->off_cpu);
	/* Without it the thread is as good as the one that waits for it. */
	if (urgent->fifo_priority > 0)
		(void)pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
	pthread_mutex_lock(&urgent->lock);
	while (!urgent->ends) {
		if (urgent->run) {
			urgent->run(urgent->argument);
			urgent->run = NULL;
			pthread_cond_broadcast(&urgent->changed);
		}
		pthread_cond_wait(&urgent->changed, &urgent->lock);
	}
	pthread_mutex_unlock(&urgent->lock);
	return NULL;
}

int urgent_create(struct urgent **created, int fifo_priority, int off_cpu)
{
	struct urgent *urgent = calloc(1, sizeof(*urgent));
	int err;

	if (!urgent)
		return -ENOMEM;
	urgent->fifo_priority = fifo_priority;
	urgent->off_cpu = off_cpu;
	pthread_mutex_init(&urgent->lock, NULL);
	pthread_cond_init(&urgent->changed, NULL);
	err = pthread_create(&urgent->thread, NULL, urgent_run, urgent);
	if (err) {
		free(urgent);
		return -err;
	}
	pthread_setname_np(urgent->thread, "ktsnd-urgent");
	*created = urgent;
	return 0;
}

void urgent_destroy(struct urgent *urgent)
{
	if (!urgent)
		return;
	pthread_mutex_lock(&urgent->lock);
	urgent->ends = true;
	pthread_cond_broadcast(&urgent->changed);
	pthread_mutex_unlock(&urgent->lock);
	pthread_join(urgent->thread, NULL);
	pthread_cond_destroy(&urgent->changed);
	pthread_mutex_destroy(&urgent->lock);
	free(urgent);
}

void urgent_do(struct urgent *urgent, void (*run)(void *argument), void *argument)
{
	if (!urgent) {
		run(argument);
		return;
	}
	pthread_mutex_lock(&urgent->lock);
	urgent->run = run;
	urgent->argument = argument;
	pthread_cond_broadcast(&urgent->changed);
	while (urgent->run)
		pthread_cond_wait(&urgent->changed, &urgent->lock);
	pthread_mutex_unlock(&urgent->lock);
}
