// SPDX-License-Identifier: Apache-2.0

package security

import "math"

// KtsndLife is the number of generations of one life of ktsnd. A ktsnd that takes over without the agent uses the next one.
const KtsndLife = 3

// behind is the number of generations below the announced one that a receiver accepts, for packets of the sender's previous life
// in transit.
const behind = 1

// ahead returns the number of generations above the announced one that a receiver accepts, because a sender may be ahead of its
// announcement. A ktsnd whose keys change starts its next life before it is announced, and ktsnds that take over move further in
// that life, so the whole next life is accepted.
func ahead(sender Sender) int64 {
	if sender == Ktsnd {
		return 2*KtsndLife - 1
	}
	return 3
}

// Window returns the generations that a receiver accepts from a sender that announces one; none without an announcement.
func Window(sender Sender, announced int64) []uint32 {
	if announced < 1 || announced > math.MaxUint32-ahead(sender) {
		return nil
	}
	var all []uint32
	for generation := max(1, announced-behind); generation <= announced+ahead(sender); generation++ {
		all = append(all, uint32(generation))
	}
	return all
}

// Reaches reports whether receivers that know an announcement accept a generation.
func Reaches(sender Sender, announced int64, generation uint32) bool {
	return int64(generation) <= announced+ahead(sender)
}

// Before returns the first announcement that reaches a generation.
func Before(sender Sender, generation uint32) int64 { return int64(generation) - ahead(sender) }
