// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
)

// The functions without a *Namespace act on the namespace of the calling thread.

// prepareNamespace disables IPv6, whose own packets would only be noise, and enables the loopback.
func prepareNamespace() error {
	// /proc/sys/net shows the network namespace of the thread that opens it.
	for _, scope := range []string{"all", "default"} {
		path := "/proc/sys/net/ipv6/conf/" + scope + "/disable_ipv6"
		err := os.WriteFile(path, []byte("1"), 0)
		if err != nil && !os.IsNotExist(err) { // a kernel without IPv6
			return fmt.Errorf("switch IPv6 off: %w", err)
		}
	}
	return setUp("lo")
}

func setUp(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	return nil
}

// makeVeth creates a veth pair with one end in each namespace and sets both up.
func makeVeth(near *Namespace, nearName string, far *Namespace, farName string, mtuBytes int) error {
	err := near.Do(func() error {
		attributes := netlink.NewLinkAttrs()
		attributes.Name = nearName
		attributes.MTU = mtuBytes
		veth := &netlink.Veth{
			LinkAttrs:     attributes,
			PeerName:      farName,
			PeerNamespace: netlink.NsFd(int(far.handle)),
		}
		if err := netlink.LinkAdd(veth); err != nil {
			return fmt.Errorf("make veth %s to %s: %w", nearName, farName, err)
		}
		return setUp(nearName)
	})
	if err != nil {
		return err
	}
	return far.Do(func() error { return setUp(farName) })
}

func addAddress(namespace *Namespace, name string, address netip.Addr, prefixBits int) error {
	return namespace.Do(func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find %s: %w", name, err)
		}
		network := &net.IPNet{IP: net.IP(address.AsSlice()), Mask: net.CIDRMask(prefixBits, address.BitLen())}
		if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: network}); err != nil {
			return fmt.Errorf("give %s the address %s: %w", name, network, err)
		}
		return nil
	})
}

// FramesReceived returns the number of frames that an interface has received.
func (n *Namespace) FramesReceived(name string) (frames uint64, err error) {
	err = n.Do(func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("count the frames of %s: %w", name, err)
		}
		frames = link.Attrs().Statistics.RxPackets
		return nil
	})
	return frames, err
}
