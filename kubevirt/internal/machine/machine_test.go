// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

func instanceOf(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestRead(t *testing.T) {
	tap := device.Device{Kind: device.Tap, Queues: 1, Class: device.ClassRecord}
	annotated := []Interface{{Name: "tsn0", Pod: "tsn0"}}
	for name, want := range map[string]Machine{
		"annotation": {Device: tap, Annotated: annotated},
		// pod16477688c0e is KubeVirt's own example of a name, for its network blue.
		"binding": {Device: tap, Annotated: annotated, Interfaces: []Interface{{Name: "blue", Pod: "pod16477688c0e"}}},
		"target":  {Device: tap, Annotated: annotated, Interfaces: []Interface{{Name: "blue", Pod: "pod16477688c0e"}}, Arriving: true},
	} {
		got, err := Read(instanceOf(t, name), "kubernetsn")
		if err != nil {
			t.Fatal(err)
		}
		if got.Device != want.Device || got.Arriving != want.Arriving || !slices.Equal(got.Interfaces, want.Interfaces) ||
			!slices.Equal(got.Annotated, want.Annotated) || got.Model != "virtio-non-transitional" {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	if got, err := Read(instanceOf(t, "binding"), "another"); err != nil || len(got.Interfaces) > 0 {
		t.Errorf("interfaces of another binding: %+v, %v", got, err)
	}
}

func TestReadInterface(t *testing.T) {
	got, err := Read([]byte(`{
		"metadata": {"annotations": {"kubernetsn.io/device": "vhost-user", "kubernetsn.io/device-queues": "4", "kubernetsn.io/network": "a, b"}},
		"spec": {"domain": {"devices": {"useVirtioTransitional": true, "interfaces": [
			{"name": "first", "model": "virtio", "macAddress": "02:00:00:00:00:01", "pciAddress": "0000:02:01.0", "acpiIndex": 7, "bootOrder": 1,
			 "state": "down", "binding": {"name": "kubernetsn"}},
			{"name": "gone", "state": "absent", "binding": {"name": "kubernetsn"}},
			{"name": "primary", "binding": {"name": "kubernetsn"}},
			{"name": "known", "binding": {"name": "kubernetsn"}},
			{"name": "other", "bridge": {}}]}},
			"networks": [{"name": "first", "multus": {"networkName": "a"}}, {"name": "primary", "pod": {}}, {"name": "known", "multus": {"networkName": "b"}}]},
		"status": {"interfaces": [{"name": "known", "podInterfaceName": "net2"}], "migrationState": {"completed": true}}}`), "kubernetsn")
	if err != nil {
		t.Fatal(err)
	}
	want := []Interface{
		{Name: "first", Pod: "poda7937b64b8c", Address: "02:00:00:00:00:01", PCIAddress: "0000:02:01.0", ACPIIndex: 7, BootOrder: 1, Down: true},
		{Name: "primary", Pod: "eth0"},
		{Name: "known", Pod: "net2"},
	}
	if !slices.Equal(got.Interfaces, want) {
		t.Errorf("got %+v, want %+v", got.Interfaces, want)
	}
	if got.Arriving || got.Model != "virtio-transitional" || len(got.Annotated) != 2 || !got.Device.Is(device.VhostUser) || got.Device.Queues != 4 {
		t.Errorf("got %+v", got)
	}
}

func TestReadErrors(t *testing.T) {
	for want, text := range map[string]string{
		"read the virtual machine instance":                                        `{"spec": 1}`,
		`annotation kubernetsn.io/device-queues is "9"; give a number from 1 to 8`: `{"metadata": {"annotations": {"kubernetsn.io/device-queues": "9"}}}`,
		`interface blue of the virtual machine has the model "e1000", and a network of`: `{"spec": {"domain": {"devices": {"interfaces": [
			{"name": "blue", "model": "e1000", "binding": {"name": "kubernetsn"}}]}}}}`,
	} {
		if got, err := Read([]byte(text), "kubernetsn"); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want %s", text, got, err, want)
		}
	}
}
