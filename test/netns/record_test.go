// SPDX-License-Identifier: Apache-2.0

//go:build record

package netns_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// recording is a file of messages in the order of forwarding. Each has its length in four bytes, little endian, a byte
// that is 1 for the connecting side, the number of descriptors, two zero bytes, and the message.
type recording struct {
	mu    sync.Mutex
	bytes []byte
}

func (r *recording) add(m message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := byte(0)
	if m.asked {
		asked = 1
	}
	r.bytes = binary.LittleEndian.AppendUint32(r.bytes, uint32(len(m.data))) //nolint:gosec // of a message
	r.bytes = append(r.bytes, asked, byte(len(m.fds)), 0, 0)
	r.bytes = append(r.bytes, m.data...)
}

func (r *recording) write(t *testing.T, file string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	must(t, os.WriteFile(file, r.bytes, 0o644))
	t.Logf("%s: %d bytes", file, len(r.bytes))
}

// ringOf maps the ring in a reply to HELLO. It returns nil for other messages.
func ringOf(m message) []byte {
	const replyBytes, ringBytesOffset, hello = 40, 32, 1
	if m.asked || len(m.data) != replyBytes || len(m.fds) != 2 || binary.LittleEndian.Uint16(m.data[6:]) != hello {
		return nil
	}
	length := binary.LittleEndian.Uint64(m.data[ringBytesOffset:])
	ring, err := unix.Mmap(m.fds[0], 0, int(length), unix.PROT_READ, unix.MAP_SHARED) //nolint:gosec // of a ring
	if err != nil {
		return nil
	}
	return ring
}

// TestRecord (`make record`) writes the bytes that the programs in $KTSN_BIN_DIR exchange into the folder $KTSN_RECORD: an application
// with a timed socket and a message that waits, and a hand-over of both.
func TestRecord(t *testing.T) {
	folder := os.Getenv("KTSN_RECORD")
	must(t, os.MkdirAll(folder, 0o755))
	lab := newLab(t)
	var application, handOver recording
	var ring []byte
	direct := *lab
	direct.socket = filepath.Join(lab.dir, "real.sock")
	daemon, client := direct.startDaemon(t, "--slots", "64")
	must(t, client.PodNameSet(t.Context(), identity, "factory/axis-1"))
	ready := make(chan struct{})
	startRelay(t, lab.socket, direct.socket, func(m message) bool {
		application.add(m)
		if mapped := ringOf(m); mapped != nil {
			ring = mapped
			close(ready)
		}
		return true
	})
	// It holds the socket for longer than the rest of the test takes.
	waiting := exec.Command(program(t, "ktsn-test-send"), "--hold", "30000",
		"--to", topology.PodAddressB.String(), "--port", strconv.Itoa(listenPort), "50000000:recorded")
	waiting.Env = lab.preloaded(t)
	start(t, lab.PodA, "ktsn-test-send", waiting)
	<-ready
	awaitCounters(t, client, "a message waits", func(c control.Counters) bool { return c.Taken == 1 })
	lab.control = filepath.Join(lab.dir, "relayed.sock")
	startRelay(t, lab.control, direct.control, func(m message) bool {
		handOver.add(m)
		return true
	})
	after := start(t, lab.NodeA, "ktsnd", exec.Command(program(t, "ktsnd"), append(lab.daemonArguments(), "--slots", "64", "--take-over")...))
	must(t, finish(t, daemon))
	awaitLog(t, after, "took over")
	application.write(t, filepath.Join(folder, "application.bin"))
	handOver.write(t, filepath.Join(folder, "hand-over.bin"))
	// Free slots after the message are all 0.
	memory := recording{bytes: bytes.TrimRight(ring, "\x00")}
	memory.write(t, filepath.Join(folder, "ring.bin"))
}
