// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"strconv"
)

// All clusters share these; they exist only inside the cluster's own network namespaces.
const (
	PodCIDR     = "10.244.0.0/16"
	ServiceCIDR = "10.96.0.0/16"
	// APIService and DNSService are the first and the customary address of ServiceCIDR.
	APIService = "10.96.0.1"
	DNSService = "10.96.0.10"
	Domain     = "cluster.local"
	APIPort    = 6443
	// Uplink is a node's interface to the others.
	Uplink = "eth0"
	// UplinkMTU leaves pods 50 bytes less, because of Flannel's VXLAN.
	UplinkMTU = 1500
	PodMTU    = UplinkMTU - 50
)

// MaxNodes is the limit of the machine's memory and of the addresses of a subnet.
const MaxNodes = 20

// These addresses of a subnet have a purpose; the rest are for nodes.
const (
	machineHost   = 1
	routerHost    = 2
	firstNodeHost = 11
)

// addressPool is the pool of subnets: the range for benchmarks (RFC 2544), which is not routed.
var addressPool = netip.MustParsePrefix("198.18.0.0/15")

// Plan has the names and addresses of a cluster on this machine.
type Plan struct {
	Name  string `json:"name"`
	Nodes []Node `json:"nodes"`
	// Subnet connects the nodes; its first address is this machine's.
	Subnet netip.Prefix `json:"subnet"`
	// Dir holds all files of the cluster.
	Dir string `json:"dir"`
	// ID is part of all names on this machine.
	ID string `json:"id"`
	// Hub marks the hub of a federation, a single machine without nodes.
	Hub bool `json:"hub,omitempty"`
}

// Node is a machine of the cluster.
type Node struct {
	Name    string     `json:"name"`
	Address netip.Addr `json:"address"`
}

var nameForm = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,28}[a-z0-9])?$`)

// New plans a cluster under root, the folder of all clusters. The invalid subnet (the zero value) means the one that
// follows from the name.
func New(name, root string, nodes int, subnet netip.Prefix) (*Plan, error) {
	if !nameForm.MatchString(name) {
		return nil, fmt.Errorf("invalid cluster name %q; give up to 30 lower-case letters, digits and dashes, a letter first", name)
	}
	if nodes < 1 || nodes > MaxNodes {
		return nil, fmt.Errorf("a cluster of %d nodes is not possible; give 1 to %d", nodes, MaxNodes)
	}
	sum := sha256.Sum256([]byte(name))
	if !subnet.IsValid() {
		subnet = deriveSubnet(sum)
	}
	if !subnet.Addr().Is4() || subnet.Bits() > 24 || subnet != subnet.Masked() {
		return nil, fmt.Errorf("%s is no subnet for nodes; give an IPv4 prefix of 24 bits or fewer, such as 198.18.7.0/24", subnet)
	}
	plan := &Plan{Name: name, Subnet: subnet, Dir: filepath.Join(root, name), ID: hex.EncodeToString(sum[:3])}
	for number := 1; number <= nodes; number++ {
		plan.Nodes = append(plan.Nodes, Node{
			Name:    "node" + strconv.Itoa(number),
			Address: host(subnet, firstNodeHost+number-1),
		})
	}
	return plan, nil
}

// HubHost is the host name of a hub's machine.
const HubHost = "hub"

// NewHub plans the hub of a federation: the control plane is on its only machine.
func NewHub(name, root string, subnet netip.Prefix) (*Plan, error) {
	plan, err := New(name, root, 1, subnet)
	if err != nil {
		return nil, err
	}
	plan.Hub, plan.Nodes[0].Name = true, HubHost
	return plan, nil
}

// NextSubnet moves the nodes to the next subnet, if this machine uses the one that followed from the name.
func (p *Plan) NextSubnet() {
	bytes := p.Subnet.Addr().As4()
	bytes[2]++
	p.Subnet = netip.PrefixFrom(netip.AddrFrom4(bytes), p.Subnet.Bits())
	for i := range p.Nodes {
		p.Nodes[i].Address = host(p.Subnet, firstNodeHost+i)
	}
}

func deriveSubnet(sum [sha256.Size]byte) netip.Prefix {
	base := addressPool.Addr().As4()
	base[1] |= sum[3] & 1
	base[2] = sum[4]
	return netip.PrefixFrom(netip.AddrFrom4(base), 24)
}

func host(subnet netip.Prefix, number int) netip.Addr {
	bytes := subnet.Addr().As4()
	bytes[3] |= byte(number)
	return netip.AddrFrom4(bytes)
}

// Machine returns this machine's address among the nodes.
func (p *Plan) Machine() netip.Addr { return host(p.Subnet, machineHost) }

// RouterAddress returns the address of the cluster's router among the nodes, if the cluster is part of a federation.
func (p *Plan) RouterAddress() netip.Addr { return host(p.Subnet, routerHost) }

// ControlPlane returns the node that also runs the control plane.
func (p *Plan) ControlPlane() Node { return p.Nodes[0] }

// Node returns a node by name.
func (p *Plan) Node(name string) (Node, error) {
	for _, node := range p.Nodes {
		if node.Name == name {
			return node, nil
		}
	}
	return Node{}, fmt.Errorf("cluster %s has no node %q; it has %s to %s", p.Name, name,
		p.Nodes[0].Name, p.Nodes[len(p.Nodes)-1].Name)
}

// Prefix returns the prefix of the names of network namespaces and of the cgroup.
func (p *Plan) Prefix() string { return prefix + p.ID }

const prefix = "ktsnc-"

// Namespace returns the network namespace of a node.
func (p *Plan) Namespace(node string) string { return p.Prefix() + "-" + node }

// Switch returns the network namespace of the bridge between the nodes.
func (p *Plan) Switch() string { return p.Prefix() + "-switch" }

// Router returns the network namespace of the router between the nodes and the WAN of a federation.
func (p *Plan) Router() string { return RouterOf(p.ID) }

// RouterOf is Router for the cluster with that ID.
func RouterOf(id string) string { return prefix + id + "-router" }

// WAN returns the network namespace of the network between the routers of a federation, for its hub.
func (p *Plan) WAN() string { return p.Prefix() + "-wan" }

// MachineLink returns this machine's interface to the nodes.
func (p *Plan) MachineLink() string { return "ktsnc" + p.ID }

// Cgroup returns the parent of the nodes' cgroups, relative to the root of each hierarchy.
func (p *Plan) Cgroup() string { return p.Prefix() }

// NodeDir returns the folder of a node's files.
func (p *Plan) NodeDir(node string) string { return filepath.Join(p.Dir, "nodes", node) }

// Root returns the root of a node's file system.
func (p *Plan) Root(node string) string { return filepath.Join(p.NodeDir(node), "rootfs") }

// Kubeconfig returns the path of the administrator's kubeconfig.
func (p *Plan) Kubeconfig() string { return filepath.Join(p.Dir, "admin.kubeconfig") }

// Server returns the URL of the API server for this machine and the nodes.
func (p *Plan) Server() string {
	return "https://" + netip.AddrPortFrom(p.ControlPlane().Address, APIPort).String()
}
