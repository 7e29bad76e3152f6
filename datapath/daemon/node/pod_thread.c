/* SPDX-License-Identifier: Apache-2.0 */
#include "pod_thread.h"

#include "container_of.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/capability.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	/* What runs here needs little; a debugger of memory wants more than that. */
	STACK_BYTES = 256 << 10,
	/* For threads to end, and how often their works are looked after meanwhile. */
	END_TIMEOUT_MS = 1000,
	END_LOOK_MS = 5,
};

struct work_queue {
	struct pod_work *first, **last;
};

struct pod_threads {
	struct events *events;
	struct event_source reports;
	pthread_mutex_t lock;
	/* Under the lock. */
	struct work_queue ran;
	uint32_t live;
};

struct pod_thread {
	struct pod_threads *all;
	uint32_t users; /* the control thread's */
	_Atomic uint32_t backlog;
	pthread_mutex_t lock;
	pthread_cond_t wanted;
	/* Under the lock. */
	struct work_queue queue;
	bool ends;
};

static void queue_init(struct work_queue *queue)
{
	queue->first = NULL;
	queue->last = &queue->first;
}

static void queue_push(struct work_queue *queue, struct pod_work *work)
{
	work->next = NULL;
	*queue->last = work;
	queue->last = &work->next;
}

static struct pod_work *queue_pop(struct work_queue *queue)
{
	struct pod_work *work = queue->first;

	if (!work)
		return NULL;
	queue->first = work->next;
	if (!queue->first)
		queue->last = &queue->first;
	return work;
}

/* ---- the control thread, told by the others ---- */

void pod_threads_serve(struct pod_threads *threads)
{
	struct pod_work *work;

	pthread_mutex_lock(&threads->lock);
	while ((work = queue_pop(&threads->ran))) {
		pthread_mutex_unlock(&threads->lock);
		work->done(work);
		pthread_mutex_lock(&threads->lock);
	}
	pthread_mutex_unlock(&threads->lock);
}

static void reports_readable(struct event_source *source)
{
	uint64_t count;

	/* Before the works are looked at, so that one that comes meanwhile is not overlooked. */
	(void)!read(source->fd, &count, sizeof(count));
	pod_threads_serve(source->owner);
}

int pod_threads_create(struct pod_threads **created, struct events *events)
{
	struct pod_threads *threads = calloc(1, sizeof(*threads));
	int fd, err;

	if (!threads)
		return -ENOMEM;
	fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fd < 0) {
		err = -errno;
		free(threads);
		return err;
	}
	threads->events = events;
	threads->reports = (struct event_source){.fd = fd, .readable = reports_readable, .owner = threads};
	err = events_add(events, &threads->reports);
	if (err) {
		close(fd);
		free(threads);
		return err;
	}
	queue_init(&threads->ran);
	pthread_mutex_init(&threads->lock, NULL);
	*created = threads;
	return 0;
}

static bool any_lives(struct pod_threads *threads)
{
	bool lives;

	pthread_mutex_lock(&threads->lock);
	lives = threads->live > 0;
	pthread_mutex_unlock(&threads->lock);
	return lives;
}

void pod_threads_destroy(struct pod_threads *threads)
{
	if (!threads)
		return;
	/* A work may be the last user of its thread. */
	for (int ms = 0; ms < END_TIMEOUT_MS && any_lives(threads); ms += END_LOOK_MS) {
		usleep(END_LOOK_MS * 1000);
		pod_threads_serve(threads);
	}
	events_remove(threads->events, &threads->reports);
	/* One that is held up still has use for the rest; ktsnd ends now. */
	if (any_lives(threads))
		return;
	close(threads->reports.fd);
	pthread_mutex_destroy(&threads->lock);
	free(threads);
}

/* ---- a pod's thread ---- */

/* It uses what is open; nothing that it does takes a privilege. */
static void capabilities_drop(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

	(void)syscall(SYS_capset, &header, none);
}

static struct pod_work *work_await(struct pod_thread *thread)
{
	struct pod_work *work;

	pthread_mutex_lock(&thread->lock);
	while (!(work = queue_pop(&thread->queue)) && !thread->ends)
		pthread_cond_wait(&thread->wanted, &thread->lock);
	pthread_mutex_unlock(&thread->lock);
	return work;
}

static void report(struct pod_threads *all, struct pod_work *work)
{
	const uint64_t one = 1;

	pthread_mutex_lock(&all->lock);
	queue_push(&all->ran, work);
	pthread_mutex_unlock(&all->lock);
	(void)!write(all->reports.fd, &one, sizeof(one));
}

static void live_add(struct pod_threads *all, int count)
{
	pthread_mutex_lock(&all->lock);
	all->live += (uint32_t)count;
	pthread_mutex_unlock(&all->lock);
}

static void thread_end(struct pod_thread *thread)
{
	struct pod_threads *all = thread->all;

	pthread_mutex_destroy(&thread->lock);
	pthread_cond_destroy(&thread->wanted);
	free(thread);
	live_add(all, -1);
}

static void *thread_run(void *argument)
{
	struct pod_thread *thread = argument;
	struct pod_work *work;

	capabilities_drop();
	while ((work = work_await(thread))) {
		/* run() may free it. */
		bool reports = work->done != NULL;

		work->run(work);
		atomic_fetch_sub_explicit(&thread->backlog, 1, memory_order_relaxed);
		if (reports)
			report(thread->all, work);
	}
	thread_end(thread);
	return NULL;
}

static int thread_create(struct pod_thread *thread)
{
	pthread_attr_t attributes;
	pthread_t created;
	int err;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	live_add(thread->all, 1);
	err = pthread_create(&created, &attributes, thread_run, thread);
	if (err)
		live_add(thread->all, -1);
	pthread_attr_destroy(&attributes);
	return -err;
}

int pod_thread_start(struct pod_threads *threads, struct pod_thread **started)
{
	struct pod_thread *thread = calloc(1, sizeof(*thread));
	int err;

	if (!thread)
		return -ENOMEM;
	thread->all = threads;
	thread->users = 1;
	queue_init(&thread->queue);
	pthread_mutex_init(&thread->lock, NULL);
	pthread_cond_init(&thread->wanted, NULL);
	err = thread_create(thread);
	if (err) {
		free(thread);
		return err;
	}
	*started = thread;
	return 0;
}

void pod_thread_get(struct pod_thread *thread)
{
	thread->users++;
}

void pod_thread_put(struct pod_thread *thread)
{
	if (!thread || --thread->users > 0)
		return;
	pthread_mutex_lock(&thread->lock);
	thread->ends = true;
	pthread_cond_signal(&thread->wanted);
	/* It may be gone after this. */
	pthread_mutex_unlock(&thread->lock);
}

void pod_thread_do(struct pod_thread *thread, struct pod_work *work)
{
	atomic_fetch_add_explicit(&thread->backlog, 1, memory_order_relaxed);
	pthread_mutex_lock(&thread->lock);
	queue_push(&thread->queue, work);
	pthread_cond_signal(&thread->wanted);
	pthread_mutex_unlock(&thread->lock);
}

uint32_t pod_thread_backlog(const struct pod_thread *thread)
{
	return atomic_load_explicit(&thread->backlog, memory_order_relaxed);
}

/* ---- closing ---- */

struct closing {
	struct pod_work work;
	int fd;
};

static void closing_run(struct pod_work *work)
{
	struct closing *closing = container_of(work, struct closing, work);

	close(closing->fd);
	free(closing);
}

void pod_thread_close(struct pod_thread *thread, int fd)
{
	struct closing *closing = fd < 0 ? NULL : malloc(sizeof(*closing));

	/* Without memory it stays open: the lesser evil. */
	if (!closing)
		return;
	*closing = (struct closing){.work.run = closing_run, .fd = fd};
	pod_thread_do(thread, &closing->work);
}
