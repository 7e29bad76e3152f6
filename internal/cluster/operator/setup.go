// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	nettypes "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/ipamclaim"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
	podhook "github.com/kubernetsn/kubernetsn/internal/cluster/webhook"
	"github.com/kubernetsn/kubernetsn/internal/shared/podstatus"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// nodeField is the index of pods by node.
const nodeField = "spec.nodeName"

// schemeBuilder registers the typed objects that the operator reads.
var schemeBuilder = runtime.NewSchemeBuilder(corev1.AddToScheme, nodev1.AddToScheme, networkingv1.AddToScheme, discoveryv1.AddToScheme, admissionv1.AddToScheme, v1alpha1.AddToScheme,
	ipamclaim.AddToScheme)

// AddToScheme registers the typed objects that the operator reads.
func AddToScheme(scheme *runtime.Scheme) error { return schemeBuilder.AddToScheme(scheme) }

// Cache returns the options of the operator's cache: pods on networks only, the hub's heartbeat as the only ConfigMap, and of pods and
// nodes only the fields that the operator reads, and Services with names on networks. nodeLabels are further node labels to keep.
func Cache(namespace string, nodeLabels ...string) cache.Options {
	onNetwork, _ := labels.NewRequirement(v1alpha1.NetworkAnnotation, selection.Exists, nil) // valid
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: {
				Label:     labels.SelectorFromSet(labels.Set{v1alpha1.PodLabel: v1alpha1.LabelValue}),
				Transform: slimPod,
			},
			&corev1.Service{}: {Label: labels.NewSelector().Add(*onNetwork)},
			&corev1.Node{}:    {Transform: slimNode(nodeLabels)},
			&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{
				namespace: {FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, v1alpha1.HubHeartbeat)},
			}},
		},
	}
}

// slimPod keeps only the fields of a pod that the operator reads; clusters have many pods.
func slimPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	annotations := map[string]string{v1alpha1.NetworkAnnotation: pod.Annotations[v1alpha1.NetworkAnnotation]}
	if isMirror(pod) {
		annotations[corev1.MirrorPodAnnotationKey] = "known"
	}
	if podhook.RequestsAddresses(pod) { // the webhook compares them, and the operator assigns static ones
		annotations[nettypes.NetworkAttachmentAnnot] = pod.Annotations[nettypes.NetworkAttachmentAnnot]
	}
	if pod.Annotations[podstatus.MultusAnnotation] != "" {
		annotations[podstatus.MultusAnnotation] = "known"
	}
	slim := &corev1.Pod{
		TypeMeta: pod.TypeMeta, ObjectMeta: slimMeta(&pod.ObjectMeta, annotations, podLabel), Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName},
		Status: corev1.PodStatus{Phase: pod.Status.Phase},
	}
	if links.HasLinkLabel(pod.Labels) { // services may select by any label
		slim.Labels, slim.Status.Conditions = pod.Labels, readiness(pod)
	}
	if isDetached(pod) {
		slim.Status.Conditions = append(slim.Status.Conditions, corev1.PodCondition{Type: v1alpha1.ConditionAttached, Status: corev1.ConditionFalse})
	}
	return slim, nil
}

// readiness returns the Ready condition of a pod, without its message.
func readiness(pod *corev1.Pod) []corev1.PodCondition {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return []corev1.PodCondition{{Type: condition.Type, Status: condition.Status, LastTransitionTime: condition.LastTransitionTime}}
		}
	}
	return nil
}

// slimNode keeps only the fields of a node that the operator reads: addresses, the labels of agents and clocks, and readiness.
func slimNode(labels []string) func(any) (any, error) {
	keep := func(name string) bool { return nodeLabel(name) || slices.Contains(labels, name) }
	return func(object any) (any, error) {
		if node, ok := object.(*corev1.Node); ok {
			return slimNodeObject(node, keep), nil
		}
		return object, nil
	}
}

func slimNodeObject(node *corev1.Node, keep func(label string) bool) *corev1.Node {
	var annotations map[string]string
	if given, has := node.Annotations[v1alpha1.TunnelAddressAnnotation]; has {
		annotations = map[string]string{v1alpha1.TunnelAddressAnnotation: given}
	}
	slim := &corev1.Node{TypeMeta: node.TypeMeta, ObjectMeta: slimMeta(&node.ObjectMeta, annotations, keep)}
	slim.Spec.PodCIDR, slim.Spec.PodCIDRs = node.Spec.PodCIDR, node.Spec.PodCIDRs
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady { // without the heartbeat, which changes each time
			slim.Status.Conditions = []corev1.NodeCondition{{Type: condition.Type, Status: condition.Status, LastTransitionTime: condition.LastTransitionTime}}
		}
	}
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			slim.Status.Addresses = append(slim.Status.Addresses, address)
		}
	}
	return slim
}

// agentSelector selects the agents' pods.
const agentSelector = "app.kubernetes.io/name=kubernetsn,app.kubernetes.io/component=agent"

// podCache returns a cache of the pods that a label selector selects; the manager's cache has only pods on networks.
func podCache(m manager.Manager, selector string, options cache.Options) (cache.Cache, error) {
	parsed, err := labels.Parse(selector)
	if err != nil {
		return nil, err
	}
	options.HTTPClient, options.Scheme, options.Mapper = m.GetHTTPClient(), m.GetScheme(), m.GetRESTMapper()
	options.ByObject = map[client.Object]cache.ByObject{&corev1.Pod{}: {Label: parsed}}
	pods, err := cache.New(m.GetConfig(), options)
	if err != nil {
		return nil, err
	}
	return pods, m.Add(pods)
}

// slimAgent keeps only the node and the readiness of an agent's pod.
func slimAgent(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	slim := &corev1.Pod{TypeMeta: pod.TypeMeta, ObjectMeta: slimMeta(&pod.ObjectMeta, nil, nil), Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName}}
	slim.Status.Conditions = readiness(pod)
	return slim, nil
}

// podLabel and nodeLabel report whether the operator reads a label.
func podLabel(name string) bool { return name == v1alpha1.PodLabel }

func nodeLabel(name string) bool {
	return name == v1alpha1.NodeLabel || strings.HasPrefix(name, v1alpha1.ClockLabelPrefix)
}

// slimMeta keeps the labels for which keep is true; nil keeps none.
func slimMeta(meta *metav1.ObjectMeta, annotations map[string]string, keep func(label string) bool) metav1.ObjectMeta {
	slim := metav1.ObjectMeta{
		Name: meta.Name, Namespace: meta.Namespace, UID: meta.UID, ResourceVersion: meta.ResourceVersion, Annotations: annotations,
		CreationTimestamp: meta.CreationTimestamp, DeletionTimestamp: meta.DeletionTimestamp, Labels: maps.Clone(meta.Labels),
	}
	maps.DeleteFunc(slim.Labels, func(name, _ string) bool { return keep == nil || !keep(name) })
	return slim
}

// Add adds the controllers to a manager.
func Add(ctx context.Context, m manager.Manager, options *Options, nowTAI func() int64) error {
	err := m.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, nodeField, func(object client.Object) []string {
		if name := object.(*corev1.Pod).Spec.NodeName; name != "" {
			return []string{name}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("index pods by node: %w", err)
	}
	shared := newShared(m.GetAPIReader(), newAgentIndex(cmp.Or(options.AgentTimeout, agentTimeout), time.Now))
	shared.minimum, shared.encryptedPort = &options.Minimum, options.EncryptedPort
	agents, err := podCache(m, agentSelector, cache.Options{
		DefaultNamespaces: map[string]cache.Config{options.Namespace: {}}, DefaultTransform: slimAgent,
	})
	if err != nil {
		return fmt.Errorf("watch the agents: %w", err)
	}
	switched, err := switchedSelector(options.SwitchedNodes)
	if err != nil {
		return err
	}
	return errors.Join(addNetworks(m, shared, agents, options, nowTAI), addNodeStates(m, shared), addPeers(m, shared), addNodeLabels(m, options.Linger),
		addClockLabels(m, shared), addWorkloads(m), addNames(m, shared), addClaims(m, shared), addLinks(m, shared, options.Namespace, switched, options.Reserved))
}

const (
	// batchDelay collects events before a reconciliation, so that a thousand pods that are created at once are reconciled together and
	// leave the processor to the webhook.
	batchDelay = 100 * time.Millisecond
	// reportBatchDelay is the same for the agents' reports.
	reportBatchDelay = 500 * time.Millisecond
	// countBatchDelay is the same for pods on nodes that already have pods, and for nodes, because each node may affect all networks.
	countBatchDelay = time.Second
	// nodeWorkers is the number of TSNNodes that are written concurrently.
	nodeWorkers = 8
)

func addNetworks(m manager.Manager, shared *shared, agents cache.Cache, options *Options, nowTAI func() int64) error {
	enqueueAll := enqueueAfter(batchDelay, everyNetwork(m.GetClient()))
	enqueueAllBatched := enqueueAfter(countBatchDelay, everyNetwork(m.GetClient()))
	networks := newNetworks(shared, m.GetClient(), m.GetEventRecorderFor("ktsn-operator"), options.Namespace, nowTAI)
	shared.keys.manual, networks.ranges.container = options.PinManually, options.Reserved
	return ctrl.NewControllerManagedBy(m).Named("networks").
		For(&v1alpha1.TSNNetwork{}).
		// A new or deleted network may conflict with another one.
		Watches(&v1alpha1.TSNNetwork{}, enqueueAll, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(&podSource{cache: m.GetCache(), set: shared.pods.set, remove: shared.pods.remove, markSynced: shared.pods.markSynced}).
		WatchesRawSource(shared.agentSource(agents)).
		Watches(&corev1.Node{}, enqueueAllBatched, builder.WithPredicates(nodeAddressChanged)).
		Watches(&corev1.Node{}, shared.agentLabelHandler(), builder.WithPredicates(activeChanged)).
		Watches(&v1alpha1.TSNNode{}, handler.Funcs{UpdateFunc: shared.observeReport}, builder.WithPredicates(stateChanged)).
		Watches(&v1alpha1.TSNNode{}, enqueueAfter(reportBatchDelay, networksOfNodeState), builder.WithPredicates(stateChanged)).
		Watches(&v1alpha1.TSNNode{}, enqueueAfter(batchDelay, networksOfNodeClock), builder.WithPredicates(clockChanged)).
		Watches(&v1alpha1.TSNPeers{}, enqueueAfter(batchDelay, networkOfPeers), builder.WithPredicates(fromOtherClusters)).
		Watches(&corev1.ConfigMap{}, enqueueAfter(batchDelay, networksMatching(m.GetClient(), spansClusters))).
		Watches(&corev1.Namespace{}, enqueueAll, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Complete(networks)
}

func addNodeStates(m manager.Manager, shared *shared) error {
	return ctrl.NewControllerManagedBy(m).Named("node-states").
		For(&v1alpha1.TSNNode{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Node{}, enqueueAfter(0, sameName), builder.WithPredicates(predicate.Or[client.Object](activeChanged, nodeAddressChanged))).
		WatchesRawSource(source.Func(shared.nodes.start)).
		WithOptions(controller.Options{MaxConcurrentReconciles: nodeWorkers}).
		Complete(newNodeStates(shared, m.GetClient()))
}

func addPeers(m manager.Manager, shared *shared) error {
	return ctrl.NewControllerManagedBy(m).Named("peers").
		For(&v1alpha1.TSNNetwork{}, builder.WithPredicates(predicate.Or[client.Object](encryptionChanged, staticChanged))).
		Watches(&v1alpha1.TSNPeers{}, enqueueAfter(batchDelay, networkOfPeers), builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		Watches(&v1alpha1.TSNNode{}, enqueueAfter(batchDelay, networksOfNodeState), builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, keysChanged))).
		Watches(&corev1.Node{}, enqueueAfter(countBatchDelay, everyNetwork(m.GetClient())), builder.WithPredicates(nodeAddressChanged)).
		Watches(&corev1.Node{}, enqueueAfter(batchDelay, networksOfNode(shared)), builder.WithPredicates(activeChanged)).
		Watches(&corev1.Pod{}, enqueueAfter(batchDelay, networksRequested), builder.WithPredicates(requestsAddresses)).
		Complete(&Peers{Client: m.GetClient(), shared: shared, pace: newPace(time.Now)})
}

// changed ignores updates of an object for which differ is false.
func changed[T client.Object](differ func(before, after T) bool) predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return differ(e.ObjectOld.(T), e.ObjectNew.(T)) }}
}

// fieldChanged ignores updates of an object that do not change the value of field.
func fieldChanged[T client.Object, V any](field func(T) V) predicate.Funcs {
	return changed(func(before, after T) bool { return !equality.Semantic.DeepEqual(field(before), field(after)) })
}

// nodeAddressChanged ignores updates of a node that do not change its tunnel address.
var nodeAddressChanged = changed(func(before, after *corev1.Node) bool {
	return before.UID != after.UID || !slices.Equal(before.Spec.PodCIDRs, after.Spec.PodCIDRs) ||
		before.Annotations[v1alpha1.TunnelAddressAnnotation] != after.Annotations[v1alpha1.TunnelAddressAnnotation] ||
		!slices.Equal(before.Status.Addresses, after.Status.Addresses)
})

// encryptionChanged ignores updates of a network that change neither spec.encryption nor this cluster's key.
var encryptionChanged = fieldChanged(func(network *v1alpha1.TSNNetwork) [2]string {
	return [2]string{network.Spec.Encryption, clusterKeyOf(network)}
})

// staticChanged ignores updates of a network that do not change its static ranges.
var staticChanged = fieldChanged(func(network *v1alpha1.TSNNetwork) string { return fmt.Sprint(tsnnetwork.Static(network)) })

// requestsAddresses ignores pods that request no addresses, and did not before.
var requestsAddresses = func() predicate.Funcs {
	requests := func(object client.Object) bool { return podhook.RequestsAddresses(object.(*corev1.Pod)) }
	funcs := predicate.NewPredicateFuncs(requests)
	funcs.UpdateFunc = func(e event.UpdateEvent) bool { return requests(e.ObjectOld) || requests(e.ObjectNew) }
	return funcs
}()

// clusterKeyOf returns this cluster's key from the network's status, "" for none.
func clusterKeyOf(network *v1alpha1.TSNNetwork) string {
	for _, key := range network.Status.ClusterKeys {
		if key.Cluster == "" {
			return key.PublicKey
		}
	}
	return ""
}

// keysChanged ignores updates of a TSNNode that do not change its encryption keys.
var keysChanged = fieldChanged(func(node *v1alpha1.TSNNode) v1alpha1.TSNNodeStatus {
	return v1alpha1.TSNNodeStatus{Keys: node.Status.Keys, Sender: node.Status.Sender, EncryptionUnavailable: node.Status.EncryptionUnavailable}
})

// fromOtherClusters ignores this cluster's TSNPeers.
var fromOtherClusters = predicate.NewPredicateFuncs(func(object client.Object) bool { return object.(*v1alpha1.TSNPeers).Spec.Cluster != "" })

// activeChanged ignores updates of a node that do not add or remove its agent.
var activeChanged = fieldChanged(active)

// stateChanged ignores updates of a TSNNode by the operator itself.
var stateChanged = fieldChanged(func(node *v1alpha1.TSNNode) v1alpha1.TSNNodeStatus { return node.Status })

// enqueueAfter enqueues the named objects after a delay, once for all events until then.
func enqueueAfter(delay time.Duration, names func(context.Context, client.Object) []string) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(ctx context.Context, object client.Object, q queue) {
		for _, name := range names(ctx, object) {
			if name != "" {
				q.AddAfter(requestFor(name), delay)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { enqueue(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			enqueue(ctx, e.ObjectOld, q)
			enqueue(ctx, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, e.Object, q) },
	}
}

// everyNetwork returns a function that lists the names of all networks.
func everyNetwork(reader client.Reader) func(context.Context, client.Object) []string {
	return networksMatching(reader, func(*v1alpha1.TSNNetwork) bool { return true })
}

// networksMatching returns a function that lists the names of the networks for which matches is true.
func networksMatching(reader client.Reader, matches func(*v1alpha1.TSNNetwork) bool) func(context.Context, client.Object) []string {
	return func(ctx context.Context, _ client.Object) (names []string) {
		all := listCached(ctx, reader, &v1alpha1.TSNNetworkList{}).Items
		for i := range all {
			if matches(&all[i]) {
				names = append(names, all[i].Name)
			}
		}
		return names
	}
}

// listCached lists objects of a synced cache, which does not fail. They are shared with the cache: read only.
func listCached[List client.ObjectList](ctx context.Context, reader client.Reader, list List) List {
	_ = reader.List(ctx, list, client.UnsafeDisableDeepCopy)
	return list
}

// networkOfPeers returns the network of TSNPeers.
func networkOfPeers(_ context.Context, peers client.Object) []string {
	return []string{peers.GetLabels()[v1alpha1.NetworkLabel]}
}

// sameName returns the name of an object, for controllers whose objects have the names of others.
func sameName(_ context.Context, object client.Object) []string { return []string{object.GetName()} }

// networksOfNode returns a function that lists the networks of which a node has a subnet.
func networksOfNode(shared *shared) func(context.Context, client.Object) []string {
	return func(_ context.Context, node client.Object) []string {
		return slices.Collect(maps.Keys(shared.subnets.forNode(node.GetName())))
	}
}

// networksOfNodeState lists the networks in the spec or the status of a TSNNode.
func networksOfNodeState(_ context.Context, object client.Object) []string {
	state := object.(*v1alpha1.TSNNode)
	var names []string
	for _, network := range state.Spec.Networks {
		names = append(names, network.Name)
	}
	for _, network := range state.Status.Networks {
		if !slices.Contains(names, network.Name) {
			names = append(names, network.Name)
		}
	}
	return names
}

// networksOfNodeClock lists these networks and the one whose schedule the node executes.
func networksOfNodeClock(ctx context.Context, object client.Object) []string {
	return append(networksOfNodeState(ctx, object), object.(*v1alpha1.TSNNode).Spec.Gates)
}

// nodesOfPods returns a function that lists the nodes of the pods that match an object's name.
func nodesOfPods(reader client.Reader, matches func(pod *corev1.Pod, name string) bool) func(context.Context, client.Object) []string {
	return func(ctx context.Context, object client.Object) []string {
		nodes := map[string]bool{}
		pods := listCached(ctx, reader, &corev1.PodList{}).Items
		for i := range pods {
			if matches(&pods[i], object.GetName()) {
				nodes[pods[i].Spec.NodeName] = true
			}
		}
		return slices.Collect(maps.Keys(nodes))
	}
}

func addNodeLabels(m manager.Manager, linger time.Duration) error {
	nodeOfPod := enqueueAfter(0, func(_ context.Context, object client.Object) []string {
		return []string{object.(*corev1.Pod).Spec.NodeName}
	})
	nodeAssigned := fieldChanged(func(pod *corev1.Pod) string { return pod.Spec.NodeName })
	return ctrl.NewControllerManagedBy(m).Named("node-labels").
		For(&corev1.Node{}, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&corev1.Pod{}, nodeOfPod, builder.WithPredicates(nodeAssigned)).
		Watches(&corev1.Namespace{}, enqueueAfter(batchDelay, nodesOfPods(m.GetClient(), func(pod *corev1.Pod, namespace string) bool {
			return pod.Namespace == namespace
		})), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&v1alpha1.TSNNetwork{}, enqueueAfter(batchDelay, nodesOfPods(m.GetClient(), func(pod *corev1.Pod, network string) bool {
			return strings.Contains(networksAsked(pod), network)
		})), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(&NodeLabels{Client: m.GetClient(), Linger: linger, Now: time.Now})
}
