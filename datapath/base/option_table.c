/* SPDX-License-Identifier: Apache-2.0 */
#include "option_table.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	/* getopt_long() returns ROW_FIRST + row; values below are characters. */
	ROW_FIRST = 256,
	HELP_COLUMNS = 104,
	ACCEPTED_BYTES = 160,
};

static const struct {
	const char *suffix;
	int64_t ns;
} units[] = {{"s", 1000000000}, {"ms", 1000000}, {"us", 1000}, {"ns", 1}, {"", 1}};

/* strtoll() alone would also accept leading blanks and signs. */
static int leading_number(const char *text, int64_t *number, const char **rest)
{
	long long parsed;
	char *end;

	*rest = "";
	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	parsed = strtoll(text, &end, 10);
	if (errno)
		return -errno;
	*number = parsed;
	*rest = end;
	return 0;
}

int parse_number(const char *text, int64_t *number)
{
	const char *rest;
	int64_t parsed = 0;
	int err = leading_number(text, &parsed, &rest);

	if (!err && *rest)
		err = -EINVAL;
	if (!err)
		*number = parsed;
	return err;
}

int parse_duration(const char *text, int64_t *duration_ns)
{
	const char *suffix;
	int64_t number = 0, product_ns;
	int err = leading_number(text, &number, &suffix);

	if (err)
		return err;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(suffix, units[i].suffix) != 0)
			continue;
		if (__builtin_mul_overflow(number, units[i].ns, &product_ns))
			return -ERANGE;
		*duration_ns = product_ns;
		return 0;
	}
	return -EINVAL;
}

/* A duration in the largest unit of which it is a whole number. */
static void duration_write(int64_t duration_ns, char *text, size_t bytes)
{
	size_t i = 0;

	while (units[i].ns > 1 && (duration_ns == 0 || duration_ns % units[i].ns))
		i++;
	snprintf(text, bytes, "%" PRId64 "%s", duration_ns / units[i].ns, units[i].suffix);
}

/* "tas, etf or etf-deadline" */
static void words_write(const struct option_word *words, char *text, size_t bytes)
{
	size_t length = 0;

	for (const struct option_word *word = words; word->name && length < bytes; word++) {
		const char *separator = word == words ? "" : word[1].name ? ", " : " or ";

		length += (size_t)snprintf(text + length, bytes - length, "%s%s", separator, word->name);
	}
}

static void duration_range_write(const struct option_spec *spec, char *text, size_t bytes)
{
	const char *without = spec->type == OPTION_DURATION_NS ? " or without" : "";
	char minimum[32], maximum[32];

	duration_write(spec->minimum, minimum, sizeof(minimum));
	duration_write(spec->maximum, maximum, sizeof(maximum));
	if (spec->minimum)
		snprintf(text, bytes, "a number with%s the unit ns, us, ms or s, from %s to %s", without,
			 minimum, maximum);
	else
		snprintf(text, bytes, "a number with%s the unit ns, us, ms or s, at most %s", without,
			 maximum);
}

/* Completes "must be ". */
static const char *accepted_text(const struct option_spec *spec, char text[ACCEPTED_BYTES])
{
	char limit[48] = "";

	if (spec->accepted)
		return spec->accepted;
	if (spec->maximum)
		snprintf(limit, sizeof(limit), " of at most %" PRId64 " bytes", spec->maximum);
	switch (spec->type) {
	case OPTION_PATH:
		snprintf(text, ACCEPTED_BYTES, "an absolute path%s", limit);
		break;
	case OPTION_FILE_NAME:
		snprintf(text, ACCEPTED_BYTES, "the name of a file, without a slash");
		break;
	case OPTION_NUMBER:
		snprintf(text, ACCEPTED_BYTES, "a number from %" PRId64 " to %" PRId64, spec->minimum,
			 spec->maximum);
		break;
	case OPTION_FD:
		snprintf(text, ACCEPTED_BYTES, "the number of an open file descriptor");
		break;
	case OPTION_DURATION:
	case OPTION_DURATION_NS:
		duration_range_write(spec, text, ACCEPTED_BYTES);
		break;
	case OPTION_WORD:
		words_write(spec->words, text, ACCEPTED_BYTES);
		break;
	default:
		snprintf(text, ACCEPTED_BYTES, "a text%s", spec->maximum ? limit : " that is not empty");
		break;
	}
	return text;
}

static int integer_store(const struct option_spec *spec, int64_t value, void *field)
{
	switch (spec->bytes) {
	case sizeof(int16_t):
		memcpy(field, &(int16_t){(int16_t)value}, sizeof(int16_t));
		return 0;
	case sizeof(int32_t):
		memcpy(field, &(int32_t){(int32_t)value}, sizeof(int32_t));
		return 0;
	default:
		assert(spec->bytes == sizeof(int64_t));
		memcpy(field, &value, sizeof(value));
		return 0;
	}
}

static int text_store(const struct option_spec *spec, const char *text, void *field)
{
	if (!*text || (spec->maximum && strlen(text) > (size_t)spec->maximum))
		return -EINVAL;
	if (spec->type == OPTION_PATH && *text != '/')
		return -EINVAL;
	if (spec->type == OPTION_FILE_NAME && strchr(text, '/'))
		return -EINVAL;
	memcpy(field, &text, sizeof(text));
	return 0;
}

static int number_store(const struct option_spec *spec, const char *text, void *field)
{
	int64_t number;
	int err = parse_number(text, &number);

	if (err)
		return err;
	if (number < spec->minimum || number > spec->maximum)
		return -ERANGE;
	return integer_store(spec, number * (spec->scale ? spec->scale : 1), field);
}

static int fd_store(const struct option_spec *spec, const char *text, void *field)
{
	int64_t number;
	int err = parse_number(text, &number);

	if (err)
		return err;
	if (number > INT_MAX || fcntl((int)number, F_GETFD) < 0)
		return -EBADF;
	return integer_store(spec, number, field);
}

static int duration_store(const struct option_spec *spec, const char *text, void *field)
{
	int64_t duration_ns;
	int err = parse_duration(text, &duration_ns);

	if (err)
		return err;
	if (spec->type == OPTION_DURATION && !text[strspn(text, "0123456789")])
		return -EINVAL;
	if (duration_ns < spec->minimum || duration_ns > spec->maximum)
		return -ERANGE;
	return integer_store(spec, duration_ns, field);
}

static int word_store(const struct option_spec *spec, const char *text, void *field)
{
	for (const struct option_word *word = spec->words; word->name; word++)
		if (strcmp(text, word->name) == 0)
			return integer_store(spec, word->value, field);
	return -EINVAL;
}

static int value_store(const struct option_spec *spec, const char *text, void *field)
{
	switch (spec->type) {
	case OPTION_SET:
	case OPTION_CLEAR:
		*(bool *)field = spec->type == OPTION_SET;
		return 0;
	case OPTION_TEXT:
	case OPTION_PATH:
	case OPTION_FILE_NAME:
		return text_store(spec, text, field);
	case OPTION_NUMBER:
		return number_store(spec, text, field);
	case OPTION_FD:
		return fd_store(spec, text, field);
	case OPTION_DURATION:
	case OPTION_DURATION_NS:
		return duration_store(spec, text, field);
	case OPTION_WORD:
		return word_store(spec, text, field);
	case OPTION_CUSTOM:
		return spec->parse(text, field);
	}
	return -EINVAL;
}

/* Prints a text that begins in a column, in lines of HELP_COLUMNS, and ends the line. */
static void wrapped_print(const char *text, int column)
{
	int at = column;

	while (*text) {
		int bytes = (int)strcspn(text, " \n");

		if (at > column && at + bytes > HELP_COLUMNS) {
			printf("\n%*s", column, "");
			at = column;
		}
		at += printf("%s%.*s", at > column ? " " : "", bytes, text);
		text += bytes;
		if (*text == '\n') {
			printf("\n%*s", text[1] ? column : 0, "");
			at = column;
		}
		text += *text != '\0';
	}
	putchar('\n');
}

static int row_columns(const struct option_spec *spec)
{
	return (int)(strlen("  --  ") + strlen(spec->name) +
		     (spec->argument ? 1 + strlen(spec->argument) : 0));
}

static void help_print(const struct option_table *table)
{
	int column = 0;

	for (size_t i = 0; i < table->spec_count; i++)
		if (row_columns(&table->specs[i]) > column)
			column = row_columns(&table->specs[i]);
	printf("Usage: %s %s\n\n", table->program, table->usage);
	wrapped_print(table->about, 0);
	putchar('\n');
	for (size_t i = 0; i < table->spec_count; i++) {
		const struct option_spec *spec = &table->specs[i];
		int printed = printf("  --%s%s%s", spec->name, spec->argument ? " " : "",
				     spec->argument ? spec->argument : "");

		printf("%*s", column - printed, "");
		wrapped_print(spec->help, column);
	}
	puts(table->version ? "  --help, --version" : "  --help");
	if (!table->notes)
		return;
	putchar('\n');
	wrapped_print(table->notes, 0);
}

static void long_options_build(const struct option_table *table, struct option *long_options)
{
	size_t count = table->spec_count;

	assert(count <= OPTIONS_MAX);
	memset(long_options, 0, (count + 3) * sizeof(*long_options));
	for (size_t i = 0; i < count; i++)
		long_options[i] =
			(struct option){.name = table->specs[i].name,
					.has_arg = table->specs[i].argument ? required_argument : no_argument,
					.val = ROW_FIRST + (int)i};
	long_options[count] = (struct option){.name = "help", .val = 'h'};
	if (table->version)
		long_options[count + 1] = (struct option){.name = "version", .val = 'V'};
}

/* `word` is the argument at which getopt_long() stopped, `code` the value that it returned. */
static int word_refuse(const struct option_table *table, int code, const char *word)
{
	const char *problem = code == ':'           ? "needs a value"
			      : optopt >= ROW_FIRST ? "takes no value"
			      : *word == '-'        ? "no such option"
						    : "not an option";

	fprintf(stderr, "%s: %s: %s; see %s --help\n", table->program, word, problem, table->program);
	return -EINVAL;
}

static int value_refuse(const struct option_table *table, const struct option_spec *spec, const char *text)
{
	char accepted[ACCEPTED_BYTES];

	fprintf(stderr, "%s: --%s %s: must be %s\n", table->program, spec->name, text,
		accepted_text(spec, accepted));
	return -EINVAL;
}

static int required_check(const struct option_table *table, const bool *given)
{
	for (size_t i = 0; i < table->spec_count; i++) {
		if (!table->specs[i].required || given[i])
			continue;
		fprintf(stderr, "%s: --%s is missing; see %s --help\n", table->program, table->specs[i].name,
			table->program);
		return -EINVAL;
	}
	return 0;
}

static int answer(const struct option_table *table, int code)
{
	if (code == 'h')
		help_print(table);
	else
		puts(table->version);
	return 1;
}

int option_table_read(const struct option_table *table, int argc, char **argv, void *options)
{
	struct option long_options[OPTIONS_MAX + 3];
	bool given[OPTIONS_MAX] = {false};

	long_options_build(table, long_options);
	optind = 0; /* restarts getopt_long(), in glibc and musl */
	for (;;) {
		const struct option_spec *spec;
		int word, code;

		optopt = 0;
		word = optind ? optind : 1;
		code = getopt_long(argc, argv, "+:h", long_options, NULL);
		if (code == -1)
			break;
		if (code == 'h' || code == 'V')
			return answer(table, code);
		if (code < ROW_FIRST)
			return word_refuse(table, code, argv[word]);
		spec = &table->specs[code - ROW_FIRST];
		if (value_store(spec, optarg, (char *)options + spec->offset))
			return value_refuse(table, spec, optarg);
		given[code - ROW_FIRST] = true;
	}
	if (optind < argc) {
		optopt = 0;
		return word_refuse(table, 0, argv[optind]);
	}
	return required_check(table, given);
}
