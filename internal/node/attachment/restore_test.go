// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/vm"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/device"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

// listening is a ktsnd that accepts all requests but one kind and records them with their network.
type listening struct {
	mu       sync.Mutex
	requests []string
	refuses  string
	// modes are the entries of the list of encryptions.
	modes string
}

func (l *listening) answer(request []byte) string {
	var message struct {
		Request    string             `json:"request"`
		VNI        uint32             `json:"vni"`
		Encryption control.Encryption `json:"encryption"`
	}
	_ = json.Unmarshal(request, &message)
	l.mu.Lock()
	defer l.mu.Unlock()
	if message.Request == l.refuses {
		return `{"version":1,"error":{"field":"vni","message":"no"}}`
	}
	l.requests = append(l.requests, strings.TrimSpace(fmt.Sprint(message.Request, " ", message.VNI, " ", message.Encryption)))
	if message.Request == "network-encryptions" {
		return fmt.Sprintf(`{"version":1,"reply":"network-encryptions","total":%d,"network-encryptions":[%s]}`, min(1, len(l.modes)), l.modes)
	}
	if message.Request == "endpoints" {
		return `{"version":1,"reply":"endpoints","total":0,"endpoints":[]}`
	}
	if message.Request == "status" {
		return `{"version":1,"reply":"status"}`
	}
	return `{"version":1,"reply":"ok"}`
}

// at returns the index of the first such request, -1 if there was none.
func (l *listening) at(request string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Index(l.requests, request)
}

func (l *listening) serve(t *testing.T) *control.Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "control.sock")
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	testlab.Must(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				buffer := make([]byte, 1<<16)
				for {
					count, err := connection.Read(buffer)
					if err != nil {
						return
					}
					_, _ = connection.Write([]byte(l.answer(buffer[:count])))
				}
			}()
		}
	}()
	client, err := control.Dial(t.Context(), path)
	testlab.Must(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

const secretVNI, clearVNI = 4242, 4343

// attachedNode is a node with a pod and a peer on an encrypted network and on another one in clear.
func attachedNode(t *testing.T) (node *overlay.Node, dir string) {
	t.Helper()
	namespace := topology.EnterTestNamespace(t, "restore")
	dir = t.TempDir()
	node, err := OpenNode(dir, time.Second)
	testlab.Must(t, err)
	t.Cleanup(node.Close)
	for vni, alias := range map[uint32]string{secretVNI: "tsn-cni:1 encrypted", clearVNI: ""} {
		attributes := netlink.NewLinkAttrs()
		attributes.Name, attributes.Group = overlay.TunnelName(vni), overlay.LinkGroup
		tunnel := &netlink.Vxlan{LinkAttrs: attributes, VxlanId: int(vni), Port: 4789}
		testlab.Must(t, netlink.LinkAdd(tunnel))
		if alias != "" {
			testlab.Must(t, netlink.LinkSetAlias(tunnel, alias))
		}
		testlab.Must(t, netlink.LinkSetUp(tunnel))
		testlab.Must(t, node.PeerAdd(t.Context(), control.Peer{VNI: vni, Address: netip.MustParseAddr("192.0.2.2"), Subnets: []netip.Prefix{netip.MustParsePrefix("10.42.2.0/24")}}, nil))
		r := &Record{Version: 1, Attachment: overlay.Attachment{Network: fmt.Sprint("n", vni), ContainerID: "c", Interface: "tsn0", Identity: "pod"},
			Netns: namespace.Path(), VNI: vni, Bridge: overlay.BridgeName(vni), Tunnel: overlay.TunnelName(vni), Sources: &control.Sources{}}
		testlab.Must(t, recordStore{dir}.write(r))
	}
	return node, dir
}

// A ktsnd that knows a network's peers and pods before its encryption sends in clear.
func TestRestoreEncryptionFirst(t *testing.T) {
	node, dir := attachedNode(t)
	ktsnd := &listening{}
	done, err := Restore(t.Context(), dir, node, ktsnd.serve(t), "")
	if err != nil || done.Peers != 2 || done.Endpoints != 2 {
		t.Fatalf("%+v, %v; the requests were %q", done, err, ktsnd.requests)
	}
	encrypted := ktsnd.at("network-encryption-set 4242 required")
	if encrypted < 0 || encrypted > ktsnd.at("peer-add 4242") || encrypted > ktsnd.at("endpoint-add 4242") || ktsnd.at("network-encryption-set 4343 required") >= 0 {
		t.Errorf("the requests were %q", ktsnd.requests)
	}
}

func TestRestoreWithoutEncryption(t *testing.T) {
	for name, test := range map[string]struct {
		refuses string
		before  func(t *testing.T)
		message string
	}{
		"ktsnd refuses": {refuses: "network-encryption-set", message: "require encryption of network 4242 from ktsnd"},
		"missing tunnel": {before: func(t *testing.T) {
			t.Helper()
			tunnel, err := netlink.LinkByName(overlay.TunnelName(secretVNI))
			testlab.Must(t, err)
			testlab.Must(t, netlink.LinkDel(tunnel))
		}, message: "tsnvx4242 is missing or unfinished"},
		"unmarked tunnel": {before: func(t *testing.T) {
			t.Helper()
			tunnel, err := netlink.LinkByName(overlay.TunnelName(secretVNI))
			testlab.Must(t, err)
			testlab.Must(t, netlink.LinkSetAlias(tunnel, ""))
			testlab.Must(t, netlink.LinkSetDown(tunnel))
		}, message: "tsnvx4242 is missing or unfinished"},
	} {
		t.Run(name, func(t *testing.T) {
			node, dir := attachedNode(t)
			ktsnd := &listening{refuses: test.refuses}
			if test.before != nil {
				test.before(t)
			}
			done, err := Restore(t.Context(), dir, node, ktsnd.serve(t), "")
			if err != nil || !strings.Contains(fmt.Sprint(done.Faults[secretVNI]), test.message) || len(done.Faults) != 1 || done.Endpoints != 1 || done.Gone != 0 {
				t.Errorf("%+v, %v", done, err)
			}
			if ktsnd.at("peer-add 4242") >= 0 || ktsnd.at("endpoint-add 4242") >= 0 || ktsnd.at("endpoint-add 4343") < 0 {
				t.Errorf("the requests were %q", ktsnd.requests)
			}
		})
	}
}

func TestNoReceiveRingsWhenEncrypted(t *testing.T) {
	_, dir := attachedNode(t)
	records, err := recordStore{dir}.withPorts()
	testlab.Must(t, err)
	for _, r := range records {
		if _, _, err := r.endpointOfRings(); (err == errDecrypted) != (r.VNI == secretVNI) {
			t.Errorf("of network %d: %v", r.VNI, err)
		}
	}
}

// rebuildLab is a node with an uplink and a pod.
type rebuildLab struct {
	node           *overlay.Node
	dir, container string
	netns          *os.File
}

func newRebuildLab(t *testing.T) *rebuildLab {
	t.Helper()
	node, dir := attachedNode(t)
	attributes := netlink.NewLinkAttrs()
	attributes.Name = "up0"
	uplink := &netlink.Veth{LinkAttrs: attributes, PeerName: "up1"}
	testlab.Must(t, netlink.LinkAdd(uplink))
	testlab.Must(t, netlink.AddrAdd(uplink, &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(192, 0, 2, 1), Mask: net.CIDRMask(24, 32)}}))
	testlab.Must(t, netlink.LinkSetUp(uplink))
	pod := topology.NewTestNamespace(t, "rebuilt")
	netns, err := os.Open(pod.Path())
	testlab.Must(t, err)
	t.Cleanup(func() { netns.Close() })
	return &rebuildLab{node, dir, pod.Name(), netns}
}

// plug attaches an interface of the pod to a network.
func (l *rebuildLab) plug(t *testing.T, network *overlay.Network, interfaceName, note string) *overlay.Attachment {
	t.Helper()
	network.Uplink, network.MTU = "up0", 1400
	attachment := overlay.Attachment{Network: LinkNetwork, ContainerID: l.container, Interface: interfaceName, Identity: "pod"}
	_, err := l.node.Plug(t.Context(), network, &overlay.Port{
		Attachment: attachment, HardwareAddress: net.HardwareAddr{2, 0, 0, 0, 0, interfaceName[1]}, Netns: int(l.netns.Fd()), Note: note}, nil)
	testlab.Must(t, err)
	return &attachment
}

func TestRebuildEncryptedLink(t *testing.T) {
	lab := newRebuildLab(t)
	for i, alias := range []string{"tsn-cni:1 encrypted", ""} {
		network := linkNetwork(0x800000 + uint32(i))
		network.Port = 4700 + uint16(i)
		attachment := lab.plug(t, &network, []string{"a0", "a1"}[i], "")
		if alias != "" {
			testlab.Must(t, netlink.LinkSetAlias(&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: network.Tunnel}}, alias))
		}
		count, err := rebuild(t.Context(), lab.node, recordStore{lab.dir}, (&listening{}).serve(t), "")
		testlab.Must(t, err)
		if rebuilt := (recordStore{lab.dir}).read(attachment); count != 1 || rebuilt == nil || rebuilt.Overlay.Encrypted != (alias != "") || rebuilt.VNI != network.VNI {
			t.Errorf("of a tunnel with the alias %q %d records are rebuilt: %+v", alias, count, rebuilt)
		}
	}
}

func TestRebuildDevice(t *testing.T) {
	lab := newRebuildLab(t)
	for i, kind := range []string{device.VhostUser, device.Tap} {
		network := linkNetwork(0x800000 + uint32(i))
		network.Port = 4700 + uint16(i)
		interfaceName := []string{"a0", "a1"}[i]
		note := kind + ",1,record,0,,timed,/" + strings.Repeat("d", 255) // longer than an alias
		attachment := lab.plug(t, &network, interfaceName, note)
		if kind == device.Tap {
			name, err := device.TapName(interfaceName)
			testlab.Must(t, err)
			testlab.Must(t, ns.WithNetNSPath(lab.netns.Name(), func(ns.NetNS) error { return (&vm.Tap{Name: name, MTU: 1400, Queues: 1}).Make() }))
		}
		count, err := rebuild(t.Context(), lab.node, recordStore{lab.dir}, (&listening{}).serve(t), "")
		rebuilt := (recordStore{lab.dir}).read(attachment)
		if kind == device.Tap { // the pod has it
			if count != 1 || rebuilt == nil || !rebuilt.Device.Is(device.Tap) {
				t.Errorf("%d are rebuilt: %+v, %v", count, rebuilt, err)
			}
			continue
		}
		if count != 0 || err == nil || !strings.Contains(err.Error(), "delete the pod") || rebuilt != nil {
			t.Errorf("%d are rebuilt: %+v, %v", count, rebuilt, err)
		}
	}
}

// Repair must not make or finish a tunnel in clear that may have to be encrypted.
func TestRepairMakesNoTunnelInClear(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*netlink.Vxlan) error
		keys    bool
		modes   string
		refuses string
	}{
		"missing, and ktsnd has no status":     {change: func(l *netlink.Vxlan) error { return netlink.LinkDel(l) }, keys: true, refuses: "status"},
		"missing, on a node with keys":         {change: func(l *netlink.Vxlan) error { return netlink.LinkDel(l) }, keys: true},
		"unfinished, on a node with keys":      {change: func(l *netlink.Vxlan) error { return netlink.LinkSetDown(l) }, keys: true},
		"missing, and ktsnd encrypts":          {change: func(l *netlink.Vxlan) error { return netlink.LinkDel(l) }, modes: `{"vni":4343,"encryption":"required"}`},
		"unfinished, and ktsnd may encrypt it": {change: func(l *netlink.Vxlan) error { return netlink.LinkSetDown(l) }, modes: `{"vni":4343,"encryption":"preferred"}`},
	} {
		t.Run(name, func(t *testing.T) {
			node, dir := attachedNode(t)
			pod := topology.NewTestNamespace(t, "repaired")
			attachment := overlay.Attachment{Network: "n4343", ContainerID: "c", Interface: "tsn0", Identity: "pod"}
			r := recordStore{dir}.read(&attachment)
			r.Netns = pod.Path()
			r.Sources = &control.Sources{HardwareAddresses: []string{"0a:58:0a:2a:01:02"}}
			r.Overlay = overlay.Network{Name: "n4343", VNI: clearVNI, Bridge: r.Bridge, Tunnel: r.Tunnel, Port: 4789}
			testlab.Must(t, recordStore{dir}.write(r))
			attributes := netlink.NewLinkAttrs()
			attributes.Name, attributes.Group = attachment.PortName(), overlay.LinkGroup
			testlab.Must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: "other"}))
			link, err := netlink.LinkByName(r.Tunnel)
			testlab.Must(t, err)
			testlab.Must(t, test.change(link.(*netlink.Vxlan)))
			if test.keys {
				testlab.Must(t, os.Mkdir(filepath.Join(dir, "keys"), 0o700))
			}
			repaired, faults, err := Repair(t.Context(), dir, node, (&listening{modes: test.modes, refuses: test.refuses}).serve(t), nil)
			if err != nil || len(repaired) > 0 || !strings.Contains(fmt.Sprint(faults[clearVNI]), "not known here whether the network is encrypted") {
				t.Errorf("%q, %v, %v", repaired, faults, err)
			}
			if link, err := netlink.LinkByName(r.Tunnel); err == nil && link.Attrs().Flags&net.FlagUp != 0 {
				t.Errorf("%s is up", r.Tunnel)
			}
		})
	}
}
