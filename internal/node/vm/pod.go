// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/capture"
	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// A machine in a pod uses the pod's interface, which keeps its name in the pod. The functions of this file run inside the pod's
// network namespace:
//
//	tap         QEMU ► tap ► (redirected) ► the node's end of the interface, ingress
//	            QEMU ◄ tap ◄ (redirected) ◄ the pod's end of the interface, ingress
//	vhost-user  QEMU ► shared memory ► relay ► ktsnd, or past it: ► the relay's tap ► (redirected) ► the node's end, ingress
//	            QEMU ◄ shared memory ◄ relay ◄ packet socket ◄ the pod's end of the interface
//
// The pod's kernel, which has the machine's addresses, receives nothing at the interface: it would reply in place of the machine. At
// an interface of vhost-user it sends nothing either, and the node's end drops frames that programs of the pod send past its filters.

// Names of programs and filters at the ends of an interface of vhost-user.
const (
	deaf    = "ktsn_deaf"
	silent  = "ktsn_silent"
	relayed = "ktsn_relayed"
)

// relayMark is the mark of frames from a relay's tap. Frames from a pod have none: the kernel clears it between network namespaces.
const relayMark = 0x6b74736e

// Actions of linux/pkt_cls.h, and the offset of the mark in struct __sk_buff.
const (
	actPass = -1 // TC_ACT_UNSPEC: continue with other filters
	actDrop = 2  // TC_ACT_SHOT
	atMark  = 8
)

// JoinPod redirects frames from the tap to the ingress of the node's end of the pod's interface, past the pod's kernel, and frames that
// come in at the interface to the tap.
func (t *Tap) JoinPod(interfaceName string) error {
	// A single redirection keeps the tap's queue number for the node's end.
	return t.join(interfaceName, func(link netlink.Link) asm.Instructions {
		return asm.Instructions{
			asm.Mov.Imm(asm.R1, int32(link.Attrs().Index)), asm.Mov.Imm(asm.R2, 0), asm.FnRedirectPeer.Call(), asm.Return(),
		}
	})
}

// JoinInterface joins the tap with an interface of another plugin, whose other end can be any device.
func (t *Tap) JoinInterface(interfaceName string) error { return t.join(interfaceName, sendTo) }

func (t *Tap) join(interfaceName string, onward func(netlink.Link) asm.Instructions) error {
	tap, err := netlink.LinkByName(t.Name)
	if err != nil {
		return fmt.Errorf("look for the tap %s in the pod: %w", t.Name, err)
	}
	link, err := netlink.LinkByName(interfaceName)
	if err != nil {
		return fmt.Errorf("look for %s in the pod: %w", interfaceName, err)
	}
	if err := attach(tap, netdev.Ingress, redirection, onward(link)); err != nil {
		return err
	}
	return attach(link, netdev.Ingress, redirection, sendTo(tap))
}

// CheckPod returns the differences from what Make and JoinPod created. It restores missing filters.
func (t *Tap) CheckPod(interfaceName string) error {
	link, err := netlink.LinkByName(t.Name)
	if err != nil {
		return fmt.Errorf("the pod has no tap %s, so that its virtual machine is cut off; recreate the pod", t.Name)
	}
	tap, isTap := link.(*netlink.Tuntap)
	if !isTap || tap.Mode != netlink.TUNTAP_MODE_TAP {
		return fmt.Errorf("%s in the pod is a device of type %s, not a tap", t.Name, link.Type())
	}
	var all error
	differs := func(format string, arguments ...any) {
		all = errors.Join(all, fmt.Errorf("tap "+t.Name+" in the pod "+format, arguments...))
	}
	if tap.MTU != t.MTU {
		differs("has an MTU of %d, not %d", tap.MTU, t.MTU)
	}
	if tap.Flags&netlink.TUNTAP_VNET_HDR == 0 {
		differs("has no header of virtio (IFF_VNET_HDR)")
	}
	if has := tap.Flags&netlink.TUNTAP_MULTI_QUEUE != 0; has != (t.Queues > 1) {
		differs("can have several queues: %t, not %t", has, t.Queues > 1)
	}
	return errors.Join(all, restored(t.Name, netdev.Ingress, redirection, func() error { return t.JoinPod(interfaceName) }),
		restored(interfaceName, netdev.Ingress, redirection, func() error { return t.JoinPod(interfaceName) }))
}

// FindTap returns the tap of that name, nil if there is none. Queues is device.MaxQueues for a multi-queue tap.
func FindTap(name string) (*Tap, error) {
	link, err := netdev.Find(name)
	tap, isTap := link.(*netlink.Tuntap)
	if err != nil || !isTap {
		return nil, err
	}
	result := &Tap{Name: name, MTU: tap.MTU, Queues: 1, Owner: int(tap.Owner)}
	if tap.Flags&netlink.TUNTAP_MULTI_QUEUE != 0 {
		result.Queues = device.MaxQueues
	}
	return result, nil
}

// LeaveToRelay makes the pod's kernel drop all frames in both directions at an interface that a relay of vhost-user serves. Packet
// sockets still receive incoming frames.
func LeaveToRelay(interfaceName string) error {
	link, err := netlink.LinkByName(interfaceName)
	if err != nil {
		return fmt.Errorf("look for %s in the pod: %w", interfaceName, err)
	}
	err = attach(link, netdev.Ingress, deaf, asm.Instructions{asm.Mov.Imm(asm.R0, actDrop), asm.Return()})
	if err != nil {
		return err
	}
	return attach(link, netdev.Egress, silent, asm.Instructions{asm.Mov.Imm(asm.R0, actDrop), asm.Return()})
}

// LeavePortToRelay drops all incoming frames at the node's end of an interface of vhost-user, except those of SendPast. Both run in the
// node's network namespace.
func LeavePortToRelay(portName string) error {
	port, err := netlink.LinkByName(portName)
	if err != nil {
		return fmt.Errorf("look for the node's end %s of the interface: %w", portName, err)
	}
	return attach(port, netdev.Ingress, relayed, asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, atMark, asm.Word),
		asm.Mov.Imm(asm.R0, actDrop),
		asm.JNE.Imm32(asm.R2, relayMark, "end"),
		asm.Mov.Imm(asm.R2, 0),
		asm.StoreMem(asm.R1, atMark, asm.R2, asm.Word),
		asm.Mov.Imm(asm.R0, actPass),
		asm.Return().WithSymbol("end"),
	})
}

// SendPast redirects frames that a relay writes to its tap to the ingress of the node's end of the interface.
func SendPast(tapName, portName string) error {
	tap, err := netlink.LinkByName(tapName)
	if err != nil {
		return fmt.Errorf("look for the relay's tap %s: %w", tapName, err)
	}
	port, err := netlink.LinkByName(portName)
	if err != nil {
		return fmt.Errorf("look for the node's end %s of the interface: %w", portName, err)
	}
	mark := asm.Instructions{asm.Mov.Imm(asm.R2, relayMark), asm.StoreMem(asm.R1, atMark, asm.R2, asm.Word)}
	return attach(tap, netdev.Ingress, redirection, append(mark, copyInto(port)...))
}

// CheckPort restores the filter of LeavePortToRelay, and returns an error if it was missing.
func CheckPort(portName string) error {
	return restored(portName, netdev.Ingress, relayed, func() error { return LeavePortToRelay(portName) })
}

// CheckLeft restores the filters of LeaveToRelay, and returns an error if one was missing.
func CheckLeft(interfaceName string) error {
	again := func() error { return LeaveToRelay(interfaceName) }
	return errors.Join(restored(interfaceName, netdev.Ingress, deaf, again), restored(interfaceName, netdev.Egress, silent, again))
}

// DeviceAt returns the kind of the device of a virtual machine that has an interface of the pod; "" if none has it.
func DeviceAt(interfaceName string) (kind string, err error) {
	left, err := capture.HasFilter(interfaceName, netdev.Ingress, deaf)
	if err != nil {
		return "", err
	}
	if left {
		return device.VhostUser, nil
	}
	name, err := device.TapName(interfaceName)
	if err != nil {
		return "", nil //nolint:nilerr // no tap can have such a name
	}
	tap, err := FindTap(name)
	if err != nil || tap == nil {
		return "", err
	}
	return device.Tap, nil
}

// restored restores a missing filter, and returns an error if it was missing.
func restored(interfaceName string, parent uint32, name string, again func() error) error {
	has, err := capture.HasFilter(interfaceName, parent, name)
	if errors.Is(err, capture.ErrGone) {
		return nil // reported elsewhere
	}
	if err != nil || has {
		return err
	}
	if err := again(); err != nil {
		return err
	}
	return fmt.Errorf("%s had lost the filter %s of the pod's virtual machine; it is back", interfaceName, name)
}

// segmentations are the features with which the kernel leaves segmentation to the other side of a veth pair.
var segmentations = []string{
	"tx-tcp-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp-mangleid-segmentation", "tx-tcp6-segmentation", "tx-udp-segmentation",
}

// SegmentAtPort makes the kernel segment frames at the node's end of an interface, because a relay of vhost-user does not. It runs in
// the node's network namespace.
func SegmentAtPort(portName string) error {
	for _, feature := range segmentations {
		if err := netdev.SetFeature(portName, feature, false); err != nil {
			return err
		}
	}
	return nil
}
