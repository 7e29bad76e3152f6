// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"path/filepath"

	"github.com/kubernetsn/kubernetsn/internal/testlab/hugepages"
)

// hugepagesNote says how many of this machine's hugepages were set aside for the cluster.
func (c *Cluster) hugepagesNote() string { return filepath.Join(c.Dir, "hugepages") }

// SetHugepagesAside takes so many hugepages of 2 MB for the nodes, which share those of this machine. Down gives them back,
// too.
func (c *Cluster) SetHugepagesAside(pages int) error {
	if err := hugepages.SetAside(c.hugepagesNote(), pages); err != nil {
		return fmt.Errorf("cluster %s: %w", c.Name, err)
	}
	return nil
}

// GiveHugepagesBack gives back what was set aside, if anything was.
func (c *Cluster) GiveHugepagesBack() error {
	if err := hugepages.GiveBack(c.hugepagesNote()); err != nil {
		return fmt.Errorf("cluster %s: %w", c.Name, err)
	}
	return nil
}
