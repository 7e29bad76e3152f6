// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/kubernetsn/kubernetsn/internal/node/fault"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// plugLink plugs a link into a pod, which may be running. One that is plugged is made what the configuration says; so it can be repeated
// whatever a former one has left, and be called to change what can change: the peer's node, routes, and what is forwarded.
func plugLink(ctx context.Context, s *Spec) (*current.Result, error) {
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
	node, store, err := s.open()
	if err != nil {
		return nil, err
	}
	defer node.Close()
	p := &plugging{adding{Spec: s, node: node, store: store, daemon: daemon, netns: netns}}
	plugged, err := node.Plugged(&s.Attachment)
	if err != nil {
		return nil, err
	}
	before := store.read(&s.Attachment)
	switch {
	case plugged && before != nil:
		return p.change(ctx, before)
	case plugged: // nobody knows what it is
		if err := node.Unplug(ctx, &s.Overlay, &s.Attachment); err != nil {
			return nil, err
		}
	}
	return p.run(ctx)
}

// plugging is the ADD of a link under way.
type plugging struct{ adding }

// run goes through all steps; when one fails it undoes those before it.
func (p *plugging) run(ctx context.Context) (_ *current.Result, err error) {
	success := false
	defer func() {
		if success {
			return
		}
		for _, undo := range slices.Backward(p.undo) {
			err = errors.Join(err, undo())
		}
	}()
	if err := p.rememberLink(); err != nil {
		return nil, err
	}
	fault.Point("recorded")
	if err := p.tellPeer(ctx); err != nil {
		return nil, err
	}
	fault.Point("link-peer-told")
	port, err := p.port()
	if err != nil {
		return nil, err
	}
	plugged, err := p.node.Plug(ctx, &p.Overlay, port, p.daemon.timed())
	if err != nil {
		return nil, err
	}
	p.undo = append(p.undo, func() error { return p.node.Unplug(ctx, &p.Overlay, &p.Attachment) })
	fault.Point("plugged")
	if err := p.finish(ctx); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	success = true
	return p.linkResult(plugged.MTU), nil
}

// port is the node's end.
func (p *plugging) port() (*overlay.Port, error) {
	address, err := net.ParseMAC(p.Link.MAC)
	if err != nil {
		return nil, coded(types.ErrInvalidNetworkConfig, fmt.Errorf("link.mac: %w", err))
	}
	return &overlay.Port{Attachment: p.Attachment, HardwareAddress: address, Netns: int(p.netns.Fd()), FrontBytes: frontBytes(p.Capture)}, nil
}

// rememberLink writes the record. What a killed ADD has written of the pod's settings is kept.
func (p *plugging) rememberLink() error {
	p.Sources = p.Link.sources()
	if before := p.store.read(&p.Attachment); before != nil {
		p.ForwardBefore = before.ForwardBefore
	}
	if err := p.rememberForwarding(); err != nil {
		return err
	}
	p.undo = append(p.undo, func() error { return p.store.remove(&p.Attachment) })
	return p.store.write(&p.Record)
}

// sources are the addresses that a pod sends timed messages from by the link: its own.
func (l *Link) sources() *control.Sources {
	all := &control.Sources{HardwareAddresses: []string{l.MAC}}
	for _, own := range l.Addresses {
		all.Addresses = append(all.Addresses, netip.PrefixFrom(own.Addr(), own.Addr().BitLen()))
	}
	return all
}

// tellPeer tells filter, tunnel and ktsnd of the peer's node, before the tunnel is there, so that it is never without.
func (p *plugging) tellPeer(ctx context.Context) error {
	undo := context.WithoutCancel(ctx)
	p.undo = append(p.undo, func() error { return p.node.ForgetLink(undo, &p.Overlay, p.daemon.timed()) })
	return p.setPeer(ctx)
}

// setPeer makes the peer's node the only peer of the link.
func (p *plugging) setPeer(ctx context.Context) error {
	var wanted *control.Peer
	if node := p.Link.Peer.Node; node.IsValid() {
		wanted = &control.Peer{VNI: p.Overlay.VNI, Address: node, Subnets: p.Link.behindPeer()}
	}
	if err := p.node.SetLinkPeer(ctx, &p.Overlay, wanted, p.daemon.timed()); err != nil {
		return fmt.Errorf("tell of the peer's node %s: %w", p.Link.Peer.Node, err)
	}
	return nil
}

// finish does what is to be done in the pod and at ktsnd. Each step may have been done before.
func (p *plugging) finish(ctx context.Context) error {
	p.undo = append(p.undo, func() error { return p.undoForwarding(p.store) })
	if err := p.netns.Do(func(ns.NetNS) error { return p.configureLink() }); err != nil {
		return err
	}
	fault.Point("configured")
	if p.daemon != nil {
		undo := context.WithoutCancel(ctx)
		p.undo = append(p.undo, func() error { return p.daemon.EndpointDel(undo, p.Identity, p.Interface) })
		if err := p.daemon.addEndpoint(ctx, &p.Record); err != nil {
			return err
		}
	}
	fault.Point("registered")
	if err := p.node.Forwarding(ctx, p.PortName()); err != nil {
		return err
	}
	return p.open() // last: what fails before has refused what it refused
}

// change makes a link that is plugged what the configuration says. What cannot be changed without the pod noticing is refused.
func (p *plugging) change(ctx context.Context, before *Record) (*current.Result, error) {
	if before.Link == nil || before.VNI != p.Overlay.VNI || before.Netns != p.netns.Path() || !before.Link.same(p.Link) ||
		before.Encrypted != p.Overlay.Encrypted {
		return nil, coded(CodeExists, fmt.Errorf("container %s has another link as %s; call DEL first", p.ContainerID, p.Interface))
	}
	p.Sources, p.ForwardBefore = before.Sources, before.ForwardBefore
	if err := p.rememberForwarding(); err != nil {
		return nil, err
	}
	if err := p.store.write(&p.Record); err != nil {
		return nil, err
	}
	if err := p.setPeer(ctx); err != nil {
		return nil, err
	}
	port, err := p.port()
	if err != nil {
		return nil, err
	}
	if err := p.node.Mend(ctx, &p.Overlay, port, p.daemon.timed()); err != nil {
		return nil, err
	}
	if err := p.finish(ctx); err != nil {
		return nil, err
	}
	return p.linkResult(p.Overlay.MTU), nil
}

// linkResult says what was made.
func (p *plugging) linkResult(mtu int) *current.Result {
	result := &current.Result{CNIVersion: current.ImplementedSpecVersion}
	result.Interfaces = []*current.Interface{
		{Name: p.Overlay.Bridge}, {Name: p.PortName(), Mtu: overlay.PortMTU(mtu, frontBytes(p.Capture))},
		{Name: p.Interface, Mac: p.Link.MAC, Mtu: mtu, Sandbox: p.Record.Netns},
	}
	for _, own := range p.Link.Addresses {
		result.IPs = append(result.IPs, &current.IPConfig{Address: *ipNet(own), Interface: current.Int(len(result.Interfaces) - 1)})
	}
	return result
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
