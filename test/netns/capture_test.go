// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// unseenCount is the number of datagrams that each program sends past libktsn.so.
const unseenCount = 20

// unseenBy returns the counters of pod a's interface.
func unseenBy(t *testing.T, lab *lab) capture.Count {
	t.Helper()
	count, err := capture.ReadIn(lab.PodA.Path(), topology.PodInterface)
	must(t, err)
	return count
}

// staticSender returns a statically linked ktsn-test-send.
func staticSender(t *testing.T) *exec.Cmd {
	t.Helper()
	return exec.Command(compile(t, "gcc", "static-send", "test_send.c", "-static"), sendArguments(unseenCount)...)
}

// sendArguments makes ktsn-test-send send datagrams 200 ms ahead of their times.
func sendArguments(count int) []string {
	arguments := append([]string{"--clock", "monotonic"}, connectedTo(atPodB)...)
	for range count {
		arguments = append(arguments, "200000:past")
	}
	return arguments
}

// foreignCall is Python code that calls sendmsg of the C library directly.
func foreignCall(t *testing.T, kind string, amount int) *exec.Cmd {
	t.Helper()
	return exec.Command(python(t), "testdata/unseen.py", kind, topology.PodAddressB.String(), strconv.Itoa(listenPort), strconv.Itoa(amount))
}

// goSends makes this test binary, a Go program, run TestGoProgramSends.
const goSends = "KTSN_TEST_GO_SENDS_TO"

func goSender(t *testing.T) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	command := exec.Command(self, "-test.run", "^TestGoProgramSends$")
	command.Env = []string{goSends + "=" + netip.AddrPortFrom(topology.PodAddressB, listenPort).String()}
	return command
}

// TestGoProgramSends is not a test but the program that goSender starts.
func TestGoProgramSends(t *testing.T) {
	content(t)
	to, err := netip.ParseAddrPort(os.Getenv(goSends))
	if err != nil {
		return
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	must(t, err)
	defer unix.Close(fd)
	must(t, testlab.EnableTxtime(fd, unix.CLOCK_MONOTONIC))
	for range unseenCount {
		at := testlab.TxtimeMessage(testlab.ClockNow(unix.CLOCK_MONOTONIC) + 2e8)
		must(t, unix.Sendmsg(fd, []byte("past"), at, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}, 0))
	}
}

// withoutLibrary returns a program of a container that the annotation excludes.
func withoutLibrary(t *testing.T) *exec.Cmd {
	t.Helper()
	command := exec.Command(program(t, "ktsn-test-send"), sendArguments(unseenCount)...)
	command.Env = []string{}
	return command
}

// sendUntimed sends a datagram without a time and waits for it, so that the neighbour is resolved.
func (l *lab) sendUntimed(t *testing.T, listener *net.UDPConn, text string) {
	t.Helper()
	command := exec.Command(program(t, "ktsn-test-send"), append(connectedTo(atPodB), "-:"+text)...)
	must(t, finish(t, start(t, l.PodA, "ktsn-test-send", command)))
	buffer := make([]byte, 100)
	_ = listener.SetReadDeadline(time.Now().Add(patience))
	length, err := listener.Read(buffer)
	if err != nil || string(buffer[:length]) != text {
		t.Fatalf("a datagram without a time: got %q, %v; want %q", buffer[:length], err, text)
	}
}

func TestUnseenMessagesDoNotLeaveEarly(t *testing.T) {
	timing(t)
	for name, test := range map[string]struct {
		command func(*testing.T) *exec.Cmd
		program string
	}{
		"a static program":               {staticSender, "static-send"},
		"a Go program":                   {goSender, "netns.test"},
		"a call past the preloaded one":  {func(t *testing.T) *exec.Cmd { return foreignCall(t, "udp", unseenCount) }, "python3"},
		"the same, of a packet socket":   {func(t *testing.T) *exec.Cmd { return foreignCall(t, "packet", unseenCount) }, "python3"},
		"one without the library at all": {withoutLibrary, "ktsn-test-send"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab := newLab(t)
			_, client := lab.startDaemon(t)
			listener, frames := lab.listenForTexts(t), listenPacket(t, lab.PodB)
			lab.sendUntimed(t, listener, "first")
			command := test.command(t)
			if command.Env == nil {
				command.Env = lab.preloaded(t)
			}
			running := start(t, lab.PodA, test.program, command)
			if err := finish(t, running); err != nil {
				t.Fatalf("%v: %s", err, running.Stderr())
			}
			count := unseenBy(t, lab)
			if count.RefusedSum() != unseenCount || len(count.Programs) != 1 || count.Programs[0].Refused != unseenCount ||
				!strings.HasPrefix(count.Programs[0].Name, test.program) || int(count.Programs[0].PID) != command.Process.Pid {
				t.Errorf("unseen are %+v, want %d of %s, process %d", count, unseenCount, test.program, command.Process.Pid)
			}
			if awaitSettled(t, client).Taken != 0 {
				t.Error("ktsnd took some")
			}
			if frame := receiveFrame(t, frames, 300*time.Millisecond); frame != nil {
				t.Error("a frame left early")
			}
			// Other programs of the pod continue.
			lab.sendUntimed(t, listener, "last")
			if got := receivedTexts(t, listener); len(got) > 0 {
				t.Errorf("arrived: %q, want nothing", got)
			}
			checkShown(t, lab, test.program)
		})
	}
}

// checkShown checks that `ktsn node capture` shows the program.
func checkShown(t *testing.T, lab *lab, sender string) {
	t.Helper()
	output, err := exec.Command(program(t, "ktsn"), "node", "capture", "--control", lab.control).CombinedOutput()
	if err != nil || !strings.Contains(string(output), strconv.Itoa(unseenCount)) || !strings.Contains(string(output), sender) {
		t.Errorf("no %d of %s in (%v)\n%s", unseenCount, sender, err, output)
	}
}

func TestLibraryMessagesAreNotDropped(t *testing.T) {
	content(t)
	lab := newLab(t)
	_, client := lab.startDaemon(t)
	checkAllArrived(t, lab.run(t, traffic{count: 20, payloadBytes: 64, environment: lab.preloaded(t)}), 20)
	if taken, count := awaitSettled(t, client).Taken, unseenBy(t, lab); taken != 20 || !count.Attached || count.RefusedSum() != 0 {
		t.Errorf("ktsnd took %d of 20 messages, unseen are %+v", taken, count)
	}
}

// TestPacedStreamIsNotDropped checks TCP pacing, which uses the same field of a packet as a transmit time.
func TestPacedStreamIsNotDropped(t *testing.T) {
	content(t)
	const bytes = 200_000
	lab := newLab(t)
	received := make(chan int64, 1)
	server := within(t, lab.PodB, func() (net.Listener, error) {
		return (&net.ListenConfig{}).Listen(context.Background(), "tcp4", netip.AddrPortFrom(topology.PodAddressB, listenPort).String())
	})
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		connection, err := server.Accept()
		if err != nil {
			received <- 0
			return
		}
		defer connection.Close()
		length, _ := io.Copy(io.Discard, connection)
		received <- length
	}()
	must(t, finish(t, start(t, lab.PodA, "python3", foreignCall(t, "tcp", bytes))))
	if got := <-received; got != bytes {
		t.Errorf("%d of %d bytes arrived", got, bytes)
	}
	if count := unseenBy(t, lab); !count.Attached || count.RefusedSum() != 0 {
		t.Errorf("unseen are %+v, want none", count)
	}
}

func TestEndpointWithPassLetsTimedFramesPass(t *testing.T) {
	content(t)
	lab := newLabWithPass(t)
	listener := lab.listenForTexts(t)
	must(t, finish(t, start(t, lab.PodA, "static-send", staticSender(t))))
	if got := receivedTexts(t, listener); !slices.Equal(got, slices.Repeat([]string{"past"}, unseenCount)) {
		t.Errorf("arrived: %q", got)
	}
	if count := unseenBy(t, lab); count.Attached {
		t.Errorf("its interface has the filter: %+v", count)
	}
}

func TestCountsOfDeletedInterfaceFail(t *testing.T) {
	content(t)
	lab := newLab(t)
	if _, err := capture.ReadIn(lab.PodA.Path(), "tsn9"); !errors.Is(err, capture.ErrGone) {
		t.Errorf("of an interface that there is not: %v", err)
	}
	if _, err := capture.ReadIn("/run/netns/ktsn-none", topology.PodInterface); !errors.Is(err, capture.ErrGone) {
		t.Errorf("of a network namespace that there is not: %v", err)
	}
}
