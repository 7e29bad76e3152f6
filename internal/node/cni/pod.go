// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// deviceField reads a field of the configuration that says how a virtual machine in the pod is connected.
func deviceField(name string) func(*Config, json.RawMessage) error {
	return func(c *Config, raw json.RawMessage) (err error) {
		c.networkDevice[name], err = deviceValue(name, raw)
		return err
	}
}

// deviceValue reads a text or a number, whichever belongs to the name.
func deviceValue(name string, raw json.RawMessage) (string, error) {
	if name == device.KindName || name == device.ClassName || name == device.DANName {
		var text string
		err := decode(raw, &text, "a text")
		return text, err
	}
	var number int64
	err := decode(raw, &number, "a number")
	return strconv.FormatInt(number, 10), err
}

// lowerNames returns the settings by their names in lower case: encoding/json does not distinguish capitals in fields either.
// The name in lower case counts where there are several spellings.
func lowerNames(settings map[string]json.RawMessage) map[string]json.RawMessage {
	lower := make(map[string]json.RawMessage, len(settings))
	for _, name := range slices.Sorted(maps.Keys(settings)) { // capitals come first
		lower[strings.ToLower(name)] = settings[name]
	}
	return lower
}

// readArgsOfPod reads args.cni, the pod's own settings. They override those of the network, but a pod cannot bypass the
// gates of a network that captures everything.
func (c *Config) readArgsOfPod(raw json.RawMessage) error {
	var args struct {
		CNI map[string]json.RawMessage `json:"cni"`
	}
	if raw == nil || json.Unmarshal(raw, &args) != nil {
		return nil // readStandard has reported what is wrong with args
	}
	args.CNI = lowerNames(args.CNI)
	everything := c.requestedCapture != nil && *c.requestedCapture == capture.All
	if err := c.readGuardOfPod(args.CNI["unseen"], args.CNI["capture"]); err != nil {
		return err
	}
	c.requestsLess = everything && (c.requestedCapture == nil || *c.requestedCapture != capture.All)
	if raw, given := args.CNI["offnetwork"]; given {
		var wanted string
		if json.Unmarshal(raw, &wanted) != nil || (wanted != offNetworkRefuse && wanted != offNetworkPass) {
			return invalid(`args.cni.offNetwork: %s is not "%s" or "%s"`, raw, offNetworkRefuse, offNetworkPass)
		}
		c.KeepsOffNetwork = wanted != offNetworkPass
	}
	if raw, given := args.CNI["receive"]; given {
		var wanted string
		if json.Unmarshal(raw, &wanted) != nil || wanted != ringsOfPod {
			return invalid(`args.cni.receive: %s is not "%s"; leave it out for the kernel's path`, raw, ringsOfPod)
		}
		c.RingsRequested, c.Receive.Rings = true, c.RingsOffered
	}
	c.podDevice = map[string]string{}
	for _, name := range device.Names {
		raw, given := args.CNI[name]
		if !given {
			continue
		}
		var err error
		if c.podDevice[name], err = deviceValue(name, raw); err != nil {
			return invalid("args.cni.%s: %v", name, err)
		}
	}
	return nil
}

// chooseDevice reads what is asked for: args.cni goes before CNI_ARGS, and that before the network's.
func (r *request) chooseDevice(known *arguments) (err error) {
	for name, value := range map[string]string{
		device.KindName: string(known.DEVICE), device.QueuesName: string(known.DEVICE_QUEUES),
		device.ClassName: string(known.DEVICE_CLASS), device.OwnerName: string(known.DEVICE_OWNER), device.DANName: string(known.DEVICE_DAN),
	} {
		if value != "" {
			r.networkDevice[name] = value
		}
	}
	maps.Copy(r.networkDevice, r.podDevice)
	if r.Device, err = device.Parse(r.networkDevice); err != nil {
		return invalid("%v", err)
	}
	if r.Device.Exists() {
		r.Receive.Redirect = false // to the pod's kernel, which has nothing to do with them
	}
	return nil
}

// checkDevice finds what only matters when something is to be made.
func (r *request) checkDevice() error {
	switch {
	case !r.Device.Exists():
		return nil
	case r.RingsRequested:
		return invalid("args.cni.receive: receive rings are for sockets of the pod's programs, and the interface is a virtual machine's (%s); leave one of them out",
			device.KindName)
	case r.Device.Is(device.VhostUser):
		return r.checkVhostUser()
	case r.Device.Is(device.VFIO):
		return r.checkVFIO()
	}
	if _, err := device.TapName(r.Interface); err != nil && r.Device.Is(device.Tap) {
		return environment("CNI_IFNAME: %v", err)
	}
	if r.Device.Class != device.ClassRecord && r.Capture != capture.All {
		return invalid(`%s: the class of a frame is by %s only where all frames go through ktsnd; have the network capture "All", `+
			`or leave the field out`, device.ClassName, r.Device.Class)
	}
	return nil
}

func (r *request) checkVhostUser() error {
	switch {
	case r.ControlSocket == "":
		return invalid("%s: with %s all frames go through ktsnd, and there is none (controlSocket is empty); give %s, or a node with ktsnd",
			device.KindName, device.VhostUser, device.Tap)
	case r.SocketDir == "":
		return invalid("socketDir: missing; the socket of %s stands in the pod's folder there", device.VhostUser)
	}
	if path := r.VhostSocket(); len(path) > maxSocketPath {
		return invalid("socketDir: %s has %d characters, a socket's path at most %d; choose a shorter folder", path, len(path), maxSocketPath)
	}
	return nil
}

// readGuardOfPod reads what the pod wants to be dropped and captured; nil: nothing else than the network.
func (c *Config) readGuardOfPod(unseen, captured json.RawMessage) error {
	if unseen != nil {
		if err := c.readUnseen(unseen); err != nil {
			return invalid("args.cni.unseen: %v", err)
		}
		if c.Unseen == attachment.UnseenPass {
			c.requestedCapture = nil // the network's, which contradicts
		}
	}
	if captured != nil {
		if err := c.readCapture(captured); err != nil {
			return invalid("args.cni.capture: %v", err)
		}
		if unseen == nil && *c.requestedCapture != capture.None {
			c.Unseen = attachment.UnseenDrop // likewise
		}
	}
	return nil
}

// chooseCapture says what is captured, from what is asked for.
func (c *Config) chooseCapture() error {
	switch {
	case c.requestedCapture == nil && c.Link != nil:
		c.Capture = capture.None // a pod can have a thousand links, and each relay is a process
	case c.requestedCapture == nil && c.ControlSocket != "" && c.Unseen != attachment.UnseenPass:
		c.Capture = capture.Timed
	case c.requestedCapture == nil || *c.requestedCapture == capture.None:
		c.Capture = capture.None
	case c.Unseen == attachment.UnseenPass:
		return invalid(`capture: with %q nothing is left that "unseen": "pass" could let leave early; leave out one of them`, *c.requestedCapture)
	case c.ControlSocket == "":
		return invalid("capture: there is no ktsnd to send what is captured (controlSocket is empty); leave it out")
	default:
		c.Capture = *c.requestedCapture
	}
	return nil
}

// Values of args.cni.offNetwork.
const (
	offNetworkRefuse = "refuse"
	offNetworkPass   = "pass"
)

// ringsOfPod is the value of args.cni.receive.
const ringsOfPod = "ring"

// checkVFIO finds what only matters when a card is to be taken.
func (r *request) checkVFIO() error {
	if len(r.Cards) == 0 {
		return invalid("%s: %s, and the network has no cards for pods; name some in cards", device.KindName, device.VFIO)
	}
	if namespace := attachment.PodNamespace(r.Args); r.CardNamespaces != nil && !slices.Contains(r.CardNamespaces, namespace) {
		return invalid("%s: %s, and pods of namespace %q may not have the network's cards; name it in cardNamespaces, or leave the device out",
			device.KindName, device.VFIO, namespace)
	}
	return nil
}
