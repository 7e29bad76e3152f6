// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The example of the reply has all counters of ktsnd: tests of both sides of the control socket compare them with it.
func TestEachCounterIsDocumented(t *testing.T) {
	var reply struct {
		Status struct {
			Counters map[string]uint64 `json:"counters"`
		} `json:"status"`
	}
	if err := json.Unmarshal([]byte(read(t, "docs/internals/control-protocol/status.reply.json")), &reply); err != nil {
		t.Fatal(err)
	}
	const page = "docs/reference/counters.md"
	name := regexp.MustCompile("`([a-z-]+)`")
	documented := map[string]int{}
	for _, line := range lines(t, page) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.HasPrefix(line, "| `") {
			continue
		}
		for _, match := range name.FindAllStringSubmatch(cells[1], -1) {
			documented[match[1]]++
		}
	}
	for _, counter := range slices.Sorted(maps.Keys(reply.Status.Counters)) {
		if documented[counter] != 1 {
			t.Errorf("%s has %d rows for %s, want one", page, documented[counter], counter)
		}
		delete(documented, counter)
	}
	for _, counter := range slices.Sorted(maps.Keys(documented)) {
		t.Errorf("%s has a row for %s, which is not a counter of ktsnd", page, counter)
	}
}
