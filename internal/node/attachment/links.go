// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

// ktsn-agent plugs links in its own process with the functions in this file: it may plug a thousand at once.

// Sandbox is a pod's sandbox, in which links can be plugged.
type Sandbox struct {
	// ContainerID is the runtime's ID, Identity the pod's UID, Netns the path of the network namespace.
	ContainerID, Identity, Netns string
	// Since is when the runtime attached it.
	Since time.Time
}

// Plugged is a link that is plugged, or whose plugging has begun.
type Plugged struct {
	Sandbox
	Interface string
	VNI       uint32
	MTU       int
	// Encrypted: the tunnel sends nothing in clear.
	Encrypted bool
	Link      Link
	// Port is the name of the node's end of the interface.
	Port string
}

// PluggedLinks lists the node's links with an interface of that name, "" for all.
func PluggedLinks(stateDir, interfaceName string) ([]Plugged, error) {
	store := recordStore{stateDir}
	attachments, err := store.list(LinkNetwork)
	if err != nil {
		return nil, err
	}
	var links []Plugged
	for _, r := range store.readThose(attachments, func(link *overlay.Attachment) bool { return interfaceName == "" || link.Interface == interfaceName }) {
		link := Plugged{Sandbox: Sandbox{r.ContainerID, r.Identity, r.Netns, store.since(&r.Attachment)}, Interface: r.Interface, VNI: r.VNI, MTU: r.Overlay.MTU, Encrypted: r.Overlay.Encrypted, Port: r.PortName()}
		if r.Link != nil {
			link.Link = *r.Link
		}
		links = append(links, link)
	}
	return links, nil
}

// LinkPlan describes one end of a link that is to be plugged.
type LinkPlan struct {
	Sandbox
	Interface string
	VNI       uint32
	MTU       int
	// Port is the UDP port of the tunnel.
	Port uint16
	// Encrypted makes the tunnel send nothing in clear.
	Encrypted bool
	Link      Link
}

// LinkOptions describe the node.
type LinkOptions struct {
	StateDir, ControlSocket string
	// Uplink is the interface towards the other nodes, "" for that of ktsnd.
	Uplink string
	// Patience limits the wait for other processes that change the node's networks.
	Patience time.Duration
}

// PlugLink plugs a link. It can be repeated, also to change the peer's node, routes and forwarding.
func PlugLink(ctx context.Context, options *LinkOptions, plan *LinkPlan) error {
	if err := plan.Link.Validate(); err != nil {
		return coded(types.ErrInvalidNetworkConfig, fmt.Errorf("link: %w", err))
	}
	s := &Spec{
		Record: Record{
			Attachment: overlay.Attachment{Network: LinkNetwork, ContainerID: plan.ContainerID, Interface: plan.Interface, Identity: plan.Identity},
			Netns:      plan.Netns, ControlSocket: options.ControlSocket, Unseen: UnseenDrop, Link: &plan.Link,
			Overlay: linkNetwork(plan.VNI),
		},
		StateDir: options.StateDir, LockTimeout: options.Patience,
	}
	s.Overlay.MTU, s.Overlay.Port, s.Overlay.Uplink, s.Overlay.Encrypted = plan.MTU, plan.Port, options.Uplink, plan.Encrypted
	if s.Overlay.Port == 0 {
		s.Overlay.Port = DefaultPort
	}
	s.CompleteRecord()
	if err := s.Check(); err != nil {
		return err
	}
	_, err := plugLink(ctx, s)
	return err
}

// UnplugLinks unplugs many links, which takes far less time than one after the other. It returns an error for each.
func UnplugLinks(ctx context.Context, options *LinkOptions, all []*Plugged) []error {
	failed := make([]error, len(all))
	err := options.with(func(node *overlay.Node, store recordStore) error {
		var links []*Record
		for _, plugged := range all {
			links = append(links, store.link(&overlay.Attachment{
				Network: LinkNetwork, ContainerID: plugged.ContainerID, Interface: plugged.Interface, Identity: plugged.Identity,
			}, plugged.VNI, options.ControlSocket))
		}
		failed = unplugLinks(ctx, node, store, links)
		return nil
	})
	for i := range failed {
		failed[i] = errors.Join(failed[i], err)
	}
	return failed
}

// DetachLinks unplugs a link, or forgets a sandbox with all of its links, as a runtime's DEL would.
func DetachLinks(ctx context.Context, options *LinkOptions, attached *Attached) error {
	return options.with(func(node *overlay.Node, store recordStore) error {
		if attached.Network == SandboxNetwork {
			return forgetSandbox(ctx, node, store, &attached.Attachment)
		}
		return store.link(&attached.Attachment, attached.VNI, options.ControlSocket).unplugLink(ctx, node, store)
	})
}

func (o *LinkOptions) with(do func(*overlay.Node, recordStore) error) error {
	node, err := OpenNode(o.StateDir, o.Patience)
	if err != nil {
		return err
	}
	defer node.Close()
	return do(node, recordStore{o.StateDir})
}

// checkLink compares the link with what Add made.
func (r *Record) checkLink(ctx context.Context, node *overlay.Node) error {
	if r.Link == nil {
		return errors.New("its record is a rebuilt one, of which not all is known; ktsn-agent plugs it again")
	}
	mac, err := net.ParseMAC(r.Link.MAC)
	if err != nil {
		return fmt.Errorf("its record has the hardware address %q: %w", r.Link.MAC, err)
	}
	network := linkNetwork(r.VNI)
	network.MTU, network.Port, network.Encrypted = r.Overlay.MTU, r.Overlay.Port, r.Overlay.Encrypted
	want := &Expected{MAC: mac, MTU: r.Overlay.MTU, IPs: r.Link.ips()}
	all := ns.WithNetNSPath(r.Netns, func(ns.NetNS) error { return errors.Join(r.checkPod(want), r.Link.checkPod(r.Interface)) })
	return errors.Join(all, node.CheckNetwork(ctx, &network),
		node.CheckPort(&network, &r.Attachment, overlay.PortMTU(r.Overlay.MTU, frontBytes(r.Capture)), want.MAC),
		r.checkGuard(node), r.checkEndpoint(ctx, want))
}

// checkPod compares neighbours and routes in the pod with the link. It runs inside the pod's network namespace.
func (l *Link) checkPod(interfaceName string) error {
	link, err := netlink.LinkByName(interfaceName)
	if err != nil {
		return nil //nolint:nilerr // Record.checkPod reports it
	}
	var all error
	for _, peer := range l.Peer.Addresses {
		neighbours, err := netdev.Dump(func() ([]netlink.Neigh, error) { return netlink.NeighList(link.Attrs().Index, familyOf(peer)) })
		if err != nil {
			return fmt.Errorf("list the neighbours of %s in the pod: %w", interfaceName, err)
		}
		known := false
		for i := range neighbours {
			known = known || neighbours[i].IP.Equal(peer.AsSlice()) && strings.EqualFold(neighbours[i].HardwareAddr.String(), l.Peer.MAC)
		}
		if !known {
			all = errors.Join(all, fmt.Errorf("the pod does not know that %s has the hardware address %s", peer, l.Peer.MAC))
		}
	}
	return errors.Join(all, l.checkRoutes(link))
}

func (l *Link) checkRoutes(link netlink.Link) error {
	routes, err := linkRoutes(link)
	if err != nil {
		return err
	}
	have := map[string]bool{}
	for i := range routes {
		if to, ok := prefixOf(routes[i].Dst); ok {
			have[to.String()] = true
		}
	}
	var all error
	for _, to := range l.Routes {
		if !have[to.String()] {
			all = errors.Join(all, fmt.Errorf("the pod lacks the route to %s through %s", to, link.Attrs().Name))
		}
	}
	return all
}

// Names of configurations, which no network may have.
const (
	// SandboxNetwork is the configuration with which runtimes attach the sandboxes of pods with links.
	SandboxNetwork = "kubernetsn-links"
	// LinkNetwork is the configuration with which links are plugged.
	LinkNetwork = "kubernetsn-link"
)

// addSandbox remembers a sandbox.
func addSandbox(s *Spec) error {
	netns, err := s.openNetns()
	if err != nil {
		return err
	}
	defer netns.Close()
	return recordStore{s.StateDir}.write(&s.Record)
}

// forgetSandbox unplugs all links of the sandbox, whoever plugged them, and removes its record.
func forgetSandbox(ctx context.Context, node *overlay.Node, store recordStore, sandbox *overlay.Attachment) error {
	links, err := store.linksOf(sandbox.ContainerID)
	if err != nil {
		return err
	}
	var all error
	for i, err := range unplugLinks(ctx, node, store, links) {
		if err != nil {
			all = errors.Join(all, fmt.Errorf("link %s: %w", links[i].Interface, err))
		}
	}
	if all != nil {
		return all
	}
	return store.remove(sandbox)
}

// CheckLinks compares a link, or all links of a sandbox, with what Add made.
func CheckLinks(ctx context.Context, s *Spec) error {
	netns, err := s.openNetns()
	if err != nil {
		return err
	}
	defer netns.Close()
	node, store, err := s.open()
	if err != nil {
		return err
	}
	defer node.Close()
	if s.Sandbox && store.read(&s.Attachment) == nil {
		return coded(CodeDiffers, fmt.Errorf("nothing is known of the sandbox of container %s; recreate the pod", s.ContainerID))
	}
	links, err := store.linksOf(s.ContainerID)
	if err != nil {
		return err
	}
	var differs error
	for _, link := range links {
		if !s.Sandbox && link.Interface != s.Interface {
			continue
		}
		if err := link.checkLink(ctx, node); errors.Is(err, errKtsndSilent) {
			return err
		} else if err != nil {
			differs = errors.Join(differs, fmt.Errorf("link %s: %w", link.Interface, err))
		}
	}
	return coded(CodeDiffers, differs)
}

// collectSandboxes forgets the sandboxes that the runtime does not call valid, and unplugs the links of containers
// without a sandbox.
func (s *Spec) collectSandboxes(ctx context.Context, node *overlay.Node, store recordStore, valid map[types.GCAttachment]bool) error {
	containers := map[string]bool{}
	for attachment := range valid {
		containers[attachment.ContainerID] = true
	}
	known, err := knownAttachments(s.Network, node, store)
	if err != nil {
		return err
	}
	var all error
	for key, port := range known {
		if !valid[key] {
			all = errors.Join(all, forgetSandbox(ctx, node, store, &port.Attachment))
		}
	}
	links, err := knownAttachments(LinkNetwork, node, store)
	if err != nil {
		return errors.Join(all, err)
	}
	var left []*Record
	for key, port := range links {
		if !containers[key.ContainerID] {
			link := store.link(&port.Attachment, port.VNI, s.ControlSocket)
			if port.Bridge != "" {
				link.Bridge = port.Bridge // also where the tunnel, which has the VNI, is gone
			}
			left = append(left, link)
		}
	}
	return errors.Join(all, errors.Join(unplugLinks(ctx, node, store, left)...))
}

// link returns the record of a link, or a makeshift one if it has none.
func (s recordStore) link(attachment *overlay.Attachment, vni uint32, controlSocket string) *Record {
	return s.readOr(&Record{
		Version: recordVersion, Attachment: *attachment, VNI: vni, Bridge: overlay.BridgeName(vni), Tunnel: overlay.TunnelName(vni),
		ControlSocket: controlSocket,
	})
}

// statusOfLinks reports whether links can be plugged.
func (s *Spec) statusOfLinks(ctx context.Context) error {
	daemon, err := dialDaemon(ctx, s.ControlSocket)
	if err != nil {
		return unavailable(false, err)
	}
	daemon.close()
	if err := s.checkStateDir(); err != nil {
		return unavailable(false, err)
	}
	return nil
}

// settleAfter is well above the granularity of modification times: a few milliseconds in kernels before 6.13.
const settleAfter = 100 * time.Millisecond

// Settled reports whether each change after readAt gives the file or folder another modification time than this one.
// Right after a change it does not: a second change in the same tick of the kernel's clock does not change the time, so
// the content must be read once more.
func Settled(modified, readAt time.Time) bool { return readAt.Sub(modified) > settleAfter }

// SandboxList caches the sandboxes for links and reads each record once. Its functions are safe for concurrent use.
type SandboxList struct {
	StateDir string

	mu       sync.Mutex
	modified time.Time          // of the folder when it was read; zero until it has settled
	known    map[string]Sandbox // by the names of the records
}

// Refresh reads new records and returns the identities whose sandboxes have come or gone. Without changes it costs one
// system call.
func (l *SandboxList) Refresh() ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	store := recordStore{l.StateDir}
	readAt := time.Now()
	folder, err := os.Stat(store.folder(SandboxNetwork))
	if os.IsNotExist(err) {
		return l.replace(time.Time{}, nil), nil
	}
	if err != nil || folder.ModTime().Equal(l.modified) {
		return nil, err
	}
	entries, err := os.ReadDir(store.folder(SandboxNetwork))
	if err != nil {
		return nil, err
	}
	sandboxes := map[string]Sandbox{}
	for _, entry := range entries {
		name := entry.Name()
		if known, ok := l.known[name]; ok {
			sandboxes[name] = known
			continue
		}
		containerID, interfaceName, ok := strings.Cut(name, separator)
		if !ok || strings.HasSuffix(name, overlay.Unfinished) {
			continue
		}
		attachment := overlay.Attachment{Network: SandboxNetwork, ContainerID: containerID, Interface: interfaceName}
		if r := store.read(&attachment); r != nil {
			sandboxes[name] = Sandbox{r.ContainerID, r.Identity, filepath.Clean(r.Netns), store.since(&attachment)}
		}
	}
	if !Settled(folder.ModTime(), readAt) {
		return l.replace(time.Time{}, sandboxes), nil
	}
	return l.replace(folder.ModTime(), sandboxes), nil
}

// replace returns the identities of sandboxes that have come or gone. The lock is held.
func (l *SandboxList) replace(modified time.Time, sandboxes map[string]Sandbox) []string {
	changed := map[string]bool{}
	for name, sandbox := range l.known {
		if _, stays := sandboxes[name]; !stays {
			changed[sandbox.Identity] = true
		}
	}
	for name, sandbox := range sandboxes {
		if _, known := l.known[name]; !known {
			changed[sandbox.Identity] = true
		}
	}
	l.known, l.modified = sandboxes, modified
	return slices.Collect(maps.Keys(changed))
}

// Youngest returns the youngest sandbox of an identity whose network namespace exists.
func (l *SandboxList) Youngest(identity string) (youngest Sandbox, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, sandbox := range l.known {
		if sandbox.Identity == identity && !isGone(sandbox.Netns) && (!ok || sandbox.Since.After(youngest.Since)) {
			youngest, ok = sandbox, true
		}
	}
	return youngest, ok
}
