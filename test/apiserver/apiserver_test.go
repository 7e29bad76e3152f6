// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

const (
	// played is the variable by which this test's own program plays the tests that are interrupted.
	played   = "KTSN_TEST_INTERRUPTED"
	patience = time.Minute
)

func TestInterruptedTestsLeaveNoServer(t *testing.T) {
	if os.Getenv(played) != "" {
		_, _, err := start(nil)
		fmt.Println("started", err)
		select {}
	}
	if os.Getenv("KTSN_KUBERNETES_DIR") == "" {
		testlab.Missing(t, "KTSN_KUBERNETES_DIR names no folder with a kube-apiserver; `make e2e` builds one")
	}
	folder, err := os.MkdirTemp("", "kt") // short, for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	command.Env = append(os.Environ(), played+"=1", "TMPDIR="+folder)
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, pid := range processesOf(t, folder) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil || line != "started <nil>\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if len(processesOf(t, folder)) < 2 {
		t.Fatal("etcd and API server are not found")
	}
	if err := command.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait()
	for end := time.Now().Add(patience); len(processesOf(t, folder)) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("processes %v are left", processesOf(t, folder))
		}
	}
}

// processesOf returns the processes whose arguments name the folder.
func processesOf(t *testing.T, folder string) (pids []int) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		var pid int
		arguments, _ := os.ReadFile(path) // it may have ended
		if _, err := fmt.Sscanf(path, "/proc/%d/cmdline", &pid); err == nil && bytes.Contains(arguments, []byte(folder)) {
			pids = append(pids, pid)
		}
	}
	return pids
}
