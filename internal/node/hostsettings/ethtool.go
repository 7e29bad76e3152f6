// SPDX-License-Identifier: Apache-2.0

package hostsettings

import (
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
)

// flagLRO is ETH_FLAG_LRO of ETHTOOL_GFLAGS.
const flagLRO = 1 << 15

// Structures of linux/ethtool.h: their lengths and the offsets of values, in words of 32 bits.
const (
	valueWords     = 2
	eeeWords       = 10
	eeeEnabled     = 5
	coalesceWords  = 23
	coalesceRxUs   = 1
	coalesceTxUs   = 5
	coalesceAdapts = 10
)

// ReadCard reads settings from an interface's driver. Settings that the driver does not support are left out.
func ReadCard(name string) *Card {
	card := &Card{}
	if value, known := ask(name, unix.ETHTOOL_GGRO, valueWords); known {
		card.GRO = value[1] != 0
	}
	if value, known := ask(name, unix.ETHTOOL_GFLAGS, valueWords); known {
		card.LRO = value[1]&flagLRO != 0
	}
	if value, known := ask(name, unix.ETHTOOL_GEEE, eeeWords); known {
		enabled := value[eeeEnabled] != 0
		card.EEE = &enabled
	}
	if value, known := ask(name, unix.ETHTOOL_GCOALESCE, coalesceWords); known {
		card.Coalescing = &Coalescing{ReceiveUs: value[coalesceRxUs], TransmitUs: value[coalesceTxUs], Adaptive: value[coalesceAdapts] != 0}
	}
	return card
}

func ask(name string, command uint32, words int) (value []uint32, known bool) {
	value = make([]uint32, words)
	value[0] = command
	return value, netdev.Ethtool(name, value) == nil
}
