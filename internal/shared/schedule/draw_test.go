// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// cycleOf makes a cycle of pairs of interval and gate states.
func cycleOf(timeNs int64, pairs ...uint32) Cycle {
	cycle := Cycle{TimeNs: timeNs}
	for i := 0; i < len(pairs); i += 2 {
		cycle.Entries = append(cycle.Entries, control.GateControlEntry{
			Index: uint32(i / 2), OperationName: control.SetGateStates,
			TimeIntervalValue: pairs[i], GateStatesValue: uint8(pairs[i+1])})
	}
	return cycle
}

func TestDraw(t *testing.T) {
	for name, test := range map[string]struct {
		cycle Cycle
		style Style
		want  string
	}{
		"three windows": {cycleOf(1000000, 300000, 128, 300000, 96, 400000, 31), Style{Width: 46}, `
TC7 |████████████····························|
TC6 |············████████████················|
TC5 |············████████████················|
TC4 |························████████████████|
TC3 |························████████████████|
TC2 |························████████████████|
TC1 |························████████████████|
TC0 |························████████████████|
    └────────────┴───────────┴───────────────┘
    0            300 µs      600 µs       1 ms
`},
		"in ASCII": {cycleOf(1000000, 300000, 128, 700000, 127), Style{Width: 46, ASCII: true}, `
TC7 |############............................|
TC6 |............############################|
TC5 |............############################|
TC4 |............############################|
TC3 |............############################|
TC2 |............############################|
TC1 |............############################|
TC0 |............############################|
    +------------+---------------------------+
    0            300 us                   1 ms
`},
		"the last states held": {cycleOf(1000, 500, 1, 250, 2), Style{Width: 26}, `
TC7 |····················|
TC6 |····················|
TC5 |····················|
TC4 |····················|
TC3 |····················|
TC2 |····················|
TC1 |··········██████████|
TC0 |██████████··········|
    └──────────┴─────────┘
    0          500 ns 1 µs
`},
		"the list cut": {cycleOf(1000, 500, 1, 750, 2, 1000, 4), Style{Width: 26}, `
TC7 |····················|
TC6 |····················|
TC5 |····················|
TC4 |····················|
TC3 |····················|
TC2 |····················|
TC1 |··········██████████|
TC0 |██████████··········|
    └──────────┴─────────┘
    0          500 ns 1 µs
`},
		"windows within a column, and more edges than there is room for": {
			cycleOf(1000000, 100000, 1, 1000, 2, 1000, 1, 20000, 3, 1000, 2, 877000, 129), Style{Width: 46}, `
TC7 |·····███████████████████████████████████|
TC6 |········································|
TC5 |········································|
TC4 |········································|
TC3 |········································|
TC2 |········································|
TC1 |····▒···································|
TC0 |████▒███████████████████████████████████|
    └────┴───────────────────────────────────┘
    0    100 µs                           1 ms
▒: the gate moves more than once within this column
`},
		"never narrower than can be read": {cycleOf(1000, 1000, 255), Style{Width: 3, ASCII: true}, `
TC7 |####################|
TC6 |####################|
TC5 |####################|
TC4 |####################|
TC3 |####################|
TC2 |####################|
TC1 |####################|
TC0 |####################|
    +--------------------+
    0                 1 us
`},
		"nothing to draw": {cycleOf(0), Style{Width: 80}, "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.cycle.Draw(test.style); got != strings.TrimPrefix(test.want, "\n") {
				t.Errorf("got\n%swant%s", got, test.want)
			}
		})
	}
}

func TestNotes(t *testing.T) {
	link := Link{SpeedBps: gigabit, GuardBandNs: 20000}
	for name, test := range map[string]struct {
		cycle Cycle
		want  []string
	}{
		"nothing remarkable": {cycleOf(1000000, 500000, 0xf0, 500000, 0x0f), nil},
		"a list that is shorter": {cycleOf(1000000, 500000, 0xf0, 250000, 0x0f),
			[]string{"the entries take 750 µs; the states of the last are held until the cycle ends"}},
		"a last entry that is cut": {cycleOf(1000000, 500000, 0xf0, 750000, 0x0f),
			[]string{"the entries take 1.25 ms; the last is cut where the cycle ends"}},
		"entries that are never reached": {cycleOf(1000000, 500000, 0xf0, 500000, 0x0f, 1000, 0, 1000, 0),
			[]string{"the entries take 1.002 ms; the last 2 of them are never reached"}},
		"a gate that never opens": {cycleOf(1000000, 1000000, 0x7f), []string{"the gate of TC7 never opens"}},
		"a window that is too short": {cycleOf(1000000, 20671, 0x01, 979329, 0xfe),
			[]string{"no frame of TC0 ever leaves: its longest window is 20.671 µs, and guard band and smallest frame take 20.672 µs"}},
		"a window that is just long enough": {cycleOf(1000000, 20672, 0x01, 979328, 0xfe), nil},
		"a window of two parts":             {cycleOf(1000000, 10672, 0x01, 979328, 0xfe, 10000, 0x01), nil},
		"no list":                           {cycleOf(1000000), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.cycle.Notes(link, false); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestClasses(t *testing.T) {
	for states, want := range map[uint8]string{0: "none", 129: "TC7, TC0", 4: "TC2"} {
		if got := Classes(states); got != want {
			t.Errorf("%d is %q", states, got)
		}
	}
}
