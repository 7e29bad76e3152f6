// SPDX-License-Identifier: Apache-2.0

package peers

// Reasons of Events of nodes.
const (
	// ReasonOpenVSwitch : the node's Open vSwitch cannot be set up.
	ReasonOpenVSwitch = "TSNOpenVSwitchNotSetUp"
)
