// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// processes makes a /proc with one process for each name and command line.
func processes(t *testing.T, all ...[2]string) string {
	t.Helper()
	proc := t.TempDir()
	for i, process := range all {
		dir := filepath.Join(proc, strconv.Itoa(100+i))
		testlab.Must(t, os.Mkdir(dir, 0o755))
		for name, text := range map[string]string{"comm": process[0] + "\n", "cmdline": strings.ReplaceAll(process[1], " ", "\x00"),
			// It may set the clock, and not that of a user namespace.
			"uid_map": "0 0 4294967295\n", "status": "CapEff:\t0000000002000000\n"} {
			testlab.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
	}
	testlab.Must(t, os.Mkdir(filepath.Join(proc, "sys"), 0o755))
	return proc
}

func TestASecondMasterOfTheClockIsNamed(t *testing.T) {
	for name, test := range map[string]struct {
		process [2]string
		role    string
		free    bool
		refusal string
	}{
		"chronyd":                            {process: [2]string{"chronyd", "/usr/sbin/chronyd -F 1"}, refusal: "chronyd (process 101) keeps this node's clock already"},
		"ntpd":                               {process: [2]string{"ntpd", "/usr/sbin/ntpd -p /run/ntpd.pid"}, refusal: "ntpd (process 101)"},
		"timesyncd":                          {process: [2]string{"systemd-timesyn", "/lib/systemd/systemd-timesyncd"}, refusal: "systemd-timesyncd (process 101)"},
		"a ptp4l of somebody else":           {process: [2]string{"ptp4l", "ptp4l -S -i eth0"}, refusal: "ptp4l (process 101)"},
		"a ptp4l of which nobody can tell":   {process: [2]string{"ptp4l", "ptp4l -f /etc/p.conf"}, refusal: "ptp4l (process 101), whose configuration /etc/p.conf cannot be read, may keep"},
		"a ptp4l of which that is no matter": {process: [2]string{"ptp4l", "ptp4l -H -f /etc/p.conf"}},
		"a chronyd that only measures":       {process: [2]string{"chronyd", "chronyd -x"}},
		"a ptp4l that only measures":         {process: [2]string{"ptp4l", "ptp4l -S --free_running=1"}},
		"something else":                     {process: [2]string{"bash", "bash chronyd"}},
		"chronyd where nothing is kept":      {process: [2]string{"chronyd", "chronyd"}, free: true},
		"chronyd below a grandmaster":        {process: [2]string{"chronyd", "chronyd"}, role: RoleGrandmaster},
		"another ptp4l beside a grandmaster": {process: [2]string{"ptp4l", "ptp4l -S"}, role: RoleGrandmaster, refusal: "two masters"},
	} {
		t.Run(name, func(t *testing.T) {
			options := &Options{Role: either(test.role, RoleSender), FreeRunning: test.free}
			err := options.refuseKeepers(processes(t, [2]string{"init", "/sbin/init"}, test.process))
			if test.refusal == "" && err != nil || test.refusal != "" && (err == nil || !strings.Contains(err.Error(), test.refusal)) {
				t.Errorf("got %v, want %q in it", err, test.refusal)
			}
		})
	}
	if err := (&Options{}).refuseKeepers("/nowhere"); err == nil {
		t.Error("without /proc nobody is found, and that is not said")
	}
}

func TestAFolderHasOneInstance(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "ptp")
	first, err := lockFolder(folder)
	testlab.Must(t, err)
	if _, err := lockFolder(folder); err == nil || !strings.Contains(err.Error(), "another ktsn-ptp runs on this node") {
		t.Errorf("a second one: %v", err)
	}
	first.Close()
	again, err := lockFolder(folder)
	if err != nil {
		t.Fatalf("after the first one: %v", err)
	}
	again.Close()
}

func TestAStaleSocketIsRemovedAndAServedOneIsNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ptp4l")
	if err := clearSocket(path); err != nil {
		t.Errorf("without a socket: %v", err)
	}
	served, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	testlab.Must(t, err)
	if err := clearSocket(path); err == nil || !strings.Contains(err.Error(), "somebody else serves") {
		t.Errorf("of somebody else's: %v", err)
	}
	served.Close()
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the test's socket went with its owner: %v", err)
	}
	if err := clearSocket(path); err != nil {
		t.Errorf("of nobody's: %v", err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
	testlab.Must(t, os.MkdirAll(filepath.Join(path, "full"), 0o755))
	if err := clearSocket(path); err == nil || !strings.Contains(err.Error(), "remove what is left of a ptp4l") {
		t.Errorf("of a folder: %v", err)
	}
}
