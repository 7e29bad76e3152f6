// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// Network is a network of pods.
type Network struct {
	Name string
	// VNI is the VXLAN network identifier.
	VNI uint32
	// MTU is of the pods' interfaces in bytes; 0: what the uplink leaves.
	MTU int
	// Uplink names the interface towards the other nodes; "": ktsnd's.
	Uplink string
	// Port is the UDP port of the tunnel.
	Port uint16
	// Capture says which frames of the pods are captured (v1alpha1.CaptureTimed); "" is as v1alpha1.CaptureTimed.
	Capture string
	// Redirect: datagrams go from the uplink straight to the pods' interfaces. Rings: pods that ask have receive rings.
	Redirect, Rings bool
	// Cards are PCI addresses of network cards that pods of CardNamespaces may have.
	Cards, CardNamespaces []string
	// Overhead is what encryption may add to a frame, in bytes; Encrypted tells that frames are encrypted, and Refused why pods cannot be
	// on the network because they cannot be.
	Overhead  int
	Encrypted bool
	Refused   string
	// Clock tells that pods start only while the node's clock is good enough for the network.
	Clock bool
	// Ranges are divided among the nodes.
	Ranges []Range
}

// Range is a network's part of an address family.
type Range struct {
	Prefix netip.Prefix
	// NodeBits is the prefix length of a node's part.
	NodeBits int
}

// Source tells which networks there are.
type Source interface {
	Networks(ctx context.Context) ([]Network, error)
}

// nameForm is what is both the name of an object and that of a file.
var nameForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// captures are the values of Network.Capture.
var captures = []string{"", v1alpha1.CaptureNone, v1alpha1.CaptureTimed, v1alpha1.CaptureAll}

// maxNodeBits bounds the number of nodes that a range is divided among.
const maxNodeBits = 24

// Check says what is wrong with a network.
func (n *Network) Check() error {
	switch {
	case !nameForm.MatchString(n.Name):
		return fmt.Errorf("name %q: give 1 to 63 small letters, digits and hyphens", n.Name)
	case n.VNI == 0 || n.VNI > overlay.MaxVNI:
		return fmt.Errorf("vni %d: give 1 to %d", n.VNI, overlay.MaxVNI)
	case n.MTU != 0 && (n.MTU < overlay.MinMTU || n.MTU > 65535):
		return fmt.Errorf("mtu %d: give %d to 65535, or 0 for what the uplink leaves", n.MTU, overlay.MinMTU)
	case !slices.Contains(captures, n.Capture):
		return fmt.Errorf("capture %q: give None, Timed or All", n.Capture)
	case len(n.Ranges) == 0 || !n.Ranges[0].Prefix.Addr().Is4():
		return errors.New("ranges: the first one must be of IPv4")
	case len(n.Ranges) > 2 || len(n.Ranges) == 2 && n.Ranges[1].Prefix.Addr().Is4():
		return errors.New("ranges: give one of IPv4, and behind it one of IPv6 or none")
	}
	for _, r := range n.Ranges {
		if err := r.check(); err != nil {
			return err
		}
	}
	return nil
}

// receive takes what a network says of receiving; nil: nothing.
func (n *Network) receive(receive *v1alpha1.Receive) {
	if receive == nil {
		return
	}
	n.Redirect, n.Rings = receive.Path == v1alpha1.ReceiveRedirect, receive.Rings == v1alpha1.RingsAllowed
}

func (r Range) check() error {
	total := r.Prefix.Addr().BitLen()
	switch {
	case r.Prefix.Masked() != r.Prefix:
		return fmt.Errorf("range %s: bits are set behind the prefix; give %s", r.Prefix, r.Prefix.Masked())
	case r.NodeBits <= r.Prefix.Bits() || r.NodeBits > total-2:
		return fmt.Errorf("range %s: a node's part of /%d is none; give a prefix length from %d to %d", r.Prefix, r.NodeBits,
			r.Prefix.Bits()+1, total-2)
	case r.NodeBits-r.Prefix.Bits() > maxNodeBits:
		return fmt.Errorf("range %s: parts of /%d are for more than %d nodes; give a prefix length up to %d", r.Prefix, r.NodeBits,
			1<<maxNodeBits, r.Prefix.Bits()+maxNodeBits)
	}
	return nil
}

// lastPart is the number of the range's last part.
func (r Range) lastPart() uint64 { return 1<<(r.NodeBits-r.Prefix.Bits()) - 1 }

// part is the range's part with a number, which is taken modulo the number of parts.
func (r Range) part(number uint64) netip.Prefix {
	number &= r.lastPart()
	address := r.Prefix.Addr().AsSlice()
	for bit := r.NodeBits - 1; number > 0; bit-- {
		address[bit/8] |= byte(number&1) << (7 - bit%8)
		number >>= 1
	}
	made, _ := netip.AddrFromSlice(address) // it has the length of an address
	return netip.PrefixFrom(made, r.NodeBits)
}
