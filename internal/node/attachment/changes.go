// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"maps"
	"os"
	"time"
)

// Changes tells whether attachments have come or gone, without reading their records.
type Changes struct {
	StateDir string
	// modified is when each folder of records was last changed; nil until all have settled.
	modified map[string]time.Time
}

// Any reports whether there may be changes since it was last asked. The first time, and shortly after a change, it is true.
func (c *Changes) Any() bool {
	readAt := time.Now()
	times := c.look()
	if c.modified != nil && maps.Equal(times, c.modified) {
		return false
	}
	c.modified = times
	for _, modified := range times {
		if !Settled(modified, readAt) {
			c.modified = nil
		}
	}
	return true
}

// look reads the times of the folders. One that cannot be read has none.
func (c *Changes) look() map[string]time.Time {
	now := map[string]time.Time{}
	of := recordStore{c.StateDir}
	networks, _ := of.networks()
	for _, network := range networks {
		if folder, err := os.Stat(of.folder(network)); err == nil {
			now[network] = folder.ModTime()
		}
	}
	return now
}
