// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// otherVNI is a second network on node a, and otherIdentity a pod on it.
const (
	otherVNI      = topology.VNI + 1
	otherIdentity = "other"
)

// otherLimits are the limits of the other pod.
func otherLimits(t *testing.T, client *control.Client) control.PodLimits {
	t.Helper()
	pods, err := client.Pods(t.Context())
	must(t, err)
	for _, pod := range pods {
		if pod.Identity == otherIdentity {
			return pod.Limits
		}
	}
	t.Fatalf("ktsnd does not know the pod, only %+v", pods)
	return control.PodLimits{}
}

func TestNetworkLimitsApplyToItsPods(t *testing.T) {
	content(t)
	lab := newLab(t)
	daemon, client := lab.startDaemon(t)
	other := *lab // with another pod's socket
	other.socket = filepath.Join(lab.dir, "other.sock")
	pod := lab.addNeighbor(t)
	ctx := t.Context()
	must(t, errors.Join(
		client.SocketAdd(ctx, otherIdentity, other.socket),
		client.EndpointAdd(ctx, control.Endpoint{Identity: otherIdentity, Interface: topology.PodInterface, Netns: pod.Path(), VNI: otherVNI}),
		client.PeerAdd(ctx, control.Peer{VNI: otherVNI, Address: topology.NodeAddressB, Subnets: []netip.Prefix{topology.PodSubnetB}})))
	// Each opens a timed socket for each command and sends on it.
	ours := startDialogue(t, lab.PodA, "python3", lab.script(t, "limits.py"))
	others := startDialogue(t, pod, "python3", other.script(t, "limits.py"))
	if first, other := ours.ask(t, "another"), others.ask(t, "another"); first != "ok" || other != "ok" {
		t.Fatalf("the first sockets: %s, %s", first, other)
	}
	before := otherLimits(t, client)

	sockets, pending := uint64(2), uint64(64)
	given := []control.NetworkLimits{{VNI: otherVNI, Limits: control.GivenLimits{Sockets: &sockets, Pending: &pending}}}
	must(t, client.NetworkLimitsSet(ctx, given[0]))
	want := before
	want.Sockets, want.Pending = 2, 64
	if got := otherLimits(t, client); got != want {
		t.Errorf("the pod's limits are %+v instead of %+v", got, want)
	}
	for _, answer := range []string{"ok", "ENOBUFS", "ENOBUFS"} {
		if got := ours.ask(t, "another"); got != "ok" {
			t.Errorf("a pod on another network: %s", got)
		}
		if got := others.ask(t, "another"); got != answer {
			t.Errorf("the pod with limits: %s instead of %s", got, answer)
		}
	}
	if refusals := counters(t, client).LimitRefusals; refusals == 0 {
		t.Error("no refusal was counted")
	}

	_, client = lab.takeOver(t, daemon)
	if kept, err := client.NetworkLimits(ctx); err != nil || !reflect.DeepEqual(kept, given) {
		t.Errorf("the successor has the limits %+v, %v", kept, err)
	}
	if got := otherLimits(t, client); got != want {
		t.Errorf("with the successor the pod's limits are %+v", got)
	}

	must(t, client.NetworkLimitsSet(ctx, control.NetworkLimits{VNI: otherVNI}))
	if got := others.ask(t, "another"); got != "ok" {
		t.Errorf("another socket when the limits are gone: %s", got)
	}
	if got := otherLimits(t, client); got != before {
		t.Errorf("without limits of the network the pod's are %+v instead of %+v", got, before)
	}
}

// memoryGroup is a control group of either version with a memory limit.
type memoryGroup struct {
	path         string
	usage, limit string
}

// newMemoryGroup creates a control group that is removed at the end of the test, after the processes that were started
// later.
func newMemoryGroup(t *testing.T) *memoryGroup {
	t.Helper()
	name := fmt.Sprintf("ktsn-test-%d-%d", os.Getpid(), time.Now().UnixNano())
	for _, kind := range []memoryGroup{
		{"/sys/fs/cgroup/memory", "memory.usage_in_bytes", "memory.limit_in_bytes"},
		{"/sys/fs/cgroup", "memory.current", "memory.max"},
	} {
		group := &memoryGroup{filepath.Join(kind.path, name), kind.usage, kind.limit}
		_ = os.WriteFile(filepath.Join(kind.path, "cgroup.subtree_control"), []byte("+memory"), 0)
		if os.Mkdir(group.path, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(group.path) })
		if _, err := os.Stat(filepath.Join(group.path, group.usage)); err == nil {
			return group
		}
	}
	testlab.Missing(t, "no control group with a memory controller can be made below /sys/fs/cgroup; mount one")
	return nil
}

// take moves a process to the group until its end.
func (g *memoryGroup) take(t *testing.T, running *process.Process) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(g.path, "cgroup.procs"), []byte(strconv.Itoa(running.PID())), 0))
}

func (g *memoryGroup) limitTo(t *testing.T, bytes int) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(g.path, g.limit), []byte(strconv.Itoa(bytes)), 0))
}

func (g *memoryGroup) bytes(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(g.path, g.usage))
	must(t, err)
	bytes, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(t, err)
	return bytes
}

// ringBytes returns the memory of all rings in ktsnd's status.
func ringBytes(t *testing.T, client *control.Client) int {
	t.Helper()
	return int(statusOf(t, client).RingMemoryBytes)
}

// awaitRingBytes waits until all rings have the given size.
func awaitRingBytes(t *testing.T, client *control.Client, want int) {
	t.Helper()
	awaitStatus(t, client, fmt.Sprintf("rings take %d bytes", want), func(status *control.Status) bool {
		return int(status.RingMemoryBytes) == want
	})
}

// TestKeptRingsCountUntilReleased keeps rings after disconnecting: they count until they are released. The next ring is
// refused when the pod's quota or the total is used up.
func TestKeptRingsCountUntilReleased(t *testing.T) {
	timing(t)
	const slack = 64 << 20
	for name, test := range map[string]struct {
		options []string
		allowed int
	}{
		"for the pod":  {[]string{"--pod-memory", "16"}, 16 << 20},
		"for the node": {[]string{"--ring-memory", "16"}, 16 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			group := newMemoryGroup(t)
			lab := newLab(t)
			daemon, client := lab.startDaemon(t, test.options...)
			group.take(t, daemon)
			enemy := lab.addHostile(t, client)
			before := group.bytes(t)
			keeping := enemy.start(t, "keep", time.Second)
			time.Sleep(700 * time.Millisecond)
			took, counted := group.bytes(t)-before, ringBytes(t, client)
			results := keeping.results(t)
			if counted < results["kept-bytes"] || counted > test.allowed {
				t.Errorf("the pod has rings of %d bytes, ktsnd counts %d and may %d", results["kept-bytes"], counted, test.allowed)
			}
			// The kernel counts in batches, and ktsnd releases a little meanwhile.
			if took > test.allowed+slack || took < results["kept-bytes"]-1<<20 {
				t.Errorf("rings of %d bytes took %d of ktsnd's memory", results["kept-bytes"], took)
			}
			if results["kept"] == 0 || syscall.Errno(results["answer-errno"]) != syscall.ENOMEM || counters(t, client).LimitRefusals == 0 {
				t.Errorf("%v", results)
			}
			awaitRingBytes(t, client, 0)
			lab.goodTraffic(t, 50, func() {})
		})
	}
}

// removedRingBytes returns the memory of the rings of removed pods.
func removedRingBytes(t *testing.T, client *control.Client) int {
	t.Helper()
	return int(statusOf(t, client).RingMemoryRemovedBytes)
}

// TestRingsOfRemovedPodCountSeparately checks that the rings of a removed pod do not reduce the memory of other pods.
func TestRingsOfRemovedPodCountSeparately(t *testing.T) {
	content(t)
	lab := newLab(t)
	daemon, client := lab.startDaemon(t, "--pod-memory", "8", "--ring-memory", "16")
	enemy := lab.addHostile(t, client)
	keeping := enemy.start(t, "keep", patience)
	time.Sleep(500 * time.Millisecond)
	must(t, enemy.remove(t.Context(), client))
	counted := removedRingBytes(t, client)
	if living := ringBytes(t, client); counted < 6<<20 || living != 0 {
		t.Errorf("%d bytes are counted of a pod that kept its rings, %d of others", counted, living)
	}
	// It continues with the next ktsnd.
	_, client = lab.takeOver(t, daemon)
	if after := removedRingBytes(t, client); after != counted {
		t.Errorf("%d bytes are counted after ktsnd was replaced, %d before", after, counted)
	}
	kill(t, keeping.Process)
	awaitStatus(t, client, "rings of the removed pod are freed", func(status *control.Status) bool {
		return status.RingMemoryRemovedBytes == 0
	})
}

// TestMemoryLimitRejectsRings runs ktsnd with a memory limit that fits the rings, as in the chart: it refuses more
// rings and is not killed.
func TestMemoryLimitRejectsRings(t *testing.T) {
	content(t)
	group := newMemoryGroup(t)
	lab := newLab(t)
	daemon, client := lab.startDaemon(t, "--pod-memory", "1024", "--ring-memory", "32")
	group.take(t, daemon)
	enemy := lab.addHostile(t, client)
	lab.goodTraffic(t, 50, func() {})
	group.limitTo(t, group.bytes(t)+48<<20)
	keeping := enemy.start(t, "keep", 2*time.Second)
	time.Sleep(500 * time.Millisecond)
	if _, err := client.Status(t.Context()); err != nil {
		t.Errorf("ktsnd does not answer: %v", err)
	}
	if results := keeping.results(t); results["kept"] == 0 || syscall.Errno(results["answer-errno"]) != syscall.ENOMEM {
		t.Errorf("%v", results)
	}
	lab.goodTraffic(t, 50, func() {})
}

// TestForeignMemoryCostsKtsndNothing checks that memory created by a pod is not charged to ktsnd, whatever its layout
// and seals.
func TestForeignMemoryCostsKtsndNothing(t *testing.T) {
	content(t)
	group := newMemoryGroup(t)
	lab := newLab(t)
	daemon, client := lab.startDaemon(t)
	group.take(t, daemon)
	enemy := lab.addHostile(t, client)
	before := group.bytes(t)
	results := enemy.start(t, "sparse", 500*time.Millisecond).results(t)
	if results["handed"] == 0 || results["accepted"] != 0 || syscall.Errno(results["answer-errno"]) != syscall.EPERM {
		t.Errorf("%v", results)
	}
	if took := group.bytes(t) - before; took > 16<<20 {
		t.Errorf("%d bytes of ktsnd's memory went for it", took)
	}
}

// TestRingCreationRateIsBounded checks the limit on creating, taking back and closing rings, ktsnd's most expensive
// operations for a pod: 16 at once and then 500 a second (daemon/loop/quota.c).
func TestRingCreationRateIsBounded(t *testing.T) {
	content(t)
	const (
		atOnce, perSecond = 16, 500
		length            = 2 * time.Second
	)
	lab := newLab(t)
	_, client := lab.startDaemon(t)
	enemy := lab.addHostile(t, client)
	began := time.Now()
	running := enemy.start(t, "handback", length)
	asking := startAsking(t, lab.PodA, lab.socket, length/2)
	results := running.results(t)
	most := atOnce + int(float64(perSecond)*time.Since(began).Seconds())
	if results["handed"] == 0 || results["handed"] > most {
		t.Errorf("handed back: %v; want at most %d", results, most)
	}
	// Other pods do not wait for them.
	if asked := asking.results(t); asked["asked"] == 0 || asked["longest-us"] > int(time.Second/time.Microsecond) {
		t.Errorf("another pod's requests: %v", asked)
	}
	awaitForgotten(t, client)
}
