// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/ovsnode"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/network"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// uplinkLabel selects the nodes with Open vSwitch.
const uplinkLabel = "kubernetsn.io/uplink"

// ovsServices are the services of Open vSwitch with DPDK on a prepared node: running, without any configuration. Its
// database is in /run, so it is lost when the node is off.
func ovsServices(daemon string) []node.Service {
	const run = "/run/openvswitch"
	return []node.Service{
		{Name: "ovsdb-server", Command: []string{"sh", "-c", "mkdir -p " + run + " && cd " + run +
			" && { test -e conf.db || ovsdb-tool create conf.db /usr/share/openvswitch/vswitch.ovsschema; } && exec ovsdb-server conf.db --remote=punix:db.sock"}},
		{Name: "ovs-vswitchd", Command: []string{"sh", "-c", "mountpoint -q /dev/hugepages || { mkdir -p /dev/hugepages && mount -t hugetlbfs none /dev/hugepages; }" +
			" && ovs-vsctl --no-wait --timeout=10 init && exec " + daemon + " unix:" + run + "/db.sock --pidfile"}},
	}
}

// needOpenVSwitch prepares one node with Open vSwitch and hugepages, and gives all nodes a second network card.
func needOpenVSwitch(ctx context.Context, t *testing.T, host plan.Node) {
	t.Helper()
	daemon, err := ovsnode.Program()
	if err != nil {
		testlab.Missing(t, err.Error())
	}
	// This also removes the traces of a killed run.
	if err := removeOpenVSwitch(ctx, host); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := removeOpenVSwitch(context.WithoutCancel(ctx), host); err != nil {
			t.Error(err)
		}
	})
	if err := under.SetHugepagesAside(ovsnode.Pages); err != nil {
		testlab.Missing(t, err.Error())
	}
	for _, service := range ovsServices(daemon) {
		if err := under.AddService(ctx, host.Name, service); err != nil {
			t.Fatal(err)
		}
	}
	if err := network.AddSecondCards(ctx, under.Plan); err != nil {
		t.Fatal(err)
	}
	for _, node := range under.Nodes {
		labels := ""
		if node == host {
			labels = fmt.Sprintf(`"labels":{%q:"ovs"},`, uplinkLabel)
		}
		err := patchNode(ctx, node, fmt.Sprintf(`{"metadata":{%s"annotations":{%q:%q}}}`, labels, tunnelAnnotation, network.SecondAddress(node)))
		if err != nil {
			t.Fatal(err)
		}
	}
}

// tunnelAnnotation names the address of a node's tunnels.
const tunnelAnnotation = "kubernetsn.io/tunnel-address"

func patchNode(ctx context.Context, host plan.Node, patch string) error {
	_, err := client.CoreV1().Nodes().Patch(ctx, host.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// removeOpenVSwitch undoes needOpenVSwitch, or as much of it as was done.
func removeOpenVSwitch(ctx context.Context, host plan.Node) error {
	var all error
	for _, labeled := range under.Nodes {
		all = errors.Join(all, patchNode(ctx, labeled, fmt.Sprintf(`{"metadata":{"labels":{%q:null},"annotations":{%q:null}}}`, uplinkLabel, tunnelAnnotation)))
	}
	services := ovsServices("")
	slices.Reverse(services)
	for _, service := range services {
		all = errors.Join(all, under.RemoveService(ctx, host.Name, service.Name))
	}
	_, err := node.Output(ctx, under.Place(host.Name), nil, "sh", "-ec",
		"if mountpoint -q /dev/hugepages; then umount /dev/hugepages; rmdir /dev/hugepages; fi; rm -rf /run/openvswitch /run/dpdk")
	return errors.Join(all, err, network.RemoveSecondCards(ctx, under.Plan), under.GiveHugepagesBack())
}

// ovsListing lists everything on a node that setting up Open vSwitch changes. ovs-netdev is Open vSwitch's own, pods'
// interfaces come and go, and Flannel's cni0 comes with a node's first pod.
const ovsListing = `
ovs-vsctl --columns=name,ports list Bridge
ovs-vsctl --columns=other_config,external_ids list Open_vSwitch
ip -o -4 address | awk '$2 != "cni0" { print $2, $4 }'
ip -o link | awk -F': ' '{ sub(/@.*/, "", $2); print $2 }' | grep -v -e ^veth -e ^ovs-netdev -e ^cni0
cat /proc/sys/net/ipv4/conf/` + network.SecondCard + `/arp_ignore
`

// tunnelsThrough waits until a node's Open vSwitch has the tunnels of a network, or none.
func tunnelsThrough(ctx context.Context, t *testing.T, host plan.Node, vni int) {
	t.Helper()
	await(ctx, t, func(ctx context.Context) error {
		flows, err := node.Output(ctx, under.Place(host.Name), nil, "ovs-ofctl", "dump-flows", "unix:/run/openvswitch/br-int.mgmt")
		if want := fmt.Sprintf("dl_vlan=%d", vni); err == nil && !strings.Contains(flows, want) {
			err = fmt.Errorf("of Open vSwitch's flows none has %s: %s", want, flows)
		}
		return err
	})
}
