// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/linkfile"
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
			lab.await(t, link, v1alpha1.ConditionUp, metav1.ConditionTrue)
			t.Logf("up after %v", time.Since(began))
			lab.await(t, link, v1alpha1.ConditionClientPlugged, metav1.ConditionTrue)
			lab.await(t, link, v1alpha1.ConditionEndpointPlugged, metav1.ConditionTrue)
			if status := lab.links.Get(link).Status; status.MeasuredMTU != 1450 || status.Since == nil {
				t.Errorf("its status is %+v", status)
			}
			ping(t, client, netip.MustParseAddr("10.200.5.1"), 56)
			pair.checkTimed(t)
			checkToldOf(t, client, "up0", "10.200.5.1")
			checkToldOf(t, other, "down0", "10.200.5.0")
			checkHosts(t, client, "10.200.5.1\tshop\tshop.default\n")
			checkHosts(t, other, "10.200.5.0\t"+client.id+"\n")

			lab.links.remove(link)
			eventually(t, "the link is unplugged", func() bool {
				return len(lab.a.inventory(t, client)) == len(before) && len(hostsOf(t, client)) == len("127.0.0.1\tlocalhost\n")
			})
			checkSame(t, "after the link", before, lab.a.inventory(t, client))
			if _, err := os.Stat(filepath.Join(client.node.podDir(client.uid), "links", "up0")); err == nil {
				t.Error("the pod is still told of the link")
			}
		})
	}
}

func checkToldOf(t *testing.T, p *pod, interfaceName, peer string) {
	t.Helper()
	path := filepath.Join(p.node.podDir(p.uid), linkfile.Folder, interfaceName)
	eventually(t, path+" is there", func() bool { _, err := os.Stat(path); return err == nil })
	text, err := os.ReadFile(path)
	must(t, err)
	var written linkfile.Link
	must(t, json.Unmarshal(text, &written))
	if written.Interface != interfaceName || written.Service != "shop" || written.Peer.Addresses[0].String() != peer || written.MTU != 1450 {
		t.Errorf("the pod is told %s", text)
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

// eventually waits until something is so.
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
	lab.await(t, link, v1alpha1.ConditionUp, metav1.ConditionTrue)
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
	lab.await(t, link, v1alpha1.ConditionUp, metav1.ConditionTrue)
	setUplink(t, lab.b, false)
	began := time.Now()
	condition := lab.await(t, link, v1alpha1.ConditionUp, metav1.ConditionFalse)
	t.Logf("it was said after %v: %s", time.Since(began), condition.Message)
	if !strings.Contains(condition.Message, "10.200.5.1, the other end, does not answer any more; the link stays") {
		t.Errorf("it says %q", condition.Message)
	}
	setUplink(t, lab.b, true)
	began = time.Now()
	lab.await(t, link, v1alpha1.ConditionUp, metav1.ConditionTrue)
	t.Logf("up again after %v", time.Since(began))
	checkToldOf(t, client, "up0", "10.200.5.1")
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
		condition := lab.await(t, fixed, v1alpha1.ConditionUp, metav1.ConditionFalse)
		return saysMTU(condition.Message)
	})
	// The client's containers do not start, and ktsn-wait says why.
	files := filepath.Join(client.node.podDir(client.uid), linkfile.Folder, "up0")
	eventually(t, "the waiting pod is told both numbers", func() bool {
		text, err := os.ReadFile(files + linkfile.Waiting)
		return err == nil && saysMTU(string(text))
	})
	if _, err := os.Stat(files); err == nil {
		t.Error("the pod is told that the link was up")
	}
	lab.await(t, adapts, v1alpha1.ConditionUp, metav1.ConditionTrue)
	if got := lab.links.Get(adapts).Status.MeasuredMTU; got < 1346 || got > 1354 {
		t.Errorf("it measured %d bytes", got)
	}
}

// saysMTU tells whether a sentence names the MTU that was asked for, the one that was found, and what to do.
func saysMTU(text string) bool {
	if strings.Contains(text, "spec.mtu is 1450, and the way") {
		return strings.Contains(text, " carries 13") && strings.Contains(text, "; give at most that")
	}
	return strings.Contains(text, "an MTU of 1450 bytes, and its way carries 13") && strings.Contains(text, "; set spec.mtu of the service to at most 13")
}

// narrow has a node's wire take less.
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
		lab.await(t, link, v1alpha1.ConditionUp, metav1.ConditionTrue)
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
	lab.await(t, first, v1alpha1.ConditionUp, metav1.ConditionTrue)
	pair := newLinked(client, lab.sandbox(t, lab.b), linkVNI+1)
	second := lab.link("second", pair, func(*v1alpha1.TSNLinkSpec) {})
	lab.links.remove(first)
	lab.await(t, second, v1alpha1.ConditionUp, metav1.ConditionTrue)
	ping(t, client, netip.MustParseAddr("10.200.6.1"), 56)
}

func TestLinkToOwnNodeIsRejected(t *testing.T) {
	t.Parallel()
	lab := newAgentsLab(t)
	pair := newLinked(lab.sandbox(t, lab.a), lab.sandbox(t, lab.b), linkVNI)
	for address, sentence := range map[string]string{"192.0.2.1": "is this node's own", "224.0.0.1": "no address at which tunnels of a node can end"} {
		link := lab.link("shop-"+address, pair, func(spec *v1alpha1.TSNLinkSpec) { spec.Endpoint.NodeAddress = address })
		condition := lab.await(t, link, v1alpha1.ConditionClientPlugged, metav1.ConditionFalse)
		if !strings.Contains(condition.Message, sentence) {
			t.Errorf("it says %q", condition.Message)
		}
		lab.links.remove(link)
	}
}

func TestLinkNameConflictIsReported(t *testing.T) {
	t.Parallel()
	lab := newAgentsLab(t)
	client := lab.sandbox(t, lab.a)
	must(t, client.Do(func() error { return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: named("up0")}) }))
	before := lab.a.inventory(t, client)
	link := lab.link("shop-1", newLinked(client, lab.sandbox(t, lab.b), linkVNI), nil)
	const want = "the pod has an interface up0 already; give the attachment, or the label of the link, another name"
	eventually(t, "the interface is named", func() bool {
		return strings.Contains(lab.await(t, link, v1alpha1.ConditionClientPlugged, metav1.ConditionFalse).Message, want)
	})
	file := filepath.Join(client.node.podDir(client.uid), linkfile.Folder, "up0"+linkfile.Waiting)
	eventually(t, "the waiting pod is told", func() bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), "link to service shop: not plugged: ") && strings.Contains(string(text), want)
	})
	checkSame(t, "after the refusal", before, lab.a.inventory(t, client))
}
