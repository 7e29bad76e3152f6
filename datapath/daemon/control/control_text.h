/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses as text in requests and replies of the control socket. Pure.
 */
#ifndef KTSN_DAEMON_CONTROL_TEXT_H
#define KTSN_DAEMON_CONTROL_TEXT_H

#include "subnet.h"

#include <arpa/inet.h>

enum {
	CONTROL_MAC_CHARACTERS = 17,
	CONTROL_SUBNET_CHARACTERS = INET6_ADDRSTRLEN + 4,
};

/* Parses a subnet such as "10.42.2.0/24" or "fd42:2::/64"; bits after the prefix must be 0. Returns 0 or
 * -EINVAL. */
int control_subnet_parse(const char *text, struct subnet *subnet);

/* These return `text`; IPv4 addresses are in dotted notation. */
const char *control_address_text(const struct ktsn_address *address, char text[INET6_ADDRSTRLEN]);
const char *control_subnet_text(const struct subnet *subnet, char text[CONTROL_SUBNET_CHARACTERS + 1]);
const char *control_mac_text(const uint8_t mac[6], char text[CONTROL_MAC_CHARACTERS + 1]);

#endif
