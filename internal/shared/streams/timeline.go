// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"slices"
	"sort"
)

// slot is a part of a timeline that a stream needs.
type slot struct {
	startNs, endNs int64
	stream         int
}

// timeline is the use of a port as a stream with the interval lengthNs sees it: windows of other intervals are folded into it. Two frames
// with the intervals p and q meet if their offsets are too close modulo gcd(p, q), so that each window is there lengthNs/gcd(p, q) times.
type timeline struct {
	lengthNs  int64
	slots     []slot // sorted by startNs; slots of different streams may overlap because they are folded
	longestNs int64
}

// add adds a slot of a stream with an interval. Slots over the end of the timeline are divided.
func (t *timeline) add(s slot, intervalNs int64) {
	step := gcd(t.lengthNs, intervalNs)
	occupyNs := s.endNs - s.startNs
	if occupyNs >= step { // no time is left for streams of this timeline
		t.merge([]slot{{0, t.lengthNs, s.stream}})
		return
	}
	var added []slot
	at := modulo(s.startNs, step)
	if beyondNs := at + occupyNs - step; beyondNs > 0 {
		added = append(added, slot{0, beyondNs, s.stream})
	}
	for ; at < t.lengthNs; at += step {
		added = append(added, slot{at, min(at+occupyNs, t.lengthNs), s.stream})
	}
	t.merge(added)
}

// merge inserts sorted slots, from the end on.
func (t *timeline) merge(added []slot) {
	for _, s := range added {
		t.longestNs = max(t.longestNs, s.endNs-s.startNs)
	}
	if len(added) == 1 {
		at := sort.Search(len(t.slots), func(i int) bool { return t.slots[i].startNs > added[0].startNs })
		t.slots = slices.Insert(t.slots, at, added[0])
		return
	}
	from := len(t.slots) - 1
	t.slots = append(t.slots, added...)
	for to, next := len(t.slots)-1, len(added)-1; next >= 0; to-- {
		if from >= 0 && t.slots[from].startNs > added[next].startNs {
			t.slots[to] = t.slots[from]
			from--
		} else {
			t.slots[to] = added[next]
			next--
		}
	}
}

func (t *timeline) remove(stream int) {
	t.slots = slices.DeleteFunc(t.slots, func(s slot) bool { return s.stream == stream })
}

// overlaps calls visit for the slots that overlap a time, which may exceed the end of the timeline, until it returns false. The second
// argument is by how much the time must move to be after the slot.
func (t *timeline) overlaps(startNs, lengthNs int64, visit func(s *slot, moveNs int64) bool) {
	startNs = modulo(startNs, t.lengthNs)
	part := func(fromNs, toNs, passedNs int64) bool {
		first := sort.Search(len(t.slots), func(i int) bool { return t.slots[i].startNs > fromNs-t.longestNs })
		for i := first; i < len(t.slots) && t.slots[i].startNs < toNs; i++ {
			if s := &t.slots[i]; s.endNs > fromNs && !visit(s, passedNs+s.endNs-fromNs) {
				return false
			}
		}
		return true
	}
	endNs := startNs + lengthNs
	if part(startNs, min(endNs, t.lengthNs), 0) && endNs > t.lengthNs {
		part(0, endNs-t.lengthNs, t.lengthNs-startNs)
	}
}
