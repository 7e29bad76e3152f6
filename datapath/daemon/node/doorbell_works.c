/* SPDX-License-Identifier: Apache-2.0 */
#include "doorbell_works.h"

#include "commands.h"
#include "container_of.h"
#include "doorbells.h"
#include "pod_thread.h"

#include <errno.h>
#include <stdlib.h>

struct doorbell_work {
	struct pod_work work;
	struct doorbells *doorbells;
	int set_fd, event_fd;
	/* Fields of a join, for the control thread. */
	struct process *process; /* NULL: it has ended */
	void (*failed)(struct process *process, int err);
	struct pod_thread *thread;
};

static void leaving_run(struct pod_work *work)
{
	struct doorbell_work *leaving = container_of(work, struct doorbell_work, work);

	doorbell_leave(leaving->doorbells, leaving->set_fd, leaving->event_fd);
	free(leaving);
}

void doorbell_discard(struct pod_thread *thread, struct doorbells *doorbells, int set_fd, int event_fd)
{
	struct doorbell_work *leaving = event_fd < 0 ? NULL : malloc(sizeof(*leaving));

	/* Without memory the descriptors leak. */
	if (!leaving)
		return;
	*leaving = (struct doorbell_work){
		.work.run = leaving_run, .doorbells = doorbells, .set_fd = set_fd, .event_fd = event_fd};
	pod_thread_do(thread, &leaving->work);
}

void doorbell_end(struct process *process)
{
	/* joining_done() discards a doorbell that is joining now. */
	if (process->joining)
		process->joining->process = NULL;
	else
		doorbell_discard(process->thread, process->doorbells, process->doorbell_set_fd,
				 process->doorbell_fd);
	process->joining = NULL;
	process->doorbell_fd = process->doorbell_set_fd = -1;
}

static void joining_run(struct pod_work *work)
{
	struct doorbell_work *joining = container_of(work, struct doorbell_work, work);

	joining->set_fd = doorbell_join(joining->doorbells, joining->event_fd);
}

static void doorbell_listen(struct process *process, int set_fd,
			    void (*failed)(struct process *process, int err))
{
	process->joining = NULL;
	process->doorbell_set_fd = set_fd;
	/* The loop closes the ring already. */
	if (!process->pod)
		return;
	if (set_fd < 0)
		failed(process, set_fd);
	else
		loop_command(process->pod->node->loop, &(struct loop_command){.type = COMMAND_RING_LISTEN,
									      .ring = process->ring,
									      .index = (uint32_t)set_fd});
}

static void joining_done(struct pod_work *work)
{
	struct doorbell_work *joining = container_of(work, struct doorbell_work, work);

	if (joining->process)
		doorbell_listen(joining->process, joining->set_fd, joining->failed);
	else
		doorbell_discard(joining->thread, joining->doorbells, joining->set_fd, joining->event_fd);
	pod_thread_put(joining->thread);
	free(joining);
}

int doorbell_adopt(struct process *process, void (*failed)(struct process *process, int err))
{
	struct doorbell_work *joining = malloc(sizeof(*joining));

	if (!joining)
		return -ENOMEM;
	*joining = (struct doorbell_work){
		.work = {.run = joining_run, .done = joining_done},
		.doorbells = process->doorbells,
		.set_fd = -1,
		.event_fd = process->doorbell_fd,
		.process = process,
		.failed = failed,
		.thread = process->thread,
	};
	pod_thread_get(joining->thread);
	process->joining = joining;
	pod_thread_do(process->thread, &joining->work);
	return 0;
}
