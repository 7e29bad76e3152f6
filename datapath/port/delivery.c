/* SPDX-License-Identifier: Apache-2.0 */
#include "delivery.h"

#include "receiver_quota.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
	/* Room for all messages of an application's ring, of the longest that an ordinary link allows.
	 * Several times the default buffer of a receiver's socket. */
	QUEUE_BYTES = 512 << 10,
	/* An empty queue restarts at its beginning once this much of it has been used, so that a queue that
	 * is never full stays in the processor's cache. Longer than any frame. */
	REWIND_BYTES = 64 << 10,
	ENTRY_ALIGN_BYTES = 8,
#ifdef __SANITIZE_THREAD__
	STACK_BYTES = 2 << 20, /* the sanitizer keeps much data on each thread's stack */
#else
	STACK_BYTES = 256 << 10,
#endif
	LINE_BYTES = 64,
	/* If a frame takes longer, the thread may have been preempted, and its waiting time is read. */
	SUSPICIOUS_NS = 20000,
	POLL_NS = 50000,
	/* How long a thread that was woken for an expected frame polls for it: a little longer than the loop
	 * is awake before a departure. */
	EXPECT_NS = 200000,
	END_TIMEOUT_NS = 1000000000,
};

/* Header of each frame in a queue. */
struct entry {
	uint32_t bytes; /* of the frame; 0: the rest of the queue up to its end is unused */
	uint32_t link_index;
	int64_t queued_ns; /* on CLOCK_MONOTONIC */
};

struct delivery {
	struct ktsn_port_receiver receiver;
	struct ktsn_deliveries *all;
	struct delivery *next; /* in the list of all; control thread only */
	uint8_t *queue, *stack;
	pthread_t thread;
	int event_fd; /* wakes the thread, which closes it */
	/* The thread has been asked to end; it has ended. */
	_Atomic bool ends, ended;
	/* Total of bytes that were written and read. */
	alignas(LINE_BYTES) _Atomic uint64_t tail; /* written by the loop */
	alignas(LINE_BYTES) _Atomic uint64_t head; /* written by the thread */
	_Atomic bool sleeps;                       /* the thread sleeps, and the loop must wake it */
	/* Used by the thread only. */
	alignas(LINE_BYTES) struct ktsn_receiver_quota quota;
	int schedstat_fd;
	int64_t waited_ns; /* total time that the thread waited for a processor; -1: unknown */
};

struct ktsn_deliveries {
	struct ktsn_delivery_config config;
	pthread_mutex_t lock; /* protects the event_fd of threads that end */
	struct delivery *first;
	_Atomic bool held;
	_Atomic uint64_t delivered, failed, limited, cost_ns;
	alignas(LINE_BYTES) _Atomic uint64_t queued; /* total of frames; written by the loop */
};

static struct delivery *delivery_of(struct ktsn_port_receiver *receiver)
{
	return (struct delivery *)receiver;
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void wake(const struct delivery *delivery)
{
	(void)eventfd_write(delivery->event_fd, 1);
}

/* ---- the loop ---- */

static void wake_if_asleep(struct delivery *delivery)
{
	if (!atomic_load_explicit(&delivery->sleeps, memory_order_seq_cst))
		return;
	atomic_store_explicit(&delivery->sleeps, false, memory_order_relaxed);
	wake(delivery);
}

static struct entry *entry_at(const struct delivery *delivery, uint64_t position)
{
	return (struct entry *)(void *)(delivery->queue + position % QUEUE_BYTES);
}

static uint64_t entry_bytes(uint32_t frame_bytes)
{
	return (sizeof(struct entry) + frame_bytes + ENTRY_ALIGN_BYTES - 1) / ENTRY_ALIGN_BYTES *
	       ENTRY_ALIGN_BYTES;
}

/* How many bytes to leave unused at the end of the queue, because each frame is contiguous. */
static uint64_t skipped_bytes(uint64_t head, uint64_t tail, uint64_t needed_bytes)
{
	uint64_t at = tail % QUEUE_BYTES, left = QUEUE_BYTES - at;

	return left < needed_bytes || (head == tail && at >= REWIND_BYTES) ? left : 0;
}

int ktsn_delivery_put(struct ktsn_port_receiver *receiver, const struct ktsn_port_frame *frame)
{
	struct delivery *delivery = delivery_of(receiver);
	_Atomic uint64_t *queued = &delivery->all->queued;
	uint64_t tail = atomic_load_explicit(&delivery->tail, memory_order_relaxed);
	/* Pairs with the release in queue_pop(): bytes that were read may be overwritten. */
	uint64_t head = atomic_load_explicit(&delivery->head, memory_order_acquire);
	uint64_t bytes = entry_bytes(frame->bytes), skipped = skipped_bytes(head, tail, bytes);
	struct entry *entry;

	if (skipped + bytes > QUEUE_BYTES - (tail - head))
		return -ENOBUFS;
	if (skipped)
		entry_at(delivery, tail)->bytes = 0;
	entry = entry_at(delivery, tail + skipped);
	*entry =
		(struct entry){.bytes = frame->bytes, .link_index = frame->link_index, .queued_ns = now_ns()};
	memcpy(entry + 1, frame->data, frame->bytes);
	atomic_store_explicit(queued, atomic_load_explicit(queued, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	/* Before the load of `sleeps`: either the thread sees the frame, or the loop sees that it sleeps.
	 * sleep_until_frame() has the opposite order. */
	atomic_store_explicit(&delivery->tail, tail + skipped + bytes, memory_order_seq_cst);
	wake_if_asleep(delivery);
	return 0;
}

void ktsn_delivery_expect(struct ktsn_port_receiver *receiver)
{
	wake_if_asleep(delivery_of(receiver));
}

/* ---- the receiver's thread ---- */

static bool is_empty(const struct delivery *delivery)
{
	return atomic_load_explicit(&delivery->tail, memory_order_seq_cst) ==
	       atomic_load_explicit(&delivery->head, memory_order_relaxed);
}

/* The next frame, which stays in the queue; NULL: there is none. */
static const struct entry *queue_first(struct delivery *delivery)
{
	uint64_t head = atomic_load_explicit(&delivery->head, memory_order_relaxed);

	/* Pairs with the store in ktsn_delivery_put(). */
	if (head == atomic_load_explicit(&delivery->tail, memory_order_acquire))
		return NULL;
	if (!entry_at(delivery, head)->bytes) {
		head += QUEUE_BYTES - head % QUEUE_BYTES;
		atomic_store_explicit(&delivery->head, head, memory_order_release);
	}
	return entry_at(delivery, head);
}

static void queue_pop(struct delivery *delivery, const struct entry *entry)
{
	uint64_t head = atomic_load_explicit(&delivery->head, memory_order_relaxed);

	atomic_store_explicit(&delivery->head, head + entry_bytes(entry->bytes), memory_order_release);
}

/* How long the thread has been runnable without running (schedstat, as in daemon/loop/wait.c). */
static int64_t waited_read(const struct delivery *delivery)
{
	char text[96];
	long long ran_ns, waited_ns;
	ssize_t bytes =
		delivery->schedstat_fd < 0 ? -1 : pread(delivery->schedstat_fd, text, sizeof(text) - 1, 0);

	if (bytes <= 0)
		return -1;
	text[bytes] = '\0';
	return sscanf(text, "%lld %lld", &ran_ns, &waited_ns) == 2 && ran_ns > 0 ? waited_ns : -1;
}

/* The cost of a frame: the elapsed time, less the time in which the thread waited for a processor. The
 * thread's own processor time is not enough: a kernel may not charge soft interrupts to the thread that they
 * run in, and these are the cost of receiving. Other interrupts of the machine meanwhile are charged as well
 * (receiver_quota.h). */
static int64_t cost_of(struct delivery *delivery, int64_t took_ns)
{
	int64_t before_ns = delivery->waited_ns;

	if (took_ns <= SUSPICIOUS_NS)
		return took_ns;
	delivery->waited_ns = waited_read(delivery);
	if (before_ns < 0 || delivery->waited_ns < 0)
		return took_ns;
	took_ns -= delivery->waited_ns - before_ns;
	return took_ns > SUSPICIOUS_NS ? took_ns : SUSPICIOUS_NS;
}

static void frame_send(struct delivery *delivery, const struct entry *entry)
{
	struct ktsn_deliveries *all = delivery->all;
	int64_t began_ns = now_ns(), cost_ns;
	int err = all->config.send(all->config.context, entry->link_index, (const uint8_t *)(entry + 1),
				   entry->bytes);

	cost_ns = cost_of(delivery, now_ns() - began_ns);
	ktsn_receiver_quota_charge(&delivery->quota, cost_ns);
	atomic_fetch_add_explicit(err ? &all->failed : &all->delivered, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&all->cost_ns, (uint64_t)cost_ns, memory_order_relaxed);
}

static void event_wait(struct delivery *delivery, int64_t timeout_ns)
{
	struct pollfd event = {.fd = delivery->event_fd, .events = POLLIN};
	struct timespec timeout = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
	uint64_t count;

	if (ppoll(&event, 1, timeout_ns < 0 ? NULL : &timeout, NULL) > 0)
		(void)!read(delivery->event_fd, &count, sizeof(count));
	/* The time of this sleep must not be subtracted from the cost of the next frame. */
	delivery->waited_ns = waited_read(delivery);
}

/* Polls for the expected frame. The receiver is charged for this as well. */
static void stay_awake(struct delivery *delivery)
{
	int64_t began_ns = now_ns(), at_ns = began_ns;

	(void)ktsn_receiver_quota_wait_ns(&delivery->quota, began_ns);
	if (!ktsn_receiver_quota_spare(&delivery->quota))
		return;
	while (is_empty(delivery) && !atomic_load(&delivery->ends) && at_ns - began_ns < EXPECT_NS)
		at_ns = now_ns();
	delivery->quota.balance_ns -= at_ns - began_ns;
}

static void sleep_until_frame(struct delivery *delivery)
{
	atomic_store_explicit(&delivery->sleeps, true, memory_order_seq_cst);
	if (is_empty(delivery) && !atomic_load(&delivery->ends))
		event_wait(delivery, -1);
	atomic_store_explicit(&delivery->sleeps, false, memory_order_relaxed);
	if (is_empty(delivery))
		stay_awake(delivery);
}

/* Waits for the receiver's quota. False: the frame must be dropped. */
static bool may_send(struct delivery *delivery, int64_t queued_ns)
{
	const int64_t stale_after_ns = delivery->all->config.stale_after_ns;
	bool limited = false;

	while (now_ns() - queued_ns < stale_after_ns) {
		bool ends = atomic_load(&delivery->ends);
		int64_t wait_ns = ktsn_receiver_quota_wait_ns(&delivery->quota, now_ns());

		if (atomic_load(&delivery->all->held))
			wait_ns = POLL_NS;
		else if (!wait_ns)
			return true;
		else if (!limited)
			atomic_fetch_add_explicit(&delivery->all->limited, 1, memory_order_relaxed);
		if (ends)
			return false;
		limited = true;
		event_wait(delivery, wait_ns < stale_after_ns ? wait_ns : stale_after_ns);
	}
	return false;
}

static void frames_send(struct delivery *delivery)
{
	const struct entry *entry;

	while ((entry = queue_first(delivery))) {
		if (may_send(delivery, entry->queued_ns))
			frame_send(delivery, entry);
		else
			atomic_fetch_add_explicit(&delivery->all->failed, 1, memory_order_relaxed);
		queue_pop(delivery, entry);
	}
}

static void thread_end(struct delivery *delivery)
{
	if (delivery->schedstat_fd >= 0)
		close(delivery->schedstat_fd);
	pthread_mutex_lock(&delivery->all->lock);
	close(delivery->event_fd);
	atomic_store(&delivery->ended, true);
	pthread_mutex_unlock(&delivery->all->lock);
}

static void *thread_run(void *argument)
{
	struct delivery *delivery = argument;

	delivery->schedstat_fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	delivery->waited_ns = waited_read(delivery);
	for (;;) {
		bool ends = atomic_load(&delivery->ends);

		frames_send(delivery);
		if (ends)
			break;
		sleep_until_frame(delivery);
	}
	thread_end(delivery);
	return NULL;
}

/* ---- the control thread ---- */

static int start_directly(void *starter, pthread_t *thread, const pthread_attr_t *attributes,
			  void *(*run)(void *argument), void *argument)
{
	(void)starter;
	return -pthread_create(thread, attributes, run, argument);
}

int ktsn_deliveries_create(struct ktsn_deliveries **created, const struct ktsn_delivery_config *config)
{
	struct ktsn_deliveries *deliveries = aligned_alloc(LINE_BYTES, sizeof(*deliveries));

	if (!deliveries)
		return -ENOMEM;
	memset(deliveries, 0, sizeof(*deliveries));
	deliveries->config = *config;
	if (!config->thread_start)
		deliveries->config.thread_start = start_directly;
	pthread_mutex_init(&deliveries->lock, NULL);
	*created = deliveries;
	return 0;
}

static void delivery_free(struct delivery *delivery)
{
	if (delivery->queue != MAP_FAILED)
		munmap(delivery->queue, QUEUE_BYTES);
	if (delivery->stack != MAP_FAILED)
		munmap(delivery->stack, STACK_BYTES);
	free(delivery);
}

/* Frees receivers whose threads have ended. Returns whether others remain. */
static bool reap(struct ktsn_deliveries *deliveries)
{
	struct delivery **at = &deliveries->first;

	while (*at) {
		struct delivery *delivery = *at;

		if (!atomic_load(&delivery->ended)) {
			at = &delivery->next;
			continue;
		}
		*at = delivery->next;
		/* The thread has set `ended` and releases the lock before it returns. */
		pthread_join(delivery->thread, NULL);
		delivery_free(delivery);
	}
	return deliveries->first;
}

/* The thread that starts the new one may be allowed less locked memory than this one, so this one allocates
 * its stack. */
static int thread_begin(struct delivery *delivery)
{
	const struct ktsn_delivery_config *config = &delivery->all->config;
	pthread_attr_t attributes;
	char name[16];
	int err;

	pthread_attr_init(&attributes);
	err = -pthread_attr_setstack(&attributes, delivery->stack, STACK_BYTES);
	if (!err)
		err = config->thread_start(config->starter, &delivery->thread, &attributes, thread_run,
					   delivery);
	pthread_attr_destroy(&attributes);
	(void)snprintf(name, sizeof(name), "ktsnd-rx-%u", delivery->receiver.link_index % 1000000);
	if (!err)
		pthread_setname_np(delivery->thread, name);
	return err;
}

static void *memory_map(size_t bytes, int flags)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

int ktsn_delivery_begin(struct ktsn_deliveries *deliveries, uint32_t link_index,
			struct ktsn_port_receiver **receiver)
{
	struct delivery *delivery = aligned_alloc(LINE_BYTES, sizeof(*delivery));
	int err;

	if (!delivery)
		return -ENOMEM;
	memset(delivery, 0, sizeof(*delivery));
	delivery->receiver.link_index = link_index;
	delivery->all = deliveries;
	ktsn_receiver_quota_init(&delivery->quota, deliveries->config.quota_percent, now_ns());
	/* All pages of the queue are allocated now: the loop writes it, and must take no page faults. */
	delivery->queue = memory_map(QUEUE_BYTES, MAP_POPULATE);
	delivery->stack = memory_map(STACK_BYTES, 0);
	delivery->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = delivery->queue == MAP_FAILED || delivery->stack == MAP_FAILED ? -ENOMEM
	      : delivery->event_fd < 0                                       ? -errno
									     : 0;
	if (!err)
		err = thread_begin(delivery);
	if (err) {
		if (delivery->event_fd >= 0)
			close(delivery->event_fd);
		delivery_free(delivery);
		return err;
	}
	(void)reap(deliveries);
	delivery->next = deliveries->first;
	deliveries->first = delivery;
	*receiver = &delivery->receiver;
	return 0;
}

/* Takes the lock so that the thread does not close its event_fd before it is woken. */
static void end_ask(struct delivery *delivery)
{
	pthread_mutex_lock(&delivery->all->lock);
	if (!atomic_exchange(&delivery->ends, true))
		wake(delivery);
	pthread_mutex_unlock(&delivery->all->lock);
}

void ktsn_delivery_end(struct ktsn_port_receiver *receiver)
{
	struct ktsn_deliveries *deliveries = delivery_of(receiver)->all;

	end_ask(delivery_of(receiver));
	(void)reap(deliveries);
}

static bool all_empty(const struct ktsn_deliveries *deliveries)
{
	for (const struct delivery *d = deliveries->first; d; d = d->next)
		if (!is_empty(d))
			return false;
	return true;
}

void ktsn_deliveries_hold(struct ktsn_deliveries *deliveries, int64_t timeout_ns)
{
	int64_t until_ns = now_ns() + timeout_ns;

	while (!all_empty(deliveries) && now_ns() < until_ns)
		usleep(POLL_NS / 1000);
	atomic_store(&deliveries->held, true);
}

void ktsn_deliveries_resume(struct ktsn_deliveries *deliveries)
{
	atomic_store(&deliveries->held, false);
}

bool ktsn_deliveries_destroy(struct ktsn_deliveries *deliveries)
{
	int64_t until_ns = now_ns() + END_TIMEOUT_NS;

	if (!deliveries)
		return true;
	for (struct delivery *d = deliveries->first; d; d = d->next)
		end_ask(d);
	while (reap(deliveries) && now_ns() < until_ns)
		usleep(POLL_NS / 1000);
	if (deliveries->first)
		return false;
	pthread_mutex_destroy(&deliveries->lock);
	free(deliveries);
	return true;
}

struct ktsn_port_delivery_counts ktsn_deliveries_counts(struct ktsn_deliveries *deliveries)
{
	/* Read before `queued`, or a frame that is sent meanwhile would be missing from the queued frames. */
	uint64_t delivered = atomic_load_explicit(&deliveries->delivered, memory_order_acquire);
	uint64_t failed = atomic_load_explicit(&deliveries->failed, memory_order_acquire);
	uint64_t queued = atomic_load_explicit(&deliveries->queued, memory_order_relaxed);

	return (struct ktsn_port_delivery_counts){
		.queued = queued > delivered + failed ? queued - delivered - failed : 0,
		.delivered = delivered,
		.failed = failed,
		.limited = atomic_load_explicit(&deliveries->limited, memory_order_relaxed),
		.cost_ns = atomic_load_explicit(&deliveries->cost_ns, memory_order_relaxed),
	};
}
