// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"

	"github.com/containernetworking/cni/libcni"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
)

// linkVNI is one that no network through Open vSwitch could have.
const linkVNI = 0x800005

// end is one end of a link.
type end struct {
	*pod
	name      string
	addresses []string
	routes    []string
	forward   []string
}

// linked is a link between two pods.
type linked struct {
	vni              int
	mtu              int
	client, endpoint *end
}

// newLinked is a link between pods of two nodes, or of one, that is not plugged.
func newLinked(client, endpoint *pod, vni int) *linked {
	number := vni & 0xff
	return &linked{
		vni: vni, mtu: 1450,
		client:   &end{pod: client, name: "up0", addresses: []string{fmt.Sprintf("10.200.%d.0/31", number), fmt.Sprintf("fd00:200:%d::/127", number)}},
		endpoint: &end{pod: endpoint, name: "down0", addresses: []string{fmt.Sprintf("10.200.%d.1/31", number), fmt.Sprintf("fd00:200:%d::1/127", number)}},
	}
}

// withoutLength are addresses without the lengths of their prefixes.
func withoutLength(addresses []string) []string {
	var all []string
	for _, address := range addresses {
		all = append(all, netip.MustParsePrefix(address).Addr().String())
	}
	return all
}

// config is what plugs one end.
func (l *linked) config(local, other *end) map[string]any {
	clientMAC, endpointMAC := attachment.LinkMACs(uint32(l.vni))
	mac, peerMAC := clientMAC.String(), endpointMAC.String()
	if local == l.endpoint {
		mac, peerMAC = peerMAC, mac
	}
	peer := fields{"addresses": withoutLength(other.addresses), "mac": peerMAC}
	if local.node != other.node {
		peer["node"] = other.node.address.String()
	}
	link := fields{"addresses": local.addresses, "mac": mac, "peer": peer}
	if local.routes != nil {
		link["routes"] = local.routes
	}
	if local.forward != nil {
		link["forward"] = local.forward
	}
	return local.node.config(fields{"ipam": nil, "capabilities": nil, "socketDir": nil, "vni": l.vni, "mtu": l.mtu, "link": link})
}

func (l *linked) configOf(local *end) map[string]any {
	if local == l.client {
		return l.config(l.client, l.endpoint)
	}
	return l.config(l.endpoint, l.client)
}

// attachment is how the link is named.
func (e *end) attachment() *libcni.RuntimeConf {
	named := e.pod.attachment()
	named.IfName = e.name
	return named
}

// plugWith plugs one end.
func (l *linked) plugWith(t testing.TB, runtime *libcni.CNIConfig, local *end) error {
	t.Helper()
	_, err := runtime.AddNetworkList(context.Background(), rename(t, attachment.LinkNetwork, l.configOf(local)), local.attachment())
	return err
}

// plug plugs both ends, and unplugs them at the end of the test.
func (l *linked) plug(t testing.TB) {
	t.Helper()
	for _, local := range []*end{l.client, l.endpoint} {
		if err := l.plugWith(t, local.node.runtime, local); err != nil {
			t.Fatalf("plug %s: %v", local.name, err)
		}
		t.Cleanup(func() { l.unplug(t, local) })
	}
}

func (l *linked) unplug(t testing.TB, local *end) {
	t.Helper()
	must(t, local.node.runtime.DelNetworkList(context.Background(), rename(t, attachment.LinkNetwork, l.configOf(local)), local.attachment()))
}

// check is CHECK of the link.
func (l *linked) check(t testing.TB, local *end) error {
	t.Helper()
	return local.node.runtime.CheckNetworkList(context.Background(), rename(t, attachment.LinkNetwork, l.configOf(local)), local.attachment())
}

// sandboxes is the configuration by which a node's runtime has sandboxes remembered.
func (n *node) sandboxes(t testing.TB) *libcni.NetworkConfigList {
	t.Helper()
	config := n.config(fields{"ipam": nil, "capabilities": nil, "vni": nil, "socketDir": nil, "uplink": nil, "links": true})
	return rename(t, attachment.SandboxNetwork, config)
}

func prefixesOf(texts []string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func addressesOf(texts []string) (all []netip.Addr) {
	for _, prefix := range prefixesOf(texts) {
		all = append(all, prefix.Addr())
	}
	return all
}

// quiet logs nothing.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
