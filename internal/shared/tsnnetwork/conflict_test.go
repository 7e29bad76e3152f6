// SPDX-License-Identifier: Apache-2.0

package tsnnetwork

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// agedNetwork is a network that was made that many seconds ago.
func agedNetwork(name string, seconds int64, vni int32, ipv4, ipv6 string) v1alpha1.TSNNetwork {
	network := v1alpha1.TSNNetwork{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1000-seconds, 0))}}
	network.Spec.VNI, network.Spec.IPv4.CIDR = vni, ipv4
	if ipv6 != "" {
		network.Spec.IPv6 = &v1alpha1.Range6{CIDR: ipv6}
	}
	return network
}

func TestConflict(t *testing.T) {
	for name, test := range map[string]struct {
		older, younger v1alpha1.TSNNetwork
		why            string
	}{
		"one vni":                         {agedNetwork("a", 2, 42, "10.42.0.0/16", ""), agedNetwork("b", 1, 42, "10.43.0.0/16", ""), "the same vni"},
		"one vni, and made in one second": {agedNetwork("a", 1, 42, "10.42.0.0/16", ""), agedNetwork("b", 1, 42, "10.43.0.0/16", ""), "the same vni"},
		"addresses of IPv4": {agedNetwork("a", 2, 42, "10.42.0.0/16", ""), agedNetwork("b", 1, 43, "10.42.128.0/17", ""),
			"addresses of the same range, 10.42.0.0/16"},
		"addresses of IPv6": {agedNetwork("a", 2, 42, "10.42.0.0/16", "fd00:42::/32"), agedNetwork("b", 1, 43, "10.43.0.0/16", "fd00:42:1::/48"),
			"addresses of the same range, fd00:42::/32"},
		"nothing": {agedNetwork("a", 2, 42, "10.42.0.0/16", "fd00:42::/32"), agedNetwork("b", 1, 43, "10.43.0.0/16", "fd00:43::/32"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			both := []v1alpha1.TSNNetwork{test.younger, test.older}
			wantName := test.older.Name
			if test.why == "" {
				wantName = ""
			}
			if got, why := Conflict(&test.younger, both); got != wantName || why != test.why {
				t.Errorf("the younger must give way to %q for %q, want %q for %q", got, why, wantName, test.why)
			}
			if got, why := Conflict(&test.older, both); got != "" {
				t.Errorf("the older must give way to %q for %q", got, why)
			}
		})
	}
}
