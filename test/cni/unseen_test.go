// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/unseen"
)

// removeFilters removes all filters of an interface, as who has CAP_NET_ADMIN can.
func removeFilters(link netlink.Link) error {
	return netlink.QdiscDel(&netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}})
}

// isGuarded tells whether the pod's interface has the filter.
func isGuarded(t *testing.T, p *pod) bool {
	t.Helper()
	count, err := unseen.ReadIn(p.Path(), podIf)
	must(t, err)
	return count.Guarded
}

// filterProgram is the kernel's number of the program at the egress of the pod's interface.
func filterProgram(t *testing.T, p *pod) (id ebpf.ProgramID) {
	t.Helper()
	on(t, p.Namespace, podIf, func(link netlink.Link) error {
		filters, err := netlink.FilterList(link, netlink.HANDLE_MIN_EGRESS)
		if err != nil || len(filters) != 1 {
			return errors.Join(err, errors.New("the interface has not one filter"))
		}
		id = ebpf.ProgramID(filters[0].(*netlink.BpfFilter).Id)
		return nil
	})
	return id
}

func TestTheFilterGoesWithTheInterface(t *testing.T) {
	lab := newLab(t)
	lab.a.startDaemon(t)
	pod := lab.a.newPod(t)
	config := lab.a.config(nil)
	pod.add(t, config)
	id := filterProgram(t, pod)
	must(t, lab.a.runtime.DelNetworkList(t.Context(), list(t, config), pod.attachment()))
	// The kernel frees it when nobody can be in it any more.
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		program, err := ebpf.NewProgramFromID(id)
		if errors.Is(err, os.ErrNotExist) {
			return
		}
		must(t, err)
		program.Close()
		if time.Now().After(deadline) {
			t.Fatalf("program %d is still in the kernel", id)
		}
	}
}

func TestAFilterThatWasRemovedIsPutBack(t *testing.T) {
	lab := newLab(t)
	lab.a.startDaemon(t)
	config := lab.a.config(nil)
	for name, mend := range map[string]func(*testing.T, *pod){
		"by CHECK": func(t *testing.T, p *pod) {
			err := lab.a.runtime.CheckNetworkList(t.Context(), list(t, config), p.attachment())
			if err == nil || !strings.Contains(err.Error(), "had lost the filter") {
				t.Errorf("CHECK said %v", err)
			}
			must(t, lab.a.runtime.CheckNetworkList(t.Context(), list(t, config), p.attachment()))
		},
		"by ktsn node restore": func(t *testing.T, p *pod) {
			want := "put back the filter of interface tsn0 of container " + p.id
			if said := lab.a.ktsn(t, "node", "restore"); !strings.Contains(said, want) {
				t.Errorf("it said %q, want %q", said, want)
			}
			if said := lab.a.ktsn(t, "node", "restore"); strings.Contains(said, "put back") {
				t.Errorf("of a filter that is there it said %q", said)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := lab.a.newPod(t)
			pod.add(t, config)
			on(t, pod.Namespace, podIf, removeFilters)
			if isGuarded(t, pod) {
				t.Fatal("the filter cannot be removed")
			}
			mend(t, pod)
			if !isGuarded(t, pod) {
				t.Error("the filter is not back")
			}
		})
	}
}

func TestAnEndpointCanBeToldToLetThemPass(t *testing.T) {
	lab := newLab(t)
	lab.a.startDaemon(t)
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
