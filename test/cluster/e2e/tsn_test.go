// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
)

func TestPodsReachEachOtherOverTheTSNNetwork(t *testing.T) {
	ctx := needTSN(t)
	namespace := tsnNamespace(ctx, t, restricted)
	pods := start(ctx, t, namespace, onTSN(agnhost("a", under.Nodes[0].Name)),
		onTSN(agnhost("b", under.Nodes[1].Name)), onTSN(agnhost("c", under.Nodes[1].Name)))
	a, b, c := pods[0], pods[1], pods[2]
	for name, test := range map[string]struct{ from, to *corev1.Pod }{
		"from the first node to the second": {a, b},
		"from the second node to the first": {b, a},
		"within a node":                     {b, c},
	} {
		t.Run(name, func(t *testing.T) {
			own4, own6 := tsnAddresses(t, test.from)
			to4, to6 := tsnAddresses(t, test.to)
			for want, address := range map[netip.Addr]netip.Addr{own4: to4, own6: to6} {
				reaches(ctx, t, test.from, test.to, address.String())
				// It went there by this network and no other.
				if source := seenFrom(ctx, t, test.from, address.String()); source != want {
					t.Errorf("%s is seen as %s, want %s", test.from.Name, source, want)
				}
			}
		})
	}
	t.Run("and over Flannel as before", func(t *testing.T) {
		reaches(ctx, t, a, b, b.Status.PodIP)
		if source := seenFrom(ctx, t, a, b.Status.PodIP); source.String() != a.Status.PodIP {
			t.Errorf("a is seen as %s, want %s", source, a.Status.PodIP)
		}
	})
}

func TestMultusReportsWhatThePodHas(t *testing.T) {
	ctx := needTSN(t)
	namespace := tsnNamespace(ctx, t, restricted)
	for i, host := range under.Nodes {
		pod := start(ctx, t, namespace, onTSN(agnhost("on-"+host.Name, host.Name)))[0]
		all, err := networkStatuses(pod)
		if err != nil {
			t.Fatal(err)
		}
		if len(all) != 2 {
			t.Fatalf("%d networks are reported, want 2: %+v", len(all), all)
		}
		first, second := all[0], all[1]
		if !first.Default || first.Interface != "eth0" || first.IPs[0].String() != pod.Status.PodIP {
			t.Errorf("the first network is %+v, want the default on eth0 with %s", first, pod.Status.PodIP)
		}
		if second.Default || second.Interface != tsnInterface || second.Name != namespace+"/tsn" {
			t.Errorf("the second network is %+v, want %s on %s", second, namespace+"/tsn", tsnInterface)
		}
		for _, status := range all {
			compareInterface(ctx, t, host.Name, pod, status)
		}
		v4, v6 := tsnAddresses(t, pod)
		if !tsnSubnet(i+1).Contains(v4) || !tsnSubnet6(i+1).Contains(v6) {
			t.Errorf("%s and %s are not %s's", v4, v6, host.Name)
		}
	}
}

// device is the output of `ip -j addr` for an interface.
type device struct {
	Name      string `json:"ifname"`
	MAC       string `json:"address"`
	Addresses []struct {
		Local netip.Addr `json:"local"`
		Scope string     `json:"scope"`
	} `json:"addr_info"`
}

// compareInterface compares Multus' report with the interface itself.
func compareInterface(ctx context.Context, t *testing.T, host string, pod *corev1.Pod, status networkStatus) {
	t.Helper()
	devices, err := devicesOf(ctx, host, pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range devices {
		if d.Name != status.Interface {
			continue
		}
		var has []netip.Addr
		for _, address := range d.Addresses {
			if address.Scope == "global" {
				has = append(has, address.Local)
			}
		}
		slices.SortFunc(has, netip.Addr.Compare)
		slices.SortFunc(status.IPs, netip.Addr.Compare)
		if d.MAC != status.MAC || !slices.Equal(has, status.IPs) {
			t.Errorf("%s: reported are %s and %v, the interface has %s and %v", d.Name, status.MAC, status.IPs, d.MAC, has)
		}
		return
	}
	t.Errorf("the pod has no interface %s", status.Interface)
}

// devicesOf finds the pod's network namespace on a node and returns its interfaces.
func devicesOf(ctx context.Context, host string, pod *corev1.Pod) ([]device, error) {
	place := under.Place(host)
	list, err := node.Output(ctx, place, nil, "ls", "/run/netns")
	if err != nil {
		return nil, err
	}
	for _, name := range strings.Fields(list) {
		text, err := node.Output(ctx, place, nil, "ip", "-n", name, "-j", "addr")
		if err != nil {
			continue // another pod's, which has just gone
		}
		var devices []device
		if err := json.Unmarshal([]byte(text), &devices); err != nil {
			return nil, err
		}
		if strings.Contains(text, `"`+pod.Status.PodIP+`"`) {
			return devices, nil
		}
	}
	return nil, fmt.Errorf("%s is in no network namespace of %s", pod.Name, host)
}

// tsnperfPod returns a pod with an ordinary application of timed messages, which finds libktsn and its socket.
func tsnperfPod(name, host string, arguments ...string) *corev1.Pod {
	pod := onTSN(agnhost(name, host))
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	container := &pod.Spec.Containers[0]
	container.Name, container.Image, container.Args, container.ReadinessProbe = "tsnperf", "localhost/kubernetsn/tsnperf:dev", arguments, nil
	container.Env = []corev1.EnvVar{
		{Name: "LD_PRELOAD", Value: "/usr/lib/ktsn/libktsn.so"},
		{Name: "POD_UID", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}}},
	}
	container.VolumeMounts = []corev1.VolumeMount{{Name: "socket", MountPath: "/run/ktsn", SubPathExpr: "$(POD_UID)"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "socket", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: "/run/ktsn/pods"},
	}}}
	return pod
}

func TestTimedMessagesGoFromPodToPodThroughKtsnd(t *testing.T) {
	ctx := needTSN(t)
	// The socket is mounted by a hostPath, because this set-up has ktsnd without the chart's CSI driver. Only
	// privileged namespaces allow that.
	namespace := tsnNamespace(ctx, t, privileged)
	const count = "300"
	listener := start(ctx, t, namespace, tsnperfPod("listener", under.Nodes[1].Name,
		"listener", "--bind", "0.0.0.0:7788", "--count", count, "--block", "--first-timeout", "60s"))[0]
	before := statusOn(ctx, t, under.Nodes[0].Name)
	to, _ := tsnAddresses(t, listener)
	talker := tsnperfPod("talker", under.Nodes[0].Name,
		"talker", "--to", to.String()+":7788", "--count", count, "--cycle", "2ms", "--lead", "1ms")
	if _, err := client.CoreV1().Pods(namespace).Create(ctx, talker, createOptions); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"talker", "listener"} {
		if pod := waitEnded(ctx, t, namespace, name); pod.Status.Phase != corev1.PodSucceeded {
			text, _ := logs(ctx, pod, "tsnperf") // only to say more
			t.Errorf("%s: %s: %s", name, pod.Status.Phase, text)
		}
	}
	text, err := logs(ctx, listener, "tsnperf")
	if err != nil || !strings.Contains(text, "received "+count+", foreign 0, invalid 0, duplicates 0") {
		t.Errorf("the listener says %q (%v)", text, err)
	}
	after := statusOn(ctx, t, under.Nodes[0].Name)
	if sent := after.Counters["sent"] - before.Counters["sent"]; strconv.FormatUint(sent, 10) != count {
		t.Errorf("ktsnd sent %d messages, want %s", sent, count)
	}
}
