// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/fault"
	"github.com/kubernetsn/kubernetsn/internal/node/kata"
)

// kataInventory is what there is for a pod of Kata: beside the usual things the files of its devices, and what frames meet at the pod's
// interfaces.
func kataInventory(t *testing.T, folder string, p *pod) []string {
	t.Helper()
	all := p.node.inventory(t, p)
	for _, path := range glob(t, filepath.Join(folder, "*")) {
		all = append(all, "file "+path)
	}
	must(t, p.Do(func() error {
		links, err := netlink.LinkList()
		for _, link := range links {
			qdiscs, err := netlink.QdiscList(link)
			if err != nil {
				return err
			}
			for _, qdisc := range qdiscs {
				all = append(all, fmt.Sprintf("%s has the queueing discipline %s", link.Attrs().Name, qdisc.Type()))
			}
			filters, err := netlink.FilterList(link, netlink.HANDLE_MIN_INGRESS)
			if err != nil {
				return err
			}
			for _, filter := range filters {
				all = append(all, fmt.Sprintf("%s has the filter %s %d", link.Attrs().Name, filter.Type(), filter.Attrs().Priority))
			}
		}
		return err
	}))
	slices.Sort(all)
	return all
}

// foreignFilter is at the ingress of the pod's primary interface, behind where this plugin would put its own.
func foreignFilter(t *testing.T, p *pod) {
	t.Helper()
	must(t, p.Do(func() error {
		for _, command := range []string{"qdisc add dev eth0 clsact", "filter add dev eth0 ingress prio 7 protocol all u32 match u8 0 0 flowid 1:1"} {
			if output, err := exec.Command("tc", strings.Fields(command)...).CombinedOutput(); err != nil {
				return fmt.Errorf("tc %s: %w: %s", command, err, output)
			}
		}
		return nil
	}))
}

func TestKataAddRollsBackOtherInterfaces(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*testing.T, *pod){
		"which nothing was at":              func(*testing.T, *pod) {},
		"which another's filter was at too": foreignFilter,
	} {
		t.Run(name, func(t *testing.T) {
			lab := newLab(t)
			lab.a.startDaemon(t)
			pod := lab.a.newPod(t)
			primary(t, pod)
			prepare(t, pod)
			// There is one of the name of the last interface's tap, so that it cannot be made.
			must(t, pod.Do(func() error {
				last := &netlink.Bridge{LinkAttrs: named("last")}
				if err := netlink.LinkAdd(last); err != nil {
					return err
				}
				if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: named("taplast")}); err != nil {
					return err
				}
				return netlink.LinkSetUp(last)
			}))
			folder := danFolder(t)
			before := kataInventory(t, folder, pod)
			_, err := lab.a.runtime.AddNetworkList(t.Context(), list(t, lab.a.config(fields{"device": "tap", "device-dan": folder})), pod.attachment())
			refused(t, err, 999, "attach the pod's interfaces to its machine of Kata: make the tap taplast")
			checkSame(t, "after ADD", before, kataInventory(t, folder, pod))
		})
	}
}

func TestKataDevicesGoWithPod(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	lab.a.startDaemon(t)
	pod := lab.a.newPod(t)
	primary(t, pod)
	foreignFilter(t, pod)
	folder := danFolder(t)
	before := kataInventory(t, folder, pod)
	for _, device := range []string{"tap", "vhost-user"} {
		configs := list(t, lab.a.config(fields{"device": device, "device-dan": folder}))
		add := func(t *testing.T, runtime *libcni.CNIConfig) error {
			_, err := runtime.AddNetworkList(t.Context(), configs, pod.attachment())
			return err
		}
		for name, clean := range cleaners {
			run := func(when string, prepare func(*testing.T)) {
				t.Run(device+", "+when+name, func(t *testing.T) {
					prepare(t)
					clean(t, pod, configs)
					checkSame(t, "after "+name, before, kataInventory(t, folder, pod))
				})
			}
			run("", func(t *testing.T) { must(t, add(t, lab.a.runtime)) })
			for _, point := range fault.Kata {
				run("ADD killed at "+point+", then ", func(t *testing.T) { mustBeKilled(t, add(t, lab.a.killedAt(t, point))) })
			}
			for _, point := range fault.KataDel {
				run("DEL killed at "+point+", then ", func(t *testing.T) {
					must(t, add(t, lab.a.runtime))
					mustBeKilled(t, lab.a.killedAt(t, point).DelNetworkList(t.Context(), configs, pod.attachment()))
				})
			}
		}
	}
}

func TestKataFileStaysUntilLastInterface(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	lab.a.startDaemon(t)
	pod := lab.a.newPod(t)
	primary(t, pod)
	folder := danFolder(t)
	before := kataInventory(t, folder, pod)
	changes := fields{"device": "tap", "device-dan": folder}
	first := list(t, lab.a.config(changes))
	changes["vni"], changes["ipam"] = 43, static("10.43.0.9/16")
	second := rename(t, "other", lab.a.config(changes))
	at := pod.attachment()
	at.IfName = "tsn1"
	for _, attachment := range []struct {
		configs *libcni.NetworkConfigList
		at      *libcni.RuntimeConf
	}{{first, pod.attachment()}, {second, at}} {
		if _, err := lab.a.runtime.AddNetworkList(t.Context(), attachment.configs, attachment.at); err != nil {
			t.Fatal(err)
		}
	}
	names := func() (all []string) {
		for _, device := range readDevices(t, folder, pod).Devices {
			all = append(all, device.Name)
		}
		return all
	}
	if got := names(); !slices.Equal(got, []string{primaryIf, podIf, "tsn1"}) {
		t.Errorf("the machine has %q", got)
	}
	must(t, lab.a.runtime.DelNetworkList(t.Context(), second, at))
	if got := names(); !slices.Equal(got, []string{primaryIf, podIf}) {
		t.Errorf("after the second network is gone the machine has %q", got)
	}
	on(t, pod.Namespace, "tapeth0", func(netlink.Link) error { return nil })
	must(t, lab.a.runtime.DelNetworkList(t.Context(), first, pod.attachment()))
	checkSame(t, "after both are gone", before, kataInventory(t, folder, pod))
	if _, err := kata.Read(folder, pod.id); err == nil {
		t.Error("the file stays")
	}
}
