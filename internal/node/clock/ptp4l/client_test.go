// SPDX-License-Identifier: Apache-2.0

package ptp4l_test

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	ptp "github.com/facebook/time/ptp/protocol"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/clock/ptp4l"
	"github.com/kubernetsn/kubernetsn/internal/node/clock/ptp4l/ptp4ltest"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// nobody is a user that may keep no clock.
const nobody = 65534

// example is a clock that follows another.
func example() ptp4ltest.Clock {
	return ptp4ltest.Clock{Own: 0x0200000000000001, Grandmaster: 0x0200000000000002, OffsetNs: -120, IngressNs: 1, PathDelayNs: 4500, StepsRemoved: 1,
		Class: 6, Accuracy: 0x21, UTCOffset: 37, TimeFlags: 0x0c, Ports: []ptp4ltest.Port{{Interface: "eth0", State: ptp.PortStateSlave, Hardware: true},
			{Interface: "eth1", State: ptp.PortStatePassive}}}
}

// shortFolder is one whose name leaves room in the 108 bytes of a socket's.
func shortFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "ptp")
	testlab.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}

// dial connects to a server of the test.
func dial(t *testing.T, folder string) *ptp4l.Client {
	t.Helper()
	client, err := ptp4l.Dial(t.Context(), filepath.Join(folder, "ptp4l"), filepath.Join(folder, "local"))
	testlab.Must(t, err)
	t.Cleanup(client.Close)
	return client
}

func TestAPollTellsAllOfTheClock(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]struct{ domain, sdo uint8 }{
		"in domain 0":            {0, 0},
		"in domain 0 of 802.1AS": {0, 1},
		"in domain 24":           {24, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := shortFolder(t)
			clock := example()
			clock.Domain, clock.MajorSdoID = address.domain, address.sdo
			ptp4ltest.Start(t, filepath.Join(folder, "ptp4l"), clock)
			status, err := dial(t, folder).Poll(t.Context())
			testlab.Must(t, err)
			if status.Grandmaster != "020000.0000.000002" || status.Offset != -120 || status.PathDelay != 4500 || status.Class != 6 ||
				status.UTCOffset != 37 || !status.UTCOffsetValid || !status.PTPTimescale || len(status.Ports) != 2 {
				t.Errorf("got %+v", status)
			}
			if port, measures := status.Measures(); !measures || port.Interface != "eth0" || !port.Hardware {
				t.Errorf("measured by %+v, %v", port, measures)
			}
		})
	}
}

func TestANewGrandmasterIsAskedForAtOnce(t *testing.T) {
	t.Parallel()
	folder := shortFolder(t)
	server := ptp4ltest.Start(t, filepath.Join(folder, "ptp4l"), example())
	client := dial(t, folder)
	for range 3 {
		if _, err := client.Poll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if asked := server.Asked(ptp.IDParentDataSet); asked != 1 {
		t.Errorf("what rarely changes was asked for %d times in three polls", asked)
	}
	server.Change(func(c *ptp4ltest.Clock) { c.Grandmaster, c.Accuracy = 3, 0x23 })
	status, err := client.Poll(t.Context())
	if err != nil || status.Accuracy != 0x23 {
		t.Errorf("got %+v, %v; the new grandmaster's accuracy is 0x23", status, err)
	}
}

func TestAChangeOfAPortIsHeard(t *testing.T) {
	t.Parallel()
	folder := shortFolder(t)
	server := ptp4ltest.Start(t, filepath.Join(folder, "ptp4l"), example())
	client := dial(t, folder)
	if _, err := client.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !server.Notify() {
		t.Fatal("nobody has subscribed")
	}
	select {
	case <-client.Changed():
	case <-time.After(10 * time.Second):
		t.Error("the notification was not heard")
	}
}

func TestAPtp4lThatIsNoneIsAnError(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*ptp4ltest.Clock)
		status error
	}{
		"one that reads and does not answer": {func(c *ptp4ltest.Clock) { c.Silent = true }, ptp4l.ErrNoAnswer},
		"one that answers garbage":           {func(c *ptp4ltest.Clock) { c.Garbage = []byte(strings.Repeat("tick", 64)) }, ptp4l.ErrNoAnswer},
		"one that answers nothing at all":    {func(c *ptp4ltest.Clock) { c.Garbage = []byte{} }, ptp4l.ErrNoAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := shortFolder(t)
			server := ptp4ltest.Start(t, filepath.Join(folder, "ptp4l"), example())
			client := dial(t, folder)
			server.Change(test.change)
			if status, err := client.Poll(t.Context()); !errors.Is(err, test.status) {
				t.Errorf("got %+v, %v", status, err)
			}
			_, err := ptp4l.Dial(t.Context(), filepath.Join(folder, "ptp4l"), filepath.Join(folder, "local"))
			if !errors.Is(err, test.status) {
				t.Errorf("connected anew: %v", err)
			}
		})
	}
}

func TestAPtp4lThatEndedIsSeenByTheNextPoll(t *testing.T) {
	t.Parallel()
	folder := shortFolder(t)
	server := ptp4ltest.Start(t, filepath.Join(folder, "ptp4l"), example())
	client := dial(t, folder)
	if _, err := client.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	if _, err := client.Poll(t.Context()); !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("got %v", err)
	}
}

func TestOurSocketIsRemovedAlsoAfterAProcessThatWasKilled(t *testing.T) {
	t.Parallel()
	folder := shortFolder(t)
	local := filepath.Join(folder, "local")
	ptp4ltest.Start(t, filepath.Join(folder, "ptp4l"), example())
	testlab.Must(t, os.Mkdir(local, 0o700))
	dead, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(local, "ptp4l-client-0"), Net: "unixgram"})
	testlab.Must(t, err)
	dead.Close()
	first := dial(t, folder)
	second := dial(t, folder) // which leaves the first one's socket
	if _, err := first.Poll(t.Context()); err != nil {
		t.Error(err)
	}
	first.Close()
	second.Close()
	if left, err := os.ReadDir(local); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestNobodyElseReachesOurSocket(t *testing.T) {
	t.Parallel()
	folder := shortFolder(t)
	ptp4ltest.Start(t, filepath.Join(folder, "ptp4l"), example())
	client := dial(t, folder)
	ours, err := filepath.Glob(filepath.Join(folder, "local", "*"))
	if err != nil || len(ours) != 1 {
		t.Fatalf("our sockets are %v, %v", ours, err)
	}
	connection, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: ours[0], Net: "unixgram"})
	if err == nil {
		_, err = connection.Write([]byte("tick"))
		connection.Close()
	}
	if !errors.Is(err, unix.EPERM) {
		t.Errorf("another process sent to it: %v, want EPERM", err)
	}
	if _, err := client.Poll(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestASocketThatOthersControlIsRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spoil func(folder, socket string) error
		want  string
		root  bool
	}{
		"one that everybody may write to":   {func(_, socket string) error { return os.Chmod(socket, 0o666) }, "everybody may write", false},
		"one of another user":               {func(_, socket string) error { return os.Chown(socket, nobody, nobody) }, "belongs to user 65534", true},
		"one in a folder of another user":   {func(folder, _ string) error { return os.Chown(folder, nobody, nobody) }, "may replace", true},
		"one in a folder that is all men's": {func(folder, _ string) error { return os.Chmod(folder, 0o777) }, "may replace", false},
		"a file": {func(_, socket string) error {
			return errors.Join(os.Remove(socket), os.WriteFile(socket, nil, 0o600))
		}, "is no socket", false},
		"a link to a socket": {func(_, socket string) error {
			return errors.Join(os.Rename(socket, socket+"2"), os.Symlink(socket+"2", socket))
		}, "is no socket", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.root && os.Geteuid() != 0 {
				t.Skip("only root can give files away")
			}
			folder := shortFolder(t)
			socket := filepath.Join(folder, "ptp4l")
			server := ptp4ltest.Start(t, socket, example())
			testlab.Must(t, errors.Join(os.Chmod(socket, 0o660), test.spoil(folder, socket)))
			_, err := ptp4l.Dial(t.Context(), socket, filepath.Join(shortFolder(t), "local"))
			var refused *ptp4l.RefusedError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want a refusal with %q", err, test.want)
			}
			if asked := server.Asked(ptp.IDDefaultDataSet); asked > 0 {
				t.Errorf("it was asked %d times", asked)
			}
		})
	}
}

// answerAs is what the child does of the next test: it answers at the socket that it inherits.
const answerAs = "KTSN_TEST_ANSWER_AS_NOBODY"

func TestAnswersOfAnotherUserAreRefused(t *testing.T) {
	if os.Getenv(answerAs) != "" {
		answerForever(t)
		return
	}
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	folder := shortFolder(t)
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(folder, "ptp4l"), Net: "unixgram"})
	testlab.Must(t, err)
	file, err := socket.File()
	testlab.Must(t, err)
	// The child has to reach our socket, to answer at all.
	local := filepath.Join(folder, "local")
	testlab.Must(t, errors.Join(os.Chmod(folder, 0o755), os.Mkdir(local, 0o755), os.Chmod(os.Args[0], 0o755)))
	child := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestAnswersOfAnotherUserAreRefused$")
	child.Env, child.ExtraFiles = append(os.Environ(), answerAs+"=1"), []*os.File{file}
	child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, Pdeathsig: syscall.SIGKILL,
		AmbientCaps: []uintptr{unix.CAP_DAC_OVERRIDE}}
	runtime.LockOSThread() // Pdeathsig is sent when the thread ends
	defer runtime.UnlockOSThread()
	testlab.Must(t, child.Start())
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	_, err = ptp4l.Dial(t.Context(), filepath.Join(folder, "ptp4l"), local)
	var refused *ptp4l.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "user 65534") {
		t.Errorf("got %v, want a refusal that names the user", err)
	}
}

func answerForever(t *testing.T) {
	connection, err := net.FilePacketConn(os.NewFile(3, "socket"))
	testlab.Must(t, err)
	unixConnection, isUnix := connection.(*net.UnixConn)
	if !isUnix {
		t.Fatalf("it is a %T", connection)
	}
	ptp4ltest.Serve(t, unixConnection, example())
	time.Sleep(time.Minute) // until the parent kills
}

func TestDescriptorsThatComeWithAMessageAreClosed(t *testing.T) {
	t.Parallel()
	folder := shortFolder(t)
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(folder, "ptp4l"), Net: "unixgram"})
	testlab.Must(t, err)
	defer socket.Close()
	reading, writing, err := os.Pipe()
	testlab.Must(t, err)
	defer reading.Close()
	go func() {
		defer writing.Close()
		if _, client, err := socket.ReadFromUnix(make([]byte, 1024)); err != nil {
			t.Error(err)
		} else if _, _, err := socket.WriteMsgUnix([]byte("garbage"), unix.UnixRights(int(writing.Fd())), client); err != nil {
			t.Error(err)
		}
	}()
	dialing := make(chan error)
	go func() {
		_, err := ptp4l.Dial(t.Context(), filepath.Join(folder, "ptp4l"), filepath.Join(folder, "local"))
		dialing <- err
	}()
	testlab.Must(t, reading.SetReadDeadline(time.Now().Add(10*time.Second)))
	if _, err := reading.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the descriptor stayed open: %v", err)
	}
	if err := <-dialing; err == nil {
		t.Error("garbage is taken for an answer")
	}
}

func TestAFloodCostsNeitherMemoryNorAnswers(t *testing.T) {
	folder := shortFolder(t)
	server := ptp4ltest.Start(t, filepath.Join(folder, "ptp4l"), example())
	client := dial(t, folder)
	if _, err := client.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const messages = 20_000
	sent := server.Flood(server.Notification(), messages) + server.Flood([]byte("garbage"), messages)
	runtime.ReadMemStats(&after)
	if sent != 2*messages {
		t.Errorf("of %d messages %d were taken: whoever sends would have waited", 2*messages, sent)
	}
	deadline := time.Now().Add(10 * time.Second)
	for tooMany, _ := client.Dropped(); tooMany < messages && time.Now().Before(deadline); tooMany, _ = client.Dropped() {
		time.Sleep(10 * time.Millisecond)
	}
	if tooMany, _ := client.Dropped(); tooMany < messages {
		t.Errorf("of %d messages only %d were dropped", sent, tooMany)
	}
	if grown := int64(after.HeapInuse) - int64(before.HeapInuse); grown > 8<<20 {
		t.Errorf("memory grew by %d bytes", grown)
	}
	deadline = time.Now().Add(10 * time.Second)
	for {
		_, err := client.Poll(t.Context())
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after the flood: %v", err)
		}
	}
}
