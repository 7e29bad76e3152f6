// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// Network is a network of pods.
type Network struct {
	Name string
	// VNI is the VXLAN network identifier.
	VNI uint32
	// MTU is the MTU of the pods' interfaces in bytes; 0: derived from the uplink.
	MTU int
	// Uplink is the interface to the other nodes; "": that of ktsnd.
	Uplink string
	// Port is the UDP port of the tunnel.
	Port uint16
	// Capture selects the frames to capture (v1alpha1.CaptureTimed); "" means v1alpha1.CaptureTimed.
	Capture string
	// Redirect: datagrams go from the uplink directly to the pods' interfaces. Rings: pods can request receive rings.
	Redirect, Rings bool
	// Cards are PCI addresses of network cards that pods of CardNamespaces may have.
	Cards, CardNamespaces []string
	// Overhead is what encryption may add to a frame in bytes. Encrypted: frames are encrypted. Refused is why pods
	// cannot join a network whose frames cannot be encrypted.
	Overhead  int
	Encrypted bool
	Refused   string
	// Clock: pods start only while the node's clock is good enough for the network.
	Clock bool
	// Routes are further routes of the pods.
	Routes []v1alpha1.NetworkRoute
	// Ranges are divided into the nodes' subnets.
	Ranges []Range
	// Static are the parts of Ranges whose addresses pods have on any node, and AddressOwners the pods of this cluster that have one; nil: they are
	// not known yet.
	Static        []netip.Prefix
	AddressOwners []attachment.AddressOwner
}

// Range is a network's address range of one family.
type Range struct {
	Prefix netip.Prefix
	// NodeBits is the prefix length of a node's subnet.
	NodeBits int
}

// Source returns the networks.
type Source interface {
	Networks(ctx context.Context) ([]Network, error)
}

// nameForm is valid as the name of an object and of a file.
var nameForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// captures are the values of Network.Capture.
var captures = []string{"", v1alpha1.CaptureNone, v1alpha1.CaptureTimed, v1alpha1.CaptureAll}

// maxNodeBits limits the number of subnets of a range, as a power of two.
const maxNodeBits = 24

// Validate checks a network.
func (n *Network) Validate() error {
	switch {
	case !nameForm.MatchString(n.Name):
		return fmt.Errorf("name %q: give 1 to 63 small letters, digits and hyphens", n.Name)
	case n.VNI == 0 || n.VNI > overlay.MaxVNI:
		return fmt.Errorf("vni %d: give 1 to %d", n.VNI, overlay.MaxVNI)
	case n.MTU != 0 && (n.MTU < overlay.MinMTU || n.MTU > 65535):
		return fmt.Errorf("mtu %d: give %d to 65535, or 0 to derive it from the uplink", n.MTU, overlay.MinMTU)
	case !slices.Contains(captures, n.Capture):
		return fmt.Errorf("capture %q: give None, Timed or All", n.Capture)
	case len(n.Ranges) == 0 || !n.Ranges[0].Prefix.Addr().Is4():
		return errors.New("ranges: the first one must be IPv4")
	case len(n.Ranges) > 2 || len(n.Ranges) == 2 && n.Ranges[1].Prefix.Addr().Is4():
		return errors.New("ranges: give an IPv4 range, and optionally an IPv6 range after it")
	}
	for _, r := range n.Ranges {
		if err := r.validate(); err != nil {
			return err
		}
	}
	return nil
}

// setReceive applies the receive options of a network; nil: none.
func (n *Network) setReceive(receive *v1alpha1.Receive) {
	if receive == nil {
		return
	}
	n.Redirect, n.Rings = receive.Path == v1alpha1.ReceiveRedirect, receive.Rings == v1alpha1.RingsAllowed
}

func (r Range) validate() error {
	total := r.Prefix.Addr().BitLen()
	switch {
	case r.Prefix.Masked() != r.Prefix:
		return fmt.Errorf("range %s: host bits are set; give %s", r.Prefix, r.Prefix.Masked())
	case r.NodeBits <= r.Prefix.Bits() || r.NodeBits > total-2:
		return fmt.Errorf("range %s: invalid node prefix length /%d; give %d to %d", r.Prefix, r.NodeBits,
			r.Prefix.Bits()+1, total-2)
	case r.NodeBits-r.Prefix.Bits() > maxNodeBits:
		return fmt.Errorf("range %s: node prefixes of /%d are for more than %d nodes; give a prefix length up to %d", r.Prefix, r.NodeBits,
			1<<maxNodeBits, r.Prefix.Bits()+maxNodeBits)
	}
	return nil
}

// lastSubnet returns the number of the range's last subnet.
func (r Range) lastSubnet() uint64 { return 1<<(r.NodeBits-r.Prefix.Bits()) - 1 }

// subnet returns the range's subnet with a number modulo the number of subnets.
func (r Range) subnet(number uint64) netip.Prefix {
	number &= r.lastSubnet()
	address := r.Prefix.Addr().AsSlice()
	for bit := r.NodeBits - 1; number > 0; bit-- {
		address[bit/8] |= byte(number&1) << (7 - bit%8)
		number >>= 1
	}
	subnetAddress, _ := netip.AddrFromSlice(address) // the length is valid
	return netip.PrefixFrom(subnetAddress, r.NodeBits)
}

// ErrNoUplink means that a network requires an uplink and has none for the node.
var ErrNoUplink = errors.New("no entry of spec.uplinks matches this node; add one whose nodeSelector matches the node's labels")

// UplinkOf returns the uplink that a network requires on a node; its interface is "" if it requires none.
func UplinkOf(object *v1alpha1.TSNNetwork, node *corev1.Node) (v1alpha1.Uplink, error) {
	for _, uplink := range object.Spec.Uplinks {
		selector := labels.Everything()
		if uplink.NodeSelector != nil {
			var err error
			if selector, err = metav1.LabelSelectorAsSelector(uplink.NodeSelector); err != nil {
				return v1alpha1.Uplink{}, fmt.Errorf("spec.uplinks: %w", err)
			}
		}
		if selector.Matches(labels.Set(node.Labels)) {
			return uplink, nil
		}
	}
	if len(object.Spec.Uplinks) > 0 {
		return v1alpha1.Uplink{}, ErrNoUplink
	}
	return v1alpha1.Uplink{}, nil
}
