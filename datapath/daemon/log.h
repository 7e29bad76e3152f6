/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to the operator, on standard error, each with its level as systemd reads it (sd-daemon(3)) when
 * standard error is not a terminal. Never called on the loop thread's way of a packet: that counts.
 */
#ifndef KTSN_DAEMON_LOG_H
#define KTSN_DAEMON_LOG_H

enum log_level { LOG_LEVEL_ERROR = 3, LOG_LEVEL_WARNING = 4, LOG_LEVEL_INFO = 6, LOG_LEVEL_DEBUG = 7 };

/* Messages of a higher number than `level` are not written. */
void log_level_set(enum log_level level);

__attribute__((format(printf, 1, 2))) void log_error(const char *format, ...);
__attribute__((format(printf, 1, 2))) void log_warning(const char *format, ...);
__attribute__((format(printf, 1, 2))) void log_info(const char *format, ...);
__attribute__((format(printf, 1, 2))) void log_debug(const char *format, ...);

#endif
