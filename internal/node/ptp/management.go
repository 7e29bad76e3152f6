// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	ptp "github.com/facebook/time/ptp/protocol"

	"github.com/kubernetsn/kubernetsn/internal/node/clock/ptp4l"
)

// idGrandmasterSettings is GRANDMASTER_SETTINGS_NP, a management ID of linuxptp.
const idGrandmasterSettings = ptp.ManagementID(0xC001)

const (
	answerPatience  = time.Second
	maxMessageBytes = 1500
	timeOffsetBytes = 4
	settingsBytes   = 8
	settingsUTCAt   = 4
	settingsFlagsAt = 6
)

// Flags of time properties (flagField, second octet).
const (
	flagLeap61      = 1 << 0
	flagLeap59      = 1 << 1
	flagUTCOffsetOK = 1 << 2
)

// message is a management message up to the data of its TLV.
type message struct {
	ptp.ManagementMsgHead
	ptp.ManagementTLVHead
}

// askerName begins the names of this program's sockets.
const askerName = "ktsn-ptp."

// Management is a connection to the management socket of a ptp4l. Only one goroutine may use it at a time.
type Management struct {
	connection *net.UnixConn
	path       string
	domain     uint8
	sequence   uint16
}

// DialManagement creates a socket next to ptp4l's. ptp4l answers to its name, and finds it there whichever folders it sees.
func DialManagement(socket string, domain int) (*Management, error) {
	if _, err := os.Stat(socket); err != nil {
		return nil, fmt.Errorf("no ptp4l serves this node: %w", err)
	}
	// A process ID would not be unique: another goroutine may ask too, and a process of another PID namespace may have the same.
	path := filepath.Join(filepath.Dir(socket), askerName+rand.Text()[:8])
	connection, err := net.DialUnix("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		_ = os.Remove(path)
		return nil, fmt.Errorf("reach ptp4l: %w", err)
	}
	return &Management{connection: connection, path: path, domain: uint8(domain)}, nil //nolint:gosec // checked before
}

// Close closes the socket and removes its name.
func (m *Management) Close() error {
	err := m.connection.Close()
	if gone := os.Remove(m.path); gone != nil && !errors.Is(gone, os.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

// ask sends a request and returns the data of its answer.
func (m *Management) ask(ctx context.Context, action ptp.Action, id ptp.ManagementID, data []byte) ([]byte, error) {
	m.sequence++
	deadline := time.Now().Add(answerPatience)
	if ends, limited := ctx.Deadline(); limited && ends.Before(deadline) {
		deadline = ends
	}
	if err := m.connection.SetDeadline(deadline); err != nil {
		return nil, err
	}
	from := ptp.PortIdentity{PortNumber: uint16(os.Getpid())} //nolint:gosec // tells clients apart
	request, err := ptp4l.Request(from, ptp4l.Address{Domain: m.domain}, m.sequence, action, id, data)
	if err != nil {
		return nil, err
	}
	if _, err := m.connection.Write(request); err != nil {
		return nil, fmt.Errorf("ask ptp4l: %w", err)
	}
	answer := make([]byte, maxMessageBytes)
	for {
		count, err := m.connection.Read(answer)
		if err != nil {
			return nil, fmt.Errorf("wait for ptp4l's answer: %w", err)
		}
		data, fits, err := m.read(answer[:count], id)
		if fits || err != nil {
			return data, err
		}
	}
}

// read decodes the answer to the last request; fits is false if it is another message.
func (m *Management) read(encoded []byte, id ptp.ManagementID) (data []byte, fits bool, err error) {
	reader := bytes.NewReader(encoded)
	var answer message
	if binary.Read(reader, binary.BigEndian, &answer) != nil || answer.MessageType() != ptp.MessageManagement ||
		answer.SequenceID != m.sequence || answer.ActionField&0x0F != ptp.RESPONSE {
		return nil, false, nil
	}
	if answer.TLVType == ptp.TLVManagementErrorStatus { // the error stands in place of the ID
		return nil, true, fmt.Errorf("ptp4l refuses request %#x with error %#x", uint16(id), uint16(answer.ManagementID))
	}
	if answer.TLVType != ptp.TLVManagement || answer.ManagementID != id {
		return nil, false, nil
	}
	rest := encoded[len(encoded)-reader.Len():]
	length := int(answer.LengthField) - binary.Size(id)
	if length < 0 || length > len(rest) {
		return nil, true, fmt.Errorf("ptp4l's answer to request %#x is cut off", uint16(id))
	}
	return rest[:length], true, nil
}

// Alive returns an error if ptp4l does not answer.
func (m *Management) Alive(ctx context.Context) error {
	_, err := m.ask(ctx, ptp.GET, ptp.IDDefaultDataSet, nil)
	return err
}

// UTCOffset is ptp4l's TAI - UTC, from the grandmaster or, on a grandmaster, from its settings.
type UTCOffset struct {
	Seconds int
	// Valid means that its source is sure, Leap that a leap second is near.
	Valid, Leap bool
}

// UTCOffset reads TAI - UTC from ptp4l.
func (m *Management) UTCOffset(ctx context.Context) (UTCOffset, error) {
	data, err := m.ask(ctx, ptp.GET, ptp.IDTimePropertiesDataSet, nil)
	if err != nil {
		return UTCOffset{}, err
	}
	if len(data) < timeOffsetBytes {
		return UTCOffset{}, fmt.Errorf("ptp4l's time properties have %d bytes", len(data))
	}
	return UTCOffset{
		Seconds: int(int16(binary.BigEndian.Uint16(data))), //nolint:gosec // the standard's is signed
		Valid:   data[2]&flagUTCOffsetOK != 0,
		Leap:    data[2]&(flagLeap61|flagLeap59) != 0,
	}, nil
}

// Announce has ptp4l announce TAI - UTC as valid while this node is grandmaster.
func (m *Management) Announce(ctx context.Context, utcOffset int) error {
	data, err := m.ask(ctx, ptp.GET, idGrandmasterSettings, nil)
	if err != nil {
		return err
	}
	if len(data) < settingsBytes {
		return fmt.Errorf("ptp4l's settings of a grandmaster have %d bytes", len(data))
	}
	settings := append([]byte(nil), data[:settingsBytes]...)
	binary.BigEndian.PutUint16(settings[settingsUTCAt:], uint16(utcOffset)) //nolint:gosec // checked before
	settings[settingsFlagsAt] |= flagUTCOffsetOK
	_, err = m.ask(ctx, ptp.SET, idGrandmasterSettings, settings)
	return err
}
