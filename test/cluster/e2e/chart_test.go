// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/internal/perf"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
)

// deploy makes a Deployment of one pod and returns that when it is ready.
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

// exchange has a talker send to a listener, and returns what both noted.
type exchange struct {
	sent     []perf.Sent
	received []perf.Received
}

// refusedTime is what a talker says whose SO_TXTIME ktsnd did not answer within the 100 ms that libktsn waits.
const refusedTime = "the kernel refused SO_TXTIME"

// talk runs talker and listener in their pods; during is done meanwhile. A talker that ktsnd did not answer in time, because
// the machine had other things to do, is started again: it has sent nothing.
func talk(ctx context.Context, t *testing.T, from, to *corev1.Pod, address string, id int, talker, listener []string, during func()) exchange {
	t.Helper()
	const attempts = 3
	for attempt := 1; ; attempt++ {
		got, err := talkOnce(ctx, from, to, address, id, talker, listener, during)
		if err == nil {
			return got
		}
		if attempt == attempts || during != nil || !strings.Contains(err.Error(), refusedTime) {
			t.Fatal(err)
		}
		t.Logf("attempt %d: %v", attempt, err)
	}
}

func talkOnce(ctx context.Context, from, to *corev1.Pod, address string, id int, talker, listener []string, during func()) (exchange, error) {
	const port = 7788
	var heard, said string
	var complaints [2]string
	var errHeard, errSaid error
	var both sync.WaitGroup
	both.Go(func() {
		heard, complaints[0], errHeard = run(ctx, to, "tsnperf", append([]string{"/usr/bin/tsnperf", "listener", "--bind", fmt.Sprintf("0.0.0.0:%d", port),
			"--run-id", strconv.Itoa(id), "--csv", "/dev/stdout", "--quiet", "--first-timeout", "30s"}, listener...)...)
	})
	// The talker's first transmit time is so far ahead that the listener has begun.
	both.Go(func() {
		said, complaints[1], errSaid = run(ctx, from, "tsnperf", append([]string{"/usr/bin/tsnperf", "talker", "--to", fmt.Sprintf("%s:%d", address, port),
			"--run-id", strconv.Itoa(id), "--csv", "/dev/stdout", "--quiet", "--start", "+1s"}, talker...)...)
	})
	if during != nil {
		during()
	}
	both.Wait()
	if errHeard != nil || errSaid != nil {
		return exchange{}, fmt.Errorf("listener: %v %s; talker: %v %s", errHeard, complaints[0], errSaid, complaints[1])
	}
	sent, err := perf.ReadTalker(strings.NewReader(said))
	if err != nil {
		return exchange{}, err
	}
	received, err := perf.ReadListener(bytes.NewReader([]byte(heard)))
	return exchange{sent, received}, err
}

// chartDisturbances are what happens on the talker's node while it sends.
var chartDisturbances = []struct {
	name string
	do   func(ctx context.Context, t *testing.T, host string)
}{
	{"ktsnd is killed", func(ctx context.Context, t *testing.T, host string) { killOn(ctx, t, host, "ktsnd") }},
	{"the agent is killed", func(ctx context.Context, t *testing.T, host string) { killOn(ctx, t, host, "ktsn-agent") }},
	{"their pod is deleted", func(ctx context.Context, t *testing.T, host string) {
		pod, err := nodePodOn(ctx, host)
		if err != nil {
			t.Fatal(err)
		}
		if err := client.CoreV1().Pods(chartSystem).Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}},
	{"the chart is upgraded", func(ctx context.Context, t *testing.T, _ string) {
		arguments := append([]string{"upgrade", release, chartFolder(t), "--set", "operator.enabled=false", "--set-string", "podAnnotations.upgraded=" + time.Now().Format(time.TimeOnly)}, chartValues...)
		if said, err := helm(ctx, t, arguments...); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
	}},
}

// killOn kills a program in the process namespace of a node.
func killOn(ctx context.Context, t *testing.T, host, name string) {
	t.Helper()
	if _, err := node.Output(ctx, under.Place(host), nil, "pkill", "-KILL", "-x", name); err != nil {
		t.Fatal(err)
	}
}

func TestEveryMessageIsAccountedForWhateverHappensToTheChartsPods(t *testing.T) {
	ctx := needChart(t)
	namespace := newNamespace(ctx, t, restricted)
	listener := deploy(ctx, t, namespace, onChart(waiting("listener", under.Nodes[1].Name)))
	talker := deploy(ctx, t, namespace, timed(waiting("talker", under.Nodes[0].Name)))
	host := under.Nodes[0].Name
	for i, disturbance := range chartDisturbances {
		t.Run(disturbance.name, func(t *testing.T) {
			waitForChart(ctx, t)
			uncertain := chartStatus(ctx, t, host).Counters["uncertain"]
			got := talk(ctx, t, talker, listener, addressOn(t, listener).String(), 100+i,
				[]string{"--count", "2000", "--cycle", "2ms", "--lead", "5ms"}, []string{"--count", "2000", "--block", "--idle-timeout", "30s"},
				func() {
					time.Sleep(2 * time.Second)
					disturbance.do(ctx, t, host)
				})
			accounted(t, got, func() uint64 {
				counters := chartStatus(ctx, t, host).Counters
				if counters["uncertain"] < uncertain {
					uncertain = 0
				}
				return counters["uncertain"] - uncertain
			})
		})
	}
}

// accounted fails the test unless each message arrived once, or ktsnd says that it does not know whether it left.
func accounted(t *testing.T, got exchange, uncertain func() uint64) {
	t.Helper()
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
	missing := 0
	for _, message := range got.sent {
		switch {
		case message.Errno != 0:
			t.Errorf("message %d could not be sent: errno %d", message.Sequence, message.Errno)
		case arrived[message.Sequence] > 1:
			t.Errorf("message %d has arrived %d times", message.Sequence, arrived[message.Sequence])
		case arrived[message.Sequence] == 0:
			missing++
		}
	}
	t.Logf("%d sent, %d arrived", len(got.sent), len(arrived))
	if missing > 0 {
		if known := uncertain(); uint64(missing) > known {
			t.Errorf("%d messages have not arrived, and ktsnd knows of %d that it is uncertain of", missing, known)
		}
	}
}

// onChart attaches a pod that only receives.
func onChart(pod *corev1.Pod) *corev1.Pod {
	pod.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": chartNetwork}
	return pod
}

func TestFiftyPodsComeAndGoWithTheirVolumesAndLeaveNothing(t *testing.T) {
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
	sockets, endpoints := 0, 0
	for _, host := range under.Nodes {
		status := chartStatus(ctx, t, host.Name)
		sockets, endpoints = sockets+status.Sockets, endpoints+status.Endpoints
	}
	if sockets != many || endpoints != many {
		t.Errorf("ktsnd has %d sockets and %d endpoints, want %d of each", sockets, endpoints, many)
	}
	t.Run("and a killed ktsnd is told of all", func(t *testing.T) {
		had := chartStatus(ctx, t, under.Nodes[1].Name)
		killOn(ctx, t, under.Nodes[1].Name, "ktsnd")
		err := kube.Wait(ctx, func(ctx context.Context) error {
			has := chartStatus(ctx, t, under.Nodes[1].Name)
			if has.Sockets != had.Sockets || has.Endpoints != had.Endpoints || has.Peers != had.Peers {
				return fmt.Errorf("ktsnd has %d sockets, %d endpoints, %d peers; before it had %d, %d, %d", has.Sockets, has.Endpoints, has.Peers,
					had.Sockets, had.Endpoints, had.Peers)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("and a restarted kubelet finds the driver", func(t *testing.T) {
		if err := under.RestartService(ctx, under.Nodes[1].Name, "kubelet"); err != nil {
			t.Fatal(err)
		}
		waitForNodes(ctx, t)
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

func TestAPodHasItsOwnSocketAndAddressAndNoOther(t *testing.T) {
	ctx := needChart(t)
	namespace := newNamespace(ctx, t, restricted)
	host := under.Nodes[0].Name
	pods := start(ctx, t, namespace, timed(waiting("good", host)), timed(waiting("bad", host)))
	good, bad := pods[0], pods[1]
	t.Run("its folder has its own socket and is read only", func(t *testing.T) {
		target := fmt.Sprintf("/var/lib/kubelet/pods/%s/volumes/kubernetes.io~csi/ktsn/mount", bad.UID)
		has, err := node.Output(ctx, under.Place(host), nil, "sh", "-c", "ls -1 "+target+"; findmnt -n -o OPTIONS "+target+"; touch "+target+"/x 2>&1 || true")
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(has), "\n")
		if len(lines) != 4 || lines[0] != "app.sock" || lines[1] != "libktsn.so" || !strings.HasPrefix(lines[2], "ro,") || !strings.Contains(lines[3], "Read-only") {
			t.Errorf("%s: %q", target, lines)
		}
	})
	for name, arguments := range map[string][]string{
		"another's address": {"--bind", addressOn(t, good).String()},
		"the node's":        {"--bind", under.Nodes[0].Address.String()},
	} {
		t.Run("it cannot send from "+name, func(t *testing.T) {
			_, stderr, err := run(ctx, bad, "tsnperf", append([]string{"/usr/bin/tsnperf", "talker", "--to", addressOn(t, good).String() + ":7788", "--count", "1"}, arguments...)...)
			if err == nil || !strings.Contains(stderr, "Cannot assign requested address") {
				t.Errorf("got %v, %q", err, stderr)
			}
		})
	}
	t.Run("it cannot mount the folder of all sockets", func(t *testing.T) {
		pod := waiting("mounts", host)
		pod.Spec.Volumes = []corev1.Volume{{Name: "all", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/run/ktsn"}}}}
		_, err := client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "hostPath") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("ktsnd takes its hardware address from the kernel", func(t *testing.T) {
		// The two on one bridge have the addresses that follow from their own IP addresses, whatever they say.
		listed, err := node.Output(ctx, under.Place(host), nil, "bridge", "fdb", "show", "br", "tsnbr42")
		if err != nil {
			t.Fatal(err)
		}
		for _, pod := range pods {
			ip := addressOn(t, pod).As4()
			mac := fmt.Sprintf("0a:58:%02x:%02x:%02x:%02x", ip[0], ip[1], ip[2], ip[3])
			if strings.Count(listed, mac+" ") < 1 {
				t.Errorf("%s is not on the bridge: %s", mac, listed)
			}
		}
	})
	t.Run("and the good one's messages arrive", func(t *testing.T) {
		got := talk(ctx, t, good, bad, addressOn(t, bad).String(), 7, []string{"--count", "100"}, []string{"--count", "100", "--block"}, nil)
		accounted(t, got, func() uint64 { return 0 })
	})
}

func TestAnEventSaysWhatDoesNotHold(t *testing.T) {
	ctx := needChart(t)
	namespace := newNamespace(ctx, t, restricted)
	// agnhost is a static program of Go.
	static := timed(agnhost("static", under.Nodes[0].Name))
	for pod, reason := range map[*corev1.Pod]string{
		withVolume(waiting("no-network", under.Nodes[0].Name)): "TSNInterfaceMissing",
		static: "TSNProgramNotCaught",
	} {
		t.Run(reason, func(t *testing.T) {
			start(ctx, t, namespace, pod)
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			err := kube.Wait(ctx, func(ctx context.Context) error {
				events, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod.Name + ",reason=" + reason})
				if err == nil && len(events.Items) == 0 {
					err = fmt.Errorf("no Event %s; there are %s", reason, lastEvents(ctx, namespace, pod.Name))
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWhatNoPodHasAnyMoreIsSwept(t *testing.T) {
	ctx := needChart(t)
	host := under.Nodes[0].Name
	const uid = "00000000-dead-4000-8000-000000000000"
	// What an agent and a runtime leave that were killed on the way, with a pod that was removed by force.
	_, err := node.Output(ctx, under.Place(host), nil, "sh", "-c", `
		mkdir -p /run/ktsn/pods/`+uid+` /var/lib/cni/tsn-cni/attachments/tsn
		echo '{"version":1,"network":"tsn","containerID":"dead","interface":"tsn0","identity":"`+uid+`","netns":"/run/netns/gone","vni":42,
			"bridge":"tsnbr42","tunnel":"tsnvx42","controlSocket":"/run/ktsn/control.sock"}' >/var/lib/cni/tsn-cni/attachments/tsn/dead:tsn0`)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = kube.Wait(ctx, func(ctx context.Context) error {
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
	if err != nil {
		t.Error(err)
	}
}
