// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestServices reaches pods of both nodes by a service's address and name, from both nodes: kube-proxy, CoreDNS and
// Flannel serve tests.
func TestServices(t *testing.T) {
	ctx := needTwoNodes(t)
	namespace := newNamespace(ctx, t, restricted)
	backends := []*corev1.Pod{agnhost("one", under.Nodes[0].Name), agnhost("two", under.Nodes[1].Name)}
	for _, pod := range backends {
		pod.Labels["app"] = "web"
	}
	service, err := client.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{
				{Name: "http", Port: 80, TargetPort: intstr.FromInt32(httpPort), Protocol: corev1.ProtocolTCP},
				{Name: "udp", Port: 90, TargetPort: intstr.FromInt32(udpPort), Protocol: corev1.ProtocolUDP},
			},
		},
	}, createOptions)
	if err != nil {
		t.Fatal(err)
	}
	start(ctx, t, namespace, backends...)
	for _, node := range under.Nodes {
		asker := start(ctx, t, namespace, agnhost("asker-on-"+node.Name, node.Name))[0]
		for _, host := range []string{service.Spec.ClusterIP, "web", "web." + namespace + ".svc.cluster.local"} {
			t.Run("from "+node.Name+" to "+host, func(t *testing.T) {
				for protocol, port := range map[string]int{"http": 80, "udp": 90} {
					await(ctx, t, func(ctx context.Context) error {
						given, err := dial(ctx, asker, protocol, host, port, "hostname", 20)
						if err == nil && protocol == "http" && (!slices.Contains(given, "one") || !slices.Contains(given, "two")) {
							err = fmt.Errorf("only %q answer", given)
						}
						return err
					})
				}
			})
		}
	}
}
