// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// mountReadOnly mounts a folder at target: read-only, and with exec, because the node's /run often has noexec and
// libktsn.so must be mapped. The mount gets its attributes before it is attached, so it is never writable.
func mountReadOnly(source, target string) error {
	if err := os.MkdirAll(target, 0o750); err != nil {
		return fmt.Errorf("create the volume's mount point: %w", err)
	}
	mounted, err := isMounted(target)
	if mounted || err != nil {
		return err // an existing mount is complete
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("clone the mount of %s: %w", source, err)
	}
	defer unix.Close(tree)
	err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{
		Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
		Attr_clr: unix.MOUNT_ATTR_NOEXEC,
	})
	if err != nil {
		return fmt.Errorf("make the volume's mount read-only: %w", err)
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount the volume at %s: %w", target, err)
	}
	return nil
}

// isMounted reports whether something is mounted at target, which need not exist.
func isMounted(target string) (bool, error) {
	mounted, err := mountinfo.Mounted(target)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("check whether the volume is mounted: %w", err)
	}
	return mounted, nil
}

// unmount removes the mount and its mount point. It is not an error if they do not exist.
func unmount(target string) error {
	// A killed agent may have mounted it twice.
	for {
		mounted, err := isMounted(target)
		if err != nil {
			return err
		}
		if !mounted {
			break
		}
		if err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", filepath.Clean(target), err)
		}
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the volume's mount point: %w", err)
	}
	return nil
}
