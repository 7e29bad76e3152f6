// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
)

// theServices are the tests' services in a namespace.
const theServices = `
apiVersion: kubernetsn.io/v1alpha1
kind: TSNService
metadata: {name: camera, namespace: %[1]s}
spec:
  ipv4: {linkCIDR: 10.200.0.0/16}
  ipv6: {linkCIDR: "fd00:200::/64"}
  prefer: SameCluster
---
apiVersion: kubernetsn.io/v1alpha1
kind: TSNService
metadata: {name: filtered, namespace: %[1]s}
spec:
  ipv4: {linkCIDR: 10.201.0.0/16}
  chain:
    - {name: filter, selector: {matchLabels: {app: between}}, forward: [IPv4]}
`

func labelled(pod *corev1.Pod, labels ...string) *corev1.Pod {
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		pod.Labels[key] = value
	}
	return pod
}

// linkOf returns a pod's link, nil if it has none.
func linkOf(ctx context.Context, pod *corev1.Pod) (*v1alpha1.TSNLink, error) {
	all, err := kube.List[v1alpha1.TSNLink](ctx, dynamicClient, "tsnlinks", pod.Namespace, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Spec.Client.UID == string(pod.UID) {
			return &all[i], nil
		}
	}
	return nil, nil
}

// waitLink waits until a pod has a link that is up, to one of the others.
func waitLink(ctx context.Context, t *testing.T, from *corev1.Pod, to ...*corev1.Pod) *v1alpha1.TSNLink {
	t.Helper()
	var link *v1alpha1.TSNLink
	await(ctx, t, func(ctx context.Context) (err error) {
		if link, err = linkOf(ctx, from); err != nil {
			return err
		}
		if link == nil {
			return fmt.Errorf("%s has no link: %s", from.Name, lastEvents(ctx, from.Namespace, from.Name))
		}
		leads := slices.ContainsFunc(to, func(pod *corev1.Pod) bool { return string(pod.UID) == link.Spec.Endpoint.UID })
		if !leads || !meta.IsStatusConditionTrue(link.Status.Conditions, v1alpha1.ConditionUp) {
			return fmt.Errorf("the link of %s leads to %s, and is %+v", from.Name, link.Spec.Endpoint.Pod, link.Status.Conditions)
		}
		return nil
	})
	return link
}

// addressOf returns an end's IPv4 or IPv6 address.
func addressOf(t *testing.T, end *v1alpha1.LinkEnd, is4 bool) netip.Addr {
	t.Helper()
	for _, text := range end.Addresses {
		if address := netip.MustParsePrefix(text).Addr(); address.Is4() == is4 {
			return address
		}
	}
	t.Fatalf("%s has the addresses %v", end.Pod, end.Addresses)
	return netip.Addr{}
}

// pings fails the test unless a pod reaches an address through an interface.
func pings(ctx context.Context, t *testing.T, pod *corev1.Pod, through string, to netip.Addr) {
	t.Helper()
	output, err := node.Output(ctx, under.Place(pod.Spec.NodeName), nil, "nsenter", "--net="+networkNamespace(ctx, t, pod), "ping", "-n", "-c", "3", "-i", "0.2", "-W", "2",
		"-I", through, to.String())
	if err != nil {
		t.Errorf("%s does not reach %s through %s: %v: %s", pod.Name, to, through, err, output)
	}
}
