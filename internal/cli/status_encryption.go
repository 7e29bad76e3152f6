// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// encryptionState is what networks ask for, and what frames to other nodes are sealed by. Nothing of it is a key.
type encryptionState struct {
	Networks     []control.NetworkEncryption `json:"network-encryptions"`
	Associations []control.AssociationState  `json:"security-associations"`
}

func printEncryption(out io.Writer, state *encryptionState) {
	for _, network := range state.Networks {
		fmt.Fprintf(out, "encryption\tVNI %d: %s\n", network.VNI, network.Encryption)
	}
	for _, association := range state.Associations {
		fmt.Fprintf(out, "association\tto %s: SPI %#x, generation %d, %d frames sealed, %d more to come\n",
			association.Peer, association.SPI, association.Generation, association.Sequence, association.AssociationsLeft)
	}
}
