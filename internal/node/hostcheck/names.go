// SPDX-License-Identifier: Apache-2.0

package hostcheck

// Reasons of findings about a node, and of its condition HostReady. Findings that stop traffic for certain make the condition False.
const (
	// ReasonTunnelDropped : the node's packet filter drops the packets of tunnels.
	ReasonTunnelDropped = "TunnelDropped"
	// ReasonTunnelMayBeDropped : the node's packet filter may drop the packets of tunnels; this depends on something that the agent
	// does not know.
	ReasonTunnelMayBeDropped = "TunnelMayBeDropped"
	// ReasonBridgedDropped : the node's packet filter drops bridged frames of pods.
	ReasonBridgedDropped = "BridgedFramesDropped"
	// ReasonBridgedMayBeDropped : the node's packet filter may drop bridged frames of pods.
	ReasonBridgedMayBeDropped = "BridgedFramesMayBeDropped"
	// ReasonFilterUnread : the rules of iptables-legacy could not be read, and may drop packets.
	ReasonFilterUnread = "FilterUnread"
	// ReasonReversePath : the node drops packets of peers, because it would send to them by another interface (rp_filter).
	ReasonReversePath = "ReversePathFilter"
	// ReasonTunnelChecksum : the driver of the uplink is known for wrong checksums in packets of tunnels.
	ReasonTunnelChecksum = "TunnelChecksumOffload"
	// ReasonDevicesManaged : another program manages devices of the networks.
	ReasonDevicesManaged = "DevicesManaged"
	// ReasonNeighborsFull : the neighbour table of the kernel was full since the check before; new destinations are not reached.
	ReasonNeighborsFull = "NeighborTableFull"
	// ReasonNeighborsScarce : the neighbour table is nearly full, or was full before.
	ReasonNeighborsScarce = "NeighborTableScarce"
	// ReasonProgramsBefore : tcx programs of others get frames before the program for receive rings, which may get none.
	ReasonProgramsBefore = "ProgramsBefore"
	// ReasonQdisc : the default queueing discipline holds packets back by their time stamps.
	ReasonQdisc = "DefaultQdisc"
	// ReasonSELinux : SELinux is enforced; pods need the rights that the installation guide lists.
	ReasonSELinux = "SELinuxEnforcing"
	// ReasonPluginFolder : the folder of network plugins lacks host-local, or is not the one in which the container runtime looks.
	ReasonPluginFolder = "PluginFolder"
)
