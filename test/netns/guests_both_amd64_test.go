// SPDX-License-Identifier: Apache-2.0

//go:build vm

package netns_test

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// longGuests is set by `make guests`. `make test` skips some parts.
var longGuests = os.Getenv("KTSN_GUESTS") != ""

// TestGuestsOfBothNodes contains all checks with two real guests, since booting both takes half a minute.
func TestGuestsOfBothNodes(t *testing.T) {
	m := newMachines(t)
	for _, part := range []struct {
		name string
		run  func(*testing.T)
		long bool
	}{
		{"reach pods and each other over both paths", m.reachAll, false},
		{"find hardware addresses by ARP and ND", m.findNeighbors, false},
		{"are reached by pods", m.areReached, false},
		{"send the largest packet and none that is larger", m.largest, false},
		{"send tagged frames with their priority", m.checkTags, false},
		{"have frames held until their times, of all clocks and lengths", m.held, false},
		{"know the host's time within their bound", m.checkClockBound, true},
		{"begin their bound anew when a clock jumps", m.checkClockContradiction, true},
		{"release messages themselves, beside those that are held", m.checkRelease, true},
		{"outlive ktsnd and relays", m.outlive, false},
		{"begin again when they are reset", m.reset, false},
		{"begin again when QEMU is killed", m.checkKilledMachine, true},
		// Last, since its schedule remains.
		{"flood all queues beside a pod's messages", m.flood, false},
	} {
		if !part.long || longGuests {
			t.Run(part.name, part.run)
		}
	}
}

// echoIn echoes datagrams in a pod until the end of the test.
func echoIn(t *testing.T, pod *topology.Namespace) {
	t.Helper()
	start(t, pod, "echo", exec.Command(program(t, "ktsn-test-inside"), "echo", ":7"))
}

// bytesBefore is the size of the IP and UDP, or IP and ICMP headers.
func bytesBefore(address netip.Addr) int {
	if address.Is4() {
		return 20 + 8
	}
	return 40 + 8
}

// askTo returns the command that has datagrams of up to the MTU echoed.
func askTo(to netip.Addr, mtu int) []string {
	return []string{"ask", "--to", netip.AddrPortFrom(to, 7).String(), "--most", fmt.Sprint(mtu - bytesBefore(to))}
}

func (m *machines) reachAll(t *testing.T) {
	echoIn(t, m.a.PodA)
	echoIn(t, m.a.PodB)
	for name, way := range m.bothPaths() {
		for _, peer := range []address{ofPodA, ofPodB, ofOther} {
			for _, to := range peer.both() {
				t.Run(name+" to "+to.String(), func(t *testing.T) {
					// Five must come back: a relay without a CPU drops frames without a time and counts them.
					m.machine.run(t, "%sping -n -q -c 5 -i 0.05 -w 15 %s", way.in, to)
					m.machine.run(t, "%s$inside %s", way.in, strings.Join(askTo(to, way.mtu), " "))
				})
			}
		}
	}
}

func (m *machines) findNeighbors(t *testing.T) {
	for name, way := range m.bothPaths() {
		for peer, mac := range map[address]string{
			ofPodA: interfaceMAC(t, m.a.PodA).String(), ofPodB: interfaceMAC(t, m.a.PodB).String(), ofOther: m.otherAttachment.Address,
		} {
			for _, target := range peer.both() {
				if got := neighborOf(m.machine.run(t, "%sip neighbor show %s dev %s", way.in, target, way.device)); got != mac {
					t.Errorf("by %s the machine takes %q for the hardware address of %s, which has %s", name, got, target, mac)
				}
			}
		}
		for _, target := range way.addresses.both() {
			if got := neighborOf(m.otherMachine.run(t, "ip neighbor show %s dev %s", target, tapDevice)); got != way.mac {
				t.Errorf("the other machine takes %q for the hardware address of %s, which has %s", got, target, way.mac)
			}
		}
	}
}

// neighborOf returns a neighbour's hardware address from iproute2.
func neighborOf(shown string) string {
	_, behind, _ := strings.Cut(shown, "lladdr ")
	mac, _, _ := strings.Cut(behind, " ")
	return mac
}

func (m *machines) areReached(t *testing.T) {
	ways := m.bothPaths()
	ways["one queue"] = guestPath{addresses: ofOther, mtu: m.otherAttachment.MTU}
	for name, way := range ways {
		for from, pod := range map[string]*topology.Namespace{"pod a": m.a.PodA, "pod b": m.a.PodB} {
			for _, to := range way.addresses.both() {
				t.Run(fmt.Sprintf("%s at %s from %s", name, to, from), func(t *testing.T) {
					// Until five have come back: a relay without a CPU drops frames without a time and counts them.
					pinged := start(t, pod, "ping", exec.Command("ping", "-n", "-q", "-c", "5", "-i", "0.05", "-w", "15", to.String()))
					if err := finish(t, pinged); err != nil {
						t.Errorf("five echoes do not return in 15 s: %v", err)
					}
					asked := start(t, pod, "ask", exec.Command(program(t, "ktsn-test-inside"), askTo(to, way.mtu)...))
					if err := finish(t, asked); err != nil {
						t.Errorf("%v: %s", err, asked.Stderr())
					}
				})
			}
		}
	}
}

func (m *machines) largest(t *testing.T) {
	for name, way := range m.bothPaths() {
		for _, to := range ofOther.both() {
			t.Run(name+" to "+to.String(), func(t *testing.T) {
				fits := way.mtu - bytesBefore(to)
				m.machine.run(t, "%sping -n -q -c 5 -i 0.05 -w 15 -M do -s %d %s", way.in, fits, to)
				output := m.machine.expectFailure(t, "%sping -n -c 1 -W 1 -M do -s %d %s 2>&1", way.in, fits+1, to)
				if !strings.Contains(strings.ToLower(output), "message too long") {
					t.Errorf("of one byte more the machine's kernel reports %q", output)
				}
			})
		}
	}
}

// checkTags exchanges messages between the machines in a VLAN over link-local addresses.
func (m *machines) checkTags(t *testing.T) {
	const vlan, priority = 7, 5 // the kernel's own address requests have 7 and get the same
	const make = `ip link show vlan7 >/dev/null 2>&1 || ip link add link %[1]s name vlan7 type vlan id %[2]d egress-qos-map 0:%[3]d 7:%[3]d
sysctl -q -w net.ipv6.conf.vlan7.accept_dad=0
ip link set vlan7 up`
	m.otherMachine.run(t, make, tapDevice, vlan, priority)
	there := linkAddress(t, m.otherMachine.run(t, "ip -6 -brief address show dev vlan7 scope link"))
	for name, way := range m.bothPaths() {
		t.Run(name, func(t *testing.T) {
			// In the network namespace of the interface.
			m.machine.run(t, way.in+"sh -euc '%s'", fmt.Sprintf(make, way.device, vlan, priority))
			tap := m.a.openTap(t, 2000)
			m.machine.run(t, "%sping -n -q -c 3 -i 0.2 -W 10 %s%%vlan7", way.in, there)
			source, tags := []byte(parseMAC(t, way.mac)), 0
			for _, packet := range stopTap(t, tap) {
				if tag, ok := innerTag(packet.Head, source); ok {
					if tags++; tag != priority<<13|vlan {
						t.Errorf("a frame of the machine has the tag %#04x", tag)
					}
				}
			}
			if tags < 3 {
				t.Errorf("%d tagged frames of the machine were on the wire", tags)
			}
		})
	}
}
