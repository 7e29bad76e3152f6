// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestReasonsAreThoseOfTheRelay(t *testing.T) {
	header, err := os.ReadFile("../../../datapath/relay/counters.h")
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for _, found := range regexp.MustCompile(`(?m)^\tRELAY_DROP_([A-Z_]+)\b.*/\*`).FindAllStringSubmatch(string(header), -1) {
		there = append(there, strings.ToLower(strings.ReplaceAll(found[1], "_", "-")))
	}
	if got, want := strings.Join(drops, " "), strings.Join(there, " "); got != want {
		t.Errorf("the reasons are\n%s\nthe relay's are\n%s", got, want)
	}
}

func TestTheMemoryOfCountersCannotBeMadeShorter(t *testing.T) {
	made, err := newCounters(1 << 3)
	if err != nil {
		t.Fatal(err)
	}
	defer made.close()
	if err := made.file.Truncate(0); err == nil {
		t.Error("it could: reading it would end this program")
	}
	if gated := made.value(atGated); gated != 1<<3 {
		t.Errorf("it begins with the gates %#x", gated)
	}
	if frames := made.read(); frames["read-timed"] != 0 || frames["drop-lost"] != 0 {
		t.Errorf("it begins with %v", frames)
	}
	if _, err := unix.FcntlInt(made.file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); err == nil {
		t.Error("somebody could keep the relay from counting")
	}
}
