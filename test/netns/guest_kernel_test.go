// SPDX-License-Identifier: Apache-2.0

//go:build insidevm

package netns_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// guestKernel is the variable with the folder of scripts/guest-kernel.sh.
const guestKernel = "KTSN_GUEST_KERNEL"

func TestGuestKernelConfiguration(t *testing.T) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(os.Getenv(guestKernel), "kernel", "boot", "config-"+unix.ByteSliceToString(name.Release[:]))
	output, err := exec.Command(program(t, "ktsn-guest"), "kernel", "check", "--for", "held,released,clock,card", "--config", config).CombinedOutput()
	if err != nil || !strings.Contains(string(output), "the kernel has all options for held, released, clock, card") {
		t.Errorf("%v: %s", err, output)
	}
}
