/* SPDX-License-Identifier: Apache-2.0 */
#include "vhost_first.h"

#include <errno.h>
#include <stdatomic.h>

#include <rte_vhost.h>

static _Atomic bool connected;

static int came(int id)
{
	(void)id;
	connected = true;
	return 0;
}

static void went(int id)
{
	(void)id;
}

/* The frames are nobody's. */
static const struct rte_vhost_device_ops ops = {.new_connection = came, .destroy_device = went};

int vhost_first_begin(const char *path)
{
	if (rte_vhost_driver_register(path, RTE_VHOST_USER_CLIENT))
		return -EIO;
	if (rte_vhost_driver_callback_register(path, &ops) || rte_vhost_driver_start(path)) {
		vhost_first_end(path);
		return -EIO;
	}
	return 0;
}

void vhost_first_end(const char *path)
{
	(void)rte_vhost_driver_unregister(path);
}

bool vhost_first_came(void)
{
	return connected;
}
