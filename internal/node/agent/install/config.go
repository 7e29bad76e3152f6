// SPDX-License-Identifier: Apache-2.0

package install

import (
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// PodSockets is the folder of pods' sockets on the node.
const PodSockets = "/run/ktsn/pods"

// Config returns the CNI configuration of a network for a node with these subnets. It uses the CNI version of the
// oldest supported runtimes.
func Config(n *network.Network, parts []netip.Prefix) ([]byte, error) {
	type object = map[string]any
	var ranges [][]object
	var routes []object
	for i, part := range parts {
		ranges = append(ranges, []object{{"subnet": part.String()}})
		// A node with the whole range needs no route besides the kernel's.
		if part != n.Ranges[i].Prefix {
			routes = append(routes, object{"dst": n.Ranges[i].Prefix.String()})
		}
	}
	for _, route := range n.Routes {
		entry := object{"dst": route.To}
		if route.Via != "" {
			entry["gw"] = route.Via
		}
		routes = append(routes, entry)
	}
	fields := object{
		"cniVersion": "1.0.0", "name": n.Name, "type": "tsn-cni", "vni": n.VNI, "port": n.Port,
		// The agent creates the sockets; the plugin only returns their paths.
		"controlSocket": control.DefaultPath, "socketDir": PodSockets, "createSocket": false,
		"capabilities": object{"mac": true, "ips": true},
		"ipam":         object{"type": "host-local", "ranges": ranges, "routes": routes},
	}
	if len(n.Static) > 0 {
		fields["static"] = n.Static
	}
	if n.MTU != 0 {
		fields["mtu"] = n.MTU
	}
	// Omit tsn-cni's default.
	if n.Capture != "" && n.Capture != v1alpha1.CaptureTimed {
		fields["capture"] = n.Capture
	}
	if n.Redirect || n.Rings {
		fields["receive"] = object{"redirect": n.Redirect, "rings": n.Rings}
	}
	if len(n.Cards) > 0 {
		fields["cards"] = n.Cards
		fields["cardNamespaces"] = append([]string{}, n.CardNamespaces...) // empty: no pod gets a card
	}
	if n.Clock {
		fields["clock"] = true
	}
	if n.Overhead > 0 {
		fields["encryption"] = object{"overhead": n.Overhead, "active": n.Encrypted, "refused": n.Refused}
	}
	if n.Uplink != "" {
		fields["uplink"] = n.Uplink
	}
	text, err := json.MarshalIndent(fields, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the configuration of network %s: %w", n.Name, err)
	}
	return append(text, '\n'), nil
}
