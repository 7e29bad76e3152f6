/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses as requests and replies of the control socket write them. Pure.
 */
#ifndef KTSN_DAEMON_CONTROL_TEXT_H
#define KTSN_DAEMON_CONTROL_TEXT_H

#include "subnet.h"

#include <arpa/inet.h>

enum {
	CONTROL_MAC_CHARACTERS = 17,
	CONTROL_SUBNET_CHARACTERS = INET6_ADDRSTRLEN + 4,
};

/* "10.42.2.0/24", "fd42:2::/64"; bits behind the prefix must be 0, or it is probably a mistake. 0 or -EINVAL.
 */
int control_subnet_parse(const char *text, struct subnet *subnet);

/* All of these return the text; IPv4 in four numbers. */
const char *control_address_text(const struct ktsn_address *address, char text[INET6_ADDRSTRLEN]);
const char *control_subnet_text(const struct subnet *subnet, char text[CONTROL_SUBNET_CHARACTERS + 1]);
const char *control_mac_text(const uint8_t mac[6], char text[CONTROL_MAC_CHARACTERS + 1]);

#endif
