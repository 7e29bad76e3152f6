// SPDX-License-Identifier: Apache-2.0

// Package device says how a virtual machine in a pod is connected to the pod's interface. The operator's webhook, tsn-cni and the
// relays read it alike.
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
	// Tap is a device of the kernel's, in the pod's network namespace.
	Tap = "tap"
	// VhostUser is a socket at which a relay serves the machine's queues.
	VhostUser = "vhost-user"
	// VFIO is a network card of the node, which the container runtime, Kata's, gives to the machine.
	VFIO = "vfio"
	// Veth is the pod's interface itself: the container runtime, Kata's, or `ktsn vm attach` makes a tap and redirects between both.
	Veth = "veth"
)

// kinds are all of them.
var kinds = []string{Tap, VhostUser, Veth, VFIO}

// Sources of the traffic class of a frame.
const (
	// ClassRecord : the record in front of it.
	ClassRecord = "record"
	// ClassPCP : the priority code point of its tag.
	ClassPCP = "pcp"
	// ClassQueue : the pair of queues by which it left the machine.
	ClassQueue = "queue"
)

// Classes are all of them; the first one is the default.
var Classes = []string{ClassRecord, ClassPCP, ClassQueue}

// MaxQueues is how many pairs of queues a machine has at most: a class each.
const MaxQueues = 8

// Device is one. Its zero value is none.
type Device struct {
	Kind string `json:"kind"`
	// Queues are pairs.
	Queues int    `json:"queues"`
	Class  string `json:"class"`
	// Owner is the user whose process the machine is; 0: root.
	Owner int `json:"owner"`
	// DAN is the folder in which Kata's runtime looks for the devices of its pods, instead of in their network namespaces (directly
	// attachable network); "": it does not.
	DAN string `json:"dan,omitempty"`
	// Card is the PCI address of the one of VFIO, once it is chosen.
	Card string `json:"card,omitempty"`
}

// Names of what is asked for, as arguments of tsn-cni and behind the slash of annotations.
const (
	KindName   = "device"
	QueuesName = "device-queues"
	ClassName  = "device-class"
	OwnerName  = "device-owner"
	DANName    = "device-dan"
)

// Names are all of them.
var Names = []string{KindName, QueuesName, ClassName, OwnerName, DANName}

// maxOwner is the largest number of a user; the next one means none.
const maxOwner = 1<<32 - 2

// Parse reads what is asked for by these names. The error begins with the name that is wrong.
func Parse(asked map[string]string) (Device, error) {
	kind, given := asked[KindName]
	if !given {
		for _, name := range Names {
			if value, there := asked[name]; there {
				return Device{}, fmt.Errorf("%s is %q, and there is no device; give %s as well, or leave it out", name, value, KindName)
			}
		}
		return Device{}, nil
	}
	if !slices.Contains(kinds, kind) {
		return Device{}, fmt.Errorf("%s is %q; give %s, %s, %s or %s", KindName, kind, Tap, VhostUser, Veth, VFIO)
	}
	device := Device{Kind: kind, Class: cmp.Or(asked[ClassName], Classes[0]), DAN: asked[DANName]}
	var err error
	if device.Queues, err = number(asked, QueuesName, 1, 1, MaxQueues); err != nil {
		return Device{}, err
	}
	if device.Owner, err = number(asked, OwnerName, 0, 0, maxOwner); err != nil {
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

// kataFolder is Kata's own, of which dan_conf is a part by default.
const kataFolder = "/run/kata-containers/"

// IsDANFolder tells whether a folder is directly in Kata's own. A pod's owner can name it, and the plugin writes there as root; further
// down there are files of pods.
func IsDANFolder(folder string) bool {
	dir, name := path.Split(folder)
	return dir == kataFolder && name != "" && name != "." && name != ".."
}

// checkRuntime finds what the runtime that makes the machine cannot do.
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

// IsOfRuntime tells whether the container runtime opens the device, and not a program in the pod's containers.
func (d Device) IsOfRuntime() bool { return d.Kind == Veth || d.DAN != "" }

func number(asked map[string]string, name string, otherwise, least, most int) (int, error) {
	text, given := asked[name]
	if !given {
		return otherwise, nil
	}
	value, err := strconv.Atoi(text)
	if err != nil || value < least || value > most {
		return 0, fmt.Errorf("%s is %q; give a number from %d to %d", name, text, least, most)
	}
	return value, nil
}

// Is tells whether there is a device of that kind.
func (d Device) Is(kind string) bool { return d.Kind == kind }

// Exists tells whether there is one.
func (d Device) Exists() bool { return d.Kind != "" }

// String says it in a few words.
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
	// podPrefix opens the names that KubeVirt gives to interfaces, in whose place it expects tapPrefix.
	podPrefix = "pod"
	// maxName is that of an interface: IFNAMSIZ less the final zero.
	maxName = 15
)

// TapName is the name of the tap of an interface, as KubeVirt expects it: that of pod16477688c0e is tap16477688c0e, that of tsn0 is
// taptsn0.
func TapName(interfaceName string) (string, error) {
	name := tapPrefix + strings.TrimPrefix(interfaceName, podPrefix)
	if len(name) > maxName {
		return "", fmt.Errorf("%s is too long a name for an interface with a tap: the tap would be %s, and a name has at most %d characters",
			interfaceName, name, maxName)
	}
	return name, nil
}

// SocketFolder is a folder beside a socket of vhost-user, in which a relay makes it.
func SocketFolder(socket string) string { return strings.TrimSuffix(socket, ".sock") + ".new" }

// SocketName is the name of the socket of vhost-user of an interface, in the folder of the pod's application socket.
func SocketName(interfaceName string) string { return interfaceName + ".vhost.sock" }
