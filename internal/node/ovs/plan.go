// SPDX-License-Identifier: Apache-2.0

package ovs

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// Names of bridges and ports that Setup creates.
const (
	BridgeInternal = "br-int"
	BridgePhysical = "br-phy"
	physicalPort   = "ktsn-phys"
	ktsndPort      = "ktsnd"
	// successorPort is for every second ktsnd in a series of hand-overs.
	successorPort = "ktsnd2"
)

// ktsndPorts are the ports that a ktsnd can use.
var ktsndPorts = []string{ktsndPort, successorPort}

// vhostSocket returns the path where the ktsnd of a port listens; ktsnd derives the same path.
func (p *Plan) vhostSocket(port string) string {
	if port == successorPort {
		return p.VhostSocket + ".2"
	}
	return p.VhostSocket
}

// MaxNetwork is the largest number of a network on br-int, where it is a VLAN ID.
const MaxNetwork = overlay.MaxSwitchedVNI

// DefaultVhostSocket is the default path where ktsnd listens for Open vSwitch.
const DefaultVhostSocket = "/run/ktsn/vhost.sock"

// maxSocketPath is the length in bytes that fits into a socket's address with ".2" appended.
const maxSocketPath = 105

// Plan describes the desired set-up.
type Plan struct {
	// Device is the network card as DPDK knows it: a PCI address, or net_NAME,arguments.
	Device string
	// Interface is a kernel interface to use instead of Device; Open vSwitch shares it with the kernel.
	Interface string
	// Address is the tunnel's address with its prefix length.
	Address netip.Prefix
	// Networks are VXLAN network identifiers, Peers the other nodes' addresses.
	Networks []uint32
	Peers    []netip.Addr
	// Port is the UDP port of the tunnels of networks that have none in Ports.
	Port  uint16
	Ports map[uint32]uint16
	// VhostSocket is the path where ktsnd listens.
	VhostSocket string
	// PMDCPUs are the processors that poll for packets; empty: unchanged.
	PMDCPUs []int
	// PMDMaxSleep is the longest pause of polling without packets; 0: unchanged.
	PMDMaxSleep time.Duration
	// MemoryMB is the memory for packets; 0: as much as the ports need.
	MemoryMB int
	// DPDKExtra are further arguments of DPDK.
	DPDKExtra string
}

// Check returns an error if the plan is invalid.
func (p *Plan) Check() error {
	switch {
	case (p.Device == "") == (p.Interface == ""):
		return errors.New("name either the network card's --device or its --interface")
	case !p.Address.IsValid() || !p.Address.Addr().Is4():
		return errors.New("no --address; give the tunnel's IPv4 address with its prefix, such as 192.0.2.1/24")
	case len(p.Networks) == 0:
		return errors.New("no --network; name the networks that go through Open vSwitch")
	case len(p.VhostSocket) > maxSocketPath || !strings.HasPrefix(p.VhostSocket, "/"):
		return fmt.Errorf("--vhost-socket %s: give an absolute path of at most %d bytes", p.VhostSocket, maxSocketPath)
	case p.Port == 0:
		return errors.New("--vxlan-port 0: give one from 1 to 65535")
	case p.PMDMaxSleep < 0 || p.PMDMaxSleep > 10*time.Millisecond:
		return fmt.Errorf("--pmd-max-sleep %s: give at most 10ms", p.PMDMaxSleep)
	case p.MemoryMB < 0:
		return fmt.Errorf("--memory %d: give MB", p.MemoryMB)
	}
	return errors.Join(checkDeviceForm(p.Device), p.checkNetworks(), p.checkPeers(), p.checkCPUs())
}

func (p *Plan) checkNetworks() error {
	for i, vni := range p.Networks {
		if vni < 1 || vni > MaxNetwork {
			return fmt.Errorf("--network %d: Open vSwitch keeps networks apart by VLANs of the same number; give one from 1 to %d", vni, MaxNetwork)
		}
		if slices.Contains(p.Networks[:i], vni) {
			return fmt.Errorf("--network %d is given twice", vni)
		}
	}
	return nil
}

func (p *Plan) checkPeers() error {
	for i, peer := range p.Peers {
		if !peer.Is4() || peer == p.Address.Addr() {
			return fmt.Errorf("--peer %s: give another node's IPv4 address", peer)
		}
		if slices.Contains(p.Peers[:i], peer) {
			return fmt.Errorf("--peer %s is given twice", peer)
		}
	}
	return nil
}

func (p *Plan) checkCPUs() error {
	for _, cpu := range p.PMDCPUs {
		if cpu < 0 || cpu > 1023 {
			return fmt.Errorf("--pmd-cpus %d: there is no such processor", cpu)
		}
	}
	return nil
}

// device returns DPDK's name of the network card.
func (p *Plan) device() string {
	if p.Interface != "" {
		return "net_af_packet_" + p.Interface + ",iface=" + p.Interface
	}
	return p.Device
}

// cpuMask returns the set of processors in Open vSwitch's format.
func cpuMask(cpus []int) string {
	var digits []byte
	for _, cpu := range cpus {
		for len(digits) <= cpu/4 {
			digits = append(digits, 0)
		}
		digits[cpu/4] |= 1 << (cpu % 4)
	}
	var mask strings.Builder
	mask.WriteString("0x")
	for i := len(digits) - 1; i >= 0; i-- {
		mask.WriteString(strconv.FormatUint(uint64(digits[i]), 16))
	}
	return mask.String()
}

// vethName and switchName are the two ends of the veth pair that joins a network's bridge and br-int.
func vethName(vni uint32) string   { return overlay.TunnelName(vni) }
func switchName(vni uint32) string { return fmt.Sprintf("tsnov%d", vni) }

// tunnelName returns the name of a network's port towards a peer.
func tunnelName(vni uint32, peer netip.Addr) string {
	return fmt.Sprintf("vx%d-%x", vni, peer.AsSlice())
}
