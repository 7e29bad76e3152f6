// SPDX-License-Identifier: Apache-2.0

// Package device describes how a virtual machine in a pod is connected to the pod's interface, for the operator's webhook, tsn-cni and the
// relays.
package device

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Kinds of devices.
const (
	// Tap is a tap device in the pod's network namespace.
	Tap = "tap"
	// VhostUser is a socket at which a relay serves the machine's queues.
	VhostUser = "vhost-user"
	// VFIO is a network card of the node that Kata's runtime passes through to the machine.
	VFIO = "vfio"
	// Veth is the pod's interface itself: Kata's runtime, or `ktsn vm attach`, creates a tap and redirects between both.
	Veth = "veth"
)

// kinds lists all kinds.
var kinds = []string{Tap, VhostUser, Veth, VFIO}

// Sources of the traffic class of a frame.
const (
	// ClassRecord : the record in front of the frame.
	ClassRecord = "record"
	// ClassPCP : the priority code point of the frame's tag.
	ClassPCP = "pcp"
	// ClassQueue : the queue pair by which the frame left the machine.
	ClassQueue = "queue"
)

// Classes lists all sources; the first one is the default.
var Classes = []string{ClassRecord, ClassPCP, ClassQueue}

// MaxQueues is the maximum number of queue pairs: one for each class.
const MaxQueues = 8

// Device is a device of a virtual machine. The zero value means that there is none.
type Device struct {
	Kind string `json:"kind"`
	// Queues is the number of queue pairs.
	Queues int    `json:"queues"`
	Class  string `json:"class"`
	// Owner is the user ID of the machine's process.
	Owner int `json:"owner"`
	// DAN is the folder in which Kata's runtime finds the devices of its pods (directly attachable network); "" if it finds them in their
	// network namespaces.
	DAN string `json:"dan,omitempty"`
	// Card is the PCI address of the card for VFIO, once it is chosen.
	Card string `json:"card,omitempty"`
}

// Names of the fields, as arguments of tsn-cni and after the slash of annotations.
const (
	KindName   = "device"
	QueuesName = "device-queues"
	ClassName  = "device-class"
	OwnerName  = "device-owner"
	DANName    = "device-dan"
)

// Names lists all names.
var Names = []string{KindName, QueuesName, ClassName, OwnerName, DANName}

// maxOwner is the largest user ID; the next number means none.
const maxOwner = 1<<32 - 2

// Parse parses the requested fields. Errors begin with the name of the field.
func Parse(requested map[string]string) (Device, error) {
	kind, given := requested[KindName]
	if !given {
		for _, name := range Names {
			if value, there := requested[name]; there {
				return Device{}, fmt.Errorf("%s is %q, and there is no device; give %s as well, or leave it out", name, value, KindName)
			}
		}
		return Device{}, nil
	}
	if !slices.Contains(kinds, kind) {
		return Device{}, fmt.Errorf("%s is %q; give %s, %s, %s or %s", KindName, kind, Tap, VhostUser, Veth, VFIO)
	}
	device := Device{Kind: kind, Class: cmp.Or(requested[ClassName], Classes[0]), DAN: requested[DANName]}
	var err error
	if device.Queues, err = parseNumber(requested, QueuesName, 1, 1, MaxQueues); err != nil {
		return Device{}, err
	}
	if device.Owner, err = parseNumber(requested, OwnerName, 0, 0, maxOwner); err != nil {
		return Device{}, err
	}
	if !slices.Contains(Classes, device.Class) {
		return Device{}, fmt.Errorf("%s is %q; give one of %s", ClassName, device.Class, strings.Join(Classes, ", "))
	}
	if device.Class == ClassQueue && device.Queues == 1 {
		return Device{}, fmt.Errorf("%s is %s, and the device has one pair of queues, so that all frames would be of one class; give %s of 2 or more",
			ClassName, ClassQueue, QueuesName)
	}
	return device, device.checkRuntime()
}

// kataFolder is Kata's runtime folder, which contains dan_conf by default.
const kataFolder = "/run/kata-containers/"

// IsDANFolder reports whether a folder is directly in Kata's runtime folder. The check is needed because a pod's owner can name it, and the
// plugin writes there as root; deeper folders contain files of pods.
func IsDANFolder(folder string) bool {
	dir, name := path.Split(folder)
	return dir == kataFolder && name != "" && name != "." && name != ".."
}

// checkRuntime returns an error for a combination that the container runtime does not support.
func (d Device) checkRuntime() error {
	switch {
	case d.Kind == VFIO && d.DAN == "":
		return fmt.Errorf("%s is %s, and no runtime finds the card: it is for pods of Kata that have their devices from a file (%s)", KindName, VFIO, DANName)
	case d.Kind == VFIO && (d.Queues != 1 || d.Class != Classes[0] || d.Owner != 0):
		return fmt.Errorf("%s is %s, and queues, classes and owner are the card's own; leave %s, %s and %s out", KindName, VFIO, QueuesName, ClassName, OwnerName)
	case d.Kind == Veth && d.DAN != "":
		return fmt.Errorf("%s is %q, and a device of kind %s is found in the network namespace; leave one of them out", DANName, d.DAN, Veth)
	case d.DAN != "" && !IsDANFolder(d.DAN):
		return fmt.Errorf("%s is %q; give a folder in %s, such as %sdans, which Kata's dan_conf is", DANName, d.DAN, kataFolder, kataFolder)
	}
	return nil
}

// IsOfRuntime reports whether the container runtime opens the device, and not a program in the pod's containers.
func (d Device) IsOfRuntime() bool { return d.Kind == Veth || d.DAN != "" }

func parseNumber(requested map[string]string, name string, defaultValue, minimum, maximum int) (int, error) {
	text, given := requested[name]
	if !given {
		return defaultValue, nil
	}
	value, err := strconv.Atoi(text)
	if err != nil || value < minimum || value > maximum {
		return 0, fmt.Errorf("%s is %q; give a number from %d to %d", name, text, minimum, maximum)
	}
	return value, nil
}

// Is reports whether the device is of a kind.
func (d Device) Is(kind string) bool { return d.Kind == kind }

// Exists reports whether there is a device.
func (d Device) Exists() bool { return d.Kind != "" }

// String describes the device.
func (d Device) String() string {
	if d.Kind == VFIO {
		return VFIO + " " + d.Card
	}
	queues := "1 queue"
	if d.Queues != 1 {
		queues = strconv.Itoa(d.Queues) + " queues"
	}
	return fmt.Sprintf("%s, %s, class by %s", d.Kind, queues, d.Class)
}

const (
	tapPrefix = "tap"
	// podPrefix is the prefix of KubeVirt's interface names, which tapPrefix replaces in the names of taps.
	podPrefix = "pod"
	// maxInterfaceBytes is IFNAMSIZ without the terminating zero.
	maxInterfaceBytes = 15
)

// TapName returns the name of an interface's tap as KubeVirt expects it: tap16477688c0e for pod16477688c0e, taptsn0 for tsn0.
func TapName(interfaceName string) (string, error) {
	name := tapPrefix + strings.TrimPrefix(interfaceName, podPrefix)
	if len(name) > maxInterfaceBytes {
		return "", fmt.Errorf("%s is too long a name for an interface with a tap: the tap would be %s, and a name has at most %d characters",
			interfaceName, name, maxInterfaceBytes)
	}
	return name, nil
}

// SocketFolder returns the folder next to a vhost-user socket in which a relay creates it.
func SocketFolder(socket string) string { return strings.TrimSuffix(socket, ".sock") + ".new" }

// SocketName returns the name of an interface's vhost-user socket, in the folder of the pod's application socket.
func SocketName(interfaceName string) string { return interfaceName + ".vhost.sock" }
