// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// LinkGroup marks the devices that this package made: "tsn" in ASCII. Unlike an alias it is set in the
// kernel call that creates the device.
const LinkGroup = 0x74736e

// portPrefix opens the name of every port.
const portPrefix = "tsn"

// maxAliasBytes is IFALIASZ less the final zero.
const maxAliasBytes = 255

// BridgeName is the default name of a network's bridge.
func BridgeName(vni uint32) string { return fmt.Sprintf("tsnbr%d", vni) }

// TunnelName is the default name of a network's VXLAN device.
func TunnelName(vni uint32) string { return fmt.Sprintf("tsnvx%d", vni) }

// networkOf returns the network whose tunnel has that default name; 0 for another name.
func networkOf(tunnel string) uint32 {
	var vni uint32
	if _, err := fmt.Sscanf(tunnel, "tsnvx%d", &vni); err != nil || TunnelName(vni) != tunnel {
		return 0
	}
	return vni
}

// Attachment is one interface of one container on one network.
type Attachment struct {
	// Network is the name of the network's configuration.
	Network     string `json:"network"`
	ContainerID string `json:"containerID"`
	Interface   string `json:"interface"`
	// Identity identifies the pod to ktsnd.
	Identity string `json:"identity"`
}

// PortName returns the name of the node's end of the attachment's veth pair. It follows from the attachment, so that no
// record is needed to find it.
func (a *Attachment) PortName() string {
	sum := sha256.Sum256([]byte(a.Network + "\x00" + a.ContainerID + "\x00" + a.Interface))
	return portPrefix + hex.EncodeToString(sum[:6])
}

// aliasPrefix opens the alias of every port; a number behind it is the version of what follows.
const aliasPrefix = "tsn-cni:1"

// alias encodes the attachment for its port's alias. None of the parts contains a space.
func (a *Attachment) alias() string {
	return strings.Join([]string{aliasPrefix, a.Network, a.ContainerID, a.Interface, a.Identity}, " ")
}

// Check reports whether the alias fits, with NoteLost at least.
func (a *Attachment) Check() error {
	const limit = maxAliasBytes - len(" "+NoteLost)
	if length := len(a.alias()); length > limit {
		return fmt.Errorf("the names of network, container, interface and identity have %d bytes together; at most %d fit",
			length-len(aliasPrefix), limit-len(aliasPrefix))
	}
	return nil
}

// parseAlias parses an alias, and returns the note that follows.
func parseAlias(text string) (attachment Attachment, note string, ok bool) {
	const parts = 5
	read := strings.SplitN(text, " ", parts+1)
	if len(read) < parts || read[0] != aliasPrefix {
		return Attachment{}, "", false
	}
	if len(read) > parts {
		note = read[parts]
	}
	return Attachment{Network: read[1], ContainerID: read[2], Interface: read[3], Identity: read[4]}, note, true
}

// HardwareAddress derives the address of a pod's interface from its IP address: 0a:58 and the four bytes of IPv4, as
// other plugins do, or the first four of a hash for IPv6. An address has the same owner on every node, so that
// neighbour entries stay valid when a pod moves.
func HardwareAddress(address netip.Addr) net.HardwareAddr {
	tail := address.AsSlice()
	if address.Unmap().Is4() {
		tail = address.Unmap().AsSlice()
	} else {
		sum := sha256.Sum256(tail)
		tail = sum[:4]
	}
	return append(net.HardwareAddr{0x0a, 0x58}, tail...)
}

// portHardwareAddress returns the address of the node's end. Nothing is sent to it; it must only differ from all
// others.
func portHardwareAddress(portName string) net.HardwareAddr {
	sum := sha256.Sum256([]byte(portName))
	return append(net.HardwareAddr{0x0e}, sum[:5]...)
}
