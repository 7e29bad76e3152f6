// SPDX-License-Identifier: Apache-2.0

package ptp4l

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	ptp "github.com/facebook/time/ptp/protocol"
)

// Identifiers of management messages that facebook/time does not have: the time properties and a port's data set of IEEE 1588, and
// ptp4l's subscription to changes.
const (
	idTimeProperties  = ptp.IDTimePropertiesDataSet
	idPortDataSet     = ptp.IDPortDataSet
	idSubscribeEvents = ptp.ManagementID(0xC003)
)

// Flags of the time properties (IEEE 1588, table 105).
const (
	flagUTCOffsetValid = 1 << 2
	flagPTPTimescale   = 1 << 3
)

// Lengths in bytes: the header of all PTP messages, and what comes before the data of a management message.
const (
	lengthOfHeader = 34
	lengthOfHead   = lengthOfHeader + 10 + 4 // target, hops, action, reserved
	lengthOfTLV    = 4                       // type and length
	mostOfMessage  = 1024
)

// timeProperties is TIME_PROPERTIES_DATA_SET.
type timeProperties struct {
	ptp.ManagementTLVHead
	CurrentUTCOffset int16
	Flags            uint8
	TimeSource       uint8
}

// portDataSet is the beginning of PORT_DATA_SET.
type portDataSet struct {
	ptp.ManagementTLVHead
	Port  ptp.PortIdentity
	State ptp.PortState
}

// subscription is ptp4l's SUBSCRIBE_EVENTS_NP.
type subscription struct {
	ptp.ManagementTLVHead
	DurationSeconds uint16
	Events          [64]byte
}

// eventPortState is the bit of a change of a port's state in the first byte of subscription.Events: the only event of ptp4l 3.1.1.
const eventPortState = 1

func init() {
	ptp.RegisterMgmtTLVDecoder(idTimeProperties, decodeAs[timeProperties])
	ptp.RegisterMgmtTLVDecoder(idPortDataSet, decodeAs[portDataSet])
	ptp.RegisterMgmtTLVDecoder(idSubscribeEvents, decodeAs[subscription])
}

// decodeAs reads a TLV of fixed size.
func decodeAs[T any, P interface {
	*T
	ptp.ManagementTLV
}](data []byte) (ptp.ManagementTLV, error) {
	tlv := P(new(T))
	if err := binary.Read(bytes.NewReader(data), binary.BigEndian, tlv); err != nil {
		return nil, fmt.Errorf("management TLV of %d bytes: %w", len(data), err)
	}
	return tlv, nil
}

// Address is how requests to a ptp4l are addressed: it does not answer in another domain or, in most configurations, to
// another majorSdoId.
type Address struct {
	Domain, MajorSdoID uint8
}

// Request encodes a management message to any clock and port, with the data that follow the ID in its TLV.
func Request(from ptp.PortIdentity, to Address, sequence uint16, action ptp.Action, id ptp.ManagementID, body []byte) ([]byte, error) {
	message := &ptp.Management{
		ManagementMsgHead: ptp.ManagementMsgHead{
			Header: ptp.Header{
				SdoIDAndMsgType:    ptp.NewSdoIDAndMsgType(ptp.MessageManagement, to.MajorSdoID),
				Version:            ptp.Version,
				MessageLength:      uint16(lengthOfHead + lengthOfTLV + 2 + len(body)), //nolint:gosec // bodies are ours
				DomainNumber:       to.Domain,
				SourcePortIdentity: from,
				SequenceID:         sequence,
				LogMessageInterval: ptp.MgmtLogMessageInterval,
			},
			TargetPortIdentity: ptp.DefaultTargetPortIdentity,
			ActionField:        action,
		},
		TLV: &ptp.ManagementTLVHead{
			TLVHead:      ptp.TLVHead{TLVType: ptp.TLVManagement, LengthField: uint16(2 + len(body))}, //nolint:gosec // see above
			ManagementID: id,
		},
	}
	encoded, err := message.MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("encode a request for 0x%04x: %w", uint16(id), err)
	}
	return append(encoded, body...), nil
}

// subscribe is the body of a subscription to changes of ports' states for so many seconds.
func subscribe(seconds uint16) []byte {
	body := make([]byte, 2+64)
	binary.BigEndian.PutUint16(body, seconds)
	body[2] = eventPortState
	return body
}

// decode reads what ptp4l sent to the port identity to. nil: it is for somebody else. Whatever data holds, it returns.
func decode(data []byte, to ptp.PortIdentity) (message *ptp.Management, err error) {
	defer func() {
		if caught := recover(); caught != nil {
			message, err = nil, fmt.Errorf("undecodable message of %d bytes: %v", len(data), caught)
		}
	}()
	if err := check(data); err != nil {
		return nil, err
	}
	message = &ptp.Management{}
	if err := message.UnmarshalBinary(data); err != nil {
		return nil, fmt.Errorf("message of %d bytes: %w", len(data), err)
	}
	if message.TargetPortIdentity != to || message.ActionField != ptp.RESPONSE {
		return nil, nil //nolint:nilnil // nothing of ours is no error
	}
	return message, nil
}

// check finds what is no management message, and what says that it is longer than it is.
func check(data []byte) error {
	const typeMask = 0x0f
	switch {
	case len(data) < lengthOfHead+lengthOfTLV+2:
		return fmt.Errorf("message of %d bytes is too short", len(data))
	case data[0]&typeMask != uint8(ptp.MessageManagement):
		return fmt.Errorf("message of type 0x%x is no management message", data[0]&typeMask)
	}
	length := int(binary.BigEndian.Uint16(data[2:]))
	tlv := int(binary.BigEndian.Uint16(data[lengthOfHead+2:]))
	if length > len(data) || lengthOfHead+lengthOfTLV+tlv > len(data) {
		return fmt.Errorf("message of %d bytes says that it has %d, and a TLV of %d", len(data), length, tlv)
	}
	// Others are never asked for, and some say themselves how much memory they want.
	if id := ptp.ManagementID(binary.BigEndian.Uint16(data[lengthOfHead+lengthOfTLV:])); !slices.Contains(expected, id) {
		return fmt.Errorf("message about 0x%04x, which nobody asked for", uint16(id))
	}
	return nil
}

// expected is what is asked for, and what comes unasked.
var expected = slices.Concat(frequent, rare, []ptp.ManagementID{idSubscribeEvents, idPortDataSet})
