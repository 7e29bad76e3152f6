// SPDX-License-Identifier: Apache-2.0

// Package ptp4ltest is a ptp4l for tests: it answers at a management socket what a test wants, as far as package ptp4l asks.
package ptp4ltest

import (
	"bytes"
	"encoding/binary"
	"net"
	"sync"
	"testing"

	ptp "github.com/facebook/time/ptp/protocol"
)

// Clock is what the server says.
type Clock struct {
	Domain, MajorSdoID uint8
	Own, Grandmaster   uint64
	OffsetNs           int64
	IngressNs          int64
	PathDelayNs        int64
	StepsRemoved       uint16
	Class, Accuracy    uint8
	UTCOffset          int16
	TimeFlags          uint8
	Ports              []Port
	// Silent : it reads, and does not answer.
	Silent bool
	// Garbage is what it answers in place of all else.
	Garbage []byte
}

// Port of the clock.
type Port struct {
	Interface string
	State     ptp.PortState
	Hardware  bool
}

// Server answers at a socket.
type Server struct {
	connection *net.UnixConn
	mutex      sync.Mutex
	clock      Clock
	subscriber *net.UnixAddr
	to         ptp.PortIdentity
	served     sync.WaitGroup
	asked      map[ptp.ManagementID]int
}

// Start answers at path until the test ends.
func Start(t testing.TB, path string, clock Clock) *Server {
	t.Helper()
	connection, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	return Serve(t, connection, clock)
}

// Serve answers at a socket that somebody else made.
func Serve(t testing.TB, connection *net.UnixConn, clock Clock) *Server {
	t.Helper()
	s := &Server{connection: connection, clock: clock, asked: map[ptp.ManagementID]int{}}
	s.served.Go(s.serve)
	t.Cleanup(s.Stop)
	return s
}

// Stop ends the server as if it was killed: its socket stays.
func (s *Server) Stop() {
	s.connection.Close()
	s.served.Wait()
}

// Change changes what it says.
func (s *Server) Change(change func(*Clock)) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	change(&s.clock)
}

// Asked says how often something was asked for.
func (s *Server) Asked(id ptp.ManagementID) int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.asked[id]
}

// Notify tells the subscriber that a port's state changed. false: nobody has subscribed.
func (s *Server) Notify() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.subscriber == nil {
		return false
	}
	data := encode(s.clock.Own, s.clock.Ports[0].State)
	_, err := s.connection.WriteToUnix(s.message(s.to, ptp.IDPortDataSet, append(data, make([]byte, 15)...)), s.subscriber)
	return err == nil
}

// Flood sends data to the subscriber, so many times.
func (s *Server) Flood(data []byte, times int) (sent int) {
	s.mutex.Lock()
	to := s.subscriber
	s.mutex.Unlock()
	for range times {
		if _, err := s.connection.WriteToUnix(data, to); err == nil {
			sent++
		}
	}
	return sent
}

// Notification is one as the subscriber expects it.
func (s *Server) Notification() []byte {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.message(s.to, ptp.IDPortDataSet, append(encode(s.clock.Own, s.clock.Ports[0].State), make([]byte, 15)...))
}

func (s *Server) serve() {
	data := make([]byte, 2048)
	for {
		n, from, err := s.connection.ReadFromUnix(data)
		if err != nil {
			return
		}
		s.mutex.Lock()
		for _, answer := range s.answers(data[:n], from) {
			_, _ = s.connection.WriteToUnix(answer, from)
		}
		s.mutex.Unlock()
	}
}

// answers to a request.
func (s *Server) answers(data []byte, from *net.UnixAddr) [][]byte {
	const headerBytes, idAt, bodyAt = 34, 52, 54
	if len(data) < bodyAt {
		return nil
	}
	var head ptp.Header
	if err := binary.Read(bytes.NewReader(data[:headerBytes]), binary.BigEndian, &head); err != nil {
		return nil
	}
	c, id := &s.clock, ptp.ManagementID(binary.BigEndian.Uint16(data[idAt:]))
	if head.DomainNumber != c.Domain || uint8(head.SdoIDAndMsgType)>>4 != c.MajorSdoID {
		return nil
	}
	s.asked[id]++
	const subscribe = ptp.ManagementID(0xC003)
	if id == subscribe {
		s.subscriber, s.to = from, head.SourcePortIdentity
	}
	switch {
	case c.Silent:
		return nil
	case c.Garbage != nil:
		return [][]byte{c.Garbage}
	}
	var answers [][]byte
	for _, body := range s.bodies(id, data[bodyAt:]) {
		answers = append(answers, s.message(head.SourcePortIdentity, id, body))
	}
	return answers
}

// bodies are the data of the answers, in the layout that ptp4l 3.1.1 has.
func (s *Server) bodies(id ptp.ManagementID, request []byte) [][]byte {
	c := &s.clock
	const shift = 16 // a TimeInterval is in 2^-16 ns
	quality := []byte{c.Class, c.Accuracy, 0xff, 0xff}
	switch id {
	case ptp.IDDefaultDataSet:
		return [][]byte{encode([2]byte{}, uint16(len(c.Ports)), uint8(128), quality, uint8(128), c.Own, c.Domain, uint8(0))} //nolint:gosec // few
	case ptp.IDCurrentDataSet:
		return [][]byte{encode(c.StepsRemoved, c.OffsetNs<<shift, c.PathDelayNs<<shift)}
	case ptp.IDParentDataSet:
		return [][]byte{encode(c.Grandmaster, uint16(1), uint16(0), uint16(0xffff), uint32(0x7fffffff), uint8(128), quality, uint8(128), c.Grandmaster)}
	case ptp.IDTimePropertiesDataSet:
		return [][]byte{encode(c.UTCOffset, c.TimeFlags, uint8(0xa0))}
	case ptp.IDTimeStatusNP:
		present := int32(0)
		if c.Grandmaster != c.Own {
			present = 1
		}
		return [][]byte{encode(c.OffsetNs, c.IngressNs, make([]byte, 22), present, c.Grandmaster)}
	case ptp.IDPortPropertiesNP:
		var bodies [][]byte
		for i, port := range c.Ports {
			name := append([]byte(port.Interface), make([]byte, len(port.Interface)%2+1)...)
			bodies = append(bodies, encode(c.Own, uint16(i+1), uint8(port.State), port.Hardware, uint8(len(port.Interface)), name[:len(name)-1])) //nolint:gosec // short
		}
		return bodies
	}
	return [][]byte{request}
}

// message is a response.
func (s *Server) message(to ptp.PortIdentity, id ptp.ManagementID, body []byte) []byte {
	const headBytes, tlvBytes = 48, 6
	return encode(uint8(ptp.MessageManagement)|s.clock.MajorSdoID<<4, uint8(2), uint16(headBytes+tlvBytes+len(body)), s.clock.Domain, make([]byte, 15), //nolint:gosec // short
		s.clock.Own, uint16(0), uint16(1), uint8(4), uint8(0x7f), to, [2]byte{}, uint8(ptp.RESPONSE), uint8(0),
		uint16(ptp.TLVManagement), uint16(2+len(body)), id, body) //nolint:gosec // short
}

func encode(values ...any) []byte {
	var out bytes.Buffer
	for _, value := range values {
		_ = binary.Write(&out, binary.BigEndian, value) // a buffer takes all
	}
	return out.Bytes()
}
