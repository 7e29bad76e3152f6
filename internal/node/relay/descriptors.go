// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"
)

// packetSocket opens a packet socket in a pod's network namespace, bound to its interface. With protocol 0 it receives no
// frames.
func packetSocket(netns, interfaceName string, protocol uint16) (*os.File, error) {
	var descriptor int
	err := ns.WithNetNSPath(netns, func(ns.NetNS) (err error) {
		link, err := net.InterfaceByName(interfaceName)
		if err != nil {
			return fmt.Errorf("look for %s in the pod: %w", interfaceName, err)
		}
		descriptor, err = boundSocket(link.Index, protocol)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open a packet socket of the pod: %w", err)
	}
	return os.NewFile(uintptr(descriptor), "packet socket"), nil
}

func boundSocket(index int, protocol uint16) (int, error) {
	descriptor, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if err := unix.Bind(descriptor, &unix.SockaddrLinklayer{Protocol: protocol<<8 | protocol>>8, Ifindex: index}); err != nil {
		return -1, errors.Join(os.NewSyscallError("bind", err), unix.Close(descriptor))
	}
	return descriptor, nil
}

// duplicate returns a file for a copy of the descriptor.
func duplicate(descriptor int) (*os.File, error) {
	other, err := unix.FcntlInt(uintptr(descriptor), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(other), "state"), nil
}

// errNoVolume means that the pod has no application socket.
var errNoVolume = errors.New("the pod has no application socket; give it the volume of csi.kubernetsn.io")

// socketFolder opens the folder of a pod's application socket. Through it an unprivileged relay reaches the socket although
// it may not enter the parent folders.
func socketFolder(socket string) (*os.File, error) {
	if socket == "" {
		return nil, errNoVolume
	}
	path := filepath.Dir(socket)
	descriptor, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no folder %s: %w", path, errNoVolume)
	}
	if err != nil {
		return nil, fmt.Errorf("open the folder of the pod's application socket: %w", &fs.PathError{Op: "open", Path: path, Err: err})
	}
	return os.NewFile(uintptr(descriptor), path), nil
}
