// SPDX-License-Identifier: Apache-2.0

package wanlink

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// line returns a network namespace with two cables whose inner ends Run connects.
func line(t *testing.T, delay time.Duration) (namespace string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes a network namespace")
	}
	name := fmt.Sprintf("ktsn-wanlink-%d", os.Getpid())
	ip(t, "netns", "add", name)
	t.Cleanup(func() { ip(t, "netns", "del", name) })
	for _, side := range []string{"near", "far"} {
		ip(t, "-n", name, "link", "add", side, "type", "veth", "peer", "name", side+"-in")
		ip(t, "-n", name, "link", "set", side, "up")
		ip(t, "-n", name, "link", "set", side+"-in", "up")
	}
	awaitCarriers(t, name)
	namespace = filepath.Join("/run/netns", name)
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- Run(namespace, "near-in", "far-in", delay, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	return namespace
}

// awaitCarriers waits until all four interfaces send: the kernel notices a carrier up to a second late, and drops
// frames until then.
func awaitCarriers(t *testing.T, namespace string) {
	t.Helper()
	testlab.Eventually(t, 20*time.Second, 10*time.Millisecond, func() error {
		shown, err := exec.Command("ip", "-n", namespace, "-oneline", "link", "show", "type", "veth").CombinedOutput()
		if err == nil && bytes.Count(shown, []byte("state UP")) == 4 {
			return nil
		}
		return fmt.Errorf("the cables do not carry: %v: %s", err, shown)
	})
}

func ip(t *testing.T, arguments ...string) {
	t.Helper()
	if output, err := exec.Command("ip", arguments...).CombinedOutput(); err != nil {
		t.Fatalf("ip %q: %v: %s", arguments, err, output)
	}
}

// end opens a socket at the outer end of a cable. Its reads time out after 20 seconds.
func end(t *testing.T, namespace, name string) int {
	t.Helper()
	socket := -1
	err := ns.WithNetNSPath(namespace, func(ns.NetNS) (err error) {
		socket, err = open(name)
		return err
	})
	if err == nil {
		err = unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 20})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(socket) })
	return socket
}

// numbered returns a broadcast frame of an experimental protocol.
func numbered(number byte) []byte {
	frame := append(bytes.Repeat([]byte{0xff}, 6), 2, 0, 0, 0, 0, 1, 0x88, 0xb5, number)
	return append(frame, make([]byte, 60-len(frame))...)
}

// next returns the number of the next frame of that protocol.
func next(t *testing.T, socket int) byte {
	t.Helper()
	for {
		frame := make([]byte, maxFrame)
		size, err := testlab.Read(socket, frame)
		if err != nil {
			t.Fatalf("no frame comes: %v", err)
		}
		if size > 14 && frame[12] == 0x88 && frame[13] == 0xb5 {
			return frame[14]
		}
	}
}

func TestDelayKeepsOrder(t *testing.T) {
	const delay = 50 * time.Millisecond
	namespace := line(t, delay)
	near, far := end(t, namespace, "near"), end(t, namespace, "far")
	for _, way := range []struct{ from, to int }{{near, far}, {far, near}} {
		began := time.Now()
		for number := range byte(10) {
			if _, err := unix.Write(way.from, numbered(number)); err != nil {
				t.Fatal(err)
			}
		}
		for number := range byte(10) {
			if got := next(t, way.to); got != number {
				t.Fatalf("frame %d comes, want %d", got, number)
			}
			if took := time.Since(began); took < delay {
				t.Errorf("frame %d comes after %v, want %v", number, took, delay)
			}
		}
	}
}

func TestMendedLineCarriesFrames(t *testing.T) {
	namespace := line(t, time.Millisecond)
	near, far := end(t, namespace, "near"), end(t, namespace, "far")
	name := filepath.Base(namespace)
	ip(t, "-n", name, "link", "set", "far-in", "down")
	if _, err := unix.Write(near, numbered(1)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond) // until the lost frame has been on the line
	ip(t, "-n", name, "link", "set", "far-in", "up")
	time.Sleep(20 * time.Millisecond) // until the cable carries
	if _, err := unix.Write(near, numbered(2)); err != nil {
		t.Fatal(err)
	}
	if got := next(t, far); got != 2 {
		t.Errorf("frame %d comes, want 2", got)
	}
}
