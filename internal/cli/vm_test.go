// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/node/vm"
)

func TestMachineInDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/guide/virtual-machines.md")
	if err != nil {
		t.Fatal(err)
	}
	machine := &vm.Machine{
		Name: "plc-1", Device: "tap", Queues: 4, VCPUs: 2, Tap: "ktsn-plc-1", Address: "0a:58:0a:46:01:02", MTU: 1450,
		Clock: "/run/ktsn/vm/plc-1.clock.sock", Prefixes: []netip.Prefix{netip.MustParsePrefix("10.70.1.2/16")},
	}
	var printed strings.Builder
	if err := writeMachine(&printed, machine, "qemu"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "\n"+printed.String()) {
		t.Errorf("the page does not show\n%s", printed.String())
	}
}
