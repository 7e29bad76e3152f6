// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/test/cluster/kata/internal/protocol"
)

const (
	// modulesFile lists the modules of the initial file system, each after its dependencies.
	modulesFile = "/modules"
	shared      = "/run/shared"
)

// Main prepares the machine, serves the runtime, and powers the machine off when it ends.
func Main() {
	if err := first(); err != nil {
		fmt.Fprintln(os.Stderr, "ktsn-test-kata-agent:", err)
	}
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func first() error {
	for _, step := range []func() error{func() error { return mountSystem("/") }, linkStreams, loadModules, mountShared, loopbackUp} {
		if err := step(); err != nil {
			return err
		}
	}
	port, err := openPort(protocol.AgentPort)
	if err != nil {
		return err
	}
	defer port.Close()
	return newServer(port).serve(port)
}

// mountSystem mounts the kernel's file systems below a root.
func mountSystem(root string) error {
	for _, system := range []struct{ kind, at string }{
		{"proc", "proc"}, {"sysfs", "sys"}, {"bpf", "sys/fs/bpf"}, {"devtmpfs", "dev"}, {"tmpfs", "tmp"},
	} {
		at := strings.TrimSuffix(root, "/") + "/" + system.at
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		// The kernel may have mounted devtmpfs itself.
		if err := unix.Mount(system.kind, at, system.kind, 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mount %s: %w", at, err)
		}
	}
	return nil
}

// linkStreams creates the links in /dev of each container.
func linkStreams() error {
	for name, to := range map[string]string{"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"} {
		if err := os.Symlink("/proc/self/fd"+to, "/dev/"+name); err != nil {
			return err
		}
	}
	return nil
}

func loadModules() error {
	list, err := os.ReadFile(modulesFile)
	if err != nil {
		return err
	}
	for _, path := range strings.Fields(string(list)) {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(file.Fd()), "", 0)
		file.Close()
		if err != nil {
			return fmt.Errorf("load module %s: %w", path, err)
		}
	}
	return nil
}

func mountShared() error {
	if err := os.MkdirAll(shared, 0o755); err != nil {
		return err
	}
	// Programs are mapped into memory, which needs a cache.
	if err := unix.Mount(protocol.SharedTag, shared, "9p", 0, "trans=virtio,version=9p2000.L,msize=512000,cache=mmap"); err != nil {
		return fmt.Errorf("mount the containers' roots: %w", err)
	}
	return nil
}

func loopbackUp() error {
	link, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}
