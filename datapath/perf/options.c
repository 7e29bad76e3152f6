/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "parse.h"

enum {
	/* getopt_long() returns FIRST_SPEC + row; below are characters. */
	FIRST_SPEC = 256,
	HELP_COLUMN = 28,
};

int option_flag(const struct option_spec *spec, const char *text)
{
	(void)text;
	*(bool *)spec->value = true;
	return 0;
}

int option_no_flag(const struct option_spec *spec, const char *text)
{
	(void)text;
	*(bool *)spec->value = false;
	return 0;
}

int option_text(const struct option_spec *spec, const char *text)
{
	if (!*text)
		return -EINVAL;
	*(const char **)spec->value = text;
	return 0;
}

static int store_in_range(const struct option_spec *spec, int64_t parsed)
{
	if (parsed < spec->minimum || parsed > spec->maximum)
		return -ERANGE;
	*(int64_t *)spec->value = parsed;
	return 0;
}

int option_number(const struct option_spec *spec, const char *text)
{
	int64_t parsed;
	int error = parse_number(text, &parsed);

	return error ? error : store_in_range(spec, parsed);
}

int option_duration(const struct option_spec *spec, const char *text)
{
	int64_t parsed;
	int error = parse_duration(text, &parsed);

	return error ? error : store_in_range(spec, parsed);
}

int option_endpoint(const struct option_spec *spec, const char *text)
{
	return parse_endpoint(text, true, spec->value);
}

int option_endpoint_any_port(const struct option_spec *spec, const char *text)
{
	return parse_endpoint(text, false, spec->value);
}

int option_clock(const struct option_spec *spec, const char *text)
{
	return parse_clock(text, spec->value);
}

int option_start(const struct option_spec *spec, const char *text)
{
	return parse_start(text, spec->value);
}

static void print_row(const char *name, const char *argument, const char *help)
{
	int column = printf("  --%s%s%s", name, argument ? " " : "", argument ? argument : "");

	printf("%*s", column < HELP_COLUMN ? HELP_COLUMN - column : 1, "");
	for (; *help; help++) {
		putchar(*help);
		if (*help == '\n')
			printf("%*s", HELP_COLUMN, "");
	}
	putchar('\n');
}

static void print_help(const struct option_table *table)
{
	printf("Usage: tsnperf %s %s\n\n%s\n\nOptions:\n", table->command, table->usage, table->about);
	for (size_t i = 0; i < table->spec_count; i++)
		print_row(table->specs[i].name, table->specs[i].argument, table->specs[i].help);
	print_row("help", NULL, "this text");
}

static void build_long_options(const struct option_table *table, struct option *long_options)
{
	size_t count = table->spec_count;

	assert(count <= OPTIONS_MAX);
	memset(long_options, 0, (count + 2) * sizeof(*long_options));
	for (size_t i = 0; i < count; i++) {
		long_options[i].name = table->specs[i].name;
		long_options[i].has_arg = table->specs[i].argument ? required_argument : no_argument;
		long_options[i].val = FIRST_SPEC + (int)i;
	}
	long_options[count].name = "help";
	long_options[count].val = 'h';
}

/* `word` is the argument of argv at which getopt_long() stopped, `code` what it returned. */
static int refuse_word(const struct option_table *table, int code, const char *word)
{
	if (code == ':') {
		const struct option_spec *spec = &table->specs[optopt - FIRST_SPEC];

		fprintf(stderr, "tsnperf %s: --%s has no argument; accepted is %s.\n", table->command,
			spec->name, spec->accepted);
	} else if (optopt >= FIRST_SPEC) {
		fprintf(stderr, "tsnperf %s: --%s takes no argument, but \"%s\" has one.\n", table->command,
			table->specs[optopt - FIRST_SPEC].name, word);
	} else {
		fprintf(stderr, "tsnperf %s: \"%s\" is not an option; `tsnperf %s --help` lists them.\n",
			table->command, word, table->command);
	}
	return -EINVAL;
}

static int apply(const struct option_table *table, const struct option_spec *spec, const char *text)
{
	int error = spec->parse(spec, text);

	if (!error)
		return 0;
	fprintf(stderr, "tsnperf %s: --%s \"%s\" %s; accepted is %s.\n", table->command, spec->name, text,
		error == -ERANGE ? "is out of range" : "was not understood", spec->accepted);
	return -EINVAL;
}

static int check_required(const struct option_table *table, const bool *given)
{
	for (size_t i = 0; i < table->spec_count; i++) {
		if (!table->specs[i].required || given[i])
			continue;
		fprintf(stderr, "tsnperf %s: --%s is missing; accepted is %s.\n", table->command,
			table->specs[i].name, table->specs[i].accepted);
		return -EINVAL;
	}
	return 0;
}

static int parse_all(const struct option_table *table, int argc, char **argv,
		     const struct option *long_options, bool *given)
{
	for (;;) {
		int at = optind ? optind : 1;
		int code = getopt_long(argc, argv, "+:h", long_options, NULL);

		if (code == -1)
			break;
		if (code == 'h') {
			print_help(table);
			return 1;
		}
		if (code < FIRST_SPEC)
			return refuse_word(table, code, argv[at]);
		if (apply(table, &table->specs[code - FIRST_SPEC], optarg))
			return -EINVAL;
		given[code - FIRST_SPEC] = true;
	}
	return optind < argc ? refuse_word(table, 0, argv[optind]) : 0;
}

int options_parse(const struct option_table *table, int argc, char **argv)
{
	struct option long_options[OPTIONS_MAX + 2];
	bool given[OPTIONS_MAX] = {false};
	int result;

	build_long_options(table, long_options);
	optind = 0; /* makes getopt_long() start anew, in glibc and musl */
	optopt = 0;
	result = parse_all(table, argc, argv, long_options, given);
	return result ? result : check_required(table, given);
}
