// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// awaitAddresses waits until the peers of network static have these addresses.
func awaitAddresses(ctx context.Context, t *testing.T, want string) {
	t.Helper()
	awaitAddressesOf(ctx, t, "static", want)
}

// awaitAddressesOf waits until the peers of a network have these addresses.
func awaitAddressesOf(ctx context.Context, t *testing.T, network, want string) {
	t.Helper()
	peers := &v1alpha1.TSNPeers{}
	peers.Name = network + "-0"
	await(ctx, t, peers, func() error {
		var got strings.Builder
		for _, node := range peers.Spec.Nodes {
			for _, held := range node.Addresses {
				fmt.Fprintf(&got, "%s %s %s;", node.Name, held.Address, held.Pod)
			}
		}
		if got.String() != want {
			return fmt.Errorf("the addresses are %q, want %q", got.String(), want)
		}
		return nil
	})
}

// requesting is a pod on network static that requests addresses.
func requesting(name, namespace, node, ips string) *corev1.Pod {
	pod := onNetwork(name, namespace, "static", node)
	pod.Annotations["k8s.v1.cni.cncf.io/networks"] = `[{"name": "static", "interface": "tsn0", "ips": [` + ips + `]}]`
	return pod
}

func TestStaticAddress(t *testing.T) {
	ctx := needOperator(t)
	network := newNetwork("static", 241, "10.241.0.0/16")
	network.Spec.IPv4.Static = "10.241.0.0/24" // nodes get the next ones
	create(ctx, t, newNamespace("static-other", nil), newNode("static-a"), newNode("static-b"), network)
	first := requesting("plc-0", "default", "static-a", `"10.241.0.7/16"`)
	create(ctx, t, first)
	awaitState(ctx, t, stateOf("static-a"), "static=10.241.1.0/24,1 gates=")
	awaitAddresses(ctx, t, "static-a 10.241.0.7 default/plc-0;")

	err := admin.Create(ctx, requesting("thief", "static-other", "static-b", `"10.241.0.7"`), client.DryRunAll)
	if err == nil || !strings.Contains(err.Error(), "which pod default/plc-0 has; request another one") {
		t.Errorf("a pod of another namespace: got %v", err)
	}
	// A pod that changes its annotation afterwards keeps what it has, and gets nothing more.
	thief := requesting("thief", "static-other", "static-b", `"10.241.0.8"`)
	create(ctx, t, thief)
	awaitAddresses(ctx, t, "static-a 10.241.0.7 default/plc-0;static-b 10.241.0.8 static-other/thief;")
	thief.Annotations["k8s.v1.cni.cncf.io/networks"] = `[{"name": "static", "interface": "tsn0", "ips": ["10.241.0.7", "10.241.0.9"]}]`
	must(t, admin.Update(ctx, thief))
	second := requesting("plc-1", "default", "static-a", `"10.241.0.10"`)
	create(ctx, t, second)
	awaitAddresses(ctx, t, "static-a 10.241.0.10 default/plc-1;static-a 10.241.0.7 default/plc-0;static-b 10.241.0.8 static-other/thief;")
	must(t, admin.Delete(ctx, second, client.GracePeriodSeconds(0)))

	must(t, admin.Delete(ctx, thief, client.GracePeriodSeconds(0)))
	must(t, admin.Delete(ctx, first, client.GracePeriodSeconds(0)))
	awaitGone(ctx, t, first)
	moved := requesting("plc-0", "default", "static-b", `"10.241.0.7/16"`)
	create(ctx, t, moved)
	awaitAddresses(ctx, t, "static-b 10.241.0.7 default/plc-0;")
	// The pods of a StatefulSet have the names of those before them, and its template can request other addresses.
	must(t, admin.Delete(ctx, moved, client.GracePeriodSeconds(0)))
	awaitGone(ctx, t, moved)
	create(ctx, t, requesting("plc-0", "default", "static-b", `"10.241.0.11"`))
	awaitAddresses(ctx, t, "static-b 10.241.0.11 default/plc-0;")
}
