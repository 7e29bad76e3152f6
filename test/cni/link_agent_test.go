// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/encryption"
	"github.com/kubernetsn/kubernetsn/internal/node/linkwait"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

func TestAgentsPlugLink(t *testing.T) {
	t.Parallel()
	lab := newAgentsLab(t)
	for name, endpoint := range map[string]*node{"between two nodes": lab.b, "on one node": lab.a} {
		t.Run(name, func(t *testing.T) {
			client, other := lab.sandbox(t, lab.a), lab.sandbox(t, endpoint)
			before := lab.a.inventory(t, client)
			pair := newLinked(client, other, linkVNI)
			began := time.Now()
			link := lab.link("shop-1", pair, nil)
			lab.awaitCondition(t, link, v1alpha1.ConditionUp, metav1.ConditionTrue)
			t.Logf("up after %v", time.Since(began))
			lab.awaitCondition(t, link, v1alpha1.ConditionClientPlugged, metav1.ConditionTrue)
			lab.awaitCondition(t, link, v1alpha1.ConditionEndpointPlugged, metav1.ConditionTrue)
			if status := lab.links.Get(link).Status; status.MeasuredMTU != 1450 || status.Since == nil {
				t.Errorf("its status is %+v", status)
			}
			ping(t, client, netip.MustParseAddr("10.200.5.1"), 56)
			pair.checkTimed(t)
			checkNotified(t, client, "up0", "10.200.5.1")
			checkNotified(t, other, "down0", "10.200.5.0")
			checkHosts(t, client, "10.200.5.1\tshop\tshop.default\n")
			checkHosts(t, other, "10.200.5.0\t"+client.id+"\n")

			lab.links.remove(link)
			eventually(t, "the link is unplugged", func() bool {
				return len(lab.a.inventory(t, client)) == len(before) && len(hostsOf(t, client)) == len("127.0.0.1\tlocalhost\n")
			})
			checkSame(t, "after the link", before, lab.a.inventory(t, client))
			if _, err := os.Stat(filepath.Join(client.node.podDir(client.uid), "links", "up0")); err == nil {
				t.Error("the pod is still notified of the link")
			}
		})
	}
}

func checkNotified(t *testing.T, p *pod, interfaceName, peer string) {
	t.Helper()
	path := filepath.Join(p.node.podDir(p.uid), linkwait.Folder, interfaceName)
	eventually(t, path+" is there", func() bool { _, err := os.Stat(path); return err == nil })
	text, err := os.ReadFile(path)
	must(t, err)
	var written linkwait.Link
	must(t, json.Unmarshal(text, &written))
	if written.Interface != interfaceName || written.Service != "shop" || written.Peer.Addresses[0].String() != peer || written.MTU != 1450 {
		t.Errorf("the pod is notified of %s", text)
	}
}

func hostsOf(t *testing.T, p *pod) string {
	t.Helper()
	text, err := os.ReadFile(p.hosts())
	must(t, err)
	return string(text)
}

func checkHosts(t *testing.T, p *pod, line string) {
	t.Helper()
	if text := hostsOf(t, p); !strings.Contains(text, line) || !strings.HasPrefix(text, "127.0.0.1\tlocalhost\n") {
		t.Errorf("/etc/hosts of %s lacks %q: %q", p.id, line, text)
	}
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		if !condition() {
			return fmt.Errorf("not so: %s", what)
		}
		return nil
	})
}

func TestLinkNamesReturnAfterHostsFileRewrite(t *testing.T) {
	t.Parallel()
	lab := newAgentsLab(t)
	client := lab.sandbox(t, lab.a)
	link := lab.link("shop-1", newLinked(client, lab.sandbox(t, lab.b), linkVNI), nil)
	lab.awaitCondition(t, link, v1alpha1.ConditionUp, metav1.ConditionTrue)
	about, err := os.Stat(client.hosts())
	must(t, err)
	must(t, os.WriteFile(client.hosts(), []byte("127.0.0.1\tlocalhost\n"), 0o644))
	eventually(t, "the names are back", func() bool { return strings.Contains(hostsOf(t, client), "\tshop\t") })
	checkHosts(t, client, "10.200.5.1\tshop\tshop.default\n")
	if after, err := os.Stat(client.hosts()); err != nil || !os.SameFile(about, after) {
		t.Errorf("it is another file, which the pod does not see: %v", err)
	}
}

func TestLinkWithoutRouteIsDown(t *testing.T) {
	t.Parallel()
	lab := newAgentsLab(t)
	client := lab.sandbox(t, lab.a)
	link := lab.link("shop-1", newLinked(client, lab.sandbox(t, lab.b), linkVNI), nil)
	lab.awaitCondition(t, link, v1alpha1.ConditionUp, metav1.ConditionTrue)
	setUplink(t, lab.b, false)
	began := time.Now()
	condition := lab.awaitCondition(t, link, v1alpha1.ConditionUp, metav1.ConditionFalse)
	t.Logf("it was logged after %v: %s", time.Since(began), condition.Message)
	if !strings.Contains(condition.Message, "10.200.5.1, the other end, does not answer any more; the link is up again when it does") {
		t.Errorf("got %q", condition.Message)
	}
	setUplink(t, lab.b, true)
	began = time.Now()
	lab.awaitCondition(t, link, v1alpha1.ConditionUp, metav1.ConditionTrue)
	t.Logf("up again after %v", time.Since(began))
	checkNotified(t, client, "up0", "10.200.5.1")
}

func setUplink(t *testing.T, n *node, up bool) {
	t.Helper()
	must(t, n.Do(func() error {
		link, err := netlink.LinkByName(uplinkName)
		must(t, err)
		if up {
			return netlink.LinkSetUp(link)
		}
		return netlink.LinkSetDown(link)
	}))
}

func TestLinkMTUAbovePathIsReported(t *testing.T) {
	t.Parallel()
	lab := newAgentsLab(t)
	narrow(t, lab.b, 1400)
	client := lab.sandbox(t, lab.a)
	fixed := lab.link("fixed", newLinked(client, lab.sandbox(t, lab.b), linkVNI), func(spec *v1alpha1.TSNLinkSpec) { spec.MTU = 1450 })
	adapts := lab.link("adapts", newLinked(lab.sandbox(t, lab.a), lab.sandbox(t, lab.b), linkVNI+1), nil)
	eventually(t, "both numbers are named", func() bool {
		condition := lab.awaitCondition(t, fixed, v1alpha1.ConditionUp, metav1.ConditionFalse)
		return saysMTU(condition.Message)
	})
	// The client's containers do not start, and ktsn-wait logs the reason.
	files := filepath.Join(client.node.podDir(client.uid), linkwait.Folder, "up0")
	eventually(t, "the waiting pod gets both numbers", func() bool {
		text, err := os.ReadFile(files + linkwait.Waiting)
		return err == nil && saysMTU(string(text))
	})
	if _, err := os.Stat(files); err == nil {
		t.Error("the pod is notified that the link was up")
	}
	lab.awaitCondition(t, adapts, v1alpha1.ConditionUp, metav1.ConditionTrue)
	if got := lab.links.Get(adapts).Status.MeasuredMTU; got < 1346 || got > 1354 {
		t.Errorf("it measured %d bytes", got)
	}
}

// saysMTU reports whether a message contains the requested MTU, the actual one, and the remedy.
func saysMTU(text string) bool {
	if strings.Contains(text, "spec.mtu is 1450, and the way") {
		return strings.Contains(text, " carries 13") && strings.Contains(text, "; give at most that")
	}
	return strings.Contains(text, "an MTU of 1450 bytes, and its way carries 13") && strings.Contains(text, "; set spec.mtu of the service to at most 13")
}

// narrow reduces the MTU of a node's wire.
func narrow(t *testing.T, n *node, mtu int) {
	t.Helper()
	must(t, n.Do(func() error {
		link, err := netlink.LinkByName(uplinkName)
		must(t, err)
		return netlink.LinkSetMTU(link, mtu)
	}))
}

func TestRestartedAgentKeepsLinks(t *testing.T) {
	t.Parallel()
	lab := newAgentsLab(t)
	client, other := lab.sandbox(t, lab.a), lab.sandbox(t, lab.b)
	before := lab.a.inventory(t, client)
	stays := lab.link("stays", newLinked(client, other, linkVNI), nil)
	second := newLinked(client, other, linkVNI+1)
	second.client.name, second.endpoint.name = "up1", "down1"
	goes := lab.link("goes", second, nil)
	for _, link := range []types.NamespacedName{stays, goes} {
		lab.awaitCondition(t, link, v1alpha1.ConditionUp, metav1.ConditionTrue)
	}
	lab.agent[lab.a].end()
	lab.links.remove(goes)
	ping(t, client, netip.MustParseAddr("10.200.5.1"), 56)
	again := lab.a.startLinkAgent(t, "a", lab.links)
	must(t, again.sweepOnce())
	ping(t, client, netip.MustParseAddr("10.200.5.1"), 56)
	for _, line := range lab.a.inventory(t, client) {
		if strings.Contains(line, "up1") {
			t.Errorf("left: %s", line)
		}
	}
	lab.links.remove(stays)
	eventually(t, "the other one is unplugged", func() bool { return len(lab.a.inventory(t, client)) == len(before) })
}

func TestLinkKeepsInterfaceNameForNewEndpoint(t *testing.T) {
	t.Parallel()
	lab := newAgentsLab(t)
	client := lab.sandbox(t, lab.a)
	first := lab.link("first", newLinked(client, lab.sandbox(t, lab.b), linkVNI), nil)
	lab.awaitCondition(t, first, v1alpha1.ConditionUp, metav1.ConditionTrue)
	pair := newLinked(client, lab.sandbox(t, lab.b), linkVNI+1)
	second := lab.link("second", pair, func(*v1alpha1.TSNLinkSpec) {})
	lab.links.remove(first)
	lab.awaitCondition(t, second, v1alpha1.ConditionUp, metav1.ConditionTrue)
	ping(t, client, netip.MustParseAddr("10.200.6.1"), 56)
}

func TestLinkToOwnNodeIsRejected(t *testing.T) {
	t.Parallel()
	lab := newAgentsLab(t)
	pair := newLinked(lab.sandbox(t, lab.a), lab.sandbox(t, lab.b), linkVNI)
	for address, sentence := range map[string]string{"192.0.2.1": "is this node's own", "224.0.0.1": "no address at which tunnels of a node can end"} {
		link := lab.link("shop-"+address, pair, func(spec *v1alpha1.TSNLinkSpec) { spec.Endpoint.NodeAddress = address })
		condition := lab.awaitCondition(t, link, v1alpha1.ConditionClientPlugged, metav1.ConditionFalse)
		if !strings.Contains(condition.Message, sentence) {
			t.Errorf("got %q", condition.Message)
		}
		lab.links.remove(link)
	}
}

func TestLinkNameConflictIsReported(t *testing.T) {
	t.Parallel()
	lab := newAgentsLab(t)
	client := lab.sandbox(t, lab.a)
	must(t, client.Do(func() error { return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: linkAttrs("up0")}) }))
	before := lab.a.inventory(t, client)
	link := lab.link("shop-1", newLinked(client, lab.sandbox(t, lab.b), linkVNI), nil)
	const want = "the pod has an interface up0 already; give the attachment, or the label of the link, another name"
	eventually(t, "the interface is named", func() bool {
		return strings.Contains(lab.awaitCondition(t, link, v1alpha1.ConditionClientPlugged, metav1.ConditionFalse).Message, want)
	})
	file := filepath.Join(client.node.podDir(client.uid), linkwait.Folder, "up0"+linkwait.Waiting)
	eventually(t, "the waiting pod is notified", func() bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), "link to service shop: not plugged: ") && strings.Contains(string(text), want)
	})
	checkSame(t, "after the refusal", before, lab.a.inventory(t, client))
}

// TestLinkThatRequiresEncryptionBlocksClearPath plugs a link between nodes that cannot encrypt, to pods with a default
// route: no packet for the other end leaves by the default route.
func TestLinkThatRequiresEncryptionBlocksClearPath(t *testing.T) {
	t.Parallel()
	lab := newAgentsLab(t)
	pair := newLinked(lab.sandbox(t, lab.a), lab.sandbox(t, lab.b), linkVNI)
	pair.client.routes = []string{"10.9.0.0/16"}
	for _, side := range []*end{pair.client, pair.endpoint} {
		must(t, side.Do(addDefaultRoute))
	}
	link := lab.link("shop-1", pair, nil)
	lab.awaitCondition(t, link, v1alpha1.ConditionUp, metav1.ConditionTrue)
	ask := func(encryption string) {
		lab.links.update(link, func(link *v1alpha1.TSNLink) {
			link.Spec.Encryption = encryption
			link.Generation++
		})
	}
	ask(v1alpha1.EncryptionRequired)
	lab.awaitCondition(t, link, v1alpha1.ConditionClientPlugged, metav1.ConditionFalse)
	lab.awaitCondition(t, link, v1alpha1.ConditionEndpointPlugged, metav1.ConditionFalse)
	for _, ends := range [][2]*end{{pair.client, pair.endpoint}, {pair.endpoint, pair.client}} {
		for _, to := range append(addressesOf(ends[1].addresses), addressesOf(ends[0].routes)...) {
			must(t, ends[0].Do(func() error { return expectRefused(to) }))
		}
	}
	ask(v1alpha1.EncryptionNone)
	lab.awaitCondition(t, link, v1alpha1.ConditionClientPlugged, metav1.ConditionTrue)
	lab.awaitCondition(t, link, v1alpha1.ConditionEndpointPlugged, metav1.ConditionTrue)
	lab.awaitCondition(t, link, v1alpha1.ConditionUp, metav1.ConditionTrue)
	for _, side := range []*end{pair.client, pair.endpoint} {
		must(t, side.Do(refusesNothing))
	}
}

// TestEncryptedLinkWithoutPortBlocksClearPath deletes the node's ends of links that require encryption. Links between
// nodes are plugged but not up: the agents have an encrypted tunnel, and the kernel need not support ESP.
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
			lab.awaitCondition(t, link, v1alpha1.ConditionClientPlugged, metav1.ConditionTrue)
			lab.awaitCondition(t, link, v1alpha1.ConditionEndpointPlugged, metav1.ConditionTrue)
			if test.endpoint == lab.a {
				lab.awaitCondition(t, link, v1alpha1.ConditionUp, metav1.ConditionTrue)
			}
			for _, ends := range [][2]*end{{pair.client, pair.endpoint}, {pair.endpoint, pair.client}} {
				to := append(addressesOf(ends[1].addresses), addressesOf(ends[0].routes)...)
				lab.deletePort(t, ends[0])
				for _, side := range to {
					must(t, ends[0].Do(func() error { return expectRefused(side) }))
				}
				lab.awaitCondition(t, link, v1alpha1.ConditionUp, metav1.ConditionFalse)
				must(t, lab.agent[ends[0].node].sweepOnce()) // the agent does so every 30 seconds
				for _, side := range to {
					awaitRoute(t, ends[0], side)
				}
				if test.endpoint == lab.a {
					lab.awaitCondition(t, link, v1alpha1.ConditionUp, metav1.ConditionTrue)
				}
			}
		})
	}
}

// TestClearLinkKeepsBlockedRoutes plugs an unencrypted link with a route that has the addresses of an encrypted one.
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
	lab.awaitCondition(t, link, v1alpha1.ConditionClientPlugged, metav1.ConditionTrue)
	clearLink := lab.link("clear", inClear, nil)
	lab.awaitCondition(t, clearLink, v1alpha1.ConditionUp, metav1.ConditionTrue)
	lab.deletePort(t, sealed.client)
	ends := append(addressesOf(sealed.endpoint.addresses), addressesOf(sealed.client.routes)...)
	for _, to := range ends {
		must(t, client.Do(func() error { return expectRefused(to) }))
	}
	// An encrypted link that is unplugged has no record.
	lab.links.remove(link)
	eventually(t, "the encrypted link is unplugged", func() bool {
		left, err := lab.agent[lab.a].Plugged(sealed.client.name)
		return err == nil && len(left) == 0
	})
	setClientRoutes(lab, clearLink, "10.0.0.0/8", "198.18.0.0/15")
	awaitRoute(t, inClear.client, netip.MustParseAddr("198.18.0.1"))
	lab.links.remove(clearLink) // one agent plugs and unplugs in order: the unencrypted link is plugged completely
	eventually(t, "the link in clear is unplugged", func() bool {
		left, err := lab.agent[lab.a].Plugged(inClear.client.name)
		return err == nil && len(left) == 0
	})
	for _, to := range ends {
		must(t, client.Do(func() error { return expectRefused(to) }))
	}
}

// TestRemovedRangeIsNotBlocked removes routes from encrypted links, one of them while it is unplugged.
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
			lab.awaitCondition(t, link, v1alpha1.ConditionClientPlugged, metav1.ConditionTrue)
			kept, gone := netip.MustParseAddr("10.9.0.1"), []netip.Addr{netip.MustParseAddr("10.10.0.1"), netip.MustParseAddr("2001:db8:9::1")}
			if name == "plugged" {
				setClientRoutes(lab, link, "10.9.0.0/16")
			} else {
				lab.links.remove(link)
				for _, to := range gone {
					eventually(t, "the pod refuses "+to.String(), func() bool { return pair.client.Do(func() error { return expectRefused(to) }) == nil })
				}
				pair.client.routes = pair.client.routes[:1]
				lab.link(name, pair, required)
			}
			byDefault := *pair.client
			byDefault.name = "eth0"
			for _, to := range gone {
				awaitRoute(t, &byDefault, to)
			}
			lab.deletePort(t, pair.client)
			for _, to := range append(addressesOf(pair.endpoint.addresses), kept) {
				must(t, pair.client.Do(func() error { return expectRefused(to) }))
			}
		})
	}
}

// setClientRoutes changes the ranges that the client of a link reaches over it.
func setClientRoutes(lab *linkLab, name types.NamespacedName, routes ...string) {
	lab.links.update(name, func(link *v1alpha1.TSNLink) {
		link.Spec.Client.Routes = routes
		link.Generation++
	})
}

// newSealingLab returns two nodes whose agents encrypt links between them.
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

// awaitRoute waits until a pod routes an address over the interface of its link.
func awaitRoute(t *testing.T, from *end, to netip.Addr) {
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

// deletePort deletes the node's end of an interface.
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

// addDefaultRoute adds a default route without a reachable gateway.
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

// expectRefused fails unless the pod's kernel rejects packets to an address and accepts others.
func expectRefused(to netip.Addr) error {
	if _, err := netlink.RouteGet(net.ParseIP("198.51.100.1")); err != nil {
		return fmt.Errorf("the pod has no way to others: %w", err)
	}
	routes, err := netlink.RouteGet(to.AsSlice())
	if errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.ENETUNREACH) {
		return nil
	}
	return errors.Join(fmt.Errorf("the kernel should refuse to send to %s, and has routes %v", to, routes), err)
}

// refusesNothing fails if the pod's kernel still rejects packets to an address.
func refusesNothing() error {
	left, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Type: unix.RTN_UNREACHABLE}, netlink.RT_FILTER_TYPE)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("the pod still refuses %v", left)
	}
	return err
}

// update changes a link like the API server.
func (l *tsnLinks) update(name types.NamespacedName, change func(*v1alpha1.TSNLink)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l.objects[name])
}

// admit sets the operator's condition of a link.
func (l *tsnLinks) admit(name types.NamespacedName, status metav1.ConditionStatus, message string) {
	l.update(name, func(link *v1alpha1.TSNLink) {
		meta.SetStatusCondition(&link.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionAdmitted, Status: status, Reason: "Test", Message: message,
			ObservedGeneration: link.Generation})
	})
}

func TestHubLinkIsPluggedWhileAdmitted(t *testing.T) {
	t.Parallel()
	lab := newAgentsLab(t)
	client := lab.sandbox(t, lab.a)
	before := lab.a.inventory(t, client)
	object := lab.object("shop-1-hub", newLinked(client, lab.sandbox(t, lab.b), linkVNI))
	object.Labels = map[string]string{v1alpha1.LinkMakerLabel: v1alpha1.MakerFederator}
	lab.links.set(object)
	link := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
	eventually(t, "it waits for a notification", func() bool {
		condition := lab.awaitCondition(t, link, v1alpha1.ConditionClientPlugged, metav1.ConditionFalse)
		return strings.Contains(condition.Message, "has not decided yet whether pods of this cluster have requested the link")
	})
	lab.links.admit(link, metav1.ConditionTrue, "")
	lab.awaitCondition(t, link, v1alpha1.ConditionUp, metav1.ConditionTrue)
	lab.links.update(link, func(link *v1alpha1.TSNLink) { link.Generation++ }) // the link remains until that is reconciled
	lab.links.admit(link, metav1.ConditionFalse, "pod p has no label")
	condition := lab.awaitCondition(t, link, v1alpha1.ConditionClientPlugged, metav1.ConditionFalse)
	if !strings.Contains(condition.Message, "pods of this cluster have not requested the link: pod p has no label") {
		t.Errorf("got %q", condition.Message)
	}
	eventually(t, "it is unplugged", func() bool { return len(lab.a.inventory(t, client)) == len(before) })
	checkSame(t, "after the refusal", before, lab.a.inventory(t, client))
	lab.links.admit(link, metav1.ConditionTrue, "")
	lab.awaitCondition(t, link, v1alpha1.ConditionUp, metav1.ConditionTrue)
}
