// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
)

// linksALook is how many links a GuardRound looks at each time. A pod can have a thousand, and each takes a visit to its network namespace.
const linksALook = 50

// GuardRound is Guard for those who look again and again: it looks at the interfaces on networks each time, and at some of the links by
// turns. Of the others it returns what it saw last.
type GuardRound struct {
	StateDir string
	// seen is what was seen last of links, by the names of their ports; next is behind which the next turn begins.
	seen map[string]Guarded
	next string
}

// Look is Guard.
func (g *GuardRound) Look() ([]Guarded, error) {
	made, err := recordStore{g.StateDir}.withPorts()
	if err != nil {
		return nil, err
	}
	node, err := OpenNode(g.StateDir, 0)
	if err != nil {
		return nil, err
	}
	defer node.Close()
	turn := g.turn(made)
	var all []Guarded
	var failed error
	seen := map[string]Guarded{}
	var gates knownGates
	for _, r := range made {
		name := r.PortName()
		if r.Link == nil || turn[name] {
			failed = errors.Join(failed, r.keepPortFilters(node))
		}
		if !r.hasPrograms() {
			continue
		}
		if known, was := g.seen[name]; r.Link != nil && was && !turn[name] {
			seen[name] = known
			all = append(all, known)
			continue
		}
		if r.Link != nil && !turn[name] {
			continue // its turn comes
		}
		one, err := r.guard(&gates)
		switch {
		case err == nil:
			all = append(all, one)
			one.Back = false
			if r.Link != nil {
				seen[name] = one
			}
		case !errors.Is(err, capture.ErrGone):
			failed = errors.Join(failed, fmt.Errorf("interface %s of container %s: %w", r.Interface, r.ContainerID, err))
		}
	}
	g.seen = seen
	return all, failed
}

// turn chooses the links whose turn it is.
func (g *GuardRound) turn(made []*Record) map[string]bool {
	var names []string
	for _, r := range made {
		if r.Link != nil {
			names = append(names, r.PortName())
		}
	}
	slices.SortFunc(names, cmp.Compare[string])
	turn := map[string]bool{}
	begin, _ := slices.BinarySearch(names, g.next)
	for i := range min(linksALook, len(names)) {
		name := names[(begin+i)%len(names)]
		turn[name] = true
		g.next = name + "\x00"
	}
	return turn
}
