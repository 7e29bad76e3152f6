// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

const (
	podTap = "taptsn0"
	// machineEtherType is of frames that no kernel answers.
	machineEtherType = 0x88b6
	recordEtherType  = 0x88b5
)

// vnetHeader precedes each frame at a tap: no offload.
var vnetHeader = make([]byte, 10)

// openTap opens a queue of a pod's tap, as QEMU does.
func openTap(t *testing.T, p *pod) *os.File { return openTapAs(t, p, podTap, unix.IFF_MULTI_QUEUE) }

// openTapAs opens a tap and creates it if it is missing.
func openTapAs(t *testing.T, p *pod, name string, more uint16) *os.File {
	t.Helper()
	var file *os.File
	must(t, p.Do(func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		request, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR | more)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
			return err
		}
		file = os.NewFile(uintptr(fd), name)
		return nil
	}))
	t.Cleanup(func() { file.Close() })
	return file
}

// packetSocket returns a packet socket of one EtherType at a pod's interface.
func packetSocket(t *testing.T, p *pod, etherType uint16) int {
	t.Helper()
	fd := within(t, p, func() (int, error) { return packetsAt(podIf, etherType) })
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// packetsAt returns a packet socket at an interface of the current network namespace, or at all of them for "".
func packetsAt(name string, etherType uint16) (int, error) {
	index := 0
	if name != "" {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return -1, err
		}
		index = link.Attrs().Index
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	wait := unix.NsecToTimeval(int64(patience))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		return fd, err
	}
	return fd, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: etherType<<8 | etherType>>8, Ifindex: index})
}

// awaitFrame waits for a frame with a text at a tap.
func awaitFrame(t *testing.T, tap *os.File, text string) {
	t.Helper()
	must(t, tap.SetReadDeadline(time.Now().Add(patience)))
	for frame := make([]byte, 2048); ; {
		n, err := tap.Read(frame)
		must(t, err)
		if bytes.Contains(frame[:n], []byte(text)) {
			return
		}
	}
}

// arrivalTime waits for a frame with a text and returns the time of its arrival.
func arrivalTime(t *testing.T, at int, text string) time.Time {
	t.Helper()
	frame := make([]byte, 2048)
	for {
		n, err := testlab.Read(at, frame)
		if err != nil {
			t.Fatalf("%q does not arrive: %v", text, err)
		}
		if bytes.Contains(frame[:n], []byte(text)) {
			return time.Now()
		}
	}
}

func machineFrame(to, from net.HardwareAddr, etherType uint16, payload []byte) []byte {
	return slices.Concat(to, from, binary.BigEndian.AppendUint16(nil, etherType), payload, make([]byte, max(0, 46-len(payload))))
}

// behindRecord prepends a record with a transmit time to a frame.
func behindRecord(frame []byte, at time.Time) []byte {
	record := binary.BigEndian.AppendUint16(slices.Clone(frame[:12]), recordEtherType)
	record = append(record, 1, 3) // version and priority; CLOCK_TAI
	return append(binary.BigEndian.AppendUint64(record, uint64(at.UnixNano()+testlab.TAIOffset())), frame...)
}

// machines is a pod with a virtual machine on node a and an ordinary pod on node b.
type machines struct {
	*lab
	guest, otherMachine *pod
	config              fields
	result              *current.Result
	otherResult         *current.Result
}

func newMachines(t *testing.T, changes fields) *machines {
	t.Helper()
	m := &machines{lab: newLab(t)}
	m.a.startDaemon(t)
	m.b.startDaemon(t)
	m.a.ktsn(t, "node", "peers", "add", "--vni", "42", "192.0.2.2", "10.42.2.0/24")
	m.b.ktsn(t, "node", "peers", "add", "--vni", "42", "192.0.2.1", "10.42.1.0/24")
	m.guest, m.otherMachine = m.a.newPod(t), m.b.newPod(t)
	m.config = m.a.config(changes)
	m.result = m.guest.add(t, m.config)
	m.otherResult = m.otherMachine.add(t, m.b.config(nil))
	return m
}

func TestMachineSendsByTap(t *testing.T) {
	t.Parallel()
	m := newMachines(t, fields{"device": "tap", "device-queues": 2, "device-owner": 107})
	m.a.runRelays(t)
	m.a.awaitTaps(t, m.guest)
	must(t, m.a.runtime.CheckNetworkList(t.Context(), list(t, m.config), m.guest.attachment()))
	on(t, m.guest.Namespace, podTap, func(link netlink.Link) error {
		tap := link.(*netlink.Tuntap)
		if tap.Owner != 107 || tap.MTU != 1450+28 || tap.NonPersist || tap.Flags&(netlink.TUNTAP_VNET_HDR|netlink.TUNTAP_MULTI_QUEUE) == 0 {
			t.Errorf("the tap is %+v", tap)
		}
		return nil
	})
	tap, there := openTap(t, m.guest), packetSocket(t, m.otherMachine, machineEtherType)
	m.sendsBy(t, tap, there)
}

// sendsBy sends from the machine's tap: at once, at a transmit time, and frames as large as the interface allows with a
// record.
func (m *machines) sendsBy(t *testing.T, tap *os.File, there int) {
	t.Helper()
	source, to := macOf(t, m.guest.Namespace, podIf), macOf(t, m.otherMachine.Namespace, podIf)
	send := func(frame []byte) {
		if _, err := tap.Write(slices.Concat(vnetHeader, frame)); err != nil {
			t.Fatal(err)
		}
	}
	send(machineFrame(to, source, machineEtherType, []byte("at once")))
	arrivalTime(t, there, "at once")
	at := time.Now().Add(300 * time.Millisecond)
	send(behindRecord(machineFrame(to, source, machineEtherType, []byte("at its time")), at))
	if came := arrivalTime(t, there, "at its time"); came.Before(at) {
		t.Errorf("a frame arrives %v before its time", at.Sub(came))
	}
	send(behindRecord(machineFrame(to, source, machineEtherType, append([]byte("the largest"), make([]byte, 1450-11)...)), time.Now()))
	arrivalTime(t, there, "the largest")
}

// arpRequest returns an ARP request for an address.
func arpRequest(from net.HardwareAddr, sender, whose netip.Addr) []byte {
	return slices.Concat([]byte{0, 1, 8, 0, 6, 4, 0, 1}, from, sender.AsSlice(), make([]byte, 6), whose.AsSlice())
}

// countAnswers counts the ARP replies from an address during a short time.
func countAnswers(t *testing.T, at int, from net.HardwareAddr) (count int) {
	t.Helper()
	frame := make([]byte, 2048)
	for deadline := time.Now().Add(500 * time.Millisecond); ; {
		left := time.Until(deadline)
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(at), Events: unix.POLLIN}}, int(max(0, left.Milliseconds())))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		must(t, err)
		if ready == 0 {
			return count
		}
		n, err := testlab.Read(at, frame)
		must(t, err)
		if n >= 22 && bytes.Equal(frame[6:12], from) && frame[21] == 2 {
			count++
		}
	}
}

func TestPodKernelDoesNotAnswerForMachine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		changes fields
		answers int
	}{
		"no machine, and the kernel answers": {nil, 1},
		"a tap":                              {fields{"device": "tap", "device-queues": 2}, 0},
		"vhost-user":                         {fields{"device": "vhost-user"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachines(t, test.changes)
			source, whose := macOf(t, m.otherMachine.Namespace, podIf), addressOf(m.result, true)
			socket := packetSocket(t, m.otherMachine, unix.ETH_P_ARP)
			captured := packetSocket(t, m.guest, unix.ETH_P_ALL)
			asked := addressOf(m.otherResult, true)
			if _, err := unix.Write(socket, machineFrame(broadcast, source, unix.ETH_P_ARP, arpRequest(source, asked, whose))); err != nil {
				t.Fatal(err)
			}
			// It exists, whoever answers.
			arrivalTime(t, captured, string(asked.AsSlice()))
			if got := countAnswers(t, socket, macOf(t, m.guest.Namespace, podIf)); got != test.answers {
				t.Errorf("it is answered %d times, want %d", got, test.answers)
			}
		})
	}
}

func TestMachineReceivesByTap(t *testing.T) {
	t.Parallel()
	for name, changes := range map[string]fields{
		"by the bridge": {"device": "tap", "device-queues": 2},
		// Other pods' frames pass the bridge there.
		"on a network that redirects": {"device": "tap", "device-queues": 2, "receive": fields{"redirect": true}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachines(t, changes)
			tap := openTap(t, m.guest)
			// The kernel drops frames to the tap until it has noticed that it has a queue.
			eventually(t, "the tap is up", func() (up bool) {
				on(t, m.guest.Namespace, podTap, func(link netlink.Link) error {
					up = link.Attrs().OperState == netlink.OperUp
					return nil
				})
				return up
			})
			sendDatagram(t, m.otherMachine, addressOf(m.result, true), macOf(t, m.guest.Namespace, podIf), "for the machine")
			awaitFrame(t, tap, "for the machine")
		})
	}
}

// sendDatagram sends to an address whose machine does not answer ARP.
func sendDatagram(t *testing.T, from *pod, to netip.Addr, at net.HardwareAddr, text string) {
	t.Helper()
	on(t, from.Namespace, podIf, func(link netlink.Link) error {
		err := netlink.NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, IP: to.AsSlice(), HardwareAddr: at, State: netlink.NUD_PERMANENT})
		if err != nil {
			return err
		}
		socket, err := net.Dial("udp4", netip.AddrPortFrom(to, 9).String())
		if err != nil {
			return err
		}
		defer socket.Close()
		_, err = socket.Write([]byte(text))
		return err
	})
}

func TestMachineDevicesGoWithPod(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	pod := lab.a.newPod(t)
	for _, device := range []string{"tap", "vhost-user"} {
		configs := list(t, lab.a.config(fields{"device": device}))
		add := way{"ADD", func(t *testing.T) { must(t, lab.a.attach(configs, pod.attachment())) }}
		t.Run(device, func(t *testing.T) {
			pod.checkCleanedUp(t, configs, func() []string { return lab.a.inventory(t, pod) },
				append(pod.killedAdds(configs, []string{"configured"}), add))
		})
	}
	t.Run("a failed ADD", func(t *testing.T) {
		// A device has the tap's name, so that it cannot be created.
		must(t, pod.Do(func() error { return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: linkAttrs(podTap)}) }))
		occupied := lab.a.inventory(t, pod)
		_, err := lab.a.runtime.AddNetworkList(t.Context(), list(t, lab.a.config(fields{"device": "tap"})), pod.attachment())
		checkRefused(t, err, 999, "make the tap taptsn0")
		checkSame(t, "after ADD", occupied, lab.a.inventory(t, pod))
	})
}

func TestCheckReportsMissingMachineDevices(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	for name, test := range map[string]struct {
		device string
		breaks func(*testing.T, *pod)
		want   string
	}{
		"the tap is gone": {"tap", func(t *testing.T, p *pod) { on(t, p.Namespace, podTap, netlink.LinkDel) },
			"the pod has no tap taptsn0, so that its virtual machine is cut off"},
		"it is another device": {"tap", func(t *testing.T, p *pod) {
			on(t, p.Namespace, podTap, netlink.LinkDel)
			must(t, p.Do(func() error { return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: linkAttrs(podTap)}) }))
		}, "taptsn0 in the pod is a device of type bridge, not a tap"},
		"the tap has another MTU": {"tap", func(t *testing.T, p *pod) {
			on(t, p.Namespace, podTap, func(link netlink.Link) error { return netlink.LinkSetMTU(link, 1400) })
		}, "tap taptsn0 in the pod has an MTU of 1400, not 1478"},
		"its filter is gone": {"tap", func(t *testing.T, p *pod) { on(t, p.Namespace, podTap, removeFilters) },
			"taptsn0 had lost the filter ktsn_vm of the pod's virtual machine; it is back"},
		"the interface's is gone": {"tap", func(t *testing.T, p *pod) { on(t, p.Namespace, podIf, removeFilters) },
			"tsn0 had lost the filter ktsn_vm of the pod's virtual machine; it is back"},
		"the interface of vhost-user is not left to the relay": {"vhost-user", func(t *testing.T, p *pod) { on(t, p.Namespace, podIf, removeFilters) },
			"tsn0 had lost the filter ktsn_deaf of the pod's virtual machine; it is back"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := lab.a.newPod(t)
			config := lab.a.config(fields{"device": test.device})
			pod.add(t, config)
			check := func() error {
				return lab.a.runtime.CheckNetworkList(t.Context(), list(t, config), pod.attachment())
			}
			must(t, check())
			test.breaks(t, pod)
			checkRefused(t, check(), 106, test.want)
			if strings.HasSuffix(test.want, "it is back") {
				must(t, check())
			}
		})
	}
}

func TestMachineDeviceIsListed(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	for _, device := range []string{"tap", "vhost-user"} {
		pod := lab.a.newPod(t)
		pod.add(t, lab.a.config(fields{"device": device}))
		for _, command := range [][]string{{"status"}, {"node", "capture", "--output", "wide"}} {
			output, err := exec.Command(program(t, "ktsn"), append(command, "--control", lab.a.control())...).CombinedOutput()
			shown := slices.ContainsFunc(strings.Split(string(output), "\n"), func(line string) bool {
				return strings.Contains(line, pod.identity()) && strings.Contains(line, device)
			})
			if err != nil || !shown {
				t.Errorf("%v does not show it: %v\n%s", command, err, output)
			}
		}
	}
}

func TestTapClassFollowsPod(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	pod := lab.a.newPod(t)
	config := lab.a.config(fields{"capture": "All", "args": fields{"cni": fields{"device": "tap", "device-queues": 4, "device-class": "queue"}}})
	pod.add(t, config)
	must(t, lab.a.runtime.CheckNetworkList(t.Context(), list(t, config), pod.attachment()))
	must(t, lab.a.Do(func() error {
		port, err := capture.ReadPort(portOf(pod))
		if port.ClassBy != capture.ClassByQueue {
			t.Errorf("the program at the node's end takes the class by %v", port.ClassBy)
		}
		return err
	}))
}
