// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
)

func TestPodsReachEachOtherOverFlannel(t *testing.T) {
	ctx := needTwoNodes(t)
	namespace := newNamespace(ctx, t, restricted)
	pods := start(ctx, t, namespace,
		agnhost("a", under.Nodes[0].Name), agnhost("b", under.Nodes[1].Name), agnhost("c", under.Nodes[1].Name))
	a, b, c := pods[0], pods[1], pods[2]
	for name, test := range map[string]struct{ from, to *corev1.Pod }{
		"from the first node to the second": {a, b},
		"from the second node to the first": {b, a},
		"within a node":                     {b, c},
	} {
		t.Run(name, func(t *testing.T) {
			reaches(ctx, t, test.from, test.to, test.to.Status.PodIP)
			if source := seenFrom(ctx, t, test.from, test.to.Status.PodIP); source != netip.MustParseAddr(test.from.Status.PodIP) {
				t.Errorf("%s is seen as %s, want %s: its address was translated", test.from.Name, source, test.from.Status.PodIP)
			}
		})
	}
}

// makeService returns a service for pods with the label app, for TCP and UDP.
func makeService(app string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": app},
			Ports: []corev1.ServicePort{
				{Name: "http", Port: 80, TargetPort: intOrString(httpPort), Protocol: corev1.ProtocolTCP},
				{Name: "udp", Port: 90, TargetPort: intOrString(udpPort), Protocol: corev1.ProtocolUDP},
			},
		},
	}
}

func TestServicesAndTheirNames(t *testing.T) {
	ctx := needTwoNodes(t)
	namespace := newNamespace(ctx, t, restricted)
	backends := []*corev1.Pod{agnhost("one", under.Nodes[0].Name), agnhost("two", under.Nodes[1].Name)}
	for _, pod := range backends {
		pod.Labels["app"] = "web"
	}
	node := makeService("web")
	node.Name, node.Spec.Type = "web-node", corev1.ServiceTypeNodePort
	headless := makeService("web")
	headless.Name, headless.Spec.ClusterIP = "web-headless", corev1.ClusterIPNone
	services := map[string]*corev1.Service{}
	for _, service := range []*corev1.Service{makeService("web"), node, headless} {
		created, err := client.CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		services[created.Name] = created
	}
	start(ctx, t, namespace, backends...)
	for _, where := range under.Nodes {
		asker := start(ctx, t, namespace, agnhost("asker-on-"+where.Name, where.Name))[0]
		bothAnswer(ctx, t, asker, services["web"].Spec.ClusterIP)
		for name, test := range map[string]struct {
			host string
			http int
			udp  int
		}{
			"by address":       {services["web"].Spec.ClusterIP, 80, 90},
			"by short name":    {"web", 80, 90},
			"by full name":     {"web." + namespace + ".svc.cluster.local", 80, 90},
			"by the pods' own": {"web-headless", httpPort, udpPort},
			"by a node's port": {under.Nodes[0].Address.String(), int(services["web-node"].Spec.Ports[0].NodePort), int(services["web-node"].Spec.Ports[1].NodePort)},
		} {
			t.Run("from "+where.Name+" "+name, func(t *testing.T) {
				for protocol, port := range map[string]int{"http": test.http, "udp": test.udp} {
					served(ctx, t, asker, protocol, test.host, port)
					// A request resolves the name only once, so send several.
					given, err := dial(ctx, asker, protocol, test.host, port, "hostname", 8)
					if err != nil {
						t.Fatal(err)
					}
					for _, answer := range given {
						if answer != "one" && answer != "two" {
							t.Errorf("%s: %q answered", protocol, answer)
						}
					}
				}
			})
		}
		t.Run("from "+where.Name+" both pods get their share", func(t *testing.T) {
			given, err := dial(ctx, asker, "http", services["web"].Spec.ClusterIP, 80, "hostname", 40)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(given, "one") || !slices.Contains(given, "two") {
				t.Errorf("40 times only %q answered", given[0])
			}
		})
	}
}

// bothAnswer waits until a node's kube-proxy knows both pods of a service.
func bothAnswer(ctx context.Context, t *testing.T, asker *corev1.Pod, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := kube.Wait(ctx, func(ctx context.Context) error {
		given, err := dial(ctx, asker, "http", address, 80, "hostname", 20)
		if err == nil && (!slices.Contains(given, "one") || !slices.Contains(given, "two")) {
			err = fmt.Errorf("%q answered", given)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// served waits until kube-proxy and CoreDNS on the pod's node know a new service.
func served(ctx context.Context, t *testing.T, asker *corev1.Pod, protocol, host string, port int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := kube.Wait(ctx, func(ctx context.Context) error {
		_, err := dial(ctx, asker, protocol, host, port, "hostname", 1)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNamesThatAreNotThereAreNotFound(t *testing.T) {
	ctx := needCluster(t)
	namespace := newNamespace(ctx, t, restricted)
	pod := start(ctx, t, namespace, agnhost("a", ""))[0]
	if given, err := dial(ctx, pod, "http", "nobody."+namespace+".svc.cluster.local", 80, "hostname", 1); err == nil {
		t.Errorf("somebody answered: %q", given)
	}
}
