// SPDX-License-Identifier: Apache-2.0

package kata

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Devices are the devices of a pod's machine.
type Devices struct {
	// Netns is the path of the network namespace in which taps are.
	Netns   string   `json:"netns"`
	Devices []Device `json:"devices"`
}

// Device is an interface of the machine.
type Device struct {
	// Name and Address are those of the interface in the machine.
	Name    string      `json:"name"`
	Address string      `json:"guest_mac"`
	Back    Back        `json:"device"`
	Network NetworkInfo `json:"network_info"`
}

// Types of what is behind a device.
const (
	HostTap   = "host-tap"
	VhostUser = "vhost-user"
	VFIO      = "vfio"
)

// Back is the part of a device on the node.
type Back struct {
	Type string `json:"type"`
	// TapName is of a HostTap, Path the socket of VhostUser.
	TapName string `json:"tap_name,omitempty"`
	Path    string `json:"path,omitempty"`
	// Card is the PCI address of VFIO.
	Card string `json:"pci_device_id,omitempty"`
	// Queues are pairs; 0: as many as Kata's configuration says.
	Queues int `json:"queue_num,omitempty"`
}

// NetworkInfo is the configuration of the interface in the machine.
type NetworkInfo struct {
	Interface Interface  `json:"interface"`
	Routes    []Route    `json:"routes"`
	Neighbors []Neighbor `json:"neighbors"`
}

// Interface has addresses with the lengths of their prefixes.
type Interface struct {
	Addresses []string `json:"ip_addresses"`
	MTU       int      `json:"mtu"`
	// Type is required by Kata's agent, which ignores it.
	Type  string `json:"ntype"`
	Flags uint32 `json:"flags"`
}

// Route is a route in the machine; an empty destination is the default route, of the family of gateway or source.
type Route struct {
	Destination string `json:"dest"`
	Gateway     string `json:"gateway"`
	Source      string `json:"source"`
	// Scope is rtm_scope of linux/rtnetlink.h.
	Scope int `json:"scope"`
}

// Neighbor is a permanent neighbour entry.
type Neighbor struct {
	Address         string `json:"ip_address"`
	HardwareAddress string `json:"hardware_addr"`
	// State is ndm_state of linux/neighbour.h.
	State int `json:"state"`
}

// Path returns the file of a sandbox in Kata's folder.
func Path(folder, sandbox string) string { return filepath.Join(folder, sandbox+".json") }

// Write replaces the file of a sandbox atomically.
func (d *Devices) Write(folder, sandbox string) error {
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	if err := makeFolder(folder); err != nil {
		return fmt.Errorf("make the folder of Kata's network devices: %w", err)
	}
	path := Path(folder, sandbox)
	next := path + ".next"
	if err := os.WriteFile(next, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write Kata's network devices: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return errors.Join(fmt.Errorf("write Kata's network devices: %w", err), os.Remove(next))
	}
	return nil
}

// makeFolder makes the folder, which must not be a symbolic link.
func makeFolder(folder string) error {
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	err := os.Mkdir(folder, 0o755)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(folder)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no folder", folder)
	}
	return err
}

// isAbsent reports whether the file does not exist, also because its folder is a file.
func isAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }

// Remove removes the file of a sandbox. A missing file is not an error.
func Remove(folder, sandbox string) error {
	for _, path := range []string{Path(folder, sandbox), Path(folder, sandbox) + ".next"} {
		if err := os.Remove(path); err != nil && !isAbsent(err) {
			return fmt.Errorf("remove Kata's network devices: %w", err)
		}
	}
	return nil
}

// RemoveDevice removes a device from the file of a sandbox. A missing device is not an error.
func RemoveDevice(folder, sandbox, name string) error {
	devices, err := Read(folder, sandbox)
	if isAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	devices.Devices = slices.DeleteFunc(devices.Devices, func(device Device) bool { return device.Name == name })
	return devices.Write(folder, sandbox)
}

// Read reads the devices of a sandbox.
func Read(folder, sandbox string) (*Devices, error) {
	text, err := os.ReadFile(Path(folder, sandbox))
	if err != nil {
		return nil, fmt.Errorf("read Kata's network devices: %w", err)
	}
	devices := &Devices{}
	if err := json.Unmarshal(text, devices); err != nil {
		return nil, fmt.Errorf("read Kata's network devices in %s: %w", Path(folder, sandbox), err)
	}
	return devices, nil
}
