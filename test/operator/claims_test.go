// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/internal/cluster/ipamclaim"
)

func newClaim(name, namespace, network string, ipRequests ...string) *ipamclaim.IPAMClaim {
	return &ipamclaim.IPAMClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: ipamclaim.Spec{Network: network, Interface: "tsn0", IPRequests: ipRequests}}
}

// awaitClaim waits until a claim has these addresses, the pod that holds it, and the reason of its condition.
func awaitClaim(ctx context.Context, t *testing.T, claim *ipamclaim.IPAMClaim, want string) {
	t.Helper()
	await(ctx, t, claim, func() error {
		var got strings.Builder
		fmt.Fprint(&got, claim.Status.IPs, claim.Status.OwnerPod)
		for _, condition := range claim.Status.Conditions {
			got.WriteString(" " + condition.Reason)
		}
		if got.String() != want {
			return fmt.Errorf("claim %s has %q, want %q", claim.Name, got.String(), want)
		}
		return nil
	})
}

// claiming is a pod on network claimed that refers to a claim.
func claiming(name, namespace, node, claim string) *corev1.Pod {
	pod := onNetwork(name, namespace, "claimed", node)
	pod.Annotations["k8s.v1.cni.cncf.io/networks"] = `[{"name": "claimed", "interface": "tsn0", "ipam-claim-reference": "` + claim + `"}]`
	return pod
}

func TestIPAMClaim(t *testing.T) {
	ctx := needOperator(t)
	network := newNetwork("claimed", 243, "10.243.0.0/16")
	network.Spec.IPv4.Static = "10.243.0.0/24"
	create(ctx, t, newNamespace("claimed-other", nil), newNode("claimed-a"), newNode("claimed-b"), network)
	claim, requesting := newClaim("plc", "default", "claimed"), newClaim("requesting", "default", "claimed", "10.243.0.255/16")
	create(ctx, t, claim)
	awaitClaim(ctx, t, claim, "[10.243.0.255/16] SuccessfulAllocation")
	create(ctx, t, requesting)
	awaitClaim(ctx, t, requesting, "[] AddressUnavailable")

	rejects := func(pod *corev1.Pod, want string) {
		t.Helper()
		eventually(ctx, t, func() error { // the operator's cache may be late
			if err := admin.Create(ctx, pod.DeepCopy(), client.DryRunAll); err == nil || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("pod %s: got %w, want %q", pod.Name, err, want)
			}
			return nil
		})
	}
	rejects(claiming("plc-0", "default", "claimed-a", "requesting"), "which has no address yet")
	rejects(claiming("plc-0", "default", "claimed-a", "missing"), "which namespace default does not have")
	thief := claiming("thief", "claimed-other", "claimed-b", "")
	thief.Annotations["k8s.v1.cni.cncf.io/networks"] = `[{"name": "claimed", "interface": "tsn0", "ips": ["10.243.0.255"]}]`
	rejects(thief, "which IPAMClaim default/plc has")

	first := claiming("plc-0", "default", "claimed-a", "plc")
	create(ctx, t, first)
	awaitClaim(ctx, t, claim, "[10.243.0.255/16]plc-0 SuccessfulAllocation")
	awaitAddressesOf(ctx, t, "claimed", "claimed-a 10.243.0.255 default/plc-0;")
	rejects(claiming("plc-1", "default", "claimed-b", "plc"), "which pod default/plc-0 holds")

	// The claim survives the pod, and its address moves with it.
	must(t, admin.Delete(ctx, first, client.GracePeriodSeconds(0)))
	awaitClaim(ctx, t, claim, "[10.243.0.255/16] SuccessfulAllocation")
	create(ctx, t, claiming("plc-1", "default", "claimed-b", "plc"))
	awaitClaim(ctx, t, claim, "[10.243.0.255/16]plc-1 SuccessfulAllocation")
	awaitAddressesOf(ctx, t, "claimed", "claimed-b 10.243.0.255 default/plc-1;")

	// A claim that is created again has the address of the pod that refers to it, and no other claim has it.
	must(t, admin.Delete(ctx, claim))
	claim = newClaim("plc", "default", "claimed")
	create(ctx, t, claim)
	awaitClaim(ctx, t, claim, "[10.243.0.255/16]plc-1 SuccessfulAllocation")
	awaitClaim(ctx, t, requesting, "[] AddressUnavailable")
}
