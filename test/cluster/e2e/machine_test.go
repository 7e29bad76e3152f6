// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
)

const (
	machineTap = "taptsn0"
	// frameType is an EtherType that no kernel answers.
	frameType = 0x88b6
)

// Programs for /usr/bin/perl, which nodes have, and pods' network namespaces see.
const (
	// throughTap opens a tap as QEMU does, and sends frames after the virtio header.
	throughTap = `open(T, "+<", "/dev/net/tun") or die "tun: $!";
ioctl(T, 0x400454ca, pack("Z16 S x22", shift, 0x5002)) or die "TUNSETIFF: $!";
for (@ARGV) { defined(syswrite(T, "\0" x 10 . pack("H*", $_))) or die "write: $!" }`
	// fromWire prints when it listens, and then for each frame its arrival by CLOCK_TAI and its content.
	fromWire = `$| = 1; my ($type, $frames) = @ARGV;
socket(S, 17, 3, unpack("n", pack("S", $type))) or die "socket: $!";
print "listens\n";
while ($frames--) {
	defined(recv(S, my $frame, 2048, 0)) or die "recv: $!";
	my $now = "\0" x 16;
	syscall(228, 11, $now) and die "clock_gettime: $!";
	my ($s, $ns) = unpack("qq", $now);
	print $s * 1000000000 + $ns, " ", unpack("H*", $frame), "\n";
}`
)

// networkNamespace finds the network namespace of a pod among those of its node.
func networkNamespace(ctx context.Context, t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	name, err := node.Output(ctx, under.Place(pod.Spec.NodeName), nil, "sh", "-c",
		`for name in $(ls /run/netns); do ip -n "$name" -o addr 2>/dev/null | grep -qF " `+pod.Status.PodIP+`/" && echo "$name" && break; done`)
	if err != nil || strings.TrimSpace(name) == "" {
		t.Fatalf("%s is in no network namespace of %s: %v", pod.Name, pod.Spec.NodeName, err)
	}
	return "/run/netns/" + strings.TrimSpace(name)
}

// hasInterface reports whether a pod has an interface.
func hasInterface(ctx context.Context, t *testing.T, pod *corev1.Pod, name string) bool {
	t.Helper()
	list := onNode(ctx, t, pod.Spec.NodeName, "nsenter", "--net="+networkNamespace(ctx, t, pod), "ip", "-o", "link")
	return strings.Contains(list, ": "+name+"@")
}

// inside returns a command that runs a perl program in a pod's network namespace.
func inside(namespace, program string, arguments ...string) []string {
	return append([]string{"nsenter", "--net=" + namespace, "perl", "-e", program}, arguments...)
}

// hardwareAddressOn returns a pod's hardware address on the chart's network.
func hardwareAddressOn(t *testing.T, pod *corev1.Pod) net.HardwareAddr {
	t.Helper()
	address, err := net.ParseMAC(attachmentOf(t, pod, tsnInterface).MAC)
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// timedFrame returns a frame of a virtual machine, with a record in front that sets its transmit time in CLOCK_TAI.
func timedFrame(to, from net.HardwareAddr, text string, atTAI int64) []byte {
	frame := slices.Concat(to, from, binary.BigEndian.AppendUint16(nil, frameType), fmt.Appendf(nil, "%-46s", text))
	const recordType, version, priority = 0x88b5, 1, 3
	record := append(binary.BigEndian.AppendUint16(slices.Clone(frame[:12]), recordType), version, priority)
	return append(binary.BigEndian.AppendUint64(record, uint64(atTAI)), frame...)
}

func nowTAI(t *testing.T) int64 {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_TAI, &now); err != nil {
		t.Fatal(err)
	}
	return now.Nano()
}

// deviceOf attaches a virtual machine to a pod's interface.
func deviceOf(pod *corev1.Pod, device string) *corev1.Pod {
	pod.Annotations[v1alpha1.DeviceAnnotation] = device
	return pod
}

// machines sends through the tap of a pod's virtual machine: frames with a record arrive at the other node's pod, in
// the order of their times and none early. The machine of another pod, by vhost-user, finds its socket.
func machines(ctx context.Context, t *testing.T, namespace string, listener *corev1.Pod) {
	host := under.Nodes[0].Name
	byTap := deviceOf(annotated(waiting("by-tap", host), "tsn"), v1alpha1.DeviceTap)
	bySocket := deviceOf(annotated(waiting("by-socket", host), "tsn"), v1alpha1.DeviceVhostUser)
	bySocket.Annotations[v1alpha1.DeviceOwnerAnnotation] = "1000"
	pods := forNow(ctx, t, namespace, byTap, bySocket)
	captures(ctx, t, "tsn", host)

	arrived, err := arrivals(ctx, t, pods[0], listener)
	if err != nil {
		t.Fatal(err)
	}
	last := int64(0)
	for _, frame := range arrived {
		if frame.asked < last || frame.came < frame.asked {
			t.Errorf("a frame for %d comes %d ns later, behind one for %d", frame.asked, frame.came-frame.asked, last)
		}
		last = frame.asked
	}
	await(ctx, t, func(ctx context.Context) error {
		owner, err := node.Output(ctx, under.Place(host), nil, "stat", "-c", "%F %u %a", "/run/ktsn/pods/"+string(pods[1].UID)+"/tsn0.vhost.sock")
		if err == nil && strings.TrimSpace(owner) != "socket 1000 660" {
			err = fmt.Errorf("the socket of vhost-user is a %s", owner)
		}
		return err
	})
}

// arrival is the requested and the actual time of a frame.
type arrival struct{ asked, came int64 }

// arrivals sends some frames, the last of which is to leave first.
func arrivals(ctx context.Context, t *testing.T, machine, listener *corev1.Pod) (all []arrival, err error) {
	const count = 10
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	output, say := io.Pipe()
	hears := inside(networkNamespace(ctx, t, listener), fromWire, strconv.Itoa(frameType), strconv.Itoa(count))
	go func() {
		say.CloseWithError(node.Exec(ctx, under.Place(listener.Spec.NodeName), nil, say, io.Discard, hears...))
	}()
	lines := bufio.NewScanner(output)
	if !lines.Scan() {
		return nil, fmt.Errorf("%s does not listen: %w", listener.Name, lines.Err())
	}
	from, to := hardwareAddressOn(t, machine), hardwareAddressOn(t, listener)
	sends := inside(networkNamespace(ctx, t, machine), throughTap, machineTap)
	base := nowTAI(t) + int64(2*time.Second)
	for i := range count {
		at := base + int64(count-i)*int64(20*time.Millisecond)
		sends = append(sends, hex.EncodeToString(timedFrame(to, from, strconv.FormatInt(at, 10), at)))
	}
	if _, err := node.Output(ctx, under.Place(machine.Spec.NodeName), nil, sends...); err != nil {
		return nil, err
	}
	for len(all) < count && lines.Scan() {
		var arrived arrival
		var text string
		if _, err := fmt.Sscan(lines.Text(), &arrived.came, &text); err != nil {
			return nil, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		frame, err := hex.DecodeString(text)
		if err == nil && len(frame) > 14 {
			arrived.asked, err = strconv.ParseInt(strings.TrimSpace(string(frame[14:])), 10, 64)
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		all = append(all, arrived)
	}
	if len(all) < count {
		return nil, fmt.Errorf("%d of %d frames arrive: %w", len(all), count, lines.Err())
	}
	return all, nil
}

// moving labels the pod as the target of a KubeVirt migration.
func moving(pod *corev1.Pod) *corev1.Pod {
	pod.Labels = map[string]string{"kubevirt.io": "virt-launcher", "kubevirt.io/migrationJobUID": "8b1c"}
	return pod
}
