// SPDX-License-Identifier: Apache-2.0

package services

import "sort"

// One part in reserveOf of the room is reserved for clusters that ask for less now, so that clusters that join later
// find some.
const reserveOf = 8

// ask is what a cluster has of a room, and what it wants, which is at least as much.
type ask struct{ has, wants int }

// reserve returns what each of some clusters can get of a room at any time.
func reserve(room, clusters int) int {
	if clusters == 0 {
		return 0
	}
	return min(max(room/reserveOf/clusters, 1), room/clusters)
}

// fairly divides a room: max-min fair, without taking anything from its owner, and with a reserve for each that wants
// less. All get the same level, except those that want less or already have more. The remainder goes, one each, to the
// first clusters that want more.
func fairly(room int, asks []ask) []int {
	kept := reserve(room, len(asks))
	most := 0
	for _, ask := range asks {
		most = max(most, ask.wants, kept)
	}
	at := func(level int) (sum int) {
		for _, ask := range asks {
			sum += max(ask.has, min(max(ask.wants, kept), level))
		}
		return sum
	}
	level := sort.Search(most, func(level int) bool { return at(level+1) > room })
	left := room - at(level)
	given := make([]int, len(asks))
	for i, ask := range asks {
		given[i] = max(ask.has, min(ask.wants, level))
		if left > 0 && ask.wants > given[i] && given[i] == level {
			given[i]++
			left--
		}
	}
	return given
}
