// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/podstatus"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
)

// reportedWithin is the time within which a fault of a node has to be reported, and the time within which its end has to be.
const reportedWithin = time.Minute

// fieldValues change settings of nodes.
var fieldValues = []string{"--set", "tunnelChecksumOffload=Disable,agent.unmanagedDevices=Install"}

// networkdFolder is that of systemd-networkd, which the test cluster's nodes do not run.
const networkdFolder = "/etc/systemd/network"

// withNetworkd makes networkdFolder on all nodes until the test ends.
func withNetworkd(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, host := range under.Nodes {
		onNode(ctx, t, host.Name, "mkdir", "-p", networkdFolder)
		t.Cleanup(func() { onNode(context.WithoutCancel(ctx), t, host.Name, "rm", "-r", networkdFolder) })
	}
}

// managerFiles returns the files that agent.unmanagedDevices has written on all nodes.
func managerFiles(ctx context.Context, t *testing.T) (files []string) {
	t.Helper()
	for _, host := range under.Nodes {
		output := onNode(ctx, t, host.Name, "sh", "-c", "ls -d "+networkdFolder+"/* /etc/NetworkManager 2>/dev/null || true")
		files = append(files, strings.Fields(output)...)
	}
	return files
}

// settings checks what fieldValues change.
func settings(ctx context.Context, t *testing.T) {
	const file = networkdFolder + "/05-kubernetsn.network"
	if files := managerFiles(ctx, t); !slices.Equal(files, []string{file, file}) {
		t.Errorf("the agents wrote %v", files)
	}
	for _, host := range under.Nodes {
		if features := onNode(ctx, t, host.Name, "ethtool", "-k", "tsnvx42"); !strings.Contains(features, "tx-checksum-ip-generic: off") {
			t.Errorf("the tunnel of %s has %s", host.Name, features)
		}
	}
}

// followed deletes a pod with a static address and creates it again on the other node. The talker reaches both by that address, through
// the tunnels of a network with a port of its own.
func followed(ctx context.Context, t *testing.T, namespace string, talker *corev1.Pod) {
	const address = "10.43.255.7"
	onNode(ctx, t, talker.Spec.NodeName, "sh", "-c", "ip -d link show tsnvx43 | grep -q 'dstport 14789'")
	for i, host := range []string{under.Nodes[1].Name, under.Nodes[0].Name, under.Nodes[1].Name} {
		pod := annotated(waiting("moved", host), "second")
		pod.Annotations[v1alpha1.AddressesAnnotation] = address
		create(ctx, t, namespace, pod)
		running := waitReady(ctx, t, namespace, pod.Name)
		if got := addressOn(t, running).String(); got != address {
			t.Fatalf("on %s the pod has %s, want %s", host, got, address)
		}
		got := talk(ctx, t, talker, running, address, 910+i, []string{"--count", "100", "--lead", "5ms"},
			[]string{"--count", "100", "--block", "--idle-timeout", "30s"}, nil)
		accounted(t, got, 100, func() uint64 { return 0 })
		testlab.Must(t, client.CoreV1().Pods(namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}))
		await(ctx, t, func(ctx context.Context) error {
			if _, err := client.CoreV1().Pods(namespace).Get(ctx, pod.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("pod %s is still there: %v", pod.Name, err)
			}
			return nil
		})
	}
}

// withoutInterface creates a pod while Multus is not the runtime's plugin. The pod must not be ready, and its timed messages must fail.
func withoutInterface(ctx context.Context, t *testing.T, namespace string) {
	host := under.Nodes[0].Name
	onNode(ctx, t, host, "sh", "-c", "mkdir -p /run/e2e-field && mv /etc/cni/net.d/00-multus.conf /run/e2e-field/")
	restore := func() {
		onNode(context.WithoutCancel(ctx), t, host, "sh", "-c", "mv /run/e2e-field/00-multus.conf /etc/cni/net.d/ 2>/dev/null; rm -rf /run/e2e-field")
	}
	t.Cleanup(restore)
	name := "passed-by"
	create(ctx, t, namespace, annotated(waiting(name, host), "tsn"))
	var pod *corev1.Pod
	await(ctx, t, func(ctx context.Context) (err error) {
		pod, err = client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if condition := podstatus.Attached(pod); condition == nil || condition.Status != corev1.ConditionFalse {
			return fmt.Errorf("pod %s is %s, with the condition %+v", name, pod.Status.Phase, condition)
		}
		return nil
	})
	if kube.Ready(pod) {
		t.Error("a pod without its interface is ready")
	}
	output, complaint, err := run(ctx, pod, "tsnperf", "/usr/bin/tsnperf", "talker", "--to", "198.51.100.9:7788", "--count", "5", "--lead", "100ms")
	if all := output + complaint; err == nil && !strings.Contains(all, "failed 5") {
		t.Errorf("timed messages of a pod without its interface: %v, %s", err, all)
	}
	hasEvent(ctx, t, namespace, name, "TSNInterfaceMissing")
	if output, err := ktsn(ctx, t, "doctor"); err == nil || !strings.Contains(output, namespace+"/"+name) {
		t.Errorf("ktsn doctor does not name the pod: %v, %s", err, output)
	}
	if err := client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	// Before Multus is back: it does not know the pod, and would leave its address of the pod network.
	await(ctx, t, func(ctx context.Context) error {
		if addresses := onNode(ctx, t, host, "ls", "/var/lib/cni/networks/cbr0"); slices.Contains(strings.Fields(addresses), pod.Status.PodIP) {
			return fmt.Errorf("the pod network's address %s of pod %s is still in use", pod.Status.PodIP, name)
		}
		return nil
	})
	restore()
}

// blocked drops what a node receives in tunnels, as a firewall does, and then what it bridges. The node has to report both, and their end.
func blocked(ctx context.Context, t *testing.T) {
	first, host := under.Nodes[0].Name, under.Nodes[1].Name
	for _, fault := range []struct {
		name, condition string
		begin, end      string
		says            []string
	}{
		{
			"frames of pods are dropped by the policy of FORWARD", v1alpha1.ConditionHostReady,
			"iptables -P FORWARD DROP", "iptables -P FORWARD ACCEPT", []string{"FORWARD"},
		},
		{
			"tunnels are dropped by a firewall", v1alpha1.ConditionPeersReachable,
			"nft add table inet e2efield && nft 'add chain inet e2efield in { type filter hook input priority 0; }' && nft add rule inet e2efield in udp dport 4789 drop",
			"nft delete table inet e2efield", []string{host + " does not hear " + first, "UDP 4789", "this node drops it"},
		},
	} {
		t.Run(fault.name, func(t *testing.T) {
			reported(ctx, t, host, fault.condition, metav1.ConditionTrue)
			onNode(ctx, t, host, "sh", "-c", fault.begin)
			ended := false
			t.Cleanup(func() {
				if !ended {
					onNode(context.WithoutCancel(ctx), t, host, "sh", "-c", fault.end)
				}
			})
			began := time.Now()
			condition := reported(ctx, t, host, fault.condition, metav1.ConditionFalse)
			t.Logf("reported after %v: %s", time.Since(began).Round(time.Second), condition.Message)
			output, err := ktsn(ctx, t, "doctor", "--node", host)
			for _, text := range fault.says {
				if !strings.Contains(condition.Message, text) {
					t.Errorf("the condition's message is %q, want %q in it", condition.Message, text)
				}
				if err == nil || !strings.Contains(output, text) {
					t.Errorf("ktsn doctor reports %v, %s, want %q in it", err, output, text)
				}
			}
			onNode(ctx, t, host, "sh", "-c", fault.end)
			ended = true
			began = time.Now()
			reported(ctx, t, host, fault.condition, metav1.ConditionTrue)
			t.Logf("its end is reported after %v", time.Since(began).Round(time.Second))
		})
	}
}

// reported waits until a condition of a node, or of network tsn on it, has a status, and fails if that takes longer than a report may.
func reported(ctx context.Context, t *testing.T, host, name string, status metav1.ConditionStatus) (condition *metav1.Condition) {
	t.Helper()
	began := time.Now()
	await(ctx, t, func(ctx context.Context) error {
		node, err := kube.Get[v1alpha1.TSNNode](ctx, dynamicClient, "tsnnodes", "", host)
		if err != nil {
			return err
		}
		conditions := node.Status.Conditions
		for i := range node.Status.Networks {
			if node.Status.Networks[i].Name == "tsn" && name != v1alpha1.ConditionHostReady {
				conditions = node.Status.Networks[i].Conditions
			}
		}
		condition = meta.FindStatusCondition(conditions, name)
		if condition == nil || condition.Status != status {
			return fmt.Errorf("node %s has %s %+v, want %s", host, name, condition, status)
		}
		return nil
	})
	if took := time.Since(began); took > reportedWithin {
		t.Errorf("%s became %s after %v; it may take %v", name, status, took.Round(time.Second), reportedWithin)
	}
	return condition
}
