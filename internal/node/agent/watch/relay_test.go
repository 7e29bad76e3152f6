// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/relay"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

func TestEventForRelay(t *testing.T) {
	watcher, events := newWatcher(runningPod(true, ""), &fakeKtsnd{{Identity: "uid", Path: "/x", Endpoints: 1}}, nil)
	well := relay.Status{Attachment: overlay.Attachment{Identity: "uid", Interface: "tsn0"}, Running: true}
	away, old, past := well, well, well
	away.Running, away.Away, away.Failure = false, time.Minute, errors.New("there is no program")
	old.TooOld, past.KernelPath = true, true
	another := well
	another.Identity = "another"
	for _, step := range []struct {
		sentence string
		relays   []relay.Status
		want     string
	}{
		{"all is well", []relay.Status{well, another}, ""},
		{"the relay is away", []relay.Status{away}, "Warning TSNRelayAway The relay of interface tsn0 is away"},
		{"it is still away", []relay.Status{away}, ""},
		{"it is back", []relay.Status{well}, ""},
		{"it is away again", []relay.Status{away}, "Warning TSNRelayAway The relay"},
		{"ktsnd is too old for it", []relay.Status{old}, "Warning TSNRelayAway The node's ktsnd is of a release"},
		{"frames leave by the kernel", []relay.Status{past}, "Warning TSNKernelPath Frames of interface tsn0 without a transmit time leave by the kernel"},
	} {
		watcher.Relays = func() []relay.Status { return step.relays }
		testlab.Must(t, watcher.Check(t.Context()))
		if got := next(events); (got == "") != (step.want == "") || !strings.Contains(got, step.want) {
			t.Errorf("%s: the Event is %q, want %q", step.sentence, got, step.want)
		}
	}
}
