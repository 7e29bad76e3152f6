// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
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
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
	"github.com/kubernetsn/kubernetsn/internal/shared/podstatus"
)

// nodeField is the index of pods by their node.
const nodeField = "spec.nodeName"

// AddToScheme makes known all that the operator reads with types.
func AddToScheme(scheme *runtime.Scheme) error {
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	if err := nodev1.AddToScheme(scheme); err != nil {
		return err
	}
	if err := networkingv1.AddToScheme(scheme); err != nil {
		return err
	}
	return v1alpha1.AddToScheme(scheme)
}

// Cache is what the operator keeps of a cluster: of pods only those on networks, of its namespace's ConfigMaps only the hub's heartbeat, and of all only
// what it reads.
// Node labels that the cache keeps in addition to the operator's own.
func Cache(namespace string, nodeLabels ...string) cache.Options {
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: {
				Label:     labels.SelectorFromSet(labels.Set{v1alpha1.PodLabel: v1alpha1.LabelValue}),
				Transform: slimPod,
			},
			&corev1.Node{}: {Transform: slimNode(nodeLabels)},
			&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{
				namespace: {FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, v1alpha1.HubHeartbeat)},
			}},
		},
	}
}

// slimPod keeps of a pod what the operator reads; clusters have many.
func slimPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	annotations := map[string]string{v1alpha1.NetworkAnnotation: pod.Annotations[v1alpha1.NetworkAnnotation]}
	if isMirror(pod) {
		annotations[corev1.MirrorPodAnnotationKey] = "known"
	}
	if pod.Annotations[podstatus.MultusAnnotation] != "" {
		annotations[podstatus.MultusAnnotation] = "known"
	}
	slim := &corev1.Pod{
		TypeMeta: pod.TypeMeta, ObjectMeta: slimMeta(&pod.ObjectMeta, annotations, podLabel), Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName},
	}
	if links.HasLinkLabel(pod.Labels) { // services may select by any of its labels
		slim.Labels, slim.Status.Phase, slim.Status.Conditions = pod.Labels, pod.Status.Phase, readiness(pod)
	}
	return slim, nil
}

// readiness is the condition by which a pod is ready.
func readiness(pod *corev1.Pod) []corev1.PodCondition {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return []corev1.PodCondition{{Type: condition.Type, Status: condition.Status, LastTransitionTime: condition.LastTransitionTime}}
		}
	}
	return nil
}

// slimNode keeps of a node what says where its tunnels end, whether it has an agent, of what networks its clock is too bad, and whether
// its kubelet answers.
func slimNode(labels []string) func(any) (any, error) {
	keep := func(name string) bool { return nodeLabel(name) || slices.Contains(labels, name) }
	return func(object any) (any, error) {
		if node, ok := object.(*corev1.Node); ok {
			return slimOf(node, keep), nil
		}
		return object, nil
	}
}

func slimOf(node *corev1.Node, keep func(label string) bool) *corev1.Node {
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

// agentSelector selects the pods of agents.
const agentSelector = "app.kubernetes.io/name=kubernetsn,app.kubernetes.io/component=agent"

// agentPods is a cache of the pods of agents. The manager's own cache has pods on networks, and no others.
func agentPods(m manager.Manager, namespace string) (cache.Cache, error) {
	selector, err := labels.Parse(agentSelector)
	if err != nil {
		return nil, err
	}
	pods, err := cache.New(m.GetConfig(), cache.Options{
		HTTPClient: m.GetHTTPClient(), Scheme: m.GetScheme(), Mapper: m.GetRESTMapper(),
		DefaultNamespaces: map[string]cache.Config{namespace: {}},
		ByObject:          map[client.Object]cache.ByObject{&corev1.Pod{}: {Label: selector, Transform: slimAgent}},
	})
	if err != nil {
		return nil, err
	}
	return pods, m.Add(pods)
}

// slimAgent keeps of an agent's pod where it is and whether it is ready.
func slimAgent(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	slim := &corev1.Pod{TypeMeta: pod.TypeMeta, ObjectMeta: slimMeta(&pod.ObjectMeta, nil, nil), Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName}}
	slim.Status.Conditions = readiness(pod)
	return slim, nil
}

// podLabel and nodeLabel tell which labels are read.
func podLabel(name string) bool { return name == v1alpha1.PodLabel }

func nodeLabel(name string) bool {
	return name == v1alpha1.NodeLabel || strings.HasPrefix(name, v1alpha1.ClockLabelPrefix)
}

// slimMeta keeps some labels; nil: none.
func slimMeta(meta *metav1.ObjectMeta, annotations map[string]string, keep func(label string) bool) metav1.ObjectMeta {
	slim := metav1.ObjectMeta{
		Name: meta.Name, Namespace: meta.Namespace, UID: meta.UID, ResourceVersion: meta.ResourceVersion, Annotations: annotations,
		CreationTimestamp: meta.CreationTimestamp, DeletionTimestamp: meta.DeletionTimestamp,
	}
	for name, value := range meta.Labels {
		if keep == nil || !keep(name) {
			continue
		}
		if slim.Labels == nil {
			slim.Labels = map[string]string{}
		}
		slim.Labels[name] = value
	}
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
	shared := newShared(m.GetAPIReader(), newAgentIndex(cmp.Or(options.AgentPatience, agentPatience), time.Now))
	shared.minimum = &options.Minimum
	agents, err := agentPods(m, options.Namespace)
	if err != nil {
		return fmt.Errorf("watch the agents: %w", err)
	}
	if err := addNetworks(m, shared, agents, options, nowTAI); err != nil {
		return fmt.Errorf("watch the networks: %w", err)
	}
	if err := addNodeStates(m, shared); err != nil {
		return fmt.Errorf("watch the TSNNodes: %w", err)
	}
	if err := addPeers(m, shared); err != nil {
		return fmt.Errorf("watch the peers: %w", err)
	}
	if err := addNodeLabels(m, options.Linger); err != nil {
		return fmt.Errorf("watch the nodes: %w", err)
	}
	if err := addClockLabels(m, shared); err != nil {
		return fmt.Errorf("watch the nodes' clocks: %w", err)
	}
	if err := addWorkloads(m); err != nil {
		return fmt.Errorf("watch the workloads: %w", err)
	}
	switched, err := switchedSelector(options.SwitchedNodes)
	if err != nil {
		return err
	}
	if err := addLinks(m, shared, options.Namespace, switched, options.Reserved); err != nil {
		return fmt.Errorf("watch the links: %w", err)
	}
	return nil
}

const (
	// gather is for how long events wait for more of them: a thousand pods that are made at once are looked at together, and do not
	// take the processor from the webhook.
	gather = 100 * time.Millisecond
	// gatherReports is the same for what agents say.
	gatherReports = 500 * time.Millisecond
	// gatherCounts is the same for pods on nodes that have others, and for nodes, of which each may concern each network.
	gatherCounts = time.Second
	// nodeWorkers is how many TSNNodes are written at a time.
	nodeWorkers = 8
)

func addNetworks(m manager.Manager, shared *shared, agents cache.Cache, options *Options, nowTAI func() int64) error {
	every := later(gather, everyNetwork(m.GetClient()))
	gathered := later(gatherCounts, everyNetwork(m.GetClient()))
	networks := newNetworks(shared, m.GetClient(), m.GetEventRecorderFor("ktsn-operator"), options.Namespace, nowTAI)
	shared.keys.manual = options.PinManually
	return ctrl.NewControllerManagedBy(m).Named("networks").
		For(&v1alpha1.TSNNetwork{}).
		// A new or deleted network may conflict with another one.
		Watches(&v1alpha1.TSNNetwork{}, every, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(&podSource{cache: m.GetCache(), set: shared.pods.set, remove: shared.pods.remove, isSynced: shared.pods.isSynced}).
		WatchesRawSource(shared.agentSource(agents)).
		Watches(&corev1.Node{}, gathered, builder.WithPredicates(nodeMoves)).
		Watches(&corev1.Node{}, shared.expected(), builder.WithPredicates(activeChanged)).
		Watches(&v1alpha1.TSNNode{}, handler.Funcs{UpdateFunc: shared.heard}, builder.WithPredicates(stateChanged)).
		Watches(&v1alpha1.TSNNode{}, later(gatherReports, networksOfState), builder.WithPredicates(stateChanged)).
		Watches(&v1alpha1.TSNNode{}, later(gather, networksOfClock), builder.WithPredicates(clockChanged)).
		Watches(&v1alpha1.TSNPeers{}, later(gather, func(_ context.Context, object client.Object) []string {
			return []string{object.GetLabels()[v1alpha1.NetworkLabel]}
		}), builder.WithPredicates(ofOthers)).
		Watches(&corev1.ConfigMap{}, later(gather, networksThat(m.GetClient(), stretched))).
		Watches(&corev1.Namespace{}, every, builder.WithPredicates(predicate.Or[client.Object](predicate.LabelChangedPredicate{}, comesOrGoes))).
		Complete(networks)
}

func addNodeStates(m manager.Manager, shared *shared) error {
	eventHandler := later(0, func(_ context.Context, object client.Object) []string { return []string{object.GetName()} })
	return ctrl.NewControllerManagedBy(m).Named("node-states").
		For(&v1alpha1.TSNNode{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Node{}, eventHandler, builder.WithPredicates(predicate.Or[client.Object](activeChanged, nodeMoves))).
		WatchesRawSource(source.Func(shared.nodes.start)).
		WithOptions(controller.Options{MaxConcurrentReconciles: nodeWorkers}).
		Complete(newNodeStates(shared, m.GetClient()))
}

func addPeers(m manager.Manager, shared *shared) error {
	network := later(gather, func(_ context.Context, object client.Object) []string {
		return []string{object.GetLabels()[v1alpha1.NetworkLabel]}
	})
	return ctrl.NewControllerManagedBy(m).Named("peers").
		For(&v1alpha1.TSNNetwork{}, builder.WithPredicates(predicate.Or[client.Object](comesOrGoes, encryptionChanged, ownKeyChanged))).
		Watches(&v1alpha1.TSNPeers{}, network, builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		Watches(&v1alpha1.TSNNode{}, later(gather, networksOfState), builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, keysChanged))).
		Watches(&corev1.Node{}, later(gatherCounts, everyNetwork(m.GetClient())), builder.WithPredicates(nodeMoves)).
		Watches(&corev1.Node{}, later(gather, networksOfNode(shared)), builder.WithPredicates(activeChanged)).
		Complete(&Peers{Client: m.GetClient(), shared: shared, pace: newPace(time.Now)})
}

// comesOrGoes leaves out changes.
var comesOrGoes = predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}

// nodeMoves leaves out changes of a node after which its tunnels end where they did.
var nodeMoves = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
	return before.UID != after.UID || !slices.Equal(before.Spec.PodCIDRs, after.Spec.PodCIDRs) ||
		before.Annotations[v1alpha1.TunnelAddressAnnotation] != after.Annotations[v1alpha1.TunnelAddressAnnotation] ||
		!slices.Equal(before.Status.Addresses, after.Status.Addresses)
}}

// encryptionChanged leaves out changes of a network after which it is as encrypted as before.
var encryptionChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return e.ObjectOld.(*v1alpha1.TSNNetwork).Spec.Encryption != e.ObjectNew.(*v1alpha1.TSNNetwork).Spec.Encryption
}}

// ownKeyChanged leaves out changes of a network after which this cluster's key is the same.
var ownKeyChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return ownKeyOf(e.ObjectOld.(*v1alpha1.TSNNetwork)) != ownKeyOf(e.ObjectNew.(*v1alpha1.TSNNetwork))
}}

// ownKeyOf is this cluster's key, as nodes of a network are told.
func ownKeyOf(network *v1alpha1.TSNNetwork) string {
	for _, key := range network.Status.ClusterKeys {
		if key.Cluster == "" {
			return key.PublicKey
		}
	}
	return ""
}

// keysChanged leaves out changes of what a node says after which it encrypts as before.
var keysChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := &e.ObjectOld.(*v1alpha1.TSNNode).Status, &e.ObjectNew.(*v1alpha1.TSNNode).Status
	return !equality.Semantic.DeepEqual(before.Keys, after.Keys) || !equality.Semantic.DeepEqual(before.Sender, after.Sender) ||
		before.EncryptionUnavailable != after.EncryptionUnavailable
}}

// ofOthers leaves out this cluster's TSNPeers.
var ofOthers = predicate.NewPredicateFuncs(func(object client.Object) bool { return object.(*v1alpha1.TSNPeers).Spec.Cluster != "" })

// activeChanged leaves out changes of a node after which there is an agent as before.
var activeChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return active(e.ObjectOld.(*corev1.Node)) != active(e.ObjectNew.(*corev1.Node))
}}

// stateChanged leaves out what the operator itself has written.
var stateChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return !equality.Semantic.DeepEqual(e.ObjectOld.(*v1alpha1.TSNNode).Status, e.ObjectNew.(*v1alpha1.TSNNode).Status)
}}

// later has objects looked at by their names after a while, and once for all events until then.
func later(delay time.Duration, names func(context.Context, client.Object) []string) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	ask := func(ctx context.Context, object client.Object, q queue) {
		for _, name := range names(ctx, object) {
			if name != "" {
				q.AddAfter(named(name), delay)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { ask(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			ask(ctx, e.ObjectOld, q)
			ask(ctx, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { ask(ctx, e.Object, q) },
	}
}

// everyNetwork names the networks of a cache.
func everyNetwork(reader client.Reader) func(context.Context, client.Object) []string {
	return networksThat(reader, func(*v1alpha1.TSNNetwork) bool { return true })
}

// networksThat names those for which a function is true.
func networksThat(reader client.Reader, matches func(*v1alpha1.TSNNetwork) bool) func(context.Context, client.Object) []string {
	return func(ctx context.Context, _ client.Object) []string {
		var all v1alpha1.TSNNetworkList
		if err := reader.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
			return nil // of the cache, which has them
		}
		var names []string
		for i := range all.Items {
			if matches(&all.Items[i]) {
				names = append(names, all.Items[i].Name)
			}
		}
		return names
	}
}

// networksOfNode names the networks of which a node has a part.
func networksOfNode(shared *shared) func(context.Context, client.Object) []string {
	return func(_ context.Context, node client.Object) []string {
		return slices.Collect(maps.Keys(shared.parts.ofNode(node.GetName())))
	}
}

// networksOfState names the networks of which a node has a part, or says something.
func networksOfState(_ context.Context, object client.Object) []string {
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

// networksOfClock names those, and the one whose schedule the node executes.
func networksOfClock(ctx context.Context, object client.Object) []string {
	return append(networksOfState(ctx, object), object.(*v1alpha1.TSNNode).Spec.Gates)
}

// nodesOfPods names the nodes of the pods that an object, by its name, is about.
func nodesOfPods(reader client.Reader, about func(pod *corev1.Pod, name string) bool) func(context.Context, client.Object) []string {
	return func(ctx context.Context, object client.Object) []string {
		var pods corev1.PodList
		if err := reader.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
			return nil // of the cache, which has them
		}
		nodes := map[string]bool{}
		for i := range pods.Items {
			if about(&pods.Items[i], object.GetName()) {
				nodes[pods.Items[i].Spec.NodeName] = true
			}
		}
		return slices.Collect(maps.Keys(nodes))
	}
}

func addNodeLabels(m manager.Manager, linger time.Duration) error {
	nodeOfPod := later(0, func(_ context.Context, object client.Object) []string {
		if name := object.(*corev1.Pod).Spec.NodeName; name != "" {
			return []string{name}
		}
		return nil
	})
	moves := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.(*corev1.Pod).Spec.NodeName != e.ObjectNew.(*corev1.Pod).Spec.NodeName
	}}
	return ctrl.NewControllerManagedBy(m).Named("node-labels").
		For(&corev1.Node{}, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&corev1.Pod{}, nodeOfPod, builder.WithPredicates(moves)).
		Watches(&corev1.Namespace{}, later(gather, nodesOfPods(m.GetClient(), func(pod *corev1.Pod, namespace string) bool {
			return pod.Namespace == namespace
		})), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&v1alpha1.TSNNetwork{}, later(gather, nodesOfPods(m.GetClient(), func(pod *corev1.Pod, network string) bool {
			return strings.Contains(networksAsked(pod), network)
		})), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(&NodeLabels{Client: m.GetClient(), Linger: linger, Now: time.Now})
}
