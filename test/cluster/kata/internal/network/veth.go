// SPDX-License-Identifier: Apache-2.0

package network

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// tapSuffix ends Kata's names of taps.
const tapSuffix = "_kata"

// Redirect creates a tap for each interface of a network namespace. Undo removes them, also after a failure.
func Redirect(netns string) (cards []Card, err error) {
	err = ns.WithNetNSPath(netns, func(ns.NetNS) error {
		links, err := netlink.LinkList()
		if err != nil {
			return err
		}
		for _, link := range links {
			if link.Attrs().Flags&net.FlagLoopback != 0 || len(link.Attrs().HardwareAddr) == 0 {
				continue
			}
			card := Card{Tap: fmt.Sprintf("tap%d%s", len(cards), tapSuffix), Queues: 1}
			if card.Interface, err = readInterface(link); err != nil {
				return fmt.Errorf("read %s: %w", link.Attrs().Name, err)
			}
			if err := redirect(link, card.Tap); err != nil {
				return fmt.Errorf("redirect %s: %w", link.Attrs().Name, err)
			}
			cards = append(cards, card)
		}
		return nil
	})
	return cards, err
}

// redirect connects an interface with a new tap.
func redirect(link netlink.Link, name string) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = name
	tap := &netlink.Tuntap{LinkAttrs: attributes, Mode: netlink.TUNTAP_MODE_TAP, Flags: netlink.TUNTAP_NO_PI | netlink.TUNTAP_VNET_HDR}
	for _, step := range []func() error{
		func() error { return netlink.LinkAdd(tap) },
		func() error { return netlink.LinkSetMTU(tap, link.Attrs().MTU) },
		func() error { return netlink.LinkSetUp(tap) },
		func() error { return addIngress(tap) },
		func() error { return addIngress(link) },
		func() error { return addRedirection(tap, link) },
		func() error { return addRedirection(link, tap) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func ingress(link netlink.Link) *netlink.Ingress {
	return &netlink.Ingress{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_INGRESS}}
}

func addIngress(link netlink.Link) error {
	if err := netlink.QdiscAdd(ingress(link)); err != nil {
		return fmt.Errorf("add the queueing discipline ingress to %s: %w", link.Attrs().Name, err)
	}
	return nil
}

// addRedirection redirects everything that arrives at one interface to the other.
func addRedirection(from, to netlink.Link) error {
	action := netlink.NewMirredAction(to.Attrs().Index)
	filter := &netlink.U32{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: from.Attrs().Index, Parent: netlink.MakeHandle(0xffff, 0), Priority: 1, Protocol: unix.ETH_P_ALL},
		Actions:     []netlink.Action{action},
	}
	if err := netlink.FilterAdd(filter); err != nil {
		return fmt.Errorf("redirect from %s to %s: %w", from.Attrs().Name, to.Attrs().Name, err)
	}
	return nil
}

// Undo removes the taps of Redirect, and the ingress queueing disciplines with their filters. It is not an error if
// there are none, or no namespace any more.
func Undo(netns string) error {
	err := ns.WithNetNSPath(netns, func(ns.NetNS) error {
		links, err := netlink.LinkList()
		if err != nil {
			return err
		}
		var all error
		for _, link := range links {
			if strings.HasSuffix(link.Attrs().Name, tapSuffix) {
				all = errors.Join(all, netlink.LinkDel(link))
			} else {
				all = errors.Join(all, removeIngress(link))
			}
		}
		return all
	})
	var gone ns.NSPathNotExistErr
	if errors.As(err, &gone) {
		return nil
	}
	return err
}

// removeIngress keeps clsact, which has the same place: somebody else has added it.
func removeIngress(link netlink.Link) error {
	disciplines, err := netlink.QdiscList(link)
	if err != nil {
		return err
	}
	for _, discipline := range disciplines {
		if discipline.Type() != "ingress" {
			continue
		}
		if err := netlink.QdiscDel(discipline); err != nil {
			return fmt.Errorf("take the queueing discipline ingress off %s: %w", link.Attrs().Name, err)
		}
	}
	return nil
}
