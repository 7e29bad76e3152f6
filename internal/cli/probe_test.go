// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

// instanceThatSays plays an instance of ktsnd, and returns its folder.
func instanceThatSays(t *testing.T, answer string) string {
	t.Helper()
	folder := t.TempDir()
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: filepath.Join(folder, "probe.sock"), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte(answer))
			conn.Close()
		}
	}()
	return folder
}

func TestProbe(t *testing.T) {
	const serving, starting = `{"version":1,"state":"serving","pid":7,"instance":"a","why":""}`, `{"version":1,"state":"starting","pid":7,"instance":"a","why":""}`
	const standingBy = `{"version":1,"state":"standing-by","pid":7,"instance":"a","why":"a younger ktsnd serves"}`
	for name, test := range map[string]struct {
		answer, asked, message string
		status                 int
	}{
		"one that serves is serving":            {serving, "serving", "", commandline.ExitOK},
		"one that serves is alive":              {serving, "alive", "", commandline.ExitOK},
		"one that stands by is not serving":     {standingBy, "serving", "this ktsnd is standing-by: a younger ktsnd serves", commandline.ExitFailure},
		"one that stands by is alive":           {standingBy, "alive", "", commandline.ExitOK},
		"one that starts is not serving":        {starting, "serving", "this ktsnd is starting", commandline.ExitFailure},
		"one that starts is not alive":          {starting, "alive", "this ktsnd is starting", commandline.ExitFailure},
		"one that does not answer":              {"", "alive", "read this ktsnd's answer", commandline.ExitFailure},
		"one that answers nonsense":             {"hello", "alive", "decode this ktsnd's answer", commandline.ExitFailure},
		"one that answers another version":      {`{"version":2}`, "alive", "version 2", commandline.ExitFailure},
		"it is asked for something else":        {serving, "well", "serving or alive", commandline.ExitUsage},
		"a state that a newer ktsnd might have": {`{"version":1,"state":"resting"}`, "alive", "this ktsnd is resting", commandline.ExitFailure},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := ktsn(t, "probe", "--instance-dir", instanceThatSays(t, test.answer), test.asked)
			if status != test.status || stdout != "" || !strings.Contains(stderr, test.message) || (test.message == "") != (stderr == "") {
				t.Errorf("status %d, printed %q, said %q", status, stdout, stderr)
			}
		})
	}
	if status, _, stderr := ktsn(t, "probe", "--instance-dir", t.TempDir(), "alive"); status != commandline.ExitFailure || !strings.Contains(stderr, "--instance-dir of a running ktsnd") {
		t.Errorf("a folder without a ktsnd: status %d, said %q", status, stderr)
	}
}
