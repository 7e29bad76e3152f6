// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

const (
	isochronManagementPort = 5000
	isochronDataPort       = 6000
	isochronMessages       = 20
	// isochronHeaderBytes is the size of the header before a value of its management protocol.
	isochronHeaderBytes = 16
)

// TestIsochronSendsThroughLibktsn runs Debian's isochron, which sends with SO_TXTIME. Its own receiver needs a clock in
// the network card and does not start without one. Therefore the test answers the sender's requests (link state,
// received messages): without an answer this version of the sender crashes with a null pointer, with or without
// libktsn.
func TestIsochronSendsThroughLibktsn(t *testing.T) {
	content(t)
	isochron, err := exec.LookPath("isochron")
	if err != nil {
		testlab.Missing(t, "isochron is missing; scripts/install-deps.sh test")
	}
	for name, test := range map[string]struct {
		arguments []string
		// listen returns the payload of the next message, nil at the timeout.
		listen func(*lab, *testing.T) func(time.Duration) []byte
	}{
		"UDP": {[]string{"--l4", "--ip-destination", topology.PodAddressB.String()}, (*lab).listenForIsochronUDP},
		"Ethernet": {[]string{"--l2", "--dmac", "ff:ff:ff:ff:ff:ff", "--etype", strconv.Itoa(etherType)},
			(*lab).listenForIsochronEthernet},
		"UDP, deadlines": {[]string{"--l4", "--ip-destination", topology.PodAddressB.String(), "--deadline"},
			(*lab).listenForIsochronUDP},
	} {
		t.Run(name, func(t *testing.T) {
			lab := newLab(t)
			_, client := lab.startDaemon(t)
			receive := test.listen(lab, t)
			lab.answerIsochron(t)
			// Without the right to set the clock, since it would set the machine's TAI offset:
			command := exec.Command("setpriv", append([]string{"--bounding-set", "-sys_time", isochron, "send",
				"--interface", topology.PodInterface, "--cycle-time", "0.005", "--frame-size", "100",
				"--num-frames", strconv.Itoa(isochronMessages), "--txtime", "--omit-sync", "--no-ts",
				"--client", topology.PodAddressB.String(), "--output-file", "/dev/null"}, test.arguments...)...)
			command.Env = lab.preloaded(t)
			must(t, finish(t, start(t, lab.PodA, "isochron", command)))
			checkIsochron(t, receive)
			if now := awaitSettled(t, client); now.Taken != isochronMessages || now.Sent != isochronMessages {
				t.Errorf("ktsnd took %d messages and sent %d, want %d", now.Taken, now.Sent, isochronMessages)
			}
		})
	}
}

// checkIsochron parses the beginning of isochron's messages in network order: the transmit time, the sender's wake-up
// time, and the number. It does not check that the sender woke up in time.
func checkIsochron(t *testing.T, receive func(time.Duration) []byte) {
	t.Helper()
	const headerBytes = 20
	const cycle = 5 * time.Millisecond
	var first uint64
	for number := uint32(1); number <= isochronMessages; number++ {
		payload := receive(patience)
		if len(payload) < headerBytes {
			t.Fatalf("got % x for message %d", payload, number)
		}
		due := binary.BigEndian.Uint64(payload)
		if number == 1 {
			first = due
		}
		if got := binary.BigEndian.Uint32(payload[16:]); got != number || due != first+uint64(number-1)*uint64(cycle) {
			t.Errorf("message %d arrived in place of %d; due %v after the first", got, number, time.Duration(due-first))
		}
	}
	if more := receive(afterTheLast); more != nil {
		t.Errorf("% x arrived after the last", more)
	}
}

func (l *lab) listenForIsochronUDP(t *testing.T) func(time.Duration) []byte {
	t.Helper()
	conn := listen(t, l.PodB, "udp4", netip.AddrPortFrom(topology.PodAddressB, isochronDataPort))
	return func(wait time.Duration) []byte {
		buffer := make([]byte, 2000)
		_ = conn.SetReadDeadline(time.Now().Add(wait))
		n, err := conn.Read(buffer)
		if err != nil {
			return nil
		}
		return buffer[:n]
	}
}

func (l *lab) listenForIsochronEthernet(t *testing.T) func(time.Duration) []byte {
	t.Helper()
	const headerBytes = 14
	fd := listenPacket(t, l.PodB)
	return func(wait time.Duration) []byte {
		frame := receiveFrame(t, fd, wait)
		if len(frame) < headerBytes {
			return nil
		}
		return frame[headerBytes:]
	}
}

// answerIsochron implements the part of isochron's management protocol that its sender uses, in pod b.
func (l *lab) answerIsochron(t *testing.T) {
	t.Helper()
	listener := within(t, l.PodB, func() (net.Listener, error) {
		return net.Listen("tcp4", netip.AddrPortFrom(topology.PodAddressB, isochronManagementPort).String())
	})
	done := make(chan error, 1)
	go func() { done <- serveIsochron(listener) }()
	t.Cleanup(func() {
		listener.Close()
		if err := <-done; err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	})
}

func serveIsochron(listener net.Listener) error {
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	for {
		request := make([]byte, isochronHeaderBytes)
		if _, err := io.ReadFull(conn, request); err != nil {
			return err
		}
		value := make([]byte, min(binary.BigEndian.Uint32(request[12:]), 1024))
		if _, err := io.ReadFull(conn, value); err != nil {
			return err
		}
		if _, err := conn.Write(isochronAnswer(request, value)); err != nil {
			return err
		}
	}
}

// isochronAnswer returns the answer to a request. Both are a header (version, action, reserved, number of following
// bytes) and one entry: type, subject, size of its value, value. Values that the sender sets are echoed.
func isochronAnswer(request, value []byte) []byte {
	const (
		version, response = 2, 2
		logs, linkState   = 0, 42
		running           = 2
		logVersion        = 4
	)
	var behind []byte
	about := binary.BigEndian.Uint16(request[10:])
	switch about {
	case linkState:
		value = []byte{running, 0, 0, 0}
	case logs: // without entries
		behind = binary.BigEndian.AppendUint32(behind, logVersion)
		behind = binary.BigEndian.AppendUint32(behind, 0)
	}
	answer := []byte{version, response, 0, 0}
	answer = binary.BigEndian.AppendUint32(answer, uint32(isochronHeaderBytes/2+len(value)))
	answer = binary.BigEndian.AppendUint16(answer, 0)
	answer = binary.BigEndian.AppendUint16(answer, about)
	answer = binary.BigEndian.AppendUint32(answer, uint32(len(value)))
	return append(append(answer, value...), behind...)
}
