// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/ipamclaim"
)

// claims is twoNodes with IPAMClaims, and a pod that holds the claim held. Without claims, the cluster lacks the resource.
type claims struct {
	twoNodes
	claims []ipamclaim.IPAMClaim
}

func (c claims) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	claim, ok := into.(*ipamclaim.IPAMClaim)
	if network, matches := into.(*v1alpha1.TSNNetwork); matches && key.Name == "dynamic" {
		network.Name, network.Spec.IPv4.CIDR = key.Name, "10.71.0.0/16"
		return nil
	}
	if !ok {
		return c.twoNodes.Get(ctx, key, into, options...)
	}
	if c.claims == nil {
		return &meta.NoKindMatchError{GroupKind: ipamclaim.Kind.GroupKind()}
	}
	for i := range c.claims {
		if c.claims[i].Name == key.Name && c.claims[i].Namespace == key.Namespace {
			*claim = c.claims[i]
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (c claims) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	switch objects := list.(type) {
	case *ipamclaim.List:
		if c.claims == nil {
			return &meta.NoKindMatchError{GroupKind: ipamclaim.Kind.GroupKind()}
		}
		objects.Items = c.claims
		return nil
	case *corev1.PodList:
		objects.Items = append(objects.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "owner", Annotations: map[string]string{
			"kubernetsn.io/network": "tsn", "k8s.v1.cni.cncf.io/networks": `[{"name":"tsn","ipam-claim-reference":"held","ips":["10.70.255.20/16"]}]`}}})
	}
	return c.twoNodes.List(ctx, list, options...)
}

// claimOf returns a claim of namespace ns.
func claimOf(name, network string, ips ...string) ipamclaim.IPAMClaim {
	return ipamclaim.IPAMClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: ipamclaim.Spec{Network: network}, Status: ipamclaim.Status{IPs: ips}}
}

func TestClaims(t *testing.T) {
	deleted, waiting := claimOf("deleted", "tsn", "10.70.255.21/16"), claimOf("waiting", "tsn")
	deleted.DeletionTimestamp = &metav1.Time{}
	waiting.Status.Conditions = []metav1.Condition{{Type: ipamclaim.ConditionAllocated, Message: "the cause"}}
	lost := claimOf("lost", "tsn", "10.70.255.25/16")
	lost.Status.Conditions = []metav1.Condition{{Type: ipamclaim.ConditionAllocated, Status: metav1.ConditionFalse, Message: "an older claim has it"}}
	foreign := claimOf("plc", "tsn", "10.70.255.30/16")
	foreign.Namespace = "elsewhere"
	all := []ipamclaim.IPAMClaim{claimOf("plc", "tsn", "10.70.255.22/16"), claimOf("held", "tsn", "10.70.255.20/16"), deleted, waiting, lost, foreign,
		claimOf("unseen", "tsn"), claimOf("other", "other", "10.70.255.23/16"), claimOf("outside", "tsn", "10.70.1.7/16"), claimOf("taken", "tsn", "10.70.255.7/16")}
	requests := func(fields string) string { return networksKey + `'[{"name": "tsn", ` + fields + `}]'` }
	refers := func(name string) string { return requests(`"ipam-claim-reference": "` + name + `"`) }
	for name, test := range map[string]struct {
		claims                              []ipamclaim.IPAMClaim
		annotations, wantAddress, wantError string
	}{
		"a claim":                          {all, refers("plc"), "10.70.255.22/16", ""},
		"the webhook is called again":      {all, requests(`"ipam-claim-reference": "plc", "ips": ["10.70.255.22/16"]`), "10.70.255.22/16", ""},
		"and its address by annotation":    {all, ", kubernetsn.io/addresses: 10.70.255.22" + refers("plc"), "10.70.255.22/16", ""},
		"and another address":              {all, requests(`"ipam-claim-reference": "plc", "ips": ["10.70.255.24"]`), "", "IPAMClaim plc has [10.70.255.22/16]"},
		"a missing claim":                  {all, refers("missing"), "", "which namespace ns does not have"},
		"a cluster without claims":         {nil, refers("plc"), "", "has no CustomResourceDefinition ipamclaims.k8s.cni.cncf.io"},
		"a claim of another network":       {all, refers("other"), "", `which is for network "other"`},
		"a claim of another pod":           {all, refers("held"), "", "which pod ns/owner holds"},
		"a claim that is being deleted":    {all, refers("deleted"), "", "which is being deleted"},
		"a claim without an address":       {all, refers("waiting"), "", "which has no address yet (the cause)"},
		"a claim that is new":              {all, refers("unseen"), "", "ktsn-operator has not seen it"},
		"a claim that lost its address":    {all, refers("lost"), "", "whose addresses no pod can have (an older claim has it)"},
		"an address of such a claim":       {all, requests(`"ips": ["10.70.255.25"]`), "10.70.255.25", ""},
		"claims of other networks only":    {[]ipamclaim.IPAMClaim{claimOf("plc", "other", "10.70.255.24/16")}, requests(`"ips": ["10.70.255.24"]`), "10.70.255.24", ""},
		"a claim of no static address":     {all, refers("outside"), "", `whose address "10.70.1.7/16" is not in the static ranges`},
		"a claim of another pod's address": {all, refers("taken"), "", "which pod ns/other has"},
		"no claim":                         {all, requests(`"ips": ["10.70.255.24"]`), "10.70.255.24", ""},
		"no claim, and no resource":        {nil, requests(`"ips": ["10.70.255.24"]`), "10.70.255.24", ""},
		"an address of a claim":            {all, requests(`"ips": ["10.70.255.22"]`), "", "which IPAMClaim ns/plc has"},
		"an address of another namespace":  {all, requests(`"ips": ["10.70.255.30"]`), "", "which IPAMClaim elsewhere/plc has"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := claims{claims: test.claims}
			pod := parsePod(t, annotated(test.annotations, appContainer))
			_, err := (&Handler{Cached: cluster, Live: cluster}).mutatePod(t.Context(), pod, "ns")
			pod.Namespace = "ns"
			if test.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantError) {
					t.Errorf("got %v, want %q", err, test.wantError)
				}
				return
			}
			must(t, err)
			elements, err := attachmentsOf(pod, "ns")
			must(t, err)
			if got := strings.Join(elements[0].IPRequest, " "); got != test.wantAddress {
				t.Errorf("the pod requests %q, want %q", got, test.wantAddress)
			}
		})
	}
	pod := parsePod(t, strings.Replace(annotated(networksKey+`'[{"name": "dynamic", "ipam-claim-reference": "plc"}]'`, appContainer), "network: tsn", "network: dynamic", 1))
	cluster := claims{claims: all}
	_, err := (&Handler{Cached: cluster, Live: cluster}).mutatePod(t.Context(), pod, "ns")
	if err == nil || !strings.Contains(err.Error(), "add a static range") {
		t.Errorf("a network without a static range: got %v", err)
	}
}
