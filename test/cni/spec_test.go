// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	types040 "github.com/containernetworking/cni/pkg/types/040"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/testutils"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// spoken are the supported versions of tsn-cni.
var spoken = []string{"0.3.1", "0.4.0", "1.0.0", "1.1.0"}

func TestSupportedVersions(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	info, err := lab.a.runtime.GetVersionInfo(t.Context(), "tsn-cni")
	must(t, err)
	if got := info.SupportedVersions(); !slices.Equal(got, spoken) {
		t.Errorf("it supports %q, want %q", got, spoken)
	}
}

func TestAddAndDelInEveryVersion(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	pod := lab.a.newPod(t)
	before := lab.a.inventory(t, pod)
	for _, version := range spoken {
		t.Run(version, func(t *testing.T) {
			configs := listOf(t, version, lab.a.config(nil))
			result, err := lab.a.runtime.AddNetworkList(t.Context(), configs, pod.attachment())
			if err != nil {
				t.Fatalf("ADD: %v", err)
			}
			if result.Version() != version {
				t.Errorf("the result is of version %s", result.Version())
			}
			checkResult(t, pod, version, result)
			checkAttached(t, pod)
			if testutils.SpecVersionHasCHECK(version) {
				if err := lab.a.runtime.CheckNetworkList(t.Context(), configs, pod.attachment()); err != nil {
					t.Errorf("CHECK: %v", err)
				}
			}
			if testutils.SpecVersionHasSTATUS(version) {
				if err := lab.a.runtime.GetStatusNetworkList(t.Context(), configs); err != nil {
					t.Errorf("STATUS: %v", err)
				}
			}
			for _, when := range []string{"the first", "a repeated"} {
				if err := lab.a.runtime.DelNetworkList(t.Context(), configs, pod.attachment()); err != nil {
					t.Errorf("%s DEL: %v", when, err)
				}
				checkSame(t, "after "+when+" DEL", before, lab.a.inventory(t, pod))
			}
		})
	}
}

// checkResult checks the result of ADD and that it has no field that its version lacks.
func checkResult(t *testing.T, pod *pod, version string, result types.Result) {
	t.Helper()
	text, err := json.Marshal(result)
	must(t, err)
	later := version == "1.1.0"
	if got := strings.Contains(string(text), "socketPath"); got != later {
		t.Errorf("socketPath in a result of version %s: %v", version, got)
	}
	if got := strings.Contains(string(text), "mtu"); got != later {
		t.Errorf("mtu in a result of version %s: %v", version, got)
	}
	if _, old := result.(*types040.Result); old != (version < "1.0.0") {
		t.Errorf("the result is a %T", result)
	}
	all, err := current.NewResultFromResult(result)
	must(t, err)
	if len(all.Interfaces) != 3 || len(all.IPs) != 1 {
		t.Fatalf("the result has %d interfaces and %d addresses: %s", len(all.Interfaces), len(all.IPs), text)
	}
	inPod := all.Interfaces[*all.IPs[0].Interface]
	ip := all.IPs[0].Address.IP.To4()
	want := current.Interface{Name: podIf, Sandbox: pod.Path(), Mac: fmt.Sprintf("0a:58:%02x:%02x:%02x:%02x", ip[0], ip[1], ip[2], ip[3])}
	if later {
		want.Mtu, want.SocketPath = 1450, pod.socket()
	}
	if *inPod != want {
		t.Errorf("the pod's interface is %+v, want %+v", *inPod, want)
	}
}

// checkAttached checks the attachment in the kernel and in ktsnd.
func checkAttached(t *testing.T, pod *pod) {
	t.Helper()
	have := pod.node.inventory(t, pod)
	for _, want := range []string{"node has " + bridgeName, "node has " + tunnelName, pod.id + " has " + podIf,
		"ktsnd has endpoint " + pod.identity() + " " + podIf, "ktsnd has 1 sockets"} {
		if !slices.Contains(have, want) {
			t.Errorf("not so: %s\nthere is:\n%s", want, strings.Join(have, "\n"))
		}
	}
	endpoints, err := pod.node.client.Endpoints(t.Context())
	if err != nil || len(endpoints) != 1 {
		t.Fatalf("endpoints %+v, %v", endpoints, err)
	}
	want := control.Endpoint{Identity: pod.identity(), Interface: podIf, Netns: pod.Path(), VNI: vni, Bridge: bridgeName,
		Sources: endpoints[0].Sources, Grants: endpoints[0].Grants}
	if endpoints[0].Endpoint != want || endpoints[0].MTU != 1450 {
		t.Errorf("ktsnd has %+v", endpoints[0])
	}
	if info, err := os.Stat(pod.socket()); err != nil || info.Mode()&os.ModeSocket == 0 {
		t.Errorf("the pod's socket: %v, %v", info, err)
	}
}

func TestUnsupportedVersionsAreRejected(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	pod := lab.a.newPod(t)
	for _, version := range []string{"0.1.0", "0.2.0", "0.3.0", "2.0.0"} {
		_, err := lab.a.runtime.AddNetworkList(context.Background(), listOf(t, version, lab.a.config(nil)), pod.attachment())
		if err == nil {
			t.Errorf("version %s was accepted", version)
		}
	}
}

func TestKtsndGetsPodSources(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
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
	// The sources in the record and ktsnd are gone; the interface still has its own addresses.
	want.Addresses = want.Addresses[:1]
	grants.PriorityMax = 6
	lab.a.checkSources(t, "restored without its record", want, grants)
}

// checkSources checks the sources of the only endpoint of ktsnd.
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
