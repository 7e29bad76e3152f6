/* SPDX-License-Identifier: Apache-2.0 */
#include "receive_refusal.h"

#include "receive_layout.h"

const char *receive_refusal_text(enum receive_refusal refusal)
{
	static const char *const texts[RECEIVE_REFUSALS] = {
		[RECEIVE_SERVED] = "",
		[RECEIVE_NOT_ASKED] = "no endpoint of the pod asks for receive rings",
		[RECEIVE_NO_PROGRAM] = "no program for receive rings is at the uplink",
		[RECEIVE_KIND] = "it is no UDP socket",
		[RECEIVE_FILTER] = "it has a filter of its own",
		[RECEIVE_GRO] = "it wants datagrams joined (UDP_GRO)",
		[RECEIVE_ENCAPSULATION] = "it is the end of a tunnel (UDP_ENCAP)",
		[RECEIVE_DEVICE] = "it is bound to an interface (SO_BINDTODEVICE)",
		[RECEIVE_SOCKETS] = "the pod has reached its limit of sockets",
		[RECEIVE_MEMORY] = "the rings of the pod or the node have reached their limit of memory",
		[RECEIVE_RATE] = "the pod opens too many receive rings a second",
		[RECEIVE_KERNEL] = "the kernel refused its ring",
		[RECEIVE_OPTION] =
			"it asked for a socket option that only the kernel serves, such as SO_TIMESTAMPING",
		[RECEIVE_SHARED] = "it was passed to another process, which may have no libktsn (SCM_RIGHTS)",
		[RECEIVE_ENCRYPTED] = "its network is encrypted, and only the kernel decrypts",
	};

	return texts[refusal];
}

const char *receive_left_text(uint32_t left)
{
	static const char *const texts[KTSN_RECEIVE_LEFTS] = {
		[KTSN_RECEIVE_LEFT_NOT] = "",
		[KTSN_RECEIVE_LEFT_PACKET_FILTER] = "the pod has packet filters",
		[KTSN_RECEIVE_LEFT_POLICY] = "the pod has policies of IPsec",
		[KTSN_RECEIVE_LEFT_CGROUP_PROGRAM] = "its cgroup has BPF programs",
		[KTSN_RECEIVE_LEFT_REUSEPORT_PROGRAM] = "a program chooses among sockets at its port",
	};

	return texts[left];
}
