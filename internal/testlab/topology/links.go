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
	return SetUp("lo")
}

// OnLink calls do with an interface; purpose begins the message of its error.
func OnLink(name, purpose string, do func(netlink.Link) error) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	if err := do(link); err != nil {
		return fmt.Errorf("%s %s: %w", purpose, name, err)
	}
	return nil
}

// SetUp sets an interface up.
func SetUp(name string) error { return OnLink(name, "set up", netlink.LinkSetUp) }

// AddAddress adds an address with its prefix to an interface.
func AddAddress(name string, address netip.Prefix) error {
	return OnLink(name, fmt.Sprintf("add address %s to", address), func(link netlink.Link) error {
		return netlink.AddrAdd(link, &netlink.Addr{IPNet: Network(address)})
	})
}

// Network converts a prefix and keeps the host's address.
func Network(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: net.IP(prefix.Addr().AsSlice()), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
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
		return SetUp(nearName)
	})
	if err != nil {
		return err
	}
	return far.Do(func() error { return SetUp(farName) })
}

func addAddress(namespace *Namespace, name string, address netip.Addr, prefixBits int) error {
	return namespace.Do(func() error { return AddAddress(name, netip.PrefixFrom(address, prefixBits)) })
}

// FramesReceived returns the number of frames that an interface has received.
func (n *Namespace) FramesReceived(name string) (frames uint64, err error) {
	err = n.Do(func() error {
		return OnLink(name, "count the frames of", func(link netlink.Link) error {
			frames = link.Attrs().Statistics.RxPackets
			return nil
		})
	})
	return frames, err
}
