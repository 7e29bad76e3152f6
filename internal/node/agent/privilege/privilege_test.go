// SPDX-License-Identifier: Apache-2.0

package privilege

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// Modes of the test program.
const (
	modeAgent = "as-agent"
	modeChild = "as-started"
)

func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	var err error
	switch os.Args[1] {
	case modeAgent:
		if err = Reduce(SysAdmin, DACReadSearch, SysPtrace); err == nil {
			err = runSelf(modeChild)
		}
	case modeChild:
		if err = Reduce(DACReadSearch, SysPtrace); err == nil {
			err = printCapabilities()
		}
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runSelf(mode string) error {
	process := exec.Command("/proc/self/exe", mode)
	process.Stdout, process.Stderr = os.Stdout, os.Stderr
	return process.Run()
}

func printCapabilities() error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t"); name == "CapPrm" || name == "NoNewPrivs" {
			fmt.Println(name, value)
		}
	}
	return nil
}

// withCgo is set if the test was built with cgo.
var withCgo bool

func TestReducedProgramStartsFurtherReducedProgram(t *testing.T) {
	testlab.Root(t)
	output, err := exec.Command("/proc/self/exe", modeAgent).CombinedOutput()
	if withCgo {
		if err == nil || !strings.Contains(string(output), errCgo.Error()) {
			t.Errorf("with cgo: %q, %v, want %q", output, err, errCgo)
		}
		return
	}
	const want = "CapPrm 0000000000080004\nNoNewPrivs 1\n" // SYS_PTRACE is 19, DAC_READ_SEARCH is 2
	if err != nil || string(output) != want {
		t.Errorf("%q, %v, want %q", output, err, want)
	}
}
