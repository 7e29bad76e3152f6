// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

const (
	system = "ktsn-system"
	// tsnVNI and the subnets belong to the network of the tests' pods.
	tsnVNI       = 42
	tsnInterface = "tsn0"
	// configs is Multus' folder for network configurations that the cluster does not have.
	configs = "/etc/cni/multus/net.d"
)

// Each node has its own subnet of the network.
func tsnSubnet(node int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 42, byte(node), 0}), 24)
}

func tsnSubnet6(node int) netip.Prefix {
	address := [16]byte{0: 0xfd, 1: 0x42, 7: byte(node)}
	return netip.PrefixFrom(netip.AddrFrom16(address), 64)
}

// tsnSetup runs once. If it fails, all tests that need it fail at once.
var (
	tsnOnce  sync.Once
	tsnReady bool
)

// needTSN makes sure that ktsnd runs on each node and knows the others, and that the network is configured. Its set-up
// stays until the cluster is removed.
func needTSN(t *testing.T) context.Context {
	t.Helper()
	ctx := needTwoNodes(t)
	removeChart(ctx, t)
	tsnOnce.Do(func() {
		for i := range under.Nodes {
			writeTSNConfig(t, under.Nodes[i], i+1)
		}
		applyFile(ctx, t, "testdata/ktsnd.yaml")
		waitForKtsnd(ctx, t)
		tsnReady = true
	})
	if !tsnReady {
		t.Fatal("ktsnd could not be set up, see above")
	}
	// ktsnd may have been restarted since.
	waitForKtsnd(ctx, t)
	tellPeers(ctx, t)
	return ctx
}

// writeTSNConfig writes a node's configuration of the network. Only the IPAM part differs between nodes.
func writeTSNConfig(t *testing.T, host plan.Node, number int) {
	t.Helper()
	text, err := json.MarshalIndent(map[string]any{
		"cniVersion": "1.0.0", "name": "tsn", "type": "tsn-cni", "vni": tsnVNI,
		"socketDir": "/run/ktsn/pods", "createSocket": true,
		"capabilities": map[string]bool{"mac": true, "ips": true},
		"ipam": map[string]any{
			"type": "host-local",
			"ranges": [][]map[string]string{
				{{"subnet": tsnSubnet(number).String()}}, {{"subnet": tsnSubnet6(number).String()}},
			},
			"routes": []map[string]string{{"dst": "10.42.0.0/16"}, {"dst": "fd42::/48"}},
		},
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(under.Root(host.Name), configs)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tsn.conf"), text, 0o644); err != nil {
		t.Fatal(err)
	}
}

func applyFile(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	applier, err := kube.NewApplier(config)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := applier.Apply(ctx, file); err != nil {
		t.Fatal(err)
	}
}

// ktsndOn returns the pod of ktsnd on a node.
func ktsndOn(ctx context.Context, node string) (*corev1.Pod, error) {
	pods, err := client.CoreV1().Pods(system).List(ctx, metav1.ListOptions{
		LabelSelector: "app=ktsnd", FieldSelector: "spec.nodeName=" + node,
	})
	if err != nil {
		return nil, err
	}
	for _, pod := range pods.Items {
		if podReady(&pod) && pod.DeletionTimestamp == nil {
			return &pod, nil
		}
	}
	return nil, fmt.Errorf("no ktsnd is ready on %s", node)
}

func waitForKtsnd(ctx context.Context, t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, node := range under.Nodes {
		err := kube.Wait(ctx, func(ctx context.Context) error {
			_, err := ktsndOn(ctx, node.Name)
			return err
		})
		if err != nil {
			pods, _ := client.CoreV1().Pods(system).List(ctx, metav1.ListOptions{}) // only to say more
			for _, pod := range pods.Items {
				t.Logf("%s: %s", pod.Name, lastEvents(context.WithoutCancel(ctx), system, pod.Name))
			}
			t.Fatal(err)
		}
	}
}

// tellPeers configures the other nodes in each ktsnd, as an agent does.
func tellPeers(ctx context.Context, t *testing.T) {
	t.Helper()
	for i, node := range under.Nodes {
		pod, err := ktsndOn(ctx, node.Name)
		if err != nil {
			t.Fatal(err)
		}
		for j, other := range under.Nodes {
			if i != j {
				inKtsnd(ctx, t, pod, "node", "peers", "add", "--vni", strconv.Itoa(tsnVNI), other.Address.String(), tsnSubnet(j+1).String())
			}
		}
	}
}

// inKtsnd runs ktsn in a pod of ktsnd.
func inKtsnd(ctx context.Context, t *testing.T, pod *corev1.Pod, arguments ...string) string {
	t.Helper()
	stdout, stderr, err := run(ctx, pod, "ktsnd", append([]string{"/usr/bin/ktsn"}, arguments...)...)
	if err != nil {
		t.Fatalf("ktsn %q on %s: %v: %s", arguments, pod.Spec.NodeName, err, stderr)
	}
	return stdout
}

// ktsndStatus is the part of ktsnd's status that the tests use.
type ktsndStatus struct {
	Uplink            string            `json:"uplink"`
	Interface         string            `json:"interface"`
	LocalAddress      string            `json:"local-address"`
	Scheduler         string            `json:"scheduler"`
	SchedulerPriority int               `json:"scheduler-priority"`
	CPU               int               `json:"cpu"`
	SpinNs            int64             `json:"spin-ns"`
	ProcessorTimeNs   int64             `json:"processor-time-ns"`
	Endpoints         int               `json:"endpoints"`
	Sockets           int               `json:"sockets"`
	Peers             int               `json:"peers"`
	Flows             int               `json:"flows"`
	Counters          map[string]uint64 `json:"counters"`
}

func statusOn(ctx context.Context, t *testing.T, node string) ktsndStatus {
	t.Helper()
	pod, err := ktsndOn(ctx, node)
	if err != nil {
		t.Fatal(err)
	}
	return parseStatus(t, inKtsnd(ctx, t, pod, "status", "-o", "json"))
}

func parseStatus(t *testing.T, text string) ktsndStatus {
	t.Helper()
	var state struct {
		Status ktsndStatus `json:"status"`
	}
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		t.Fatal(err)
	}
	return state.Status
}

// attachment is Multus' resource for a network. Without a configuration it refers to the node's configuration of that
// name.
const attachment = `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: tsn, namespace: %s}
`

// tsnNamespace is newNamespace with the network.
func tsnNamespace(ctx context.Context, t *testing.T, level string) string {
	t.Helper()
	namespace := newNamespace(ctx, t, level)
	applier, err := kube.NewApplier(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := applier.Apply(ctx, strings.NewReader(fmt.Sprintf(attachment, namespace))); err != nil {
		t.Fatal(err)
	}
	return namespace
}

// onTSN attaches a pod to the network.
func onTSN(pod *corev1.Pod) *corev1.Pod {
	pod.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": "tsn@" + tsnInterface}
	return pod
}

// networkStatus is an entry of the annotation that Multus writes.
type networkStatus struct {
	Name      string       `json:"name"`
	Interface string       `json:"interface"`
	IPs       []netip.Addr `json:"ips"`
	MAC       string       `json:"mac"`
	Default   bool         `json:"default"`
	MTU       int          `json:"mtu"`
}

func networkStatuses(pod *corev1.Pod) ([]networkStatus, error) {
	var all []networkStatus
	text := pod.Annotations["k8s.v1.cni.cncf.io/network-status"]
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("network-status of %s is %q: %w", pod.Name, text, err)
	}
	return all, nil
}

// tsnAddresses returns a pod's addresses on the network, from Multus' annotation.
func tsnAddresses(t *testing.T, pod *corev1.Pod) (v4, v6 netip.Addr) {
	t.Helper()
	all, err := networkStatuses(pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range all {
		if status.Interface != tsnInterface {
			continue
		}
		for _, address := range status.IPs {
			if address.Is4() {
				v4 = address
			} else {
				v6 = address
			}
		}
	}
	if !v4.IsValid() || !v6.IsValid() {
		t.Fatalf("%s has no addresses on %s: %s", pod.Name, tsnInterface, pod.Annotations)
	}
	return v4, v6
}
