/* SPDX-License-Identifier: Apache-2.0 */
#include "link_speed.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

uint64_t link_speed_bps(const char *interface)
{
	struct ethtool_cmd settings = {.cmd = ETHTOOL_GSET};
	struct ifreq request = {.ifr_data = (char *)&settings};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint32_t speed_mbps = 0;

	if (fd < 0)
		return 0;
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", interface);
	if (ioctl(fd, SIOCETHTOOL, &request) == 0)
		speed_mbps = ethtool_cmd_speed(&settings);
	close(fd);
	return speed_mbps == (uint32_t)SPEED_UNKNOWN ? 0 : (uint64_t)speed_mbps * 1000000;
}
