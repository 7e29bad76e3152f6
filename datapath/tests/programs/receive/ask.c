/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the other node for datagrams: one line there, one line back. */
#include "receive.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHANNEL = 3, LINE = 512 };

static char own_text[64];
static char source_texts[SOURCES][64];
static int source_ports[SOURCES];

static void line_read(char *line)
{
	size_t had = 0;

	do {
		require(had < LINE - 1 && read(CHANNEL, line + had, 1) == 1, "read an answer");
	} while (line[had++] != '\n');
	line[had - 1] = '\0';
}

static void line_write(const char *line)
{
	require(write(CHANNEL, line, strlen(line)) == (ssize_t)strlen(line), "ask");
}

static void introduce(void)
{
	char line[LINE];

	if (own_text[0])
		return;
	line_write("who\n");
	line_read(line);
	require(sscanf(line, "%63s %63s %d %63s %d %63s %d", own_text, source_texts[0], &source_ports[0],
		       source_texts[1], &source_ports[1], source_texts[2], &source_ports[2]) == 7,
		"understand an answer");
}

socklen_t address_bytes(void)
{
	return arguments.family == FAMILY_IPV4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static union socket_address address_of(const char *text, uint16_t port)
{
	union socket_address address;
	char mapped[128];

	memset(&address, 0, sizeof(address));
	if (arguments.family == FAMILY_IPV4) {
		address.in.sin_family = AF_INET;
		address.in.sin_port = htons(port);
		require(inet_pton(AF_INET, text, &address.in.sin_addr) == 1, "read an address");
		return address;
	}
	snprintf(mapped, sizeof(mapped), "%s%s", strchr(text, ':') ? "" : "::ffff:", text);
	address.in6.sin6_family = AF_INET6;
	address.in6.sin6_port = htons(port);
	require(inet_pton(AF_INET6, mapped, &address.in6.sin6_addr) == 1, "read an address");
	return address;
}

union socket_address source_address(int source)
{
	introduce();
	return address_of(source_texts[source], (uint16_t)source_ports[source]);
}

union socket_address own_address(uint16_t port)
{
	introduce();
	return address_of(own_text, port);
}

union socket_address any_address(uint16_t port)
{
	return address_of(arguments.family == FAMILY_IPV4 ? "0.0.0.0" : "::", port);
}

static void print_and_wait(const char *line)
{
	char answer[LINE];

	line_write(line);
	line_read(answer);
	require(strcmp(answer, "sent") == 0, answer);
}

void ask(int fd, struct sending sending)
{
	char line[LINE];

	snprintf(line, sizeof(line), "send %d %d %d %d %d %d %d %s\n", sending.after_ms, sending.source,
		 sending.port ? sending.port : port_of(fd), sending.count, sending.bytes, sending.tos,
		 sending.ttl, sending.label);
	print_and_wait(line);
}

void all_sent(void)
{
	print_and_wait("sync\n");
}

void sent(int fd, const char *label, int count)
{
	ask(fd, (struct sending){.label = label, .count = count});
}

void sent_soon(int fd, const char *label, int count)
{
	ask(fd, (struct sending){.label = label, .count = count, .after_ms = 50});
}
