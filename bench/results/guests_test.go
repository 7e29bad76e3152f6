// SPDX-License-Identifier: Apache-2.0

package results

import "testing"

func TestInTime(t *testing.T) {
	const due = 1_000_000_000
	for name, test := range map[string]struct {
		message Message
		want    bool
	}{
		"50 ms ahead":             {Message{Txtime: due, Asked: due + 5, SendEnd: due - 50_000_000}, true},
		"less":                    {Message{Txtime: due, Asked: due + 5, SendEnd: due - 49_999_999}, false},
		"not between machines":    {Message{Txtime: due, SendEnd: due - 1}, true},
		"after it was to be sent": {Message{Txtime: due, Asked: due, SendEnd: due + 1}, false},
	} {
		if got := test.message.InTime(); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestSendingCoresIncludeRelay(t *testing.T) {
	d := Distributions{CPUCores: map[string]float64{"talker": 0.2, "ktsnd": 0.02, "relay": 0.01, "listener": 0.5}}
	if d.AddSendingCores(PathGuestTap); d.SendingCores == nil || *d.SendingCores < 0.2299 || *d.SendingCores > 0.2301 {
		t.Errorf("got %v", d.SendingCores)
	}
	if ThroughKtsnd(PathGuestReleased) || !InGuest(PathGuestReleased) || InGuest(PathDirect) {
		t.Error("paths are not told apart")
	}
}
