// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"path/filepath"

	"github.com/kubernetsn/kubernetsn/internal/testlab/hugepages"
)

// hugepagesNote is a file with the number of this machine's hugepages that are reserved for the cluster.
func (c *Cluster) hugepagesNote() string { return filepath.Join(c.Dir, "hugepages") }

// SetHugepagesAside reserves hugepages of 2 MB for the nodes, which share those of this machine. Down returns them too.
func (c *Cluster) SetHugepagesAside(pages int) error {
	if err := hugepages.SetAside(c.hugepagesNote(), pages); err != nil {
		return fmt.Errorf("cluster %s: %w", c.Name, err)
	}
	return nil
}

// GiveHugepagesBack returns reserved hugepages, if there are any.
func (c *Cluster) GiveHugepagesBack() error {
	if err := hugepages.GiveBack(c.hugepagesNote()); err != nil {
		return fmt.Errorf("cluster %s: %w", c.Name, err)
	}
	return nil
}
