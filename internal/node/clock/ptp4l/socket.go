// SPDX-License-Identifier: Apache-2.0

package ptp4l

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// RefusedError is the reason why a socket is not trusted.
type RefusedError struct{ sentence string }

func (e *RefusedError) Error() string { return e.sentence }

// trusted says who may keep the node's clock: root, and whoever runs this process.
func trusted(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

// inspect refuses a socket that somebody else made, or that others may write to: who writes to it sets the grandmaster's properties.
func inspect(path string) error {
	stat, err := lstat(path)
	if err != nil {
		return err
	}
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFSOCK:
		return &RefusedError{fmt.Sprintf("%s is no socket; name the one of ptp4l's uds_address", path)}
	case !trusted(stat.Uid):
		return &RefusedError{fmt.Sprintf("socket %s belongs to user %d, not to root, and is not trusted. "+
			"Remove it and start ptp4l as root", path, stat.Uid)}
	case stat.Mode&unix.S_IWOTH != 0:
		return &RefusedError{fmt.Sprintf("everybody may write to socket %s (mode %04o), and so set the clock's properties; "+
			"so it is not trusted. Set its mode to 0660", path, stat.Mode&0o7777)}
	}
	return inspectFolder(filepath.Dir(path))
}

// inspectFolder refuses a folder in which others could replace the socket.
func inspectFolder(path string) error {
	folder, err := filepath.EvalSymlinks(path) // /var/run is a link to /run
	if err != nil {
		return fmt.Errorf("look at the folder of ptp4l's socket: %w", err)
	}
	stat, err := lstat(folder)
	if err != nil {
		return err
	}
	if !trusted(stat.Uid) || (stat.Mode&unix.S_IWOTH != 0 && stat.Mode&unix.S_ISVTX == 0) {
		return &RefusedError{fmt.Sprintf("others than root may replace ptp4l's socket in folder %s (owner %d, mode %04o); what it says is "+
			"not trusted. Let ptp4l's uds_address be in a folder of root's", folder, stat.Uid, stat.Mode&0o7777)}
	}
	return nil
}

func lstat(path string) (*unix.Stat_t, error) {
	stat := &unix.Stat_t{}
	if err := unix.Lstat(path, stat); err != nil {
		return nil, fmt.Errorf("look at %s: %w", path, err)
	}
	return stat, nil
}

// socketPrefix begins the names of our sockets in the local folder.
const socketPrefix = "ptp4l-client-"

// connect makes a socket in folder local that is connected to ptp4l's: the kernel then refuses what anybody else sends to it. The socket
// has a name in the file system, for ptp4l to answer to, because an abstract one could not be reached from another network namespace.
func connect(path, local string) (*net.UnixConn, string, error) {
	if err := os.MkdirAll(local, 0o700); err != nil {
		return nil, "", fmt.Errorf("make a folder for sockets to ptp4l: %w", err)
	}
	number := make([]byte, 8)
	if _, err := rand.Read(number); err != nil {
		return nil, "", fmt.Errorf("name a socket: %w", err)
	}
	name := filepath.Join(local, socketPrefix+hex.EncodeToString(number))
	connection, err := net.DialUnix("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"}, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		_ = os.Remove(name)
		return nil, "", fmt.Errorf("connect to ptp4l: %w", err)
	}
	if err := passCredentials(connection); err != nil {
		connection.Close()
		_ = os.Remove(name)
		return nil, "", err
	}
	return connection, name, nil
}

func passCredentials(connection *net.UnixConn) error {
	raw, err := connection.SyscallConn()
	if err != nil {
		return fmt.Errorf("ask for credentials: %w", err)
	}
	var set error
	if err := raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1) }); err != nil {
		return fmt.Errorf("ask for credentials: %w", err)
	}
	if set != nil {
		return fmt.Errorf("ask for credentials: %w", set)
	}
	return nil
}

// sender is the user whose process sent a message.
func sender(oob []byte) (uint32, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0, fmt.Errorf("credentials of a message: %w", err)
	}
	for i := range messages {
		if credentials, err := unix.ParseUnixCredentials(&messages[i]); err == nil {
			return credentials.Uid, nil
		}
	}
	return 0, errors.New("message without credentials")
}

// removeOld removes sockets of processes that were killed before they could. Nobody else uses the folder.
func removeOld(local string) {
	entries, err := os.ReadDir(local)
	if err != nil {
		return
	}
	for _, entry := range entries {
		name := filepath.Join(local, entry.Name())
		if strings.HasPrefix(entry.Name(), socketPrefix) && !alive(name) {
			_ = os.Remove(name)
		}
	}
}

// alive tells whether a process has the socket open: connecting to another's then fails, for it is connected to ptp4l, but not with
// ECONNREFUSED.
func alive(name string) bool {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	return !errors.Is(unix.Connect(fd, &unix.SockaddrUnix{Name: name}), unix.ECONNREFUSED)
}
