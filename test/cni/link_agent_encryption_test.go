// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// TestALinkThatComesToRequireEncryptionLeavesNoOtherWay has a link between nodes that cannot encrypt, and pods with a default route, as all have
// by the cluster's own network: nothing that is for the other end leaves by that.
func TestALinkThatComesToRequireEncryptionLeavesNoOtherWay(t *testing.T) {
	lab := newAgentsLab(t)
	made := newLinked(lab.sandbox(t, lab.a), lab.sandbox(t, lab.b), linkVNI)
	made.client.routes = []string{"10.9.0.0/16"}
	for _, one := range []*end{made.client, made.endpoint} {
		must(t, one.Do(addDefaultRoute))
	}
	link := lab.link("shop-1", made, nil)
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
	for _, ends := range [][2]*end{{made.client, made.endpoint}, {made.endpoint, made.client}} {
		for _, to := range append(addressesOf(ends[1].addresses), addressesOf(ends[0].routes)...) {
			must(t, ends[0].Do(func() error { return isRefused(to) }))
		}
	}
	ask(v1alpha1.EncryptionNone)
	lab.await(t, link, v1alpha1.ConditionClientPlugged, metav1.ConditionTrue)
	lab.await(t, link, v1alpha1.ConditionEndpointPlugged, metav1.ConditionTrue)
	lab.await(t, link, v1alpha1.ConditionUp, metav1.ConditionTrue)
	for _, one := range []*end{made.client, made.endpoint} {
		must(t, one.Do(refusesNothing))
	}
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
	found, err := netlink.RouteGet(to.AsSlice())
	if errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.ENETUNREACH) {
		return nil
	}
	return errors.Join(fmt.Errorf("the kernel should refuse to send to %s, and has routes %v", to, found), err)
}

// refusesNothing fails if the pod's kernel still refuses to send somewhere.
func refusesNothing() error {
	left, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Type: unix.RTN_UNREACHABLE}, netlink.RT_FILTER_TYPE)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("the pod still refuses %v", left)
	}
	return err
}
