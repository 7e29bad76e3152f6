// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/encryption"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// TestLinkThatRequiresEncryptionBlocksClearPath has a link between nodes that cannot encrypt, and pods with a default route, as all have
// by the cluster's own network: nothing that is for the other end leaves by that.
func TestLinkThatRequiresEncryptionBlocksClearPath(t *testing.T) {
	t.Parallel()
	lab := newAgentsLab(t)
	pair := newLinked(lab.sandbox(t, lab.a), lab.sandbox(t, lab.b), linkVNI)
	pair.client.routes = []string{"10.9.0.0/16"}
	for _, side := range []*end{pair.client, pair.endpoint} {
		must(t, side.Do(addDefaultRoute))
	}
	link := lab.link("shop-1", pair, nil)
	lab.await(t, link, v1alpha1.ConditionUp, metav1.ConditionTrue)
	ask := func(encryption string) {
		lab.links.changed(link, func(link *v1alpha1.TSNLink) {
			link.Spec.Encryption = encryption
			link.Generation++
		})
	}
	ask(v1alpha1.EncryptionRequired)
	lab.await(t, link, v1alpha1.ConditionClientPlugged, metav1.ConditionFalse)
	lab.await(t, link, v1alpha1.ConditionEndpointPlugged, metav1.ConditionFalse)
	for _, ends := range [][2]*end{{pair.client, pair.endpoint}, {pair.endpoint, pair.client}} {
		for _, to := range append(addressesOf(ends[1].addresses), addressesOf(ends[0].routes)...) {
			must(t, ends[0].Do(func() error { return isRefused(to) }))
		}
	}
	ask(v1alpha1.EncryptionNone)
	lab.await(t, link, v1alpha1.ConditionClientPlugged, metav1.ConditionTrue)
	lab.await(t, link, v1alpha1.ConditionEndpointPlugged, metav1.ConditionTrue)
	lab.await(t, link, v1alpha1.ConditionUp, metav1.ConditionTrue)
	for _, side := range []*end{pair.client, pair.endpoint} {
		must(t, side.Do(refusesNothing))
	}
}

// TestEncryptedLinkWithoutPortBlocksClearPath deletes the node's ends of links that must not leave the node in clear. Links between nodes are
// plugged, and not up: agents are told that the tunnel is encrypted, and the kernel need not know ESP.
func TestEncryptedLinkWithoutPortBlocksClearPath(t *testing.T) {
	t.Parallel()
	lab := newSealingLab(t)
	for i, test := range []struct {
		name, encryption string
		endpoint         *node
	}{
		{"required_two_nodes", v1alpha1.EncryptionRequired, lab.b},
		{"preferred_two_nodes", v1alpha1.EncryptionPreferred, lab.b},
		{"required_one_node", v1alpha1.EncryptionRequired, lab.a},
	} {
		t.Run(test.name, func(t *testing.T) {
			pair := newLinked(lab.sandbox(t, lab.a), lab.sandbox(t, test.endpoint), linkVNI+i)
			pair.client.routes = []string{"10.9.0.0/16"}
			for _, side := range []*end{pair.client, pair.endpoint} {
				must(t, side.Do(addDefaultRoute))
			}
			link := lab.link(fmt.Sprintf("shop-%d", i), pair, func(spec *v1alpha1.TSNLinkSpec) { spec.Encryption = test.encryption })
			t.Cleanup(func() { lab.links.remove(link) })
			lab.await(t, link, v1alpha1.ConditionClientPlugged, metav1.ConditionTrue)
			lab.await(t, link, v1alpha1.ConditionEndpointPlugged, metav1.ConditionTrue)
			if test.endpoint == lab.a {
				lab.await(t, link, v1alpha1.ConditionUp, metav1.ConditionTrue)
			}
			for _, ends := range [][2]*end{{pair.client, pair.endpoint}, {pair.endpoint, pair.client}} {
				to := append(addressesOf(ends[1].addresses), addressesOf(ends[0].routes)...)
				lab.deletePort(t, ends[0])
				for _, side := range to {
					must(t, ends[0].Do(func() error { return isRefused(side) }))
				}
				lab.await(t, link, v1alpha1.ConditionUp, metav1.ConditionFalse)
				must(t, lab.agent[ends[0].node].sweepOnce()) // the agent does so every 30 seconds
				for _, side := range to {
					awaitWay(t, ends[0], side)
				}
				if test.endpoint == lab.a {
					lab.await(t, link, v1alpha1.ConditionUp, metav1.ConditionTrue)
				}
			}
		})
	}
}

// TestClearLinkKeepsBlockedRoutes plugs a link in clear whose route has the addresses of an encrypted one.
func TestClearLinkKeepsBlockedRoutes(t *testing.T) {
	t.Parallel()
	lab := newSealingLab(t)
	client := lab.sandbox(t, lab.a)
	sealed, inClear := newLinked(client, lab.sandbox(t, lab.b), linkVNI), newLinked(client, lab.sandbox(t, lab.b), linkVNI+1)
	inClear.client.name = "clear0"
	sealed.client.routes = []string{"10.9.0.0/16"}
	inClear.client.routes = []string{"10.0.0.0/8"}
	must(t, client.Do(addDefaultRoute))
	link := lab.link("sealed", sealed, func(spec *v1alpha1.TSNLinkSpec) { spec.Encryption = v1alpha1.EncryptionRequired })
	lab.await(t, link, v1alpha1.ConditionClientPlugged, metav1.ConditionTrue)
	clearLink := lab.link("clear", inClear, nil)
	lab.await(t, clearLink, v1alpha1.ConditionUp, metav1.ConditionTrue)
	lab.deletePort(t, sealed.client)
	ends := append(addressesOf(sealed.endpoint.addresses), addressesOf(sealed.client.routes)...)
	for _, to := range ends {
		must(t, client.Do(func() error { return isRefused(to) }))
	}
	// An encrypted link that is unplugged has no record.
	lab.links.remove(link)
	eventually(t, "the encrypted link is unplugged", func() bool {
		left, err := lab.agent[lab.a].Plugged(sealed.client.name)
		return err == nil && len(left) == 0
	})
	setClientRoutes(lab, clearLink, "10.0.0.0/8", "198.18.0.0/15")
	awaitWay(t, inClear.client, netip.MustParseAddr("198.18.0.1"))
	lab.links.remove(clearLink) // one agent plugs and unplugs in order: the link in clear is plugged as a whole
	eventually(t, "the link in clear is unplugged", func() bool {
		left, err := lab.agent[lab.a].Plugged(inClear.client.name)
		return err == nil && len(left) == 0
	})
	for _, to := range ends {
		must(t, client.Do(func() error { return isRefused(to) }))
	}
}

// TestRemovedRangeIsNotBlocked takes routes from encrypted links, one while it is unplugged.
func TestRemovedRangeIsNotBlocked(t *testing.T) {
	t.Parallel()
	lab := newSealingLab(t)
	for i, name := range []string{"plugged", "unplugged"} {
		t.Run(name, func(t *testing.T) {
			pair := newLinked(lab.sandbox(t, lab.a), lab.sandbox(t, lab.b), linkVNI+i)
			pair.client.routes = []string{"10.9.0.0/16", "10.10.0.0/16", "2001:db8:9::/48"}
			must(t, pair.client.Do(addDefaultRoute))
			required := func(spec *v1alpha1.TSNLinkSpec) { spec.Encryption = v1alpha1.EncryptionRequired }
			link := lab.link(name, pair, required)
			t.Cleanup(func() { lab.links.remove(link) })
			lab.await(t, link, v1alpha1.ConditionClientPlugged, metav1.ConditionTrue)
			kept, gone := netip.MustParseAddr("10.9.0.1"), []netip.Addr{netip.MustParseAddr("10.10.0.1"), netip.MustParseAddr("2001:db8:9::1")}
			if name == "plugged" {
				setClientRoutes(lab, link, "10.9.0.0/16")
			} else {
				lab.links.remove(link)
				for _, to := range gone {
					eventually(t, "the pod refuses "+to.String(), func() bool { return pair.client.Do(func() error { return isRefused(to) }) == nil })
				}
				pair.client.routes = pair.client.routes[:1]
				lab.link(name, pair, required)
			}
			byDefault := *pair.client
			byDefault.name = "eth0"
			for _, to := range gone {
				awaitWay(t, &byDefault, to)
			}
			lab.deletePort(t, pair.client)
			for _, to := range append(addressesOf(pair.endpoint.addresses), kept) {
				must(t, pair.client.Do(func() error { return isRefused(to) }))
			}
		})
	}
}

// setClientRoutes changes the ranges that the client of a link reaches by it.
func setClientRoutes(lab *linkLab, name types.NamespacedName, routes ...string) {
	lab.links.changed(name, func(link *v1alpha1.TSNLink) {
		link.Spec.Client.Routes = routes
		link.Generation++
	})
}

// newSealingLab is two nodes whose agents are told that links between them are encrypted.
func newSealingLab(t *testing.T) *linkLab {
	t.Helper()
	lab := newAgentsLab(t)
	for _, agent := range lab.agent {
		agent.reconciler.EncryptedPort = 4793
		agent.reconciler.Encryption = func(encryption.LinkMode, *v1alpha1.LinkEnd, *v1alpha1.LinkEnd) encryption.LinkState {
			return encryption.LinkState{}
		}
	}
	return lab
}

// awaitWay waits until a pod sends to an address by the interface of its link.
func awaitWay(t *testing.T, from *end, to netip.Addr) {
	t.Helper()
	var routes []netlink.Route
	var err error
	testlab.Eventually(t, patience, 20*time.Millisecond, func() error {
		by := ""
		must(t, from.Do(func() error {
			if routes, err = netlink.RouteGet(to.AsSlice()); err == nil && len(routes) > 0 {
				if link, err := netlink.LinkByIndex(routes[0].LinkIndex); err == nil {
					by = link.Attrs().Name
				}
			}
			return nil
		}))
		if by == from.name {
			return nil
		}
		return fmt.Errorf("the way to %s is %v, %v", to, routes, err)
	})
}

// deletePort has somebody delete the node's end of an interface.
func (l *linkLab) deletePort(t *testing.T, e *end) {
	t.Helper()
	all, err := l.agent[e.node].Plugged(e.name)
	must(t, err)
	for i := range all {
		if all[i].Identity == e.uid {
			must(t, e.node.Do(func() error {
				link, err := netlink.LinkByName(all[i].Port)
				return errors.Join(err, netlink.LinkDel(link))
			}))
			return
		}
	}
	t.Fatalf("%s of pod %s is not plugged", e.name, e.id)
}

// addDefaultRoute gives a pod one. It leads nowhere.
func addDefaultRoute() error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = "eth0"
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: "eth0-peer"}); err != nil {
		return err
	}
	var all error
	for _, name := range []string{"eth0-peer", "eth0"} {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		all = errors.Join(all, netlink.LinkSetUp(link))
		if name == "eth0" {
			for _, to := range []string{"0.0.0.0/0", "::/0"} {
				_, dst, _ := net.ParseCIDR(to)
				all = errors.Join(all, netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: dst, Scope: netlink.SCOPE_LINK}))
			}
		}
	}
	return all
}

// isRefused fails unless the pod's kernel refuses to send to an address, and would send to others.
func isRefused(to netip.Addr) error {
	if _, err := netlink.RouteGet(net.ParseIP("198.51.100.1")); err != nil {
		return fmt.Errorf("the pod has no way to others: %w", err)
	}
	routes, err := netlink.RouteGet(to.AsSlice())
	if errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.ENETUNREACH) {
		return nil
	}
	return errors.Join(fmt.Errorf("the kernel should refuse to send to %s, and has routes %v", to, routes), err)
}

// refusesNothing fails if the pod's kernel still refuses to send somewhere.
func refusesNothing() error {
	left, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Type: unix.RTN_UNREACHABLE}, netlink.RT_FILTER_TYPE)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("the pod still refuses %v", left)
	}
	return err
}
