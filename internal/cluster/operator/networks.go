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

// Networks makes true what TSNNetworks ask for.
type Networks struct {
	Client client.Client
	// Live reads past the cache.
	Live   client.Reader
	Events record.EventRecorder
	// Namespace is the operator's own.
	Namespace string
	// NowTAI is the time by which nodes agree, in nanoseconds.
	NowTAI func() int64
	shared *shared

	// What follows is the controller's one worker's.

	// pace bounds how often a network's status is written.
	pace *pace
	// attached is what came of the last look at a network's attachments.
	attached map[string]attached
	// said are the sentences of which there has been an Event: by network, and by node.
	said     map[string]map[string]bool
	saidNode map[string]string
	// differs is since when the clocks of a network's nodes differ.
	differs map[string]time.Time
}

func newNetworks(shared *shared, cluster client.Client, events record.EventRecorder, namespace string, nowTAI func() int64) *Networks {
	shared.keys = &keys{client: cluster, live: shared.live, namespace: namespace, now: time.Now}
	return &Networks{
		Client: cluster, Live: shared.live, Events: events, Namespace: namespace, NowTAI: nowTAI, shared: shared, pace: newPace(time.Now),
		attached: map[string]attached{}, said: map[string]map[string]bool{}, saidNode: map[string]string{}, differs: map[string]time.Time{},
	}
}

const (
	// scheduleLeadNs is how long before its base time nodes are told of a schedule.
	scheduleLeadNs = int64(time.Second)
	// repeatEvery is how often to look at what is not watched: attachments, which somebody may have removed.
	repeatEvery = 5 * time.Minute
	// retryAfter is when to look again for what others must mend.
	retryAfter = 15 * time.Second
	// againAfter is when the cache knows what was changed.
	againAfter = 100 * time.Millisecond
	// countsLater is when a node is told of another number of pods, while there are some.
	countsLater = 5 * time.Second
)

// finding is something that is not as it was asked for.
type finding struct {
	reason, text string
	// blocks pods from being attached somewhere.
	blocks bool
	// quiet is what is about to be otherwise by itself: no fault, and no Event.
	quiet bool
	// once is by what there is one Event of it, whatever the text says: "" is by the text.
	once string
}

// same tells findings apart of which each has an Event of its own.
func (f *finding) same() string { return cmp.Or(f.once, f.text) }

// isQuiet tells whether it is no fault: what nodes have not said yet is none.
func (f *finding) isQuiet() bool { return f.quiet || f.reason == v1alpha1.ReasonNodeWaited }

// Reconcile looks at one network. What somebody else changed meanwhile is looked at again.
func (r *Networks) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if err := r.shared.ready(ctx); err != nil {
		return reconcile.Result{}, err
	}
	result, err := r.look(ctx, request)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: againAfter}, nil
	}
	return result, err
}

func (r *Networks) look(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var all v1alpha1.TSNNetworkList // the cache's own, and only read
	if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("list the networks: %w", err)
	}
	nodes, err := listNodes(ctx, r.Client, r.shared.agents, r.shared.tunnels)
	if err != nil {
		return reconcile.Result{}, err
	}
	network := find(all.Items, request.Name)
	if network == nil {
		r.forgetNetwork(request.Name, nodes)
		return reconcile.Result{}, nil
	}
	namespaces, err := selected(ctx, r.Client, network)
	if err != nil {
		return reconcile.Result{}, err
	}
	used := r.shared.pods.usage(network.Name, namespaces)
	if network.DeletionTimestamp != nil {
		return r.finish(ctx, network, all.Items, nodes, used, namespaces)
	}
	if err := r.hold(ctx, network); err != nil {
		return reconcile.Result{}, err
	}
	return r.serve(ctx, network, all.Items, nodes, used)
}

// forgetNetwork has the nodes told that a network is gone.
func (r *Networks) forgetNetwork(name string, nodes *nodeSet) {
	r.shared.parts.drop(name)
	r.shared.announced.forget(name)
	r.pace.forget(name)
	delete(r.attached, name)
	delete(r.said, name)
	delete(r.differs, name)
	for node, state := range nodes.states {
		if networkOf(state, name) != nil || state.Spec.Gates == name {
			r.shared.nodes.add(node, 0)
		}
	}
}

func find(networks []v1alpha1.TSNNetwork, name string) *v1alpha1.TSNNetwork {
	for i := range networks {
		if networks[i].Name == name {
			return networks[i].DeepCopy()
		}
	}
	return nil
}

// hold keeps the network from being deleted while there are pods on it.
func (r *Networks) hold(ctx context.Context, network *v1alpha1.TSNNetwork) error {
	before := network.DeepCopy()
	if !controllerutil.AddFinalizer(network, v1alpha1.Finalizer) {
		return nil
	}
	if err := r.Client.Patch(ctx, network, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("hold network %s: %w", network.Name, err)
	}
	return nil
}

// finish lets a network go that was deleted, once nobody is on it.
func (r *Networks) finish(ctx context.Context, network *v1alpha1.TSNNetwork, all []v1alpha1.TSNNetwork, nodes *nodeSet,
	used *usage, namespaces namespaceSet) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(network, v1alpha1.Finalizer) {
		return reconcile.Result{}, nil
	}
	if used.total > 0 {
		return r.linger(ctx, network, all, nodes, used, namespaces)
	}
	if err := r.attach(ctx, network, nil, nil); err != nil && !errors.Is(err, errMultus) {
		return reconcile.Result{}, err
	}
	before := network.DeepCopy()
	controllerutil.RemoveFinalizer(network, v1alpha1.Finalizer)
	err := r.Client.Patch(ctx, network, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("let network %s go: %w", network.Name, err)
	}
	return reconcile.Result{}, nil
}

// linger keeps a network that was deleted as it is, as long as pods are on it: agents do what they were asked, and would take
// peers and schedule away from these pods with it.
func (r *Networks) linger(ctx context.Context, network *v1alpha1.TSNNetwork, all []v1alpha1.TSNNetwork, nodes *nodeSet,
	used *usage, namespaces namespaceSet) (reconcile.Result, error) {
	names := strings.Join(some(r.shared.pods.names(network.Name, namespaces)), ", ")
	found := []finding{{reason: v1alpha1.ReasonInUse, text: "it was deleted, and goes when these pods are gone: " + names, blocks: true}}
	parts, problem, err := r.divide(network, nodes, used)
	if err != nil {
		return reconcile.Result{}, err
	}
	r.askNodes(network, all, nodes, used, parts)
	return r.tell(ctx, network, &outcome{
		used: used, parts: parts, request: network.Status.Schedule, found: append(found, problem...),
		older: nodes.older(all) || !nodes.know(network, parts), reports: reportsOf(network, used, nodes), keys: network.Status.ClusterKeys,
	})
}

// serve gives a network what it needs, and says what it could not be given.
func (r *Networks) serve(ctx context.Context, network *v1alpha1.TSNNetwork, all []v1alpha1.TSNNetwork, nodes *nodeSet,
	used *usage) (reconcile.Result, error) {
	is := &outcome{used: used}
	if raised := r.shared.minimum.Raise(&network.Spec.Encryption, network.Name); raised != "" {
		is.found = append(is.found, finding{reason: v1alpha1.ReasonEncryptionBelowMinimum, text: raised})
	}
	if taken := conflict(network, all); taken != "" {
		is.found = append(is.found, finding{reason: v1alpha1.ReasonOverlaps, blocks: true, text: taken})
		if len(r.shared.parts.of(network.Name)) == 0 {
			return r.tell(ctx, network, is)
		}
	}
	withPods := maps.Clone(used.namespaces) // also those whose pods do not count: Multus may need their attachments until they are gone
	maps.Copy(withPods, used.excluded)
	problem, err := r.admit(ctx, network, withPods)
	if err != nil {
		return reconcile.Result{}, err
	}
	is.found = append(is.found, problem...)
	if problem, err = r.exclude(ctx, network, used); err != nil {
		return reconcile.Result{}, err
	}
	is.found = append(is.found, problem...)
	if is.parts, problem, err = r.divide(network, nodes, used); err != nil {
		return reconcile.Result{}, err
	}
	is.found = append(is.found, problem...)
	var peers v1alpha1.TSNPeersList // the cache's own, and only read
	if err := r.Client.List(ctx, &peers, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("list the peers of network %s: %w", network.Name, err)
	}
	if is.keys, problem, err = r.shared.keys.clusterKeys(ctx, network, peers.Items); err != nil {
		return reconcile.Result{}, err
	}
	is.found = append(is.found, problem...)
	if is.span, problem, err = r.spanOf(ctx, network, nodes); err != nil {
		return reconcile.Result{}, err
	}
	is.found = append(is.found, append(problem, tooLarge(network, nodes, used)...)...)
	is.older = nodes.older(all) || !nodes.know(network, is.parts)
	r.askNodes(network, all, nodes, used, is.parts)
	is.request, problem = schedule(network, owner(all), nodes, r.NowTAI())
	is.found = append(is.found, problem...)
	is.reports = reportsOf(network, used, nodes)
	is.problems = problemsOf(network, is.reports, r.leftOut(network, nodes, used))
	is.found = append(is.found, findingsOf(is.problems)...)
	if is.differ, is.again = r.differ(network, is.reports); is.differ != "" {
		is.found = append(is.found, finding{reason: v1alpha1.ReasonClocksDiffer, text: is.differ, once: v1alpha1.ReasonClocksDiffer})
	}
	return r.tell(ctx, network, is)
}

// conflict says what of a network is another's, "" if nothing is.
func conflict(network *v1alpha1.TSNNetwork, all []v1alpha1.TSNNetwork) string {
	if other, why := tsnnetwork.Conflict(network, all); other != "" {
		return fmt.Sprintf("network %s has %s, and was there first; give this one others", other, why)
	}
	if network.Spec.VNI >= v1alpha1.FirstLinkVNI {
		return fmt.Sprintf("spec.vni is %d, and those from %d on are links'; make the network anew with a smaller one", network.Spec.VNI, v1alpha1.FirstLinkVNI)
	}
	return ""
}

// attachmentFinding divides what went wrong with attachments into what a person must mend and the rest.
func attachmentFinding(err error) ([]finding, error) {
	var foreign *foreignError
	var wrong *selectorError
	switch {
	case err == nil:
		return nil, nil
	case errors.As(err, &wrong):
		return []finding{{reason: v1alpha1.ReasonSelectorInvalid, text: wrong.Error(), blocks: true}}, nil
	case errors.Is(err, errMultus):
		return []finding{{reason: v1alpha1.ReasonMultusMissing, text: err.Error(), blocks: true}}, nil
	case errors.As(err, &foreign):
		return []finding{{reason: v1alpha1.ReasonForeignAttachment, text: foreign.Error()}}, nil
	}
	return nil, err
}

// divide divides the network's addresses among the nodes.
func (r *Networks) divide(network *v1alpha1.TSNNetwork, nodes *nodeSet, used *usage) (map[string]part, []finding, error) {
	parts, without, err := allocateAll(network, r.shared.parts.of(network.Name), nodes, used)
	if err != nil {
		return nil, nil, err
	}
	r.shared.parts.set(network.Name, parts)
	if len(without) > 0 {
		return parts, []finding{r.usedUp(network, without)}, nil
	}
	return parts, nil, nil
}

// askNodes has those TSNNodes looked at that do not say yet what the network's nodes shall do.
func (r *Networks) askNodes(network *v1alpha1.TSNNetwork, all []v1alpha1.TSNNetwork, nodes *nodeSet, used *usage, parts map[string]part) {
	gates := owner(all)
	for node, part := range parts {
		told, pods := networkOf(nodes.states[node], network.Name), used.onNode[node]
		ipv4, ipv6 := part.texts()
		switch {
		case told == nil || told.IPv4 != ipv4 || told.IPv6 != ipv6 || (told.Pods > 0) != (pods > 0):
			r.shared.nodes.add(node, 0)
		case told.Pods != pods:
			r.shared.nodes.add(node, countsLater)
		}
	}
	for node, state := range nodes.states {
		if _, has := parts[node]; state.Spec.Gates != gates || !has && networkOf(state, network.Name) != nil {
			r.shared.nodes.add(node, 0)
		}
	}
}

// usedUp tells the pods on nodes for which there are no addresses.
func (r *Networks) usedUp(network *v1alpha1.TSNNetwork, without []string) finding {
	text := fmt.Sprintf("no addresses of network %s are left for the nodes %s; all its parts of /%d are other nodes'. "+
		"Enlarge spec.ipv4.cidr (and spec.ipv6.cidr, if there is one), or place the pods on fewer nodes",
		network.Name, strings.Join(some(without), ", "), network.Spec.IPv4.NodePrefixLength)
	for _, pod := range r.shared.pods.waiting(network.Name, without) {
		if r.shared.pods.tellOnce(pod, network.Name) {
			r.Events.Event(pod, corev1.EventTypeWarning, v1alpha1.ReasonRangeUsedUp, text)
		}
	}
	return finding{reason: v1alpha1.ReasonRangeUsedUp, text: text, blocks: true}
}

// leftOut says why nodes with pods on the network are no peers, in an Event of each as well.
func (r *Networks) leftOut(network *v1alpha1.TSNNetwork, nodes *nodeSet, used *usage) map[string]error {
	out := map[string]error{}
	for name, err := range nodes.faults {
		if used.onNode[name] == 0 {
			continue
		}
		out[name] = fmt.Errorf("it is not reached on network %s: %w", network.Name, err)
		if r.saidNode[name] != err.Error() {
			r.saidNode[name] = err.Error()
			r.Events.Event(nodes.all[name], corev1.EventTypeWarning, v1alpha1.ReasonTSNNodeLeftOut, out[name].Error())
		}
	}
	maps.DeleteFunc(r.saidNode, func(name, _ string) bool {
		return nodes.all[name] == nil || used.onNode[name] > 0 && out[name] == nil
	})
	return out
}
