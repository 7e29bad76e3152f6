// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// clock has ktsnd know how good the clock is, and whether the agent finds it good enough for the network.
func (n *node) clock(t *testing.T, good bool, reason string, quality control.ClockQuality) {
	t.Helper()
	must(t, n.client.ClockSet(t.Context(), quality))
	must(t, n.client.NetworkClockSet(t.Context(), vni, &control.ClockNeed{
		MaxErrorNs: 1e6, OnLoss: control.OnLossHold, Good: good, Reason: reason,
	}))
}

func TestAddNeedsSynchronizedClock(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	lab.a.startDaemon(t)
	config := lab.a.config(fields{"clock": true})
	good := control.ClockQuality{State: control.ClockSynchronized, ErrorBoundNs: 850, DriftPPB: 100}
	first := lab.a.newPod(t)
	long := "its error may be 12.3µs, says \"ptp4l\" \\ " + strings.Repeat("x", 512)
	long = long[:512]
	for _, step := range []struct {
		sentence string
		prepare  func()
		code     uint
		want     string
	}{
		{"nobody has said how it is", func() {}, 109,
			"the network requires a good clock, and ktsn-agent has not reported the node's clock for network 42 yet; see its log"},
		{"the agent does not find it good", func() { lab.a.clock(t, false, "ptp4l has ended; start it", good) }, 109,
			"the node's clock is not good enough for the network: ptp4l has ended; start it"},
		{"it was good once, and has drifted since", func() {
			lab.a.clock(t, true, "", control.ClockQuality{State: control.ClockSynchronized, ErrorBoundNs: 2e6, DriftPPB: 100})
		}, 109, "the node's clock is not good enough for the network: ktsn-agent has not reported it for so long that its error may be larger than 1ms; " +
			"check that ktsn-agent runs"},
		{"the reason is as long as an agent's may be, and of any letters", func() { lab.a.clock(t, false, long, good) }, 109,
			"the node's clock is not good enough for the network: " + long},
		{"it is good", func() { lab.a.clock(t, true, "", good) }, 0, ""},
	} {
		step.prepare()
		before := lab.a.inventory(t, first)
		errStatus := lab.a.runtime.GetStatusNetworkList(t.Context(), list(t, config))
		if step.code == 0 {
			first.add(t, config)
			must(t, errStatus)
			continue
		}
		_, err := lab.a.runtime.AddNetworkList(t.Context(), list(t, config), first.attachment())
		checkSentence(t, err, step.code, step.want)
		checkSentence(t, errStatus, 50, "pods cannot be attached: "+step.want)
		checkSame(t, step.sentence, before, lab.a.inventory(t, first))
	}
	t.Run("a clock that is lost keeps others out, and not those that are there", func(t *testing.T) {
		lab.a.clock(t, false, "ptp4l has ended; start it", good)
		_, err := lab.a.runtime.AddNetworkList(t.Context(), list(t, config), lab.a.newPod(t).attachment())
		refused(t, err, 109, "ptp4l has ended; start it")
		checkSentence(t, lab.a.runtime.GetStatusNetworkList(t.Context(), list(t, config)), 51,
			"pods cannot be attached, and attached pods suffer: the node's clock is not good enough for the network: ptp4l has ended; start it")
		must(t, lab.a.runtime.CheckNetworkList(t.Context(), list(t, config), first.attachment()))
		first.del(t, config)
	})
	t.Run("a network that asks for no clock is served whatever it is", func(t *testing.T) {
		lab.a.newPod(t).add(t, lab.a.config(nil))
	})
}
