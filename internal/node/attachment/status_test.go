// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/control/controltest"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// ktsndSaying is a ktsnd that answers each request alike.
func ktsndSaying(t *testing.T, answer string) *daemon {
	t.Helper()
	socket, _ := controltest.Serve(t, func([]byte) string { return answer })
	client, err := control.Dial(t.Context(), socket)
	testlab.Must(t, err)
	t.Cleanup(func() { client.Close() })
	return &daemon{client}
}

func TestCheckClock(t *testing.T) {
	const good = `{"vni":42,"max-error-ns":10000,"on-loss":"hold","good":true,"lost":false,"reason":""}`
	for name, test := range map[string]struct {
		network  uint32
		clock    string
		code     uint
		sentence string
	}{
		"good": {42, good, 0, ""},
		"lost": {42, `{"vni":42,"max-error-ns":10000,"on-loss":"hold","good":false,"lost":true,"reason":"ptp4l has ended; start it"}`, CodeClock,
			"the node's clock is not good enough for the network: ptp4l has ended; start it"},
		"lost without a reason": {42, `{"vni":42,"max-error-ns":10000,"on-loss":"hold","good":false,"lost":true,"reason":""}`, CodeClock,
			"the node's clock is not good enough for the network: its error may be larger than 10µs"},
		"stale": {42, `{"vni":42,"max-error-ns":10000,"on-loss":"hold","good":true,"lost":true,"reason":""}`, CodeClock,
			"the node's clock is not good enough for the network: ktsn-agent has not reported it for so long that its error may be larger than 10µs; " +
				"check that ktsn-agent runs"},
		"unknown": {43, good, CodeClock,
			"the network requires a good clock, and ktsn-agent has not reported the node's clock for network 43 yet; see its log"},
	} {
		t.Run(name, func(t *testing.T) {
			answer := `{"version":1,"reply":"network-clocks","total":1,"network-clocks":[` + test.clock + `]}`
			if !json.Valid([]byte(answer)) {
				t.Fatalf("%s is no JSON", answer)
			}
			r := &Spec{NeedsClock: true, Record: Record{Overlay: overlay.Network{VNI: test.network}}}
			err := WithCode(r.checkClock(t.Context(), ktsndSaying(t, answer)))
			var refused *types.Error
			switch {
			case test.code == 0 && err != nil:
				t.Errorf("it is refused: %v", err)
			case test.code != 0 && (!errors.As(err, &refused) || refused.Code != test.code || refused.Msg != test.sentence):
				t.Errorf("it says %v\nwant %d: %s", err, test.code, test.sentence)
			}
		})
	}
}

func TestCheckClockNotNeeded(t *testing.T) {
	r := &Spec{Record: Record{Overlay: overlay.Network{VNI: 42}}}
	if err := r.checkClock(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

func TestCheckClockError(t *testing.T) {
	r := &Spec{NeedsClock: true, Record: Record{Overlay: overlay.Network{VNI: 42}}}
	err := WithCode(r.checkClock(t.Context(), ktsndSaying(t, `{"version":1,"error":{"field":"offset","message":"no"}}`)))
	var refused *types.Error
	if !errors.As(err, &refused) || refused.Code != CodeKtsnd || !strings.Contains(refused.Msg, "ktsnd refused offset: no") {
		t.Errorf("it says %v", err)
	}
}
