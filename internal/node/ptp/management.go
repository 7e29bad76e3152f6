// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

// What is asked of ptp4l: management IDs of IEEE 1588-2008, table 40, and one of linuxptp's.
const (
	idDefaultDataSet      = 0x2000
	idTimePropertiesData  = 0x2003
	idGrandmasterSettings = 0xC001
)

const (
	actionGet = 0
	actionSet = 1
	// actionResponse is the answer to both.
	actionResponse = 2

	managementType  = 0x0D
	ptpVersion      = 2
	controlField    = 4
	noInterval      = 0x7F
	tlvManagement   = 1
	tlvErrorStatus  = 2
	tlvAt           = 48 // behind the header, the target and the action
	tlvDataAt       = tlvAt + 6
	timeOffsetBytes = 4
	settingsBytes   = 8
)

// Flags of time properties (flagField, second octet).
const (
	flagLeap61       = 1 << 0
	flagLeap59       = 1 << 1
	flagUTCOffsetOK  = 1 << 2
	settingsUTCAt    = 4
	settingsFlagsAt  = 6
	answerPatience   = time.Second
	managementMaxLen = 1500
)

// askerName begins the names of the sockets that ask ptp4l.
const askerName = "ktsn-ptp."

// Management asks a ptp4l by its socket. It is for one goroutine at a time.
type Management struct {
	connection *net.UnixConn
	own        string
	domain     uint8
	sequence   uint16
}

// DialManagement opens a socket beside ptp4l's: ptp4l answers to its name, and finds it there whichever folders it sees.
func DialManagement(socket string, domain int) (*Management, error) {
	if _, err := os.Stat(socket); err != nil {
		return nil, fmt.Errorf("no ptp4l serves this node: %w", err)
	}
	// Not the process's ID: another goroutine may ask too, and a process of another PID namespace may have the same ID.
	own := filepath.Join(filepath.Dir(socket), askerName+rand.Text()[:8])
	connection, err := net.DialUnix("unixgram", &net.UnixAddr{Name: own, Net: "unixgram"}, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		_ = os.Remove(own)
		return nil, fmt.Errorf("reach ptp4l: %w", err)
	}
	return &Management{connection: connection, own: own, domain: uint8(domain)}, nil //nolint:gosec // checked before
}

// Close closes the socket and removes its name.
func (m *Management) Close() error {
	err := m.connection.Close()
	if gone := os.Remove(m.own); gone != nil && !errors.Is(gone, os.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

// ask sends a request and returns the data of its answer.
func (m *Management) ask(ctx context.Context, action byte, id uint16, data []byte) ([]byte, error) {
	m.sequence++
	request := m.request(action, id, data)
	until := time.Now().Add(answerPatience)
	if ends, limited := ctx.Deadline(); limited && ends.Before(until) {
		until = ends
	}
	if err := m.connection.SetDeadline(until); err != nil {
		return nil, err
	}
	if _, err := m.connection.Write(request); err != nil {
		return nil, fmt.Errorf("ask ptp4l: %w", err)
	}
	answer := make([]byte, managementMaxLen)
	for {
		count, err := m.connection.Read(answer)
		if err != nil {
			return nil, fmt.Errorf("wait for ptp4l's answer: %w", err)
		}
		found, fits, err := m.read(answer[:count], id)
		if fits || err != nil {
			return found, err
		}
	}
}

// request is a management message to any clock and port.
func (m *Management) request(action byte, id uint16, data []byte) []byte {
	message := make([]byte, tlvDataAt+len(data))
	message[0], message[1] = managementType, ptpVersion
	binary.BigEndian.PutUint16(message[2:], uint16(len(message))) //nolint:gosec // small
	message[4] = m.domain
	binary.BigEndian.PutUint16(message[28:], uint16(os.Getpid())) //nolint:gosec // a number that tells askers apart
	binary.BigEndian.PutUint16(message[30:], m.sequence)
	message[32], message[33] = controlField, noInterval
	for i := range 10 {
		message[34+i] = 0xFF
	}
	message[46] = action
	binary.BigEndian.PutUint16(message[tlvAt:], tlvManagement)
	binary.BigEndian.PutUint16(message[tlvAt+2:], uint16(2+len(data))) //nolint:gosec // small
	binary.BigEndian.PutUint16(message[tlvAt+4:], id)
	copy(message[tlvDataAt:], data)
	return message
}

// read reads the answer to the last request; fits is false where it is another message.
func (m *Management) read(message []byte, id uint16) (data []byte, fits bool, err error) {
	if len(message) < tlvDataAt || message[0]&0x0F != managementType || binary.BigEndian.Uint16(message[30:]) != m.sequence ||
		message[46]&0x0F != actionResponse {
		return nil, false, nil
	}
	kind, length := binary.BigEndian.Uint16(message[tlvAt:]), int(binary.BigEndian.Uint16(message[tlvAt+2:]))
	if kind == tlvErrorStatus {
		return nil, true, fmt.Errorf("ptp4l refuses request %#x with error %#x", id, binary.BigEndian.Uint16(message[tlvAt+4:]))
	}
	if kind != tlvManagement || binary.BigEndian.Uint16(message[tlvAt+4:]) != id {
		return nil, false, nil
	}
	if length < 2 || tlvAt+4+length > len(message) {
		return nil, true, fmt.Errorf("ptp4l's answer to request %#x is cut off", id)
	}
	return message[tlvDataAt : tlvAt+4+length], true, nil
}

// Alive tells whether ptp4l answers.
func (m *Management) Alive(ctx context.Context) error {
	_, err := m.ask(ctx, actionGet, idDefaultDataSet, nil)
	return err
}

// UTCOffset is what ptp4l knows of TAI - UTC, from the grandmaster or, where this node is one, from its settings.
type UTCOffset struct {
	Seconds int
	// Valid : whoever said it is sure. Leap : a leap second is near.
	Valid, Leap bool
}

// UTCOffset asks ptp4l for TAI - UTC.
func (m *Management) UTCOffset(ctx context.Context) (UTCOffset, error) {
	data, err := m.ask(ctx, actionGet, idTimePropertiesData, nil)
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

// Announce has ptp4l say TAI - UTC, and that it is valid, when this node is grandmaster.
func (m *Management) Announce(ctx context.Context, utcOffset int) error {
	data, err := m.ask(ctx, actionGet, idGrandmasterSettings, nil)
	if err != nil {
		return err
	}
	if len(data) < settingsBytes {
		return fmt.Errorf("ptp4l's settings of a grandmaster have %d bytes", len(data))
	}
	settings := append([]byte(nil), data[:settingsBytes]...)
	binary.BigEndian.PutUint16(settings[settingsUTCAt:], uint16(utcOffset)) //nolint:gosec // checked before
	settings[settingsFlagsAt] |= flagUTCOffsetOK
	_, err = m.ask(ctx, actionSet, idGrandmasterSettings, settings)
	return err
}
