// SPDX-License-Identifier: Apache-2.0

package preload

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The application socket's protocol (datapath/ring/app_protocol.h).
const (
	appMagic     = 0x6e73746b
	appVersion   = 6 // KTSN_APP_VERSION
	appHello     = 1
	appNone      = 0xffffffff
	requestBytes = 72
	// Where in it the number of a destination stands.
	destinationOffset = 36
	replyBytes        = 40
	// appTimeout is how long an application waits for a ktsnd that does not answer, too.
	appTimeout = 5 * time.Second
)

// sameRelease is what to do about ktsnd and libktsn of different versions.
const sameRelease = "use libktsn.so and ktsnd of the same release"

// Greet checks that a ktsnd of this release answers on the application socket at path, with libktsn's request, and disconnects.
func Greet(path string) error {
	dialer := net.Dialer{Timeout: appTimeout}
	conn, err := dialer.Dial("unixpacket", path)
	if err != nil {
		return fmt.Errorf("no ktsnd listens on %s (%w); start one", path, errors.Unwrap(err))
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(appTimeout))
	if _, err := conn.Write(hello()); err != nil {
		return fmt.Errorf("%s takes no request (%w)", path, errors.Unwrap(err))
	}
	reply, err := receive(conn.(*net.UnixConn))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("nobody answers on %s within %v", path, appTimeout)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("the other end of %s ends the connection instead of an answer; %s", path, sameRelease)
	case err != nil:
		return fmt.Errorf("no answer can be read from %s (%w)", path, errors.Unwrap(err))
	}
	return judge(path, reply)
}

func hello() []byte {
	request := make([]byte, 0, requestBytes)
	request = binary.LittleEndian.AppendUint32(request, appMagic)
	request = binary.LittleEndian.AppendUint16(request, appVersion)
	request = binary.LittleEndian.AppendUint16(request, appHello)
	request = binary.LittleEndian.AppendUint32(request, appNone) // flow
	request = append(request, make([]byte, requestBytes-len(request))...)
	binary.LittleEndian.PutUint32(request[destinationOffset:], appNone)
	return request
}

// receive reads one message and closes its descriptors.
func receive(conn *net.UnixConn) ([]byte, error) {
	reply, control := make([]byte, 2*replyBytes), make([]byte, 256)
	count, controlCount, _, _, err := conn.ReadMsgUnix(reply, control)
	closeAll(control[:controlCount])
	switch {
	case err != nil:
		return nil, err
	case count == 0:
		return nil, io.EOF
	}
	return reply[:count], nil
}

func closeAll(control []byte) {
	messages, _ := unix.ParseSocketControlMessage(control)
	for _, message := range messages {
		fds, _ := unix.ParseUnixRights(&message)
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}
}

func judge(path string, reply []byte) error {
	if len(reply) < 12 || binary.LittleEndian.Uint32(reply) != appMagic {
		return fmt.Errorf("what answers on %s is not ktsnd", path)
	}
	version := binary.LittleEndian.Uint16(reply[4:])
	status := int32(binary.LittleEndian.Uint32(reply[8:])) //nolint:gosec // a signed number on the wire
	switch {
	case version != appVersion || status == -int32(syscall.EPROTONOSUPPORT):
		return fmt.Errorf("the ktsnd on %s speaks version %d of the application protocol, not %d; %s", path, version,
			appVersion, sameRelease)
	case status != 0:
		return fmt.Errorf("the ktsnd on %s takes no more applications (%w)", path, syscall.Errno(-status))
	case len(reply) != replyBytes:
		return fmt.Errorf("the ktsnd on %s answers with %d bytes, not %d; %s", path, len(reply), replyBytes, sameRelease)
	}
	return nil
}
