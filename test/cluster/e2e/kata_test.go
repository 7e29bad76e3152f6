// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
)

// kataNetwork has addresses of both families.
const kataNetwork = "second"

// inKata returns a pod of the runtime that replaces Kata's, with an idling tsnperf and ktsn-guest.
func inKata(name, host, class string) *corev1.Pod {
	pod := annotated(plainKata(name, host, class), kataNetwork)
	pod.Spec.InitContainers = []corev1.Container{{
		Name: "ktsn-guest", Image: toolsImage, ImagePullPolicy: corev1.PullNever, RestartPolicy: pointer(corev1.ContainerRestartPolicyAlways),
		Command: []string{"/usr/bin/ktsn-guest", "run", "--interface", tsnInterface},
		SecurityContext: &corev1.SecurityContext{
			Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN", "BPF", "PERFMON", "SYS_ADMIN"}},
		},
	}}
	return pod
}

const toolsImage = "localhost/kubernetsn/tsn-tools:dev"

// plainKata returns a pod without the network.
func plainKata(name, host, class string) *corev1.Pod {
	pod := waiting(name, host)
	pod.Spec.RuntimeClassName, pod.Spec.SecurityContext = &class, nil
	container := &pod.Spec.Containers[0]
	container.Image, container.SecurityContext, container.Command = toolsImage, nil, []string{"/usr/bin/tsnperf"}
	return pod
}

// kataPods tests pods with a machine, of both handlers: they send, are reached and end.
func kataPods(ctx context.Context, t *testing.T) {
	installKata(ctx, t)
	namespace := newNamespace(ctx, t, privileged)
	listeners := start(ctx, t, namespace, annotated(waiting("listener-0", under.Nodes[1].Name), kataNetwork),
		annotated(waiting("listener-1", under.Nodes[1].Name), kataNetwork))
	before := inventories(ctx, t)
	machines := start(ctx, t, namespace, inKata(kataVeth, under.Nodes[0].Name, kataVeth), inKata(kataDAN, under.Nodes[0].Name, kataDAN))
	captures(ctx, t, kataNetwork, under.Nodes[0].Name)
	tests := map[string]func(*testing.T){}
	for i, machine := range machines {
		tests["of handler "+machine.Name] = func(t *testing.T) {
			t.Run("is reached by the network and by the primary one", func(t *testing.T) { machineIsReached(ctx, t, machine, listeners[i]) })
			t.Run("sends frames that leave at their times", func(t *testing.T) { machineSends(ctx, t, machine, listeners[i], 1100+10*i) })
			t.Run("is said to be one", func(t *testing.T) { machineIsSaid(ctx, t, machine) })
		}
	}
	testlab.AtOnce(t, tests)
	t.Run("what cannot work is refused or said", func(t *testing.T) { kataRefusals(ctx, t, namespace) })
	t.Run("leave nothing on their node", func(t *testing.T) { machinesLeaveNothing(ctx, t, machines, before) })
	if long() {
		t.Run("start as soon as those without the network", func(t *testing.T) { kataStarts(ctx, t, namespace) })
	}
}

// addressesOn returns a pod's addresses on the network.
func addressesOn(t *testing.T, pod *corev1.Pod) []netip.Addr {
	t.Helper()
	all := attachmentOf(t, pod, tsnInterface).IPs
	if len(all) != 2 {
		t.Fatalf("%s has not two addresses on %s: %v", pod.Name, tsnInterface, all)
	}
	return all
}

// machineIsReached checks that a machine's kernel answers pings. The node's kernel has the pod's addresses, too, but
// must not answer.
func machineIsReached(ctx context.Context, t *testing.T, machine, listener *corev1.Pod) {
	quiet := []string{"nsenter", "--net=" + networkNamespace(ctx, t, machine), "sh", "-c",
		"echo 1 > /proc/sys/net/ipv4/icmp_echo_ignore_all && echo 1 > /proc/sys/net/ipv6/icmp/echo_ignore_all"}
	if output, err := node.Output(ctx, under.Place(machine.Spec.NodeName), nil, quiet...); err != nil {
		t.Fatalf("the node's kernel answers pings in the pod's network namespace: %v: %s", err, output)
	}
	enter := []string{"nsenter", "--net=" + networkNamespace(ctx, t, listener), "ping", "-c", "3", "-i", "0.2", "-W", "10"}
	for _, address := range append(addressesOn(t, machine), netip.MustParseAddr(machine.Status.PodIP)) {
		if output, err := node.Output(ctx, under.Place(listener.Spec.NodeName), nil, append(enter, address.String())...); err != nil {
			t.Errorf("%s does not answer at %s: %v: %s", machine.Name, address, err, output)
		}
	}
}

// guestClock is ktsn-guest's estimate of the host's time.
type guestClock struct {
	Known   bool              `json:"known"`
	BoundNs int64             `json:"bound_ns"`
	AheadNs int64             `json:"host_tai_ahead_of_guest_ns"`
	Sent    uint64            `json:"sent"`
	Refused map[string]uint64 `json:"refused"`
}

// guestClockOf waits until ktsn-guest in a machine knows the time.
func guestClockOf(ctx context.Context, t *testing.T, machine *corev1.Pod) (clock guestClock) {
	t.Helper()
	await(ctx, t, func(ctx context.Context) error {
		output, complaint, err := run(ctx, machine, "ktsn-guest", "/usr/bin/ktsn-guest", "status", "--interface", tsnInterface, "-o", "json")
		if err != nil {
			return fmt.Errorf("%w: %s", err, complaint)
		}
		var all []guestClock
		if err := json.Unmarshal([]byte(output), &all); err != nil || len(all) != 1 || !all[0].Known {
			return fmt.Errorf("ktsn-guest says %s: %w", output, err)
		}
		clock = all[0]
		return nil
	})
	return clock
}

// machineSends sends timed messages from a machine by IPv4 and IPv6, with its own clock, and compares with the host's.
func machineSends(ctx context.Context, t *testing.T, machine, listener *corev1.Pod, id int) {
	const count = 100
	for i, address := range addressesOn(t, listener) {
		sent := chartStatus(ctx, t, machine.Spec.NodeName).Counters["sent"]
		before := guestClockOf(ctx, t, machine)
		host, all := address.String(), "0.0.0.0"
		if address.Is6() {
			host, all = "["+host+"]", "[::]"
		}
		got := talk(ctx, t, machine, listener, host, id+i, []string{"--count", strconv.Itoa(count), "--cycle", "20ms", "--lead", "300ms"},
			[]string{"--bind", all + ":7788", "--count", strconv.Itoa(count), "--block", "--idle-timeout", "30s"}, nil)
		after := guestClockOf(ctx, t, machine)
		arrivedInTime(t, got, count, before, after)
		if frames := after.Sent - before.Sent; frames != count {
			t.Errorf("%d frames left the machine with a record; refused were %v", frames, after.Refused)
		}
		if sent := chartStatus(ctx, t, machine.Spec.NodeName).Counters["sent"] - sent; sent < count {
			t.Errorf("ktsnd has sent %d messages", sent)
		}
	}
}

// arrivedInTime fails the test unless all messages have arrived once, and none before its time. The offset of the
// machine's clock from the host's is known within a bound.
func arrivedInTime(t *testing.T, got exchange, count int, before, after guestClock) {
	t.Helper()
	ahead := min(before.AheadNs, after.AheadNs) - max(before.BoundNs, after.BoundNs)
	arrived := map[uint32]bool{}
	var late []time.Duration
	for _, message := range got.received {
		arrived[message.Sequence] = true
		behind := time.Duration(message.Arrival - (message.Txtime + ahead))
		if late = append(late, behind); behind < 0 || !message.Valid {
			t.Errorf("message %d arrives %v before its time, valid: %v", message.Sequence, -behind, message.Valid)
		}
	}
	if len(arrived) != count || len(got.received) != count || len(got.sent) != count {
		t.Fatalf("%d of %d messages have arrived, %d in all", len(arrived), len(got.sent), len(got.received))
	}
	t.Logf("%d arrived, %v behind their time (median); the host's clock is known within %v", count, median(late), time.Duration(after.BoundNs))
}

// machineIsSaid checks that ktsn shows how the machine is connected, and finds no problem.
func machineIsSaid(ctx context.Context, t *testing.T, machine *corev1.Pod) {
	device, means := "veth", "the interface itself, which Kata has taken by tap1_kata"
	if machine.Name == kataDAN {
		device, means = "tap", "tap, which Kata finds in "+danFolder+"/"
	}
	if got := machine.Annotations[v1alpha1.DeviceAnnotation]; got != device {
		t.Errorf("its annotation %s is %q, want %q", v1alpha1.DeviceAnnotation, got, device)
	}
	for line, says := range map[string][]string{
		"doctor " + machine.Namespace + "/" + machine.Name: {
			"handler " + machine.Name + ": Kata", "is " + means, "is connected by " + device, "the host's time is known within",
		},
		"status --node " + machine.Spec.NodeName + " -o wide": {string(machine.UID) + " " + tsnInterface + ", by " + means},
	} {
		output, err := ktsn(ctx, t, strings.Fields(line)...)
		for _, want := range says {
			if err != nil || !strings.Contains(output, want) {
				t.Errorf("ktsn %s says %v, %s; want %q in it", line, err, output, want)
			}
		}
	}
}

// kataRefusals checks the messages for users.
func kataRefusals(ctx context.Context, t *testing.T, namespace string) {
	byVhostUser := deviceOf(inKata("refused", "", kataVeth), v1alpha1.DeviceVhostUser)
	tooManyQueues := inKata("refused", "", kataDAN)
	tooManyQueues.Annotations[v1alpha1.DeviceQueuesAnnotation] = "2"
	tooManyQueues.Annotations["io.katacontainers.config.hypervisor.default_vcpus"] = "1"
	for name, test := range map[string]struct {
		pod      *corev1.Pod
		sentence string
	}{
		"a class that there is not":           {inKata("refused", "", "kata-nowhere"), `RuntimeClass "kata-nowhere" not found`},
		"a device that its runtime overlooks": {byVhostUser, "takes the interface itself (veth); remove the annotation"},
		"two queues with one processor":       {tooManyQueues, "and the pod's machine has one processor"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client.CoreV1().Pods(namespace).Create(ctx, test.pod, createOptions)
			if err == nil || !strings.Contains(err.Error(), test.sentence) {
				t.Errorf("got %v, want %q", err, test.sentence)
			}
		})
	}
	t.Run("a handler that the chart does not know as Kata's", func(t *testing.T) {
		create(ctx, t, namespace, inKata("unnamed", under.Nodes[1].Name, kataUnnamed))
		// The filter against messages off the network is at each interface.
		const sentence = "add the queueing discipline ingress to eth0: file exists"
		await(ctx, t, func(ctx context.Context) error {
			if events := lastEvents(ctx, namespace, "unnamed"); !strings.Contains(events, sentence) {
				return fmt.Errorf("the pod's Events say %q, want %q", events, sentence)
			}
			return nil
		})
		if err := client.CoreV1().Pods(namespace).Delete(ctx, "unnamed", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	t.Run("a handler that the node's runtime does not have", func(t *testing.T) {
		create(ctx, t, namespace, inKata("absent", under.Nodes[1].Name, kataAbsent))
		const sentence = `no runtime for "` + kataAbsent + `" is configured`
		await(ctx, t, func(ctx context.Context) error {
			output, err := ktsn(ctx, t, "doctor", namespace+"/absent")
			if err == nil || !strings.Contains(output, sentence) || !strings.Contains(output, "scheduling.nodeSelector of the RuntimeClass") {
				return fmt.Errorf("ktsn doctor says %w, %q, want %q", err, output, sentence)
			}
			return nil
		})
		if err := client.CoreV1().Pods(namespace).Delete(ctx, "absent", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}
