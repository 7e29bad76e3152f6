// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	ptp "github.com/facebook/time/ptp/protocol"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/privilege"
	"github.com/kubernetsn/kubernetsn/internal/node/clock/phc"
	"github.com/kubernetsn/kubernetsn/internal/node/clock/ptp4l"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// playing is the variable by which this test's own program plays ptp4l and phc2sys: a simulated device has no driver for the real ones.
// Its value is the folder where they write how they were called.
const playing = "KTSN_TEST_PTP"

func TestMain(m *testing.M) {
	if folder := os.Getenv(playing); folder != "" {
		os.Exit(play(folder, os.Args[1:]))
	}
	os.Exit(m.Run())
}

func play(folder string, arguments []string) int {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	name := "phc2sys"
	if slices.Contains(arguments, "-f") {
		name = "ptp4l"
		path, _ := strings.CutPrefix(arguments[len(arguments)-1], "--uds_address=")
		if os.Getenv("KTSN_TEST_DEAF") == "" {
			go answer(path)
		}
	}
	file := name
	if at := slices.Index(arguments, "-c"); at >= 0 {
		file += " of " + arguments[at+1]
	}
	fmt.Println(name + " begins")
	if err := os.WriteFile(filepath.Join(folder, file), []byte(strings.Join(arguments, " ")), 0o600); err != nil {
		return 1
	}
	if ends := os.Getenv("KTSN_TEST_ENDS"); ends == name || ends == file {
		fmt.Println("no such clock")
		return 3
	}
	<-ended
	fmt.Println(name + " was told to end")
	return 0
}

// Offsets of the TLV of a management message, and of its data.
const tlvAt, tlvDataAt = 48, 54

// answer plays ptp4l's side of the socket. It writes settings to a file next to that.
func answer(path string) {
	server, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return
	}
	message := make([]byte, 1500)
	refuse := os.Getenv("KTSN_TEST_REFUSES") != ""
	for {
		count, from, err := server.ReadFromUnix(message)
		if err != nil || count < tlvDataAt {
			return
		}
		request := message[:count]
		reply := slices.Clone(request[:tlvDataAt])
		reply[46] = byte(ptp.RESPONSE)
		data := []byte{0, 37, flagUTCOffsetOK, 0xA0}
		if binary.BigEndian.Uint16(request[tlvAt+4:]) == uint16(idGrandmasterSettings) {
			data = []byte{248, 0xFE, 0xFF, 0xFF, 0, 0, 8, 0xA0}
			if request[46] == byte(ptp.SET) && refuse {
				refuse = false
				binary.BigEndian.PutUint16(reply[tlvAt:], uint16(ptp.TLVManagementErrorStatus))
			} else if request[46] == byte(ptp.SET) {
				_ = os.WriteFile(path+".set", request[tlvDataAt:], 0o600)
			}
		}
		binary.BigEndian.PutUint16(reply[tlvAt+2:], uint16(2+len(data)))
		_, _ = server.WriteToUnix(append(reply, data...), from)
	}
}

// log is what a runner says, for several goroutines.
type log struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (l *log) Write(text []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(text)
}

func (l *log) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.String()
}

// simulated is a runner on a card with a clock that there is not. Nothing sets any clock.
func simulated(t *testing.T, line string) (*Runner, *log, string) {
	t.Helper()
	folder := t.TempDir()
	t.Setenv(playing, folder)
	self, err := os.Executable()
	testlab.Must(t, err)
	output := &log{}
	runner := NewRunner(output)
	runner.Options = *parse(t, line)
	runner.RunDir, runner.Proc, runner.PTP4L, runner.PHC2SYS = filepath.Join(t.TempDir(), "ptp"), t.TempDir(), self, self
	runner.Inspect = func(name string) (Device, error) { return card(name, 0), nil }
	runner.TryClock = func(int) error { return nil }
	runner.Card = func(string) (phc.Device, error) { return simulatedCard{}, nil }
	runner.Adjust = func(state *unix.Timex) (int, error) { state.Tai = 37; return 0, nil }
	return runner, output, folder
}

// await waits until a file is there, and returns its text.
func await(t *testing.T, path string) string {
	t.Helper()
	return testlab.EventuallyValue(t, 20*time.Second, 5*time.Millisecond, func() (string, error) {
		if text, err := os.ReadFile(path); err == nil && len(text) > 0 {
			return string(text), nil
		}
		return "", fmt.Errorf("%s did not come", path)
	})
}

// checkGone fails the test if anything is left of a runner.
func checkGone(t *testing.T, runner *Runner) {
	t.Helper()
	entries, err := os.ReadDir(runner.RunDir)
	testlab.Must(t, err)
	for _, entry := range entries {
		if entry.Name() != "ptp4l.set" { // the simulation's
			t.Errorf("%s is left", entry.Name())
		}
	}
	var status syscall.WaitStatus
	if pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil); err == nil {
		t.Errorf("process %d is left", pid)
	}
}

func TestAClockInTheCardIsKeptByBothPrograms(t *testing.T) {
	for name, test := range map[string]struct{ line, phc2sys string }{
		"of a node that may be grandmaster": {"--device eth0 --domain 3 --servo linreg", "-a -r -r -E linreg -n 3 -z %s -m -q"},
		"of a node that only follows":       {"--device eth0 --role receiver", "-a -r -E pi -n 0 -z %s -m -q"},
	} {
		t.Run(name, func(t *testing.T) {
			runner, output, folder := simulated(t, test.line)
			ctx, cancel := context.WithCancel(t.Context())
			result := make(chan error, 1)
			go func() { result <- runner.Run(ctx) }()
			if got, want := await(t, filepath.Join(folder, "phc2sys")), fmt.Sprintf(test.phc2sys, runner.socket()); got != want {
				t.Errorf("phc2sys is called with %q, want %q", got, want)
			}
			want := fmt.Sprintf("-f %s/ptp4l.conf -m -q --uds_address=%s", runner.RunDir, runner.socket())
			if got := await(t, filepath.Join(folder, "ptp4l")); got != want {
				t.Errorf("ptp4l is called with %q, want %q", got, want)
			}
			// The class and the accuracy are left as they were; of the flags only one is added.
			if set := []byte(await(t, runner.socket()+".set")); !bytes.Equal(set, []byte{248, 0xFE, 0xFF, 0xFF, 0, 37, 8 | flagUTCOffsetOK, 0xA0}) {
				t.Errorf("ptp4l is to announce % x", set)
			}
			if err := Probe(t.Context(), runner.RunDir, runner.Domain); err != nil {
				t.Errorf("the probe says %v", err)
			}
			cancel()
			if err := <-result; err != nil {
				t.Errorf("it ended with %v", err)
			}
			checkGone(t, runner)
			for _, part := range []string{"ptp4l begins", "phc2sys was told to end", "ptp4l was told to end", "hardware stamps messages"} {
				if !strings.Contains(output.String(), part) {
					t.Errorf("the log lacks %q:\n%s", part, output)
				}
			}
			if err := Probe(t.Context(), runner.RunDir, runner.Domain); err == nil || !strings.Contains(err.Error(), "no ptp4l serves this node") {
				t.Errorf("afterwards the probe says %v", err)
			}
		})
	}
}

// threePorts has ports of two cards, of which the second has one clock.
func threePorts(name string) (Device, error) {
	return card(name, map[string]int{"eth0": 4, "eth1": 5, "eth2": 5}[name]), nil
}

func TestAGrandmasterHasAPhc2sysForEachCard(t *testing.T) {
	for name, test := range map[string]struct {
		devices string
		cards   []string
	}{
		"one card":                              {"eth0", []string{"eth0"}},
		"two cards, of which one has two ports": {"eth0,eth1,eth2", []string{"eth0", "eth1"}},
	} {
		t.Run(name, func(t *testing.T) {
			runner, output, folder := simulated(t, "--role grandmaster --device "+test.devices)
			runner.Inspect = threePorts
			ctx, cancel := context.WithCancel(t.Context())
			result := make(chan error, 1)
			go func() { result <- runner.Run(ctx) }()
			for _, line := range test.cards {
				want := fmt.Sprintf("-s CLOCK_REALTIME -c %s -w -E pi -n 0 -z %s -m -q", line, runner.socket())
				if got := await(t, filepath.Join(folder, "phc2sys of "+line)); got != want {
					t.Errorf("phc2sys is called with %q, want %q", got, want)
				}
			}
			cancel()
			if err := <-result; err != nil {
				t.Errorf("it ended with %v", err)
			}
			checkGone(t, runner)
			if all, err := filepath.Glob(filepath.Join(folder, "phc2sys*")); err != nil || len(all) != len(test.cards) {
				t.Errorf("started were %v, %v", all, err)
			}
			if ended := strings.Count(output.String(), "phc2sys was told to end"); ended != len(test.cards) {
				t.Errorf("%d were told to end:\n%s", ended, output)
			}
		})
	}
}

func TestAPhc2sysThatEndsEndsThoseOfOtherCards(t *testing.T) {
	runner, output, _ := simulated(t, "--role grandmaster --device eth0,eth1")
	runner.Inspect = threePorts
	t.Setenv("KTSN_TEST_ENDS", "phc2sys of eth1")
	if err := runner.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "ended by itself (exit status 3)") {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(output.String(), "ptp4l was told to end") {
		t.Errorf("ptp4l was not ended:\n%s", output)
	}
	checkGone(t, runner)
}

func TestAnAnnouncementThatPtp4lRefusesIsTriedAgain(t *testing.T) {
	runner, _, folder := simulated(t, "--device eth0")
	t.Setenv("KTSN_TEST_REFUSES", "1")
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- runner.Run(ctx); cancel() }()
	for path := filepath.Join(folder, "phc2sys"); ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			break
		}
	}
	cancel()
	if err := <-result; err != nil {
		t.Errorf("it ended with %v", err)
	}
	checkGone(t, runner)
}

func TestAProgramThatEndsEndsTheOther(t *testing.T) {
	for _, name := range []string{"ptp4l", "phc2sys"} {
		t.Run(name, func(t *testing.T) {
			runner, output, _ := simulated(t, "--device eth0")
			t.Setenv("KTSN_TEST_ENDS", name)
			if name == "ptp4l" {
				t.Setenv("KTSN_TEST_DEAF", "1")
			}
			err := runner.Run(t.Context())
			self := filepath.Base(runner.PTP4L)
			if err == nil || err.Error() != self+" ended by itself (exit status 3); it said last: no such clock" {
				t.Errorf("got %v", err)
			}
			if other := "ptp4l was told to end"; name == "phc2sys" && !strings.Contains(output.String(), other) {
				t.Errorf("%q is missing in\n%s", other, output)
			}
			checkGone(t, runner)
		})
	}
}

func TestNothingIsStartedWhereItCannotBe(t *testing.T) {
	for name, test := range map[string]struct {
		line    string
		prepare func(t *testing.T, runner *Runner)
		refusal string
	}{
		"with options that make no sense": {"--device eth0 --domain 200", nil, "--domain 200"},
		"beside another master":           {"--device eth0", func(t *testing.T, r *Runner) { r.Proc = processes(t, [2]string{"chronyd", "chronyd"}) }, "chronyd (process 100)"},
		"without the program":             {"--device eth0", func(_ *testing.T, r *Runner) { r.PTP4L = "/nowhere/ptp4l" }, "start ptp4l"},
		"without the other program":       {"--device eth0", func(_ *testing.T, r *Runner) { r.PHC2SYS = "/nowhere/phc2sys" }, "start phc2sys"},
	} {
		t.Run(name, func(t *testing.T) {
			runner, output, _ := simulated(t, test.line)
			if test.prepare != nil {
				test.prepare(t, runner)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := runner.Run(ctx); err == nil || !strings.Contains(err.Error(), test.refusal) {
				t.Errorf("got %v, want %q in it; it said %s", err, test.refusal, output)
			}
			if _, err := os.Stat(runner.RunDir); err == nil {
				checkGone(t, runner)
			}
		})
	}
}

func TestOtherKeepersAreLookedForWhileTheirConfigurationsCanBeRead(t *testing.T) {
	runner, _, _ := simulated(t, "--device eth0")
	runner.Proc = processes(t, [2]string{"ptp4l", "ptp4l -f /ptp4l.conf"})
	root := filepath.Join(runner.Proc, "100", "root")
	testlab.Must(t, errors.Join(os.Mkdir(root, 0o700), os.WriteFile(filepath.Join(root, "ptp4l.conf"), []byte("time_stamping software\n"), 0o600)))
	// Without privileges there is no other process's root.
	reduced := false
	runner.Reduce = func(...privilege.Capability) error { reduced = true; return os.RemoveAll(root) }
	if err := runner.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "ptp4l (process 100) keeps this node's clock already") || reduced {
		t.Errorf("got %v; privileges are reduced: %v", err, reduced)
	}
	runner.Proc = t.TempDir()
	runner.Reduce = func(keep ...privilege.Capability) error { return fmt.Errorf("keeps %v", keep) }
	if err := runner.Run(t.Context()); err == nil || !strings.Contains(err.Error(), fmt.Sprint("keeps ", runner.privileges())) {
		t.Errorf("where privileges cannot be given up: %v", err)
	}
}

func TestAnEndWhilePtp4lStartsIsNoError(t *testing.T) {
	runner, _, folder := simulated(t, "--device eth0")
	t.Setenv("KTSN_TEST_DEAF", "1")
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- runner.Run(ctx) }()
	await(t, filepath.Join(folder, "ptp4l"))
	cancel()
	if err := <-result; err != nil {
		t.Errorf("got %v", err)
	}
	checkGone(t, runner)
}

func TestABadCommandLineIsExplained(t *testing.T) {
	for line, sentence := range map[string]string{
		"":                                "--device is missing",
		"--device eth0 more":              `"more" is too much`,
		"--device eth0 --priority1 first": `"first" is no whole number`,
		"--device eth0 --set alone":       "give NAME=VALUE",
		"probe --domain 200":              "--domain 200: give 0 to 127",
	} {
		var buffer bytes.Buffer
		if status := Main(t.Context(), strings.Fields(line), &buffer, &buffer); status != 2 || !strings.Contains(buffer.String(), sentence) {
			t.Errorf("%q: status %d, %q; want %q", line, status, buffer.String(), sentence)
		}
	}
}

func FuzzManagement(f *testing.F) {
	f.Add([]byte{})
	m := &Management{sequence: 1}
	response, err := ptp4l.Request(ptp.PortIdentity{}, ptp4l.Address{}, m.sequence, ptp.RESPONSE, ptp.IDTimePropertiesDataSet, []byte{0, 37, 4, 0xA0})
	testlab.Must(f, err)
	f.Add(response)
	f.Fuzz(func(t *testing.T, message []byte) {
		data, fits, err := m.read(message, ptp.IDTimePropertiesDataSet)
		if !fits && (data != nil || err != nil) || len(data) > len(message) {
			t.Errorf("% x gives % x, %v, %v", message, data, fits, err)
		}
	})
}

// TestManagementSockets has two clients at once.
func TestManagementSockets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ptp4l")
	server, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	testlab.Must(t, err)
	defer server.Close()
	first, err := DialManagement(path, 0)
	testlab.Must(t, err)
	defer first.Close()
	second, err := DialManagement(path, 0)
	testlab.Must(t, err)
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(first.path); err != nil {
		t.Errorf("the second one removed the first one's socket: %v", err)
	}
}
