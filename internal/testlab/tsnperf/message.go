// SPDX-License-Identifier: Apache-2.0

package tsnperf

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	messageMagic   = 0x54534e50 // "TSNP"
	messageVersion = 1
	// messageHeaderBytes is the length of the header at the start of the payload.
	messageHeaderBytes = 28
	// MinPayload is the shortest message, in bytes of UDP payload: a short header.
	MinPayload = 16

	shortMagic    = 0x5473 // "Ts"
	shortSequence = 1<<24 - 1
	shortTimeBits = 62
)

// shortClocks are the clocks by their number in a short header: CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_TAI.
var shortClocks = [...]uint8{0, 1, 11}

// ErrNotAMessage is returned for a payload that tsnperf did not send.
var ErrNotAMessage = errors.New("not a message of tsnperf")

// Message is the header of a message, as in datapath/perf/message.h.
type Message struct {
	// Clock is the clockid_t of Txtime by its Linux number.
	Clock    uint8
	RunID    uint32
	Sequence uint32
	// Txtime is the requested transmit time in nanoseconds of Clock.
	Txtime int64
	// PayloadBytes is the length of the whole message; 0 for a short header, which does not contain it.
	PayloadBytes uint32
}

// DecodeMessage reads the header at the start of a payload, which may be truncated after the header.
func DecodeMessage(payload []byte) (Message, error) {
	order := binary.BigEndian
	if len(payload) >= MinPayload && order.Uint16(payload) == shortMagic {
		return decodeShort(payload)
	}
	if len(payload) < messageHeaderBytes || order.Uint32(payload) != messageMagic {
		return Message{}, ErrNotAMessage
	}
	if version := payload[4]; version != messageVersion {
		return Message{}, fmt.Errorf("message of version %d instead of %d", version, messageVersion)
	}
	return Message{
		Clock:        payload[5],
		RunID:        order.Uint32(payload[8:]),
		Sequence:     order.Uint32(payload[12:]),
		Txtime:       int64(order.Uint64(payload[16:])),
		PayloadBytes: order.Uint32(payload[24:]),
	}, nil
}

// decodeShort reads a short header. The listener checks its content.
func decodeShort(payload []byte) (Message, error) {
	order := binary.BigEndian
	timed := order.Uint64(payload[8:])
	clock := timed >> shortTimeBits
	if clock >= uint64(len(shortClocks)) {
		return Message{}, fmt.Errorf("message of clock %d", clock)
	}
	return Message{Clock: shortClocks[clock], RunID: uint32(order.Uint16(payload[2:])), Sequence: order.Uint32(payload[4:]) & shortSequence,
		Txtime: int64(timed & (1<<shortTimeBits - 1))}, nil
}

// EncodeMessage writes the long header and the pattern after it into a payload of PayloadBytes, at least 40.
func EncodeMessage(payload []byte, m *Message) {
	order := binary.BigEndian
	order.PutUint32(payload, messageMagic)
	payload[4], payload[5], payload[6], payload[7] = messageVersion, m.Clock, 0, 0
	order.PutUint32(payload[8:], m.RunID)
	order.PutUint32(payload[12:], m.Sequence)
	order.PutUint64(payload[16:], uint64(m.Txtime))
	order.PutUint32(payload[24:], m.PayloadBytes)
	seed := m.RunID*0x9e3779b1 + m.Sequence*0x85ebca77
	seed ^= seed >> 15
	for i := uint32(messageHeaderBytes); i < m.PayloadBytes; i++ {
		payload[i] = byte(seed + i*167 + i>>8*13)
	}
}
