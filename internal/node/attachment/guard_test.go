// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

func TestInterfacesOnOneOfOurs(t *testing.T) {
	at := func(name string, index, parent int) netlink.LinkAttrs {
		attributes := netlink.NewLinkAttrs()
		attributes.Name, attributes.Index, attributes.ParentIndex = name, index, parent
		return attributes
	}
	outside := at("mac1", 7, 2)
	outside.NetNsID = 0
	cases := []struct {
		link netlink.Link
		want bool
	}{
		{&netlink.Veth{LinkAttrs: at("tsn0", 2, 9)}, true},
		{&netlink.Veth{LinkAttrs: at("eth0", 3, 9)}, false},
		{&netlink.Macvlan{LinkAttrs: at("mac0", 4, 2)}, true},
		{&netlink.Vlan{LinkAttrs: at("mac0.7", 5, 4)}, true},
		{&netlink.Vlan{LinkAttrs: at("eth0.7", 6, 3)}, false},
		{&netlink.Macvlan{LinkAttrs: outside}, false}, // on a device of another namespace
		{&netlink.Veth{LinkAttrs: at("veth0", 8, 2)}, false},
		{&netlink.Macvlan{LinkAttrs: at("circle", 10, 10)}, false},
	}
	var links []netlink.Link
	for i := range cases {
		links = append(links, cases[i].link)
	}
	for _, c := range cases {
		if got := isOn(c.link, links, []string{"tsn0"}); got != c.want {
			t.Errorf("%s is on an interface of ours: %v", c.link.Attrs().Name, got)
		}
	}
}

// TestGuardOthers checks that only interfaces without a record are guarded, and that new ones do not count as restored.
func TestGuardOthers(t *testing.T) {
	_, dir := attachedNode(t)
	store, pod := recordStore{dir}, topology.NewTestNamespace(t, "guarded")
	const container = "guarded"
	r := &Record{
		Attachment: overlay.Attachment{Network: "n4343", ContainerID: container, Interface: "tsn0", Identity: "pod"},
		Netns:      pod.Path(), Unseen: UnseenDrop, KeepsOffNetwork: true,
	}
	link := &Record{Attachment: overlay.Attachment{Network: LinkNetwork, ContainerID: container, Interface: "l0"}, Netns: pod.Path(), Link: &Link{}}
	testlab.Must(t, errors.Join(store.write(r), store.write(link)))
	testlab.Must(t, pod.Do(func() error {
		attributes := netlink.NewLinkAttrs()
		attributes.Name = "eth0"
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: "l0"})
	}))
	round := GuardRound{StateDir: dir}
	run := func() (back bool) {
		t.Helper()
		all, _ := round.Run() // the network's own interface is missing
		others := 0
		for i := range all {
			if !all[i].Other {
				continue
			}
			others++
			back = all[i].Back
			if all[i].Interface != "eth0" || !all[i].Attached {
				t.Errorf("guarded %+v", all[i])
			}
		}
		if others != 1 {
			t.Errorf("%d interfaces were guarded, want 1", others)
		}
		return back
	}
	for range visitEvery + 1 { // with and without a visit
		if run() {
			t.Error("the filter counts as restored")
		}
	}
	testlab.Must(t, pod.Do(func() error {
		eth0, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.QdiscDel(netdev.Clsact(eth0))
	}))
	testlab.Eventually(t, 20*time.Second, time.Millisecond, func() error { // the kernel frees the program a moment later
		if !run() {
			return errors.New("the filter was not restored")
		}
		return nil
	})
	testlab.Must(t, pod.Do(func() error {
		later := netlink.NewLinkAttrs()
		later.Name = "eth1"
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: later, PeerName: "l1"})
	}))
	isLater := func(g Guarded) bool { return g.Interface == "eth1" && g.Attached }
	for rounds := 1; ; rounds++ {
		if all, _ := round.Run(); slices.ContainsFunc(all, isLater) {
			break
		}
		if rounds == visitEvery {
			t.Fatal("an interface that the pod got later has no filter")
		}
	}
}

// A record of a plugin that did not guard other interfaces must not change what a running pod may send.
func TestRecordOfEarlierPlugin(t *testing.T) {
	for text, want := range map[string]bool{`{"unseen":"drop"}`: false, `{"unseen":"drop","keepsOffNetwork":true}`: true} {
		var r Record
		testlab.Must(t, json.Unmarshal([]byte(text), &r))
		if got := r.guardsOthers(); got != want {
			t.Errorf("%s: guards others is %v, want %v", text, got, want)
		}
	}
}
