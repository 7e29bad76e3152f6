// SPDX-License-Identifier: Apache-2.0

package hostcheck

import (
	"errors"
	"reflect"
	"time"
)

// maxAge is how long the findings about the packet filter are used while its generation is the same: sets of ipset and rules of
// iptables-legacy have none.
const maxAge = 2 * time.Minute

// Watcher repeats the checks of a node. It evaluates the packet filter after changes, and whenever the last result is older than maxAge.
type Watcher struct {
	Node Node
	// Networks returns the present networks.
	Networks func() ([]Network, error)

	generation uint32
	checkedAt  time.Time
	filters    []Finding
}

// Check returns all findings. After an error it returns those that it has.
func (w *Watcher) Check() ([]Finding, error) {
	networks, errNetworks := w.Networks()
	if errNetworks != nil {
		networks = w.Node.Networks
	}
	unchanged := reflect.DeepEqual(networks, w.Node.Networks)
	w.Node.Networks = networks
	generation, errFilters := Generation()
	if errFilters != nil || !unchanged || generation != w.generation || time.Since(w.checkedAt) > maxAge {
		filters, errRead := w.Node.Filters()
		if errFilters = errRead; errRead == nil {
			w.filters, w.generation, w.checkedAt = filters, generation, time.Now()
		} else if time.Since(w.checkedAt) > maxAge {
			w.filters = nil
		}
	}
	return append(w.filters[:len(w.filters):len(w.filters)], w.Node.Settings()...), errors.Join(errNetworks, errFilters)
}
