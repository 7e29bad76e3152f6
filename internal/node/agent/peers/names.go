// SPDX-License-Identifier: Apache-2.0

package peers

// Reasons of Events of nodes.
const (
	// ReasonLeftOut : the node has no part of a network's ranges, or no address of its own for tunnels; pods there cannot be on it.
	ReasonLeftOut = "TSNNodeLeftOut"
	// ReasonOpenVSwitch : the node's Open vSwitch cannot be set up.
	ReasonOpenVSwitch = "TSNOpenVSwitchNotSetUp"
)
