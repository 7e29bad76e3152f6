// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/relay"
)

func TestANodeSaysWhetherFramesAreCaptured(t *testing.T) {
	status := func(network, pod string) relay.Status {
		return relay.Status{Attachment: overlay.Attachment{Network: network, Identity: pod, Interface: "tsn0"}, Running: true}
	}
	away, briefly, past, old := status("tsn", "away"), status("tsn", "briefly"), status("tsn", "past"), status("tsn", "old")
	away.Running, away.Away, away.Failure = false, time.Minute, errors.New("there is no program")
	briefly.Running, briefly.Away, briefly.Failure = false, time.Millisecond, errors.New("it was killed")
	past.KernelPath, old.TooOld = true, true
	const noRelay = "pod away: the relay of interface tsn0 is away, so that captured frames wait on the node, and are dropped when they are too many: " +
		"there is no program"
	for sentence, test := range map[string]struct {
		relays []relay.Status
		want   string
	}{
		"nothing is captured":             {nil, ""},
		"only on another network":         {[]relay.Status{status("other", "p")}, ""},
		"all is well":                     {[]relay.Status{status("tsn", "p"), status("tsn", "q")}, "True AsAsked "},
		"a relay was killed just now":     {[]relay.Status{briefly}, "True AsAsked "},
		"a relay is away":                 {[]relay.Status{status("tsn", "p"), away}, "False RelayAway " + noRelay},
		"what is dropped goes before":     {[]relay.Status{past, away}, "False RelayAway " + noRelay + " (and 1 more)"},
		"frames leave by the kernel":      {[]relay.Status{past}, "False KernelPath pod past: frames of interface tsn0 without a transmit time leave by the kernel, or are dropped if the schedule closes their gate at times, because ktsnd does not take them; `ktsn node capture` on the node shows more"},
		"ktsnd is of a release before it": {[]relay.Status{old}, "False KtsndTooOld pod old: the node's ktsnd is of a release that takes no captured frames, so those of interface tsn0 are not sent; upgrade ktsnd"},
	} {
		t.Run(sentence, func(t *testing.T) {
			condition, some := captured("tsn", test.relays)
			got := fmt.Sprintf("%s %s %s", condition.Status, condition.Reason, condition.Message)
			if some != (test.want != "") || some && got != test.want {
				t.Errorf("it says %v %s\nwant %s", some, got, test.want)
			}
		})
	}
}

func TestTheConditionOfCaptureGoesWithTheLastCapturedPod(t *testing.T) {
	about := aNetwork()
	l := newLab(t, about)
	l.relays = []relay.Status{{Attachment: overlay.Attachment{Network: about.Name, Identity: "p"}, Running: true}}
	if status := l.look(); !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionCaptureOperational) {
		t.Errorf("it says %+v", status.Conditions)
	}
	l.relays = nil
	if nodeNetworkStatus := l.look(); meta.FindStatusCondition(nodeNetworkStatus.Conditions, v1alpha1.ConditionCaptureOperational) != nil {
		t.Errorf("without a captured pod it says %+v", nodeNetworkStatus.Conditions)
	}
}
