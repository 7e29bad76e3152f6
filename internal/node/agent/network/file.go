// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// File is a Source that reads a file each time, because the file of a ConfigMap can change.
type File struct{ Path string }

// Default prefix lengths of nodes' subnets.
const (
	defaultNodeBits  = 24
	defaultNodeBits6 = 64
)

// DefaultPort is the UDP port of unencrypted tunnels, unless a network has another one.
const DefaultPort = v1alpha1.DefaultPort

// document is the format of the file.
type document struct {
	Networks []entry `json:"networks"`
}

type entry struct {
	Name    string            `json:"name"`
	VNI     uint32            `json:"vni"`
	MTU     int               `json:"mtu,omitempty"`
	Uplink  string            `json:"uplink,omitempty"`
	Port    uint16            `json:"port,omitempty"`
	Capture string            `json:"capture,omitempty"`
	Receive *v1alpha1.Receive `json:"receive,omitempty"`
	Ranges  []entryRange      `json:"ranges"`
}

type entryRange struct {
	CIDR             string `json:"cidr"`
	NodePrefixLength int    `json:"nodePrefixLength,omitempty"`
}

// Networks reads the file. Any mistake is an error, because a subset of the networks is never intended.
func (f File) Networks(context.Context) ([]Network, error) {
	text, err := os.ReadFile(f.Path)
	if err != nil {
		return nil, fmt.Errorf("read the networks: %w", err)
	}
	networks, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("networks in %s: %w", f.Path, err)
	}
	return networks, nil
}

func parse(text []byte) ([]Network, error) {
	var doc document
	if err := yaml.UnmarshalStrict(text, &doc); err != nil {
		return nil, err
	}
	var networks []Network
	for i, entry := range doc.Networks {
		network, err := entry.network()
		if err != nil {
			return nil, fmt.Errorf("networks[%d]: %w", i, err)
		}
		if at := slices.IndexFunc(networks, func(n Network) bool { return n.Name == network.Name || n.VNI == network.VNI }); at >= 0 {
			return nil, fmt.Errorf("networks[%d]: networks[%d] has the same name or vni; both must be unique", i, at)
		}
		networks = append(networks, network)
	}
	return networks, nil
}

func (e *entry) network() (Network, error) {
	network := Network{Name: e.Name, VNI: e.VNI, MTU: e.MTU, Uplink: e.Uplink, Port: e.Port, Capture: e.Capture}
	if err := validateReceive(e.Receive); err != nil {
		return network, err
	}
	network.setReceive(e.Receive)
	if network.Port == 0 {
		network.Port = DefaultPort
	}
	for _, r := range e.Ranges {
		prefix, err := netip.ParsePrefix(r.CIDR)
		if err != nil {
			return network, fmt.Errorf("range %q is invalid; give one such as 10.70.0.0/16", r.CIDR)
		}
		bits := r.NodePrefixLength
		if bits == 0 && prefix.Addr().Is4() {
			bits = defaultNodeBits
		} else if bits == 0 {
			bits = defaultNodeBits6
		}
		network.Ranges = append(network.Ranges, Range{Prefix: prefix, NodeBits: bits})
	}
	err := network.Validate()
	return network, err
}

// validateReceive checks the same as the API server for an object.
func validateReceive(receive *v1alpha1.Receive) error {
	switch {
	case receive == nil:
	case !slices.Contains([]string{"", v1alpha1.ReceiveBridge, v1alpha1.ReceiveRedirect}, receive.Path):
		return fmt.Errorf("receive.path %q: give Bridge or Redirect", receive.Path)
	case !slices.Contains([]string{"", v1alpha1.RingsRefused, v1alpha1.RingsAllowed}, receive.Rings):
		return fmt.Errorf("receive.rings %q: give Refused or Allowed", receive.Rings)
	}
	return nil
}
