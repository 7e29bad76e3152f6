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
	*request
	node    *overlay.Node
	records records
	daemon  *daemon
	netns   ns.NetNS
	undo    []func() error
	// card is the device of a machine that has one in the place of an interface.
	card *kata.Device
}

// add attaches a container and prints the result.
func add(ctx context.Context, r *request) error {
	if err := r.checkAttachment(); err != nil {
		return err
	}
	switch {
	case r.Links:
		return addSandbox(r)
	case r.Link != nil:
		result, err := plugLink(ctx, r)
		if err != nil {
			return err
		}
		return r.print(result)
	}
	netns, err := r.openNetns()
	if err != nil {
		return err
	}
	defer netns.Close()
	daemon, err := dialDaemon(ctx, r.ControlSocket)
	if err != nil {
		return err
	}
	defer daemon.close()
	if err := r.checkClock(ctx, daemon); err != nil {
		return err
	}
	if err := r.checkEncryption(); err != nil {
		return err
	}
	node, records, err := r.open()
	if err != nil {
		return err
	}
	defer node.Close()
	a := &adding{request: r, node: node, records: records, daemon: daemon, netns: netns}
	result, err := a.run(ctx)
	if err != nil {
		return err
	}
	return r.print(result)
}

// openNetns opens the pod's network namespace, which must not be the node's own.
func (r *request) openNetns() (ns.NetNS, error) {
	netns, err := ns.GetNS(r.netns)
	if err != nil {
		return nil, environment("CNI_NETNS: %v; give the path of the container's network namespace", err)
	}
	same, err := isOwn(r.netns)
	if err == nil && same {
		err = types.NewError(types.ErrInvalidNetNS, fmt.Sprintf("CNI_NETNS: %s is the node's own network namespace; give the container's", r.netns), "")
	}
	if err != nil {
		return nil, errors.Join(err, netns.Close())
	}
	return netns, nil
}

// isOwn tells whether the path leads to the network namespace that this process is in.
func isOwn(path string) (bool, error) {
	own, err := os.Stat("/proc/thread-self/ns/net")
	if err != nil {
		return false, fmt.Errorf("look at the node's network namespace: %w", err)
	}
	other, err := os.Stat(path)
	if err != nil {
		return false, fmt.Errorf("look at the pod's network namespace: %w", err)
	}
	return os.SameFile(own, other), nil
}

// run goes through all steps; when one fails it undoes those before it.
func (a *adding) run(ctx context.Context) (_ *current.Result, err error) {
	success := false
	defer func() {
		if success {
			return
		}
		for _, undo := range slices.Backward(a.undo) {
			err = errors.Join(err, undo())
		}
	}()
	if err := a.remember(); err != nil {
		return nil, err
	}
	fault.Point("recorded")
	result, err := a.ipamAdd(ctx)
	if err != nil {
		return nil, err
	}
	a.undo = append(a.undo, a.unlessCard(func() error { return a.ipam(context.WithoutCancel(ctx), "DEL") }))
	fault.Point("addressed")
	if a.Device.Is(device.VFIO) {
		made, err := a.attachCard(ctx, result)
		success = err == nil
		return made, err
	}
	plugged, address, err := a.plug(ctx, result)
	if err != nil {
		return nil, err
	}
	fault.Point("plugged")
	if err := a.rememberSources(result, address); err != nil {
		return nil, err
	}
	if err := a.record().keepPortFilters(a.node); err != nil {
		return nil, err
	}
	if err := a.divert(ctx, plugged.Port); err != nil {
		return nil, err
	}
	if err := a.connectMachine(plugged.MTU); err != nil {
		return nil, err
	}
	if err := a.netns.Do(func(ns.NetNS) error { return a.configurePod(result) }); err != nil {
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
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	success = true
	return a.result(result, plugged, address), nil
}

// remember writes the record. One that is there is a killed ADD's, unless its port or card is there, too.
func (a *adding) remember() error {
	if before := a.records.read(&a.Attachment); before != nil {
		plugged, err := a.node.Plugged(&a.Attachment)
		if err != nil {
			return err
		}
		if plugged || before.hasCard() {
			return coded(CodeExists, fmt.Errorf("container %s is attached to network %s as %s already; call DEL first",
				a.ContainerID, a.Network, a.Interface))
		}
	}
	a.undo = append(a.undo, a.unlessCard(func() error { return a.records.remove(&a.Attachment) }))
	return a.records.write(a.record())
}

// rememberSources has the pod send from its own addresses only, and from those that the configuration adds.
func (a *adding) rememberSources(result *current.Result, address net.HardwareAddr) error {
	a.sources = &control.Sources{HardwareAddresses: []string{address.String()}}
	for _, ip := range result.IPs {
		own, ok := netip.AddrFromSlice(ip.Address.IP)
		if !ok {
			return a.ipamFailed(fmt.Errorf("%v is no IP address", ip.Address.IP))
		}
		own = own.Unmap()
		a.sources.Addresses = append(a.sources.Addresses, netip.PrefixFrom(own, own.BitLen()))
	}
	a.sources.Addresses = append(a.sources.Addresses, a.SourceAddresses...)
	return a.records.write(a.record())
}

// plug makes the veth pair, with the hardware address that follows from the pod's.
func (a *adding) plug(ctx context.Context, result *current.Result) (*overlay.Plugged, net.HardwareAddr, error) {
	address, err := a.hardwareAddress(result)
	if err != nil {
		return nil, nil, err
	}
	port := &overlay.Port{
		Attachment: a.Attachment, HardwareAddress: address, Netns: int(a.netns.Fd()), FrontBytes: frontBytes(a.Capture),
		Note: a.note(),
	}
	plugged, err := a.node.Plug(ctx, &a.Overlay, port, a.daemon.timed())
	if err != nil {
		return nil, nil, err
	}
	a.undo = append(a.undo, func() error { return a.node.Unplug(ctx, &a.Overlay, &a.Attachment) })
	return plugged, address, nil
}

// register tells ktsnd of the pod's socket, where that is this plugin's to do, and of its interface.
func (a *adding) register(ctx context.Context) error {
	if a.daemon == nil {
		return nil
	}
	made := a.record()
	if made.Socket != "" {
		a.undo = append(a.undo, func() error { return removeUse(context.WithoutCancel(ctx), a.daemon, a.records, made) })
		if err := a.records.useSocket(&a.Attachment); err != nil {
			return err
		}
		fault.Point("socket-used")
		if err := a.daemon.addSocket(ctx, a.Identity, made.Socket); err != nil {
			return err
		}
		fault.Point("socket-made")
	}
	if err := a.encrypt(ctx); err != nil {
		return err
	}
	a.undo = append(a.undo, func() error {
		return a.daemon.EndpointDel(context.WithoutCancel(ctx), a.Identity, a.Interface)
	})
	return a.daemon.addEndpoint(ctx, made)
}
