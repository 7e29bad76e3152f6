// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	rings "github.com/kubernetsn/kubernetsn/internal/node/receive"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
	"github.com/kubernetsn/kubernetsn/internal/testlab/tsnperf"
)

// ringCompany is a node with two pods with receive rings. The second is hostile.
type ringCompany struct {
	*lab
	daemon *process.Process
	client *control.Client
	enemy  *hostile
}

func newRingCompany(t *testing.T, options ...string) *ringCompany {
	t.Helper()
	lab := newLab(t)
	lab.sideA().attach(t, rings.Endpoint{Rings: true})
	daemon, client := lab.startDaemon(t, options...)
	lab.receiving(t, client)
	enemy := lab.addHostile(t, client)
	second := lab.sideA()
	second.pod, second.address = enemy.pod, neighborAddress
	second.tell(t, rings.Endpoint{Rings: true})
	must(t, client.EndpointAdd(t.Context(), control.Endpoint{Identity: hostileIdentity, Interface: topology.PodInterface,
		Netns: enemy.pod.Path(), VNI: topology.VNI, Receive: true}))
	return &ringCompany{lab, daemon, client, enemy}
}

// attack starts the hostile program at pod a's port.
func (c *ringCompany) attack(t *testing.T, pod *topology.Namespace, mode string, duration time.Duration, count int) *attack {
	t.Helper()
	command := attackOf(t, c.enemy.socket, mode, netip.AddrPortFrom(neighborAddress, listenPort), duration)
	if count > 0 {
		command.Args = append(command.Args, strconv.Itoa(count))
	}
	return startAttack(t, pod, mode, command)
}

// receiveStatus returns ktsnd's status of a pod's receive rings.
func (c *ringCompany) receiveStatus(t *testing.T, identity string) (control.Pod, control.PodReceive) {
	t.Helper()
	pods, err := c.client.Pods(t.Context())
	must(t, err)
	for _, pod := range pods {
		if pod.Identity == identity {
			return pod, pod.Receive
		}
	}
	t.Fatalf("ktsnd has no pod %s", identity)
	return control.Pod{}, control.PodReceive{}
}

// awaitRings waits until a pod has count receive rings.
func (c *ringCompany) awaitRings(t *testing.T, identity string, want uint64) {
	t.Helper()
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		if _, got := c.receiveStatus(t, identity); got.Sockets != want {
			return fmt.Errorf("pod %s has %+v, want %d rings", identity, got, want)
		}
		return nil
	})
}

// onlyOnce checks that a listener received each message of a talker once, and returns their number.
func onlyOnce(t *testing.T, sent, came string) int {
	t.Helper()
	count := len(testlab.ReadFile(t, sent, tsnperf.ReadTalker))
	seen := map[uint32]bool{}
	for _, message := range testlab.ReadFile(t, came, tsnperf.ReadListener) {
		if seen[message.Sequence] || !message.Valid {
			t.Errorf("message %d arrived twice, or not as it was sent", message.Sequence)
		}
		seen[message.Sequence] = true
	}
	if len(seen) != count {
		t.Errorf("%d of %d messages arrived", len(seen), count)
	}
	return count
}

func TestReceiveRingHasOnlyThePodsDatagrams(t *testing.T) {
	timing(t)
	c := newRingCompany(t)
	sent, came := filepath.Join(t.TempDir(), "talker.csv"), filepath.Join(t.TempDir(), "listener.csv")
	listener := c.startRingListener(t, came)
	enemy := c.attack(t, c.enemy.pod, "receive", 3*time.Second, 1)
	c.awaitRings(t, hostileIdentity, 1)
	talker := c.startKernelTalker(t, sent, 1000)
	must(t, finish(t, talker))
	_, podA := c.receiveStatus(t, identity)
	_, others := c.receiveStatus(t, hostileIdentity)
	if results := enemy.results(t); results["opened"] != 1 {
		t.Errorf("the hostile pod has no ring at the same port: %v", results)
	}
	drain(t, listener)
	if count := onlyOnce(t, sent, came); podA.Received < uint64(count)*9/10 {
		t.Errorf("of %d messages pod a's rings got %+v", count, podA)
	}
	if others.Received != 0 || others.Dropped != 0 || others.Kernel != 0 {
		t.Errorf("the hostile pod got %+v", others)
	}
	// A socket of another network namespace, through the hostile pod's application socket.
	results := c.attack(t, c.PodB, "receive", 300*time.Millisecond, 1).results(t)
	if results["opened"] != 0 || syscall.Errno(results["errno"]) != syscall.EPERM {
		t.Errorf("with a socket of another network namespace the hostile pod achieved %v", results)
	}
}

func TestReceiveFloodAffectsOnlyItsPod(t *testing.T) {
	timing(t)
	c := newRingCompany(t)
	sent, came := filepath.Join(t.TempDir(), "talker.csv"), filepath.Join(t.TempDir(), "listener.csv")
	listener := c.startRingListener(t, came)
	enemy := c.attack(t, c.enemy.pod, "receive", 4*time.Second, 1)
	c.awaitRings(t, hostileIdentity, 1)
	talker := c.startKernelTalker(t, sent, 1500)
	// Nobody reads, so the ring is full after some hundred datagrams. Five a millisecond flood it and leave this machine
	// time for the rest.
	flood := start(t, c.PodB, "flood", exec.Command(program(t, "tsnperf"), "talker", "--no-txtime", "--quiet",
		"--to", netip.AddrPortFrom(neighborAddress, listenPort).String(), "--count", "7500", "--cycle", "200us"))
	c.goodTraffic(t, 500, func() {})
	must(t, errors.Join(finish(t, talker), finish(t, flood)))
	_, podA := c.receiveStatus(t, identity)
	_, others := c.receiveStatus(t, hostileIdentity)
	if results := enemy.results(t); results["opened"] != 1 {
		t.Errorf("the hostile pod has no ring: %v", results)
	}
	drain(t, listener)
	if count := onlyOnce(t, sent, came); podA.Dropped != 0 || podA.Received < uint64(count)*9/10 {
		t.Errorf("of %d messages pod a's rings got %+v", count, podA)
	}
	if others.Received == 0 || others.Received+others.Dropped+others.Kernel != 7500 || others.Dropped < 5000 {
		t.Errorf("of 7500 datagrams the flooded ring reports %+v", others)
	}
}

// countEntries returns the number of sockets with a ring in the program's maps.
func (s *receivingSide) countEntries(t *testing.T) (count int) {
	t.Helper()
	must(t, s.node.Do(func() error {
		dir, err := rings.NodeDir(rings.DefaultDir)
		if err != nil {
			return err
		}
		outer, err := ebpf.LoadPinnedMap(filepath.Join(dir, "rings"), nil)
		if err != nil {
			return err
		}
		defer outer.Close()
		var cookie, last uint64
		for err = outer.NextKey(nil, &cookie); err == nil; err = outer.NextKey(last, &cookie) {
			last = cookie
			count++
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			err = nil
		}
		return err
	}))
	return count
}

func TestOpeningReceiveRingsIsLimited(t *testing.T) {
	timing(t)
	const mostSockets = 16
	for mode, achieves := range map[string]string{"receive": "refused", "receive-churn": "asked"} {
		t.Run(mode, func(t *testing.T) {
			c := newRingCompany(t, "--pod-sockets", strconv.Itoa(mostSockets))
			c.goodTraffic(t, 10, func() {})
			awaitIdle(t, c.client)
			before := holdingsOf(t, c.daemon)
			asking := startAsking(t, c.PodA, c.socket, 2*time.Second)
			enemy := c.attack(t, c.enemy.pod, mode, 2*time.Second, 0)
			c.goodTraffic(t, 500, func() {})
			pod, got := c.receiveStatus(t, hostileIdentity)
			if got.Sockets > mostSockets || pod.RingMemoryBytes > pod.Limits.RingMemoryBytes || c.sideA().countEntries(t) > mostSockets+1 {
				t.Errorf("it has %+v, %d bytes of rings, and the program %d", got, pod.RingMemoryBytes, c.sideA().countEntries(t))
			}
			if results := enemy.results(t); results["opened"] == 0 || results[achieves] == 0 {
				t.Errorf("the hostile pod achieved nothing: %v", results)
			}
			if results := asking.results(t); results["asked"] == 0 || results["longest-us"] > int(time.Second/time.Microsecond) {
				t.Errorf("another pod's requests: %v", results)
			}
			awaitReturned(t, c.daemon, c.client, before)
			killed := c.attack(t, c.enemy.pod, mode, patience, 0)
			time.Sleep(300 * time.Millisecond)
			kill(t, killed.Process)
			awaitReturned(t, c.daemon, c.client, before)
			testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
				if c.sideA().countEntries(t) > 0 {
					return fmt.Errorf("the program still has %d rings", c.sideA().countEntries(t))
				}
				return nil
			})
		})
	}
}

func TestReceiveAfterKillHasNoDuplicates(t *testing.T) {
	timing(t)
	lab := newLab(t)
	lab.sideA().attach(t, rings.Endpoint{Rings: true})
	daemon, client := lab.startDaemon(t)
	lab.receiving(t, client)
	sent, came := filepath.Join(t.TempDir(), "talker.csv"), filepath.Join(t.TempDir(), "listener.csv")
	listener := lab.startRingListener(t, came)
	talker := lab.startKernelTalker(t, sent, unlimited)
	for range 20 {
		time.Sleep(rand.N(300 * time.Millisecond))
		kill(t, daemon)
		time.Sleep(rand.N(100 * time.Millisecond))
		daemon, client = lab.startUnattached(t)
		endpoint := lab.endpoint()
		endpoint.Receive = true
		must(t, errors.Join(client.EndpointAdd(t.Context(), endpoint), client.SocketAdd(t.Context(), identity, lab.socket)))
	}
	// The last ktsnd gives the ring to the application if it asks in time, or removes it: neither loses messages.
	testlab.Eventually(t, 20*time.Second, 50*time.Millisecond, func() error {
		if receivedOf(t, client).Sockets == 0 {
			return errors.New("the listener does not ask the last ktsnd for a ring")
		}
		return nil
	})
	time.Sleep(time.Second)
	interrupt(t, talker)
	got := receivedOf(t, client)
	drain(t, listener)
	if count := onlyOnce(t, sent, came); got.Sockets != 1 || got.Dropped != 0 || lab.sideA().counts(t).Received < uint64(count)*9/10 {
		t.Errorf("of %d messages ktsnd reports %+v, the program %+v", count, got, lab.sideA().counts(t))
	}
}
