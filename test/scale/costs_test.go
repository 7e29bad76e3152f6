// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// spent is what agents exchanged with the API server between two bills.
type spent struct {
	// own is that of one node, others the sum of the rest; most is the most of any of these.
	node, others, most Share
	// byKind are all requests.
	byKind map[string]int64
	// peak is the most requests that began in a second.
	peak    int64
	refused int64
	reports []time.Duration
}

// between draws up what was spent between two bills; node may be "".
func between(before, after *Bill, node string) *spent {
	s := &spent{byKind: map[string]int64{}, refused: after.Refused - before.Refused, reports: after.Reports[len(before.Reports):]}
	for name, share := range after.ByNode {
		was := before.ByNode[name]
		share = Share{share.Requests - was.Requests, share.Asked - was.Asked, share.Sent - was.Sent, share.Received - was.Received}
		if name == node {
			s.node = share
			continue
		}
		all, most := &s.others, &s.most
		*all = Share{all.Requests + share.Requests, all.Asked + share.Asked, all.Sent + share.Sent, all.Received + share.Received}
		*most = Share{max(most.Requests, share.Requests), max(most.Asked, share.Asked), max(most.Sent, share.Sent), max(most.Received, share.Received)}
	}
	for kind, count := range after.ByKind {
		if more := count - before.ByKind[kind]; more > 0 {
			s.byKind[kind] = more
		}
	}
	for second, count := range after.BySecond {
		s.peak = max(s.peak, count-before.BySecond[second])
	}
	slices.Sort(s.reports)
	return s
}

// requests are all.
func (s *spent) requests() int64 { return s.node.Requests + s.others.Requests }

// kinds lists requests by what they ask for, the most first.
func (s *spent) kinds() string {
	names := slices.SortedFunc(maps.Keys(s.byKind), func(a, b string) int {
		if s.byKind[a] != s.byKind[b] {
			return int(s.byKind[b] - s.byKind[a])
		}
		return strings.Compare(a, b)
	})
	var text []string
	for _, name := range names {
		text = append(text, fmt.Sprintf("%d `%s`", s.byKind[name], name))
	}
	return strings.Join(text, ", ")
}
