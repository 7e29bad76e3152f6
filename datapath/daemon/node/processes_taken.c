/* SPDX-License-Identifier: Apache-2.0 */
#include "processes_taken.h"

#include "doorbell_works.h"
#include "flows.h"
#include "log.h"
#include "pod_thread.h"
#include "process_requests.h"
#include "processes.h"
#include "requests.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static struct process *process_find_busy(const struct node *node)
{
	for (const struct pod *pod = node->pods; pod; pod = pod->next)
		for (struct process *process = pod->processes; process; process = process->next)
			if (process->request->busy)
				return process;
	return NULL;
}

void processes_quiesce(struct node *node)
{
	enum { STEP_US = 200, STEPS = 2500 };
	struct process *process;

	for (int step = 0; step < STEPS && process_find_busy(node); step++) {
		usleep(STEP_US);
		pod_threads_serve(node->threads);
	}
	while ((process = process_find_busy(node)))
		process_close(process);
}

/* Closes the connection of a process whose doorbell could not be joined. The application hands its ring back
 * on a new connection and gets a new doorbell. */
static void doorbell_failed(struct process *process, int err)
{
	log_warning("pod %s: cannot listen to the ring of process %d, taken over from another ktsnd: %s; its "
		    "connection is closed, and it hands the ring back",
		    process->pod->log_name, (int)process->pid, strerror(-err));
	process_close(process);
}

/* Takes over the memory and the doorbell of a ring. 0 or -errno. */
static int ring_take_over(struct process *process, const struct process_descriptors *descriptors)
{
	struct ktsn_ring_memory memory;
	int err = ktsn_ring_memory_adopt(&memory, descriptors->memory, descriptors->geometry);

	if (err)
		return err;
	err = process_ring_make(process, &memory, descriptors->untimed);
	if (err) {
		ktsn_ring_memory_unmap(&memory);
		return err;
	}
	/* Touch the pages now: no message departs while the ring is recovered. */
	ktsn_ring_touch(&process->ring->consumer);
	process->doorbell_fd = descriptors->doorbell;
	err = doorbell_adopt(process, doorbell_failed);
	if (err)
		process->doorbell_fd = -1;
	return err;
}

int process_take_over(struct node *node, const char *identity, const struct process_descriptors *descriptors,
		      bool resuming, struct process **taken)
{
	struct pod *pod = pod_find(node, identity);
	struct process *process;
	int err = pod ? process_make(pod, descriptors->connection, descriptors->relay, process_request_serve,
				     &process)
		      : -ENOENT;

	if (err)
		return err;
	if (descriptors->memory >= 0)
		err = ring_take_over(process, descriptors);
	if (err) {
		/* The caller closes the descriptors, whose numbers may be used again. */
		process_remove(process);
		return err;
	}
	process->resuming = resuming;
	*taken = process;
	return 0;
}

static void process_taken_open(struct process *process)
{
	if (process->ring && !process->resuming) {
		process_ring_recover(process);
		process_ring_open(process);
		flows_taken_close(process);
	}
	if (process->connection.fd < 0)
		process_close(process);
}

void processes_taken_open(struct node *node)
{
	for (struct pod *pod = node->pods; pod; pod = pod->next) {
		struct process *next;

		for (struct process *process = pod->processes; process; process = next) {
			next = process->next;
			process_taken_open(process);
		}
	}
}
