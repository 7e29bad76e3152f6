// SPDX-License-Identifier: Apache-2.0

//go:build insidevm

package netns_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

const (
	taprioDevice  = "tsn"
	exampleFolder = "../../examples/"
	// katasClasses are the classes of the paper on Kata containers.
	katasClasses = "3,3,3,3,3,3,1,3,3,3,3,3,3,3,3,3"
)

// qdisc is a queueing discipline as tc shows it.
type qdisc struct {
	Kind    string `json:"kind"`
	Handle  string `json:"handle"`
	Parent  string `json:"parent"`
	Root    bool   `json:"root"`
	Options struct {
		Classes  int   `json:"tc"`
		Map      []int `json:"map"`
		BaseTime int64 `json:"base_time"`
		Schedule []struct {
			Gates    string `json:"gatemask"`
			Interval int64  `json:"interval"`
		} `json:"schedule"`
		CycleTime int64 `json:"cycle_time"`
		Delta     int64 `json:"delta"`
	} `json:"options"`
}

// queueing returns the queueing disciplines of a device: taprio's own and those with a parent.
func queueing(t *testing.T, in *topology.Namespace) (root *qdisc, children []qdisc) {
	t.Helper()
	var all []qdisc
	must(t, in.Do(func() error {
		output, err := exec.Command("tc", "-j", "qdisc", "show", "dev", taprioDevice).Output()
		if err != nil {
			return err
		}
		return json.Unmarshal(output, &all)
	}))
	for i := range all {
		if all[i].Root {
			root = &all[i]
		} else if all[i].Kind == "etf" {
			children = append(children, all[i])
		}
	}
	return root, children
}

// exportTo makes the device execute a schedule and returns ktsn's output.
func exportTo(t *testing.T, in *topology.Namespace, arguments ...string) (string, error) {
	t.Helper()
	output, err := exec.Command(program(t, "ktsn"), append([]string{"schedule", "export", "--apply", "--netns", in.Path(), "--taprio", taprioDevice}, arguments...)...).CombinedOutput()
	return string(output), err
}

// multiQueue creates a namespace with a device of eight queues.
func multiQueue(t *testing.T) *topology.Namespace {
	t.Helper()
	id, err := topology.NewID()
	must(t, err)
	namespace := newNamespace(t, id.String()+"-taprio")
	must(t, namespace.Do(func() error {
		attributes := netlink.NewLinkAttrs()
		attributes.Name, attributes.NumTxQueues, attributes.NumRxQueues = taprioDevice, 8, 8
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: "other"})
	}))
	return namespace
}

func TestKernelExecutesSchedule(t *testing.T) {
	for _, module := range []string{"sch_taprio", "sch_etf", "8021q"} {
		if output, err := exec.Command("modprobe", module).CombinedOutput(); err != nil {
			t.Fatalf("modprobe %s: %v: %s", module, err, output)
		}
	}
	in := multiQueue(t)
	paper := []string{"--etf", "--etf-classes", "1", "--delta", "5ms", "--vlan", "3", "--map", katasClasses, "--pcp", "0,6,0,0", exampleFolder + "kata-schedule.yaml"}
	for _, when := range []string{"first", "again"} {
		if output, err := exportTo(t, in, paper...); err != nil {
			t.Fatalf("%s: %v: %s", when, err, output)
		}
		root, children := queueing(t, in)
		if root == nil || root.Kind != "taprio" || root.Options.Classes != 4 || len(root.Options.Schedule) != 8 || root.Options.CycleTime != 1_000_000 ||
			root.Options.BaseTime != 1588076872_000_000_000 || root.Options.Schedule[7].Gates != "0x8" || root.Options.Schedule[0].Interval != 200_000 {
			t.Errorf("%s: the root is %+v", when, root)
		}
		if len(children) != 1 || children[0].Parent != "100:2" || children[0].Options.Delta != 5_000_000 {
			t.Errorf("%s: below it there are %+v", when, children)
		}
	}
	if err := in.Do(func() error {
		output, err := exec.Command("ip", "-d", "link", "show", taprioDevice+".3").Output()
		if !strings.Contains(string(output), "egress-qos-map { 6:6 }") || !strings.Contains(string(output), "vlan protocol 802.1Q id 3") {
			t.Errorf("the VLAN device is %s", output)
		}
		return err
	}); err != nil {
		t.Error(err)
	}

	t.Run("a replacement", func(t *testing.T) {
		if output, err := exportTo(t, in, exampleFolder+"kata-schedule.yaml"); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		if root, children := queueing(t, in); root == nil || root.Options.Classes != 8 || len(children) != 0 {
			t.Errorf("the root is %+v with %+v", root, children)
		}
	})
	t.Run("a rejected one leaves nothing", func(t *testing.T) {
		// The device has no gates of its own.
		output, err := exportTo(t, in, "--offload=taprio", "--vlan", "4", exampleFolder+"kata-schedule.yaml")
		if err == nil || !strings.Contains(output, "flags 0x2") {
			t.Errorf("%v: %s", err, output)
		}
		if root, children := queueing(t, in); (root != nil && root.Kind == "taprio") || len(children) != 0 {
			t.Errorf("left are %+v, %+v", root, children)
		}
		if err := in.Do(func() error { _, err := netlink.LinkByName(taprioDevice + ".4"); return err }); err == nil {
			t.Error("the VLAN device is left")
		}
	})
}
