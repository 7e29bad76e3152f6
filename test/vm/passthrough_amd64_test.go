// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/guestmachine"
)

const (
	repository = "../.."
	// patience is for a machine, which takes a minute on an idle one.
	patience = 10 * time.Minute
)

// An IOMMU that also protects interrupts, without which VFIO refuses, and two cards at one wire.
var passthroughDevices = []string{
	"-device", "intel-iommu,intremap=on,caching-mode=on",
	"-netdev", "hubport,id=card,hubid=0", "-device", "pcie-root-port,id=port1,slot=1", "-device", "igb,bus=port1,netdev=card",
	"-netdev", "hubport,id=wire,hubid=0", "-device", "pcie-root-port,id=port2,slot=2", "-device", "igb,bus=port2,netdev=wire",
}

func TestPassthrough(t *testing.T) {
	testlab.Root(t)
	for _, name := range []string{"qemu-system-x86_64", "cpio"} {
		if _, err := exec.LookPath(name); err != nil {
			testlab.Missing(t, name+" is missing; run scripts/install-deps.sh conformance")
		}
	}
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	machine := guestmachine.Machine{
		Base: guestmachine.Kernel(t, root), First: testlab.Program(t, "ktsn-test-first"), Out: t.TempDir(), Processors: 2, MemoryMiB: 2048, Shown: []string{root},
		QEMU: guestmachine.QEMU(t, root), Chipset: "q35", Devices: passthroughDevices,
		KernelOptions: []string{"intel_iommu=on"},
	}
	killable := filepath.Join(root, "build/cni-killable")
	build := exec.Command(filepath.Join(root, "scripts/go.sh"), "build", "-tags=ktsn_faults", "-o", killable+"/", "./cmd/tsn-cni")
	build.Dir, build.Env = root, append(build.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build tsn-cni with fault points: %v: %s", err, output)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	status, err := machine.Run(ctx, guestmachine.Command{
		Dir:         filepath.Join(root, "test/netns"),
		Arguments:   []string{testlab.Program(t, "ktsn-inside-tests"), "-test.v", "-test.run", "^Test(CardIsBound|GuestKernel|KataPod|Kernel(Encrypts|Executes|SCTP))", "-test.timeout", patience.String()},
		Environment: []string{"KTSN_BIN_DIR=" + filepath.Dir(machine.First), "KTSN_GUEST_KERNEL=" + machine.Base, "KTSN_KILLABLE_DIR=" + killable},
	})
	if err != nil {
		t.Fatal(err)
	}
	guestmachine.Report(t, &machine, status)
}
