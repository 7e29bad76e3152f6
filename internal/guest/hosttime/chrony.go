// SPDX-License-Identifier: Apache-2.0

package hosttime

import (
	"encoding/binary"
	"math"
	"net"
)

// sampleMagic is SOCK_MAGIC of chrony's refclock_sock.c.
const sampleMagic = 0x534f434b

// Chrony sends samples to the SOCK reference clock of a chronyd, which creates the socket.
type Chrony struct{ Path string }

// Discipline sends a sample.
func (c Chrony) Discipline(sample Sample) error {
	connection, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: c.Path, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer connection.Close()
	_, err = connection.Write(encode(sample))
	return err
}

// encode returns struct sock_sample of a 64-bit machine: struct timeval, offset in seconds, pulse, leap, padding, magic.
func encode(sample Sample) []byte {
	bytes := binary.NativeEndian.AppendUint64(nil, uint64(sample.At.Unix()))
	bytes = binary.NativeEndian.AppendUint64(bytes, uint64(sample.At.Nanosecond()/1000))
	bytes = binary.NativeEndian.AppendUint64(bytes, math.Float64bits(sample.Offset.Seconds()))
	for _, number := range []uint32{0, 0, 0, sampleMagic} {
		bytes = binary.NativeEndian.AppendUint32(bytes, number)
	}
	return bytes
}
