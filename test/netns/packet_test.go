// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"bytes"
	"errors"
	"net"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// etherType is not used by any protocol of this machine (IEEE Std 802, local experimental).
const etherType = 0x88b5

// listenPacket receives frames of that EtherType in a pod.
func listenPacket(t *testing.T, pod *topology.Namespace) int {
	t.Helper()
	return listenFrames(t, pod, etherType)
}

// listenFrames receives frames of an EtherType, or of all (ETH_P_ALL), in a pod.
func listenFrames(t *testing.T, pod *topology.Namespace, protocol uint16) int {
	t.Helper()
	fd := frameSocket(t, pod, topology.PodInterface, protocol)
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// frameSocket returns a packet socket at an interface that receives frames of an EtherType, none if it is 0. The caller
// closes it.
func frameSocket(t *testing.T, where *topology.Namespace, name string, protocol uint16) int {
	t.Helper()
	return within(t, where, func() (int, error) {
		link, err := net.InterfaceByName(name)
		if err != nil {
			return 0, err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return 0, err
		}
		return fd, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol<<8 | protocol>>8, Ifindex: link.Index})
	})
}

// receiveFrame waits for a frame. It returns nil at the timeout.
func receiveFrame(t *testing.T, fd int, wait time.Duration) []byte {
	t.Helper()
	frame, _ := receiveAny(t, fd, wait)
	return frame
}

// receiveAny also reports whether the kernel considers the frame as addressed to this interface.
func receiveAny(t *testing.T, fd int, wait time.Duration) (frame []byte, ours bool) {
	t.Helper()
	buffer := make([]byte, 2000)
	timeout := unix.NsecToTimeval(wait.Nanoseconds())
	must(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout))
	length, from, err := testlab.Receive(fd, buffer)
	if errors.Is(err, unix.EAGAIN) {
		return nil, false
	}
	must(t, err)
	return buffer[:length], from.(*unix.SockaddrLinklayer).Pkttype != unix.PACKET_OTHERHOST
}

func TestPacketSocketFramesLeaveOnTime(t *testing.T) {
	timing(t)
	lab := newFourPods(t)
	podA, podB := interfaceMAC(t, lab.PodA).String(), interfaceMAC(t, lab.PodB).String()
	neighbor := interfaceMAC(t, lab.others["a neighbor on node a"]).String()
	everybody := []string{"pod b", "another of node b", "a neighbor on node a"}
	for name, test := range map[string]struct {
		kind, mac string
		reaches   []string
		wire      int
	}{
		"SOCK_DGRAM to another node": {"dgram", podB, []string{"pod b"}, 1},
		"SOCK_RAW to another node":   {"raw", podB, []string{"pod b"}, 1},
		"SOCK_DGRAM to this node":    {"dgram", neighbor, []string{"a neighbor on node a"}, 0},
		"SOCK_RAW to this node":      {"raw", neighbor, []string{"a neighbor on node a"}, 0},
		"to a group of layer 2":      {"raw", "01:80:c2:00:00:20", everybody, 1},
		"to everybody":               {"dgram", "ff:ff:ff:ff:ff:ff", everybody, 1},
	} {
		t.Run(name, func(t *testing.T) {
			fds := map[string]int{}
			for where, pod := range lab.others {
				fds[where] = listenPacket(t, pod)
				if test.mac[:2] == "01" {
					ip(t, pod, "maddress", "add", test.mac, "dev", topology.PodInterface)
				}
			}
			before := counters(t, lab.client)
			began := time.Now()
			frames := lab.tunnelledFrames(t, "layer 2", test.wire, func() {
				sent := lab.sendTo(t, "--packet", test.kind, "--interface", topology.PodInterface, "--mac", test.mac,
					"--source-mac", podA, "--ethertype", strconv.Itoa(etherType), "50000:layer 2")
				for _, where := range test.reaches {
					frame := receiveFrame(t, fds[where], patience)
					if !bytes.HasSuffix(bytes.TrimRight(frame, "\x00"), []byte("layer 2")) ||
						net.HardwareAddr(frame[:6]).String() != test.mac || net.HardwareAddr(frame[6:12]).String() != podA {
						t.Errorf("%s got %q; the calls answered %v", where, frame, sent)
					}
				}
			})
			if took := time.Since(began); took < 50*time.Millisecond {
				t.Errorf("the last arrived after %v", took)
			}
			for _, frame := range frames {
				if ether := frame.Layer(layers.LayerTypeEthernet).(*layers.Ethernet); ether.EthernetType != etherType {
					t.Errorf("its EtherType is %s", ether.EthernetType)
				}
			}
			for where, fd := range fds {
				// Frames to an unknown address are flooded.
				if frame, ours := receiveAny(t, fd, 20*time.Millisecond); ours {
					t.Errorf("%s got another: %q", where, frame)
				}
			}
			if after := awaitSettled(t, lab.client); after.Sent-before.Sent != 1 || after.KernelPath != before.KernelPath {
				t.Errorf("counted %+v, before %+v", after, before)
			}
		})
	}
}

func TestFramesFollowStaticForwardingEntry(t *testing.T) {
	content(t)
	lab := newFourPods(t)
	podB := interfaceMAC(t, lab.PodB).String()
	added := exec.Command("bridge", "-n", lab.NodeA.Name(), "fdb", "replace", podB, "dev", topology.TunnelName, "dst",
		topology.NodeAddressB.String(), "self", "permanent")
	if output, err := added.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	there := listenPacket(t, lab.PodB)
	neighbor := listenPacket(t, lab.others["a neighbor on node a"])
	lab.sendTo(t, "--packet", "dgram", "--interface", topology.PodInterface, "--mac", podB, "--ethertype", strconv.Itoa(etherType),
		"0:to one")
	if frame := receiveFrame(t, there, patience); !bytes.Contains(frame, []byte("to one")) {
		t.Errorf("got %q", frame)
	}
	if frame := receiveFrame(t, neighbor, 50*time.Millisecond); frame != nil {
		t.Errorf("the neighbor got %q", frame)
	}
	if counted := awaitSettled(t, lab.client); counted.Sent != 1 || counted.CopiesSent != 0 {
		t.Errorf("counted %+v", counted)
	}
}

func TestPacketSocketErrorsMatchKernel(t *testing.T) {
	content(t)
	lab := newLab(t)
	lab.startDaemon(t)
	const (
		eperm    = 1
		enxio    = 6
		einval   = 22
		emsgsize = 90
	)
	podA, podB := interfaceMAC(t, lab.PodA).String(), interfaceMAC(t, lab.PodB).String()
	for name, test := range map[string]struct {
		arguments []string
		want      sendResult
	}{
		"from a foreign address":     {[]string{"--packet", "raw", "--source-mac", podB, "0:text"}, sendResult{-1, eperm}},
		"from no address":            {[]string{"--packet", "raw", "0:text"}, sendResult{-1, eperm}},
		"the longest frame":          {[]string{"--packet", "raw", "--source-mac", podA, "0:@1450"}, sendResult{1464, 0}},
		"one byte more":              {[]string{"--packet", "raw", "--source-mac", podA, "0:@1451"}, sendResult{-1, emsgsize}},
		"the longest without header": {[]string{"--packet", "dgram", "0:@1450"}, sendResult{1450, 0}},
		"one byte more without":      {[]string{"--packet", "dgram", "0:@1451"}, sendResult{-1, emsgsize}},
		"nothing but the header":     {[]string{"--packet", "raw", "--source-mac", podA, "0:"}, sendResult{14, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			got := lab.sendTo(t, append([]string{"--interface", topology.PodInterface, "--mac", podB, "--ethertype",
				strconv.Itoa(etherType)}, test.arguments...)...)
			if len(got) != 1 || got[0] != test.want {
				t.Errorf("the calls answered %v, want %v", got, test.want)
			}
		})
	}
	for name, test := range map[string]struct {
		text  string
		errno string
	}{
		"half a header":    {"raw-short", strconv.Itoa(einval)},
		"no interface":     {"raw-unbound", strconv.Itoa(enxio)},
		"no address to go": {"dgram-nowhere", strconv.Itoa(einval)},
	} {
		t.Run(name, func(t *testing.T) {
			command := exec.Command(program(t, "ktsn-test-send"), "--fault", test.text, "--interface", topology.PodInterface,
				"--mac", podB, "--source-mac", podA, "--ethertype", strconv.Itoa(etherType), "0:text")
			command.Env = lab.preloaded(t)
			var output bytes.Buffer
			command.Stdout = &output
			must(t, finish(t, start(t, lab.PodA, "ktsn-test-send", command)))
			if got := output.Bytes(); !bytes.HasSuffix(got, []byte(" -1 "+test.errno+"\n")) {
				t.Errorf("the call answered %q, want errno %s", got, test.errno)
			}
		})
	}
}

func TestPacketSocketVLANTagsTravelUnchanged(t *testing.T) {
	content(t)
	lab := newLab(t)
	_, client := lab.startDaemon(t)
	const tagged = 0x8100
	other := interfaceMAC(t, lab.PodB)
	// PCP 5, VLAN 7, then the EtherType and the text.
	const content = "\xa0\x07\x88\xb5in a tag"
	frame := lab.tunnelledFrames(t, "in a tag", 1, func() {
		lab.sendTo(t, "--packet", "dgram", "--interface", topology.PodInterface, "--mac", other.String(),
			"--ethertype", strconv.Itoa(tagged), "10000:"+content)
		awaitSettled(t, client)
	})[0]
	tag, ok := frame.Layer(layers.LayerTypeDot1Q).(*layers.Dot1Q)
	if !ok || tag.Priority != 5 || tag.VLANIdentifier != 7 || tag.Type != etherType {
		t.Errorf("the tag is %+v in %v", tag, frame)
	}
	t.Run("they count towards the tunnel's MTU", func(t *testing.T) {
		if sent := lab.sendTo(t, "--packet", "dgram", "--interface", topology.PodInterface, "--mac", other.String(),
			"--ethertype", strconv.Itoa(tagged), "0:@1450", "0:@1451"); sent[0].result != 1450 || sent[1].errno == 0 {
			t.Errorf("the calls answered %v", sent)
		}
	})
}
