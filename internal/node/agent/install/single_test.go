// SPDX-License-Identifier: Apache-2.0

package install

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
)

func TestConfigWholeRangeHasNoRoute(t *testing.T) {
	whole := netip.MustParsePrefix("10.44.0.0/24")
	n := &network.Network{Name: "small", VNI: 44, Port: 4789, Ranges: []network.Range{{Prefix: whole, NodeBits: 24}}}
	text, err := Config(n, []netip.Prefix{whole})
	if err != nil || strings.Contains(string(text), `"dst"`) {
		t.Errorf("got %s, %v", text, err)
	}
}
