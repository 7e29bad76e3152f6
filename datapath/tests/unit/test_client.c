/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client side of the application socket, tested with a socket pair in place of ktsnd. The previous and
 * next releases have made-up versions.
 */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit_test.h"

#include "../fd_message.h"

enum { PREVIOUS = KTSN_APP_VERSION - 1, THIS = KTSN_APP_VERSION, NEXT = KTSN_APP_VERSION + 1 };

static int client_fd, daemon_fd;

static int pair_create(void **state)
{
	int ends[2];
	int err = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends);

	client_fd = ends[0];
	daemon_fd = ends[1];
	return err;
}

static int pair_close(void **state)
{
	close(client_fd);
	close(daemon_fd);
	return 0;
}

TEST(versions_are_negotiated)
{
	static const struct {
		const char *name;
		uint16_t oldest, newest, current;
		int status;
		uint16_t reply;
		int outcome;
		uint16_t selected;
	} cases[] = {
		{"the same release", PREVIOUS, THIS, THIS, 0, THIS, 0, THIS},
		{"a refusal for another reason", PREVIOUS, THIS, THIS, -EPERM, THIS, 0, THIS},
		{"a refusal of the ring's layout", PREVIOUS, THIS, THIS, -EPROTONOSUPPORT, THIS, 0, THIS},
		{"a previous ktsnd", PREVIOUS, THIS, THIS, -EPROTONOSUPPORT, PREVIOUS, 1, PREVIOUS},
		{"a previous ktsnd, repeated", PREVIOUS, THIS, PREVIOUS, 0, PREVIOUS, 0, PREVIOUS},
		{"a next ktsnd that refuses", PREVIOUS, THIS, THIS, -EPROTONOSUPPORT, NEXT, -EPROTONOSUPPORT,
		 THIS},
		{"a next client", THIS, NEXT, NEXT, -EPROTONOSUPPORT, THIS, 1, THIS},
		{"a next client, two releases on", NEXT, NEXT, NEXT, -EPROTONOSUPPORT, THIS, -EPROTONOSUPPORT,
		 NEXT},
		{"no version in common", THIS, THIS, THIS, -EPROTONOSUPPORT, PREVIOUS, -EPROTONOSUPPORT,
		 THIS},
		{"a later ktsnd drops a version", PREVIOUS, THIS, PREVIOUS, -EPROTONOSUPPORT, THIS,
		 -EPROTONOSUPPORT, PREVIOUS},
		{"an unknown version", PREVIOUS, THIS, THIS, 0, NEXT, -EPROTONOSUPPORT, THIS},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ktsn_client_version version = {
			.oldest = cases[i].oldest, .newest = cases[i].newest, .current = cases[i].current};
		const struct ktsn_app_reply reply = {.version = cases[i].reply, .status = cases[i].status};

		if (ktsn_client_negotiate(&version, &reply) != cases[i].outcome ||
		    version.current != cases[i].selected)
			fail_msg("%s", cases[i].name);
	}
}

#define PAIR_TEST(name) TEST_WITH(name, pair_create, pair_close)

PAIR_TEST(requests_have_the_current_version)
{
	struct ktsn_client_version version = {.oldest = PREVIOUS, .newest = NEXT, .current = PREVIOUS};
	const struct ktsn_app_request request = ktsn_client_request(KTSN_APP_RESUME);
	struct ktsn_app_request received;

	assert_int_equal(ktsn_client_send(client_fd, &version, &request, -1), 0);
	assert_int_equal(recv(daemon_fd, &received, sizeof(received), 0), sizeof(received));
	assert_int_equal(received.version, PREVIOUS);
	assert_int_equal(received.type, KTSN_APP_RESUME);
	ktsn_client_version_reset(&version);
	assert_int_equal(ktsn_client_send(client_fd, &version, &request, -1), 0);
	assert_int_equal(recv(daemon_fd, &received, sizeof(received), 0), sizeof(received));
	assert_int_equal(received.version, NEXT);
}

/* Sends bytes of a reply with `count` descriptors. */
static void reply_send(size_t bytes, uint32_t magic, size_t count)
{
	struct ktsn_app_reply reply = {.magic = magic, .version = THIS};
	const int fds[KTSN_CLIENT_FDS] = {daemon_fd, daemon_fd};

	assert_int_equal(fd_message_send(daemon_fd, &reply, bytes, fds, count, 0), bytes);
}

static int lowest_free_fd(void)
{
	int fd = dup(client_fd);

	close(fd);
	return fd;
}

PAIR_TEST(replies_have_descriptors)
{
	const size_t whole = sizeof(struct ktsn_app_reply);
	struct ktsn_app_reply reply;
	int fds[KTSN_CLIENT_FDS], free_fd = lowest_free_fd();

	assert_int_equal(ktsn_client_receive(client_fd, &reply, fds), -EAGAIN);
	for (size_t count = 0; count <= KTSN_CLIENT_FDS; count++) {
		reply_send(whole, KTSN_APP_MAGIC, count);
		assert_int_equal(ktsn_client_receive(client_fd, &reply, fds), 0);
		for (size_t i = 0; i < KTSN_CLIENT_FDS; i++) {
			assert_int_equal(fds[i] >= 0, i < count);
			if (fds[i] >= 0)
				close(fds[i]);
		}
		/* Descriptors for which the caller has no room are closed. */
		reply_send(whole, KTSN_APP_MAGIC, count);
		assert_int_equal(ktsn_client_receive(client_fd, &reply, NULL), 0);
		assert_int_equal(lowest_free_fd(), free_fd);
	}
}

PAIR_TEST(other_messages_are_rejected)
{
	struct ktsn_app_reply reply;

	reply_send(sizeof(reply) - 1, KTSN_APP_MAGIC, 0);
	assert_int_equal(ktsn_client_receive(client_fd, &reply, NULL), -EPROTO);
	reply_send(sizeof(reply), KTSN_APP_MAGIC + 1, 0);
	assert_int_equal(ktsn_client_receive(client_fd, &reply, NULL), -EPROTO);
	errno = EDOM;
	assert_int_equal(ktsn_client_receive_until(client_fd, &reply, NULL, 0), -ETIMEDOUT);
	assert_int_equal(shutdown(daemon_fd, SHUT_RDWR), 0);
	assert_int_equal(ktsn_client_receive_until(client_fd, &reply, NULL, 0), -ECONNRESET);
	assert_int_equal(errno, EDOM);
}

TEST(invalid_ring_sizes_are_refused)
{
	struct ktsn_ring_producer ring;
	size_t bytes = 0;
	int fd = eventfd(0, EFD_CLOEXEC);

	assert_int_equal(ktsn_client_ring_map(fd, 1, &ring, &bytes), -EPROTO);
	assert_int_equal(ktsn_client_ring_map(fd, KTSN_RING_BYTES_MAX + UINT64_C(1), &ring, &bytes), -EPROTO);
	/* An eventfd cannot be mapped. */
	assert_true(ktsn_client_ring_map(fd, sizeof(struct ktsn_ring_header), &ring, &bytes) < 0);
	assert_null(ring.header);
	assert_int_equal(bytes, 0);
	close(fd);
}
