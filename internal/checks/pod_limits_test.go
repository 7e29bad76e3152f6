// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"regexp"
	"strings"
	"testing"
)

// optionDefault finds options of pods with their default in ktsnd's table of options.
var optionDefault = regexp.MustCompile(`\{"pod-([a-z]+)", [^{]*?\(default: ([^)]+)\)`)

// limitRow finds rows of the table of limits in the guide.
var limitRow = regexp.MustCompile("(?m)^\\| `([a-z]+)`[^|]*\\| ([0-9,]+s?) \\|")

func TestNetworksPageHasDefaultsOfPodLimits(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "docs/guide/networks.md"), "\n## Limits of a pod\n")
	shown := map[string]string{}
	for _, row := range limitRow.FindAllStringSubmatch(section, -1) {
		shown[row[1]] = strings.ReplaceAll(row[2], ",", "")
	}
	options := optionDefault.FindAllStringSubmatch(read(t, "datapath/daemon/options.c"), -1)
	for _, option := range options {
		name, want := option[1], option[2]
		if name == "pending" { // a quarter of --packets, which is 4096 by default
			want = "1024"
		}
		if shown[name] != want {
			t.Errorf("docs/guide/networks.md: the default of %s is %q, but ktsnd's is %s", name, shown[name], want)
		}
	}
	if len(options) < len(shown) || len(options) == 0 {
		t.Errorf("ktsnd has %d limits of pods, the page %d", len(options), len(shown))
	}
}
