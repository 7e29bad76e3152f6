// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"errors"
	"fmt"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// NetnsOf returns the identifiers of a network namespace. It makes the kernel assign a number if there is none yet.
func NetnsOf(netns ns.NetNS) (id Netns, err error) {
	if id.ID, err = numberOf(int(netns.Fd())); err != nil {
		return id, fmt.Errorf("number the network namespace %s: %w", netns.Path(), err)
	}
	err = netns.Do(func(ns.NetNS) (err error) {
		id.Cookie, err = cookie()
		return err
	})
	if err != nil {
		return id, fmt.Errorf("identify the network namespace %s: %w", netns.Path(), err)
	}
	return id, nil
}

func numberOf(descriptor int) (int, error) {
	number, err := netlink.GetNetNsIdByFd(descriptor)
	if err != nil || number >= 0 {
		return number, err
	}
	// EEXIST: another program has just assigned a number.
	if err := netlink.SetNetNsIdByFd(descriptor, -1); err != nil && !errors.Is(err, unix.EEXIST) {
		return 0, err
	}
	if number, err = netlink.GetNetNsIdByFd(descriptor); err == nil && number < 0 {
		err = errors.New("the kernel assigned none")
	}
	return number, err
}

// cookie returns the cookie of the calling thread's network namespace.
func cookie() (uint64, error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(socket)
	value, err := unix.GetsockoptUint64(socket, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0, fmt.Errorf("SO_NETNS_COOKIE: %w", err)
	}
	return value, nil
}
