// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

func TestKtsndGetsPodSources(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	lab.a.startDaemon(t)
	pod := lab.a.newPod(t)
	result := pod.add(t, lab.a.config(fields{"sourceAddresses": []string{"10.43.0.0/16"}, "grants": fields{"priorityMax": 7}}))
	address, ok := netip.AddrFromSlice(result.IPs[0].Address.IP)
	if !ok || len(result.IPs) != 1 {
		t.Fatalf("the pod has %v", result.IPs)
	}
	want := control.Sources{
		HardwareAddresses: []string{result.Interfaces[*result.IPs[0].Interface].Mac},
		Addresses:         []netip.Prefix{netip.PrefixFrom(address.Unmap(), 32), netip.MustParsePrefix("10.43.0.0/16")},
	}
	grants := control.Grants{PriorityMax: 7}
	lab.a.checkSources(t, "attached", want, grants)

	lab.a.stopDaemon(t)
	lab.a.startDaemon(t)
	lab.a.ktsn(t, "node", "restore")
	lab.a.checkSources(t, "restored", want, grants)

	lab.a.stopDaemon(t)
	lab.a.startDaemon(t)
	lab.a.loseState(t)
	lab.a.ktsn(t, "node", "restore")
	// What only the record and ktsnd knew is gone; the interface still has its own addresses.
	want.Addresses = want.Addresses[:1]
	grants.PriorityMax = 6
	lab.a.checkSources(t, "restored without its record", want, grants)
}

// checkSources asks ktsnd about the only endpoint.
func (n *node) checkSources(t *testing.T, when string, want control.Sources, grants control.Grants) {
	t.Helper()
	endpoints, err := n.client.Endpoints(t.Context())
	if err != nil || len(endpoints) != 1 {
		t.Fatalf("%s: endpoints %+v, %v", when, endpoints, err)
	}
	if got := endpoints[0].Sources; got == nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("%s: the pod may send from %+v, want %+v", when, got, want)
	}
	if got := endpoints[0].Grants; got == nil || *got != grants {
		t.Errorf("%s: the pod has grants %+v, want %+v", when, got, grants)
	}
}
