// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/ipamclaim"
)

func TestClaimStatus(t *testing.T) {
	claim := func(name string, ips, requests []string) ipamclaim.IPAMClaim {
		return ipamclaim.IPAMClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "line", Name: name},
			Spec: ipamclaim.Spec{Network: "old", IPRequests: requests}, Status: ipamclaim.Status{IPs: ips}}
	}
	owner := requesting("line", "plc-0", "a", 1, `"10.42.255.252"`)
	owner.Annotations["k8s.v1.cni.cncf.io/networks"] = `[{"name": "old", "ipam-claim-reference": "plc", "ips": ["10.42.255.252"]}]`
	ended := owner
	ended.Status.Phase = corev1.PodFailed
	other := claim("other", []string{"10.42.255.254/16"}, nil)
	elsewhere := claim("elsewhere", []string{"10.42.255.254/16"}, nil)
	elsewhere.Spec.Network = "foreign"
	subnets := map[string]subnet{"a": {ipv4: netip.MustParsePrefix("10.42.255.128/25")}}
	for name, test := range map[string]struct {
		static, static6 string
		claim           ipamclaim.IPAMClaim
		others          []ipamclaim.IPAMClaim
		pods            []corev1.Pod
		subnets         map[string]subnet
		namespaces      namespaceSet
		want            string
	}{
		"the last address of a host":         {claim: claim("plc", nil, nil), want: "[10.42.255.254/16] by  SuccessfulAllocation"},
		"an address that no claim has":       {claim: claim("plc", nil, nil), others: []ipamclaim.IPAMClaim{other}, want: "[10.42.255.253/16] by  SuccessfulAllocation"},
		"a claim of a foreign network":       {claim: claim("plc", nil, nil), others: []ipamclaim.IPAMClaim{elsewhere}, want: "[10.42.255.254/16] by  SuccessfulAllocation"},
		"an address that no pod has":         {claim: claim("plc", nil, nil), pods: []corev1.Pod{requesting("line", "x", "", 1, `"10.42.255.254"`)}, want: "[10.42.255.253/16] by  SuccessfulAllocation"},
		"an address in no node's subnet":     {claim: claim("plc", nil, nil), subnets: subnets, want: "[10.42.255.127/16] by  SuccessfulAllocation"},
		"both families":                      {static6: "fd42:0:0:ffff::/64", claim: claim("plc", nil, nil), want: "[10.42.255.254/16 fd42::ffff:ffff:ffff:ffff:ffff/48] by  SuccessfulAllocation"},
		"a requested address":                {claim: claim("plc", nil, []string{"10.42.255.7/16"}), want: "[10.42.255.7/16] by  SuccessfulAllocation"},
		"a requested address that is in use": {claim: claim("plc", nil, []string{"10.42.255.254/16"}), others: []ipamclaim.IPAMClaim{other}, want: "[] by  AddressUnavailable"},
		"a requested address of no range":    {claim: claim("plc", nil, []string{"10.42.1.7/16"}), want: "[] by  AddressUnavailable"},
		"a full range":                       {static: "10.42.255.255/32", claim: claim("plc", nil, nil), want: "[] by  AddressUnavailable"},
		"a network without a static range":   {static: "-", claim: claim("plc", nil, nil), want: "[] by  NoStaticRange"},
		"a namespace that may not be on it":  {claim: claim("plc", nil, nil), namespaces: namespaceSet{"other": true}, want: "[] by  NamespaceNotSelected"},
		"a claim with a pod":                 {claim: claim("plc", []string{"10.42.255.252/16"}, nil), pods: []corev1.Pod{owner}, want: "[10.42.255.252/16] by plc-0 SuccessfulAllocation"},
		"a claim whose pod has ended":        {claim: claim("plc", []string{"10.42.255.252/16"}, nil), pods: []corev1.Pod{ended}, want: "[10.42.255.252/16] by  SuccessfulAllocation"},
	} {
		t.Run(name, func(t *testing.T) {
			network := &v1alpha1.TSNNetwork{ObjectMeta: metav1.ObjectMeta{Name: "old"}}
			network.Spec.IPv4.CIDR, network.Spec.IPv4.Static = "10.42.0.0/16", "10.42.255.0/24"
			if test.static != "" {
				network.Spec.IPv4.Static = test.static
			}
			if test.static6 != "" {
				network.Spec.IPv6 = &v1alpha1.Range6{CIDR: "fd42::/48", Static: test.static6}
			}
			allocator := newClaimAllocator(network, test.subnets, append(test.others, test.claim), test.pods)
			status := allocator.statusOf(&test.claim, test.namespaces, time.Unix(1e9, 0))
			if got := fmt.Sprint(status.IPs, " by ", status.OwnerPod, " ", status.Conditions[0].Reason); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if status.IPs == nil {
				t.Error("ips would be null, and the resource requires a list")
			}
		})
	}
}
