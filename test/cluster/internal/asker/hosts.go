// SPDX-License-Identifier: Apache-2.0

package asker

import (
	"net/netip"
	"os"
	"slices"
	"strings"
)

// lookUp finds a name in a file such as /etc/hosts. Go's own resolver caches the file for five seconds.
func lookUp(file, name string, is4 bool) (address netip.Addr, ok bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return address, false
	}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 || !slices.Contains(fields[1:], name) {
			continue
		}
		if address, err := netip.ParseAddr(fields[0]); err == nil && address.Is4() == is4 {
			return address, true
		}
	}
	return address, false
}
