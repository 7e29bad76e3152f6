/* SPDX-License-Identifier: Apache-2.0 */
#include "instance.h"

#include "clock.h"
#include "log.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 96 };

/* Reads a short file as a string. */
static int file_read(const char *path, char *text, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t count;

	if (fd < 0)
		return -errno;
	count = read(fd, text, bytes - 1);
	close(fd);
	text[count > 0 ? count : 0] = '\0';
	return count < 0 ? -EIO : 0;
}

static int boot_id_read(char boot_id[BOOT_ID_CHARACTERS + 1])
{
	return file_read("/proc/sys/kernel/random/boot_id", boot_id, BOOT_ID_CHARACTERS + 1);
}

bool instance_boot_id_valid(const char *text)
{
	size_t length = 0;

	while (isalnum((unsigned char)text[length]) || text[length] == '-')
		length++;
	return length > 0 && length <= BOOT_ID_CHARACTERS && !text[length];
}

/* "BOOT-ID NANOSECONDS\n" */
static int line_parse(const char *line, struct instance *instance)
{
	int end = 0;

	if (sscanf(line, "%36s %" SCNd64 "%n", instance->boot_id, &instance->born_ns, &end) != 2 ||
	    line[end] != '\n' || instance->born_ns <= 0 || !instance_boot_id_valid(instance->boot_id))
		return -EINVAL;
	return 0;
}

/* Writes a file atomically, in case ktsnd is killed or the power fails. */
static int line_write(const char *path, const char *line)
{
	char new_path[PATH_MAX + 8];
	int fd, err = 0;

	snprintf(new_path, sizeof(new_path), "%s.new", path);
	fd = open(new_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	if (write(fd, line, strlen(line)) != (ssize_t)strlen(line) || fsync(fd))
		err = -EIO;
	close(fd);
	if (!err && rename(new_path, path))
		err = -errno;
	return err;
}

static int birth_write(struct instance *instance, const char *path)
{
	char line[LINE_BYTES];
	int err = boot_id_read(instance->boot_id);

	instance->born_ns = clock_ns(CLOCK_BOOTTIME);
	snprintf(line, sizeof(line), "%s %" PRId64 "\n", instance->boot_id, instance->born_ns);
	return err ? err : line_write(path, line);
}

static const char *advice(int err)
{
	switch (-err) {
	case EINVAL:
		return "does not contain what ktsnd writes there; remove it";
	case ENOENT:
		return "the folder does not exist; create it first";
	default:
		return strerror(-err);
	}
}

int instance_born(struct instance *instance, const char *folder)
{
	char path[PATH_MAX], line[LINE_BYTES] = "";
	int err;

	snprintf(path, sizeof(path), "%s/born", folder);
	err = file_read(path, line, sizeof(line));
	/* A file system may leave an empty file when the power fails. */
	if (err == -ENOENT || (!err && !line[0]))
		err = birth_write(instance, path);
	else if (!err)
		err = line_parse(line, instance);
	if (err)
		log_error("--instance-dir: %s: %s", path, advice(err));
	return err;
}

int instance_renew(struct instance *instance, const char *folder)
{
	char path[PATH_MAX];
	int err;

	snprintf(path, sizeof(path), "%s/born", folder);
	err = birth_write(instance, path);
	if (err)
		log_error("--instance-dir: %s: %s", path, advice(err));
	return err;
}

/* Whether a was born since the last boot and b before it. */
static bool born_later(const struct instance *a, const struct instance *b)
{
	char boot_id[BOOT_ID_CHARACTERS + 1];

	return boot_id_read(boot_id) == 0 && strcmp(a->boot_id, boot_id) == 0 &&
	       strcmp(b->boot_id, boot_id) != 0;
}

bool instance_is_older(const struct instance *a, const struct instance *b)
{
	if (!a->born_ns || !b->born_ns)
		return false;
	if (strcmp(a->boot_id, b->boot_id) == 0)
		return a->born_ns < b->born_ns;
	return born_later(b, a);
}
