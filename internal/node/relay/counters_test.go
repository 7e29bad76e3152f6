// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

func TestReasonsAreThoseOfTheRelay(t *testing.T) {
	header, err := os.ReadFile("../../../datapath/relay/counters.h")
	testlab.Must(t, err)
	var names []string
	for _, match := range regexp.MustCompile(`(?m)^\tRELAY_DROP_([A-Z_]+)\b.*/\*`).FindAllStringSubmatch(string(header), -1) {
		names = append(names, strings.ToLower(strings.ReplaceAll(match[1], "_", "-")))
	}
	if got, want := strings.Join(drops, " "), strings.Join(names, " "); got != want {
		t.Errorf("the reasons are\n%s\nthe relay's are\n%s", got, want)
	}
}

func TestCountersSeals(t *testing.T) {
	memory, err := newCounters(1 << 3)
	testlab.Must(t, err)
	defer memory.close()
	if err := memory.file.Truncate(0); err == nil {
		t.Error("the memory can be shortened; reading it would crash")
	}
	if gated := memory.value(atGated); gated != 1<<3 {
		t.Errorf("initial gates are %#x", gated)
	}
	if frames := memory.read(); frames["read-timed"] != 0 || frames["drop-lost"] != 0 {
		t.Errorf("initial counters are %v", frames)
	}
	if _, err := unix.FcntlInt(memory.file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); err == nil {
		t.Error("the memory can be sealed against the relay's writes")
	}
}
