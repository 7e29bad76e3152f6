// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os/exec"
	"regexp"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

func TestVersionPrintsBuildFlags(t *testing.T) {
	output, err := exec.Command(testlab.Program(t, "ktsn"), "version").CombinedOutput()
	want := regexp.MustCompile(`^ktsn \d+\.\d+\.\d+ \(.*, go1\S*\)\nrelease (\d+\.\d+\.\d+(-dev\..+)?|unknown)\nbuilt with -buildmode=exe -compiler=gc (.* )?-trimpath=true CGO_ENABLED=0 GOARCH=\S+ .*\n$`)
	if err != nil || !want.Match(output) {
		t.Errorf("got %q, %v, want %v", output, err, want)
	}
}
