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
)

// ktsndSaying is a ktsnd that answers each request alike.
func ktsndSaying(t *testing.T, answer string) *daemon {
	t.Helper()
	socket, _ := controltest.Serve(t, func([]byte) string { return answer })
	client, err := control.Dial(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return &daemon{client}
}

func TestCheckClock(t *testing.T) {
	const good = `{"vni":42,"max-error-ns":10000,"on-loss":"hold","good":true,"lost":false,"reason":""}`
	for sentence, test := range map[string]struct {
		network  uint32
		says     string
		code     uint
		sentence string
	}{
		"it is good": {42, good, 0, ""},
		"it is lost": {42, `{"vni":42,"max-error-ns":10000,"on-loss":"hold","good":false,"lost":true,"reason":"ptp4l has ended; start it"}`, CodeClock,
			"the node's clock is not good enough for the network: ptp4l has ended; start it"},
		"it is lost, and nobody says why": {42, `{"vni":42,"max-error-ns":10000,"on-loss":"hold","good":false,"lost":true,"reason":""}`, CodeClock,
			"the node's clock is not good enough for the network: its error may be larger than 10µs"},
		"the agent has said nothing for long": {42, `{"vni":42,"max-error-ns":10000,"on-loss":"hold","good":true,"lost":true,"reason":""}`, CodeClock,
			"the node's clock is not good enough for the network: nobody has said for so long how it is that its error may be larger than 10µs; " +
				"see that ktsn-agent runs"},
		"only another network's is known": {43, good, CodeClock,
			"the network asks for a good clock, and nobody has said yet how good that of the node is for network 43; ktsn-agent does, or its log says why not"},
		"ktsnd is of a release before it": {42, "", CodeClock,
			"the network asks for a good clock, and the node's ktsnd is of a release that knows nothing of clocks; upgrade ktsnd"},
	} {
		t.Run(sentence, func(t *testing.T) {
			answer := `{"version":1,"reply":"network-clocks","total":1,"network-clocks":[` + test.says + `]}`
			if test.says == "" {
				answer = `{"version":1,"error":{"field":"request","message":"\"network-clocks\" is no request"}}`
			} else if !json.Valid([]byte(answer)) {
				t.Fatalf("%s is no JSON", answer)
			}
			r := &Spec{NeedsClock: true, Overlay: overlay.Network{VNI: test.network}}
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
	r := &Spec{Overlay: overlay.Network{VNI: 42}}
	if err := r.checkClock(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

func TestCheckClockError(t *testing.T) {
	r := &Spec{NeedsClock: true, Overlay: overlay.Network{VNI: 42}}
	err := WithCode(r.checkClock(t.Context(), ktsndSaying(t, `{"version":1,"error":{"field":"offset","message":"no"}}`)))
	var refused *types.Error
	if !errors.As(err, &refused) || refused.Code != CodeKtsnd || !strings.Contains(refused.Msg, "ktsnd refused offset: no") {
		t.Errorf("it says %v", err)
	}
}
