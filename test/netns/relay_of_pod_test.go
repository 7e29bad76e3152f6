// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"encoding/binary"
	"errors"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// What of datapath/ring/app_protocol.h a client says that asks for a ring.
const (
	appMagic        = 0x6e73746b
	appVersion      = 6
	appHello        = 1
	appUntimed      = 1
	appRequestBytes = 72
	appReplyBytes   = 40
)

// clientOf connects to pod a's application socket from a network namespace.
func (l *lab) clientOf(t *testing.T, from *topology.Namespace) int {
	t.Helper()
	var fd int
	if err := from.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return unix.Connect(fd, &unix.SockaddrUnix{Name: l.socket})
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// helloWith asks for a ring, and returns how ktsnd answers. ECONNRESET: it does not.
func helloWith(t *testing.T, fd int, flags byte) error {
	t.Helper()
	request := binary.NativeEndian.AppendUint32(nil, appMagic)
	request = binary.NativeEndian.AppendUint16(request, appVersion)
	request = binary.NativeEndian.AppendUint16(request, appHello)
	request = append(request, 0, 0, 0, 0, 0, flags)
	if _, err := unix.Write(fd, append(request, make([]byte, appRequestBytes-len(request))...)); err != nil {
		return unix.ECONNRESET
	}
	reply := make([]byte, appReplyBytes)
	count, err := unix.Read(fd, reply)
	if err != nil || count != appReplyBytes {
		return unix.ECONNRESET
	}
	if status := int32(binary.NativeEndian.Uint32(reply[8:])); status != 0 {
		return syscall.Errno(-status)
	}
	return nil
}

// connectionsUse has a program of pod a use up the connections that a pod may have.
func (l *lab) connectionsUse(t *testing.T) (used int) {
	t.Helper()
	for {
		// The first answer comes when it is known whether it may be there.
		if err := helloWith(t, l.clientOf(t, l.PodA), 0); errors.Is(err, unix.ECONNRESET) {
			return used
		}
		used++
	}
}

func TestOnlyRelayGetsUntimedRing(t *testing.T) {
	content(t)
	lab := newLab(t)
	lab.startDaemon(t)
	if err := helloWith(t, lab.clientOf(t, lab.PodA), appUntimed); !errors.Is(err, unix.EPERM) {
		t.Errorf("a program of the pod: %v", err)
	}
	if err := helloWith(t, lab.clientOf(t, lab.PodA), 0); err != nil {
		t.Errorf("a program of the pod, with a timed ring: %v", err)
	}
	if err := helloWith(t, lab.clientOf(t, lab.NodeA), appUntimed); err != nil {
		t.Errorf("a program of the node: %v", err)
	}
}

func TestRelayConnectionIsReserved(t *testing.T) {
	content(t)
	rig := newCaptureRig(t)
	daemon, _ := rig.startDaemon(t, "--pod-processes", "8")
	if used := rig.connectionsUse(t); used != 8 {
		t.Fatalf("it gets %d connections", used)
	}
	there := listenFrames(t, rig.PodB, carriedEtherType)
	// The successor knows which connections are whose.
	for _, when := range []string{"at first", "with the successor"} {
		rig.startRelay(t)
		rig.awaitHeartbeat(t, rig.lastBeat(t))
		rig.capture(t, rig.frame(rig.podA, when))
		if text := arrivedText(t, there); text != when {
			t.Errorf("%q arrives", text)
		}
		if when != "at first" {
			return
		}
		rig.takeOver(t, daemon, "--pod-processes", "8")
		if used := rig.connectionsUse(t); used != 0 {
			t.Errorf("it gets %d connections more", used)
		}
		kill(t, rig.relay)
	}
}
