// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cli/clusterreader"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

type controlPod = control.Pod

// csiNode is the used part of a storage.k8s.io CSINode.
type csiNode struct {
	Spec struct {
		Drivers []struct {
			Name string `json:"name"`
		} `json:"drivers"`
	} `json:"spec"`
}

// CheckNode checks a node and its subnets of networks.
func (d *Doctor) CheckNode(ctx context.Context, name string) ([]Finding, error) {
	var node corev1.Node
	if err := d.Cluster.Get(ctx, clusterreader.Nodes, "", name, &node); err != nil {
		return nil, fmt.Errorf("look at node %s: %s", name, oneLine(err))
	}
	if !d.served(ctx, &node) {
		d.report(Note, "node "+name, "schedule a pod with the annotation "+v1alpha1.NetworkAnnotation+" there, and ktsnd starts",
			"it has no pod on a network, and so neither ktsnd nor its agent")
		return d.take(), nil
	}
	d.node(ctx, name)
	state := d.state(ctx, name)
	if state != nil {
		d.clock(state)
		for i := range state.Spec.Networks {
			d.networkOnNode(state.Spec.Networks[i].Name, state)
		}
		d.clocksOnNode(ctx, state)
	}
	d.links(ctx, "links of node "+name, onNode(name))
	d.host(ctx, name, state)
	d.ktsndOnNode(ctx, name)
	d.settings(ctx, name)
	return d.take(), nil
}

// served reports whether ktsnd should run on a node: the operator has set its label, or, without the operator, ktsnd runs there.
func (d *Doctor) served(ctx context.Context, node *corev1.Node) bool {
	if node.Labels[v1alpha1.NodeLabel] != "" {
		return true
	}
	pods, err := d.Cluster.PodsOn(ctx, node.Name, clusterreader.KtsndPods)
	return err == nil && len(pods) > 0
}

// node checks what a pod needs on its node.
func (d *Doctor) node(ctx context.Context, name string) {
	about := "node " + name
	var node corev1.Node
	if err := d.Cluster.Get(ctx, clusterreader.Nodes, "", name, &node); err != nil {
		d.unreadable(about, err)
		return
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
			d.report(Bad, about, "the log of kubelet on the node has the reason", "is not ready: %s", condition.Message)
		}
	}
	if architecture := node.Status.NodeInfo.Architecture; architecture != "" && architecture != "amd64" {
		d.report(Bad, about, "keep pods with the annotation "+v1alpha1.NetworkAnnotation+" on nodes with the label kubernetes.io/arch=amd64", "is of architecture %s, for which there is no ktsnd", architecture)
	}
	if kernelTooOld(node.Status.NodeInfo.KernelVersion) {
		d.report(Bad, about, "use kernel 5.14 or later", "has kernel %s, by which ktsnd cannot tell pods apart", node.Status.NodeInfo.KernelVersion)
	}
	if !d.served(ctx, &node) {
		d.report(Bad, about, "`ktsn doctor` without a name checks the operator, which sets it", "lacks the label %s, which selects it for ktsnd",
			v1alpha1.NodeLabel)
		return
	}
	d.ktsndPods(ctx, name)
	d.agentPods(ctx, name)
	d.driver(ctx, name)
}

// kernelTooOld reports whether a kernel lacks SO_NETNS_COOKIE.
func kernelTooOld(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	major, err := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return err == nil && err2 == nil && (major < 5 || major == 5 && minor < 14)
}

// driver checks that kubelet knows the driver of the pods' volumes.
func (d *Doctor) driver(ctx context.Context, node string) {
	const about = "volumes"
	var known csiNode
	err := d.Cluster.Get(ctx, clusterreader.CSINodes, "", node, &known)
	if err != nil && !apierrors.IsNotFound(err) {
		d.unreadable(about, err)
		return
	}
	for _, driver := range known.Spec.Drivers {
		if driver.Name == v1alpha1.CSIDriver {
			d.ok(about, "kubelet knows the driver %s", v1alpha1.CSIDriver)
			return
		}
	}
	d.report(Bad, about, "the agent registers it: check that it is ready, and that kubeletDir of the chart is kubelet's folder",
		"kubelet on node %s does not know the driver %s", node, v1alpha1.CSIDriver)
}

// state reads the TSNNode of a node; nil if that fails.
func (d *Doctor) state(ctx context.Context, node string) *v1alpha1.TSNNode {
	state := &v1alpha1.TSNNode{}
	err := d.Cluster.Get(ctx, clusterreader.TSNNodes, "", node, state)
	switch {
	case apierrors.IsNotFound(err):
		d.report(Bad, "node "+node, "`ktsn doctor` without a name checks the operator, which creates it", "there is no TSNNode %s", node)
		return nil
	case err != nil:
		d.unreadable("TSNNode "+node, err)
		return nil
	}
	return state
}

// networkOnNode reports the agent's conditions of a network.
func (d *Doctor) networkOnNode(network string, node *v1alpha1.TSNNode) {
	about := fmt.Sprintf("network %s on node %s", network, node.Name)
	part, status := tsnnetwork.OnNode(node, network)
	if part == nil {
		d.report(Bad, about, "the network's conditions say why: `kubectl describe tsnnetwork "+network+"`", "the node has no subnet of it")
		return
	}
	if status == nil {
		status = &v1alpha1.NodeNetworkStatus{}
	}
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil:
		d.report(Bad, about, "check that ktsnd and agent run there", "the node's agent has not reported yet")
	case ready.Status != metav1.ConditionTrue:
		d.report(Bad, about, "", "%s: %s", ready.Reason, ready.Message)
	default:
		d.ok(about, "has %s, by %s at %s", strings.TrimSuffix(part.IPv4+", "+part.IPv6, ", "), status.Uplink, status.LinkSpeed)
	}
	peers := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionPeersReachable)
	switch {
	case peers == nil:
	case peers.Status == metav1.ConditionTrue:
		d.ok(about, "it receives from the other nodes")
	case peers.Status == metav1.ConditionFalse:
		d.report(Bad, about, "let the tunnels' UDP port, or IP protocol 50 for an encrypted network, pass between the nodes, in both directions", "%s", peers.Message)
	default:
		d.report(Note, about, "", "whether it receives from the other nodes is not known: %s", peers.Message)
	}
	gates := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionScheduleOperational)
	switch {
	case gates == nil:
	case gates.Status == metav1.ConditionTrue:
		d.ok(about, "the schedule is in force")
	case gates.Status == metav1.ConditionFalse:
		d.report(Bad, about, "correct the schedule, or the link", "the schedule is not in force: %s: %s", gates.Reason, gates.Message)
	default:
		d.report(Note, about, "", "the schedule is not in force yet: %s", gates.Message)
	}
	captured := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionCaptureOperational)
	if captured != nil && captured.Status == metav1.ConditionFalse {
		d.report(Bad, about, "see the logs of ktsn-agent and ktsnd on the node", "captured frames do not go through ktsnd: %s: %s", captured.Reason, captured.Message)
	}
	d.encryptionOnNode(about, status)
}

// encryptionOnNode reports whether the network's frames are encrypted as required.
func (d *Doctor) encryptionOnNode(about string, status *v1alpha1.NodeNetworkStatus) {
	condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionEncryptionOperational)
	switch {
	case condition == nil:
	case condition.Status == metav1.ConditionTrue:
		d.ok(about, "frames to all other nodes are encrypted")
	case condition.Status == metav1.ConditionFalse:
		d.report(Bad, about, "docs/guide/encryption.md says what each reason means", "frames are not encrypted as required: %s: %s", condition.Reason, condition.Message)
	default:
		d.report(Note, about, "wait a moment; else see the logs of ktsn-agent there and of ktsn-operator", "frames are not encrypted as required yet: %s", condition.Message)
	}
}

// clocksOnNode checks the node's clock for each network.
func (d *Doctor) clocksOnNode(ctx context.Context, node *v1alpha1.TSNNode) {
	networks, err := clusterreader.List[v1alpha1.TSNNetwork](ctx, d.Cluster, clusterreader.Networks, "", "", "")
	if err != nil {
		d.unreadable("clock of node "+node.Name, err)
		return
	}
	for i := range networks {
		d.clockOnNode(&networks[i], node)
	}
}

// clockOnNode reports whether the node's clock is good enough for a network.
func (d *Doctor) clockOnNode(network *v1alpha1.TSNNetwork, node *v1alpha1.TSNNode) {
	part, status := tsnnetwork.OnNode(node, network.Name)
	if network.Spec.Clock == nil || part == nil || status == nil {
		return
	}
	about := fmt.Sprintf("clock of node %s", node.Name)
	shows := fmt.Sprintf("`ktsn clock %s` shows what happened; docs/guide/clocks.md says how clocks are kept", node.Name)
	condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionClockSynchronized)
	switch {
	case condition == nil || condition.Status == metav1.ConditionUnknown:
		d.report(Note, about, "wait a moment; else see the log of ktsn-agent there", "it is not known yet whether it is good enough for network %s", network.Name)
	case condition.Status == metav1.ConditionFalse:
		d.report(Bad, about, shows, "is not good enough for network %s, which gets no new pods there: %s: %s", network.Name, condition.Reason, condition.Message)
	case condition.Reason == v1alpha1.ReasonClockHoldover:
		d.report(Note, about, shows, "is still good enough for network %s: %s: %s", network.Name, condition.Reason, condition.Message)
	default:
		d.ok(about, "is good enough for network %s", network.Name)
	}
}

// ktsndOnNode reports what keeps ktsnd from being punctual.
func (d *Doctor) ktsndOnNode(ctx context.Context, node string) {
	const about = "punctuality"
	state, err := d.AskKtsnd(ctx, node)
	if err != nil {
		d.unreadable(about, err)
		return
	}
	status := state.Status
	if status.Scheduler != "SCHED_FIFO" {
		d.report(Note, about, "where its log says `no real-time budget`, set ktsnd.cgroupV1=true of the chart; docs/guide/install.md says more", "ktsnd has no real-time priority (%s): other programs may delay it", status.Scheduler)
	}
	d.budget(about, &status.RealtimeBudget)
	d.ktsndsClock(about, state)
	counters := status.Counters
	level, mend := OK, ""
	if counters.LateWakeup > 0 {
		level, mend = Note, "others take ktsnd's processor: ktsnd.exclusiveCore of the chart gives it one of its own"
	}
	d.report(level, about, mend, "of %d messages that left, %d were late because ktsnd was, and %d because they were handed over too late", counters.Sent,
		counters.LateWakeup, counters.LateTaken)
	d.peers(state)
}

// peers reports the routes to and from other nodes that lose packets, or do not let the largest of the pods pass: for each network their number,
// and the worst.
func (d *Doctor) peers(state *State) {
	podMTU := map[uint32]int{}
	for i := range state.Endpoints {
		endpoint := &state.Endpoints[i]
		podMTU[endpoint.VNI] = max(podMTU[endpoint.VNI], endpoint.MTU)
	}
	type routes struct {
		count int
		worst *control.Peer
	}
	lossy, narrow := map[uint32]routes{}, map[uint32]routes{}
	add := func(all map[uint32]routes, peer *control.Peer, worse func(worst *control.Peer) bool) {
		now := all[peer.VNI]
		if now.count++; now.worst == nil || worse(now.worst) {
			now.worst = peer
		}
		all[peer.VNI] = now
	}
	for i := range state.Peers {
		peer := &state.Peers[i]
		if peer.Health.Lossy() {
			add(lossy, peer, func(worst *control.Peer) bool { return peer.Health.Lost > worst.Health.Lost })
		}
		if peer.MTU > 0 && peer.MTU < podMTU[peer.VNI] {
			add(narrow, peer, func(worst *control.Peer) bool { return peer.MTU < worst.MTU })
		}
	}
	for _, vni := range slices.Sorted(maps.Keys(lossy)) {
		health := lossy[vni].worst.Health
		d.report(Note, fmt.Sprintf("VNI %d", vni), "look for errors and drops at the uplinks (`ip -s link show`) and at switches and routers on the way; "+
			"`ktsn node peers list` on the node shows all", "announcements of other nodes were lost (nodes: %d), so messages may be lost, too; most of %s: %d of the last %d",
			lossy[vni].count, lossy[vni].worst.Address, health.Lost, health.Announced)
	}
	for _, vni := range slices.Sorted(maps.Keys(narrow)) {
		worst := narrow[vni].worst
		d.report(Note, fmt.Sprintf("VNI %d", vni), fmt.Sprintf("raise the MTU of the route (`ip route get %s` on the node), or set spec.mtu of the network", worst.Address),
			"routes to other nodes (%d) have a smaller MTU than the pods' interfaces, and longer messages fail (EMSGSIZE): IP packets to %s can have %d bytes, those of the interfaces %d",
			narrow[vni].count, worst.Address, worst.MTU, podMTU[vni])
	}
}

// relieve returns the remedy for a ktsnd that has to rest while messages wait. The chart sets only the share of its cgroup.
func relieve(budget *control.RealtimeBudget) string {
	if strings.HasSuffix(budget.Source, "/cpu.rt_runtime_us") {
		return "raise ktsnd.realtimeShare of the chart, with ktsnd.cgroupV1=true, or give ktsnd less to send"
	}
	return "give ktsnd less to send: what the kernel lets real-time threads have is used up"
}

// budget reports whether the kernel stops ktsnd because it has used up its real-time budget.
func (d *Doctor) budget(about string, budget *control.RealtimeBudget) {
	switch {
	case budget.PeriodNs == 0:
	case budget.Stops > 0:
		d.report(Note, about, "other real-time programs of its cgroup, or of a higher priority, take what ktsnd leaves: raise the budget, or move them to another processor",
			"the kernel kept ktsnd from its processor %d times, for %v in all; it has %v of each %v (%s)", budget.Stops,
			time.Duration(budget.StoppedNs).Round(time.Millisecond), time.Duration(budget.RuntimeNs), time.Duration(budget.PeriodNs), budget.Source)
	case budget.RestsForced > 0:
		d.report(Note, about, relieve(budget),
			"ktsnd had to rest %d times where no gap between messages was long enough; it uses %.0f%% of its real-time budget, at most %.0f%% (%s)",
			budget.RestsForced, 100*budget.Share(), 100*budget.MostShare(), budget.Source)
	default:
		d.ok(about, "ktsnd uses %.0f%% of its real-time budget and was never stopped", 100*budget.Share())
	}
}
