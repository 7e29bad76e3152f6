// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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
	younger := claim("plc", []string{"10.42.255.254/16"}, nil)
	younger.CreationTimestamp = metav1.NewTime(time.Unix(1e9, 0))
	older := claim("plc", []string{"10.42.255.254/16"}, nil)
	older.CreationTimestamp = metav1.NewTime(time.Unix(1e8, 0))
	late := other
	late.CreationTimestamp = younger.CreationTimestamp
	assigned := []v1alpha1.TSNPeers{{Spec: v1alpha1.TSNPeersSpec{Network: "old", Nodes: []v1alpha1.PeerNode{
		{Name: "a", Addresses: []v1alpha1.PodAddress{{Address: "10.42.255.254", Pod: "line/x"}, {Address: "10.42.255.252", Pod: "line/plc-0"}}}}}}}
	same := requesting("line", "same", "a", 1, `"10.42.255.252"`)
	many := requesting("line", "many", "a", 1, `"10.42.255.1", "10.42.255.2", "10.42.255.254"`)
	subnets := map[string]subnet{"a": {ipv4: netip.MustParsePrefix("10.42.255.128/25")}}
	for name, test := range map[string]struct {
		static, static6 string
		claim           ipamclaim.IPAMClaim
		others          []ipamclaim.IPAMClaim
		pods            []corev1.Pod
		peers           []v1alpha1.TSNPeers
		subnets         map[string]subnet
		namespaces      namespaceSet
		want            string
	}{
		"the last address of a host":         {claim: claim("plc", nil, nil), want: "[10.42.255.254/16] by  SuccessfulAllocation"},
		"an address that no claim has":       {claim: claim("plc", nil, nil), others: []ipamclaim.IPAMClaim{other}, want: "[10.42.255.253/16] by  SuccessfulAllocation"},
		"an address that no pod has":         {claim: claim("plc", nil, nil), pods: []corev1.Pod{requesting("line", "x", "", 1, `"10.42.255.254"`)}, want: "[10.42.255.253/16] by  SuccessfulAllocation"},
		"an address that is not assigned":    {claim: claim("plc", nil, nil), peers: assigned, want: "[10.42.255.253/16] by  SuccessfulAllocation"},
		"two addresses of a pod count":       {claim: claim("plc", nil, nil), pods: []corev1.Pod{many}, want: "[10.42.255.254/16] by  SuccessfulAllocation"},
		"the address of the claim's pod":     {claim: claim("plc", nil, nil), pods: []corev1.Pod{owner}, peers: assigned, want: "[10.42.255.252/16] by plc-0 SuccessfulAllocation"},
		"an address of another pod, too":     {claim: claim("plc", nil, nil), pods: []corev1.Pod{owner, same}, want: "[10.42.255.254/16] by plc-0 SuccessfulAllocation"},
		"a request of the pod's address":     {claim: claim("plc", nil, []string{"10.42.255.252/16"}), pods: []corev1.Pod{owner}, want: "[10.42.255.252/16] by plc-0 SuccessfulAllocation"},
		"two requests of a family":           {claim: claim("plc", nil, []string{"10.42.255.7/16", "10.42.255.8/16"}), want: "[] by  AddressUnavailable"},
		"an address of an older claim":       {claim: younger, others: []ipamclaim.IPAMClaim{other}, want: "[10.42.255.254/16] by  AddressInUse"},
		"an address of a younger claim":      {claim: older, others: []ipamclaim.IPAMClaim{late}, want: "[10.42.255.254/16] by  SuccessfulAllocation"},
		"an address that is not static":      {claim: claim("plc", []string{"10.42.1.7/16"}, nil), want: "[10.42.1.7/16] by  AddressUnavailable"},
		"an address, and no static range":    {static: "-", claim: claim("plc", []string{"10.42.1.7/16"}, nil), want: "[10.42.1.7/16] by  NoStaticRange"},
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
			allocator := newClaimAllocator(network, test.subnets, append(test.others, test.claim), test.pods, test.peers)
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

func TestForeignClaims(t *testing.T) {
	condition := func(message string) []metav1.Condition {
		return []metav1.Condition{{Type: ipamclaim.ConditionAllocated, Status: metav1.ConditionTrue, Message: message}}
	}
	const foreign, operators = "IPs allocated", claimMessage + "old: the claim has its addresses"
	for name, test := range map[string]struct {
		static     string
		ips        []string
		conditions []metav1.Condition
		want       bool
	}{
		"a claim without a status":               {"10.42.255.0/24", nil, nil, false},
		"a static address":                       {"10.42.255.0/24", []string{"10.42.255.7/16"}, condition(foreign), false},
		"another address":                        {"10.42.255.0/24", []string{"10.128.0.7/16"}, condition(foreign), true},
		"another address, and the own condition": {"10.42.255.0/24", []string{"10.128.0.7/16"}, condition(operators), false},
		"no static range, and no status":         {"", nil, nil, false},
		"no static range, and an address":        {"", []string{"10.128.0.7/16"}, nil, true},
		"no static range, and a condition":       {"", nil, condition(foreign), true},
		"no static range, and the own condition": {"", nil, condition(operators), false},
	} {
		t.Run(name, func(t *testing.T) {
			network := &v1alpha1.TSNNetwork{ObjectMeta: metav1.ObjectMeta{Name: "old"}}
			network.Spec.IPv4.CIDR, network.Spec.IPv4.Static = "10.42.0.0/16", test.static
			claim := &ipamclaim.IPAMClaim{Status: ipamclaim.Status{IPs: test.ips, Conditions: test.conditions}}
			if got := newClaimAllocator(network, nil, nil, nil, nil).isForeign(claim); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestClaimsReconcile(t *testing.T) {
	scheme := runtime.NewScheme()
	must(t, AddToScheme(scheme))
	network := &v1alpha1.TSNNetwork{ObjectMeta: metav1.ObjectMeta{Name: "old"}}
	network.Spec.IPv4.CIDR, network.Spec.IPv4.Static = "10.42.0.0/16", "10.42.255.0/24"
	claim := func(name, network string, ips ...string) *ipamclaim.IPAMClaim {
		return &ipamclaim.IPAMClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "line", Name: name}, Spec: ipamclaim.Spec{Network: network}, Status: ipamclaim.Status{IPs: ips, OwnerPod: "x"}}
	}
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&ipamclaim.IPAMClaim{}).WithObjects(network, claim("broken", "old", "10.42.255.1/16"),
		claim("changed", "old", "10.42.255.2/16"), claim("plc", "old", "10.42.255.3/16"), claim("same-name", "old", "10.128.0.7/16"), claim("unrelated", "ovn", "10.42.255.4/16")).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, part string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			switch object.GetName() {
			case "broken":
				return errors.New("not writable")
			case "changed":
				return apierrors.NewConflict(schema.GroupResource{}, "changed", nil)
			}
			return c.SubResource(part).Patch(ctx, object, patch, options...)
		}}).Build()
	r := &Claims{Client: cluster, Live: cluster, shared: &shared{subnets: &subnetLedger{}}, now: time.Now}
	retry, err := r.reconcile(t.Context(), "old")
	if !retry || err == nil || !strings.Contains(err.Error(), "write the status of IPAMClaim line/broken: not writable") {
		t.Errorf("got %v, %v", retry, err)
	}
	var claims ipamclaim.List
	must(t, cluster.List(t.Context(), &claims))
	var written []string
	for i := range claims.Items {
		if meta.IsStatusConditionTrue(claims.Items[i].Status.Conditions, ipamclaim.ConditionAllocated) {
			written = append(written, claims.Items[i].Name)
		}
	}
	if !slices.Equal(written, []string{"plc"}) {
		t.Errorf("the operator has written the status of %v, want only plc", written)
	}
	r.Live = nil // no claim of this network
	if retry, err = r.reconcile(t.Context(), "ovn"); retry || err != nil {
		t.Errorf("another project's network: got %v, %v", retry, err)
	}
}
