/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of the options of both relays. Each gives 0, or -EINVAL after a message on standard error.
 */
#ifndef KTSN_RELAY_OPTION_VALUES_H
#define KTSN_RELAY_OPTION_VALUES_H

/* The number of an open file descriptor. `name` is the option's, without dashes. */
int option_fd_parse(const char *name, const char *text, int *fd);

/* The name of a file in a folder. */
int option_name_parse(const char *text, const char **name);

#endif
