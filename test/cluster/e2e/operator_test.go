// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
)

// theNetworks are the networks of the operator's tests: one for all, one with a port of its own and static addresses, one with room for one
// node, one for a namespace.
const theNetworks = `
apiVersion: kubernetsn.io/v1alpha1
kind: TSNNetwork
metadata: {name: tsn}
spec: {vni: 42, ipv4: {cidr: 10.42.0.0/16}}
---
apiVersion: kubernetsn.io/v1alpha1
kind: TSNNetwork
metadata: {name: second}
spec: {vni: 43, port: 14789, ipv4: {cidr: 10.43.0.0/16, static: 10.43.255.0/24}, ipv6: {cidr: "fd43::/48"}}
---
apiVersion: kubernetsn.io/v1alpha1
kind: TSNNetwork
metadata: {name: small}
spec: {vni: 44, ipv4: {cidr: 10.44.0.0/24}}
---
apiVersion: kubernetsn.io/v1alpha1
kind: TSNNetwork
metadata: {name: elsewhere}
spec: {vni: 45, ipv4: {cidr: 10.45.0.0/16}, uplinks: [{interface: eno9}], namespaceSelector: {matchLabels: {elsewhere: allowed}}}
---
apiVersion: kubernetsn.io/v1alpha1
kind: TSNNetwork
metadata: {name: whole}
spec: {vni: 46, ipv4: {cidr: 10.46.0.0/16}, capture: All}
---
apiVersion: kubernetsn.io/v1alpha1
kind: TSNNetwork
metadata: {name: short}
spec: {vni: 47, ipv4: {cidr: 10.47.0.0/16}, receive: {path: Redirect, rings: Allowed}}
`

// withSchedule returns the first network with a schedule: the cycles per second, and the gates in the first and in the
// second half of the cycle.
func withSchedule(frequency, first, second int) string {
	half := int(time.Second/time.Nanosecond) / frequency / 2
	return fmt.Sprintf(`
apiVersion: kubernetsn.io/v1alpha1
kind: TSNNetwork
metadata: {name: tsn}
spec:
  vni: 42
  ipv4: {cidr: 10.42.0.0/16}
  schedule:
    gate-enabled: true
    admin-cycle-time: {numerator: 1, denominator: %d}
    admin-control-list:
      gate-control-entry:
        - {index: 0, operation-name: set-gate-states, time-interval-value: %d, gate-states-value: %d}
        - {index: 1, operation-name: set-gate-states, time-interval-value: %[2]d, gate-states-value: %[4]d}
`, frequency, half, first, second)
}

func applyText(ctx context.Context, t *testing.T, text string) {
	t.Helper()
	applier, err := kube.NewApplier(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := applier.Apply(ctx, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
}

// waitNetwork waits until look returns nil for a network.
func waitNetwork(ctx context.Context, t *testing.T, name string, look func(*v1alpha1.TSNNetwork) error) {
	t.Helper()
	await(ctx, t, func(ctx context.Context) error {
		network, err := kube.Get[v1alpha1.TSNNetwork](ctx, dynamicClient, "tsnnetworks", "", name)
		if err != nil {
			return err
		}
		return look(network)
	})
}

// onNodes returns the agents' statuses of a network, by the nodes' names.
func onNodes(ctx context.Context, name string) (map[string]v1alpha1.NodeNetworkStatus, error) {
	nodes, err := kube.List[v1alpha1.TSNNode](ctx, dynamicClient, "tsnnodes", "", metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	all := map[string]v1alpha1.NodeNetworkStatus{}
	for _, node := range nodes {
		for _, part := range node.Spec.Networks {
			if part.Name != name {
				continue
			}
			status := v1alpha1.NodeNetworkStatus{Name: name}
			if at := slices.IndexFunc(node.Status.Networks, func(s v1alpha1.NodeNetworkStatus) bool { return s.Name == name }); at >= 0 {
				status = node.Status.Networks[at]
			}
			all[node.Name] = status
		}
	}
	return all, nil
}

// executed returns an error that names a node which does not execute the network's schedule.
func executed(ctx context.Context, network *v1alpha1.TSNNetwork) error {
	nodes, err := onNodes(ctx, network.Name)
	if err != nil {
		return err
	}
	for name, status := range nodes {
		if status.ScheduleHash != network.Status.Schedule.Hash {
			return fmt.Errorf("node %s says %+v", name, status.Conditions)
		}
	}
	if len(nodes) == 0 {
		return fmt.Errorf("no node has a part of network %s", network.Name)
	}
	return nil
}

// says waits until a network's condition has a reason and a message.
func says(ctx context.Context, t *testing.T, name, kind, reason, sentence string) {
	t.Helper()
	waitNetwork(ctx, t, name, func(network *v1alpha1.TSNNetwork) error {
		condition := meta.FindStatusCondition(network.Status.Conditions, kind)
		if condition == nil || condition.Reason != reason || !strings.Contains(condition.Message, sentence) {
			return fmt.Errorf("network %s says %+v, want %s: %s", name, condition, reason, sentence)
		}
		return nil
	})
}

// annotated adds the annotation, all that a user does.
func annotated(pod *corev1.Pod, networks string) *corev1.Pod {
	pod.Annotations = map[string]string{v1alpha1.NetworkAnnotation: networks}
	return pod
}

// TestOneAnnotation is one test, because the chart is installed once, and the order matters: the networks, pods on
// them, refusals, and uninstallation.
func TestOneAnnotation(t *testing.T) {
	needTwoNodes(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute) // more than others have
	t.Cleanup(cancel)
	withNetworkd(ctx, t)
	uninstall := withOperator(ctx, t, slices.Concat(kataValues, fieldValues)...)
	applyText(ctx, t, theNetworks)
	t.Run("ktsn bench measures with pods of its own", func(t *testing.T) { benchOnATSNNetwork(ctx, t) })
	namespace := newNamespace(ctx, t, restricted)
	listener := deploy(ctx, t, namespace, annotated(waiting("listener", under.Nodes[1].Name), "tsn"))
	talker := deploy(ctx, t, namespace, annotated(waiting("talker", under.Nodes[0].Name), "tsn,second"))
	says(ctx, t, "tsn", v1alpha1.ConditionReady, v1alpha1.ReasonAsAsked, "")

	t.Run("timed messages reach the other node", func(t *testing.T) {
		got := talk(ctx, t, talker, listener, addressOn(t, listener).String(), 900, []string{"--count", "500", "--lead", "5ms"},
			[]string{"--count", "500", "--block", "--idle-timeout", "30s"}, nil)
		accounted(t, got, 500, func() uint64 { return 0 })
		if sent := chartStatus(ctx, t, under.Nodes[0].Name).Counters["sent"]; sent < 500 {
			t.Errorf("ktsnd has sent %d messages", sent)
		}
	})
	t.Run("nodes have the settings of the values", func(t *testing.T) { settings(ctx, t) })
	if long() {
		t.Run("the experiment of the paper", func(t *testing.T) {
			writeSummary(t, experiment(ctx, t, namespace, talker, listener), "annotation.json")
		})
	}
	t.Run("messages that libktsn.so does not see leave at their time", func(t *testing.T) { captured(ctx, t, namespace, listener) })
	t.Run("all frames of a network go through ktsnd", func(t *testing.T) { capturedWholly(ctx, t, namespace) })
	t.Run("virtual machines in pods are on a network", func(t *testing.T) { machines(ctx, t, namespace, listener) })
	t.Run("pods of Kata are on a network", func(t *testing.T) { kataPods(ctx, t) })
	t.Run("datagrams come past the bridge, and into rings", func(t *testing.T) { receivedShort(ctx, t, namespace) })
	t.Run("two networks at once", func(t *testing.T) { twoNetworks(ctx, t, namespace, talker) })
	t.Run("an address follows its pod to another node", func(t *testing.T) { followed(ctx, t, namespace, talker) })
	t.Run("a schedule begins on all nodes in one cycle", func(t *testing.T) { schedules(ctx, t) })
	t.Run("ktsn shows the cluster", func(t *testing.T) { ktsnShows(ctx, t, talker) })
	t.Run("a schedule changes in one cycle on the wire of both nodes", func(t *testing.T) { seenOnTheWire(ctx, t, talker, listener) })
	t.Run("a pod without its interface is not ready", func(t *testing.T) { withoutInterface(ctx, t, namespace) })
	t.Run("faults of a node are reported", func(t *testing.T) { blocked(ctx, t) })
	t.Run("limits change while pods run", func(t *testing.T) { limits(ctx, t, talker, listener) })
	t.Run("what cannot work is refused or said", func(t *testing.T) { refusals(ctx, t, namespace) })
	t.Run("helm upgrade while pods run", func(t *testing.T) { upgraded(ctx, t, namespace, talker, listener) })
	t.Run("operators are killed while pods come and go", func(t *testing.T) { operatorsKilled(ctx, t, namespace) })
	t.Run("uninstall refuses, then leaves nothing", func(t *testing.T) {
		output, err := helm(ctx, t, "uninstall", release, "--wait", "--timeout", "3m")
		if err == nil || !strings.Contains(output, "pods are on networks or have links; delete them and their controllers first") || !strings.Contains(output, namespace+"/"+talker.Name) {
			t.Fatalf("got %v, %q", err, output)
		}
		deleteNamespace(t, namespace)
		uninstall(t)
		if left := managerFiles(ctx, t); len(left) > 0 {
			t.Errorf("the uninstallation left %v", left)
		}
	})
}

// twoNetworks checks that a pod also reaches one on the second network.
func twoNetworks(ctx context.Context, t *testing.T, namespace string, talker *corev1.Pod) {
	other := deploy(ctx, t, namespace, annotated(waiting("other", under.Nodes[1].Name), "second"))
	says(ctx, t, "second", v1alpha1.ConditionReady, v1alpha1.ReasonAsAsked, "")
	var interfaces []string
	all, err := kube.Attachments(talker)
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range all {
		interfaces = append(interfaces, status.Interface)
	}
	if !slices.Contains(interfaces, "tsn0") || !slices.Contains(interfaces, "tsn1") {
		t.Errorf("a pod on two networks has %v", interfaces)
	}
	address := addressOn(t, other)
	if !netip.MustParsePrefix("10.43.0.0/16").Contains(address) {
		t.Errorf("a pod of network second has %s", address)
	}
	got := talk(ctx, t, talker, other, address.String(), 901, []string{"--count", "200", "--lead", "5ms"},
		[]string{"--count", "200", "--block", "--idle-timeout", "30s"}, nil)
	accounted(t, got, 200, func() uint64 { return 0 })
}

// schedules changes a schedule twice, and checks that both nodes have the same base time.
func schedules(ctx context.Context, t *testing.T) {
	var last v1alpha1.PTPTime
	for _, classes := range []int{128, 15} {
		began := time.Now()
		applyText(ctx, t, withSchedule(1000, classes, 255))
		waitNetwork(ctx, t, "tsn", func(network *v1alpha1.TSNNetwork) error {
			request := network.Status.Schedule
			if request == nil || request.ObservedGeneration != network.Generation || request.BaseTime == last {
				return fmt.Errorf("the operator asks for %+v", request)
			}
			if err := executed(ctx, network); err != nil {
				return err
			}
			last = request.BaseTime
			return nil
		})
		t.Logf("operational on all nodes after %v", time.Since(began).Round(10*time.Millisecond))
		for _, host := range under.Nodes {
			pod, err := chartPodOn(ctx, ktsndPods, host.Name)
			if err != nil {
				t.Fatal(err)
			}
			output := inKtsnd(ctx, t, pod, "schedule", "get", "-o", "json")
			for _, want := range []string{
				fmt.Sprintf(`"oper-base-time": {"seconds": %d, "nanoseconds": %d}`, last.Seconds, last.Nanoseconds),
				fmt.Sprintf(`"gate-states-value": %d`, classes),
			} {
				if !strings.Contains(strings.Join(strings.Fields(output), ""), strings.Join(strings.Fields(want), "")) {
					t.Errorf("ktsnd on %s executes %s, want %s in it", host.Name, output, want)
				}
			}
		}
	}
}

// withLimits is the first network with limits of its pods.
const withLimits = `
apiVersion: kubernetsn.io/v1alpha1
kind: TSNNetwork
metadata: {name: tsn}
spec:
  vni: 42
  ipv4: {cidr: 10.42.0.0/16}
%s`

// limits allows a pod one timed socket, so that the pod's second program gets the errno for each message, and then more
// again.
func limits(ctx context.Context, t *testing.T, talker, listener *corev1.Pod) {
	address := addressOn(t, listener).String()
	for round, test := range []struct {
		limits, shown string
		errno         syscall.Errno
	}{
		{"  limits: {sockets: 1, rate: 5000, horizon: 2s}", "limits of a pod: 1 sockets, rate 5000/s, horizon 2s", syscall.ENOBUFS},
		{"  limits: {sockets: 2, horizon: 2s}", "limits of a pod: 2 sockets, horizon 2s", 0},
		{"", "", 0},
	} {
		applyText(ctx, t, fmt.Sprintf(withLimits, test.limits))
		limitsOnNodes(ctx, t, test.limits != "", test.shown)
		patiently(t, func(attempt, times int) string {
			return secondProgram(ctx, t, talker, listener, address, 1000+20*round+2*attempt, 600*times, test.errno)
		})
	}
}

// secondProgram starts a program of a pod while another one sends, which has the pod's first socket. Both send count
// messages. It returns a reason if the first had ended before the second.
func secondProgram(ctx context.Context, t *testing.T, talker, listener *corev1.Pod, address string, id, count int, want syscall.Errno) (late string) {
	t.Helper()
	flows := func(wanted bool) {
		await(ctx, t, func(ctx context.Context) error {
			if status := chartStatus(ctx, t, talker.Spec.NodeName); (status.Flows > 0) != wanted {
				return fmt.Errorf("ktsnd has %d flows", status.Flows)
			}
			return nil
		})
	}
	flows(false)
	var sent []tsnperf.Sent
	got := talk(ctx, t, talker, listener, address, id, []string{"--count", strconv.Itoa(count), "--cycle", "10ms", "--lead", "5ms"},
		[]string{"--count", strconv.Itoa(count), "--block", "--idle-timeout", "30s"}, func() {
			flows(true)
			output, complaint, err := run(ctx, talker, "tsnperf", "/usr/bin/tsnperf", "talker", "--to", address+":7788", "--count", "50",
				"--run-id", strconv.Itoa(id+1), "--csv", "/dev/stdout", "--quiet")
			var errRead error
			if sent, errRead = tsnperf.ReadTalker(strings.NewReader(output)); errRead != nil || len(sent) != 50 {
				t.Fatalf("the second program: %d messages, %v, %v, %s", len(sent), errRead, err, complaint)
			}
		})
	// The second program's errors do not affect the first.
	accounted(t, got, count, func() uint64 { return 0 })
	if end := got.sent[len(got.sent)-1].Txtime; sent[49].Txtime > end {
		return fmt.Sprintf("the second program sent until %d, and the first until %d", sent[49].Txtime, end)
	}
	for _, message := range sent {
		if syscall.Errno(message.Errno) != want {
			t.Fatalf("message %d of the second program: %v, want %v", message.Sequence, syscall.Errno(message.Errno), want)
		}
	}
	return ""
}

// limitsOnNodes waits until ktsnd on both nodes has the limits of network tsn, or none, and checks that ktsn shows
// them.
func limitsOnNodes(ctx context.Context, t *testing.T, some bool, shown string) {
	t.Helper()
	began := time.Now()
	for _, host := range under.Nodes {
		await(ctx, t, func(context.Context) error {
			output, err := ktsn(ctx, t, "status", "--node", host.Name)
			if line := strings.TrimPrefix(shown, "limits of a pod: "); err == nil && strings.Contains(output, "VNI 42, of a pod: "+line) != some {
				err = fmt.Errorf("ktsn status --node %s says %s; want %q in it: %v", host.Name, output, line, some)
			}
			return err
		})
	}
	t.Logf("on both nodes after %v", time.Since(began).Round(10*time.Millisecond))
	if output, err := ktsn(ctx, t, "status", "--cluster"); err != nil || strings.Contains(output, "limits of a pod") != some || !strings.Contains(output, shown) {
		t.Errorf("got %v, %s; want %q in it", err, output, shown)
	}
}

// upgraded replaces operators, agents and ktsnd by helm under pods that send. The pods stay, each message is accounted
// for, and there is always an operator that admits new pods.
func upgraded(ctx context.Context, t *testing.T, namespace string, talker, listener *corev1.Pod) {
	patiently(t, func(attempt, times int) string {
		return upgradedUnderMessages(ctx, t, namespace, talker, listener, 990+attempt, 3*times)
	})
	for _, pod := range []*corev1.Pod{talker, listener} {
		now, err := client.CoreV1().Pods(namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil || now.UID != pod.UID || !kube.Ready(now) || now.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("pod %s did not stay: %v, %+v", pod.Name, err, now.Status)
		}
	}
	says(ctx, t, "tsn", v1alpha1.ConditionReady, v1alpha1.ReasonAsAsked, "")
}

func upgradedUnderMessages(ctx context.Context, t *testing.T, namespace string, talker, listener *corev1.Pod, id, cycleMs int) (late string) {
	t.Helper()
	waitForChart(ctx, t)
	const count = 10000 // in 30 s, if the cycle is 3 ms
	before, err := chartStates(ctx)
	if err != nil {
		t.Fatal(err)
	}
	uncertain := chartStatus(ctx, t, talker.Spec.NodeName).Counters["uncertain"]
	arguments := slices.Concat([]string{"upgrade", release, chartFolder(t), "--wait", "--timeout", "3m"}, chartValues,
		operatorValues, []string{"--set-string", "podAnnotations.upgraded=" + time.Now().Format(time.TimeOnly)})
	reviews := 0
	got := talk(ctx, t, talker, listener, addressOn(t, listener).String(), id,
		[]string{"--count", strconv.Itoa(count), "--cycle", strconv.Itoa(cycleMs) + "ms", "--lead", "5ms"},
		[]string{"--count", strconv.Itoa(count), "--block", "--idle-timeout", "60s"},
		func() {
			time.Sleep(2 * time.Second)
			done := make(chan struct{})
			go func() {
				defer close(done)
				if output, err := helm(ctx, t, arguments...); err != nil {
					t.Errorf("%v: %s", err, output)
				}
			}()
			for running := true; running; {
				select {
				case <-done:
					running = false
				case <-time.After(200 * time.Millisecond):
				}
				reviews++
				if _, err := client.CoreV1().Pods(namespace).Create(ctx, annotated(waiting("asked", ""), "tsn"),
					metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
					t.Errorf("during the upgrade an annotated pod is refused: %v", err)
				}
			}
		})
	accounted(t, got, count, func() uint64 {
		counters := chartStatus(ctx, t, talker.Spec.NodeName).Counters
		if counters["uncertain"] < uncertain {
			uncertain = 0
		}
		return counters["uncertain"] - uncertain
	})
	t.Logf("%d annotated pods reviewed meanwhile", reviews)
	return disturbed(ctx, t, talker.Spec.NodeName, before, true, true, time.Unix(0, got.sent[len(got.sent)-1].Txtime))
}

// ktsn runs a command line as a user with a kubeconfig does.
func ktsn(ctx context.Context, t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(ctx, testlab.Program(t, "ktsn"), append(arguments, "--kubeconfig", under.Kubeconfig())...)
	output, err := command.CombinedOutput()
	return string(output), err
}

// ktsnShows runs ktsn on a healthy cluster, except for what a test machine lacks.
func ktsnShows(ctx context.Context, t *testing.T, talker *corev1.Pod) {
	first, called := under.Nodes[0].Name, talker.Namespace+"/"+talker.Name
	for _, look := range []struct {
		line string
		says []string
	}{
		{"status --cluster", []string{"network tsn: VNI 42, 10.42.0.0/16", "Ready: True", first, "10.42."}},
		{"status --node " + first, []string{"uplink", "sockets", called + " "}},
		{"status --node " + first + " -o wide", []string{called, string(talker.UID)}},
		{"status --node " + first + " -o json", []string{called, string(talker.UID)}},
		{"schedule get --network tsn", []string{"all nodes begin at", first + "  ", "yes"}},
		{"schedule get --node " + first, []string{"In force", "cycle 1 ms"}},
		{"schedule check --network tsn", []string{"network tsn: a link of", "can execute it"}},
		{"doctor", []string{"operator", "network tsn"}},
		{"doctor --node " + first, []string{" serves", "kubelet knows the driver", "network tsn on node " + first, "the schedule is in force",
			"power states", "preemption", "real-time throttling"}},
		{"doctor " + talker.Name + " --namespace " + talker.Namespace, []string{"asks for network tsn, second", "tsn0 of network tsn has", "tsn1 of network second has",
			"has added attachment", "ktsnd"}},
		{"doctor " + called, []string{"asks for network tsn, second"}},
		{"doctor " + string(talker.UID), []string{"asks for network tsn, second"}},
	} {
		output, err := ktsn(ctx, t, strings.Fields(look.line)...)
		if err != nil {
			t.Errorf("ktsn %s: %v, %s", look.line, err, output)
		}
		for _, want := range look.says {
			if !strings.Contains(output, want) {
				t.Errorf("ktsn %s says %s, want %q in it", look.line, output, want)
			}
		}
	}
	if output, err := ktsn(ctx, t, "schedule", "get", "--network", "nowhere"); err == nil || !strings.Contains(output, `read network nowhere`) {
		t.Errorf("got %v, %s", err, output)
	}
}

// refusals checks the messages for users.
func refusals(ctx context.Context, t *testing.T, namespace string) {
	for name, test := range map[string]struct {
		pod      *corev1.Pod
		sentence string
	}{
		"an unknown network":               {annotated(waiting("refused", ""), "nowhere"), "there is no TSNNetwork nowhere"},
		"a namespace that is not allowed":  {annotated(waiting("refused", ""), "elsewhere"), "may not be on TSNNetwork elsewhere"},
		"a virtual machine that moves":     {moving(annotated(waiting("refused", ""), "tsn")), "cannot migrate while it runs"},
		"a device that there is not":       {deviceOf(annotated(waiting("refused", ""), "tsn"), "macvtap"), `kubernetsn.io/device is "macvtap"; give tap, vhost-user, veth or vfio`},
		"an annotation that names nothing": {annotated(waiting("refused", ""), "tsn,,second"), `"" is no name`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client.CoreV1().Pods(namespace).Create(ctx, test.pod, createOptions)
			if err == nil || !strings.Contains(err.Error(), test.sentence) {
				t.Errorf("got %v, want %q", err, test.sentence)
			}
		})
	}
	t.Run("addresses that are used up", func(t *testing.T) {
		start(ctx, t, namespace, annotated(waiting("small-1", under.Nodes[0].Name), "small"))
		if _, err := client.CoreV1().Pods(namespace).Create(ctx, annotated(waiting("small-2", under.Nodes[1].Name), "small"), createOptions); err != nil {
			t.Fatal(err)
		}
		says(ctx, t, "small", v1alpha1.ConditionDegraded, v1alpha1.ReasonRangeUsedUp, "no addresses of network small are left for the nodes "+under.Nodes[1].Name)
		hasEvent(ctx, t, namespace, "small-2", v1alpha1.ReasonRangeUsedUp)
	})
	t.Run("ktsn doctor says what a pod without addresses lacks", func(t *testing.T) {
		pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=small-2"})
		if err != nil || len(pods.Items) != 1 {
			t.Fatal(pods, err)
		}
		output, err := ktsn(ctx, t, "doctor", "small-2", "--namespace", namespace)
		if err == nil || !strings.Contains(output, "no addresses of network small are left") || !strings.Contains(output, "the pod has no networks yet") {
			t.Errorf("got %v, %s", err, output)
		}
		output, err = ktsn(ctx, t, "doctor", "no-such-pod", "--namespace", namespace)
		if err == nil || !strings.Contains(output, `pods "no-such-pod" not found`) {
			t.Errorf("got %v, %s", err, output)
		}
	})
	t.Run("an uplink that is missing", func(t *testing.T) {
		if _, err := client.CoreV1().Namespaces().Patch(ctx, namespace, "application/merge-patch+json",
			[]byte(`{"metadata":{"labels":{"elsewhere":"allowed"}}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		await(ctx, t, func(ctx context.Context) error {
			_, err := client.CoreV1().Pods(namespace).Create(ctx, annotated(waiting("uplink", under.Nodes[0].Name), "elsewhere"), createOptions)
			return err
		})
		says(ctx, t, "elsewhere", v1alpha1.ConditionDegraded, v1alpha1.ReasonUplinkMissing, "the network insists on interface eno9, and ktsnd sends by eth0")
	})
}

// operatorsKilled creates and deletes pods while both operators are killed, once as processes and once with their pods.
// Annotated pods may have to wait, others must not.
func operatorsKilled(ctx context.Context, t *testing.T, namespace string) {
	now := int64(0)
	for round, kill := range []func(){
		func() {
			killed := 0
			for _, host := range under.Nodes { // which of them they are on is the scheduler's to say
				pids := onNode(ctx, t, host.Name, "sh", "-c", "pgrep -x ktsn-operator; pkill -KILL -x ktsn-operator || true")
				killed += len(strings.Fields(pids))
			}
			if killed < 2 {
				t.Errorf("%d operators were killed", killed)
			}
		},
		func() {
			err := client.CoreV1().Pods(chartSystem).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now},
				metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=operator"})
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		kill()
		plain := waiting(fmt.Sprintf("plain-%d", round), under.Nodes[0].Name)
		if _, err := client.CoreV1().Pods(namespace).Create(ctx, plain, createOptions); err != nil {
			t.Errorf("a pod without the annotation is refused: %v", err)
		}
		pod := deploy(ctx, t, namespace, annotated(waiting(fmt.Sprintf("kept-%d", round), under.Nodes[1].Name), "tsn"))
		if pod.Labels[v1alpha1.PodLabel] == "" || !addressOn(t, pod).IsValid() {
			t.Errorf("an annotated pod was made without its network: %v", pod.Labels)
		}
		if err := client.AppsV1().Deployments(namespace).Delete(ctx, fmt.Sprintf("kept-%d", round), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		waitForReplicas(ctx, t, namespace, fmt.Sprintf("kept-%d", round), 0)
	}
	says(ctx, t, "tsn", v1alpha1.ConditionReady, v1alpha1.ReasonAsAsked, "")
}
