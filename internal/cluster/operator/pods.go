// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/internal/shared/podstatus"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

// usage counts the pods on a network.
type usage struct {
	// onNode counts the pods on each node, until their objects are gone.
	onNode map[string]int32
	// namespaces counts the pods of each namespace.
	namespaces map[string]int32
	total      int32
	// detached counts those in total that have no interface on a network of theirs.
	detached int32
	// excluded counts, by namespace, the pods that name the network and may not be on it; retained has their nodes. They are not counted in
	// the fields above.
	excluded map[string]int32
	retained map[string]bool
}

func newUsage() *usage {
	return &usage{onNode: map[string]int32{}, namespaces: map[string]int32{}, excluded: map[string]int32{}, retained: map[string]bool{}}
}

// place is a pod's namespace and node; node is "" until the pod is scheduled. detached means that its interface is missing.
type place struct {
	namespace, node string
	detached        bool
}

// podIndex counts the pods of each network incrementally, so that one new pod does not cost a count of ten thousand. It is safe for
// concurrent use.
type podIndex struct {
	mu   sync.Mutex
	pods map[types.NamespacedName]*podEntry
	used map[string]map[place]int32
	// synced is closed when the index has all pods of the initial list.
	synced chan struct{}
	once   sync.Once
}

// podEntry is the index's entry of a pod.
type podEntry struct {
	annotation string
	networks   []string
	node       string
	detached   bool
	uid        types.UID
	// pod is the cache's object until its node has attached it, then nil.
	pod *corev1.Pod
	// reported are the keys for which the pod has had an Event.
	reported []string
}

func newPodIndex() *podIndex {
	return &podIndex{pods: map[types.NamespacedName]*podEntry{}, used: map[string]map[place]int32{}, synced: make(chan struct{})}
}

// maxListed is how many names a message lists.
const maxListed = 5

// differences are the networks that a change of a pod affects: true if a node or a namespace has its first pod or lost its last one,
// false if only counts change.
type differences map[string]bool

// set adds or updates a pod.
func (p *podIndex) set(pod *corev1.Pod) differences {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	before := p.pods[key]
	current := &podEntry{annotation: networksAsked(pod), node: pod.Spec.NodeName, detached: isDetached(pod), uid: pod.UID}
	if pod.Spec.NodeName != "" && pod.Annotations[podstatus.MultusAnnotation] == "" && pod.DeletionTimestamp == nil {
		current.pod = pod
	}
	if before != nil && before.annotation == current.annotation {
		if before.node == current.node && before.detached == current.detached { // the counts do not change
			before.pod, before.uid = current.pod, current.uid
			return nil
		}
		current.networks = before.networks
	} else {
		current.networks, _ = tsnnetwork.NetworksOf(current.annotation) // none if the label was set by hand
	}
	p.pods[key] = current
	changes := differences{}
	p.count(pod.Namespace, before, -1, changes)
	p.count(pod.Namespace, current, 1, changes)
	return changes
}

// isDetached reports whether the agent of the pod's node has found that an interface of the pod is missing.
func isDetached(pod *corev1.Pod) bool {
	condition := podstatus.Attached(pod)
	return condition != nil && condition.Status == corev1.ConditionFalse
}

// remove removes a deleted pod.
func (p *podIndex) remove(key types.NamespacedName) differences {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.pods[key]
	delete(p.pods, key)
	changes := differences{}
	p.count(key.Namespace, before, -1, changes)
	return changes
}

func (p *podIndex) count(namespace string, entry *podEntry, by int32, changes differences) {
	if entry == nil {
		return
	}
	for _, name := range entry.networks {
		if p.used[name] == nil {
			p.used[name] = map[place]int32{}
		}
		used, at := p.used[name], place{namespace, entry.node, entry.detached}
		before := used[at]
		if used[at] += by; used[at] == 0 {
			delete(used, at)
		}
		changes[name] = changes[name] || before == 0 || before+by == 0
		if len(used) == 0 {
			delete(p.used, name)
		}
	}
}

// usage counts the pods of a network in the selected namespaces.
func (p *podIndex) usage(network string, namespaces namespaceSet) *usage {
	p.mu.Lock()
	defer p.mu.Unlock()
	used := newUsage()
	for at, count := range p.used[network] {
		if !namespaces.has(at.namespace) {
			used.excluded[at.namespace] += count
			used.retained[at.node] = true
			continue
		}
		used.total += count
		if at.detached {
			used.detached += count
		}
		used.namespaces[at.namespace] += count
		if at.node != "" {
			used.onNode[at.node] += count
		}
	}
	return used
}

// onNode counts a node's pods on a network, of the selected namespaces.
func (p *podIndex) onNode(network, node string, namespaces namespaceSet) (total int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at, count := range p.used[network] {
		if at.node == node && namespaces.has(at.namespace) {
			total += count
		}
	}
	return total
}

// excluded returns the pods that name a network and are in one of the namespaces, with the fields that an Event needs.
func (p *podIndex) excluded(network string, namespaces map[string]int32) (pods []*corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, pod := range p.pods {
		if namespaces[key.Namespace] > 0 && slices.Contains(pod.networks, network) {
			pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: pod.uid}})
		}
	}
	return pods
}

// names returns the sorted names of a network's pods in the selected namespaces.
func (p *podIndex) names(network string, namespaces namespaceSet) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for key, pod := range p.pods {
		if namespaces.has(key.Namespace) && slices.Contains(pod.networks, network) {
			names = append(names, key.Namespace+"/"+key.Name)
		}
	}
	slices.Sort(names)
	return names
}

// waiting returns the pods of a network that the nodes have not attached yet. They are shared with the cache: read only.
func (p *podIndex) waiting(network string, nodes []string) []*corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	var waiting []*corev1.Pod
	for _, pod := range p.pods {
		if pod.pod != nil && slices.Contains(pod.networks, network) && slices.Contains(nodes, pod.node) {
			waiting = append(waiting, pod.pod)
		}
	}
	return waiting
}

// markReported returns true the first time it is called for a pod and a key, as long as the pod is on its node.
func (p *podIndex) markReported(pod *corev1.Pod, network string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	entry := p.pods[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]
	if entry == nil || slices.Contains(entry.reported, network) {
		return false
	}
	entry.reported = append(entry.reported, network)
	return true
}

// markSynced is called when the index has all pods of the initial list.
func (p *podIndex) markSynced() { p.once.Do(func() { close(p.synced) }) }

// abbreviate returns the first names and how many more there are.
func abbreviate(names []string) []string {
	if len(names) <= maxListed {
		return names
	}
	return append(slices.Clone(names[:maxListed]), fmt.Sprintf("and %d more", len(names)-maxListed))
}

// podSource updates an index from the events of a cache, and enqueues the networks that they affect. Unlike controller-runtime's
// source.Kind it is synced only when the index has each pod of the cache.
type podSource struct {
	cache cache.Cache
	// set, remove and markSynced are methods of the index.
	set          func(pod *corev1.Pod) differences
	remove       func(key types.NamespacedName) differences
	markSynced   func()
	registration toolscache.ResourceEventHandlerRegistration
}

// Start registers the event handlers.
func (s *podSource) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	informer, err := s.cache.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return fmt.Errorf("watch the pods: %w", err)
	}
	enqueue := func(changes differences) {
		for name, structural := range changes {
			delay := countBatchDelay
			if structural {
				delay = batchDelay
			}
			queue.AddAfter(requestFor(name), delay)
		}
	}
	s.registration, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { enqueue(s.set(object.(*corev1.Pod))) },
		UpdateFunc: func(_, object any) { enqueue(s.set(object.(*corev1.Pod))) },
		DeleteFunc: func(object any) {
			key, err := toolscache.DeletionHandlingObjectToName(object)
			if err == nil {
				enqueue(s.remove(key.AsNamespacedName()))
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch the pods: %w", err)
	}
	return nil
}

// WaitForSync waits for all pods of the initial list, before the controller's first reconciliation.
func (s *podSource) WaitForSync(ctx context.Context) error {
	if !toolscache.WaitForCacheSync(ctx.Done(), s.registration.HasSynced) {
		return fmt.Errorf("read the pods: %w", ctx.Err())
	}
	s.markSynced()
	return nil
}
