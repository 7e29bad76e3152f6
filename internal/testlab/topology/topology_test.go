// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// helperVariable makes the test binary run as a program that creates a topology and is then killed.
const helperVariable = "KTSN_TOPOLOGY_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperVariable) != "" {
		playVictim()
	}
	os.Exit(m.Run())
}

// playVictim creates a topology with a program in it, prints its names and waits to be killed.
func playVictim() {
	topology, err := Create(context.Background())
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	sleeper := exec.Command("sleep", "600")
	if err := topology.PodA.Start(sleeper); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(topology.ID, sleeper.Process.Pid)
	time.Sleep(time.Hour)
}

func create(t *testing.T) *Topology {
	t.Helper()
	testlab.Root(t)
	topology, err := Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := topology.Destroy(); err != nil {
			t.Error(err)
		}
	})
	return topology
}

// leftovers lists what exists under the name of a topology.
func leftovers(t *testing.T, id string) []string {
	t.Helper()
	var all []string
	for _, dir := range []string{netnsDir, runDir} {
		names, err := filepath.Glob(filepath.Join(dir, id+"*"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, names...)
	}
	return all
}

func TestDatagramsTravel(t *testing.T) {
	topology := create(t)
	for name, route := range map[string]struct {
		from, to *Namespace
		address  netip.Addr
		source   netip.Addr
	}{
		"from node a over the link to node b":   {topology.NodeA, topology.NodeB, NodeAddressB, NodeAddressA},
		"from node b in the largest that fits":  {topology.NodeB, topology.NodeA, NodeAddressA, NodeAddressB},
		"from node a to itself over its own lo": {topology.NodeA, topology.NodeA, NodeAddressA, NodeAddressA},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Repeat("x", physicalMTU-28)
			got, source := testlab.SendUDP4(t, route.from, route.to, route.address, text)
			if got != text || source.Addr() != route.source {
				t.Errorf("%d bytes arrived from %s, want %d from %s", len(got), source, len(text), route.source)
			}
		})
	}
}

func TestIPv6IsDisabled(t *testing.T) {
	topology := create(t)
	for _, namespace := range []*Namespace{topology.NodeA, topology.NodeB, topology.PodA, topology.PodB} {
		err := namespace.Do(func() error {
			addresses, err := os.ReadFile("/proc/thread-self/net/if_inet6")
			if err == nil && len(addresses) > 0 {
				return fmt.Errorf("IPv6 addresses:\n%s", addresses)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", namespace.Name(), err)
		}
	}
}

func TestTopologiesAreSeparate(t *testing.T) {
	first, second := create(t), create(t)
	if got, _ := testlab.SendUDP4(t, first.NodeA, first.NodeB, NodeAddressB, "first"); got != "first" {
		t.Errorf("the first received %q", got)
	}
	if got, _ := testlab.SendUDP4(t, second.NodeA, second.NodeB, NodeAddressB, "second"); got != "second" {
		t.Errorf("the second received %q", got)
	}
}

func TestDestroyLeavesNothing(t *testing.T) {
	t.Run("after Destroy, which may be repeated", func(t *testing.T) {
		topology := create(t)
		if got := len(leftovers(t, topology.ID.String())); got != 5 {
			t.Errorf("%d names carry the ID, want four namespaces and a directory", got)
		}
		for range 2 {
			if err := topology.Destroy(); err != nil {
				t.Fatal(err)
			}
		}
		if left := leftovers(t, topology.ID.String()); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		if err := topology.PodA.Do(func() error { return nil }); !errors.Is(err, errGone) {
			t.Errorf("a destroyed namespace answered %v", err)
		}
	})
	t.Run("after Create was cancelled", func(t *testing.T) {
		testlab.Root(t)
		mine := fmt.Sprintf("%s%x-", prefix, os.Getpid())
		before := len(leftovers(t, mine))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Create(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if after := len(leftovers(t, mine)); after > before {
			t.Errorf("%d names instead of %d", after, before)
		}
	})
}

func TestSweepStale(t *testing.T) {
	live := create(t)
	victim := exec.Command(os.Args[0])
	victim.Env = append(os.Environ(), helperVariable+"=1")
	stdout, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	_ = victim.Process.Kill()
	_ = victim.Wait()
	var name string
	var sleeper int
	if _, errScan := fmt.Sscan(line, &name, &sleeper); err != nil || errScan != nil {
		t.Fatalf("helper said %q (%v)", line, err)
	}
	waitGone(t, sleeper)

	if got := len(leftovers(t, name)); got != 5 {
		t.Fatalf("the killed helper left %d names, want 5", got)
	}
	removed, err := SweepStale()
	if err != nil {
		t.Fatal(err)
	}
	if left := leftovers(t, name); len(left) > 0 {
		t.Errorf("the sweep left %v", left)
	}
	if !slices.Contains(removed, filepath.Join(runDir, name)) {
		t.Errorf("the sweep does not report %s: %v", name, removed)
	}
	if got := len(leftovers(t, live.ID.String())); got != 5 {
		t.Errorf("the sweep left %d of 5 names of a live topology", got)
	}
}

// waitGone waits until a process has ended.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	for range 2000 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %d outlives the one that started it", pid)
}

func TestStartRunsInNamespace(t *testing.T) {
	topology := create(t)
	var output strings.Builder
	command := exec.CommandContext(t.Context(), "ip", "-br", "address", "show", PhysicalInterface)
	command.Stdout = &output
	if err := topology.NodeB.Start(command); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(output.String(), NodeAddressB.String()) {
		t.Errorf("ip says %q", output.String())
	}
}

func TestTakeTags(t *testing.T) {
	nodes := create(t)
	if got := receivedTagged(t, nodes); got {
		t.Error("a frame with a tag was received; this test has no meaning here")
	}
	for range 2 {
		if err := nodes.TakeTags(); err != nil {
			t.Skip(err) // a kernel without programs for frames
		}
	}
	if !receivedTagged(t, nodes) {
		t.Error("a frame with a tag was not received")
	}
}

// receivedTagged sends a datagram with the tag of VLAN 3 and priority 6 from node a to node b.
func receivedTagged(t *testing.T, nodes *Topology) bool {
	t.Helper()
	var listener *net.UDPConn
	var macB net.HardwareAddr
	err := nodes.NodeB.Do(func() (err error) {
		link, err := net.InterfaceByName(PhysicalInterface)
		if err != nil {
			return err
		}
		macB = link.HardwareAddr
		listener, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(NodeAddressB, 0)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.LocalAddr().(*net.UDPAddr).Port
	ip := []byte{0x45, 0, 0, 32, 0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2}
	var sum uint32
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(ip[i])<<8 | uint32(ip[i+1])
	}
	sum = ^(sum&0xffff + sum>>16)
	ip[10], ip[11] = byte(sum>>8), byte(sum)
	frame := slices.Concat([]byte(macB), []byte{2, 0, 0, 0, 0, 1, 0x81, 0, 6 << 5, 3, 8, 0}, ip,
		[]byte{0x12, 0x34, byte(port >> 8), byte(port), 0, 12, 0, 0, 't', 'a', 'g', 's'})
	err = nodes.NodeA.Do(func() error {
		link, err := net.InterfaceByName(PhysicalInterface)
		if err != nil {
			return err
		}
		socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(socket)
		return unix.Sendto(socket, frame, 0, &unix.SockaddrLinklayer{Ifindex: link.Index})
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.SetReadDeadline(time.Now().Add(time.Second)) // far longer than a machine is stopped
	length, _, err := listener.ReadFromUDPAddrPort(make([]byte, 100))
	return err == nil && length == 4
}
