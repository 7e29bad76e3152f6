// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/kata"
	"github.com/kubernetsn/kubernetsn/internal/node/machine"
)

// machineOf is what `ktsn status` says of the machine of a pod.
func machineOf(t *testing.T, p *pod) machine.Machine {
	t.Helper()
	var state struct {
		Devices []machine.Machine `json:"devices"`
	}
	var output []byte
	must(t, p.node.Do(func() (err error) {
		output, err = exec.Command(program(t, "ktsn"), "status", "--control", p.node.control(), "--output", "json").Output()
		return err
	}))
	must(t, json.Unmarshal(output, &state))
	at := slices.IndexFunc(state.Devices, func(device machine.Machine) bool { return device.Identity == p.identity() })
	if at < 0 {
		t.Fatalf("it says nothing of %s: %+v", p.id, state.Devices)
	}
	return state.Devices[at]
}

// says checks how a machine has the interface, and the beginning of each fault.
func says(t *testing.T, p *pod, way string, faults ...string) {
	t.Helper()
	got := machineOf(t, p)
	if got.Connection != way || len(got.Faults) != len(faults) {
		t.Fatalf("got  %+v\nwant %q with %q", got, way, faults)
	}
	for i, fault := range faults {
		if !strings.HasPrefix(got.Faults[i].Text, fault) || got.Faults[i].Mend == "" {
			t.Errorf("a fault is %+v, want %q and what to do", got.Faults[i], fault)
		}
	}
}

func TestStatusReportsKataInterface(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	lab.a.startDaemon(t)
	pod := lab.a.newPod(t)
	pod.add(t, lab.a.config(fields{"device": "veth", "createSocket": false}))
	says(t, pod, "the interface itself, which nothing has taken", "nothing has taken tsn0 for a machine")
	tap := filteredByKata(t, pod)
	says(t, pod, "the interface itself, which Kata has taken by tap0_kata")
	shown := lab.a.ktsn(t, "node", "capture")
	if !strings.Contains(shown, "veth") || strings.Contains(shown, "let pass") {
		t.Errorf("captured is %s", shown)
	}
	// What is not told to stay goes with who has it open, and with it the redirection to it.
	must(t, tap.Close())
	says(t, pod, "the interface itself, which nothing has taken", "nothing has taken tsn0 for a machine")
}

func TestStatusReportsKataFile(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	lab.a.startDaemon(t)
	pod := lab.a.newPod(t)
	primary(t, pod)
	folder := danFolder(t)
	pod.add(t, lab.a.config(fields{"device": "tap", "device-queues": 2, "device-dan": folder}))
	path := kata.Path(folder, pod.id)
	way := "tap, which Kata finds in " + path
	says(t, pod, way, "nobody has the tap tapeth0 open", "nobody has the tap taptsn0 open")
	openTapAs(t, pod, "tapeth0", 0)
	openTapAs(t, pod, podTap, unix.IFF_MULTI_QUEUE)
	says(t, pod, way)
	if got := machineOf(t, pod); got.Device != "tap" || got.Queues != 2 || got.DAN != folder {
		t.Errorf("it is %+v", got)
	}
	must(t, kata.RemoveDevice(folder, pod.id, podIf))
	says(t, pod, way, "tsn0 is not in "+path)
	must(t, os.Remove(path))
	says(t, pod, way, "there is no file "+path)
}

func TestStatusReportsUnservedVhostUser(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	lab.a.startDaemon(t)
	pod := lab.a.newPod(t)
	folder := danFolder(t)
	pod.add(t, lab.a.config(fields{"device": "vhost-user", "device-dan": folder}))
	way := "vhost-user, which Kata finds in " + kata.Path(folder, pod.id)
	says(t, pod, way, fmt.Sprintf("there is no socket %s of vhost-user", pod.vhostSocket()))
	lab.a.runRelays(t)
	pod.awaitVhostSocket(t)
	says(t, pod, way)
}
