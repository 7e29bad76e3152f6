// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/node/passthrough"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// busWith returns a bus with cards that have these drivers, by address.
func busWith(t *testing.T, drivers map[string]string) *passthrough.Bus {
	t.Helper()
	bus := &passthrough.Bus{Sys: t.TempDir(), Dev: t.TempDir(), StateDir: t.TempDir()}
	for address, name := range drivers {
		folder, driver := filepath.Join(bus.Sys, "bus/pci/devices", address), filepath.Join(bus.Sys, "bus/pci/drivers", name)
		err := errors.Join(os.MkdirAll(folder, 0o755), os.MkdirAll(driver, 0o755), os.Symlink(driver, filepath.Join(folder, "driver")))
		for file, text := range map[string]string{"vendor": "0x8086", "device": "0x10c9", "class": "0x020000"} {
			err = errors.Join(err, os.WriteFile(filepath.Join(folder, file), []byte(text+"\n"), 0o644))
		}
		testlab.Must(t, err)
	}
	return bus
}

func TestWithCards(t *testing.T) {
	bus := busWith(t, map[string]string{"0000:01:00.0": passthrough.VFIO, "0000:02:00.0": "igb"})
	for address, owner := range map[string]string{
		"0000:01:00.0": "tsn:c1:tsn0:u1", "0000:02:00.0": "tsn:c2:tsn0:u2", "0000:03:00.0": "tsn:c3:tsn1:u3", "0000:04:00.0": "somebody else",
	} {
		if claimed, err := bus.Claim(address, owner); err != nil || !claimed {
			t.Fatalf("%v, %v", claimed, err)
		}
	}
	got := withCards(bus)
	for i, want := range []struct{ identity, fault string }{
		{"u1", ""}, {"u2", `card 0000:02:00.0 has the driver "igb", not vfio-pci`}, {"u3", "this machine has no PCI device 0000:03:00.0"},
	} {
		if len(got) != 3 || got[i].Identity != want.identity || got[i].Device != "vfio" || (len(got[i].Faults) > 0) != (want.fault != "") ||
			(want.fault != "" && !strings.HasPrefix(got[i].Faults[0].Text, want.fault)) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	}
	if got[0].Connection != "network card 0000:01:00.0" || got[2].Interface != "tsn1" {
		t.Errorf("got %+v", got)
	}
}
