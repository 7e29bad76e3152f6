// SPDX-License-Identifier: Apache-2.0

package preload

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// answer is a reply of ktsnd.
func answer(version uint16, status int32) []byte {
	reply := make([]byte, replyBytes)
	binary.LittleEndian.PutUint32(reply, appMagic)
	binary.LittleEndian.PutUint16(reply[4:], version)
	binary.LittleEndian.PutUint16(reply[6:], appHello)
	binary.LittleEndian.PutUint32(reply[8:], uint32(status)) //nolint:gosec // as it stands on the wire
	return reply
}

// fakeKtsnd answers one request with reply and two descriptors; nil is no answer, empty an end of the
// connection. The request is put into the channel.
func fakeKtsnd(t *testing.T, reply []byte) (path string, requests <-chan []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "app.sock")
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan []byte, 1)
	ended := make(chan struct{})
	t.Cleanup(func() {
		listener.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		conn, err := listener.AcceptUnix()
		if err != nil {
			return
		}
		defer conn.Close()
		buffer := make([]byte, 100)
		count, err := conn.Read(buffer)
		if err != nil {
			return
		}
		seen <- buffer[:count]
		switch {
		case reply == nil:
			_, _ = conn.Read(buffer) // until the other end is tired of us
		case len(reply) > 0:
			_, _, _ = conn.WriteMsgUnix(reply, unix.UnixRights(0, 1), nil)
		}
	}()
	return path, seen
}

func TestGreetErrors(t *testing.T) {
	for name, test := range map[string]struct {
		reply []byte
		// want is a part of the sentence, empty when all is well.
		want string
	}{
		"a ktsnd of this release":            {answer(appVersion, 0), ""},
		"one of another version":             {answer(appVersion+1, 0), "speaks version 7 of the application protocol, not 6"},
		"one that refuses ours":              {answer(appVersion, -int32(syscall.EPROTONOSUPPORT)), "of the same release"},
		"one that is full":                   {answer(appVersion, -int32(syscall.EMFILE)), "too many open files"},
		"one whose replies are shorter":      {answer(appVersion, 0)[:24], "answers with 24 bytes"},
		"one whose replies are longer":       {append(answer(appVersion, 0), 0, 0), "answers with 42 bytes"},
		"one that ends the connection":       {[]byte{}, "of the same release"},
		"one that is none":                   {[]byte("hello yourself, whoever you are!"), "is not ktsnd"},
		"one that says hardly anything":      {[]byte{1}, "is not ktsnd"},
		"one that says nothing for too long": {nil, "nobody answers"},
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := fakeKtsnd(t, test.reply)
			begin := time.Now()
			err := Greet(path)
			if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if err != nil && (!strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("not one sentence about the socket: %q", err)
			}
			if took := time.Since(begin); took > 5*time.Second+appTimeout {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestGreetWithoutSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nobody.sock")
	if err := Greet(path); err == nil || !strings.Contains(err.Error(), "no ktsnd listens on "+path) {
		t.Errorf("got %v", err)
	}
}

func TestGreetClosesDescriptors(t *testing.T) {
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	path, _ := fakeKtsnd(t, answer(appVersion, 0))
	before := open()
	if err := Greet(path); err != nil {
		t.Fatal(err)
	}
	testlab.Eventually(t, 5*time.Second, time.Millisecond, func() error {
		if open() > before {
			return fmt.Errorf("%d descriptors were open before, %d are now", before, open())
		}
		return nil
	})
}

func TestHelloMatchesLibrary(t *testing.T) {
	path, requests := fakeKtsnd(t, answer(appVersion, 0))
	if err := Greet(path); err != nil {
		t.Fatal(err)
	}
	request := <-requests
	if len(request) != requestBytes || binary.LittleEndian.Uint32(request) != appMagic ||
		binary.LittleEndian.Uint16(request[4:]) != appVersion || binary.LittleEndian.Uint16(request[6:]) != appHello {
		t.Errorf("the request is % x", request)
	}
}

func TestConstantsMatchHeader(t *testing.T) {
	header, err := os.ReadFile("../../../datapath/ring/app_protocol.h")
	if err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string]int64{
		`KTSN_APP_MAGIC UINT32_C\((0x\w+)\)`:         appMagic,
		`KTSN_APP_VERSION = (\d+)`:                   appVersion,
		`KTSN_APP_DAEMON_TIMEOUT_MS = (\d+)`:         appTimeout.Milliseconds(),
		`KTSN_APP_HELLO = (\d+)`:                     appHello,
		`sizeof\(struct ktsn_app_request\) == (\d+)`: requestBytes,
		`sizeof\(struct ktsn_app_reply\) == (\d+)`:   replyBytes,
	} {
		existing := regexp.MustCompile(pattern).FindSubmatch(header)
		if existing == nil {
			t.Errorf("the header has no %s", pattern)
			continue
		}
		if number, err := strconv.ParseInt(string(existing[1]), 0, 64); err != nil || number != want {
			t.Errorf("%s: the header says %s, we %d", pattern, existing[1], want)
		}
	}
}
