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

// What the test's program does with itself before it says what it has.
const (
	asAgent   = "as-agent"
	asStarted = "as-started"
)

func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	var err error
	switch os.Args[1] {
	case asAgent:
		if err = Reduce(SysAdmin, DACReadSearch, SysPtrace); err == nil {
			err = again(asStarted)
		}
	case asStarted:
		if err = Reduce(DACReadSearch, SysPtrace); err == nil {
			err = sayOwn()
		}
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func again(how string) error {
	started := exec.Command("/proc/self/exe", how)
	started.Stdout, started.Stderr = os.Stdout, os.Stderr
	return started.Run()
}

func sayOwn() error {
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

// withCgo is set where this program was built so.
var withCgo bool

func TestAProgramThatAReducedOneStartsReducesItselfFurther(t *testing.T) {
	testlab.Root(t)
	said, err := exec.Command("/proc/self/exe", asAgent).CombinedOutput()
	if withCgo {
		if err == nil || !strings.Contains(string(said), errCgo.Error()) {
			t.Errorf("with cgo it says %q, %v, want %q", said, err, errCgo)
		}
		return
	}
	const want = "CapPrm 0000000000080004\nNoNewPrivs 1\n" // SYS_PTRACE is 19, DAC_READ_SEARCH is 2
	if err != nil || string(said) != want {
		t.Errorf("it says %q, %v, want %q", said, err, want)
	}
}
