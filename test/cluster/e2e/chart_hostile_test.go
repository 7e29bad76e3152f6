// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
)

// company has two pods of one namespace on one node, and a listener on the other.
type company struct {
	namespace, host     string
	good, bad, listener *corev1.Pod
}

func newCompany(ctx context.Context, t *testing.T) company {
	t.Helper()
	namespace, host := newNamespace(ctx, t, restricted), under.Nodes[0].Name
	pods := start(ctx, t, namespace, timed(waiting("good", host)), timed(waiting("bad", host)), onChart(waiting("listener", under.Nodes[1].Name)))
	return company{namespace, host, pods[0], pods[1], pods[2]}
}

// arrives fails the test unless the good pod's messages arrive, whatever the bad one has tried.
func (c company) arrives(ctx context.Context, t *testing.T) {
	t.Helper()
	got := talk(ctx, t, c.good, c.listener, addressOn(t, c.listener).String(), 7, []string{"--count", "100"}, []string{"--count", "100", "--block"}, nil)
	accounted(t, got, 100, func() uint64 { return 0 })
}

// onNode runs a command on a node.
func onNode(ctx context.Context, t *testing.T, host string, command ...string) string {
	t.Helper()
	text, err := node.Output(ctx, under.Place(host), nil, command...)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestPodHasOnlyItsSocket(t *testing.T) {
	ctx := needChart(t)
	c := newCompany(ctx, t)
	t.Run("its folder has that and the library, and is read only", func(t *testing.T) {
		target := fmt.Sprintf("/var/lib/kubelet/pods/%s/volumes/kubernetes.io~csi/ktsn/mount", c.bad.UID)
		has := onNode(ctx, t, c.host, "sh", "-c", "ls -1 "+target+"; findmnt -n -o OPTIONS "+target+"; touch "+target+"/x 2>&1 || true")
		lines := strings.Split(strings.TrimSpace(has), "\n")
		if len(lines) != 4 || lines[0] != "app.sock" || lines[1] != "libktsn.so" || !strings.HasPrefix(lines[2], "ro,") || !strings.Contains(lines[3], "Read-only") {
			t.Errorf("%s: %q", target, lines)
		}
	})
	t.Run("no other is mounted into it", func(t *testing.T) {
		// The pod's mountinfo shows the node's folder that is mounted.
		mounts := onNode(ctx, t, c.host, "sh", "-c", `
			pid=$(grep -l `+string(c.bad.UID)+` $(grep -lx tsnperf /proc/[0-9]*/comm | sed s/comm/cgroup/) | head -1 | cut -d/ -f3)
			awk '$4 ~ "^/ktsn(/|$)" || $5 ~ "^/run" { print $4, $5, $6 }' /proc/$pid/mountinfo`)
		lines := strings.Split(strings.TrimSpace(mounts), "\n")
		if len(lines) != 1 || !strings.HasPrefix(lines[0], "/ktsn/pods/"+string(c.bad.UID)+" /run/ktsn ro,") {
			t.Errorf("mounted are %q, want its own folder only, read only", lines)
		}
	})
	t.Run("it cannot mount the folder of all of them", func(t *testing.T) {
		pod := waiting("mounts", c.host)
		pod.Spec.Volumes = []corev1.Volume{{Name: "all", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/run/ktsn"}}}}
		_, err := client.CoreV1().Pods(c.namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "hostPath") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("its user finds none on the node", func(t *testing.T) {
		output := onNode(ctx, t, c.host, "sh", "-c", "setpriv --reuid 65532 --regid 65532 --clear-groups ls /run/ktsn/pods/"+string(c.good.UID)+"/app.sock 2>&1 || true")
		if !strings.Contains(output, "Permission denied") {
			t.Errorf("said %q", output)
		}
		onNode(ctx, t, c.host, "test", "-S", "/run/ktsn/pods/"+string(c.good.UID)+"/app.sock")
	})
	t.Run("and with another's in its hands it cannot send", func(t *testing.T) { stolenSocket(ctx, t, c) })
	c.arrives(ctx, t)
}

// stolenSocket uses the good pod's socket from a pod of a privileged namespace, which may mount anything.
func stolenSocket(ctx context.Context, t *testing.T, c company) {
	t.Helper()
	namespace := newNamespace(ctx, t, privileged)
	thief := onChart(waiting("thief", c.host))
	container := &thief.Spec.Containers[0]
	container.Env = []corev1.EnvVar{{Name: "LD_PRELOAD", Value: "/run/ktsn/libktsn.so"}}
	container.VolumeMounts = []corev1.VolumeMount{{Name: "stolen", MountPath: "/run/ktsn"}}
	thief.Spec.Volumes = []corev1.Volume{{Name: "stolen", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: "/run/ktsn/pods/" + string(c.good.UID)},
	}}}
	thief = start(ctx, t, namespace, thief)[0]
	before := chartStatus(ctx, t, c.host)
	output, stderr, err := run(ctx, thief, "tsnperf", "/usr/bin/tsnperf", "talker", "--to", addressOn(t, c.listener).String()+":7788", "--count", "10",
		"--csv", "/dev/stdout", "--quiet")
	if err != nil && !strings.Contains(stderr, refusedTime) {
		t.Fatalf("%v: %s", err, stderr)
	}
	if err == nil {
		sent, err := tsnperf.ReadTalker(strings.NewReader(output))
		if err != nil || len(sent) != 10 {
			t.Fatalf("tried %d times, %v", len(sent), err)
		}
		// They go to its own network, which ktsnd does not serve, and from its own address, if anywhere.
		if after := chartStatus(ctx, t, c.host); after.Counters["kernel-path"] == before.Counters["kernel-path"] {
			t.Error("none of its messages went the kernel's way")
		}
	}
	if after := chartStatus(ctx, t, c.host); after.Counters["sent"] != before.Counters["sent"] {
		t.Errorf("ktsnd has sent %d messages of its", after.Counters["sent"]-before.Counters["sent"])
	}
}

func TestForeignSourceAddress(t *testing.T) {
	ctx := needChart(t)
	c := newCompany(ctx, t)
	for name, address := range map[string]string{
		"another's address": addressOn(t, c.good).String(), "the node's": under.Nodes[0].Address.String(),
	} {
		t.Run("not from "+name, func(t *testing.T) {
			_, stderr, err := run(ctx, c.bad, "tsnperf", "/usr/bin/tsnperf", "talker", "--to", addressOn(t, c.listener).String()+":7788", "--count", "1", "--bind", address)
			if err == nil || !strings.Contains(stderr, "Cannot assign requested address") {
				t.Errorf("got %v, %q", err, stderr)
			}
		})
	}
	t.Run("and the listener sees its own", func(t *testing.T) {
		got := talk(ctx, t, c.bad, c.listener, addressOn(t, c.listener).String(), 8, []string{"--count", "20"}, []string{"--count", "20", "--block"}, nil)
		accounted(t, got, 20, func() uint64 { return 0 })
		for _, message := range got.received {
			if message.Source.Addr() != addressOn(t, c.bad) {
				t.Fatalf("message %d comes from %s, want %s", message.Sequence, message.Source, addressOn(t, c.bad))
			}
		}
	})
	t.Run("nor be given it", func(t *testing.T) {
		taker := timed(waiting("taker", c.host))
		taker.Annotations["k8s.v1.cni.cncf.io/networks"] = fmt.Sprintf(`[{"name":"tsn","namespace":%q,"interface":%q,"ips":["%s/24"]}]`,
			chartSystem, tsnInterface, addressOn(t, c.good))
		isRefused(ctx, t, c.namespace, taker, addressOn(t, c.good).String())
	})
	c.arrives(ctx, t)
}

func TestForeignHardwareAddress(t *testing.T) {
	ctx := needChart(t)
	c := newCompany(ctx, t)
	mac := attachmentOf(t, c.good, tsnInterface).MAC
	t.Run("it is not given it", func(t *testing.T) {
		taker := timed(waiting("taker", c.host))
		taker.Annotations["k8s.v1.cni.cncf.io/networks"] = fmt.Sprintf(`[{"name":"tsn","namespace":%q,"interface":%q,"mac":%q}]`, chartSystem, tsnInterface, mac)
		isRefused(ctx, t, c.namespace, taker, mac)
	})
	t.Run("the bridge has each for good, on the pod's own port", func(t *testing.T) {
		ports := map[string]bool{}
		for _, pod := range []*corev1.Pod{c.good, c.bad} {
			entry := onNode(ctx, t, c.host, "sh", "-c", "bridge fdb show br tsnbr42 | grep '^"+attachmentOf(t, pod, tsnInterface).MAC+" '")
			fields := strings.Fields(entry)
			if strings.Count(entry, "\n") != 1 || len(fields) < 3 || ports[fields[2]] || !strings.Contains(entry, "static") {
				t.Errorf("%s: %q", pod.Name, entry)
				continue
			}
			ports[fields[2]] = true
		}
	})
	c.arrives(ctx, t)
}

// isRefused fails the test unless a created pod never gets its network, for a reason that names its request.
func isRefused(ctx context.Context, t *testing.T, namespace string, pod *corev1.Pod, reason string) {
	t.Helper()
	if _, err := client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, func(ctx context.Context) error {
		events, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod.Name + ",reason=FailedCreatePodSandBox"})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if strings.Contains(event.Message, reason) {
				t.Log(event.Message)
				return nil
			}
		}
		return fmt.Errorf("no refusal names %s: %s", reason, lastEvents(ctx, namespace, pod.Name))
	})
	if now, err := client.CoreV1().Pods(namespace).Get(ctx, pod.Name, metav1.GetOptions{}); err != nil || now.Status.Phase != corev1.PodPending {
		t.Errorf("pod %s: %v, %v", pod.Name, now.Status.Phase, err)
	}
}

func TestSocketAndInterfaceInEitherOrder(t *testing.T) {
	ctx := needChart(t)
	c := newCompany(ctx, t)
	t.Run("the socket first, as kubelet does it", func(t *testing.T) { c.arrives(ctx, t) })
	t.Run("the interface first, as a new ktsnd is told", func(t *testing.T) {
		hasSocketsAndEndpoints(ctx, t, 2, under.Nodes[0])
		began := time.Now().Add(-time.Second)
		killOn(ctx, t, c.host, "ktsnd")
		await(ctx, t, func(ctx context.Context) error {
			pod, err := chartPodOn(ctx, agentPods, c.host)
			if err != nil {
				return err
			}
			text, err := client.CoreV1().Pods(chartSystem).GetLogs(pod.Name, &corev1.PodLogOptions{Container: "agent", SinceTime: &metav1.Time{Time: began}}).DoRaw(ctx)
			if err == nil && !strings.Contains(string(text), "interfaces=2 sockets=2") {
				err = fmt.Errorf("the agent has not told ktsnd of 2 interfaces and 2 sockets: %s", text)
			}
			return err
		})
		c.arrives(ctx, t)
	})
	t.Run("a recreated interface, while the socket stays", func(t *testing.T) {
		folder := "/run/ktsn/pods/" + string(c.good.UID)
		before := onNode(ctx, t, c.host, "stat", "-c", "%i %Z", folder+"/app.sock")
		had := interfaceOf(ctx, t, c)
		// When its sandbox ends, kubelet creates another.
		onNode(ctx, t, c.host, "sh", "-c", `kill -KILL $(grep -l `+string(c.good.UID)+` $(grep -lx pause /proc/[0-9]*/comm | sed s/comm/cgroup/) | cut -d/ -f3)`)
		await(ctx, t, func(ctx context.Context) error {
			c.good = waitReady(ctx, t, c.namespace, "good")
			if interfaceOf(ctx, t, c) == had || c.good.Status.ContainerStatuses[0].RestartCount == 0 {
				return fmt.Errorf("the pod still has the sandbox or the container of before")
			}
			return nil
		})
		if after := onNode(ctx, t, c.host, "stat", "-c", "%i %Z", folder+"/app.sock"); after != before {
			t.Errorf("the socket is another one: %s, before %s", after, before)
		}
		c.arrives(ctx, t)
	})
}

// interfaceOf returns the container that the plugin's record of the good pod's interface names.
func interfaceOf(ctx context.Context, t *testing.T, c company) string {
	t.Helper()
	return onNode(ctx, t, c.host, "sh", "-c", "grep -l "+string(c.good.UID)+" /var/lib/cni/tsn-cni/attachments/tsn/* || true")
}

func TestEvents(t *testing.T) {
	ctx := needChart(t)
	namespace, host := newNamespace(ctx, t, restricted), under.Nodes[0].Name
	preloads := onChart(waiting("no-volume", host))
	preloads.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LD_PRELOAD", Value: "/usr/lib/ktsn/libktsn.so"}}
	// agnhost is a static Go program, which is reported unless everything is captured.
	static := timed(agnhost("static", host))
	static.Annotations["k8s.v1.cni.cncf.io/networks"] = `[{"name": "tsn", "namespace": "` + chartSystem + `", "interface": "` + tsnInterface + `", "cni-args": {"capture": "None"}}]`
	// The agent checks every ten seconds, and only pods that have existed for that long.
	looks := map[string]func(*testing.T){}
	for reason, pod := range map[string]*corev1.Pod{
		"TSNInterfaceMissing": withVolume(waiting("no-network", host)),
		"TSNVolumeMissing":    preloads,
		"TSNProgramNotCaught": static,
	} {
		looks[reason] = func(t *testing.T) {
			start(ctx, t, namespace, pod)
			hasEvent(ctx, t, namespace, pod.Name, reason)
		}
	}
	looks["TSNLimitReached"] = func(t *testing.T) {
		pods := start(ctx, t, namespace, timed(waiting("greedy", host)), onChart(waiting("other", under.Nodes[1].Name)))
		pod := pods[0]
		// Connect as many programs as allowed, for long enough to be noticed, and one more, which is refused.
		var talkers sync.WaitGroup
		defer talkers.Wait()
		for range podProcesses + 1 {
			talkers.Go(func() {
				_, stderr, err := run(ctx, pod, "tsnperf", "/usr/bin/tsnperf", "talker", "--to", addressOn(t, pods[1]).String()+":7788", "--count", "1",
					"--start", "+40s", "--lead", "40s", "--quiet")
				if err != nil && !strings.Contains(stderr, refusedTime) {
					t.Errorf("a talker ended with %v: %s", err, stderr)
				}
			})
		}
		hasEvent(ctx, t, namespace, pod.Name, "TSNLimitReached")
	}
	testlab.AtOnce(t, looks)
}
