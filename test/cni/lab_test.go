// SPDX-License-Identifier: Apache-2.0

// Package cni_test runs tsn-cni as container runtimes do, through libcni, on nodes made of network namespaces,
// with the ktsnd and the reference plugins that were built. It needs root.
package cni_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/cniruntime"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/internal/testlab/topology"
)

const (
	uplinkName  = "phys0"
	networkName = "tsn"
	vni         = 42
	bridgeName  = "tsnbr42"
	tunnelName  = "tsnvx42"
	podIf       = "tsn0"
	// patience is the timeout of operations that take milliseconds on an idle machine.
	patience = 20 * time.Second
)

// lab is two nodes with a link between them.
type lab struct {
	id   topology.ID
	a, b *node
	pods int
}

// node is a node and its container runtime.
type node struct {
	*topology.Namespace
	lab     *lab
	dir     string
	address netip.Addr
	// subnet is the range of its pods' addresses.
	subnet  netip.Prefix
	runtime *libcni.CNIConfig
	daemon  *process.Process
	relays  *process.Process
	client  *control.Client
}

func newLab(t testing.TB) *lab {
	t.Helper()
	program(t, "tsn-cni")
	referencePlugins(t)
	if _, err := topology.SweepStale(); err != nil {
		t.Fatal(err)
	}
	id, err := topology.NewID()
	must(t, err)
	l := &lab{id: id}
	l.a = l.newNode(t, "a", "192.0.2.1", "10.42.1.0/24")
	l.b = l.newNode(t, "b", "192.0.2.2", "10.42.2.0/24")
	l.link(t)
	return l
}

// newServedLab returns a lab with ktsnd on node a.
func newServedLab(t testing.TB) *lab {
	t.Helper()
	l := newLab(t)
	l.a.startDaemon(t)
	return l
}

// within returns the result of an action in a network namespace.
func within[T any](t testing.TB, where testlab.Namespace, action func() (T, error)) (result T) {
	t.Helper()
	must(t, where.Do(func() (err error) {
		result, err = action()
		return err
	}))
	return result
}

// folder creates a folder with a short name. The end of the test removes it.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ktsn-cni-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// namespace creates a network namespace with loopback up. The end of the test removes it.
func (l *lab) namespace(t testing.TB, role string) *topology.Namespace {
	t.Helper()
	namespace, err := topology.NewNamespace(l.id.String() + "-" + role)
	must(t, err)
	t.Cleanup(func() {
		if err := namespace.Destroy(); err != nil {
			t.Error(err)
		}
	})
	must(t, namespace.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		return errors.Join(err, netlink.LinkSetUp(lo))
	}))
	return namespace
}

func (l *lab) newNode(t testing.TB, name, address, subnet string) *node {
	t.Helper()
	n := &node{lab: l, dir: folder(t), address: netip.MustParseAddr(address), subnet: netip.MustParsePrefix(subnet)}
	n.Namespace = l.namespace(t, "node-"+name)
	n.runtime = n.runtimeWith(t, shipped(t))
	return n
}

// runtimeWith returns a runtime that runs tsn-cni from a folder.
func (n *node) runtimeWith(t testing.TB, pluginDir string, environment ...string) *libcni.CNIConfig {
	t.Helper()
	return cniruntime.New(n.Path(), []string{pluginDir, referencePlugins(t)}, filepath.Join(n.dir, "cache"), os.Stderr, environment...)
}

// forgetful returns a runtime without a cache of attachments, so that libcni's GC only calls the plugin.
func (n *node) forgetful(t testing.TB, pluginDir string, environment ...string) *libcni.CNIConfig {
	t.Helper()
	return cniruntime.New(n.Path(), []string{pluginDir, referencePlugins(t)}, folder(t), os.Stderr, environment...)
}

// attach runs ADD.
func (n *node) attach(configs *libcni.NetworkConfigList, at *libcni.RuntimeConf) error {
	_, err := n.runtime.AddNetworkList(context.Background(), configs, at)
	return err
}

// start starts a program. The end of the test stops it.
func start(t testing.TB, where process.Starter, name string, command *exec.Cmd) *process.Process {
	t.Helper()
	started, err := process.Start(where, name, command)
	must(t, err)
	t.Cleanup(func() { _ = started.Stop(patience) })
	return started
}

// outputOf returns the output of a program that ends by itself.
func outputOf(t testing.TB, where process.Starter, command *exec.Cmd) (string, error) {
	t.Helper()
	var output strings.Builder
	command.Stdout = &output
	err := start(t, where, filepath.Base(command.Path), command).Wait()
	return output.String(), err
}

// gc runs GC with the attachments of the given pods.
func (n *node) gc(t testing.TB, runtime *libcni.CNIConfig, configs *libcni.NetworkConfigList, valid ...*pod) error {
	t.Helper()
	list := []types.GCAttachment{}
	for _, pod := range valid {
		list = append(list, types.GCAttachment{ContainerID: pod.id, IfName: podIf})
	}
	return runtime.GCNetworkList(context.Background(), configs, &libcni.GCArgs{ValidAttachments: list})
}

// shipped returns the folder of the built tsn-cni.
func shipped(t testing.TB) string {
	t.Helper()
	return filepath.Dir(program(t, "tsn-cni"))
}

// link connects the nodes by a veth pair and sets the addresses.
func (l *lab) link(t testing.TB) {
	t.Helper()
	far, err := os.Open(l.b.Path())
	must(t, err)
	defer far.Close()
	must(t, l.a.Do(func() error {
		attributes := netlink.NewLinkAttrs()
		attributes.Name = uplinkName
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: uplinkName, PeerNamespace: netlink.NsFd(int(far.Fd()))})
	}))
	for _, n := range []*node{l.a, l.b} {
		must(t, n.Do(func() error {
			link, err := netlink.LinkByName(uplinkName)
			if err != nil {
				return err
			}
			address, err := netlink.ParseAddr(n.address.String() + "/24")
			return errors.Join(err, netlink.AddrAdd(link, address), netlink.LinkSetUp(link))
		}))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// control returns the path of the control socket of the node's ktsnd.
func (n *node) control() string { return filepath.Join(n.dir, "control.sock") }

// startDaemon starts the node's ktsnd and waits until it answers.
func (n *node) startDaemon(t testing.TB) {
	t.Helper()
	started := start(t, n.Namespace, "ktsnd", exec.Command(program(t, "ktsnd"), "--interface", uplinkName,
		"--control", n.control(), "--log-level", "warning"))
	n.daemon = started
	t.Cleanup(func() {
		if err := started.Stop(patience); err != nil {
			t.Errorf("%v\nits log: %s", err, started.Stderr())
		}
	})
	testlab.Eventually(t, patience, 10*time.Millisecond, func() error {
		client, err := control.Dial(context.Background(), n.control())
		if err == nil {
			n.client = client
			t.Cleanup(func() { client.Close() })
			return nil
		}
		select {
		case <-started.Done():
			t.Fatal(started.Ended())
		default:
		}
		return fmt.Errorf("ktsnd does not listen: %v", err)
	})
}

// stopDaemon terminates ktsnd with SIGTERM and waits for it.
func (n *node) stopDaemon(t testing.TB) {
	t.Helper()
	n.client.Close()
	must(t, n.daemon.Stop(patience))
	n.daemon, n.client = nil, nil
}

// fields is a network configuration or a part of it.
type fields map[string]any

// config returns the node's network configuration with some fields replaced. nil removes a field.
func (n *node) config(changes fields) map[string]any {
	config := map[string]any{
		"type":         "tsn-cni",
		"vni":          vni,
		"stateDir":     filepath.Join(n.dir, "state"),
		"capabilities": map[string]bool{"mac": true, "ips": true},
		"ipam":         n.hostLocal(n.subnet, "10.42.0.0/16"),
	}
	if n.daemon == nil {
		config["controlSocket"], config["uplink"] = "", uplinkName
	} else {
		config["controlSocket"], config["socketDir"] = n.control(), filepath.Join(n.dir, "pods")
	}
	for name, value := range changes {
		if value == nil {
			delete(config, name)
		} else {
			config[name] = value
		}
	}
	return config
}

// hostLocal returns host-local IPAM with a subnet and routes to the other nodes over the link.
func (n *node) hostLocal(subnet netip.Prefix, routes ...string) fields {
	var list []fields
	for _, route := range routes {
		list = append(list, fields{"dst": route})
	}
	return fields{"type": "host-local", "dataDir": filepath.Join(n.dir, "ipam"), "ranges": [][]fields{{{"subnet": subnet.String()}}}, "routes": list}
}

// static returns static IPAM.
func static(addresses ...string) fields {
	var list []fields
	for _, address := range addresses {
		list = append(list, fields{"address": address})
	}
	return fields{"type": "static", "addresses": list}
}

// list returns a configuration list with one plugin in the newest version.
func list(t testing.TB, config map[string]any) *libcni.NetworkConfigList {
	t.Helper()
	return listOf(t, "1.1.0", config)
}

func listOf(t testing.TB, version string, configs ...map[string]any) *libcni.NetworkConfigList {
	t.Helper()
	list, err := cniruntime.List(version, networkName, configs...)
	must(t, err)
	return list
}

// pod is a container that consists of a network namespace only.
type pod struct {
	*topology.Namespace
	node *node
	id   string
	uid  string
}

func (n *node) newPod(t testing.TB) *pod {
	t.Helper()
	n.lab.pods++
	id := fmt.Sprintf("pod-%d", n.lab.pods)
	return &pod{n.lab.namespace(t, id), n, id, "uid-" + id}
}

// newSandbox returns another container of a pod.
func (p *pod) newSandbox(t testing.TB) *pod {
	t.Helper()
	sandbox := p.node.newPod(t)
	sandbox.uid = p.uid
	return sandbox
}

// attachment returns the runtime configuration of the pod's interface.
func (p *pod) attachment() *libcni.RuntimeConf {
	return &libcni.RuntimeConf{ContainerID: p.id, NetNS: p.Path(), IfName: podIf,
		Args: [][2]string{{"IgnoreUnknown", "1"}, {"K8S_POD_NAME", p.id}, {"K8S_POD_UID", p.identity()}}}
}

func (p *pod) identity() string { return p.uid }

// add attaches the pod. The end of the test detaches it.
func (p *pod) add(t testing.TB, config map[string]any) *current.Result {
	t.Helper()
	configs := list(t, config)
	answer, err := p.node.runtime.AddNetworkList(context.Background(), configs, p.attachment())
	if err != nil {
		t.Fatalf("ADD: %v", err)
	}
	t.Cleanup(func() { _ = p.node.runtime.DelNetworkList(context.Background(), configs, p.attachment()) })
	result, err := current.GetResult(answer)
	must(t, err)
	return result
}

func (p *pod) del(t testing.TB, config map[string]any) {
	t.Helper()
	if err := p.node.runtime.DelNetworkList(context.Background(), list(t, config), p.attachment()); err != nil {
		t.Fatalf("DEL: %v", err)
	}
}

// addressOf returns the pod's first address of a family.
func addressOf(result *current.Result, ipv4 bool) netip.Addr {
	for _, ip := range result.IPs {
		address, _ := netip.AddrFromSlice(ip.Address.IP)
		if address.Unmap().Is4() == ipv4 {
			return address.Unmap()
		}
	}
	return netip.Addr{}
}

func glob(t testing.TB, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	must(t, err)
	return paths
}

// rename returns the list with another name.
func rename(t testing.TB, name string, config map[string]any) *libcni.NetworkConfigList {
	t.Helper()
	list, err := cniruntime.List("1.1.0", name, config)
	must(t, err)
	return list
}

func TestMain(m *testing.M) { os.Exit(cniruntime.TestMain(m)) }

// program returns the path of a built program, and skips the test where there is none or no root.
func program(t testing.TB, name string) string {
	t.Helper()
	testlab.Root(t)
	return testlab.Program(t, name)
}

// referencePlugins returns the folder of the CNI project's plugins, built once and cached in the build folder.
func referencePlugins(t testing.TB) string {
	t.Helper()
	dir, err := buildReferences()
	if err != nil {
		testlab.Missing(t, "the reference plugins cannot be built: "+err.Error())
	}
	return dir
}

var buildReferences = sync.OnceValues(func() (string, error) {
	dir, err := filepath.Abs("../../build/cni-plugins")
	if err != nil {
		return "", err
	}
	const module = "github.com/containernetworking/plugins/plugins/"
	return dir, build("../../scripts/cni-plugins", dir, module+"ipam/host-local", module+"ipam/static",
		module+"main/bridge", module+"meta/tuning")
})

// killablePlugin returns the folder of a tsn-cni with fault points.
func killablePlugin(t testing.TB) string {
	t.Helper()
	dir, err := buildKillable()
	if err != nil {
		testlab.Missing(t, "tsn-cni cannot be built with fault points: "+err.Error())
	}
	return dir
}

var buildKillable = sync.OnceValues(func() (string, error) {
	dir, err := filepath.Abs("../../build/cni-killable")
	if err != nil {
		return "", err
	}
	return dir, build("../..", dir, "-tags=ktsn_faults", "./cmd/tsn-cni")
})

// build runs `go build`, which only rebuilds after changes.
func build(from, into string, arguments ...string) error {
	script, err := filepath.Abs("../../scripts/go.sh")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	command := exec.Command(script, append([]string{"build", "-buildvcs=false", "-o", into + "/"}, arguments...)...)
	command.Dir = from
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, output)
	}
	return nil
}
