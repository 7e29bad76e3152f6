// SPDX-License-Identifier: Apache-2.0

package xfrm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
)

const (
	// algorithm is AES-128-GCM as ESP uses it, with the salt behind the key.
	algorithm = "rfc4106(gcm(aes))"
	icvBits   = 128
	// replayWindow is how many packets a receiver looks back, the most that Linux can. ktsnd seals in the order of departures, and
	// departures of different classes may pass each other.
	replayWindow = 4096
	wordBits     = 32
)

// Name identifies a state in the kernel.
type Name struct {
	From, To netip.Addr
	SPI      uint32
}

// State is a key for one direction.
type State struct {
	Name
	Key [16 + 4]byte
	// Incoming states decrypt packets and reject replayed ones; others encrypt.
	Incoming bool
}

// Found is a state in the kernel.
type Found struct {
	Name
	// Packets is how many packets it has encrypted or decrypted.
	Packets uint64
}

// States returns the states that this package made.
func (k *Kernel) States() ([]Found, error) {
	kernelStates, err := netdev.Dump(func() ([]netlink.XfrmState, error) { return k.handle.XfrmStateList(netlink.FAMILY_V4) })
	if err != nil {
		return nil, fmt.Errorf("list the keys of encryption: %w", explain(err))
	}
	var states []Found
	for i := range kernelStates {
		state := &kernelStates[i]
		from, okFrom := netip.AddrFromSlice(state.Src)
		to, okTo := netip.AddrFromSlice(state.Dst)
		if state.Reqid == Reqid && state.Proto == netlink.XFRM_PROTO_ESP && okFrom && okTo {
			states = append(states, Found{Name{from.Unmap(), to.Unmap(), uint32(state.Spi)}, state.Statistics.Packets})
		}
	}
	return states, nil
}

// AddState gives the kernel a key. It fails if a state of that name exists, which may be somebody else's.
func (k *Kernel) AddState(state *State) error {
	request := nl.NewNetlinkRequest(nl.XFRM_MSG_NEWSA, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	request.AddData(k.describe(state))
	key := &nl.XfrmAlgoAEAD{AlgKeyLen: uint32(len(state.Key)) * 8, AlgICVLen: icvBits, AlgKey: state.Key[:]}
	copy(key.AlgName[:], algorithm)
	request.AddData(nl.NewRtAttr(nl.XFRMA_ALG_AEAD, key.Serialize()))
	if state.Incoming {
		request.AddData(nl.NewRtAttr(nl.XFRMA_REPLAY_ESN_VAL, emptyWindow()))
	}
	if _, err := request.Execute(unix.NETLINK_XFRM, 0); err != nil {
		return fmt.Errorf("give the kernel the key from %s to %s with SPI %#x: %w", state.From, state.To, state.SPI, explain(err))
	}
	return nil
}

// describe returns the state without its key. An incoming state accepts packets from its peer's address only: ESP in
// transport mode does not protect the addresses themselves.
func (k *Kernel) describe(state *State) *nl.XfrmUsersaInfo {
	info := &nl.XfrmUsersaInfo{Family: unix.AF_INET, Reqid: Reqid, Mode: uint8(netlink.XFRM_MODE_TRANSPORT)}
	info.Id.Proto, info.Id.Spi = uint8(netlink.XFRM_PROTO_ESP), nl.Swap32(state.SPI)
	info.Id.Daddr.FromIP(state.To.AsSlice())
	info.Saddr.FromIP(state.From.AsSlice())
	info.Sel.Family, info.Sel.Proto = unix.AF_INET, unix.IPPROTO_UDP
	info.Sel.Daddr, info.Sel.Saddr = info.Id.Daddr, info.Saddr
	info.Sel.PrefixlenD, info.Sel.PrefixlenS = uint8(state.To.BitLen()), uint8(state.From.BitLen())
	info.Sel.Dport, info.Sel.DportMask = nl.Swap16(k.port), ^uint16(0)
	for _, limit := range []*uint64{&info.Lft.SoftByteLimit, &info.Lft.HardByteLimit, &info.Lft.SoftPacketLimit, &info.Lft.HardPacketLimit} {
		*limit = nl.XFRM_INF
	}
	return info
}

// emptyWindow is a struct xfrm_replay_state_esn (linux/xfrm.h) with its bitmap: without the flag of extended sequence
// numbers it is a window larger than the older structure allows.
func emptyWindow() []byte {
	const words = replayWindow / wordBits
	raw := make([]byte, 6*4+words*4)
	binary.NativeEndian.PutUint32(raw, words)
	binary.NativeEndian.PutUint32(raw[5*4:], replayWindow)
	return raw
}

// RemoveState removes a key from the kernel. A missing key is not an error.
func (k *Kernel) RemoveState(name Name) error {
	err := k.handle.XfrmStateDel(&netlink.XfrmState{
		Src: name.From.AsSlice(), Dst: name.To.AsSlice(), Spi: int(name.SPI), Proto: netlink.XFRM_PROTO_ESP, Mode: netlink.XFRM_MODE_TRANSPORT,
	})
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("have the kernel forget the key from %s to %s with SPI %#x: %w", name.From, name.To, name.SPI, explain(err))
	}
	return nil
}
