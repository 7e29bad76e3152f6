// SPDX-License-Identifier: Apache-2.0

package guestrig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kubernetsn/kubernetsn/internal/testlab/guestclock"
)

// Parts are the folders of the machines' parts.
type Parts struct {
	// Programs is the folder of built programs.
	Programs string
	// Kernel is the folder that scripts/guest-kernel.sh prints, QEMU the one that scripts/guest-qemu.sh prints.
	Kernel, QEMU string
}

// programs are the needed built programs.
var programs = []string{"ktsn", "ktsn-guest", "ktsn-relay", "ktsn-relay-vhost", "ktsn-test-first", "tsnperf"}

// Find finds the parts. An error says how to build missing ones.
func Find(programDir string) (*Parts, error) {
	if !guestclock.Supported {
		return nil, errors.New("the virtual machines are of amd64, and this machine is not")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("find the parts of virtual machines: %w", err)
	}
	dir, err := filepath.Abs(programDir)
	if err != nil {
		return nil, fmt.Errorf("find programs: %w", err)
	}
	parts := &Parts{Programs: dir, Kernel: filepath.Join(cache, "kubernetsn", "guest-kernel"), QEMU: filepath.Join(cache, "kubernetsn", "guest-qemu")}
	for _, name := range programs {
		if _, err := os.Stat(parts.program(name)); err != nil {
			return nil, fmt.Errorf("%s is missing; run `make build`, or name its folder with --bin-dir", parts.program(name))
		}
	}
	for folder, script := range map[string]string{parts.Kernel: "guest-kernel.sh", parts.QEMU: "guest-qemu.sh"} {
		if _, err := os.Stat(filepath.Join(folder, "version")); err != nil {
			return nil, fmt.Errorf("%s is missing, a part of virtual machines; run scripts/%s of the source", folder, script)
		}
	}
	return parts, nil
}

func (p *Parts) program(name string) string { return filepath.Join(p.Programs, name) }

// Version returns the versions of kernel and QEMU.
func (p *Parts) Version() (kernel, qemu string) {
	return packageIn(p.Kernel, "linux-image"), packageIn(p.QEMU, "qemu-system-x86")
}

// packageIn returns the version of a package in a folder's list.
func packageIn(folder, beginning string) string {
	text, _ := os.ReadFile(filepath.Join(folder, "version")) // Find has read it
	for line := range strings.Lines(string(text)) {
		if name, version, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(name, beginning) {
			return version
		}
	}
	return "unknown"
}
