// SPDX-License-Identifier: Apache-2.0

//go:build insidevm

package netns_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/fault"
	"github.com/kubernetsn/kubernetsn/internal/node/kata"
	"github.com/kubernetsn/kubernetsn/internal/node/passthrough"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/cniruntime"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// cardPod is a Kata pod on a network with cards. Only its network namespace exists.
type cardPod struct {
	*topology.Namespace
	runtime *libcni.CNIConfig
	id      string
}

func newCardPod(t *testing.T, runtime *libcni.CNIConfig, id string) *cardPod {
	t.Helper()
	namespace := newNamespace(t, "ktsn-card-"+id)
	return &cardPod{namespace, runtime, id}
}

func (p *cardPod) at() *libcni.RuntimeConf {
	return &libcni.RuntimeConf{ContainerID: p.id, NetNS: p.Path(), IfName: "tsn0", Args: [][2]string{{"IgnoreUnknown", "1"}, {"K8S_POD_UID", "uid-" + p.id}}}
}

// primary adds an interface of another plugin to the pod.
func (p *cardPod) primary(t *testing.T) {
	t.Helper()
	must(t, p.Do(func() error {
		attributes := netlink.NewLinkAttrs()
		attributes.Name = "eth0"
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: "other"}); err != nil {
			return err
		}
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(link)
	}))
}

func (p *cardPod) add(t *testing.T, configs *libcni.NetworkConfigList) (*current.Result, error) {
	t.Helper()
	result, err := p.runtime.AddNetworkList(t.Context(), configs, p.at())
	if err != nil {
		return nil, err
	}
	return current.GetResult(result)
}

func speaksOf(t *testing.T, err error, part string) {
	t.Helper()
	testlab.CheckError(t, err, part)
}

// killableVariable is the variable with the folder of a tsn-cni with fault points.
const killableVariable = "KTSN_KILLABLE_DIR"

// TestKataPodGetsCard runs subtests in order, since each needs the previous one.
func TestKataPodGetsCard(t *testing.T) {
	card, wire := cards(t)
	if output, err := exec.Command("modprobe", "--all", "tun", "sch_ingress", "cls_bpf").CombinedOutput(); err != nil {
		t.Fatalf("modprobe: %v: %s", err, output)
	}
	const folder = "/run/kata-containers/dans"
	programs, killable := filepath.Dir(program(t, "tsn-cni")), os.Getenv(killableVariable)
	runtime := libcni.NewCNIConfigWithCacheDir([]string{programs}, t.TempDir(), nil)
	configs, err := cniruntime.List("1.1.0", "cards", map[string]any{
		"type": "tsn-cni", "vni": 42, "controlSocket": "", "uplink": wire.Interfaces[0], "stateDir": t.TempDir(),
		"ipam":  map[string]any{"type": "static", "addresses": []any{map[string]any{"address": "10.42.1.9/16"}}, "routes": []any{map[string]any{"dst": "10.43.0.0/16", "gw": "10.42.0.1"}}},
		"cards": []string{"0000:ff:1f.7", card.Address}, "device": "vfio", "device-dan": folder,
	})
	must(t, err)
	pod, second := newCardPod(t, runtime, "first"), newCardPod(t, runtime, "second")
	pod.primary(t)
	link, err := netlink.LinkByName(card.Interfaces[0])
	must(t, err)
	path := kata.Path(folder, pod.id)
	t.Run("rejected while the node has an address on it", func(t *testing.T) {
		address, err := netlink.ParseAddr("192.0.2.77/24")
		must(t, err)
		must(t, netlink.AddrAdd(link, address))
		_, err = pod.add(t, configs)
		speaksOf(t, err, "0000:ff:1f.7: this machine has no PCI device")
		speaksOf(t, err, card.Address+": the node would be cut off: "+card.Interfaces[0]+" has the address 192.0.2.77/24")
		if _, err := os.Stat(path); driverOf(card.Address) != cardDriver || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the driver is %q, the file %v", driverOf(card.Address), err)
		}
		must(t, netlink.AddrDel(link, address))
	})
	for _, point := range fault.Card {
		t.Run("not kept by an ADD that was killed when it was "+point, func(t *testing.T) {
			t.Setenv(fault.Variable, point)
			killed := libcni.NewCNIConfigWithCacheDir([]string{killable, programs}, t.TempDir(), nil)
			if _, err := killed.AddNetworkList(t.Context(), configs, pod.at()); err == nil || !strings.Contains(err.Error(), "signal: killed") {
				t.Fatalf("it was not killed: %v", err)
			}
			must(t, runtime.DelNetworkList(t.Context(), configs, pod.at()))
			left, _ := os.ReadDir(passthrough.NewBus().StateDir)
			if got := driverOf(card.Address); got != cardDriver || len(left) > 0 {
				t.Errorf("the driver is %q, notes are %v", got, left)
			}
		})
	}
	// The card has another interface after its return.
	again, err := passthrough.NewBus().Read(card.Address)
	if err != nil || len(again.Interfaces) != 1 {
		t.Fatalf("%+v, %v", again, err)
	}
	if link, err = netlink.LinkByName(again.Interfaces[0]); err != nil {
		t.Fatal(err)
	}
	t.Run("given", func(t *testing.T) {
		result, err := pod.add(t, configs)
		must(t, err)
		if moved := result.Interfaces[0]; len(result.Interfaces) != 1 || moved.PciID != card.Address || moved.Mac != link.Attrs().HardwareAddr.String() {
			t.Errorf("the result is %+v", result.Interfaces)
		}
		devices, err := kata.Read(folder, pod.id)
		if err != nil || len(devices.Devices) != 2 {
			t.Fatalf("%+v, %v", devices, err)
		}
		attached := devices.Devices[1]
		if devices.Devices[0].Back.Type != kata.HostTap || attached.Name != "tsn0" || attached.Back != (kata.Back{Type: kata.VFIO, Card: card.Address}) ||
			attached.Address != link.Attrs().HardwareAddr.String() || !slices.Equal(attached.Network.Interface.Addresses, []string{"10.42.1.9/16"}) ||
			!slices.Equal(attached.Network.Routes, []kata.Route{{Destination: "10.43.0.0/16", Gateway: "10.42.0.1"}}) {
			t.Errorf("the machine has %+v", devices.Devices)
		}
		if got := driverOf(card.Address); got != passthrough.VFIO {
			t.Errorf("the driver is %q", got)
		}
		if err := runtime.CheckNetworkList(t.Context(), configs, pod.at()); err != nil {
			t.Errorf("CHECK: %v", err)
		}
	})
	t.Run("exclusive to one pod", func(t *testing.T) {
		_, err := second.add(t, configs)
		speaksOf(t, err, card.Address+": it belongs to cards:first:tsn0:uid-first already")
		if err := runtime.DelNetworkList(t.Context(), configs, second.at()); err != nil || driverOf(card.Address) != passthrough.VFIO {
			t.Errorf("DEL of the other pod: %v; the driver is %q", err, driverOf(card.Address))
		}
		_, err = pod.add(t, configs)
		speaksOf(t, err, "container first is attached to network cards as tsn0 already; call DEL first")
	})
	t.Run("kept while its machine runs", func(t *testing.T) {
		bound, err := passthrough.NewBus().Read(card.Address)
		must(t, err)
		open, err := os.OpenFile(filepath.Join("/dev/vfio", strconv.Itoa(bound.Group)), os.O_RDWR, 0)
		must(t, err)
		speaksOf(t, runtime.DelNetworkList(t.Context(), configs, pod.at()), "is in use")
		if _, err := os.Stat(path); err != nil || driverOf(card.Address) != passthrough.VFIO {
			t.Errorf("the driver is %q, the file %v", driverOf(card.Address), err)
		}
		must(t, open.Close())
	})
	t.Run("given back", func(t *testing.T) {
		for range 2 {
			must(t, runtime.DelNetworkList(t.Context(), configs, pod.at()))
		}
		if got := driverOf(card.Address); got != cardDriver {
			t.Errorf("the driver is %q", got)
		}
		left, _ := os.ReadDir(passthrough.NewBus().StateDir)
		if _, err := os.Stat(path); len(left) > 0 || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("notes %v stay, or the file: %v", left, err)
		}
		checkCarries(t, passthrough.NewBus(), card.Address, wire)
	})
}
