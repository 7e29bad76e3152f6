/* SPDX-License-Identifier: Apache-2.0 */
#include "pod_thread.h"

#include "clock.h"
#include "container_of.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/capability.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	/* The code here needs little stack, but memory debuggers need more. */
	STACK_BYTES = 256 << 10,
	/* A work that takes this long is blocked by its pod: its system call is interrupted. Works of removed
	 * pods are interrupted at once. */
	HELD_MS = 2000,
	CHECK_MS = 100,
	CHECK_REMOVED_MS = 10,
	/* A close() of a removed pod that takes this long cannot be interrupted. */
	STUCK_MS = 1000,
	/* The most threads that may stay blocked. */
	STUCK_MAX = 256,
	/* Timeout for works and threads to end, and the interval of checks. */
	END_TIMEOUT_MS = 3000,
	END_CHECK_MS = 5,
};

struct work_queue {
	struct pod_work *first, **last;
};

struct pod_threads {
	struct events *events;
	struct event_source reports;
	int64_t check_ms;       /* time of the next check for long works; control thread */
	_Atomic uint32_t works; /* unfinished works of all threads */
	pthread_mutex_t lock;   /* may be held when a thread's is taken */
	/* Under the lock. */
	struct work_queue finished;
	struct pod_thread *first;
	uint32_t workers, stuck;
};

/* A POSIX thread that does a pod's works. */
struct worker {
	struct pod_thread *thread;
	/* Under the thread's lock. */
	pid_t tid;        /* 0: not started yet */
	int64_t since_ms; /* when it began its work; 0: idle */
	bool closes;      /* as pod_thread_closes() */
	bool replaced;    /* another worker does the remaining works */
	struct worker *next;
};

struct pod_thread {
	struct pod_threads *all;
	struct pod_thread *next; /* under the lock of all */
	uint32_t users;          /* the control thread's */
	_Atomic uint32_t backlog;
	pthread_mutex_t lock;
	pthread_cond_t work_added;
	/* Under the lock. */
	struct work_queue queue;
	struct worker *workers; /* the first does the works; the others end after their present work */
	int64_t removed_ms;     /* when the pod was removed; 0: it was not */
	bool ends;
};

static _Thread_local struct worker *self; /* NULL in other threads */

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

/* ---- finished works, in the control thread ---- */

void pod_threads_serve(struct pod_threads *threads)
{
	struct pod_work *work;

	pthread_mutex_lock(&threads->lock);
	while ((work = queue_pop(&threads->finished))) {
		pthread_mutex_unlock(&threads->lock);
		work->done(work);
		pthread_mutex_lock(&threads->lock);
	}
	pthread_mutex_unlock(&threads->lock);
}

static void reports_readable(struct event_source *source)
{
	uint64_t count;

	/* Clear the eventfd before reading the list, so that no new work is missed. */
	(void)!read(source->fd, &count, sizeof(count));
	pod_threads_serve(source->owner);
}

/* The handler is empty: the signal only ends the system call. */
static void interrupted(int signal)
{
	(void)signal;
}

static int interrupting_signal(void)
{
	return SIGRTMIN + 1;
}

int pod_threads_create(struct pod_threads **created, struct events *events)
{
	/* No SA_RESTART: system calls must end. */
	const struct sigaction action = {.sa_handler = interrupted};
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
	queue_init(&threads->finished);
	pthread_mutex_init(&threads->lock, NULL);
	sigaction(interrupting_signal(), &action, NULL);
	*created = threads;
	return 0;
}

static bool any_worker(struct pod_threads *threads)
{
	bool lives;

	pthread_mutex_lock(&threads->lock);
	lives = threads->workers > 0;
	pthread_mutex_unlock(&threads->lock);
	return lives;
}

/* Waits while `pending` returns true. Returns false after the timeout. */
static bool end_wait(struct pod_threads *threads, bool (*pending)(struct pod_threads *threads))
{
	bool unfinished = true;

	for (int ms = 0; unfinished && ms < END_TIMEOUT_MS; ms += END_CHECK_MS) {
		(void)pod_threads_tick(threads);
		unfinished = pending(threads);
		pod_threads_serve(threads);
		if (unfinished)
			usleep(END_CHECK_MS * 1000);
	}
	return !unfinished;
}

static bool any_work(struct pod_threads *threads)
{
	return atomic_load(&threads->works) > 0;
}

void pod_threads_settle(struct pod_threads *threads)
{
	pthread_mutex_lock(&threads->lock);
	for (struct pod_thread *thread = threads->first; thread; thread = thread->next)
		pod_thread_removed(thread);
	pthread_mutex_unlock(&threads->lock);
	(void)end_wait(threads, any_work);
}

void pod_threads_destroy(struct pod_threads *threads)
{
	bool ended;

	if (!threads)
		return;
	/* A work may be the last user of its thread. */
	ended = end_wait(threads, any_worker);
	events_remove(threads->events, &threads->reports);
	/* A blocked thread still uses the memory; ktsnd ends now. */
	if (!ended)
		return;
	close(threads->reports.fd);
	pthread_mutex_destroy(&threads->lock);
	free(threads);
}

/* ---- a pod's thread ---- */

/* The thread uses open descriptors only, which needs no privilege. */
static void capabilities_drop(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

	(void)syscall(SYS_capset, &header, none);
}

/* Returns the next work, or NULL when the worker must end. */
static struct pod_work *work_wait(struct worker *worker)
{
	struct pod_thread *thread = worker->thread;
	struct pod_work *work = NULL;

	pthread_mutex_lock(&thread->lock);
	worker->since_ms = 0;
	while (thread->workers == worker && !(work = queue_pop(&thread->queue)) && !thread->ends)
		pthread_cond_wait(&thread->work_added, &thread->lock);
	if (work)
		worker->since_ms = clock_monotonic_ms();
	pthread_mutex_unlock(&thread->lock);
	return work;
}

/* Passes a work to the control thread for done(). */
static void work_report(struct pod_threads *all, struct pod_work *work)
{
	pthread_mutex_lock(&all->lock);
	queue_push(&all->finished, work);
	pthread_mutex_unlock(&all->lock);
	(void)eventfd_write(all->reports.fd, 1);
}

static void thread_free(struct pod_thread *thread)
{
	pthread_mutex_destroy(&thread->lock);
	pthread_cond_destroy(&thread->work_added);
	free(thread);
}

static void worker_unlink(struct worker *worker)
{
	struct worker **at = &worker->thread->workers;

	while (*at != worker)
		at = &(*at)->next;
	*at = worker->next;
}

/* Frees the worker, and its thread with the last worker. */
static void worker_end(struct worker *worker)
{
	struct pod_thread *thread = worker->thread, **at;
	struct pod_threads *all = thread->all;
	bool last;

	/* The lock of all prevents others from reading a freed thread. */
	pthread_mutex_lock(&all->lock);
	pthread_mutex_lock(&thread->lock);
	worker_unlink(worker);
	last = !thread->workers;
	pthread_mutex_unlock(&thread->lock);
	for (at = &all->first; last && *at != thread; at = &(*at)->next)
		;
	if (last)
		*at = thread->next;
	all->workers--;
	all->stuck -= worker->replaced;
	pthread_mutex_unlock(&all->lock);
	if (last)
		thread_free(thread);
	free(worker);
}

static void *worker_run(void *argument)
{
	struct worker *worker = argument;
	struct pod_thread *thread = worker->thread;
	struct pod_work *work;

	self = worker;
	capabilities_drop();
	pthread_mutex_lock(&thread->lock);
	worker->tid = gettid();
	pthread_mutex_unlock(&thread->lock);
	while ((work = work_wait(worker))) {
		/* run() may free the work. */
		bool reports = work->done != NULL;

		work->run(work);
		/* Before the report, whose receiver may read the backlog. */
		atomic_fetch_sub_explicit(&thread->backlog, 1, memory_order_relaxed);
		if (reports)
			work_report(thread->all, work);
		atomic_fetch_sub(&thread->all->works, 1);
	}
	worker_end(worker);
	return NULL;
}

/* Starts a worker, which becomes the first. Both locks must be held. 0 or -errno. */
static int worker_start(struct pod_thread *thread)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	pthread_attr_t attributes;
	pthread_t created;
	int err;

	if (!worker)
		return -ENOMEM;
	worker->thread = thread;
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	err = pthread_create(&created, &attributes, worker_run, worker);
	pthread_attr_destroy(&attributes);
	if (err) {
		free(worker);
		return -err;
	}
	worker->next = thread->workers;
	thread->workers = worker;
	thread->all->workers++;
	return 0;
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
	pthread_cond_init(&thread->work_added, NULL);
	pthread_mutex_lock(&threads->lock);
	pthread_mutex_lock(&thread->lock);
	err = worker_start(thread);
	pthread_mutex_unlock(&thread->lock);
	if (!err) {
		thread->next = threads->first;
		threads->first = thread;
	}
	pthread_mutex_unlock(&threads->lock);
	if (err)
		thread_free(thread);
	else
		*started = thread;
	return err;
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
	pthread_cond_signal(&thread->work_added);
	/* The thread may be freed after this. */
	pthread_mutex_unlock(&thread->lock);
}

void pod_thread_do(struct pod_thread *thread, struct pod_work *work)
{
	atomic_fetch_add(&thread->all->works, 1);
	atomic_fetch_add_explicit(&thread->backlog, 1, memory_order_relaxed);
	pthread_mutex_lock(&thread->lock);
	queue_push(&thread->queue, work);
	pthread_cond_signal(&thread->work_added);
	pthread_mutex_unlock(&thread->lock);
}

uint32_t pod_thread_backlog(const struct pod_thread *thread)
{
	return atomic_load_explicit(&thread->backlog, memory_order_relaxed);
}

/* ---- works that take long ---- */

void pod_thread_removed(struct pod_thread *thread)
{
	pthread_mutex_lock(&thread->lock);
	if (!thread->removed_ms)
		thread->removed_ms = clock_monotonic_ms();
	pthread_mutex_unlock(&thread->lock);
	thread->all->check_ms = 0;
}

/* Interrupts blocked system calls. A thread that has not entered its call yet is interrupted the next time.
 */
static void workers_interrupt(const struct pod_thread *thread)
{
	for (const struct worker *worker = thread->workers; worker; worker = worker->next)
		if (worker->since_ms && worker->tid)
			(void)syscall(SYS_tgkill, getpid(), worker->tid, interrupting_signal());
}

/* Starts another worker for the remaining works: the close() of the first may be waiting for one of them. */
static void worker_replace(struct pod_thread *thread)
{
	struct worker *stuck = thread->workers;

	if (thread->all->stuck == STUCK_MAX || worker_start(thread))
		return;
	stuck->replaced = true;
	thread->all->stuck++;
}

/* Returns since when the longest call has been running; 0: none. Under the thread's lock. */
static int64_t busy_since_ms(const struct pod_thread *thread)
{
	int64_t since_ms = 0;

	for (const struct worker *worker = thread->workers; worker; worker = worker->next)
		if (worker->since_ms && (!since_ms || worker->since_ms < since_ms))
			since_ms = worker->since_ms;
	return since_ms;
}

/* Returns whether the thread must be checked again soon. The lock of all must be held. */
static bool thread_check(struct pod_thread *thread, int64_t now_ms)
{
	const struct worker *newest;
	bool busy_removed;
	int64_t since_ms;

	pthread_mutex_lock(&thread->lock);
	since_ms = busy_since_ms(thread);
	busy_removed = thread->removed_ms && since_ms;
	if (busy_removed || (since_ms && now_ms - since_ms >= HELD_MS))
		workers_interrupt(thread);
	newest = thread->workers;
	/* A worker is replaced only once: its replacement ends when the queue is empty, and the worker is the
	 * newest again. */
	if (busy_removed && newest->since_ms && newest->closes && !newest->replaced &&
	    now_ms - newest->since_ms >= STUCK_MS && now_ms - thread->removed_ms >= STUCK_MS)
		worker_replace(thread);
	pthread_mutex_unlock(&thread->lock);
	return busy_removed;
}

int pod_threads_tick(struct pod_threads *threads)
{
	int64_t now_ms;
	bool soon = false;

	if (!any_work(threads))
		return -1;
	now_ms = clock_monotonic_ms();
	if (now_ms < threads->check_ms)
		return (int)(threads->check_ms - now_ms);
	pthread_mutex_lock(&threads->lock);
	for (struct pod_thread *thread = threads->first; thread; thread = thread->next)
		soon |= thread_check(thread, now_ms);
	pthread_mutex_unlock(&threads->lock);
	threads->check_ms = now_ms + (soon ? CHECK_REMOVED_MS : CHECK_MS);
	return soon ? CHECK_REMOVED_MS : CHECK_MS;
}

/* ---- closing ---- */

bool pod_thread_closes(bool closes)
{
	bool replaced;

	if (!self)
		return false;
	pthread_mutex_lock(&self->thread->lock);
	self->closes = closes;
	replaced = self->replaced;
	pthread_mutex_unlock(&self->thread->lock);
	return replaced;
}

void pod_thread_close_now(int fd)
{
	if (fd < 0)
		return;
	(void)pod_thread_closes(true);
	/* The descriptor is released even when close() is interrupted. */
	close(fd);
	(void)pod_thread_closes(false);
}

struct closing {
	struct pod_work work;
	int fd;
};

static void closing_run(struct pod_work *work)
{
	struct closing *closing = container_of(work, struct closing, work);

	pod_thread_close_now(closing->fd);
	free(closing);
}

void pod_thread_close(struct pod_thread *thread, int fd)
{
	struct closing *closing = fd < 0 ? NULL : malloc(sizeof(*closing));

	/* Without memory the descriptor leaks. */
	if (!closing)
		return;
	*closing = (struct closing){.work.run = closing_run, .fd = fd};
	pod_thread_do(thread, &closing->work);
}
