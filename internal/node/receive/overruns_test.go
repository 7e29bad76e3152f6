// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"testing"

	"github.com/cilium/ebpf"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

func TestThisKernelKeepsRecordsOfARingApart(t *testing.T) {
	testlab.Must(t, checkOverruns())
}

// The probe returns the same value for a kernel that trusts the reader and for a ring in which two records fit.
func TestOverrunProbe(t *testing.T) {
	ring, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 2 * probedRing})
	if err != nil {
		t.Skipf("needs root and a kernel with ring buffers: %v", err)
	}
	defer ring.Close()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SocketFilter, Instructions: reserveTwice(ring), License: "Dual BSD/GPL"})
	testlab.Must(t, err)
	defer program.Close()
	result, _, err := program.Test(make([]byte, 64))
	if err != nil || result != probeOverlaps {
		t.Fatalf("the probe returns %d, %v; want %d", result, err, probeOverlaps)
	}
}
