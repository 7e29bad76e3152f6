// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"context"
	"errors"

	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// VLANMissing is why frames with a VLAN tag cannot be received on this machine, in a sentence; nil when they can. What it tries
// is undone.
func VLANMissing(ctx context.Context) error {
	nodes, err := topology.Create(ctx)
	if err != nil {
		return err
	}
	return errors.Join(nodes.TakeTags(), nodes.Destroy())
}
