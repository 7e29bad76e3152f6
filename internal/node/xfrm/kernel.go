// SPDX-License-Identifier: Apache-2.0

package xfrm

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
)

const (
	// Reqid marks states and the policies of peers: "tsn" in ASCII.
	Reqid = 0x74736e
	// OverheadBytes is the most that ESP adds to a packet: its header, the initialization vector, up to 3 bytes of padding, their length and
	// the next header, and the integrity check value.
	OverheadBytes = 8 + 8 + 3 + 2 + 16

	// priorityPeer is before priorityRest: policies with a smaller one come first.
	priorityPeer = Reqid
	priorityRest = Reqid + 1
)

// ErrUnavailable reports that the kernel cannot encrypt.
var ErrUnavailable = errors.New("the kernel has no ESP with AES-GCM, by which networks are encrypted; load its modules (xfrm_user, esp4, and of the crypto API gcm and seqiv)")

// Kernel is a connection to the node's kernel.
type Kernel struct {
	handle *netlink.Handle
	port   uint16
}

// Open connects to the kernel, for tunnels to a port.
func Open(port uint16) (*Kernel, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_XFRM)
	if err != nil {
		return nil, fmt.Errorf("ask the kernel about encryption: %w", explain(err))
	}
	return &Kernel{handle, port}, nil
}

// Close closes the connection; states and policies stay.
func (k *Kernel) Close() { k.handle.Close() }

// Protect makes the policies without which a tunnel to the port would send and accept clear packets. Existing policies
// stay.
func (k *Kernel) Protect() error {
	have, err := k.policies()
	if err != nil {
		return err
	}
	for _, policy := range k.protection() {
		if slices.ContainsFunc(have, func(existing netlink.XfrmPolicy) bool { return same(&existing, &policy) }) {
			continue
		}
		// Adding fails if another policy with the selector exists; updating does not.
		if err := k.handle.XfrmPolicyUpdate(&policy); err != nil {
			return fmt.Errorf("keep clear packets from UDP port %d: %w", k.port, explain(err))
		}
	}
	return nil
}

// protection returns the policies for all addresses.
func (k *Kernel) protection() []netlink.XfrmPolicy {
	anywhere := netip.IPv4Unspecified()
	in := k.policy(netlink.XFRM_DIR_IN, netip.Prefix{}, priorityRest)
	in.Tmpls = []netlink.XfrmPolicyTmpl{template(anywhere, anywhere)}
	out := k.policy(netlink.XFRM_DIR_OUT, netip.Prefix{}, priorityRest)
	out.Action = netlink.XFRM_POLICY_BLOCK
	return []netlink.XfrmPolicy{in, out}
}

// policy selects packets to the tunnels' port, to all addresses if the prefix is not valid.
func (k *Kernel) policy(direction netlink.Dir, to netip.Prefix, priority int) netlink.XfrmPolicy {
	policy := netlink.XfrmPolicy{Dir: direction, Proto: unix.IPPROTO_UDP, DstPort: int(k.port), Priority: priority}
	if to.IsValid() {
		policy.Dst = network(to)
	} else {
		policy.Dst = network(netip.PrefixFrom(netip.IPv4Unspecified(), 0))
	}
	policy.Src = network(netip.PrefixFrom(netip.IPv4Unspecified(), 0))
	return policy
}

func network(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
}

func template(from, to netip.Addr) netlink.XfrmPolicyTmpl {
	return netlink.XfrmPolicyTmpl{
		Src: from.AsSlice(), Dst: to.AsSlice(), Proto: netlink.XFRM_PROTO_ESP, Mode: netlink.XFRM_MODE_TRANSPORT, Reqid: Reqid,
	}
}

// same reports whether two policies are equal in all that this package sets.
func same(a, b *netlink.XfrmPolicy) bool {
	return a.Dir == b.Dir && a.Priority == b.Priority && a.Action == b.Action && a.Proto == b.Proto && a.DstPort == b.DstPort &&
		prefixOf(a.Dst) == prefixOf(b.Dst) && len(a.Tmpls) == len(b.Tmpls)
}

// prefixOf returns 0.0.0.0/0 for nil, as in the kernel's lists.
func prefixOf(network *net.IPNet) netip.Prefix {
	if network == nil {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	address, _ := netip.AddrFromSlice(network.IP)
	bits, _ := network.Mask.Size()
	return netip.PrefixFrom(address.Unmap(), bits)
}

// policies returns the policies that this package made.
func (k *Kernel) policies() ([]netlink.XfrmPolicy, error) {
	all, err := netdev.Dump(func() ([]netlink.XfrmPolicy, error) { return k.handle.XfrmPolicyList(netlink.FAMILY_V4) })
	if err != nil {
		return nil, fmt.Errorf("list the policies of encryption: %w", explain(err))
	}
	return slices.DeleteFunc(all, func(policy netlink.XfrmPolicy) bool {
		return policy.Proto != unix.IPPROTO_UDP || policy.Priority != priorityPeer && policy.Priority != priorityRest
	}), nil
}

// Peers returns the nodes to which packets leave by ESP.
func (k *Kernel) Peers() ([]netip.Addr, error) {
	all, err := k.policies()
	if err != nil {
		return nil, err
	}
	var peers []netip.Addr
	for i := range all {
		if all[i].Priority == priorityPeer && all[i].DstPort == int(k.port) {
			peers = append(peers, prefixOf(all[i].Dst).Addr())
		}
	}
	return peers, nil
}

// AddPeer makes packets to a node leave by ESP.
func (k *Kernel) AddPeer(local, peer netip.Addr) error {
	policy := k.peer(peer)
	policy.Tmpls = []netlink.XfrmPolicyTmpl{template(local, peer)}
	if err := k.handle.XfrmPolicyUpdate(&policy); err != nil {
		return fmt.Errorf("have packets to %s encrypted: %w", peer, explain(err))
	}
	return nil
}

// RemovePeer stops packets to a node from leaving.
func (k *Kernel) RemovePeer(peer netip.Addr) error {
	policy := k.peer(peer)
	if err := k.handle.XfrmPolicyDel(&policy); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("forget that packets to %s are encrypted: %w", peer, explain(err))
	}
	return nil
}

func (k *Kernel) peer(peer netip.Addr) netlink.XfrmPolicy {
	return k.policy(netlink.XFRM_DIR_OUT, netip.PrefixFrom(peer, peer.BitLen()), priorityPeer)
}

// Clear removes all states and policies of this package, also those for other ports.
func (k *Kernel) Clear() error {
	states, err := k.States()
	if err != nil {
		return err
	}
	var all error
	for i := range states {
		all = errors.Join(all, k.RemoveState(states[i].Name))
	}
	policies, err := k.policies()
	all = errors.Join(all, err)
	for i := range policies {
		if err := k.handle.XfrmPolicyDel(&policies[i]); err != nil && !errors.Is(err, unix.ENOENT) {
			all = errors.Join(all, fmt.Errorf("remove a policy of encryption: %w", err))
		}
	}
	return all
}

// explain adds the likely cause to errors about unknown requests.
func explain(err error) error {
	for _, unknown := range []error{unix.EPROTONOSUPPORT, unix.EAFNOSUPPORT, unix.EOPNOTSUPP, unix.ENOSYS, unix.ESOCKTNOSUPPORT} {
		if errors.Is(err, unknown) {
			return fmt.Errorf("%w (%w)", ErrUnavailable, unknown)
		}
	}
	return err
}
