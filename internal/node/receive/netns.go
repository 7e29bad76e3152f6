// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"errors"
	"fmt"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// NetnsOf finds out how the program knows a network namespace, and has the kernel number it here where it has no number yet.
func NetnsOf(netns ns.NetNS) (found Netns, err error) {
	if found.ID, err = numberOf(int(netns.Fd())); err != nil {
		return found, fmt.Errorf("number the network namespace %s: %w", netns.Path(), err)
	}
	err = netns.Do(func(ns.NetNS) (err error) {
		found.Cookie, err = cookie()
		return err
	})
	if err != nil {
		return found, fmt.Errorf("tell the network namespace %s from others: %w", netns.Path(), err)
	}
	return found, nil
}

func numberOf(descriptor int) (int, error) {
	number, err := netlink.GetNetNsIdByFd(descriptor)
	if err != nil || number >= 0 {
		return number, err
	}
	// Another program may do the same: then the number is there.
	if err := netlink.SetNetNsIdByFd(descriptor, -1); err != nil && !errors.Is(err, unix.EEXIST) {
		return 0, err
	}
	if number, err = netlink.GetNetNsIdByFd(descriptor); err == nil && number < 0 {
		err = errors.New("the kernel gave it none")
	}
	return number, err
}

// cookie is that of the network namespace of the thread.
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
