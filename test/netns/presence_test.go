// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// nobodysTalker is an application without privileges; the kernel refuses it SO_TXTIME with CLOCK_TAI.
// environment nil is one without libktsn.
func nobodysTalker(t *testing.T, environment []string) *exec.Cmd {
	t.Helper()
	command := asNobody(exec.Command(publicCopy(t, "tsnperf"), "talker", "--quiet", "--clock", "tai",
		"--to", netip.AddrPortFrom(topology.PodAddressB, listenPort).String(), "--count", "20"))
	command.Env = environment
	return command
}

// preloadedForNobody is preloaded with a library that every user can read.
func (l *lab) preloadedForNobody(t *testing.T) []string {
	t.Helper()
	return append(l.preloaded(t), "LD_PRELOAD="+publicCopy(t, "libktsn.so"))
}

func TestWithoutDaemonKernelErrorsStay(t *testing.T) {
	content(t)
	lab := newLab(t)
	plain := start(t, lab.PodA, "talker", nobodysTalker(t, nil))
	errPlain := finish(t, plain)
	if errPlain == nil {
		t.Fatal("the kernel granted SO_TXTIME with CLOCK_TAI to nobody; this test has no meaning here")
	}
	begin := time.Now()
	preloaded := start(t, lab.PodA, "talker", nobodysTalker(t, lab.preloadedForNobody(t)))
	if err := finish(t, preloaded); err == nil || preloaded.Stderr() != plain.Stderr() {
		t.Errorf("with libktsn it says %q (%v), without %q", preloaded.Stderr(), err, plain.Stderr())
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %v to find that nobody is there", took)
	}
}

// listenApp listens like a ktsnd that never answers.
func listenApp(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	return listener
}
