// SPDX-License-Identifier: Apache-2.0

package federation

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
)

const stretchedNetwork = `
apiVersion: kubernetsn.io/v1alpha1
kind: TSNNetwork
metadata: {name: line}
spec:
  vni: 78
  ipv4: {cidr: 10.78.0.0/16}
  ipv6: {cidr: "fd78::/48"}
  span: {clusterPrefixLength: 20}
`

var (
	networks = v1alpha1.GroupVersion.WithResource("tsnnetworks")
	peers    = v1alpha1.GroupVersion.WithResource("tsnpeers")
)

// network reads a TSNNetwork.
func (p *place) network(ctx context.Context, name string) (*v1alpha1.TSNNetwork, error) {
	network, err := kube.Get[v1alpha1.TSNNetwork](ctx, p.dynamic, "tsnnetworks", "", name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	return network, nil
}

// removeNetwork removes a network from the hub and the members.
func removeNetwork(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	for _, at := range append([]*place{hub}, members...) {
		if err := at.dynamic.Resource(networks).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("%s: %v", at.Name, err)
		}
	}
}

// onNetwork returns a pod on network line that runs a program of the image.
func onNetwork(namespace, name string, arguments ...string) string {
	encoded, _ := json.Marshal(arguments) // texts
	return fmt.Sprintf(`
---
apiVersion: v1
kind: Pod
metadata: {namespace: %s, name: %s, annotations: {kubernetsn.io/network: line}}
spec:
  terminationGracePeriodSeconds: 0
  automountServiceAccountToken: false
  restartPolicy: Never
  containers:
    - {name: tsnperf, image: "localhost/kubernetsn/tsnperf:dev", imagePullPolicy: Never, args: %s}
`, namespace, name, encoded)
}

// addressesOf returns a pod's IPv4 and IPv6 addresses on network line, once it is attached.
func (p *place) addressesOf(ctx context.Context, namespace, name string) (all []netip.Addr, err error) {
	pod, err := p.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	attached, _ := kube.Attachments(pod) // not there yet
	for _, attachment := range attached {
		if strings.HasSuffix(attachment.Name, "/line") {
			all = attachment.IPs
		}
	}
	if len(all) != 2 || pod.Status.Phase == corev1.PodPending {
		return nil, fmt.Errorf("%s: pod %s is %s and has %v on the network, want an address of each family", p.Name, name, pod.Status.Phase, all)
	}
	return all, nil
}

// ended waits for the end of a pod, and returns its log.
func (p *place) ended(ctx context.Context, t *testing.T, namespace, name string) string {
	t.Helper()
	var phase corev1.PodPhase
	await(ctx, t, func(ctx context.Context) error {
		pod, err := p.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if phase = pod.Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
			return fmt.Errorf("%s: pod %s is %s", p.Name, name, phase)
		}
		return nil
	})
	log, err := p.client.CoreV1().Pods(namespace).GetLogs(name, &corev1.PodLogOptions{}).DoRaw(ctx)
	if err != nil || phase != corev1.PodSucceeded {
		t.Errorf("%s: pod %s ended as %s, %v: %s", p.Name, name, phase, err, log)
	}
	return string(log)
}

// arrivals counts messages in a listener's records, and those that came before their time. All nodes share one clock
// here.
func arrivals(text string) (count, early int, err error) {
	rows := csv.NewReader(bytes.NewReader([]byte(text)))
	rows.FieldsPerRecord = -1
	all, err := rows.ReadAll()
	if err != nil {
		return 0, 0, err
	}
	seen := map[string]bool{}
	for _, row := range all {
		if len(row) < 7 || row[0] == "sequence" {
			continue
		}
		due, errDue := strconv.ParseInt(row[1], 10, 64)
		arrived, errArrived := strconv.ParseInt(row[2], 10, 64)
		if errDue != nil || errArrived != nil || row[6] != "1" || seen[row[0]] {
			return count, early, fmt.Errorf("row %v is no message, or there twice", row)
		}
		seen[row[0]] = true
		count++
		if arrived < due {
			early++
		}
	}
	return count, early, nil
}

// knowsNodesOf returns a question for await: whether a member knows another one's nodes on network line.
func (p *place) knowsNodesOf(other *place) func(context.Context) error {
	return func(ctx context.Context) error {
		list, err := kube.List[v1alpha1.TSNPeers](ctx, p.dynamic, "tsnpeers", "", metav1.ListOptions{LabelSelector: v1alpha1.NetworkLabel + "=line"})
		if err != nil {
			return err
		}
		for _, object := range list {
			if object.Spec.Cluster == other.as && len(object.Spec.Nodes) == len(other.Nodes) {
				return nil
			}
		}
		return fmt.Errorf("%s has not been told of the nodes of %s", p.Name, other.Name)
	}
}

func TestMessagesBetweenClusters(t *testing.T) {
	needCharts(t)
	ctx, f := needFederator(t)
	east, west := members[0], members[1]
	hub.apply(ctx, t, stretchedNetwork)
	t.Cleanup(func() { removeNetwork(context.WithoutCancel(ctx), t, "line") })
	parts := map[string]bool{}
	for _, member := range members {
		await(ctx, t, func(ctx context.Context) error {
			network, err := member.network(ctx, "line")
			if err == nil && (network.Spec.IPv4.Part == "" || network.Spec.IPv6.Part == "" || network.Spec.Span != nil) {
				err = fmt.Errorf("%s has the network %+v", member.Name, network.Spec)
			}
			if err == nil && !meta.IsStatusConditionTrue(network.Status.Conditions, v1alpha1.ConditionHubSeen) {
				err = fmt.Errorf("%s does not say that it sees the hub: %+v", member.Name, network.Status.Conditions)
			}
			if err == nil {
				parts[network.Spec.IPv4.Part] = true
			}
			return err
		})
	}
	if len(parts) != len(members) {
		t.Errorf("the clusters have the parts %v", parts)
	}
	namespace := newNamespace(ctx, t)
	// A pod in each cluster that stays keeps its node on the network, so that the others learn of it.
	f.write("anchor.yaml", deployment(namespace, "anchor", 1))
	f.run(ctx, "deploy", namespace+"/anchor", "-f", filepath.Join(f.folder, "anchor.yaml"), "--clusters", east.as+","+west.as, "--network", "line")
	t.Cleanup(func() { f.run(context.WithoutCancel(ctx), "delete", namespace+"/anchor") })
	for _, member := range members {
		await(ctx, t, member.runs(namespace, "anchor", 1))
	}
	took(t, "both clusters know of each other's nodes after another", func() {
		await(ctx, t, east.knowsNodesOf(west))
		await(ctx, t, west.knowsNodesOf(east))
	})
	t.Logf("where says:\n%s", f.run(ctx, "where", namespace+"/anchor"))
	t.Logf("networks says:\n%s", f.run(ctx, "networks"))
	for _, member := range members {
		for _, pod := range member.pods(ctx, t, namespace, "anchor") {
			t.Logf("%s: pod %s on its cluster's own network", member.as, pod.Status.PodIP)
		}
	}
	for family, bind := range []string{"0.0.0.0:7788", "[::]:7789"} {
		t.Run([]string{"by IPv4", "by IPv6"}[family], func(t *testing.T) {
			sendAcross(ctx, t, namespace, family, bind)
		})
	}
	t.Run("of another hub's networks nothing disturbs them", func(t *testing.T) { anotherHubGivesWay(ctx, t) })
	t.Run("a member's lies are not told", func(t *testing.T) { liesAreNotTold(ctx, t) })
}

// sendAcross sends timed messages from a pod in the first cluster to one in the second.
func sendAcross(ctx context.Context, t *testing.T, namespace string, family int, bind string) {
	const count = 300
	east, west := members[0], members[1]
	number := strconv.Itoa(family)
	west.apply(ctx, t, onNetwork(namespace, "listener-"+number, "listener", "--bind", bind, "--count", strconv.Itoa(count), "--block",
		"--first-timeout", "60s", "--csv", "/dev/stdout", "--quiet"))
	var to []netip.Addr
	await(ctx, t, func(ctx context.Context) (err error) {
		to, err = west.addressesOf(ctx, namespace, "listener-"+number)
		return err
	})
	_, port, _ := strings.Cut(bind[strings.LastIndex(bind, ":"):], ":")
	address := to[0]
	if address.Is6() != (family == 1) {
		address = to[1]
	}
	at := netip.AddrPortFrom(address, 0).Addr().String()
	if address.Is6() {
		at = "[" + at + "]"
	}
	east.apply(ctx, t, onNetwork(namespace, "talker-"+number, "talker", "--to", at+":"+port, "--count", strconv.Itoa(count), "--cycle", "2ms", "--lead", "1ms"))
	east.ended(ctx, t, namespace, "talker-"+number)
	arrived, early, err := arrivals(west.ended(ctx, t, namespace, "listener-"+number))
	if err != nil || arrived != count || early > 0 {
		t.Errorf("%d of %d messages arrived, %d of them early, %v", arrived, count, early, err)
	}
	t.Logf("%d of %d messages to %s arrived, %d early", arrived, count, at, early)
}
