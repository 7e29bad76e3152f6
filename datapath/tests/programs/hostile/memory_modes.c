/* SPDX-License-Identifier: Apache-2.0 */
#include "modes.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
	KEPT_MAX = 8192,
	SPARSE_SLOTS = 4000 / KTSN_RING_WORD_BITS * KTSN_RING_WORD_BITS,
	SPARSE_SLOT_BYTES = 4096,
	/* Between two messages of a mode that does other things. */
	STEPS = 16,
	NAP_US = 1000,
};

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* Attempts to remove the ring's memory, and how often the kernel allowed one. */
struct attempts {
	long tried, done;
};

static void attempt_count(struct attempts *attempts, int result)
{
	attempts->tried++;
	attempts->done += result == 0;
}

/* Every way to take pages out of memory that two processes map. */
static void punch(const struct client *client, struct attempts *attempts)
{
	const int how = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

	attempt_count(attempts, fallocate(client->ring_fd, how, 0, (off_t)client->bytes));
	attempt_count(attempts, madvise(client->ring, client->bytes, MADV_REMOVE));
	attempt_count(attempts, ftruncate(client->ring_fd, 0));
}

static void collapse(const struct client *client, struct attempts *attempts)
{
	/* Collapsing maps the pages again one by one, so there is always something to collapse. */
	(void)fallocate(client->ring_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096);
	(void)madvise(client->ring, client->bytes, MADV_PAGEOUT);
	attempt_count(attempts, madvise(client->ring, client->bytes, MADV_COLLAPSE));
}

/* Sends meanwhile, so that ktsnd reads the ring. */
static int attack(const struct target *target,
		  void (*act)(const struct client *client, struct attempts *attempts), const char *done)
{
	struct attempts attempts = {0};
	struct client client;
	int err = client_open(&client, target);

	if (err)
		return complain("get a ring and a flow", err);
	while (time_left(target)) {
		for (int i = 0; i < STEPS; i++)
			act(&client, &attempts);
		(void)ring_fill(&client, now_ns(CLOCK_TAI));
		client_ring(&client);
	}
	result_print("tried", attempts.tried);
	result_print(done, attempts.done);
	client_close(&client);
	return 0;
}

static int mode_punch(const struct target *target)
{
	return attack(target, punch, "punched");
}

static int mode_collapse(const struct target *target)
{
	return attack(target, collapse, "collapsed");
}

/* Opens as many as the system allows. */
static void descriptors_raise(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* Closes everything except the ring, whose descriptor and mapping it keeps. */
static void hang_up(struct client *client)
{
	close(client->bell_fd);
	close(client->fd);
	client->bell_fd = client->fd = -1;
}

/* Keeps only the ring afterwards, or nothing. */
static int ring_keep(struct client *client, const struct target *target)
{
	int err = client_connect(client, target);

	if (err)
		return err;
	err = client_hello(client);
	if (err)
		client_close(client);
	else
		hang_up(client);
	return err;
}

/* Opens rings one after the other, without the limit of processes. */
static int mode_keep(const struct target *target)
{
	static struct client kept[KEPT_MAX];
	long count = 0, refused = 0;
	size_t bytes = 0;
	int answer = 0;

	descriptors_raise();
	while (time_left(target)) {
		int err = count == KEPT_MAX ? -ENOSPC : ring_keep(&kept[count], target);

		if (!err) {
			bytes += kept[count++].bytes;
			continue;
		}
		answer = err;
		refused++;
		usleep(NAP_US);
	}
	result_print("kept", count);
	result_print("kept-bytes", (long)bytes);
	result_print("refused", refused);
	result_print("answer-errno", -answer);
	return 0;
}

/* Memory with the layout and seals of former rings; its pages cost the pod nothing. */
static int sparse_make(struct client *client)
{
	struct ktsn_ring_header header = {.magic = KTSN_RING_MAGIC,
					  .version = KTSN_RING_VERSION,
					  .slot_count = SPARSE_SLOTS,
					  .slot_bytes = SPARSE_SLOT_BYTES,
					  .slots_offset = sizeof(header)};

	header.total_bytes = sizeof(header) + (uint64_t)SPARSE_SLOTS * SPARSE_SLOT_BYTES;
	client->ring_fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (client->ring_fd < 0 || ftruncate(client->ring_fd, (off_t)header.total_bytes) ||
	    pwrite(client->ring_fd, &header, offsetof(struct ktsn_ring_header, ready_summary), 0) < 0 ||
	    fcntl(client->ring_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return -errno;
	return 0;
}

/* Claims that an earlier ktsnd created the ring. */
static int hand_back(struct client *client)
{
	struct ktsn_app_request request = client_request(KTSN_APP_HAND_BACK);
	struct ktsn_app_reply reply;
	int err = client_call(client, &request, client->ring_fd, &reply);

	request = client_request(KTSN_APP_RESUME);
	return err ? err : client_call(client, &request, -1, &reply);
}

/* Hangs up and keeps the memory if ktsnd accepted it. */
static int mode_sparse(const struct target *target)
{
	long handed = 0, accepted = 0;
	int answer = 0;

	descriptors_raise();
	for (; time_left(target) && accepted < KEPT_MAX; handed++) {
		struct client client;
		int err = client_connect(&client, target);

		if (!err)
			err = sparse_make(&client);
		if (err)
			return complain("make memory to hand back", err);
		answer = hand_back(&client);
		accepted += answer == 0;
		if (answer)
			client_close(&client);
		else
			hang_up(&client);
	}
	result_print("handed", handed);
	result_print("accepted", accepted);
	result_print("answer-errno", -answer);
	return 0;
}

const struct mode memory_modes[] = {
	{"punch", mode_punch, "takes pages away from its ring"},
	{"collapse", mode_collapse, "moves the pages of its ring"},
	{"keep", mode_keep, "disconnects and keeps the ring, repeatedly"},
	{"sparse", mode_sparse, "hands back large memory of its own without pages"},
	{0},
};
