// SPDX-License-Identifier: Apache-2.0

package security

import "math"

// KtsndLife is how many generations a life of ktsnd gets: it is replaced without an agent, and each ktsnd uses the next one.
const KtsndLife = 3

// behind are the generations below the announced one that a receiver takes: packets of the sender's last life may be on their way.
const behind = 1

// ahead are the generations above the announced one that a receiver takes: a sender may be ahead of what it could announce. A ktsnd
// whose keys change begins its next life unannounced, and one that is replaced right after that is further in it: so all of it is taken.
func ahead(sender Sender) int64 {
	if sender == Ktsnd {
		return 2*KtsndLife - 1
	}
	return 3
}

// Window are the generations that a receiver takes of a sender that announces one; none for one that announces nothing.
func Window(sender Sender, announced int64) []uint32 {
	if announced < 1 || announced > math.MaxUint32-ahead(sender) {
		return nil
	}
	var all []uint32
	for one := max(1, announced-behind); one <= announced+ahead(sender); one++ {
		all = append(all, uint32(one))
	}
	return all
}

// Reaches tells whether those that were told of a sender's announcement take a generation.
func Reaches(sender Sender, announced int64, generation uint32) bool {
	return int64(generation) <= announced+ahead(sender)
}

// Before is the first announcement that reaches a generation.
func Before(sender Sender, generation uint32) int64 { return int64(generation) - ahead(sender) }
