// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/traffic"
	"github.com/kubernetsn/kubernetsn/internal/testlab/cniruntime"
)

func TestFindProgramsErrors(t *testing.T) {
	dir := t.TempDir()
	if _, err := FindPrograms(dir, false); err == nil || !strings.Contains(err.Error(), "tsnperf") {
		t.Errorf("got %v", err)
	}
	for _, name := range append(cniruntime.Plugins, "tsnperf") {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	programs, err := FindPrograms(dir, false)
	if err != nil || !strings.HasPrefix(programs.sums["tsnperf"], "e3b0c44298fc1c14") {
		t.Errorf("without ktsnd: %+v, %v", programs, err)
	}
	_, err = FindPrograms(dir, true)
	if err == nil || !strings.Contains(err.Error(), "make build") || !strings.Contains(err.Error(), "ktsnd") {
		t.Errorf("with ktsnd: %v", err)
	}
}

func TestChoosePinningErrors(t *testing.T) {
	for _, wanted := range []engine.Pinning{{Mode: engine.PinGiven, Sender: 0, Listener: 1023}, {Mode: engine.PinGiven, Sender: -1, Listener: 0},
		{Mode: engine.PinGiven, Sender: 100_000, Listener: 0}} {
		if got, err := choosePinning(wanted); err == nil || !strings.Contains(err.Error(), "may not use") {
			t.Errorf("%+v gives %+v, %v", wanted, got, err)
		}
	}
	if got, err := choosePinning(engine.Pinning{Mode: engine.PinNone}); err != nil ||
		got != (pinning{traffic.NotPinned, traffic.NotPinned, traffic.NotPinned}) {
		t.Errorf("got %+v, %v", got, err)
	}
}
