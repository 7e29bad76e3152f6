// SPDX-License-Identifier: Apache-2.0

//go:build insidevm

package netns_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab/podnetworks"
)

// TestKernelSCTPOverLinks has the kernels of two pods have an association over a link, whose receiver sees the sender's address.
func TestKernelSCTPOverLinks(t *testing.T) {
	if output, err := exec.Command("modprobe", "sctp").CombinedOutput(); err != nil {
		t.Fatalf("modprobe sctp: %v: %s", err, output)
	}
	n, err := podnetworks.Create(t.Context(), podnetworks.Wanted{Networks: []string{podnetworks.Link}, LinkMTU: 1500, Pods: 1,
		Programs: filepath.Dir(program(t, "ktsnd"))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	near, far := n.Near(podnetworks.Link), n.Far(podnetworks.Link, 1)[0]
	listener := sctpSocket(t, far)
	if err := unix.Listen(int(listener.Fd()), 1); err != nil {
		t.Fatal(err)
	}
	sender := sctpSocket(t, near)
	address, err := unix.Getsockname(int(listener.Fd()))
	if err == nil {
		err = unix.Connect(int(sender.Fd()), address)
	}
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	fd, from, err := unix.Accept(int(listener.Fd()))
	if err != nil {
		t.Fatalf("accept: %v", err)
	}
	accepted := os.NewFile(uintptr(fd), "association")
	defer accepted.Close()
	if seen, ok := from.(*unix.SockaddrInet4); !ok || netip.AddrFrom4(seen.Addr) != near.Address {
		t.Errorf("the association is from %v", from)
	}
	checkAssociation(t, sender, accepted)
}

// sctpSocket is one of an end, bound to its address.
func sctpSocket(t *testing.T, end *podnetworks.End) *os.File {
	t.Helper()
	var socket *os.File
	err := end.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP)
		if err != nil {
			return fmt.Errorf("make a socket of SCTP: %w", err)
		}
		socket = os.NewFile(uintptr(fd), "socket")
		timeout := unix.Timeval{Sec: 60}
		return errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout),
			unix.Bind(fd, &unix.SockaddrInet4{Addr: end.Address.As4()}))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return socket
}

// checkAssociation sends 100 messages that are larger than a packet.
func checkAssociation(t *testing.T, sender, receiver *os.File) {
	t.Helper()
	const messages, size = 100, 10_000
	sent := make(chan error, 1)
	go func() {
		var err error
		for i := range messages {
			_, writeErr := sender.Write(bytes.Repeat([]byte{byte(i)}, size))
			err = errors.Join(err, writeErr)
		}
		sent <- err
	}()
	got := make([]byte, messages*size)
	if _, err := io.ReadFull(receiver, got); err != nil {
		t.Fatalf("receive: %v", err)
	}
	for i := range messages {
		if !bytes.Equal(got[i*size:(i+1)*size], bytes.Repeat([]byte{byte(i)}, size)) {
			t.Fatalf("message %d came changed", i)
		}
	}
	if err := <-sent; err != nil {
		t.Errorf("send: %v", err)
	}
}
