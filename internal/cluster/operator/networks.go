// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// Networks reconciles TSNNetworks.
type Networks struct {
	Client client.Client
	Events record.EventRecorder
	// Namespace is the operator's namespace.
	Namespace string
	// NowTAI returns the current time in TAI, in nanoseconds.
	NowTAI func() int64
	shared *shared

	// The fields below belong to the controller's single worker.

	// pace limits how often a network's status is written.
	pace *pace
	// attached caches the result of the last check of a network's attachments.
	attached map[string]attachmentCheck
	// reported has the findings for which there was an Event: by network, and by node.
	reported     map[string]map[string]bool
	reportedNode map[string]string
	// clocksDifferSince is when the clocks of a network's nodes began to differ.
	clocksDifferSince map[string]time.Time
	// ranges has the addresses of the cluster's own pods, nodes and Services.
	ranges clusterRanges
}

func newNetworks(shared *shared, cluster client.Client, events record.EventRecorder, namespace string, nowTAI func() int64) *Networks {
	shared.keys = &keys{client: cluster, live: shared.live, namespace: namespace, now: time.Now}
	return &Networks{
		Client: cluster, Events: events, Namespace: namespace, NowTAI: nowTAI, shared: shared, pace: newPace(time.Now),
		attached: map[string]attachmentCheck{}, reported: map[string]map[string]bool{}, reportedNode: map[string]string{}, clocksDifferSince: map[string]time.Time{},
	}
}

const (
	// scheduleLeadNs is how long before its base time nodes get a schedule.
	scheduleLeadNs = int64(time.Second)
	// resyncPeriod is the interval between checks of attachments, which are not watched.
	resyncPeriod = 5 * time.Minute
	// retryPeriod is the interval between checks while there are findings.
	retryPeriod = 15 * time.Second
	// conflictRetryDelay is enough for the cache to see a change.
	conflictRetryDelay = 100 * time.Millisecond
	// countUpdateDelay delays the update of a node's number of pods when it stays above zero.
	countUpdateDelay = 5 * time.Second
)

// finding is a difference between a network's spec and its state.
type finding struct {
	reason, text string
	// blocks is set if pods cannot be attached on some node.
	blocks bool
	// quiet is set if it will clear by itself: it is not a fault, and there is no Event.
	quiet bool
	// once identifies the finding, so that there is one Event even if the text changes; "" means that the text identifies it.
	once string
}

// key identifies the finding for Events.
func (f *finding) key() string { return cmp.Or(f.once, f.text) }

// isQuiet reports whether the finding is not a fault. Missing reports of nodes are not faults.
func (f *finding) isQuiet() bool { return f.quiet || f.reason == v1alpha1.ReasonNodeWaited }

// outcome is the input and the result of one reconciliation of a network.
type outcome struct {
	network *v1alpha1.TSNNetwork
	all     []v1alpha1.TSNNetwork
	nodes   *nodeSet
	used    *usage

	subnets  map[string]subnet
	request  *v1alpha1.ScheduleRequest
	findings []finding
	reports  []report
	problems []problem
	// clockDifference describes how the nodes' clocks differ, "" if they do not; recheckAfter is when to check them again, 0 for never.
	clockDifference string
	recheckAfter    time.Duration
	span            span
	// keys are the cluster keys that the network's nodes trust.
	keys []v1alpha1.ClusterKey
}

func (o *outcome) add(findings ...finding) { o.findings = append(o.findings, findings...) }

// Reconcile reconciles one network. After a conflict with another writer it is repeated.
func (r *Networks) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if err := r.shared.waitReady(ctx); err != nil {
		return reconcile.Result{}, err
	}
	result, err := r.reconcile(ctx, request)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictRetryDelay}, nil
	}
	return result, err
}

func (r *Networks) reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var all v1alpha1.TSNNetworkList // shared with the cache: read only
	if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("list the networks: %w", err)
	}
	nodes, err := listNodes(ctx, r.Client, r.shared.agents, r.shared.tunnels)
	if err != nil {
		return reconcile.Result{}, err
	}
	network := findNetwork(all.Items, request.Name)
	if network == nil {
		r.forgetNetwork(request.Name, nodes)
		return reconcile.Result{}, nil
	}
	namespaces, err := selectedNamespaces(ctx, r.Client, network)
	if err != nil {
		return reconcile.Result{}, err
	}
	o := &outcome{network: network, all: all.Items, nodes: nodes, used: r.shared.pods.usage(network.Name, namespaces)}
	if network.DeletionTimestamp != nil {
		return r.finalize(ctx, o, namespaces)
	}
	if err := r.ensureFinalizer(ctx, network); err != nil {
		return reconcile.Result{}, err
	}
	return r.serve(ctx, o)
}

// forgetNetwork drops what is known of a deleted network and enqueues the nodes that still have it.
func (r *Networks) forgetNetwork(name string, nodes *nodeSet) {
	r.shared.subnets.drop(name)
	r.shared.announced.forget(name)
	r.pace.forget(name)
	delete(r.attached, name)
	delete(r.reported, name)
	delete(r.clocksDifferSince, name)
	for node, state := range nodes.states {
		if networkOf(state, name) != nil || state.Spec.Gates == name {
			r.shared.nodes.add(node, 0)
		}
	}
}

func findNetwork(networks []v1alpha1.TSNNetwork, name string) *v1alpha1.TSNNetwork {
	for i := range networks {
		if networks[i].Name == name {
			return networks[i].DeepCopy()
		}
	}
	return nil
}

// ensureFinalizer keeps the network from being deleted while there are pods on it.
func (r *Networks) ensureFinalizer(ctx context.Context, network *v1alpha1.TSNNetwork) error {
	before := network.DeepCopy()
	if !controllerutil.AddFinalizer(network, v1alpha1.Finalizer) {
		return nil
	}
	if err := r.Client.Patch(ctx, network, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("add the finalizer to network %s: %w", network.Name, err)
	}
	return nil
}

// finalize removes the finalizer of a deleted network when there are no pods on it any more.
func (r *Networks) finalize(ctx context.Context, o *outcome, namespaces namespaceSet) (reconcile.Result, error) {
	network := o.network
	if !controllerutil.ContainsFinalizer(network, v1alpha1.Finalizer) {
		return reconcile.Result{}, nil
	}
	if o.used.total > 0 {
		return r.keepUntilUnused(ctx, o, namespaces)
	}
	if err := r.applyAttachments(ctx, network, nil, nil); err != nil && !errors.Is(err, errMultus) {
		return reconcile.Result{}, err
	}
	before := network.DeepCopy()
	controllerutil.RemoveFinalizer(network, v1alpha1.Finalizer)
	err := client.IgnoreNotFound(r.Client.Patch(ctx, network, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
	if err != nil {
		err = fmt.Errorf("remove the finalizer of network %s: %w", network.Name, err)
	}
	return reconcile.Result{}, err
}

// keepUntilUnused keeps a deleted network unchanged while there are pods on it: agents follow the spec of their TSNNode, and would take
// peers and schedule away from these pods.
func (r *Networks) keepUntilUnused(ctx context.Context, o *outcome, namespaces namespaceSet) (reconcile.Result, error) {
	names := strings.Join(abbreviate(r.shared.pods.names(o.network.Name, namespaces)), ", ")
	o.add(finding{reason: v1alpha1.ReasonInUse, text: "it is being deleted, and is removed when these pods are gone: " + names, blocks: true})
	if err := r.allocate(ctx, o); err != nil {
		return reconcile.Result{}, err
	}
	r.enqueueNodes(o)
	o.request, o.keys, o.reports = o.network.Status.Schedule, o.network.Status.ClusterKeys, reportsOf(o)
	return r.updateStatus(ctx, o)
}

// serve gives a network what its spec asks for. Each step adds findings for what could not be given; an error ends the reconciliation.
func (r *Networks) serve(ctx context.Context, o *outcome) (reconcile.Result, error) {
	r.raiseEncryption(o)
	served := len(r.shared.subnets.forNetwork(o.network.Name)) > 0
	if text := conflict(o.network, o.all); text != "" {
		o.add(finding{reason: v1alpha1.ReasonOverlaps, blocks: true, text: text})
		if !served {
			return r.updateStatus(ctx, o)
		}
	}
	if port := int(o.network.Spec.TunnelPort()); port == r.shared.encryptedPort {
		o.add(finding{reason: v1alpha1.ReasonPortReserved, blocks: true, text: fmt.Sprintf("spec.port %d is the port of encrypted tunnels, to which nodes drop "+
			"frames in clear; make the network again with another port, or change encryption.port of the chart", port)})
		if !served {
			return r.updateStatus(ctx, o)
		}
	}
	text, err := r.clusterConflict(ctx, o)
	if err != nil {
		return reconcile.Result{}, err
	}
	if text != "" { // a node cannot take the range of a network with pods away
		o.add(finding{reason: v1alpha1.ReasonOverlaps, blocks: !served, text: text})
		if !served {
			return r.updateStatus(ctx, o)
		}
	}
	for _, step := range []func(context.Context, *outcome) error{
		r.ensureAttachments, r.reportExcluded, r.allocate, r.signKeys, r.describeSpan, checkMTU, r.requestSchedule, r.collectReports,
	} {
		if err := step(ctx, o); err != nil {
			return reconcile.Result{}, err
		}
	}
	return r.updateStatus(ctx, o)
}

// raiseEncryption raises the network's encryption to the cluster's minimum.
func (r *Networks) raiseEncryption(o *outcome) {
	if text := r.shared.minimum.Raise(&o.network.Spec.Encryption, o.network.Name); text != "" {
		o.add(finding{reason: v1alpha1.ReasonEncryptionBelowMinimum, text: text})
	}
}

// allocate gives each node with pods a subnet of the network's ranges.
func (r *Networks) allocate(_ context.Context, o *outcome) error {
	parts, without, err := allocateSubnets(o.network, r.shared.subnets.forNetwork(o.network.Name), o.nodes, o.used)
	if err != nil {
		return err
	}
	o.subnets = parts
	r.shared.subnets.set(o.network.Name, parts)
	if len(without) > 0 {
		o.add(r.usedUp(o.network, without))
	}
	return nil
}

// signKeys collects the cluster keys of an encrypted network.
func (r *Networks) signKeys(ctx context.Context, o *outcome) error {
	var peers v1alpha1.TSNPeersList // shared with the cache: read only
	if err := r.Client.List(ctx, &peers, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the peers of network %s: %w", o.network.Name, err)
	}
	keys, findings, err := r.shared.keys.clusterKeys(ctx, o.network, peers.Items)
	o.keys = keys
	o.add(findings...)
	return err
}

// requestSchedule decides which schedule the nodes shall execute, and enqueues the nodes whose TSNNode changes.
func (r *Networks) requestSchedule(_ context.Context, o *outcome) error {
	r.enqueueNodes(o)
	request, findings := schedule(o.network, scheduleOwner(o.all), o.nodes, r.NowTAI())
	o.request = request
	o.add(findings...)
	return nil
}

// collectReports reads the reports of the nodes with pods.
func (r *Networks) collectReports(_ context.Context, o *outcome) error {
	o.reports = reportsOf(o)
	o.problems = problemsOf(o.network, o.reports, r.leftOut(o.network, o.nodes, o.used))
	o.add(findingsOf(o.problems)...)
	if o.clockDifference, o.recheckAfter = r.checkClockDifferences(o.network, o.reports); o.clockDifference != "" {
		o.add(finding{reason: v1alpha1.ReasonClocksDiffer, text: o.clockDifference, once: v1alpha1.ReasonClocksDiffer})
	}
	return nil
}

// conflict describes what another network already has, "" if nothing.
func conflict(network *v1alpha1.TSNNetwork, all []v1alpha1.TSNNetwork) string {
	if other, why := tsnnetwork.Conflict(network, all); other != "" {
		return fmt.Sprintf("network %s is older and has %s; change this network", other, why)
	}
	if network.Spec.VNI >= v1alpha1.FirstLinkVNI {
		return fmt.Sprintf("spec.vni is %d, and numbers from %d on are reserved for links; recreate the network with a smaller one", network.Spec.VNI, v1alpha1.FirstLinkVNI)
	}
	return ""
}

// clusterConflict describes an overlap of the network's ranges with the cluster's own addresses, "" for none: pods of the network would not
// reach these.
func (r *Networks) clusterConflict(ctx context.Context, o *outcome) (string, error) {
	reserved, _, err := r.ranges.reserved(ctx, r.shared.live, o.nodes, nil, r.pace.now())
	if err != nil {
		return "", err
	}
	for _, prefix := range tsnnetwork.Ranges(o.network) {
		for i := range reserved {
			if prefix.Overlaps(reserved[i].Range) {
				return fmt.Sprintf("its range %s overlaps %s (%s), which its pods would not reach; recreate the network with a range that pods, Services and nodes of the "+
					"cluster do not use", prefix, reserved[i].Range, reserved[i].What), nil
			}
		}
	}
	return "", nil
}

// enqueueNodes enqueues the nodes whose TSNNode does not have the network's subnets, number of pods or gates yet.
func (r *Networks) enqueueNodes(o *outcome) {
	gates := scheduleOwner(o.all)
	for node, part := range o.subnets {
		existing, pods := networkOf(o.nodes.states[node], o.network.Name), o.used.onNode[node]
		ipv4, ipv6 := part.cidrs()
		switch {
		case existing == nil || existing.IPv4 != ipv4 || existing.IPv6 != ipv6 || (existing.Pods > 0) != (pods > 0):
			r.shared.nodes.add(node, 0)
		case existing.Pods != pods:
			r.shared.nodes.add(node, countUpdateDelay)
		}
	}
	for node, state := range o.nodes.states {
		if _, allocated := o.subnets[node]; state.Spec.Gates != gates || !allocated && networkOf(state, o.network.Name) != nil {
			r.shared.nodes.add(node, 0)
		}
	}
}

// usedUp reports that no subnets are left for some nodes, also by an Event of each waiting pod there.
func (r *Networks) usedUp(network *v1alpha1.TSNNetwork, without []string) finding {
	text := fmt.Sprintf("no addresses of network %s are left for the nodes %s; all its /%d subnets are in use. "+
		"Enlarge spec.ipv4.cidr (and spec.ipv6.cidr, if there is one), or place the pods on fewer nodes",
		network.Name, strings.Join(abbreviate(without), ", "), network.Spec.IPv4.NodePrefixLength)
	for _, pod := range r.shared.pods.waiting(network.Name, without) {
		if r.shared.pods.markReported(pod, network.Name) {
			r.Events.Event(pod, corev1.EventTypeWarning, v1alpha1.ReasonRangeUsedUp, text)
		}
	}
	return finding{reason: v1alpha1.ReasonRangeUsedUp, text: text, blocks: true}
}

// leftOut returns the reasons why nodes with pods on the network are no peers, and creates an Event for each of these nodes.
func (r *Networks) leftOut(network *v1alpha1.TSNNetwork, nodes *nodeSet, used *usage) map[string]error {
	reasons := map[string]error{}
	for name, err := range nodes.faults {
		if used.onNode[name] == 0 {
			continue
		}
		reasons[name] = fmt.Errorf("it is not reached on network %s: %w", network.Name, err)
		if r.reportedNode[name] != err.Error() {
			r.reportedNode[name] = err.Error()
			r.Events.Event(nodes.all[name], corev1.EventTypeWarning, v1alpha1.ReasonTSNNodeLeftOut, reasons[name].Error())
		}
	}
	maps.DeleteFunc(r.reportedNode, func(name, _ string) bool {
		return nodes.all[name] == nil || used.onNode[name] > 0 && reasons[name] == nil
	})
	return reasons
}
