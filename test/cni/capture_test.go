// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// removeFilters removes all filters of an interface, as a process with CAP_NET_ADMIN can.
func removeFilters(link netlink.Link) error {
	return netlink.QdiscDel(&netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}})
}

// isGuarded reports whether both ends of the pod's interface have the filters of a default network.
func isGuarded(t *testing.T, p *pod) bool {
	t.Helper()
	count, err := capture.ReadIn(p.Path(), podIf)
	must(t, err)
	return count.Attached && p.port(t).Attached
}

// attachedPrograms returns the programs of an interface's filters and their maps.
func attachedPrograms(t *testing.T, where *topology.Namespace, interfaceName string, parent uint32) (ids []ebpf.ProgramID, maps []ebpf.MapID) {
	t.Helper()
	on(t, where, interfaceName, func(link netlink.Link) error {
		filters, err := netlink.FilterList(link, parent)
		for _, filter := range filters {
			id := ebpf.ProgramID(filter.(*netlink.BpfFilter).Id)
			used, errMaps := mapsOf(id)
			ids, maps, err = append(ids, id), append(maps, used...), errors.Join(err, errMaps)
		}
		return err
	})
	return ids, maps
}

func mapsOf(id ebpf.ProgramID) ([]ebpf.MapID, error) {
	program, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	info, err := program.Info()
	if err != nil {
		return nil, err
	}
	maps, _ := info.MapIDs()
	return maps, nil
}

// awaitRemoval waits until the kernel has freed an object: it frees a program only when no CPU can run it.
func awaitRemoval[T interface{ Close() error }](t *testing.T, what string, open func() (T, error)) {
	t.Helper()
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		there, err := open()
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		must(t, err)
		there.Close()
		return fmt.Errorf("%s is still in the kernel", what)
	})
}

func TestCaptureProgramsGoWithInterface(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	pod := lab.a.newPod(t)
	config := lab.a.config(nil)
	pod.add(t, config)
	inPod, mapsInPod := attachedPrograms(t, pod.Namespace, podIf, netlink.HANDLE_MIN_EGRESS)
	atPort, mapsAtPort := attachedPrograms(t, lab.a.Namespace, portOf(pod), netlink.HANDLE_MIN_INGRESS)
	if len(mapsInPod) == 0 || len(mapsAtPort) == 0 {
		t.Fatal("the programs have no maps")
	}
	if len(inPod) != 1 || len(atPort) != 3 {
		t.Errorf("%d programs in the pod, and %d at its port", len(inPod), len(atPort))
	}
	must(t, lab.a.runtime.DelNetworkList(t.Context(), list(t, config), pod.attachment()))
	for _, id := range slices.Concat(inPod, atPort) {
		awaitRemoval(t, fmt.Sprintf("program %d", id), func() (*ebpf.Program, error) { return ebpf.NewProgramFromID(id) })
	}
	for _, id := range slices.Concat(mapsInPod, mapsAtPort) {
		awaitRemoval(t, fmt.Sprintf("map %d", id), func() (*ebpf.Map, error) { return ebpf.NewMapFromID(id) })
	}
}

func TestCaptureFollowsNetworkConfiguration(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	for name, test := range map[string]struct {
		changes fields
		want    capture.Mode
		mtu     int
	}{
		"timed traffic, by default": {nil, capture.Timed, 1474},
		"everything":                {fields{"capture": "All"}, capture.All, 1474},
		"nothing":                   {fields{"capture": "None"}, capture.None, 1450},
		"everything of this pod":    {fields{"args": fields{"cni": fields{"capture": "All"}}}, capture.All, 1474},
		"as large as it can be":     {fields{"mtu": 1280}, capture.Timed, 1304},
	} {
		t.Run(name, func(t *testing.T) {
			pod := lab.a.newPod(t)
			config := lab.a.config(test.changes)
			pod.add(t, config)
			must(t, lab.a.runtime.CheckNetworkList(t.Context(), list(t, config), pod.attachment()))
			count, err := capture.ReadIn(pod.Path(), podIf)
			must(t, err)
			if !count.Attached || count.Mode != test.want {
				t.Errorf("in the pod it is %+v, want %v", count, test.want)
			}
			on(t, lab.a.Namespace, portOf(pod), func(link netlink.Link) error {
				port, err := capture.ReadPort(link.Attrs().Name)
				if port.Attached != (test.want != capture.None) || port.Mode != test.want || link.Attrs().MTU != test.mtu {
					t.Errorf("at the node's end it is %+v, with an MTU of %d; want %v and %d", port, link.Attrs().MTU, test.want, test.mtu)
				}
				return err
			})
			must(t, lab.a.runtime.DelNetworkList(t.Context(), list(t, config), pod.attachment()))
		})
	}
}

// TestKernelWithoutBTFIsReported hides the kernel's BTF from the plugin.
func TestKernelWithoutBTFIsReported(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	dir := t.TempDir()
	plugin := fmt.Sprintf("#!/bin/sh\nexec unshare --mount sh -c 'mount -t tmpfs none /sys/kernel/btf && exec \"$0\"' '%s'\n", filepath.Join(shipped(t), "tsn-cni"))
	must(t, os.WriteFile(filepath.Join(dir, "tsn-cni"), []byte(plugin), 0o755)) //nolint:gosec // a program
	pod := lab.a.newPod(t)
	before := lab.a.inventory(t, pod)
	_, err := lab.a.forgetful(t, dir).AddNetworkList(t.Context(), list(t, lab.a.config(nil)), pod.attachment())
	var failure *types.Error
	if !errors.As(err, &failure) || failure.Code != 107 || !strings.Contains(failure.Msg, "read the kernel's BTF") || !strings.Contains(failure.Msg, "leaving tsn0 early") {
		t.Errorf("ADD reports %v", err)
	}
	if after := lab.a.inventory(t, pod); !slices.Equal(after, before) {
		t.Errorf("it left %q, there was %q", after, before)
	}
}

func TestRelayedAttachmentsAreListed(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	captured, other := lab.a.newPod(t), lab.a.newPod(t)
	captured.add(t, lab.a.config(fields{"capture": "All"}))
	other.add(t, lab.a.config(fields{"capture": "None"}))
	check := func(when string) {
		t.Helper()
		all, err := attachment.Relayed(filepath.Join(lab.a.dir, "state"))
		must(t, err)
		if len(all) != 1 || all[0].Identity != captured.identity() || all[0].Mode != capture.All || all[0].Netns != captured.Path() || all[0].PortName() != portOf(captured) {
			t.Errorf("%s: listed are %+v", when, all)
		}
	}
	check("once they are attached")
	// Lost records are rebuilt from the kernel's state.
	must(t, os.RemoveAll(filepath.Join(lab.a.dir, "state", "attachments")))
	lab.a.ktsn(t, "node", "restore")
	check("once they are restored")
}

// scheduleClosing closes the gate of class 0 permanently.
func scheduleClosing() *control.GateParameterTable {
	return &control.GateParameterTable{AdminGateStates: 0xfe, AdminCycleTime: control.CycleTime{Numerator: 1, Denominator: 1000}}
}

func (p *pod) port(t *testing.T) capture.PortCount {
	t.Helper()
	return within(t, p.node, func() (capture.PortCount, error) { return capture.ReadPort(portOf(p)) })
}

func (n *node) guard(t *testing.T) {
	t.Helper()
	must(t, n.Do(func() error {
		_, err := (&attachment.GuardRound{StateDir: filepath.Join(n.dir, "state")}).Run()
		return err
	}))
}

// makeFormer replaces the program at a pod's port by that of another release.
func makeFormer(t *testing.T, p *pod) {
	t.Helper()
	_, maps := attachedPrograms(t, p.node.Namespace, portOf(p), netlink.HANDLE_MIN_INGRESS)
	for _, id := range maps {
		candidate, err := ebpf.NewMapFromID(id)
		must(t, err)
		if described, err := candidate.Info(); err == nil && described.Name == "state" {
			value, err := candidate.LookupBytes(uint32(0))
			must(t, err)
			clear(value[8:]) // the version
			must(t, candidate.Put(uint32(0), value))
		}
		must(t, candidate.Close())
	}
}

// TestPortsKnowGatesWithoutRelay checks that a port knows the closing gates without a relay and after its program is
// replaced.
func TestPortsKnowGatesWithoutRelay(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	config := lab.a.config(fields{"capture": "All"})
	before, after := lab.a.newPod(t), lab.a.newPod(t)
	before.add(t, config)
	if port := before.port(t); port.GatedPriorities != 0 {
		t.Errorf("without a schedule it has the gates %#x", port.GatedPriorities)
	}
	must(t, lab.a.client.ScheduleSet(t.Context(), scheduleClosing()))
	status, err := lab.a.client.Status(t.Context())
	must(t, err)
	schedule, err := lab.a.client.Schedule(t.Context())
	must(t, err)
	want := control.GatedPriorities(status, schedule)
	if want == 0 {
		t.Fatalf("the schedule closes the gates %#x: %+v", want, schedule.Table)
	}
	after.add(t, config)
	if port := after.port(t); port.GatedPriorities != want {
		t.Errorf("after ADD it has the gates %#x, want %#x", port.GatedPriorities, want)
	}
	lab.a.guard(t)
	if port := before.port(t); port.GatedPriorities != want {
		t.Errorf("after a look it has the gates %#x, want %#x", port.GatedPriorities, want)
	}
	makeFormer(t, before)
	if !before.port(t).Former {
		t.Fatal("the program is still this release's")
	}
	lab.a.guard(t)
	if port := before.port(t); port.Former || port.GatedPriorities != want {
		t.Errorf("once it is replaced the port is %+v", port)
	}
	lab.a.stopDaemon(t)
	lab.a.guard(t)
	on(t, lab.a.Namespace, portOf(after), removeFilters)
	lab.a.guard(t)
	if port := before.port(t); port.GatedPriorities != want {
		t.Errorf("without ktsnd it has the gates %#x, want %#x", port.GatedPriorities, want)
	}
	if port := after.port(t); !port.Attached || port.GatedPriorities != capture.AllGated {
		t.Errorf("attached without ktsnd the port is %+v", port)
	}
}

func TestRemovedCaptureFilterIsRestored(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	config := lab.a.config(nil)
	for name, mend := range map[string]func(*testing.T, *pod){
		"by CHECK": func(t *testing.T, p *pod) {
			err := lab.a.runtime.CheckNetworkList(t.Context(), list(t, config), p.attachment())
			testlab.CheckError(t, err, "had lost a filter")
			must(t, lab.a.runtime.CheckNetworkList(t.Context(), list(t, config), p.attachment()))
		},
		"by ktsn node restore": func(t *testing.T, p *pod) {
			want := "put back the filter of interface tsn0 of container " + p.id
			if output := lab.a.ktsn(t, "node", "restore"); !strings.Contains(output, want) {
				t.Errorf("got %q, want %q", output, want)
			}
			if output := lab.a.ktsn(t, "node", "restore"); strings.Contains(output, "put back") {
				t.Errorf("of a filter that is there got %q", output)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for end, remove := range map[string]func(*pod){
				"in the pod":        func(p *pod) { on(t, p.Namespace, podIf, removeFilters) },
				"at the node's end": func(p *pod) { on(t, lab.a.Namespace, portOf(p), removeFilters) },
			} {
				pod := lab.a.newPod(t)
				pod.add(t, config)
				remove(pod)
				if isGuarded(t, pod) {
					t.Fatalf("the filter %s cannot be removed", end)
				}
				mend(t, pod)
				if !isGuarded(t, pod) {
					t.Errorf("the filter %s is not back", end)
				}
				pod.del(t, config)
			}
		})
	}
}

func TestEndpointPassSetting(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	for name, test := range map[string]struct {
		changes fields
		guarded bool
	}{
		"by the network":                      {fields{"unseen": "pass"}, false},
		"by its runtime":                      {fields{"args": fields{"cni": fields{"unseen": "pass"}}}, false},
		"not by a network, where it does not": {fields{"unseen": "pass", "args": fields{"cni": fields{"unseen": "drop"}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := lab.a.newPod(t)
			config := lab.a.config(test.changes)
			pod.add(t, config)
			must(t, lab.a.runtime.CheckNetworkList(t.Context(), list(t, config), pod.attachment()))
			lab.a.ktsn(t, "node", "restore")
			if got := isGuarded(t, pod); got != test.guarded {
				t.Errorf("has the filter: %v, want %v", got, test.guarded)
			}
		})
	}
}
