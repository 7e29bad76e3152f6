// SPDX-License-Identifier: Apache-2.0

//go:build bench

package federation

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// Containers of a station.
const (
	perf  = "tsnperf"
	tools = "nettools"
)

// station is a pod on network line in which programs are started.
type station struct {
	*place
	node            plan.Node
	namespace, name string
	address         netip.Addr
}

// stations are a sending pod, one on another node of its cluster, and one in another cluster.
type stations struct {
	*bench
	from, near, far *station
	// ktsnd is the container of ktsnd on from's node.
	ktsnd kube.Container
}

// stationPod returns a pod on a node that idles until a program is started in it.
func stationPod(namespace, name, node string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {namespace: %[1]s, name: %[2]s, annotations: {kubernetsn.io/network: line}}
spec:
  nodeSelector: {kubernetes.io/hostname: %[3]s}
  terminationGracePeriodSeconds: 0
  automountServiceAccountToken: false
  securityContext: {sysctls: [{name: net.ipv4.ping_group_range, value: 0 2147483647}]}
  containers:
    - name: %[4]s
      image: localhost/kubernetsn/tsnperf:dev
      imagePullPolicy: Never
      args: [listener, --bind, "127.0.0.1:0", --block, --first-timeout, "0", --quiet]
    - {name: %[5]s, image: "localhost/kubernetsn/nettools:dev", imagePullPolicy: Never}
`, namespace, name, node, perf, tools)
}

// station creates the network and the pods, and waits until the clusters know each other's nodes.
func (b *bench) station(ctx context.Context, t *testing.T) *stations {
	t.Helper()
	hub.apply(ctx, t, stretchedNetwork)
	t.Cleanup(func() { removeNetwork(context.WithoutCancel(ctx), t, "line") })
	for _, member := range members {
		await(ctx, t, func(ctx context.Context) error {
			network, err := member.network(ctx, "line")
			if err == nil && network.Spec.IPv4.Part == "" {
				err = fmt.Errorf("%s has no part of network line", member.as)
			}
			return err
		})
	}
	s := &stations{bench: b}
	s.from, s.near, s.far = b.newStation(ctx, t, b.east, 0, "from"), b.newStation(ctx, t, b.east, 1, "near"), b.newStation(ctx, t, b.west, 0, "far")
	await(ctx, t, b.east.knowsNodesOf(b.west))
	await(ctx, t, b.west.knowsNodesOf(b.east))
	s.ktsnd = s.from.daemon(ctx, t)
	return s
}

func (b *bench) newStation(ctx context.Context, t *testing.T, at *place, node int, name string) *station {
	t.Helper()
	s := &station{place: at, node: at.Nodes[node], namespace: b.namespace, name: name}
	at.apply(ctx, t, stationPod(b.namespace, name, s.node.Name))
	await(ctx, t, func(ctx context.Context) error {
		all, err := at.addressesOf(ctx, b.namespace, name)
		for _, address := range all {
			if address.Is4() {
				s.address = address
			}
		}
		return err
	})
	return s
}

// daemon returns the container of ktsnd on a station's node.
func (s *station) daemon(ctx context.Context, t *testing.T) kube.Container {
	t.Helper()
	list, err := s.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + s.node.Name})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		for _, container := range list.Items[i].Spec.Containers {
			if container.Name == "ktsnd" && list.Items[i].Status.Phase == corev1.PodRunning {
				return kube.Container{Namespace: list.Items[i].Namespace, Pod: list.Items[i].Name, Name: container.Name}
			}
		}
	}
	t.Fatalf("%s: node %s has no ktsnd", s.Name, s.node.Name)
	return kube.Container{}
}

// start starts a program in a station's container.
func (s *station) start(ctx context.Context, container string, command ...string) *kube.Program {
	return kube.Begin(ctx, s.config, s.client, kube.Container{Namespace: s.namespace, Pod: s.name, Name: container}, command...)
}
