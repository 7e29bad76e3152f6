// SPDX-License-Identifier: Apache-2.0

package services

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// someAsks returns clusters that have something of a room, mostly no more than its size, and want more.
func someAsks(source *rand.Rand) (room int, asks []ask) {
	room = source.IntN(200)
	left := room
	if source.IntN(8) == 0 {
		left *= 2 // the room was larger before
	}
	for range 1 + source.IntN(8) {
		has := 0
		if source.IntN(2) == 0 {
			has = source.IntN(left + 1)
		}
		left -= has
		asks = append(asks, ask{has, has + source.IntN(2)*source.IntN(room+2)})
	}
	return room, asks
}

func sumOf(given []int) (sum int) {
	for _, value := range given {
		sum += value
	}
	return sum
}

func TestDivisionIsFair(t *testing.T) {
	for seed := range uint64(20000) {
		room, asks := someAsks(rand.New(rand.NewPCG(seed, 30)))
		given := fairly(room, asks)
		if why := unfair(room, asks, given); why != "" {
			t.Fatalf("seed %d: of %d %v ask, and get %v: %s", seed, room, asks, given, why)
		}
		if again := fairly(room, asks); !slices.Equal(again, given) {
			t.Fatalf("seed %d: %v, and then %v", seed, given, again)
		}
	}
}

// unfair returns the rule that is violated, "" if none is.
func unfair(room int, asks []ask, given []int) string {
	kept, had, unasked := reserve(room, len(asks)), 0, 0
	above := false
	for i, ask := range asks {
		had += ask.has
		unasked += max(kept-max(ask.wants, given[i]), 0)
		above = above || ask.has > room/len(asks)
		switch {
		case given[i] < ask.has:
			return fmt.Sprintf("%d loses what it has", i)
		case given[i] > ask.wants:
			return fmt.Sprintf("%d has more than it wants", i)
		}
	}
	sum := sumOf(given)
	if sum > max(room, had) {
		return "there is not so much"
	}
	waits := false
	for i, ask := range asks {
		if given[i] == ask.wants {
			continue
		}
		waits = true
		if !above && given[i] < room/len(asks) {
			return fmt.Sprintf("%d has less than a fair share", i)
		}
		for j, other := range asks {
			if given[j] > other.has && given[j] > given[i]+1 {
				return fmt.Sprintf("%d got more than %d, which waits", j, i)
			}
		}
	}
	if waits && room-sum > unasked {
		return "room is unused"
	}
	return ""
}

func TestDivisionKeepsReserve(t *testing.T) {
	for name, test := range map[string]struct {
		room int
		asks []ask
		want []int
	}{
		"one asks for all":                     {32, []ask{{0, 150}, {0, 0}}, []int{30, 0}},
		"the other one asks as well":           {32, []ask{{30, 150}, {0, 5}}, []int{30, 2}},
		"some of the first one's have gone":    {32, []ask{{25, 150}, {2, 5}}, []int{27, 5}},
		"both ask for all":                     {32, []ask{{0, 150}, {0, 150}}, []int{16, 16}},
		"who wants little gets it":             {33, []ask{{0, 150}, {0, 3}, {0, 150}}, []int{15, 3, 15}},
		"more clusters than room":              {2, []ask{{0, 0}, {0, 1}, {0, 1}, {0, 1}}, []int{0, 1, 1, 0}},
		"what is left goes to who asks for it": {8, []ask{{7, 9}, {0, 0}, {0, 3}}, []int{7, 0, 1}},
		"there is less room than before":       {8, []ask{{12, 20}, {0, 3}}, []int{12, 0}},
		"no clusters":                          {8, nil, []int{}},
	} {
		t.Run(name, func(t *testing.T) {
			if given := fairly(test.room, test.asks); !slices.Equal(given, test.want) {
				t.Errorf("got %v, want %v", given, test.want)
			}
		})
	}
}
