// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/kubernetsn/kubernetsn/internal/node/fault"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// plugLink plugs a link into a pod, which may be running. It adapts a link that is plugged already. So it can be
// repeated after a failure, and be used to change what can change: the peer's node, routes, and forwarding.
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
	case plugged: // without a record
		if err := node.Unplug(ctx, &s.Overlay, &s.Attachment); err != nil {
			return nil, err
		}
	}
	return p.run(ctx)
}

// plugging is a link's Add under way.
type plugging struct{ adding }

// run goes through all steps; when one fails it undoes the steps before it.
func (p *plugging) run(ctx context.Context) (_ *current.Result, err error) {
	success := false
	defer func() {
		if !success {
			err = errors.Join(err, p.undoAll())
		}
	}()
	if err := p.writeLinkRecord(); err != nil {
		return nil, err
	}
	fault.Point("recorded")
	if err := p.addPeer(ctx); err != nil {
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

// port describes the node's end.
func (p *plugging) port() (*overlay.Port, error) {
	address, err := net.ParseMAC(p.Link.MAC)
	if err != nil {
		return nil, coded(types.ErrInvalidNetworkConfig, fmt.Errorf("link.mac: %w", err))
	}
	return &overlay.Port{Attachment: p.Attachment, HardwareAddress: address, Netns: int(p.netns.Fd()), FrontBytes: frontBytes(p.Capture)}, nil
}

// writeLinkRecord writes the record. It keeps the pod's settings in the record of a killed Add.
func (p *plugging) writeLinkRecord() error {
	p.Sources = p.Link.sources()
	if before := p.store.read(&p.Attachment); before != nil {
		p.ForwardBefore = before.ForwardBefore
	}
	if err := p.recordForwarding(); err != nil {
		return err
	}
	p.undo = append(p.undo, func() error { return p.store.remove(&p.Attachment) })
	return p.store.write(&p.Record)
}

// sources returns the addresses from which a pod sends timed messages on the link: its own.
func (l *Link) sources() *control.Sources {
	sources := &control.Sources{HardwareAddresses: []string{l.MAC}}
	for _, address := range l.Addresses {
		sources.Addresses = append(sources.Addresses, netip.PrefixFrom(address.Addr(), address.Addr().BitLen()))
	}
	return sources
}

// addPeer adds the peer's node to filter, tunnel and ktsnd before the tunnel exists, so that it never lacks one.
func (p *plugging) addPeer(ctx context.Context) error {
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
		return fmt.Errorf("add the peer's node %s: %w", p.Link.Peer.Node, err)
	}
	return nil
}

// finish configures the pod and ktsnd. Each step can be repeated.
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
	return p.open() // last, so that a failure before leaves the rejecting routes
}

// change adapts a plugged link to the specification. It fails if the pod would notice the change.
func (p *plugging) change(ctx context.Context, before *Record) (*current.Result, error) {
	if before.Link == nil || before.VNI != p.Overlay.VNI || before.Netns != p.netns.Path() || !before.Link.same(p.Link) ||
		before.Overlay.Encrypted != p.Overlay.Encrypted {
		return nil, coded(CodeExists, fmt.Errorf("container %s has another link as %s; call DEL first", p.ContainerID, p.Interface))
	}
	p.Sources, p.ForwardBefore = before.Sources, before.ForwardBefore
	if err := p.recordForwarding(); err != nil {
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

// linkResult describes the devices and addresses of the link.
func (p *plugging) linkResult(mtu int) *current.Result {
	result := &current.Result{CNIVersion: current.ImplementedSpecVersion, IPs: p.Link.ips()}
	result.Interfaces = []*current.Interface{
		{Name: p.Overlay.Bridge}, {Name: p.PortName(), Mtu: overlay.PortMTU(mtu, frontBytes(p.Capture))},
	}
	return withPod(result, &current.Interface{Name: p.Interface, Mac: p.Link.MAC, Mtu: mtu, Sandbox: p.Netns})
}

// ips returns the link's addresses as results of CNI have them.
func (l *Link) ips() (all []*current.IPConfig) {
	for _, address := range l.Addresses {
		all = append(all, &current.IPConfig{Address: *ipNet(address)})
	}
	return all
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// unplugLink removes a link's end on this node. The record is removed last, and stays if something else could not be
// removed.
func (r *Record) unplugLink(ctx context.Context, node *overlay.Node, store recordStore) error {
	return unplugTogether(ctx, node, store, []*Record{r})[0]
}

// maxUnplugBatch limits how long other processes that change the node's networks have to wait.
const maxUnplugBatch = 32

// unplugLinks unplugs many links, in batches whose devices are removed together. It returns an error for each.
func unplugLinks(ctx context.Context, node *overlay.Node, store recordStore, links []*Record) (failed []error) {
	for some := range slices.Chunk(links, maxUnplugBatch) {
		failed = append(failed, unplugTogether(ctx, node, store, some)...)
	}
	return failed
}

func unplugTogether(ctx context.Context, node *overlay.Node, store recordStore, links []*Record) []error {
	failed, leaving := make([]error, len(links)), make([]overlay.Leaving, len(links))
	for i, r := range links {
		failed[i] = unregister(ctx, r, store)
		leaving[i] = overlay.Leaving{Network: r.network(), Attachment: &r.Attachment}
	}
	fault.Point("unregistered")
	for i, err := range node.UnplugAll(ctx, leaving) {
		failed[i] = errors.Join(failed[i], err)
	}
	fault.Point("unplugged")
	for i, r := range links { // one after the other: the last link that forwards restores the pod's settings
		failed[i] = errors.Join(failed[i], r.undoForwarding(store), r.forgetPeer(ctx, node))
		fault.Point("link-peer-forgotten")
		if failed[i] == nil {
			failed[i] = store.remove(&r.Attachment)
		}
	}
	return failed
}

// forgetPeer removes the peer's node.
func (r *Record) forgetPeer(ctx context.Context, node *overlay.Node) error {
	daemon, err := dialDaemon(ctx, r.ControlSocket)
	if err != nil && !ended(err) {
		return err
	}
	defer daemon.close()
	return node.ForgetLink(ctx, r.network(), daemon.timed())
}

// forwardSettings are the sysctls with which a network namespace forwards.
var forwardSettings = map[string]string{
	ForwardIPv4: "/proc/sys/net/ipv4/ip_forward",
	ForwardIPv6: "/proc/sys/net/ipv6/conf/all/forwarding",
}

func (l *Link) forwards(family string) bool { return slices.Contains(l.Forward, family) }

// recordForwarding records the pod's settings before the first link changes them.
func (p *plugging) recordForwarding() error {
	for _, family := range p.Link.Forward {
		if _, known := p.ForwardBefore[family]; known {
			continue
		}
		value, err := p.forwardingBefore(family)
		if err != nil {
			return err
		}
		if p.ForwardBefore == nil {
			p.ForwardBefore = map[string]string{}
		}
		p.ForwardBefore[family] = value
	}
	return nil
}

// forwardingBefore returns the setting that another link of the pod has recorded, else the current one.
func (p *plugging) forwardingBefore(family string) (before string, err error) {
	others, err := p.store.linksOf(p.ContainerID)
	if err != nil {
		return "", err
	}
	for _, other := range others {
		if value, known := other.ForwardBefore[family]; known {
			return value, nil
		}
	}
	err = p.netns.Do(func(ns.NetNS) error {
		text, err := os.ReadFile(forwardSettings[family])
		if err != nil {
			return fmt.Errorf("have the pod forward %s: %w", family, err)
		}
		before = strings.TrimSpace(string(text))
		return nil
	})
	return before, err
}

// setForwarding makes the pod forward. It runs inside the pod's network namespace.
func (l *Link) setForwarding() error {
	for _, family := range l.Forward {
		if err := setForward(family, "1"); err != nil {
			return err
		}
	}
	return nil
}

// setForward writes a setting unless it has that value: writing it again would reset other settings of the interfaces.
func setForward(family, value string) error {
	have, err := os.ReadFile(forwardSettings[family])
	if err == nil && strings.TrimSpace(string(have)) == value {
		return nil
	}
	if err := os.WriteFile(forwardSettings[family], []byte(value), 0); err != nil {
		return fmt.Errorf("set whether the pod forwards %s: %w", family, err)
	}
	return nil
}

// undoForwarding restores the pod's settings, unless another of its links forwards.
func (r *Record) undoForwarding(store recordStore) error {
	if len(r.ForwardBefore) == 0 || isGone(r.Netns) {
		return nil
	}
	others, err := store.linksOf(r.ContainerID)
	if err != nil {
		return err
	}
	back := map[string]string{}
	for family, value := range r.ForwardBefore {
		if !slices.ContainsFunc(others, func(other *Record) bool {
			return other.Interface != r.Interface && other.Link != nil && other.Link.forwards(family)
		}) {
			back[family] = value
		}
	}
	if len(back) == 0 {
		return nil
	}
	err = r.inPod(func() error {
		var all error
		for family, value := range back {
			all = errors.Join(all, setForward(family, value))
		}
		return all
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// linksOf reads the records of a container's links.
func (s recordStore) linksOf(containerID string) ([]*Record, error) {
	attachments, err := s.list(LinkNetwork)
	if err != nil {
		return nil, err
	}
	return s.readThose(attachments, func(key *overlay.Attachment) bool { return key.ContainerID == containerID }), nil
}
