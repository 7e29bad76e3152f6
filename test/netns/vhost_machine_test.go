// SPDX-License-Identifier: Apache-2.0

//go:build vm

package netns_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// bootPatience is for a machine whose processors are emulated, on a busy host.
const bootPatience = 3 * time.Minute

// machineFiles returns the kernel and the initial file system of a machine whose first process is ktsn-test-machine.
func machineFiles(t *testing.T) (kernel, initial string) {
	t.Helper()
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		testlab.Missing(t, "qemu-system-x86_64 is missing; run scripts/install-deps.sh conformance")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	output, err := exec.CommandContext(ctx, "../../scripts/guest-kernel.sh").Output()
	if err != nil {
		testlab.Missing(t, "scripts/guest-kernel.sh: "+err.Error())
	}
	base := strings.TrimSpace(string(output))
	root := t.TempDir()
	names := []string{"init", "modules"}
	var modules strings.Builder
	for _, file := range machineModules(t, base) {
		name := filepath.Base(file)
		copyTo(t, file, filepath.Join(root, name))
		names = append(names, name)
		fmt.Fprintf(&modules, "/%s\n", name)
	}
	copyTo(t, program(t, "ktsn-test-machine"), filepath.Join(root, "init"))
	if err := os.WriteFile(filepath.Join(root, "modules"), []byte(modules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	pack := exec.CommandContext(t.Context(), "cpio", "-o", "-H", "newc", "--quiet", "-D", root)
	pack.Stdin = strings.NewReader(strings.Join(names, "\n") + "\n")
	archive, err := pack.Output()
	if err != nil {
		t.Fatalf("cpio: %v", err)
	}
	public := publicDir(t) // the machine runs without privileges
	kernel, initial = filepath.Join(public, "vmlinuz"), filepath.Join(public, "initial.cpio")
	copyTo(t, filepath.Join(base, "vmlinuz"), kernel)
	if err := os.WriteFile(initial, archive, 0o644); err != nil {
		t.Fatal(err)
	}
	return kernel, initial
}

// machineModules are the files of the kernel's modules for the device, each behind what it needs.
func machineModules(t *testing.T, base string) (files []string) {
	t.Helper()
	folder := filepath.Join(base, "kernel")
	releases, err := os.ReadDir(filepath.Join(folder, "lib", "modules"))
	if err != nil || len(releases) != 1 {
		t.Fatalf("%d kernels are in %s: %v", len(releases), folder, err)
	}
	for _, module := range []string{"virtio_pci", "virtio_net", "af_packet"} {
		output, err := exec.CommandContext(t.Context(), "/usr/sbin/modprobe", "-d", folder, "-S", releases[0].Name(), "--show-depends", module).Output()
		if err != nil {
			t.Fatalf("modprobe %s: %v", module, err)
		}
		for line := range strings.Lines(string(output)) {
			if file, ok := strings.CutPrefix(strings.TrimSpace(line), "insmod "); ok {
				files = append(files, strings.Fields(file)[0])
			}
		}
	}
	return files
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// toMachine is a frame of pod b's with a text.
func (r *guestRig) toMachine(text string) []byte {
	frame := r.frame(r.podB, text)
	copy(frame, r.podA)
	return frame
}

// echoed sends frames to the machine until one comes back: a network device takes a moment to be there again.
func (r *guestRig) echoed(t *testing.T, send, there int, text string) {
	t.Helper()
	testlab.Eventually(t, patience, 0, func() error {
		if _, err := unix.Write(send, r.toMachine(text)); err != nil {
			t.Fatal(err)
		}
		if receiveFrame(t, there, 200*time.Millisecond) != nil {
			for receiveFrame(t, there, 200*time.Millisecond) != nil {
			}
			return nil
		}
		return fmt.Errorf("%q does not come back; the relay says: %s, and counted %+v", text, r.relay.Stderr(), r.count(t))
	})
}
