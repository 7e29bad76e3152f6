// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// DefaultPort is the UDP port of tunnels unless the configuration names another one.
const DefaultPort = 4789

// appSocketName is the name of a pod's socket inside its folder.
const appSocketName = "app.sock"

// Spec describes an attachment: its record, and what is needed only while it is made, compared or removed.
type Spec struct {
	Record
	// IPAM assigns the addresses of attachments to networks; links have theirs in Record.Link.
	IPAM IPAM

	StateDir    string
	LockTimeout time.Duration
	// SocketDir holds a folder for each pod with its applications' socket; "" when pods have no socket from here.
	SocketDir    string
	CreateSocket bool
	// Sysctls are set inside the pod.
	Sysctls map[string]string
	// MAC is the requested hardware address, "" for one that follows from the IP address.
	MAC string
	// SourceAddresses are subnets that the pod may send from besides its own addresses.
	SourceAddresses []netip.Prefix
	// NeedsClock requires that the node's clock is good enough for the network.
	NeedsClock bool
	// Unencryptable is why pods cannot be attached to a network that requires encryption, "" if they can.
	Unencryptable string
	// RingsOffered: the network offers receive rings. RingsRequested: the pod requests them.
	RingsOffered, RingsRequested bool
	// Cards are PCI addresses of network cards of which a pod with a device of device.VFIO gets one.
	Cards []string
}

// IPAM runs the IPAM plugin of a network. The plugin gets the container, the network namespace and the arguments of the record.
type IPAM interface {
	// Add returns at least one address.
	Add(ctx context.Context, r *Record) (*current.Result, error)
	// Run runs a command that has no result.
	Run(ctx context.Context, command string, r *Record) error
}

// CompleteRecord fills in the fields of the record that follow from the rest of the specification.
func (s *Spec) CompleteRecord() {
	s.VNI, s.Bridge, s.Tunnel = s.Overlay.VNI, s.Overlay.Bridge, s.Overlay.Tunnel
	if !s.Overlay.PointToPoint {
		s.Overlay.Name = s.Network
	}
	s.AppSocket, s.Socket = "", ""
	if s.SocketDir != "" {
		s.AppSocket = filepath.Join(s.SocketDir, s.Identity, appSocketName)
	}
	// No volume has the socket of a pod whose machine the runtime makes.
	if s.hasPort() && (s.CreateSocket || s.Device.IsOfRuntime()) {
		s.Socket = s.AppSocket
	}
}

// IsOfLinks reports whether the attachment is a link, or the sandbox of a pod with links.
func (s *Spec) IsOfLinks() bool { return s.Sandbox || s.Link != nil }

// open opens the node and its state directory.
func (s *Spec) open() (*overlay.Node, recordStore, error) {
	node, err := OpenNode(s.StateDir, s.LockTimeout)
	return node, recordStore{s.StateDir}, err
}

// IsHardwareAddress reports whether an interface can have the address.
func IsHardwareAddress(text string) bool {
	address, err := net.ParseMAC(text)
	return err == nil && len(address) == 6 && address[0]&1 == 0 && address.String() != "00:00:00:00:00:00"
}

// PodNamespace returns the pod's Kubernetes namespace in CNI_ARGS, "" if they name none.
func PodNamespace(args string) (namespace string) {
	for pair := range strings.SplitSeq(args, ";") {
		if value, ok := strings.CutPrefix(pair, "K8S_POD_NAMESPACE="); ok {
			namespace = value
		}
	}
	return namespace
}
