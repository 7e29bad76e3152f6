// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
	"github.com/kubernetsn/kubernetsn/internal/testlab/wiretap"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/network"
)

// This is a cycle of the schedules for the wire: the class of the messages may send in one half of it, and in the other
// half after the change. Transmit times are at wireOffset of each cycle. Halves are long, because the machine stops for
// milliseconds.
const (
	wireCycle    = 40 * time.Millisecond
	wireOffset   = 2 * time.Millisecond
	wireMessages = 250 // of each node, which take ten seconds; more in further attempts
	wireBefore   = 25  // of them before the change is asked for
	// wireStop is the longest stop of the machine that cannot bring a frame from its half to the next.
	wireStop = (wireCycle/2 - wireOffset) / 2
)

// Without SO_PRIORITY, messages belong to class 1.
const (
	allOpen      = 255
	allButClass1 = 253
)

// scheduleTold applies a schedule and waits until all nodes report that they execute it. It returns the cycle in which
// that begins.
func scheduleTold(ctx context.Context, t *testing.T, first, second int) int64 {
	t.Helper()
	applyText(ctx, t, withSchedule(int(time.Second/wireCycle), first, second))
	var base v1alpha1.PTPTime
	waitNetwork(ctx, t, "tsn", func(network *v1alpha1.TSNNetwork) error {
		request := network.Status.Schedule
		if request == nil || request.ObservedGeneration != network.Generation {
			return fmt.Errorf("the operator asks for %+v", request)
		}
		base = request.BaseTime
		return executed(ctx, network)
	})
	return (base.Seconds*int64(time.Second) + int64(base.Nanoseconds)) / int64(wireCycle)
}

// tapSwitch opens taps at the switch's ends of the nodes' uplinks.
func tapSwitch() (taps map[string]*wiretap.Tap, err error) {
	taps = map[string]*wiretap.Tap{}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its network namespace
		done <- func() error {
			fd, err := unix.Open(network.Path(under.Switch()), unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return fmt.Errorf("open the switch's network namespace: %w", err)
			}
			defer unix.Close(fd)
			if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("enter the switch's network namespace: %w", err)
			}
			for _, host := range under.Nodes {
				if taps[host.Name], err = wiretap.Open(host.Name, 1<<18); err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	return taps, <-done
}

// seen returns when each message of a run was on the wire, in TAI.
func seen(capture *wiretap.Capture, id int) ([]int64, error) {
	if capture.Drops > 0 {
		return nil, fmt.Errorf("the tap dropped %d frames", capture.Drops)
	}
	var all []int64
	for _, packet := range capture.Packets {
		datagram, err := wiretap.Dissect(packet.Head)
		if err != nil {
			continue // the cluster's own
		}
		if message, err := tsnperf.DecodeMessage(datagram.Payload); err == nil && message.RunID == uint32(id) {
			all = append(all, packet.TAI)
		}
	}
	return all, nil
}

// changeSeen returns the cycle in which a node's frames began to follow the new schedule: before the base time's cycle
// their gate is open in the first half only, so that they leave there, however late they are, and from it on in the
// second.
func changeSeen(frames []int64, base int64) (first int64, err error) {
	before := 0
	for _, tai := range frames {
		cycle, after := tai/int64(wireCycle), time.Duration(tai%int64(wireCycle))
		inSecond := after >= wireCycle/2
		if inSecond && (first == 0 || cycle < first) {
			first = cycle
		}
		if inSecond != (cycle >= base) {
			err = errors.Join(err, fmt.Errorf("%d cycles after the base time's a frame was on the wire at %v of it", cycle-base, after))
		}
		if cycle < base {
			before++
		}
	}
	if before == 0 || before == len(frames) {
		err = errors.Join(err, fmt.Errorf("%d of %d frames left before the change", before, len(frames)))
	}
	return first, err
}

// seenOnTheWire changes the schedule while pods of both nodes send, and checks both uplinks: the first frame in the new
// windows is in the same cycle on both, that of the base time.
func seenOnTheWire(ctx context.Context, t *testing.T, from, other *corev1.Pod) {
	attempt := 0
	for _, complaint := range testlab.Undisturbed(t, wireStop, func() []string {
		attempt++
		if err := changeOnTheWire(ctx, t, from, other, 950+10*attempt, attempt*wireMessages); err != nil {
			return []string{err.Error()}
		}
		return nil
	}) {
		t.Error(complaint)
	}
}

// waitSent waits until a node's ktsnd has sent that many messages.
func waitSent(ctx context.Context, t *testing.T, host string, count uint64) {
	t.Helper()
	await(ctx, t, func(ctx context.Context) error {
		if sent := chartStatus(ctx, t, host).Counters["sent"]; sent < count {
			return fmt.Errorf("ktsnd on %s has sent %d messages, want %d", host, sent, count)
		}
		return nil
	})
}

func changeOnTheWire(ctx context.Context, t *testing.T, from, other *corev1.Pod, id, count int) error {
	scheduleTold(ctx, t, allOpen, allButClass1)
	taps, err := tapSwitch()
	if err != nil {
		t.Fatal(err)
	}
	talker := []string{"--count", strconv.Itoa(count), "--cycle", wireCycle.String(), "--offset", wireOffset.String(), "--lead", "10ms"}
	listener := []string{"--count", strconv.Itoa(count), "--block", "--idle-timeout", "10s"}
	var had [2]uint64
	for i, pod := range []*corev1.Pod{from, other} {
		had[i] = chartStatus(ctx, t, pod.Spec.NodeName).Counters["sent"]
	}
	var errs [2]error
	var both sync.WaitGroup
	for i, pods := range [][2]*corev1.Pod{{from, other}, {other, from}} {
		address := addressOn(t, pods[1]).String()
		both.Go(func() { _, errs[i] = talkOnce(ctx, pods[0], pods[1], address, id+i, talker, listener, nil) })
	}
	for i, pod := range []*corev1.Pod{from, other} {
		waitSent(ctx, t, pod.Spec.NodeName, had[i]+wireBefore)
	}
	base := scheduleTold(ctx, t, allButClass1, allOpen)
	both.Wait()
	firsts := map[string]int64{}
	all := errors.Join(errs[:]...)
	for i, pod := range []*corev1.Pod{from, other} {
		capture, err := taps[pod.Spec.NodeName].Stop()
		if err != nil {
			t.Fatal(err)
		}
		frames, err := seen(capture, id+i)
		first, errChange := changeSeen(frames, base)
		firsts[pod.Spec.NodeName] = first
		t.Logf("node %s: %d frames on the wire, the first in the new window %d cycles after the base time's", pod.Spec.NodeName, len(frames), first-base)
		if err = errors.Join(err, errChange); err != nil {
			all = errors.Join(all, fmt.Errorf("node %s: %w", pod.Spec.NodeName, err))
		}
	}
	for node, first := range firsts {
		if first != base {
			all = errors.Join(all, fmt.Errorf("node %s changed in cycle %d, and the base time is that of cycle %d", node, first, base))
		}
	}
	return all
}
