/* SPDX-License-Identifier: Apache-2.0 */
#include "parse.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Only white space follows the parsed text. */
static bool complete(const char *rest, int read, int expected)
{
	return read == expected && rest[strspn(rest, " \n")] == '\0';
}

static int strategy_line(struct replay_parser *parser, const char *values)
{
	char name[32];
	int end = 0;
	int read = sscanf(values, "%31s%n", name, &end);

	if (!complete(values + end, read, 1))
		return -EBADMSG;
	return ktsn_strategy_parse(name, &parser->replay.config.strategy);
}

static int number_read(const char *values, int64_t *number)
{
	int end = 0;
	int read = sscanf(values, "%" SCNd64 "%n", number, &end);

	return complete(values + end, read, 1) && *number >= 0 ? 0 : -EBADMSG;
}

static int link_speed_line(struct replay_parser *parser, const char *values)
{
	int64_t speed_bps;
	int error = number_read(values, &speed_bps);

	if (!error)
		parser->replay.config.link_speed_bps = (uint64_t)speed_bps;
	return error;
}

static int guard_band_line(struct replay_parser *parser, const char *values)
{
	return number_read(values, &parser->replay.config.guard_band_ns);
}

static int delta_line(struct replay_parser *parser, const char *values)
{
	return number_read(values, &parser->replay.config.delta_ns);
}

static int tolerance_line(struct replay_parser *parser, const char *values)
{
	return number_read(values, &parser->replay.config.tolerance_ns);
}

/* Applies the schedule whose last line was read. */
static int schedule_close(struct replay_parser *parser)
{
	struct replay *replay = &parser->replay;
	struct ktsn_schedule_fault fault;
	int error;

	if (!parser->schedule_open)
		return 0;
	parser->schedule_open = false;
	error = ktsn_schedule_check(&parser->schedule,
				    ktsn_link_ns(replay->config.link_speed_bps, KTSN_WIRE_BYTES_MIN), &fault);
	if (!error)
		error = replay_advance(replay, parser->schedule_at_tai_ns);
	if (!error)
		replay_schedule(replay, &parser->schedule);
	return error;
}

/* Common to all events: the first one starts the shaper, and earlier schedules are complete. */
static int event_begin(struct replay_parser *parser)
{
	int error = parser->replay.shaper ? 0 : replay_start(&parser->replay);

	return error ? error : schedule_close(parser);
}

static int schedule_line(struct replay_parser *parser, const char *values)
{
	struct ktsn_schedule *schedule = &parser->schedule;
	int error = event_begin(parser), end = 0, read;

	if (error)
		return error;
	ktsn_schedule_init(schedule);
	read = sscanf(values, "%" SCNd64 "%" SCNu8 "%" SCNd64 "%" SCNd64 "%" SCNu32 "%n",
		      &parser->schedule_at_tai_ns, &schedule->gate_states, &schedule->base_time_tai_ns,
		      &schedule->cycle_time_ns, &schedule->cycle_time_extension_ns, &end);
	if (!complete(values + end, read, 5))
		return -EBADMSG;
	schedule->gate_enabled = true;
	parser->schedule_open = true;
	return 0;
}

static int entry_line(struct replay_parser *parser, const char *values)
{
	struct ktsn_schedule *schedule = &parser->schedule;
	struct ktsn_gate_entry *entry;
	int end = 0, read;

	if (!parser->schedule_open || schedule->entry_count == KTSN_SCHEDULE_ENTRIES_MAX)
		return -EBADMSG;
	entry = &schedule->entries[schedule->entry_count++];
	read = sscanf(values, "%" SCNu32 "%" SCNu8 "%n", &entry->interval_ns, &entry->gate_states, &end);
	return complete(values + end, read, 2) ? 0 : -EBADMSG;
}

static int max_sdu_line(struct replay_parser *parser, const char *values)
{
	unsigned int class, bytes;
	int end = 0, read = sscanf(values, "%u%u%n", &class, &bytes, &end);

	if (!parser->schedule_open || !complete(values + end, read, 2) || class >= KTSN_CLASSES)
		return -EBADMSG;
	parser->schedule.queue_max_sdu_bytes[class] = bytes;
	return 0;
}

static int message_line(struct replay_parser *parser, const char *values)
{
	struct replay_message message = {0};
	struct ktsn_shaper_packet *packet = &message.shaper;
	int64_t at_tai_ns;
	unsigned int deadline;
	int error = event_begin(parser), end = 0, read;

	if (error)
		return error;
	read = sscanf(values, "%" SCNd64 "%u%" SCNd64 "%" SCNu8 "%" SCNu32 "%" SCNu32 "%u%n", &at_tai_ns,
		      &message.id, &packet->txtime_tai_ns, &packet->traffic_class, &packet->wire_bytes,
		      &packet->sdu_bytes, &deadline, &end);
	if (!complete(values + end, read, 7) || packet->traffic_class >= KTSN_CLASSES || deadline > 1)
		return -EBADMSG;
	packet->deadline = deadline;
	error = replay_advance(&parser->replay, at_tai_ns);
	return error ? error : replay_message(&parser->replay, &message);
}

static int until_line(struct replay_parser *parser, const char *values)
{
	int64_t at_tai_ns;
	int error = event_begin(parser);

	if (!error)
		error = number_read(values, &at_tai_ns);
	return error ? error : replay_advance(&parser->replay, at_tai_ns);
}

int replay_line(struct replay_parser *parser, const char *line)
{
	static const struct {
		const char *name;
		int (*read)(struct replay_parser *parser, const char *values);
	} lines[] = {
		{"strategy", strategy_line},
		{"link-speed-bps", link_speed_line},
		{"guard-band-ns", guard_band_line},
		{"delta-ns", delta_line},
		{"tolerance-ns", tolerance_line},
		{"schedule", schedule_line},
		{"entry", entry_line},
		{"max-sdu", max_sdu_line},
		{"message", message_line},
		{"until", until_line},
	};
	size_t length = strcspn(line, " \n");

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (strlen(lines[i].name) == length && strncmp(lines[i].name, line, length) == 0)
			return lines[i].read(parser, line + length);
	return -EBADMSG;
}
