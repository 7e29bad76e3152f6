// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"os"
	"testing"
)

func TestParseID(t *testing.T) {
	id := ID{PID: 0x1a2b, StartTicks: 0xdeadbeef, Serial: 3}
	for name, test := range map[string]struct {
		text  string
		valid bool
	}{
		"a directory":                      {"ktsn-1a2b-deadbeef-3", true},
		"a namespace":                      {"ktsn-1a2b-deadbeef-3-node-a", true},
		"another program's namespace":      {"cni-1a2b-deadbeef-3", false},
		"ours, but not of this kind":       {"ktsn-node-a", false},
		"too short":                        {"ktsn-1a2b-deadbeef", false},
		"not hexadecimal":                  {"ktsn-1a2b-deadbeeg-3", false},
		"more digits than a pid can have":  {"ktsn-fffffffff-deadbeef-3", false},
		"written otherwise than we do":     {"ktsn-001a2b-deadbeef-3", false},
		"the folder of ktsnd":              {"ktsn", false},
		"nothing between the dashes":       {"ktsn---", false},
		"something glued to the last part": {"ktsn-1a2b-deadbeef-3x", false},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := parseID(test.text)
			if ok != test.valid || (ok && got != id) {
				t.Errorf("%s read as %+v, %v", test.text, got, ok)
			}
		})
	}
}

func TestNewID(t *testing.T) {
	first, err := NewID()
	if err != nil {
		t.Fatal(err)
	}
	second, err := NewID()
	if err != nil {
		t.Fatal(err)
	}
	if first == second {
		t.Errorf("two IDs are both %s", first)
	}
	if !first.alive() {
		t.Error("this process counts as dead")
	}
	reused := first
	reused.StartTicks--
	if reused.alive() {
		t.Error("an earlier process with this process's number counts as alive")
	}
	gone := ID{PID: 1<<22 + os.Getpid(), StartTicks: 1} // above the largest possible PID
	if gone.alive() {
		t.Error("a process that cannot exist counts as alive")
	}
}
