// SPDX-License-Identifier: Apache-2.0

package links

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// findLoops adds findings to services whose clients wait, directly or indirectly, for a link of the same service: a client's containers
// start when its link is up, and a pod becomes an endpoint when it is ready.
func (p *planner) findLoops(groups map[Key]*group, waiting map[Key][]*member) {
	waitsFor := map[string]map[Key]bool{} // services that pods wait for, by the pods' UIDs
	for key, clients := range waiting {
		for _, client := range clients {
			if waitsFor[client.pod.UID] == nil {
				waitsFor[client.pod.UID] = map[Key]bool{}
			}
			waitsFor[client.pod.UID][key] = true
		}
	}
	next := func(key Key) []Key {
		keys := map[string]Key{}
		if len(waiting[key]) == 0 || groups[key] == nil {
			return nil
		}
		for _, stage := range groups[key].stages {
			for _, member := range stage {
				for service := range waitsFor[member.pod.UID] {
					keys[service.String()] = service
				}
			}
		}
		var all []Key
		for _, name := range sortedKeys(keys) {
			all = append(all, keys[name])
		}
		return all
	}
	for key := range waiting {
		if cycle := findCycle(key, key, next, map[Key]bool{}); cycle != nil && p.out.Services[key] != nil {
			var names []string
			for _, key := range cycle {
				names = append(names, key.String())
			}
			plan := p.out.Services[key]
			plan.Findings = slices.Insert(plan.Findings, 0, Finding{v1alpha1.ReasonChainLoop, fmt.Sprintf("services wait for each other: %s; each has clients that start when they have a link, "+
				"and endpoints that are clients of the next. Remove a label client.kubernetsn.io/ from the pods of one service", strings.Join(names, " -> "))})
		}
	}
}

// findCycle returns a path from a service to another one, nil for none.
func findCycle(from, to Key, next func(Key) []Key, seen map[Key]bool) []Key {
	for _, key := range next(from) {
		if key == to {
			return []Key{from, to}
		}
		if seen[key] {
			continue
		}
		seen[key] = true
		if rest := findCycle(key, to, next, seen); rest != nil {
			return append([]Key{from}, rest...)
		}
	}
	return nil
}
