// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/network"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// mixedNetwork has nodes that send through Open vSwitch, and others.
const mixedNetwork = `
apiVersion: kubernetsn.io/v1alpha1
kind: TSNNetwork
metadata: {name: tsn}
spec: {vni: 42, ipv4: {cidr: 10.42.0.0/16}}
`

// ovsValues configure nodes that share a card with Open vSwitch, which polls on the processor that ktsnd does not use,
// but not all the time: the cluster runs on that processor as well.
var ovsValues = []string{
	"--set", "operator.enabled=true",
	"--set", "operator.linger=2s",
	"--set", "uplink.interface=" + network.SecondCard,
	"--set", "uplink.ovs.interface=" + network.SecondCard,
	"--set", `uplink.ovs.nodeSelector.kubernetsn\.io/uplink=ovs`,
	"--set", "uplink.ovs.pmdCPUs=1",
	"--set", "uplink.ovs.pmdMaxSleep=50us",
	"--set", "uplink.ovs.dpdkExtra=--no-pci",
}

// mixed has a node with Open vSwitch and one without, each with a pod on the network.
type mixed struct {
	switched, direct     plan.Node
	namespace            string
	onSwitched, onDirect *corev1.Pod
	ovsBefore            string
	runs                 int
}

// This is one test, because the chart is installed once: it is installed, used, and removed.
func TestOpenVSwitchOnOneNode(t *testing.T) {
	ctx := needTwoNodes(t)
	testlab.Program(t, "helm")
	removeChart(ctx, t)
	m := &mixed{direct: under.Nodes[0], switched: under.Nodes[1]}
	needOpenVSwitch(ctx, t, m.switched)
	m.ovsBefore = onNode(ctx, t, m.switched.Name, "sh", "-c", ovsListing)
	onNode(ctx, t, m.switched.Name, "sv", "-w", "10", "force-stop", "/etc/service/ovs-vswitchd")
	before, uninstall := withRelease(ctx, t, ovsValues...)
	clear(before.inventory) // Open vSwitch was stopped
	applyText(ctx, t, mixedNetwork)
	m.namespace = newNamespace(ctx, t, restricted)
	t.Run("without ovs-vswitchd the node says so, and serves pods once it is there", func(t *testing.T) { m.begin(ctx, t) })
	if t.Failed() {
		return
	}
	t.Run("each ktsnd has its uplink", func(t *testing.T) { m.uplinks(ctx, t) })
	t.Run("ordinary traffic goes both ways", func(t *testing.T) { m.ordinary(ctx, t) })
	t.Run("timed messages go both ways at once", func(t *testing.T) { m.timed(ctx, t) })
	t.Run("Open vSwitch that was killed is set up again", func(t *testing.T) {
		killOn(ctx, t, m.switched.Name, "ovs-vswitchd-dp") // as the kernel calls it
		m.renewed(ctx, t)
	})
	t.Run("uninstall takes Open vSwitch down and leaves nothing", func(t *testing.T) {
		deleteNamespace(t, m.namespace)
		uninstall(t)
		m.asBefore(ctx, t)
	})
}

// both returns a pod on the network, with tsnperf for timed and agnhost for other traffic.
func both(name, host string) *corev1.Pod {
	pod := waiting(name, host)
	pod.Spec.Containers = append(pod.Spec.Containers, agnhost(name, host).Spec.Containers...)
	return annotated(pod, "tsn")
}

// begin creates the pods, of which one waits until ovs-vswitchd is started.
func (m *mixed) begin(ctx context.Context, t *testing.T) {
	for _, pod := range []*corev1.Pod{both("switched", m.switched.Name), both("direct", m.direct.Name)} {
		if _, err := client.CoreV1().Pods(m.namespace).Create(ctx, pod, createOptions); err != nil {
			t.Fatal(err)
		}
	}
	const sentence = "set up Open vSwitch: ovs-vswitchd does not run, or does not follow this database; start it and see its log"
	says(ctx, t, "tsn", v1alpha1.ConditionReady, v1alpha1.ReasonNodeNotReady, sentence)
	await(ctx, t, func(ctx context.Context) error { // who records Events does not wait for them
		events, err := client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{
			FieldSelector: "reason=TSNOpenVSwitchNotSetUp,involvedObject.name=" + m.switched.Name,
		})
		if err == nil && !slices.ContainsFunc(events.Items, func(event corev1.Event) bool { return event.Message == sentence }) {
			err = fmt.Errorf("no Event of the node says %q: %v", sentence, events)
		}
		return err
	})
	m.onDirect = waitReady(ctx, t, m.namespace, "direct")
	onNode(ctx, t, m.switched.Name, "sv", "start", "/etc/service/ovs-vswitchd")
	m.onSwitched = waitReady(ctx, t, m.namespace, "switched")
	says(ctx, t, "tsn", v1alpha1.ConditionReady, v1alpha1.ReasonAsAsked, "")
}

func (m *mixed) uplinks(ctx context.Context, t *testing.T) {
	for _, test := range []struct {
		host         plan.Node
		uplink, card string
	}{{m.switched, "ovs", "br-phy"}, {m.direct, "direct", network.SecondCard}} {
		status := chartStatus(ctx, t, test.host.Name)
		address := network.SecondAddress(test.host).String()
		if status.Uplink != test.uplink || status.Interface != test.card || status.LocalAddress != address {
			t.Errorf("ktsnd on %s sends by %s on %s from %s; want %s on %s from %s", test.host.Name, status.Uplink, status.Interface,
				status.LocalAddress, test.uplink, test.card, address)
		}
		if status.Endpoints != 1 || status.Peers != 1 {
			t.Errorf("ktsnd on %s has %d endpoints and %d peers", test.host.Name, status.Endpoints, status.Peers)
		}
	}
	waitNetwork(ctx, t, "tsn", func(network *v1alpha1.TSNNetwork) error {
		nodes, err := onNodes(ctx, network.Name)
		if err != nil {
			return err
		}
		uplinks := map[string]string{}
		for name, status := range nodes {
			uplinks[name] = status.Uplink
		}
		if uplinks[m.switched.Name] != "br-phy" || len(uplinks) != 2 {
			return fmt.Errorf("the network's nodes say %v", uplinks)
		}
		return nil
	})
}

// ways returns the two directions.
func (m *mixed) ways() [][2]*corev1.Pod {
	return [][2]*corev1.Pod{{m.onSwitched, m.onDirect}, {m.onDirect, m.onSwitched}}
}

// ordinary sends HTTP and UDP, small and larger than a frame.
func (m *mixed) ordinary(ctx context.Context, t *testing.T) {
	const more = 5000
	text := strings.Repeat("x", more)
	for _, way := range m.ways() {
		address := addressOn(t, way[1])
		reaches(ctx, t, way[0], way[1], address.String())
		if source := seenFrom(ctx, t, way[0], address.String()); source != addressOn(t, way[0]) {
			t.Errorf("%s is seen from %s", way[0].Name, source)
		}
		given, err := dial(ctx, way[0], "http", address.String(), httpPort, "echo?msg="+text, 1)
		if err != nil || len(given) != 1 || given[0] != text {
			t.Errorf("%s got another text of %d bytes from %s: %v, %.100q", way[0].Name, more, way[1].Name, err, given)
		}
	}
}

// timed sends messages both ways at once.
func (m *mixed) timed(ctx context.Context, t *testing.T) {
	const count = 1000
	before := map[string]map[string]uint64{}
	for _, host := range under.Nodes {
		before[host.Name] = chartStatus(ctx, t, host.Name).Counters
	}
	var got [2]exchange
	var errs [2]error
	var all sync.WaitGroup
	for i, way := range m.ways() {
		address := addressOn(t, way[1]).String()
		m.runs++
		id := 700 + m.runs
		all.Go(func() {
			got[i], errs[i] = talkOnce(ctx, way[0], way[1], address, id, []string{"--count", strconv.Itoa(count), "--cycle", "2ms", "--lead", "10ms"},
				[]string{"--count", strconv.Itoa(count), "--block", "--idle-timeout", "10s"}, nil)
		})
	}
	all.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	for i, way := range m.ways() {
		accounted(t, got[i], count, func() uint64 { return 0 })
		name := way[0].Spec.NodeName
		waitSent(ctx, t, name, before[name]["sent"]+count)
		for counter, now := range chartStatus(ctx, t, name).Counters {
			change := now - before[name][counter]
			if (counter == "sent" && change != count) || (strings.HasPrefix(counter, "drop-") && change != 0) {
				t.Errorf("ktsnd on %s counts %d %s", name, change, counter)
			}
		}
	}
}

// renewed waits until Open vSwitch works as before, without a restart of ktsnd.
func (m *mixed) renewed(ctx context.Context, t *testing.T) {
	pod, err := chartPodOn(ctx, ktsndPods, m.switched.Name)
	if err != nil {
		t.Fatal(err)
	}
	before, err := chartStates(ctx)
	if err != nil {
		t.Fatal(err)
	}
	tunnelsThrough(ctx, t, m.switched, 42)
	await(ctx, t, func(ctx context.Context) error {
		log, err := logs(ctx, pod, "ktsnd")
		if err == nil && strings.Count(log, "Open vSwitch is connected to") < 2 {
			err = fmt.Errorf("ktsnd says %s", log)
		}
		return err
	})
	for _, way := range m.ways() {
		eventuallyReaches(ctx, t, way[0], way[1], addressOn(t, way[1]).String())
	}
	m.timed(ctx, t)
	now, err := chartStates(ctx)
	if err != nil || !maps.Equal(now[m.switched.Name].uids, before[m.switched.Name].uids) ||
		!maps.Equal(now[m.switched.Name].restarts, before[m.switched.Name].restarts) {
		t.Errorf("ktsnd or the agent was started again: %v", err)
	}
}

// asBefore fails the test unless nodes and cluster are as before, and the node with Open vSwitch is reachable.
func (m *mixed) asBefore(ctx context.Context, t *testing.T) {
	// At once: no cached address may have to expire first.
	address := network.SecondAddress(m.switched).String()
	if output := onNode(ctx, t, m.direct.Name, "sh", "-c", "ping -c 1 -W 5 "+address+" || true"); !strings.Contains(output, "1 received") {
		t.Errorf("%s is not reached: %s", address, output)
	}
	if after := onNode(ctx, t, m.switched.Name, "sh", "-c", ovsListing); after != m.ovsBefore {
		t.Errorf("Open vSwitch or the node's network has changed: %s", difference(m.ovsBefore, after))
	}
	waitForNodes(ctx, t)
	namespace := newNamespace(ctx, t, restricted)
	pods := start(ctx, t, namespace, agnhost("a", m.direct.Name), agnhost("b", m.switched.Name))
	reaches(ctx, t, pods[0], pods[1], pods[1].Status.PodIP)
	reaches(ctx, t, pods[1], pods[0], pods[0].Status.PodIP)
}
