// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"math"
	"net"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

func TestIsGone(t *testing.T) {
	loopback, err := net.InterfaceByName("lo")
	testlab.Must(t, err)
	for name, test := range map[string]struct {
		index   int
		has     bool
		answers bool
	}{
		"none was said":         {0, false, false},
		"the device is there":   {loopback.Index, true, true},
		"the device went since": {math.MaxInt32, false, false},
	} {
		count := PortCount{RelayIfindex: test.index, HeartbeatAge: HeartbeatLimit}
		var err error
		if count.RelayGone, err = isGone(test.index); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if count.HasRelay() != test.has || count.Answers() != test.answers {
			t.Errorf("%s: it has a relay: %v, which answers: %v", name, count.HasRelay(), count.Answers())
		}
	}
	if silent := (PortCount{RelayIfindex: loopback.Index, HeartbeatAge: HeartbeatLimit + 1}); silent.Answers() {
		t.Error("a relay without a heartbeat answers")
	}
}
