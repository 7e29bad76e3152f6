// SPDX-License-Identifier: Apache-2.0

// Package fault marks the points at which tests kill a program to test its recovery. The marks do nothing unless the program is built
// with the tag ktsn_faults.
package fault

// Variable is the environment variable with the name of the point at which the program kills itself.
const Variable = "KTSN_KILL_AT"

// The points that a command of tsn-cni passes, in order, when it attaches the first or detaches the last pod of a
// network, and a node's peers are changed.
var (
	Add = []string{"recorded", "addressed", "locked", "bridge-made", "tunnel-made", "network-guarded", "network-made", "pair-made",
		"plugged", "configured", "receiving", "socket-used", "socket-folder-made", "socket-made", "registered"}
	Del   = []string{"endpoint-removed", "socket-released", "unregistered", "port-leaving", "network-leaving", "devices-removed", "unplugged", "unaddressed"}
	Peers = []string{"peer-guarded", "peer-flooded", "peer-told"}
	// Kata are passed when a pod of Kata with a directly attachable network is attached, KataDel when it is detached.
	Kata    = []string{"kata-tap-made", "kata-tap-joined", "kata-told"}
	KataDel = []string{"kata-untold", "kata-tap-left"}
	// Link are passed when a link is plugged, LinkDel when it is unplugged.
	Link = []string{"recorded", "link-peer-written", "link-peer-flooded", "link-peer-told", "locked", "bridge-made", "tunnel-made", "network-guarded",
		"network-made", "pair-made", "plugged", "configured", "registered"}
	LinkDel = []string{"endpoint-removed", "unregistered", "port-leaving", "network-leaving", "devices-removed", "unplugged", "link-peer-forgotten"}
	// Card are passed when such a pod gets a network card.
	Card = []string{"card-chosen", "card-claimed", "card-bound"}
)
