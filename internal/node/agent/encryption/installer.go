// SPDX-License-Identifier: Apache-2.0

package encryption

import (
	"context"
	"log/slog"
	"net/netip"

	"github.com/kubernetsn/kubernetsn/internal/node/security"
	"github.com/kubernetsn/kubernetsn/internal/node/xfrm"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// installer gives the kernel and ktsnd the keys by which they receive and send.
type installer struct {
	keys  *nodeKeys
	peers *peerState
	// do connects to ktsnd.
	do  func(ctx context.Context, ask func(context.Context, Ktsnd) error) error
	log *slog.Logger

	// sent are the associations by which the kernel sends, by peer, inKtsnd those of ktsnd, and former those of its predecessor, by which a
	// ktsnd that took over sends until it has others.
	sent, inKtsnd, former map[netip.Addr]*handed
	// removed are states of the node's present keys by which the kernel has received packets.
	removed map[xfrm.Name]bool
	// modes are the networks' modes in ktsnd, nil while they are not known. restarted has something when there is a new ktsnd.
	modes     map[uint32]control.Encryption
	restarted chan struct{}
}

// handed is the association by which a sender sends to a node.
type handed struct {
	local  security.Public
	to     security.End
	serial uint32
	spi    uint32
}

// reset forgets what was installed with former keys.
func (ins *installer) reset() {
	ins.sent, ins.inKtsnd, ins.former = map[netip.Addr]*handed{}, map[netip.Addr]*handed{}, map[netip.Addr]*handed{}
	ins.removed = map[xfrm.Name]bool{}
}

// installed returns the peers to which kernel or ktsnd send.
func (ins *installer) installed() map[netip.Addr]bool {
	addresses := map[netip.Addr]bool{}
	for _, peers := range []map[netip.Addr]*handed{ins.sent, ins.inKtsnd, ins.former} {
		for address := range peers {
			addresses[address] = true
		}
	}
	return addresses
}

// sendsBy reports whether kernel or ktsnd may still send by a key of the node.
func (ins *installer) sendsBy(key security.Public) bool {
	for _, peers := range []map[netip.Addr]*handed{ins.sent, ins.inKtsnd, ins.former} {
		for _, given := range peers {
			if given.local == key {
				return true
			}
		}
	}
	return false
}
