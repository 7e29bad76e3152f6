/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktsn-test-guest PATH PAIRS connect|listen [FLOOD_MS PAIR HEX]
 *
 * Acts as a virtual machine at a vhost-user socket. It prints "ready" when its device exists, and "up" and
 * "down" when the back end connects and disconnects. Each line "PAIR HEX" on its standard input is a frame
 * that it sends in that pair of queues; it prints each received frame as such a line. It ends with its input.
 *
 * With FLOOD_MS it sends one frame as fast as it can for that time and prints how many left; received frames
 * are not printed.
 */
#include "front_end.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 2 * FRONT_END_FRAME_BYTES + 16, IDLE_US = 100 };

static int pairs;

static uint16_t hex_parse(const char *text, uint8_t *bytes)
{
	uint16_t count = 0;
	unsigned int byte;

	while (count < FRONT_END_FRAME_BYTES && sscanf(text + 2 * (size_t)count, "%2x", &byte) == 1)
		bytes[count++] = (uint8_t)byte;
	return count;
}

static void frame_print(int pair, const uint8_t *frame, uint16_t bytes)
{
	printf("%d ", pair);
	for (int i = 0; i < bytes; i++)
		printf("%02x", frame[i]);
	printf("\n");
	fflush(stdout);
}

static void line_serve(const char *line)
{
	uint8_t frame[FRONT_END_FRAME_BYTES];
	const char *hex = strchr(line, ' ');

	if (hex)
		front_end_send(atoi(line), frame, hex_parse(hex + 1, frame));
}

/* Returns false at the end. */
static bool input_serve(void)
{
	static char text[LINE_BYTES];
	static size_t filled;
	ssize_t count = read(STDIN_FILENO, text + filled, sizeof(text) - 1 - filled);
	char *end;

	if (count <= 0)
		return count < 0;
	filled += (size_t)count;
	text[filled] = 0;
	while ((end = strchr(text, '\n'))) {
		*end = 0;
		line_serve(text);
		filled -= (size_t)(end + 1 - text);
		memmove(text, end + 1, filled + 1);
	}
	return true;
}

static void received_print(void)
{
	uint8_t frame[FRONT_END_FRAME_BYTES];

	for (int pair = 0; pair < pairs; pair++) {
		uint16_t bytes = front_end_receive(pair, frame);

		if (bytes)
			frame_print(pair, frame, bytes);
	}
}

static void say(const char *word)
{
	puts(word);
	fflush(stdout);
}

static void link_print(void)
{
	static bool connected;
	bool now = front_end_is_connected();

	if (now != connected)
		say(now ? "up" : "down");
	connected = now;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void flood(int64_t ms, int pair, const char *hex)
{
	uint8_t frame[FRONT_END_FRAME_BYTES];
	uint16_t bytes = hex_parse(hex, frame);
	int64_t until_ms = now_ms() + ms;
	uint64_t sent = 0;

	while (now_ms() < until_ms)
		sent += (uint64_t)front_end_flood(pair, frame, bytes);
	printf("%llu\n", (unsigned long long)sent);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	if (argc != 4 && argc != 7)
		return 2;
	pairs = atoi(argv[2]);
	if (front_end_begin(argv[1], pairs, strcmp(argv[3], "listen") == 0))
		return 1;
	say("ready");
	if (argc == 7)
		flood(atoll(argv[4]), atoi(argv[5]), argv[6]);
	fcntl(STDIN_FILENO, F_SETFL, fcntl(STDIN_FILENO, F_GETFL) | O_NONBLOCK);
	while (input_serve()) {
		link_print();
		received_print();
		usleep(IDLE_US);
	}
	return 0;
}
