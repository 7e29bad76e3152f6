// SPDX-License-Identifier: Apache-2.0

package tsnperf

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// talk starts a talker without transmit times that sends to a socket that nobody reads. The returned function reads its
// records after its end.
func talk(t *testing.T, arguments ...string) (talker *exec.Cmd, records func() []Sent) {
	t.Helper()
	return talkTimed(t, append(arguments, "--no-txtime")...)
}

// talkTimed is talk with transmit times.
func talkTimed(t *testing.T, arguments ...string) (talker *exec.Cmd, records func() []Sent) {
	t.Helper()
	nobody, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nobody.Close() })
	file := filepath.Join(t.TempDir(), "sent.csv")
	talker = exec.Command(testlab.Program(t, "tsnperf"), append([]string{"talker", "--quiet", "--to", nobody.LocalAddr().String(),
		"--csv", file}, arguments...)...)
	talker.Stderr = os.Stderr
	if err := talker.Start(); err != nil {
		t.Fatal(err)
	}
	return talker, func() []Sent {
		if err := talker.Wait(); err != nil {
			t.Fatal(err)
		}
		csv, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer csv.Close()
		sent, err := ReadTalker(csv)
		if err != nil {
			t.Fatal(err)
		}
		return sent
	}
}

func TestTransmitTimesFollowCycle(t *testing.T) {
	_, records := talk(t, "--cycle", "1ms", "--offset", "150us", "--count", "20")
	sent := records()
	if len(sent) != 20 {
		t.Fatalf("%d messages were sent, want 20", len(sent))
	}
	for i, message := range sent {
		if message.Txtime%1_000_000 != 150_000 || message.Txtime != sent[0].Txtime+int64(i)*1_000_000 {
			t.Errorf("message %d has the transmit time %d", i, message.Txtime)
		}
	}
}

// TestSpinningTalkerWakesBeforeSending: no message is sent before its time, and a talker that only sleeps has no
// wake-up before it.
func TestSpinningTalkerWakesBeforeSending(t *testing.T) {
	const spin = 500_000
	for name, c := range map[string]struct {
		talk      func(*testing.T, ...string) (*exec.Cmd, func() []Sent)
		lead      int64
		arguments []string
	}{
		"at the transmit time": {talk, 0, nil},
		"a lead before it":     {talkTimed, 3_000_000, []string{"--clock", "monotonic", "--lead", "3ms"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, records := c.talk(t, append(c.arguments, "--cycle", "2ms", "--count", "200", "--spin", "500us")...)
			ahead := 0
			for _, message := range records() {
				due := message.Txtime - c.lead
				if message.Wakeup < due-spin || message.SendStart < max(due, message.Wakeup) {
					t.Fatalf("a message due at %d is %+v", due, message)
				}
				if message.Wakeup < due {
					ahead++
				}
			}
			if ahead == 0 {
				t.Error("the talker never was awake before it had to send")
			}
		})
	}
}

func TestCPUTime(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cpu.csv")
	talker, records := talk(t, "--cycle", "2ms", "--count", "100", "--spin", "1ms", "--cpu-time", file)
	if sent := records(); len(sent) != 100 {
		t.Fatalf("%d messages were sent, want 100", len(sent))
	}
	text, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	used, err := ReadCPUTime(text)
	whole := talker.ProcessState.UserTime() + talker.ProcessState.SystemTime()
	if err != nil || used <= 0 || used > whole {
		t.Errorf("the run took %v of the processor, and the program %v: %v", used, whole, err)
	}
}

func TestFloodWithSpinIsRejected(t *testing.T) {
	output, err := exec.Command(testlab.Program(t, "tsnperf"), "talker", "--to", "127.0.0.1:9", "--flood", "--spin", "1us").CombinedOutput()
	if err == nil || !strings.Contains(string(output), "--spin has no effect with --flood") || strings.Count(string(output), "\n") != 1 {
		t.Errorf("it ended with %v and said %q", err, output)
	}
}

func TestSocketsTakeTurns(t *testing.T) {
	listener, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	const sockets, messages = 60, 180 // fewer than the buffer of a socket holds
	talker := exec.Command(testlab.Program(t, "tsnperf"), "talker", "--quiet", "--no-txtime", "--to", listener.LocalAddr().String(), "--sockets", "60",
		"--count", "180", "--cycle", "100us")
	talker.Stderr = os.Stderr
	if err := talker.Start(); err != nil {
		t.Fatal(err)
	}
	_ = listener.SetReadDeadline(time.Now().Add(20 * time.Second))
	var ports []string
	for buffer := make([]byte, 100); len(ports) < messages; {
		_, from, err := listener.ReadFrom(buffer)
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, from.String())
	}
	if err := talker.Wait(); err != nil {
		t.Fatal(err)
	}
	different := map[string]bool{}
	for i, port := range ports {
		different[port] = true
		if i >= sockets && port != ports[i-sockets] {
			t.Fatalf("message %d came from %s, and the one %d before from %s", i, port, sockets, ports[i-sockets])
		}
	}
	if len(different) != sockets {
		t.Errorf("%d sockets, want %d", len(different), sockets)
	}
}

// TestPauseDelaysDueMessages: latency counts from the planned time, so the delay of a pause is in every due message
// (coordinated omission).
func TestPauseDelaysDueMessages(t *testing.T) {
	const pause = 300 * time.Millisecond
	talker, records := talk(t, "--cycle", "1ms", "--count", "2500", "--start", "+100ms")
	time.Sleep(400 * time.Millisecond)
	if err := talker.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(pause)
	if err := talker.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	sent := records()
	if len(sent) != 2500 {
		t.Fatalf("%d messages were sent, want all 2500", len(sent))
	}
	late := 0
	for i, message := range sent {
		if message.Txtime != sent[0].Txtime+int64(i)*1_000_000 {
			t.Fatalf("the plan of message %d moved to %d", i, message.Txtime)
		}
		if message.SendStart-message.Txtime > time.Millisecond.Nanoseconds() {
			late++
		}
	}
	if late < int(pause/time.Millisecond)-10 {
		t.Errorf("%d messages are late, and %v of messages were due during the pause", late, pause)
	}
}

// checkFlood checks that messages follow each other, each with a time that did not go back.
func checkFlood(t *testing.T, sent []Sent) {
	t.Helper()
	for i, message := range sent {
		if message.Sequence != uint32(i) || message.Errno != 0 || message.Txtime != message.Wakeup || message.Wakeup > message.SendStart ||
			(i > 0 && message.Wakeup < sent[i-1].SendEnd) {
			t.Fatalf("message %d is %+v", i, message)
		}
	}
}

func TestFloodEndsAfterItsCount(t *testing.T) {
	_, records := talk(t, "--flood", "--count", "5000", "--size", "1400")
	sent := records()
	if len(sent) != 5000 {
		t.Errorf("%d messages were sent, want 5000", len(sent))
	}
	checkFlood(t, sent)
}

func TestFloodEndsAfterItsTime(t *testing.T) {
	_, records := talk(t, "--flood", "--count", "100000000", "--for", "50ms")
	sent := records()
	checkFlood(t, sent)
	if last := sent[len(sent)-1]; last.Txtime-sent[0].Txtime >= (50 * time.Millisecond).Nanoseconds() {
		t.Errorf("%d messages, the last due %d ns behind the first", len(sent), last.Txtime-sent[0].Txtime)
	}
}

func TestFloodEndsAtSignal(t *testing.T) {
	const most = 100_000_000
	talker, records := talk(t, "--flood", "--count", "100000000")
	time.Sleep(600 * time.Millisecond)
	if err := talker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	sent := records()
	if len(sent) == 0 || len(sent) == most {
		t.Errorf("%d messages were sent", len(sent))
	}
	checkFlood(t, sent)
}

func TestOffsetOutsideCycleIsRejected(t *testing.T) {
	output, err := exec.Command(testlab.Program(t, "tsnperf"), "talker", "--to", "127.0.0.1:9", "--cycle", "1ms", "--offset", "1ms").CombinedOutput()
	if err == nil || !strings.Contains(string(output), "--offset of 1000000 ns") || strings.Count(string(output), "\n") != 1 {
		t.Errorf("it ended with %v and said %q", err, output)
	}
}

func TestEchoRepliesAreRecordedOnce(t *testing.T) {
	const count = 50
	free, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := free.LocalAddr().String()
	free.Close()
	bound, ready, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer bound.Close()
	listener := exec.Command(testlab.Program(t, "tsnperf"), "listener", "--quiet", "--block", "--echo", "--bind", at, "--count", strconv.Itoa(count),
		"--ready-fd", "3")
	listener.Stderr, listener.ExtraFiles = os.Stderr, []*os.File{ready}
	err = listener.Start()
	ready.Close()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bound.Read(make([]byte, 1)); err != nil {
		t.Errorf("the listener is not ready: %v", err)
	}
	file := filepath.Join(t.TempDir(), "replies.csv")
	out, err := exec.Command(testlab.Program(t, "tsnperf"), "talker", "--quiet", "--no-txtime", "--to", at, "--cycle", "2ms", "--count", strconv.Itoa(count),
		"--replies", file).CombinedOutput()
	if err := errors.Join(err, listener.Wait()); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	csv, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer csv.Close()
	replies, err := ReadListener(csv)
	if err != nil || len(replies) != count {
		t.Fatalf("%d replies to %d messages: %v", len(replies), count, err)
	}
	for i, reply := range replies {
		if reply.Sequence != uint32(i) || !reply.Valid || reply.Arrival <= reply.Txtime || reply.Source.String() != at {
			t.Errorf("reply %d is %+v", i, reply)
		}
	}
}

func TestUnrecordableRepliesAreRejected(t *testing.T) {
	for _, other := range [][]string{{"--flood"}, {"--sockets", "2"}} {
		arguments := append([]string{"talker", "--to", "127.0.0.1:9", "--replies", filepath.Join(t.TempDir(), "replies.csv")}, other...)
		out, err := exec.Command(testlab.Program(t, "tsnperf"), arguments...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "--replies") {
			t.Errorf("with %v: %v, %q", other, err, out)
		}
	}
}
