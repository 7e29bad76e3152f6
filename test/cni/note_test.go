// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// remembered is what a record says of the device of a virtual machine.
type remembered struct {
	Device    device.Device `json:"device"`
	Socket    string        `json:"socket"`
	AppSocket string        `json:"appSocket"`
	Capture   string        `json:"capture"`
}

func (p *pod) remembered(t *testing.T) (read remembered) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.node.dir, "state", "attachments", networkName, p.id+":"+podIf))
	must(t, err)
	must(t, json.Unmarshal(text, &read))
	return read
}

func TestRebuiltRecordKeepsMachineDevice(t *testing.T) {
	folder := danFolder(t)
	for name, changes := range map[string]fields{
		"a tap":                             {"device": "tap", "device-queues": 3, "device-class": "pcp", "device-owner": 107, "capture": "All"},
		"vhost-user":                        {"device": "vhost-user", "device-queues": 2, "device-class": "queue", "device-owner": 107},
		"the interface that Kata takes":     {"device": "veth"},
		"a tap that Kata finds in a file":   {"device": "tap", "device-dan": folder},
		"vhost-user that it finds in one":   {"device": "vhost-user", "device-queues": 4, "device-dan": folder},
		"none, and what programs ask of it": {"capture": "All"},
	} {
		t.Run(name, func(t *testing.T) {
			lab := newLab(t)
			lab.a.startDaemon(t)
			pod := lab.a.newPod(t)
			changes["createSocket"] = false
			config := lab.a.config(changes)
			before := kataInventory(t, folder, pod)
			pod.add(t, config)
			want, recorded := pod.remembered(t), kataInventory(t, folder, pod)
			if want.Device.Kind == "" {
				want.AppSocket = "" // nobody tells it
			}
			lab.a.loseState(t)
			lab.a.ktsn(t, "node", "restore")
			if got := pod.remembered(t); got != want {
				t.Errorf("it says %+v, want %+v", got, want)
			}
			checkSame(t, "once it is rebuilt", recorded, kataInventory(t, folder, pod))
			must(t, lab.a.runtime.CheckNetworkList(t.Context(), list(t, config), pod.attachment()))
			// GC does not hear from the network what the device of each pod is.
			must(t, lab.a.gc(t, lab.a.forgetful(t, shipped(t)), list(t, lab.a.config(fields{"createSocket": false}))))
			checkSame(t, "after GC", before, kataInventory(t, folder, pod))
		})
	}
}

func TestGCWithoutRecordRemovesKataFile(t *testing.T) {
	lab := newLab(t)
	lab.a.startDaemon(t)
	folder := danFolder(t)
	pod := lab.a.newPod(t)
	primary(t, pod)
	before := kataInventory(t, folder, pod)
	pod.add(t, lab.a.config(fields{"args": fields{"cni": fields{"device": "vhost-user", "device-dan": folder}}}))
	lab.a.loseState(t)
	must(t, lab.a.gc(t, lab.a.forgetful(t, shipped(t)), list(t, lab.a.config(nil))))
	checkSame(t, "after GC", before, kataInventory(t, folder, pod))
}
