/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of a program as one table: its rows drive getopt_long(), the text of --help, and the
 * messages about bad values. One thread, when a program starts: getopt_long() keeps its state in globals.
 */
#ifndef KTSN_BASE_OPTION_TABLE_H
#define KTSN_BASE_OPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPTIONS_MAX 48

/* The type of the field that an option sets, and the values that it takes. */
enum option_type {
	OPTION_SET,         /* bool: true when the option is given, without a value */
	OPTION_CLEAR,       /* bool: false when the option is given, without a value */
	OPTION_TEXT,        /* const char *: not empty, at most `maximum` bytes unless that is 0 */
	OPTION_PATH,        /* the same, beginning with '/' */
	OPTION_FILE_NAME,   /* the same, without '/' */
	OPTION_NUMBER,      /* integer of 2, 4 or 8 bytes: decimal digits, multiplied by `scale` */
	OPTION_FD,          /* integer of 4 bytes: the number of an open file descriptor */
	OPTION_DURATION,    /* int64_t, ns: a number with the unit ns, us, ms or s */
	OPTION_DURATION_NS, /* the same; a number without a unit is in ns */
	OPTION_WORD,        /* enum or integer of 4 bytes: the value of one of `words` */
	OPTION_CUSTOM,      /* anything: `parse` stores it */
};

struct option_word {
	const char *name;
	int value;
};

/* A row. Flags have neither `argument` nor a range. */
struct option_spec {
	const char *name;     /* without dashes */
	const char *argument; /* the value's name in --help */
	const char *help;     /* wrapped by --help; '\n' begins a new line */
	enum option_type type;
	bool required;
	size_t offset, bytes;            /* of the field: OPTION_FIELD() */
	int64_t minimum, maximum;        /* inclusive, of a number or a duration in ns */
	int64_t scale;                   /* of OPTION_NUMBER; 0 stands for 1 */
	const struct option_word *words; /* of OPTION_WORD; a row without a name ends them */
	/* parse reads an OPTION_CUSTOM; 0 or -errno. */
	int (*parse)(const char *text, void *field);
	const char *accepted; /* completes "must be "; NULL: from the type and the range */
};

#define OPTION_FIELD(type, member) .offset = offsetof(type, member), .bytes = sizeof(((type *)0)->member)

struct option_table {
	const char *program; /* with its command, such as "tsnperf talker" */
	const char *version; /* the answer to --version; NULL: there is no such option */
	const char *usage;   /* the arguments in the first line of --help */
	const char *about;   /* the paragraphs above the options */
	const char *notes;   /* the paragraph below them, or NULL */
	const struct option_spec *specs;
	size_t spec_count; /* at most OPTIONS_MAX */
};

/*
 * Reads argv[1] and what follows into *options, whose defaults the caller has set; texts point into argv.
 * Returns 0, 1 after answering --help or --version, or -EINVAL after a message on standard error that names
 * the option, the value and the permitted values.
 */
int option_table_read(const struct option_table *table, int argc, char **argv, void *options);

/*
 * A number is decimal digits without a sign. A duration is a number with the unit ns, us, ms or s, or without
 * a unit, in ns. Both return -EINVAL for other texts and -ERANGE when the value exceeds an int64_t; the
 * result is untouched then.
 */
int parse_number(const char *text, int64_t *number);
int parse_duration(const char *text, int64_t *duration_ns);

#endif
