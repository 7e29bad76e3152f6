// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"errors"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/relay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

func TestRelayCountersPerPod(t *testing.T) {
	ktsnd := &fakeKtsnd{status: control.Status{KtsndVersion: "1"}, pods: []control.Pod{{Identity: "a"}}}
	poller, registry := newPoller(t, ktsnd)
	status := func(container, uid string, taken uint64) relay.Status {
		return relay.Status{
			Attachment: overlay.Attachment{Identity: uid, ContainerID: container, Interface: "tsn0"}, Running: true,
			Frames: map[string]uint64{"read-timed": taken},
		}
	}
	var relays []relay.Status
	poller.Relays = func() []relay.Status { return relays }
	const head = "# HELP ktsn_capture_frames_total Captured frames of a pod, by what became of them: read-KIND (by the relay), handed-KIND (to " +
		"ktsnd), passed (to the kernel, because no relay answered), drop-REASON.\n# TYPE ktsn_capture_frames_total counter\n"
	pod := func(frames string) string {
		return head + `ktsn_capture_frames_total{namespace="default",pod="pod-a",result="read-timed"} ` + frames + "\n"
	}
	for _, step := range []struct {
		sentence string
		taken    uint64
		relays   []relay.Status
		want     string
	}{
		{"two interfaces of a pod are one figure", 9, []relay.Status{status("x", "a", 3), status("y", "a", 4)}, pod("7")},
		{"more is added", 9, []relay.Status{status("x", "a", 5), status("y", "a", 4)}, pod("9")},
		{"another ktsnd counts from the beginning, and the relays do not", 1, []relay.Status{status("x", "a", 5), status("y", "a", 4)}, pod("9")},
		{"another agent's relay counts from the beginning", 1, []relay.Status{status("x", "a", 1), status("y", "a", 4)}, pod("10")},
		{"a pod that ktsnd does not know yet waits", 1, []relay.Status{status("x", "a", 1), status("y", "a", 4), status("z", "b", 8)}, pod("10")},
	} {
		relays, ktsnd.status.Counters.Taken = step.relays, step.taken
		poller.Poll(t.Context())
		t.Log(step.sentence)
		expect(t, registry, "ktsn_capture_frames_total", step.want)
	}
	away, past := status("x", "a", 1), status("y", "a", 4)
	away.Running, away.Failure, past.KernelPath = false, errors.New("it is not there"), true
	relays = []relay.Status{away, past, status("z", "b", 0)}
	ktsnd.status.KtsndVersion = "" // it does not answer
	poller.Poll(t.Context())
	expect(t, registry, "ktsn_capture_relays", `# HELP ktsn_capture_relays Captured interfaces of the node, by how their relays are: running, away, `+
		`kernel-path (the relay runs, and ktsnd does not take frames without a transmit time).
# TYPE ktsn_capture_relays gauge
ktsn_capture_relays{state="away"} 1
ktsn_capture_relays{state="kernel-path"} 1
ktsn_capture_relays{state="running"} 1
`)
}
