// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// Machine is a connected virtual machine.
type Machine struct {
	Name string `json:"name"`
	// Network is the name of a CNI configuration.
	Network string `json:"network"`
	// ConfDir and PluginDirs are the folders of its configuration and of the plugins.
	ConfDir    string   `json:"conf_dir"`
	PluginDirs []string `json:"plugin_dirs"`
	// Device is device.Tap or device.VhostUser, Class one of device.Classes.
	Device string `json:"device"`
	Class  string `json:"class"`
	// Queues is the number of queue pairs of the machine's interface, VCPUs the number of its processors.
	Queues int `json:"queues"`
	VCPUs  int `json:"vcpus"`
	// Owner may open the tap or the socket without privileges; -1: only root.
	Owner int `json:"owner"`
	// Tap is the name of QEMU's tap, Socket the path of the vhost-user socket where the relay listens. Port is the node's end of the
	// interface that tsn-cni created.
	Tap    string `json:"tap,omitempty"`
	Socket string `json:"socket,omitempty"`
	Port   string `json:"port"`
	// Clock is the socket through which the machine reads the node's time; QEMU creates it.
	Clock string `json:"clock"`
	// Address, Prefixes and MTU (in bytes) are those of the machine's interface.
	Address  string         `json:"address"`
	Prefixes []netip.Prefix `json:"prefixes"`
	MTU      int            `json:"mtu"`
}

// interfaceName is the name of the interface in the machine's namespace.
const interfaceName = "tsn0"

// nameForm keeps the tap's name within IFNAMSIZ.
var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?$`)

// Check returns an error if the request is invalid.
func (m *Machine) Check() error {
	if !nameForm.MatchString(m.Name) {
		return fmt.Errorf("%q is no name of a virtual machine; give one of up to 10 lower-case letters, digits and hyphens", m.Name)
	}
	if m.Network == "" {
		return errors.New("no network is given; name one of the configurations of CNI")
	}
	if m.Queues < 1 || m.Queues > device.MaxQueues {
		return fmt.Errorf("%d queues are not from 1 to %d", m.Queues, device.MaxQueues)
	}
	if m.VCPUs < 1 {
		return fmt.Errorf("%d virtual processors are less than 1", m.VCPUs)
	}
	if m.Queues > 1 && m.VCPUs < 2 {
		return fmt.Errorf("%d queues need a machine with at least 2 virtual processors, and it has %d: with one, a queue waits while another "+
			"is served, and classes do not hold; give it more processors or one queue", m.Queues, m.VCPUs)
	}
	if m.Device != device.Tap && m.Device != device.VhostUser {
		return fmt.Errorf("%q is no device of a virtual machine; give %s or %s", m.Device, device.Tap, device.VhostUser)
	}
	if !slices.Contains(device.Classes, m.Class) {
		return fmt.Errorf("%q does not say the class of a frame; give one of %s", m.Class, strings.Join(device.Classes, ", "))
	}
	if m.Class == device.ClassQueue && m.Queues == 1 {
		return errors.New("the class is by queue, and there is one: all frames would be of one class; give the machine more")
	}
	if m.Address != "" {
		if address, err := net.ParseMAC(m.Address); err != nil || len(address) != 6 || address[0]&1 != 0 {
			return fmt.Errorf("%q is no hardware address of one interface", m.Address)
		}
	}
	return nil
}

// tapName returns the name of the machine's tap.
func (m *Machine) tapName() string { return "ktsn-" + m.Name }

// namespaceName returns the name of the machine's network namespace, containerID its ID for CNI.
func (m *Machine) namespaceName() string { return "ktsn-vm-" + m.Name }

func (m *Machine) containerID() string { return "vm-" + m.Name }
