// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"context"
	"errors"

	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// VLANMissing returns why frames with a VLAN tag cannot be received on this machine, nil if they can. It undoes its
// attempt.
func VLANMissing(ctx context.Context) error {
	nodes, err := topology.Create(ctx)
	if err != nil {
		return err
	}
	return errors.Join(nodes.TakeTags(), nodes.Destroy())
}
