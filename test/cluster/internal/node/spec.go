// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/capability"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// specVersion is the version that Debian 12's runc 1.1 knows.
const specVersion = "1.0.2"

// Place has the paths of a node on this machine.
type Place struct {
	Host string
	// Dir is the runc bundle: config.json and rootfs.
	Dir string
	// Runc is runc's state folder.
	Runc string
	// Namespace is the file of the network namespace.
	Namespace string
	// Cgroup is the node's cgroup, in all hierarchies.
	Cgroup string
	// RealtimeBudget is in microseconds per second, 0 if the kernel does not divide it.
	RealtimeBudget int
}

// WriteSpec writes the node's OCI configuration.
func WriteSpec(place Place, setup Setup) error {
	capabilities, err := ownCapabilities()
	if err != nil {
		return fmt.Errorf("describe %s to runc: %w", place.Host, err)
	}
	spec := specs.Spec{
		Version:  specVersion,
		Hostname: place.Host,
		Root:     &specs.Root{Path: "rootfs"},
		Mounts:   mounts(setup),
		Process: &specs.Process{
			Args: []string{"/usr/bin/tini", "--", startScript},
			Cwd:  "/",
			Env:  []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "TERM=linux"},
			Capabilities: &specs.LinuxCapabilities{
				Bounding: capabilities, Effective: capabilities, Permitted: capabilities,
			},
		},
		Linux: linux(place),
	}
	text, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return fmt.Errorf("describe %s to runc: %w", place.Host, err)
	}
	return os.WriteFile(filepath.Join(place.Dir, "config.json"), text, 0o644)
}

func linux(place Place) *specs.Linux {
	linux := &specs.Linux{
		CgroupsPath:       "/" + place.Cgroup,
		RootfsPropagation: "shared",
		Namespaces: []specs.LinuxNamespace{
			{Type: specs.PIDNamespace}, {Type: specs.MountNamespace}, {Type: specs.UTSNamespace}, {Type: specs.IPCNamespace},
			{Type: specs.CgroupNamespace}, {Type: specs.NetworkNamespace, Path: place.Namespace},
		},
		// kubelet reads the kernel's log for out-of-memory kills; pods may want tunnels.
		Devices:   []specs.LinuxDevice{device("/dev/kmsg", 1, 11), device("/dev/net/tun", 10, 200), device("/dev/fuse", 10, 229)},
		Resources: &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: true, Access: "rwm"}}},
	}
	if place.RealtimeBudget > 0 {
		budget, period := int64(place.RealtimeBudget), uint64(1_000_000)
		linux.Resources.CPU = &specs.LinuxCPU{RealtimeRuntime: &budget, RealtimePeriod: &period}
	}
	return linux
}

func device(path string, major, minor int64) specs.LinuxDevice {
	mode := os.FileMode(0o666)
	return specs.LinuxDevice{Path: path, Type: "c", Major: major, Minor: minor, FileMode: &mode}
}

func mounts(setup Setup) []specs.Mount {
	temporary := func(at, mode string) specs.Mount {
		return specs.Mount{Destination: at, Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=" + mode}}
	}
	shown := func(at, source string) specs.Mount {
		return specs.Mount{Destination: at, Type: "bind", Source: source, Options: []string{"rbind", "ro", "rslave"}}
	}
	all := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777"}},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec", "nodev"}},
		temporary("/run", "755"),
		temporary("/tmp", "1777"),
		// Data here need not survive, and must not wait for a disk.
		temporary("/var/lib/etcd", "700"),
		shown("/usr", "/usr"),
		shown("/etc/alternatives", "/etc/alternatives"),
	}
	for at, source := range setup.Programs {
		all = append(all, shown(at, source))
	}
	return all
}

// ownCapabilities returns all capabilities that this process can have: runc cannot grant more.
func ownCapabilities() ([]string, error) {
	current, err := capability.NewPid2(0)
	if err != nil {
		return nil, err
	}
	if err := current.Load(); err != nil {
		return nil, fmt.Errorf("read own capabilities: %w", err)
	}
	var names []string
	for _, c := range capability.ListKnown() {
		if current.Get(capability.BOUNDING, c) {
			names = append(names, "CAP_"+strings.ToUpper(c.String()))
		}
	}
	return names, nil
}
