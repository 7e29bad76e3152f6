// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"maps"
	"os"
	"time"
)

// Changes tells whether attachments have come or gone, without reading their records.
type Changes struct {
	StateDir string
	// modified is when each folder of records was last changed.
	modified map[string]time.Time
}

// Any tells whether there are any since it was last asked, and the first time that there are.
func (c *Changes) Any() bool {
	now := c.look()
	if c.modified != nil && maps.Equal(now, c.modified) {
		return false
	}
	c.modified = now
	return true
}

// look reads the times of the folders. One that cannot be read has none.
func (c *Changes) look() map[string]time.Time {
	now := map[string]time.Time{}
	of := records{c.StateDir}
	networks, _ := of.networks()
	for _, network := range networks {
		if folder, err := os.Stat(of.folder(network)); err == nil {
			now[network] = folder.ModTime()
		}
	}
	return now
}
