// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/kubernetsn/kubernetsn/internal/node/fault"
	"github.com/kubernetsn/kubernetsn/internal/node/kata"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
)

// adding is an ADD under way.
type adding struct {
	*Spec
	node   *overlay.Node
	store  recordStore
	daemon *daemon
	netns  ns.NetNS
	undo   []func() error
	// card is the device of a virtual machine that has a network card instead of an interface.
	card *kata.Device
}

// Add attaches a container to a network, plugs a link, or remembers the sandbox of a pod with links, for which the result is nil.
// A failed or interrupted Add undoes its steps.
func Add(ctx context.Context, s *Spec) (*current.Result, error) {
	switch {
	case s.Sandbox:
		return nil, addSandbox(s)
	case s.Link != nil:
		return plugLink(ctx, s)
	}
	netns, err := s.openNetns()
	if err != nil {
		return nil, err
	}
	defer netns.Close()
	daemon, err := dialDaemon(ctx, s.ControlSocket)
	if err != nil {
		return nil, err
	}
	defer daemon.close()
	if err := s.checkClock(ctx, daemon); err != nil {
		return nil, err
	}
	if err := s.checkEncryption(); err != nil {
		return nil, err
	}
	node, store, err := s.open()
	if err != nil {
		return nil, err
	}
	defer node.Close()
	a := &adding{Spec: s, node: node, store: store, daemon: daemon, netns: netns}
	return a.run(ctx)
}

// openNetns opens the pod's network namespace, which must not be the node's.
func (s *Spec) openNetns() (ns.NetNS, error) {
	netns, err := ns.GetNS(s.Netns)
	if err != nil {
		return nil, types.NewError(types.ErrInvalidEnvironmentVariables,
			fmt.Sprintf("CNI_NETNS: %v; give the path of the container's network namespace", err), "")
	}
	same, err := isThreadNetns(s.Netns)
	if err == nil && same {
		err = types.NewError(types.ErrInvalidNetNS, fmt.Sprintf("CNI_NETNS: %s is the node's own network namespace; give the container's", s.Netns), "")
	}
	if err != nil {
		return nil, errors.Join(err, netns.Close())
	}
	return netns, nil
}

// isThreadNetns reports whether the path leads to the network namespace of the calling thread.
func isThreadNetns(path string) (bool, error) {
	current, err := os.Stat("/proc/thread-self/ns/net")
	if err != nil {
		return false, fmt.Errorf("look at the node's network namespace: %w", err)
	}
	other, err := os.Stat(path)
	if err != nil {
		return false, fmt.Errorf("look at the pod's network namespace: %w", err)
	}
	return os.SameFile(current, other), nil
}

// run goes through all steps; when one fails it undoes the steps before it, the last one first.
func (a *adding) run(ctx context.Context) (_ *current.Result, err error) {
	success := false
	defer func() {
		if !success {
			err = errors.Join(err, a.undoAll())
		}
	}()
	if err := a.writeRecord(); err != nil {
		return nil, err
	}
	fault.Point("recorded")
	addresses, err := a.IPAM.Add(ctx, &a.Record)
	if err != nil {
		return nil, err
	}
	a.undo = append(a.undo, a.unlessCard(func() error { return a.IPAM.Run(context.WithoutCancel(ctx), "DEL", &a.Record) }))
	fault.Point("addressed")
	if a.Device.Is(device.VFIO) {
		result, err := a.attachCard(ctx, addresses)
		success = err == nil
		return result, err
	}
	plugged, mac, err := a.plug(ctx, addresses)
	if err != nil {
		return nil, err
	}
	fault.Point("plugged")
	if err := a.recordSources(addresses, mac); err != nil {
		return nil, err
	}
	if err := a.keepPortFilters(a.node); err != nil {
		return nil, err
	}
	if err := a.divert(ctx, plugged.Port); err != nil {
		return nil, err
	}
	if err := a.connectMachine(plugged.MTU); err != nil {
		return nil, err
	}
	if err := a.netns.Do(func(ns.NetNS) error { return a.configurePod(addresses) }); err != nil {
		return nil, err
	}
	if err := a.guardOthers(); err != nil {
		return nil, err
	}
	fault.Point("configured")
	a.receiveIntoRings(ctx)
	fault.Point("receiving")
	if err := a.register(ctx); err != nil {
		return nil, err
	}
	fault.Point("registered")
	if err := a.attachToKata(); err != nil {
		return nil, err
	}
	if err := a.node.Forwarding(ctx, plugged.Port); err != nil {
		return nil, err
	}
	if err := a.netns.Do(func(ns.NetNS) error { return a.announce(mac) }); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	success = true
	return a.result(addresses, plugged, mac), nil
}

func (a *adding) undoAll() (err error) {
	for _, undo := range slices.Backward(a.undo) {
		err = errors.Join(err, undo())
	}
	return err
}

// writeRecord writes the record. An existing record is that of a killed ADD, unless its port or card exists as well.
func (a *adding) writeRecord() error {
	if existing := a.store.read(&a.Attachment); existing != nil {
		plugged, err := a.node.Plugged(&a.Attachment)
		if err != nil {
			return err
		}
		if plugged || existing.hasCard() {
			return coded(CodeExists, fmt.Errorf("container %s is attached to network %s as %s already; call DEL first",
				a.ContainerID, a.Network, a.Interface))
		}
	}
	a.undo = append(a.undo, a.unlessCard(func() error { return a.store.remove(&a.Attachment) }))
	return a.store.write(&a.Record)
}

// recordSources limits what the pod may send to its own addresses and those that the configuration adds.
func (a *adding) recordSources(addresses *current.Result, mac net.HardwareAddr) error {
	a.Sources = &control.Sources{HardwareAddresses: []string{mac.String()}}
	for _, ip := range addresses.IPs {
		address, _ := netip.AddrFromSlice(ip.Address.IP) // IPAM.Add returns valid ones
		address = address.Unmap()
		a.Sources.Addresses = append(a.Sources.Addresses, netip.PrefixFrom(address, address.BitLen()))
	}
	a.Sources.Addresses = append(a.Sources.Addresses, a.SourceAddresses...)
	return a.store.write(&a.Record)
}

// plug makes the veth pair.
func (a *adding) plug(ctx context.Context, addresses *current.Result) (*overlay.Plugged, net.HardwareAddr, error) {
	mac, err := a.hardwareAddress(addresses)
	if err != nil {
		return nil, nil, err
	}
	port := &overlay.Port{
		Attachment: a.Attachment, HardwareAddress: mac, Netns: int(a.netns.Fd()), FrontBytes: frontBytes(a.Capture),
		Note: a.note(),
	}
	plugged, err := a.node.Plug(ctx, &a.Overlay, port, a.daemon.timed())
	if err != nil {
		return nil, nil, err
	}
	a.undo = append(a.undo, func() error { return a.node.Unplug(ctx, &a.Overlay, &a.Attachment) })
	return plugged, mac, nil
}

// hardwareAddress returns the requested hardware address, else the one that follows from the first IPv4 address, else from the
// first address.
func (s *Spec) hardwareAddress(addresses *current.Result) (net.HardwareAddr, error) {
	if s.MAC != "" {
		return net.ParseMAC(s.MAC)
	}
	chosen := addresses.IPs[0].Address.IP
	for _, ip := range addresses.IPs {
		if isIPv4(ip.Address.IP) {
			chosen = ip.Address.IP
			break
		}
	}
	address, _ := netip.AddrFromSlice(chosen)
	return overlay.HardwareAddress(address), nil
}

// register adds the pod's socket, if it is created here, and its interface to ktsnd.
func (a *adding) register(ctx context.Context) error {
	if a.daemon == nil {
		return nil
	}
	if a.Socket != "" {
		a.undo = append(a.undo, func() error { return removeUse(context.WithoutCancel(ctx), a.daemon, a.store, &a.Record) })
		if err := a.store.useSocket(&a.Attachment); err != nil {
			return err
		}
		fault.Point("socket-used")
		if err := a.daemon.addSocket(ctx, a.Identity, a.Socket); err != nil {
			return err
		}
		fault.Point("socket-made")
	}
	if err := a.encrypt(ctx); err != nil {
		return err
	}
	if err := a.forgetPrevious(ctx); err != nil {
		return err
	}
	a.undo = append(a.undo, func() error {
		return a.daemon.EndpointDel(context.WithoutCancel(ctx), a.Identity, a.Interface)
	})
	return a.daemon.addEndpoint(ctx, &a.Record)
}

// forgetPrevious removes the endpoint of the pod's previous sandbox, if the runtime did not delete it: ktsnd has one interface of a name
// for a pod.
func (a *adding) forgetPrevious(ctx context.Context) error {
	records, err := a.store.those(func(other *overlay.Attachment) bool {
		return other.Interface == a.Interface && other.ContainerID != a.ContainerID
	})
	if err != nil || !slices.ContainsFunc(records, func(other *Record) bool { return other.Identity == a.Identity }) {
		return err
	}
	return a.daemon.EndpointDel(ctx, a.Identity, a.Interface)
}

// result describes the devices and addresses of the attachment.
func (s *Spec) result(addresses *current.Result, plugged *overlay.Plugged, mac net.HardwareAddr) *current.Result {
	result := &current.Result{CNIVersion: current.ImplementedSpecVersion, IPs: addresses.IPs, Routes: addresses.Routes, DNS: addresses.DNS}
	result.Interfaces = []*current.Interface{
		{Name: plugged.Bridge, Mac: plugged.BridgeAddr.String()},
		{Name: plugged.Port, Mac: plugged.PortAddr.String(), Mtu: overlay.PortMTU(plugged.MTU, frontBytes(s.Capture))},
	}
	if s.Device.Is(device.Tap) {
		if tap, err := tapOf(&s.Attachment, s.Device, plugged.MTU); err == nil {
			result.Interfaces = append(result.Interfaces, &current.Interface{Name: tap.Name, Mtu: tap.MTU, Sandbox: s.Netns})
		}
	}
	pod := &current.Interface{Name: s.Interface, Mac: mac.String(), Mtu: plugged.MTU, Sandbox: s.Netns}
	switch {
	case s.Device.Is(device.VhostUser):
		pod.SocketPath = s.VhostSocket()
	case s.ControlSocket != "":
		pod.SocketPath = s.AppSocket
	}
	return withPod(result, pod)
}

// withPod adds the pod's interface to a result, whose addresses are all on it.
func withPod(result *current.Result, pod *current.Interface) *current.Result {
	result.Interfaces = append(result.Interfaces, pod)
	for _, ip := range result.IPs {
		ip.Interface = current.Int(len(result.Interfaces) - 1)
	}
	return result
}
