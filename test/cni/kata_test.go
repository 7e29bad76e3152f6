// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/fault"
	"github.com/kubernetsn/kubernetsn/internal/node/kata"
	"github.com/kubernetsn/kubernetsn/internal/node/machine"
	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
)

const (
	// kataTap is Kata's name of the tap of a machine's first interface.
	kataTap    = "tap0_kata"
	kataFolder = "/run/kata-containers"
	primaryIf  = "eth0"
)

// filteredByKata configures a pod's network namespace as Kata's runtime does by default (internetworking_model
// tcfilter, version 3; runtime-rs, network_model/tc_filter_model.rs): it creates a tap and redirects between it and the
// interface with the ingress queueing discipline of each, which must not exist yet.
func filteredByKata(t *testing.T, p *pod) *os.File {
	t.Helper()
	file := openTapAs(t, p, kataTap, 0)
	must(t, p.Do(func() error {
		commands := []string{"ip link set " + kataTap + " mtu 1450 up"}
		for _, device := range []string{kataTap, podIf} {
			commands = append(commands, "tc qdisc add dev "+device+" handle ffff: ingress")
		}
		for from, to := range map[string]string{kataTap: podIf, podIf: kataTap} {
			commands = append(commands, fmt.Sprintf("tc filter add dev %s parent ffff: protocol all u32 match u8 0 0 action mirred egress redirect dev %s", from, to))
		}
		for _, command := range commands {
			words := strings.Fields(command)
			if output, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", command, err, output)
			}
		}
		return nil
	}))
	return file
}

func TestKataMachineSends(t *testing.T) {
	t.Parallel()
	m := newMachines(t, fields{"device": "veth", "createSocket": false})
	m.a.runRelays(t)
	m.a.awaitTaps(t, m.guest)
	tap, there := filteredByKata(t, m.guest), packetSocket(t, m.otherMachine, machineEtherType)
	must(t, m.a.runtime.CheckNetworkList(t.Context(), list(t, m.config), m.guest.attachment()))
	// Kata gives the machine the interface's MTU; the record makes the largest frame exceed it.
	m.sendsBy(t, tap, there)
	source, to := macOf(t, m.guest.Namespace, podIf), macOf(t, m.otherMachine.Namespace, podIf)
	_, err := unix.Write(packetSocket(t, m.otherMachine, machineEtherType), machineFrame(source, to, machineEtherType, []byte("for the machine")))
	must(t, err)
	awaitFrame(t, tap, "for the machine")
}

// danFolder creates a folder for Kata's configuration and removes it at the end of the test.
func danFolder(t *testing.T) string {
	t.Helper()
	for {
		must(t, os.MkdirAll(kataFolder, 0o755))
		folder, err := os.MkdirTemp(kataFolder, "ktsn-test-")
		if errors.Is(err, fs.ErrNotExist) {
			continue // a parallel test has just removed kataFolder
		}
		must(t, err)
		t.Cleanup(func() {
			must(t, os.RemoveAll(folder))
			_ = os.Remove(kataFolder) // fails while others use it
		})
		return folder
	}
}

func readDevices(t *testing.T, folder string, p *pod) *kata.Devices {
	t.Helper()
	devices, err := kata.Read(folder, p.id)
	must(t, err)
	return devices
}

func TestKataFileListsAllInterfaces(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	for kind, back := range map[string]func(*pod) kata.Back{
		"tap": func(*pod) kata.Back { return kata.Back{Type: kata.HostTap, TapName: podTap, Queues: 2} },
		"vhost-user": func(p *pod) kata.Back {
			return kata.Back{Type: kata.VhostUser, Path: p.vhostSocket(), Queues: 2}
		},
	} {
		t.Run(kind, func(t *testing.T) {
			pod := lab.a.newPod(t)
			primary(t, pod)
			folder := danFolder(t)
			config := lab.a.config(fields{"createSocket": false,
				"args": fields{"cni": fields{"device": kind, "device-queues": 2, "device-dan": folder}}})
			result := pod.add(t, config)
			path := kata.Path(folder, pod.id)
			devices := readDevices(t, folder, pod)
			if devices.Netns != pod.Path() || len(devices.Devices) != 2 {
				t.Fatalf("they are %+v", devices)
			}
			first, second := devices.Devices[0], devices.Devices[1]
			if first.Name != primaryIf || first.Back != (kata.Back{Type: kata.HostTap, TapName: "tapeth0", Queues: 1}) ||
				len(first.Network.Interface.Addresses) != 1 || !slices.Equal(first.Network.Routes, []kata.Route{{Gateway: "10.99.0.1"}}) {
				t.Errorf("the primary interface is %+v", first)
			}
			if second.Name != podIf || second.Back != back(pod) || second.Address != macOf(t, pod.Namespace, podIf).String() || second.Network.Interface.MTU != 1450 ||
				!slices.Equal(second.Network.Interface.Addresses, []string{result.IPs[0].Address.String()}) {
				t.Errorf("the network's interface is %+v", second)
			}
			on(t, pod.Namespace, "tapeth0", func(netlink.Link) error { return nil })
			check := func() error { return lab.a.runtime.CheckNetworkList(t.Context(), list(t, config), pod.attachment()) }
			must(t, check())
			must(t, os.Remove(path))
			checkRefused(t, check(), 106, path+" is gone, by which Kata's runtime attaches the pod's interfaces")
			pod.del(t, config)
			if left, err := filepath.Glob(filepath.Join(folder, "*")); err != nil || len(left) > 0 {
				t.Errorf("%q are left, %v", left, err)
			}
			if _, err := os.Stat(filepath.Dir(pod.vhostSocket())); !os.IsNotExist(err) {
				t.Errorf("the pod's folder is left: %v", err)
			}
		})
	}
}

func TestKataMachineHasPrimaryInterface(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	pod := lab.a.newPod(t)
	primary(t, pod)
	folder := danFolder(t)
	pod.add(t, lab.a.config(fields{"device": "tap", "device-dan": folder}))
	device := readDevices(t, folder, pod).Devices[0]
	mac, err := net.ParseMAC(device.Address)
	must(t, err)
	address := netip.MustParsePrefix(device.Network.Interface.Addresses[0]).Addr()
	gateway := netip.MustParseAddr(device.Network.Routes[0].Gateway)
	tap := openTapAs(t, pod, device.Back.TapName, 0)
	request := slices.Concat(vnetHeader, machineFrame(broadcast, mac, unix.ETH_P_ARP, arpRequest(mac, address, gateway)))
	// The other plugin does not wait for its bridge's forwarding state.
	go func() {
		for t.Context().Err() == nil {
			_, _ = tap.Write(request)
			time.Sleep(100 * time.Millisecond)
		}
	}()
	// The reply contains the requested address first, then the requester's.
	awaitFrame(t, tap, string(slices.Concat(gateway.AsSlice(), mac, address.AsSlice())))
}

// machineOf returns the machine of a pod from the output of `ktsn status`.
func machineOf(t *testing.T, p *pod) machine.Machine {
	t.Helper()
	var state struct {
		Devices []machine.Machine `json:"devices"`
	}
	output := within(t, p.node, func() ([]byte, error) {
		return exec.Command(program(t, "ktsn"), "status", "--control", p.node.control(), "--output", "json").Output()
	})
	must(t, json.Unmarshal(output, &state))
	at := slices.IndexFunc(state.Devices, func(device machine.Machine) bool { return device.Identity == p.identity() })
	if at < 0 {
		t.Fatalf("it does not report %s: %+v", p.id, state.Devices)
	}
	return state.Devices[at]
}

// checkMachineStatus checks the connection of a machine and the beginning of each fault.
func checkMachineStatus(t *testing.T, p *pod, way string, faults ...string) {
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
	lab := newServedLab(t)
	pod := lab.a.newPod(t)
	pod.add(t, lab.a.config(fields{"device": "veth", "createSocket": false}))
	checkMachineStatus(t, pod, "the interface itself, which nothing has taken", "nothing has taken tsn0 for a machine")
	tap := filteredByKata(t, pod)
	checkMachineStatus(t, pod, "the interface itself, which Kata has taken by tap0_kata")
	shown := lab.a.ktsn(t, "node", "capture")
	if !strings.Contains(shown, "veth") || strings.Contains(shown, "let pass") {
		t.Errorf("captured is %s", shown)
	}
	// A tap that is not persistent is removed when it is closed, and so is the redirection to it.
	must(t, tap.Close())
	checkMachineStatus(t, pod, "the interface itself, which nothing has taken", "nothing has taken tsn0 for a machine")
}

func TestStatusReportsKataFile(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	pod := lab.a.newPod(t)
	primary(t, pod)
	folder := danFolder(t)
	pod.add(t, lab.a.config(fields{"device": "tap", "device-queues": 2, "device-dan": folder}))
	path := kata.Path(folder, pod.id)
	way := "tap, which Kata finds in " + path
	checkMachineStatus(t, pod, way, "no process has the tap tapeth0 open", "no process has the tap taptsn0 open")
	openTapAs(t, pod, "tapeth0", 0)
	openTapAs(t, pod, podTap, unix.IFF_MULTI_QUEUE)
	checkMachineStatus(t, pod, way)
	if got := machineOf(t, pod); got.Device != "tap" || got.Queues != 2 || got.DAN != folder {
		t.Errorf("it is %+v", got)
	}
	must(t, kata.RemoveDevice(folder, pod.id, podIf))
	checkMachineStatus(t, pod, way, "tsn0 is not in "+path)
	must(t, os.Remove(path))
	checkMachineStatus(t, pod, way, "there is no file "+path)
}

func TestStatusReportsUnservedVhostUser(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	pod := lab.a.newPod(t)
	folder := danFolder(t)
	pod.add(t, lab.a.config(fields{"device": "vhost-user", "device-dan": folder}))
	way := "vhost-user, which Kata finds in " + kata.Path(folder, pod.id)
	checkMachineStatus(t, pod, way, fmt.Sprintf("there is no socket %s of vhost-user", pod.vhostSocket()))
	lab.a.runRelays(t)
	pod.awaitVhostSocket(t)
	checkMachineStatus(t, pod, way)
}

// kataInventory returns the inventory of a Kata pod: the usual one, its device files, and the filters of the pod's
// interfaces.
func kataInventory(t *testing.T, folder string, p *pod) []string {
	t.Helper()
	all := p.node.inventory(t, p)
	for _, path := range glob(t, filepath.Join(folder, "*")) {
		all = append(all, "file "+path)
	}
	must(t, p.Do(func() error {
		links, err := netdev.Dump(netlink.LinkList)
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

// foreignFilter adds a filter at the ingress of the pod's primary interface, after the place of the plugin's own
// filter.
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
		"which nothing was at":  func(*testing.T, *pod) {},
		"with a foreign filter": foreignFilter,
	} {
		t.Run(name, func(t *testing.T) {
			lab := newServedLab(t)
			pod := lab.a.newPod(t)
			primary(t, pod)
			prepare(t, pod)
			// A device has the name of the last interface's tap, so that it cannot be created.
			must(t, pod.Do(func() error {
				last := &netlink.Bridge{LinkAttrs: linkAttrs("last")}
				if err := netlink.LinkAdd(last); err != nil {
					return err
				}
				if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: linkAttrs("taplast")}); err != nil {
					return err
				}
				return netlink.LinkSetUp(last)
			}))
			folder := danFolder(t)
			before := kataInventory(t, folder, pod)
			_, err := lab.a.runtime.AddNetworkList(t.Context(), list(t, lab.a.config(fields{"device": "tap", "device-dan": folder})), pod.attachment())
			checkRefused(t, err, 999, "attach the pod's interfaces to its machine of Kata: make the tap taplast")
			checkSame(t, "after ADD", before, kataInventory(t, folder, pod))
		})
	}
}

func TestKataDevicesGoWithPod(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
	pod := lab.a.newPod(t)
	primary(t, pod)
	foreignFilter(t, pod)
	folder := danFolder(t)
	for _, device := range []string{"tap", "vhost-user"} {
		configs := list(t, lab.a.config(fields{"device": device, "device-dan": folder}))
		t.Run(device, func(t *testing.T) {
			pod.checkCleanedUp(t, configs, func() []string { return kataInventory(t, folder, pod) },
				append(pod.killedAdds(configs, fault.Kata), pod.killedDels(configs, fault.KataDel)...))
		})
	}
}

func TestKataFileStaysUntilLastInterface(t *testing.T) {
	t.Parallel()
	lab := newServedLab(t)
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
		must(t, lab.a.attach(attachment.configs, attachment.at))
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
