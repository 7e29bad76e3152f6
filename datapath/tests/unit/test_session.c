/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's connection to a ktsnd that is not there, is slow, refuses, or ends. The tests take the place
 * of ktsnd in the same thread: libktsn's requests lie in the socket until they answer. The tests run in
 * order: a process that has once seen the place of a ktsnd remembers it.
 */
#include "connect.h"
#include "handshake.h"
#include "liveness.h"
#include "request.h"
#include "ring_memory.h"
#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit_test.h"

#include "../fd_message.h"
#include "recorded.h"

enum { SLOTS = 64, MTU_BYTES = 1500 };

static char folder[] = "/tmp/ktsn-session-XXXXXX";
static struct sockaddr_un address = {.sun_family = AF_UNIX};

static int folder_make(void **state)
{
	if (!mkdtemp(folder))
		return -1;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/app.sock", folder);
	return setenv("KTSN_SOCKET", address.sun_path, 1);
}

static int folder_remove(void **state)
{
	unlink(address.sun_path);
	return rmdir(folder);
}

static int listen_here(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	unlink(address.sun_path);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 8), 0);
	return fd;
}

/* Accepts the connection of an application and reads its HELLO. */
static int greeted_accept(int listener)
{
	struct ktsn_app_request hello;
	int fd = accept(listener, NULL, NULL);

	assert_true(fd >= 0);
	assert_int_equal(recv(fd, &hello, sizeof(hello), MSG_DONTWAIT), sizeof(hello));
	assert_int_equal(hello.type, KTSN_APP_HELLO);
	return fd;
}

static void reply_send(int fd, const struct ktsn_app_request *request, int status, uint32_t flow)
{
	const struct ktsn_app_reply reply = {
		.magic = KTSN_APP_MAGIC,
		.version = KTSN_APP_VERSION,
		.type = request->type,
		.number = request->number,
		.status = status,
		.flow = flow,
		.destination = KTSN_APP_NONE,
	};

	assert_int_equal(send(fd, &reply, sizeof(reply), MSG_NOSIGNAL), sizeof(reply));
}

static const struct ktsn_app_request hello = {.type = KTSN_APP_HELLO};

/* Answers HELLO with a ring whose memory the test keeps. */
static void ring_give(int fd, struct ktsn_ring_memory *memory)
{
	struct ktsn_app_reply reply = {
		.magic = KTSN_APP_MAGIC, .version = KTSN_APP_VERSION, .type = KTSN_APP_HELLO};
	int fds[2];

	assert_int_equal(ktsn_ring_memory_create(memory, ktsn_ring_geometry_make(SLOTS, MTU_BYTES)), 0);
	reply.ring_bytes = memory->bytes;
	fds[0] = memory->fd;
	fds[1] = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(fd_message_send(fd, &reply, sizeof(reply), fds, 2, 0), sizeof(reply));
	close(fds[1]);
}

/* This process in the view of the tests' ktsnd. */
struct client {
	int listener, connection;
	struct ktsn_ring_memory memory;
	struct session *session;
};

/* It has sent HELLO and waits for its ring. */
static struct client client_greeted(void)
{
	struct client client = {.listener = listen_here()};

	assert_int_equal(session_get(&client.session), -ETIMEDOUT);
	client.connection = greeted_accept(client.listener);
	return client;
}

static void client_serve(struct client *client)
{
	ring_give(client->connection, &client->memory);
	assert_int_equal(session_get(&client->session), 0);
}

static void client_end(struct client *client)
{
	session_forked();
	ktsn_ring_memory_destroy(&client->memory);
	close(client->connection);
	close(client->listener);
}

static const struct ktsn_app_request flow_open = {
	.magic = KTSN_APP_MAGIC, .type = KTSN_APP_FLOW_OPEN, .flow = KTSN_APP_NONE};

static uint64_t unanswered(const struct ktsn_ring_memory *memory)
{
	const struct ktsn_ring_header *header = memory->address;

	return atomic_load(&header->unanswered);
}

/* The result of a process's first request, and of another one after all traces of ktsnd are gone. */
static void first_answers(const char *socket_path, int first, int then)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		struct session *session;
		bool as_wanted;

		setenv("KTSN_SOCKET", socket_path, 1);
		as_wanted = session_get(&session) == first;
		setenv("KTSN_SOCKET", "/nowhere/app.sock", 1);
		_exit(as_wanted && session_get(&session) == then ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

TEST(no_trace_of_ktsnd_is_notconn)
{
	char elsewhere[sizeof(folder) + 32];

	snprintf(elsewhere, sizeof(elsewhere), "%s/none/app.sock", folder);
	first_answers(address.sun_path, -ENOTCONN, -ENOTCONN);
	first_answers(elsewhere, -ENOTCONN, -ENOTCONN);
	first_answers("app.sock", -ENOTCONN, -ENOTCONN);
}

TEST(killed_ktsnd_is_away)
{
	close(listen_here()); /* the traces that it leaves */
	first_answers(address.sun_path, -ETIMEDOUT, -ETIMEDOUT);
	unlink(address.sun_path);
}

TEST(starting_ktsnd_is_away)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	first_answers(address.sun_path, -ETIMEDOUT, -ETIMEDOUT);
	close(fd);
	unlink(address.sun_path);
}

TEST(ended_ktsnd_with_folder_is_away)
{
	char library[sizeof(folder) + 32];
	int fd;

	snprintf(library, sizeof(library), "%s/libktsn.so", folder);
	fd = open(library, O_CREAT | O_WRONLY | O_CLOEXEC, 0444);
	assert_true(fd >= 0);
	close(fd);
	first_answers(address.sun_path, -ETIMEDOUT, -ETIMEDOUT);
	assert_int_equal(chdir(folder), 0);
	first_answers("app.sock", -ETIMEDOUT, -ETIMEDOUT);
	assert_int_equal(chdir("/"), 0);
	unlink(library);
	first_answers(address.sun_path, -ENOTCONN, -ENOTCONN);
}

TEST(slow_ktsnd_gets_one_hello)
{
	int listener = listen_here(), connection;
	struct ktsn_ring_memory memory;
	struct session *session;

	for (int i = 0; i < 5; i++)
		assert_int_equal(session_get(&session), -ETIMEDOUT);
	session_unanswered_count();
	session_unanswered_count();
	connection = greeted_accept(listener);
	assert_int_equal(accept(listener, NULL, NULL), -1);
	assert_int_equal(session_get(&session), -ETIMEDOUT);
	ring_give(connection, &memory);
	assert_int_equal(session_get(&session), 0);
	assert_int_equal(unanswered(&memory), 2);
	session_unanswered_count();
	assert_int_equal(unanswered(&memory), 3);
	session_forked();
	ktsn_ring_memory_destroy(&memory);
	close(connection);
	close(listener);
}

TEST(known_ktsnd_is_not_forgotten)
{
	struct session *session;

	unlink(address.sun_path);
	assert_int_equal(session_get(&session), -ETIMEDOUT);
}

TEST(refusal_has_its_reason)
{
	int listener = listen_here(), connection;
	struct session *session;

	assert_int_equal(session_get(&session), -ETIMEDOUT);
	connection = greeted_accept(listener);
	reply_send(connection, &hello, -ENOMEM, KTSN_APP_NONE);
	assert_int_equal(session_get(&session), -ENOMEM);
	/* It is asked again over another connection. */
	close(connection);
	assert_int_equal(session_get(&session), -ETIMEDOUT);
	connection = greeted_accept(listener);
	close(connection);
	assert_int_equal(session_get(&session), -ETIMEDOUT); /* the end of the connection is noticed */
	assert_int_equal(session_get(&session), -ETIMEDOUT); /* and another ktsnd is asked */
	close(greeted_accept(listener));
	close(listener);
	session_forked();
}

TEST(full_backlog_means_ktsnd_is_there)
{
	int listener = listen_here(), others[16], count = 0;
	struct session *session;

	assert_int_equal(listen(listener, 0), 0);
	for (; count < 16; count++) {
		others[count] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (connect(others[count], (struct sockaddr *)&address, sizeof(address)))
			break;
	}
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(session_get(&session), -ETIMEDOUT);
	for (int i = 0; i <= count; i++)
		close(others[i]);
	close(listener);
	session_forked();
}

static struct ktsn_app_request received(int connection)
{
	struct ktsn_app_request request;

	assert_int_equal(recv(connection, &request, sizeof(request), MSG_DONTWAIT), sizeof(request));
	return request;
}

static void nothing_more_received(int connection)
{
	struct ktsn_app_request request;

	assert_int_equal(recv(connection, &request, sizeof(request), MSG_DONTWAIT), -1);
}

TEST(unanswered_request_is_not_repeated)
{
	const struct ktsn_app_request end = {.magic = KTSN_APP_MAGIC, .type = KTSN_APP_FLOW_CLOSE, .flow = 3};
	struct client client = client_greeted();
	struct ktsn_app_request request;
	struct ktsn_app_reply reply;

	client_serve(&client);

	for (int i = 0; i < 3; i++)
		assert_int_equal(session_request(client.session, &flow_open, -1, &reply), -ETIMEDOUT);
	request = received(client.connection);
	assert_int_equal(request.type, KTSN_APP_FLOW_OPEN);
	nothing_more_received(client.connection);
	/* The end of a flow is reported once, and now. */
	assert_int_equal(session_request(client.session, &end, -1, &reply), -ETIMEDOUT);
	assert_int_equal(received(client.connection).flow, 3);

	/* A number that arrived too late is given back before another is requested. */
	reply_send(client.connection, &request, 0, 5);
	assert_int_equal(session_request(client.session, &flow_open, -1, &reply), -ETIMEDOUT);
	request = received(client.connection);
	assert_int_equal(request.type, KTSN_APP_FLOW_CLOSE);
	assert_int_equal(request.flow, 5);
	request = received(client.connection);
	assert_int_equal(request.type, KTSN_APP_FLOW_OPEN);
	nothing_more_received(client.connection);

	/* A refused flow has no number. */
	reply_send(client.connection, &request, -ENOBUFS, KTSN_APP_NONE);
	assert_int_equal(session_request(client.session, &flow_open, -1, &reply), -ETIMEDOUT);
	assert_int_equal(received(client.connection).type, KTSN_APP_FLOW_OPEN);
	nothing_more_received(client.connection);
	client_end(&client);
}

/* Answers as a ktsnd of this release that is asked by a library of the next one. */
static void version_refuse(int connection, uint16_t type, uint16_t number)
{
	const struct ktsn_app_reply reply = {
		.magic = KTSN_APP_MAGIC,
		.version = KTSN_APP_VERSION,
		.type = type,
		.number = number,
		.status = -EPROTONOSUPPORT,
	};

	assert_int_equal(send(connection, &reply, sizeof(reply), MSG_NOSIGNAL), sizeof(reply));
}

/* Returns a client of the library of the next release. */
static struct client client_of_next_release(void)
{
	struct client client;

	handshake_version.newest = KTSN_APP_VERSION + 1;
	client = client_greeted();
	handshake_version.newest = KTSN_APP_VERSION;
	return client;
}

TEST(older_ktsnd_gets_its_version)
{
	struct client client = client_of_next_release();
	struct ktsn_app_request again;
	struct ktsn_app_reply reply;

	version_refuse(client.connection, KTSN_APP_HELLO, 0);
	assert_int_equal(session_get(&client.session), -ETIMEDOUT);
	again = received(client.connection);
	assert_int_equal(again.type, KTSN_APP_HELLO);
	assert_int_equal(again.version, KTSN_APP_VERSION);
	client_serve(&client);
	assert_int_equal(session_request(client.session, &flow_open, -1, &reply), -ETIMEDOUT);
	assert_int_equal(received(client.connection).version, KTSN_APP_VERSION);
	client_end(&client);
}

/* An older ktsnd took over a connection that began with a newer one. */
TEST(older_successor_gets_its_version)
{
	struct client client = client_of_next_release();
	struct ktsn_app_request request;
	struct ktsn_app_reply reply;

	client_serve(&client);
	version_refuse(client.connection, KTSN_APP_FLOW_OPEN, 1);
	request = (struct ktsn_app_request){.type = KTSN_APP_FLOW_OPEN, .number = 2};
	reply_send(client.connection, &request, 0, 7);
	assert_int_equal(session_request(client.session, &flow_open, -1, &reply), 0);
	assert_int_equal(reply.flow, 7);
	assert_int_equal(received(client.connection).version, KTSN_APP_VERSION + 1);
	request = received(client.connection);
	assert_int_equal(request.version, KTSN_APP_VERSION);
	assert_int_equal(request.type, KTSN_APP_FLOW_OPEN);
	nothing_more_received(client.connection);
	client_end(&client);
}

/* The ktsnd supports only the version of the previous release, which this library does not. */
TEST(incompatible_ktsnd_is_refused)
{
	struct client client = client_of_next_release();
	struct ktsn_app_request request;

	handshake_version.oldest = KTSN_APP_VERSION + 1;
	handshake_version.newest = KTSN_APP_VERSION + 1;
	version_refuse(client.connection, KTSN_APP_HELLO, 0);
	assert_int_equal(session_get(&client.session), -EPROTONOSUPPORT);
	/* The library has closed the connection. */
	assert_int_equal(recv(client.connection, &request, sizeof(request), MSG_DONTWAIT), 0);
	handshake_version.oldest = KTSN_APP_VERSION_OLDEST;
	handshake_version.newest = KTSN_APP_VERSION;
	close(client.connection);
	close(client.listener);
	unlink(address.sun_path);
}

/* Reads the next reply of ktsnd. */
static struct ktsn_app_reply recorded_reply(struct recorded *recorded)
{
	struct recorded_message message = {.asked = true};
	struct ktsn_app_reply reply;

	do
		assert_true(recorded_next(recorded, &message));
	while (message.asked);
	assert_int_equal(message.count, sizeof(reply));
	memcpy(&reply, message.bytes, sizeof(reply));
	return reply;
}

/* With the ring of that release. */
static void recorded_ring_give(int connection, const char *release, struct ktsn_ring_memory *memory)
{
	static struct recorded ring;

	recorded_read(&ring, release, "ring");
	ring_give(connection, memory);
	assert_true(ring.count <= memory->bytes);
	memcpy(memory->address, ring.bytes, ring.count);
}

/* The reply belongs to the request of that number. */
static struct ktsn_app_reply request_replay(struct session *session, int connection, uint16_t number,
					    struct ktsn_app_reply then)
{
	const struct ktsn_app_request request = {
		.magic = KTSN_APP_MAGIC, .type = then.type, .flow = KTSN_APP_NONE};
	struct ktsn_app_reply now;

	then.number = number;
	assert_int_equal(send(connection, &then, sizeof(then), MSG_NOSIGNAL), sizeof(then));
	assert_int_equal(session_request(session, &request, -1, &now), 0);
	assert_memory_equal(&now, &then, sizeof(then));
	return now;
}

TEST(recorded_replies_are_read)
{
	static struct recorded recorded;

	for (size_t i = 0; i < RECORDED_RELEASES; i++) {
		struct client client = client_greeted();
		struct ktsn_app_reply reply;

		recorded_read(&recorded, recorded_releases[i], "application");
		reply = recorded_reply(&recorded);
		assert_int_equal(reply.type, KTSN_APP_HELLO);
		assert_int_equal(reply.status, 0);
		recorded_ring_give(client.connection, recorded_releases[i], &client.memory);
		assert_int_equal(reply.ring_bytes, client.memory.bytes);
		assert_int_equal(session_get(&client.session), 0);
		assert_int_equal(client.session->ring.slot_count, SLOTS);
		reply = request_replay(client.session, client.connection, 1, recorded_reply(&recorded));
		assert_int_equal(reply.type, KTSN_APP_FLOW_OPEN);
		assert_int_equal(reply.flow, 0);
		reply = request_replay(client.session, client.connection, 2, recorded_reply(&recorded));
		assert_int_equal(reply.type, KTSN_APP_DESTINATION);
		assert_int_equal(reply.destination, 0);
		assert_int_equal(reply.route, KTSN_APP_ROUTE_TSN);
		assert_true(reply.payload_max_bytes > 1000);
		client_end(&client);
		unlink(address.sun_path);
	}
}

int main(void)
{
	return unit_tests_run(folder_make, folder_remove);
}
