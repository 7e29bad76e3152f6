// SPDX-License-Identifier: Apache-2.0

// Package fault marks the places at which the tests kill a program, to see what it leaves half-done. In
// programs that are built as shipped the marks do nothing; the tests build theirs with the tag ktsn_faults.
package fault

// Variable names the point at which a program that was built with the tag ktsn_faults kills itself.
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
	// Card are passed when such a pod is given a network card.
	Card = []string{"card-chosen", "card-claimed", "card-bound"}
)
