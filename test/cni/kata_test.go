// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
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

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/kata"
)

const (
	// kataTap is how Kata calls the tap of a machine's first interface.
	kataTap    = "tap0_kata"
	kataFolder = "/run/kata-containers"
	primaryIf  = "eth0"
)

// filteredByKata does in a pod's network namespace what Kata's runtime does there by default (internetworking_model tcfilter, version 3;
// runtime-rs, network_model/tc_filter_model.rs): it makes a tap, and redirects between it and the interface, each by the queueing
// discipline ingress, which must not be there yet.
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
	tap, there := filteredByKata(t, m.guest), packets(t, m.other, machineEtherType)
	must(t, m.a.runtime.CheckNetworkList(t.Context(), list(t, m.config), m.guest.attachment()))
	// Kata gives the machine the interface's MTU; the record of the largest frame goes beyond it.
	m.sendsBy(t, tap, there)
	source, to := hardwareAddress(t, m.guest), hardwareAddress(t, m.other)
	_, err := unix.Write(packets(t, m.other, machineEtherType), machineFrame(source, to, machineEtherType, []byte("for the machine")))
	must(t, err)
	awaitAt(t, tap, "for the machine")
}

// danFolder creates a folder that Kata's configuration could name, and removes it at the end of the test.
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
	lab := newLab(t)
	lab.a.startDaemon(t)
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
			if second.Name != podIf || second.Back != back(pod) || second.Address != hardwareAddress(t, pod).String() || second.Network.Interface.MTU != 1450 ||
				!slices.Equal(second.Network.Interface.Addresses, []string{result.IPs[0].Address.String()}) {
				t.Errorf("the network's interface is %+v", second)
			}
			on(t, pod.Namespace, "tapeth0", func(netlink.Link) error { return nil })
			check := func() error { return lab.a.runtime.CheckNetworkList(t.Context(), list(t, config), pod.attachment()) }
			must(t, check())
			must(t, os.Remove(path))
			refused(t, check(), 106, path+" is gone, by which Kata's runtime attaches the pod's interfaces")
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
	lab := newLab(t)
	lab.a.startDaemon(t)
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
	broadcast := net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	request := slices.Concat(vnetHeader, machineFrame(broadcast, mac, unix.ETH_P_ARP, arpRequest(mac, address, gateway)))
	// The other plugin does not wait until its bridge forwards.
	go func() {
		for t.Context().Err() == nil {
			_, _ = tap.Write(request)
			time.Sleep(100 * time.Millisecond)
		}
	}()
	// The reply names who is asked for first, and then who asked.
	awaitAt(t, tap, string(slices.Concat(gateway.AsSlice(), mac, address.AsSlice())))
}
