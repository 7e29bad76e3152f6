// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// deploy creates a Deployment of one pod and returns the pod once it is ready.
func deploy(ctx context.Context, t *testing.T, namespace string, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	deployMany(ctx, t, namespace, pod, 1)
	waitForReplicas(ctx, t, namespace, pod.Name, 1)
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + pod.Name})
	if err != nil {
		t.Fatal(err)
	}
	return waitReady(ctx, t, namespace, pods.Items[0].Name)
}

// exchange has the records of a talker and its listener.
type exchange struct {
	sent     []tsnperf.Sent
	received []tsnperf.Received
	// busy is the talker's processor time.
	busy time.Duration
}

// refusedTime is the talker's error if ktsnd does not serve it, or has no ring for it.
const refusedTime = "the kernel refused SO_TXTIME"

// talk runs talker and listener in their pods, and calls during meanwhile.
func talk(ctx context.Context, t *testing.T, from, to *corev1.Pod, address string, id int, talker, listener []string, during func()) exchange {
	t.Helper()
	got, err := talkOnce(ctx, from, to, address, id, talker, listener, during)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func talkOnce(ctx context.Context, from, to *corev1.Pod, address string, id int, talker, listener []string, during func()) (exchange, error) {
	const port = 7788
	listening := kube.Begin(ctx, config, client, kube.Container{Namespace: to.Namespace, Pod: to.Name, Name: "tsnperf"}, append([]string{"/usr/bin/tsnperf", "listener",
		"--bind", fmt.Sprintf("0.0.0.0:%d", port), "--run-id", strconv.Itoa(id), "--csv", "/dev/stdout", "--quiet", "--ready-fd", "2", "--first-timeout", "30s"}, listener...)...)
	if err := listening.HasBegun(); err != nil {
		return exchange{}, err
	}
	var talkerCSV, complaint string
	var talkerErr error
	var talking sync.WaitGroup
	talking.Go(func() {
		talkerCSV, complaint, talkerErr = run(ctx, from, "tsnperf", append([]string{"/usr/bin/tsnperf", "talker", "--to", fmt.Sprintf("%s:%d", address, port),
			"--run-id", strconv.Itoa(id), "--csv", "/dev/stdout", "--cpu-time", "/dev/stderr", "--quiet", "--start", "+1s"}, talker...)...)
	})
	if during != nil {
		during()
	}
	talking.Wait()
	listenerCSV, listenerErr := listening.Said()
	if listenerErr != nil || talkerErr != nil {
		return exchange{}, fmt.Errorf("%w; the talker said %q", errors.Join(listenerErr, talkerErr), complaint)
	}
	sent, err := tsnperf.ReadTalker(strings.NewReader(talkerCSV))
	if err != nil {
		return exchange{}, err
	}
	busy, err := tsnperf.ReadCPUTime(strings.NewReader(complaint))
	if err != nil {
		return exchange{}, err
	}
	received, err := tsnperf.ReadListener(strings.NewReader(listenerCSV))
	return exchange{sent, received, busy}, err
}

// chartDisturbances happen on the talker's node while it sends.
var chartDisturbances = []struct {
	name string
	// replaces reports whether other pods exist afterwards.
	replaces bool
	do       func(ctx context.Context, t *testing.T, host string)
}{
	{"ktsnd is killed", false, func(ctx context.Context, t *testing.T, host string) { killOn(ctx, t, host, "ktsnd") }},
	{"the agent is killed", false, func(ctx context.Context, t *testing.T, host string) { killOn(ctx, t, host, "ktsn-agent") }},
	{"their pods are deleted", true, func(ctx context.Context, t *testing.T, host string) {
		pods, err := chartPodsOn(ctx, host)
		if err != nil {
			t.Fatal(err)
		}
		for _, pod := range pods {
			if err := client.CoreV1().Pods(chartSystem).Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}},
}

// killOn kills a program in the PID namespace of a node.
func killOn(ctx context.Context, t *testing.T, host, name string) {
	t.Helper()
	if _, err := node.Output(ctx, under.Place(host), nil, "pkill", "-KILL", "-x", name); err != nil {
		t.Fatal(err)
	}
}

func TestMessagesAreAccountedFor(t *testing.T) {
	ctx := needChart(t)
	namespace := newNamespace(ctx, t, restricted)
	listener := deploy(ctx, t, namespace, onChart(waiting("listener", under.Nodes[1].Name)))
	talker := deploy(ctx, t, namespace, timed(waiting("talker", under.Nodes[0].Name)))
	host := under.Nodes[0].Name
	for i, disturbance := range chartDisturbances {
		t.Run(disturbance.name, func(t *testing.T) {
			patiently(t, func(attempt, times int) string {
				waitForChart(ctx, t)
				uncertain := chartStatus(ctx, t, host).Counters["uncertain"]
				before, err := chartStates(ctx)
				if err != nil {
					t.Fatal(err)
				}
				// Enough messages to have some before, during and after it: kubelet may wait for 10 s before it
				// restarts a container.
				const count = 10000
				got := talk(ctx, t, talker, listener, addressOn(t, listener).String(), 100+10*attempt+i,
					[]string{"--count", strconv.Itoa(count), "--cycle", strconv.Itoa(2*times) + "ms", "--lead", "5ms"},
					[]string{"--count", strconv.Itoa(count), "--block", "--idle-timeout", "60s"},
					func() {
						time.Sleep(2 * time.Second)
						disturbance.do(ctx, t, host)
					})
				accounted(t, got, count, func() uint64 {
					counters := chartStatus(ctx, t, host).Counters
					if counters["uncertain"] < uncertain {
						uncertain = 0
					}
					return counters["uncertain"] - uncertain
				})
				// The nodes' CLOCK_TAI is UTC, and containers' start times are in whole seconds.
				end := time.Unix(0, got.sent[len(got.sent)-1].Txtime)
				return disturbed(ctx, t, host, before, disturbance.replaces, false, end)
			})
		})
	}
}

// chartState identifies the chart's pods on a node, and their containers' processes.
type chartState struct {
	uids     map[types.UID]bool
	restarts map[string]int32
	// started is the start of the youngest container.
	started time.Time
}

// replaces reports whether none of the pods existed before.
func (s *chartState) replaces(before *chartState) bool {
	for uid := range s.uids {
		if before.uids[uid] {
			return false
		}
	}
	return true
}

// chartStates returns the state of all nodes.
func chartStates(ctx context.Context) (map[string]*chartState, error) {
	all := map[string]*chartState{}
	for _, host := range under.Nodes {
		pods, err := chartPodsOn(ctx, host.Name)
		if err != nil {
			return nil, err
		}
		state := &chartState{uids: map[types.UID]bool{}, restarts: map[string]int32{}}
		for _, pod := range pods {
			state.uids[pod.UID] = true
			for _, container := range pod.Status.ContainerStatuses {
				state.restarts[container.Name] = container.RestartCount
				if container.State.Running != nil && container.State.Running.StartedAt.After(state.started) {
					state.started = container.State.Running.StartedAt.Time
				}
			}
		}
		all[host.Name] = state
	}
	return all, nil
}

// disturbed fails the test unless the expected happens to the pods, and returns why it did not happen while messages
// were sent, the last one at end: an undisturbed run proves nothing.
func disturbed(ctx context.Context, t *testing.T, host string, before map[string]*chartState, replaced, everywhere bool, end time.Time) (late string) {
	t.Helper()
	await(ctx, t, func(ctx context.Context) error {
		states, err := chartStates(ctx)
		if err != nil {
			return err
		}
		for name, now := range states {
			had := before[name]
			switch {
			case name != host && !everywhere:
			case replaced && !now.replaces(had):
				return fmt.Errorf("a pod on %s is still the one of before", name)
			case !replaced && (!maps.Equal(now.uids, had.uids) || maps.Equal(now.restarts, had.restarts)):
				return fmt.Errorf("no container was started again on %s: %v", name, now.restarts)
			case name == host && now.started.After(end):
				late = fmt.Sprintf("the containers on %s began at %v, when the last message had left at %v", name, now.started, end)
			}
		}
		return nil
	})
	return late
}

// accounted fails the test unless count messages were sent and each arrived once, or ktsnd reports that it does not
// know whether it left.
func accounted(t *testing.T, got exchange, count int, uncertain func() uint64) {
	t.Helper()
	if len(got.sent) != count {
		t.Errorf("%d messages were sent, want %d", len(got.sent), count)
	}
	arrived := map[uint32]int{}
	for _, message := range got.received {
		if !message.Valid {
			t.Errorf("message %d has arrived with other bytes", message.Sequence)
		}
		arrived[message.Sequence]++
		if message.Arrival < message.Txtime {
			t.Errorf("message %d has arrived %d ns before its time", message.Sequence, message.Txtime-message.Arrival)
		}
	}
	var missing []tsnperf.Sent
	for _, message := range got.sent {
		switch {
		case message.Errno != 0:
			t.Errorf("message %d could not be sent: errno %d", message.Sequence, message.Errno)
		case arrived[message.Sequence] > 1:
			t.Errorf("message %d has arrived %d times", message.Sequence, arrived[message.Sequence])
		case arrived[message.Sequence] == 0:
			missing = append(missing, message)
		}
	}
	t.Logf("%d sent, %d arrived", len(got.sent), len(arrived))
	if len(missing) > 0 {
		if known := uncertain(); uint64(len(missing)) > known {
			first, last := missing[0], missing[len(missing)-1]
			t.Errorf("%d messages have not arrived, of %d (to leave at %v) to %d (at %v), and ktsnd knows of %d that it is uncertain of",
				len(missing), first.Sequence, time.Unix(0, first.Txtime), last.Sequence, time.Unix(0, last.Txtime), known)
		}
	}
}

// onChart attaches a pod that only receives.
func onChart(pod *corev1.Pod) *corev1.Pod {
	pod.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": chartNetwork}
	return pod
}

func TestFiftyPodsLeaveNothing(t *testing.T) {
	ctx := needChart(t)
	namespace := newNamespace(ctx, t, restricted)
	before := inventories(ctx, t)
	const many = 50
	pod := timed(waiting("many", ""))
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
	}}
	deployMany(ctx, t, namespace, pod, many)
	waitForReplicas(ctx, t, namespace, "many", many)
	isSeen(ctx, t, before, many)
	hasSocketsAndEndpoints(ctx, t, many, under.Nodes...)
	if long() {
		t.Run("and agents rest with twice as many", func(t *testing.T) {
			upgradeChart(ctx, t, "--set", "agent.sweepEvery=60s") // the default
			scale(ctx, t, namespace, "many", 2*many)
			waitForReplicas(ctx, t, namespace, "many", 2*many)
			agentsRest(ctx, t)
			scale(ctx, t, namespace, "many", many)
			waitForReplicas(ctx, t, namespace, "many", many)
			upgradeChart(ctx, t)
			hasSocketsAndEndpoints(ctx, t, many, under.Nodes...)
		})
	}
	t.Run("and a killed ktsnd is told of all", func(t *testing.T) {
		had := chartStatus(ctx, t, under.Nodes[1].Name)
		killOn(ctx, t, under.Nodes[1].Name, "ktsnd")
		await(ctx, t, func(ctx context.Context) error {
			has := chartStatus(ctx, t, under.Nodes[1].Name)
			if has.Sockets != had.Sockets || has.Endpoints != had.Endpoints || has.Peers != had.Peers {
				return fmt.Errorf("ktsnd has %d sockets, %d endpoints, %d peers; before it had %d, %d, %d", has.Sockets, has.Endpoints, has.Peers,
					had.Sockets, had.Endpoints, had.Peers)
			}
			return nil
		})
	})
	for _, service := range []string{"containerd", "kubelet"} {
		t.Run("and stay while "+service+" is restarted", func(t *testing.T) {
			for _, host := range under.Nodes {
				if err := under.RestartService(ctx, host.Name, service); err != nil {
					t.Fatal(err)
				}
			}
			waitForNodes(ctx, t)
			waitForReplicas(ctx, t, namespace, "many", many)
		})
	}
	t.Run("and a restarted Multus attaches more", func(t *testing.T) {
		restartMultus(ctx, t)
		pod := start(ctx, t, namespace, timed(waiting("after", under.Nodes[1].Name)))[0]
		if err := client.CoreV1().Pods(namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		waitForReplicas(ctx, t, namespace, "many", many)
	})
	scale(ctx, t, namespace, "many", 0)
	waitForReplicas(ctx, t, namespace, "many", 0)
	leavesNothing(ctx, t, before)
}

// agentsRest measures what agents use while nothing changes. The limit only finds a regression: 0.029 cores were measured.
func agentsRest(ctx context.Context, t *testing.T) {
	t.Helper()
	const most = 0.04
	for _, host := range under.Nodes {
		cores, mebibytes := agentUsage(ctx, t, host.Name, 120)
		t.Logf("the agent of %s uses %.4f cores and %.0f MiB", host.Name, cores, mebibytes)
		if cores > most {
			t.Errorf("the agent of %s uses %.4f cores at rest, %.4f are allowed", host.Name, cores, most)
		}
	}
}

// hasSocketsAndEndpoints waits until ktsnd on the nodes has that many of each: pods that were just removed may not be
// gone yet.
func hasSocketsAndEndpoints(ctx context.Context, t *testing.T, count int, hosts ...plan.Node) {
	t.Helper()
	await(ctx, t, func(ctx context.Context) error {
		sockets, endpoints := 0, 0
		for _, host := range hosts {
			status := chartStatus(ctx, t, host.Name)
			sockets, endpoints = sockets+status.Sockets, endpoints+status.Endpoints
		}
		if sockets != count || endpoints != count {
			return fmt.Errorf("ktsnd has %d sockets and %d endpoints, want %d of each", sockets, endpoints, count)
		}
		return nil
	})
}

func deployMany(ctx context.Context, t *testing.T, namespace string, pod *corev1.Pod, replicas int32) {
	t.Helper()
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec},
		},
	}
	deployment.Spec.Template.Name = ""
	if _, err := client.AppsV1().Deployments(namespace).Create(ctx, deployment, createOptions); err != nil {
		t.Fatal(err)
	}
}

func scale(ctx context.Context, t *testing.T, namespace, name string, replicas int32) {
	t.Helper()
	if err := kube.Scale(ctx, client, namespace, name, replicas); err != nil {
		t.Fatal(err)
	}
}

// waitForReplicas waits until that many pods are ready and there are no others.
func waitForReplicas(ctx context.Context, t *testing.T, namespace, name string, replicas int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	await(ctx, t, func(ctx context.Context) error {
		pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
		if err != nil {
			return err
		}
		ready, why := 0, ""
		for _, pod := range pods.Items {
			if kube.Ready(&pod) {
				ready++
			} else {
				why = pod.Name + ": " + lastEvents(ctx, namespace, pod.Name)
			}
		}
		if ready != replicas || len(pods.Items) != replicas {
			return fmt.Errorf("%d pods, %d of them ready, want %d; %s", len(pods.Items), ready, replicas, why)
		}
		return nil
	})
}

// restartMultus replaces Multus' pods.
func restartMultus(ctx context.Context, t *testing.T) {
	t.Helper()
	err := client.CoreV1().Pods(metav1.NamespaceSystem).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=multus"})
	if err != nil {
		t.Fatal(err)
	}
	await(ctx, t, func(ctx context.Context) error {
		pods, err := client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: "app=multus"})
		if err != nil {
			return err
		}
		for _, pod := range pods.Items {
			if pod.DeletionTimestamp != nil {
				return fmt.Errorf("%s has not ended yet", pod.Name)
			}
		}
		return kube.SystemReady(client, len(under.Nodes))(ctx)
	})
}

// TestPodsReachEachOther sends ordinary traffic over Flannel and over the TSN network.
func TestPodsReachEachOther(t *testing.T) {
	ctx := needChart(t)
	namespace := newNamespace(ctx, t, restricted)
	pods := start(ctx, t, namespace, onChart(agnhost("a", under.Nodes[0].Name)),
		onChart(agnhost("b", under.Nodes[1].Name)), onChart(agnhost("c", under.Nodes[1].Name)))
	a, b, c := pods[0], pods[1], pods[2]
	flannel := func(pod *corev1.Pod) string { return pod.Status.PodIP }
	tsn := func(pod *corev1.Pod) string { return addressOn(t, pod).String() }
	for name, test := range map[string]struct{ from, to *corev1.Pod }{
		"from the first node to the second": {a, b},
		"from the second node to the first": {b, a},
		"within a node":                     {b, c},
	} {
		t.Run(name, func(t *testing.T) {
			for _, address := range []func(*corev1.Pod) string{flannel, tsn} {
				reaches(ctx, t, test.from, test.to, address(test.to))
				if source := seenFrom(ctx, t, test.from, address(test.to)); source.String() != address(test.from) {
					t.Errorf("%s is seen as %s, want %s", test.from.Name, source, address(test.from))
				}
			}
		})
	}
}

func TestLeftoversAreSwept(t *testing.T) {
	ctx := needChart(t)
	host := under.Nodes[0].Name
	const uid = "00000000-dead-4000-8000-000000000000"
	// These are the traces of an agent and a runtime that were killed half-way, with a pod that was removed by force.
	_, err := node.Output(ctx, under.Place(host), nil, "sh", "-c", `
		mkdir -p /run/ktsn/pods/`+uid+` /var/lib/cni/tsn-cni/attachments/tsn
		echo '{"version":1,"network":"tsn","containerID":"dead","interface":"tsn0","identity":"`+uid+`","netns":"/run/netns/gone","vni":42,
			"bridge":"tsnbr42","tunnel":"tsnvx42","controlSocket":"/run/ktsn/control.sock"}' >/var/lib/cni/tsn-cni/attachments/tsn/dead:tsn0`)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	await(ctx, t, func(ctx context.Context) error {
		has, err := inventory(ctx, host)
		if err != nil {
			return err
		}
		for thing := range has {
			if strings.Contains(thing, uid) || strings.Contains(thing, "dead:tsn0") {
				return fmt.Errorf("left: %s", thing)
			}
		}
		_, err = node.Output(ctx, under.Place(host), nil, "test", "!", "-e", "/run/ktsn/pods/"+uid)
		return err
	})
}

func TestAgentWithoutInspection(t *testing.T) {
	ctx := needChart(t)
	upgradeChart(ctx, t, "--set", "agent.inspectPrograms=false")
	t.Cleanup(func() {
		if _, err := helm(context.WithoutCancel(ctx), t, "rollback", release, "--wait", "--timeout", "3m"); err != nil {
			t.Error(err)
		}
	})
	host := under.Nodes[0].Name
	// SYS_ADMIN, NET_RAW, NET_ADMIN, SETUID, SETGID, KILL and CHOWN: bits 21, 13, 12, 7, 6, 5 and 0.
	output := onNode(ctx, t, host, "sh", "-c", "grep -h -E '^(CapPrm|CapEff|CapBnd|CapInh)' /proc/$(pgrep -x ktsn-agent)/status")
	if want := "CapInh:\t0000000000000000\nCapPrm:\t00000000002030e1\nCapEff:\t00000000002030e1\nCapBnd:\t00000000002030e1\n"; output != want {
		t.Errorf("the agent has %q, want %q", output, want)
	}
	newCompany(ctx, t).arrives(ctx, t)
}
