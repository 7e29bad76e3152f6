// SPDX-License-Identifier: Apache-2.0

package hosttime

import (
	"bufio"
	"encoding/binary"
	"io"
)

// PortName is the name of the virtio port, in the guest and on QEMU's command line.
const PortName = "org.kubernetsn.clock"

// Magic numbers of messages; the last digit is the version.
const (
	requestMagic = 0x3251544b // KTQ2
	replyMagic   = 0x3252544b // KTR2
)

// Request requests the host's time. All fields of both messages are little-endian.
type Request struct {
	Magic  uint32
	Number uint32
}

// Reply is the answer to the request with that number.
type Reply struct {
	Magic  uint32
	Number uint32
	// ReceivedTAI and RepliedTAI are the host's CLOCK_TAI after the request arrived and before the reply was sent.
	ReceivedTAI, RepliedTAI int64
	// AheadOfUTC is CLOCK_TAI - CLOCK_REALTIME of the host, in nanoseconds.
	AheadOfUTC int64
	// DriftPPB is the maximum drift of the host's clock against its counter until the next reply.
	DriftPPB int64
	// LimitNs is the error above which the guest must not send frames with a transmit time; 0 is no limit.
	LimitNs int64
}

// stream finds messages in a byte stream, of which a part may be lost or left over.
type stream struct{ *bufio.Reader }

// next reads the next message with the magic number.
func (s stream) next(magic uint32, into any) error {
	for {
		start, err := s.Peek(4)
		if err != nil {
			return err
		}
		if binary.LittleEndian.Uint32(start) == magic {
			return binary.Read(s, binary.LittleEndian, into)
		}
		if _, err := s.Discard(1); err != nil {
			return err
		}
	}
}

func write(to io.Writer, message any) error {
	bytes, err := binary.Append(nil, binary.LittleEndian, message)
	if err == nil {
		_, err = to.Write(bytes)
	}
	return err
}
