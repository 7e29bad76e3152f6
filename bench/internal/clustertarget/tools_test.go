// SPDX-License-Identifier: Apache-2.0

package clustertarget

import (
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/bench/internal/testbed"
)

func TestAddresses(t *testing.T) {
	output := "10.244.1.7      STREAM peers-primary.ktsn-bench.svc.cluster.local\n10.244.1.7      DGRAM  \n10.244.1.7      RAW    \n" +
		"10.244.0.5      STREAM \n\n"
	want := []netip.Addr{netip.MustParseAddr("10.244.1.7"), netip.MustParseAddr("10.244.0.5")}
	if got := addresses(output); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if got := addresses(""); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

func TestToolsPodPrivileges(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{corev1.LabelHostname: "a"}}}
	tools := &Tools{Target: &Target{connection: &connection{Where: Where{Image: "nettools:dev", Network: "kubernetsn-system/tsn"}}},
		paths: map[string]bool{testbed.Host: true, testbed.TSN: true}}
	both := tools.toolsPod("far", testbed.TSN, node)
	if both.Spec.HostNetwork || both.Annotations[networksWanted] == "" || len(both.Spec.Volumes) != 1 || !*both.Spec.SecurityContext.RunAsNonRoot ||
		len(both.Spec.Containers[0].SecurityContext.Capabilities.Add) != 0 || both.Labels[member] != testbed.Primary {
		t.Errorf("on both networks: %+v", both)
	}
	host := tools.toolsPod("host", testbed.Host, node)
	if !host.Spec.HostNetwork || host.Annotations != nil || len(host.Spec.Volumes) != 0 || len(host.Spec.SecurityContext.Sysctls) != 0 ||
		!slices.Equal(host.Spec.Containers[0].SecurityContext.Capabilities.Add, []corev1.Capability{"NET_RAW"}) {
		t.Errorf("on the host's: %+v", host)
	}
	if nearName(testbed.TSN) != nearName(testbed.Primary) || nearName(testbed.TSN) == nearName(testbed.Host) || farName(testbed.TSN, 1) == farName(testbed.TSN, 2) {
		t.Error("pods are called alike that are not, or the other way round")
	}
}
