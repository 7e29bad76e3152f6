// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/nftables"
)

var (
	tableInet   = &nftables.Table{Name: Name, Family: nftables.TableFamilyINet}
	tableNetdev = &nftables.Table{Name: Name, Family: nftables.TableFamilyNetdev}
)

// state is the existing or the wanted filter.
type state struct {
	// inet and netdev tell whether the tables are there.
	inet, netdev bool
	// chains are the comments of each chain's rules, by its name.
	chains map[string][]string
	sets   map[string]elements
	// bridges are the same as chains, by the bridge's name.
	bridges map[string][]string
}

func newState() *state {
	return &state{chains: map[string][]string{}, sets: map[string]elements{}, bridges: map[string][]string{}}
}

// want returns the wanted state.
func want(wanted *Wanted) (*state, error) {
	all := newState()
	all.netdev = len(wanted.Closed) > 0
	all.inet = !wanted.empty()
	if !all.inet {
		return all, nil
	}
	all.sets = wanted.contents()
	for _, chain := range chains() {
		comments, err := commentsOf(chain.rules, nftables.TableFamilyINet)
		if err != nil {
			return nil, err
		}
		all.chains[chain.name] = comments
	}
	for _, bridge := range wanted.Closed {
		comments, err := commentsOf(closing(), nftables.TableFamilyNetdev)
		if err != nil {
			return nil, err
		}
		all.bridges[bridge] = comments
	}
	return all, nil
}

func commentsOf(rules []rule, family nftables.TableFamily) ([]string, error) {
	var all []string
	for i := range rules {
		digest, err := rules[i].digest(family)
		if err != nil {
			return nil, err
		}
		all = append(all, rules[i].comment+" "+digest)
	}
	return all, nil
}

// sound reports whether rules and sets exist, regardless of the sets' contents.
func (s *state) sound(wanted *state) bool {
	same := s.inet == wanted.inet && len(s.chains) == len(wanted.chains) && len(s.sets) == len(wanted.sets)
	for name, comments := range wanted.chains {
		same = same && slices.Equal(s.chains[name], comments)
	}
	for name := range wanted.sets {
		same = same && s.sets[name] != nil
	}
	return same
}

// differences describes how s differs from the wanted state.
func (s *state) differences(wanted *state) []string {
	var all []string
	differs := func(format string, arguments ...any) { all = append(all, fmt.Sprintf(format, arguments...)) }
	switch {
	case wanted.inet && !s.inet:
		differs("it is missing")
	case s.inet && !wanted.inet:
		differs("it is not needed any more")
	case !s.sound(wanted):
		differs("its rules are not those of this version, or somebody changed them")
	default:
		for _, name := range slices.Sorted(maps.Keys(wanted.sets)) {
			lacks, more := wanted.sets[name].minus(s.sets[name]), s.sets[name].minus(wanted.sets[name])
			if len(lacks)+len(more) > 0 {
				differs("its set %s lacks %d elements and has %d too many", name, len(lacks), len(more))
			}
		}
	}
	for _, bridge := range slices.Sorted(maps.Keys(wanted.bridges)) {
		if !slices.Equal(s.bridges[bridge], wanted.bridges[bridge]) {
			differs("pods can reach the node by bridge %s", bridge)
		}
	}
	for _, bridge := range slices.Sorted(maps.Keys(s.bridges)) {
		if wanted.bridges[bridge] == nil {
			differs("bridge %s is closed and shall not be, or is gone", bridge)
		}
	}
	return all
}
