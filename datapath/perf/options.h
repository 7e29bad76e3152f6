/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command line as one table: the same rows drive getopt_long(), --help and the sentence that refuses a
 * bad argument. One thread, before the run (getopt_long() keeps its state in globals).
 */
#ifndef KTSN_PERF_OPTIONS_H
#define KTSN_PERF_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit statuses of tsnperf. */
enum {
	OPTIONS_EXIT_OK = 0,
	OPTIONS_EXIT_FAILURE = 1,
	OPTIONS_EXIT_USAGE = 2,
};

struct option_spec {
	const char *name;     /* without the dashes */
	const char *argument; /* as --help shows it; NULL: takes none */
	/* One of those below: stores into spec->value. 0, -EINVAL or -ERANGE. */
	int (*parse)(const struct option_spec *spec, const char *text);
	void *value;              /* the caller's, of the type that `parse` names */
	int64_t minimum, maximum; /* inclusive; for numbers and durations */
	const char *accepted;     /* ends the sentence "...; accepted is " */
	const char *help;
	bool required;
};

int option_flag(const struct option_spec *spec, const char *text);              /* bool: set */
int option_no_flag(const struct option_spec *spec, const char *text);           /* bool: cleared */
int option_text(const struct option_spec *spec, const char *text);              /* const char * */
int option_number(const struct option_spec *spec, const char *text);            /* int64_t */
int option_duration(const struct option_spec *spec, const char *text);          /* int64_t, ns */
int option_endpoint(const struct option_spec *spec, const char *text);          /* union parse_endpoint */
int option_endpoint_any_port(const struct option_spec *spec, const char *text); /* union parse_endpoint */
int option_clock(const struct option_spec *spec, const char *text);             /* clockid_t */
int option_start(const struct option_spec *spec, const char *text);             /* struct parse_start */

struct option_table {
	const char *command; /* the subcommand, as typed */
	const char *usage;   /* what follows the command in the first line of --help */
	const char *about;   /* the paragraph below it */
	const struct option_spec *specs;
	size_t spec_count; /* at most OPTIONS_MAX */
};

#define OPTIONS_MAX 32

/*
 * Reads argv (argv[0] is the subcommand). 0; 1 when --help was asked for and printed; -EINVAL when an
 * option was refused, with the sentence on stderr. Values of options that are not given stay as they are.
 */
int options_parse(const struct option_table *table, int argc, char **argv);

#endif
