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

// usage is who is on a network.
type usage struct {
	// onNode counts the pods on each node, until their objects are gone.
	onNode map[string]int32
	// namespaces counts the pods of each.
	namespaces map[string]int32
	total      int32
	// excluded counts, by namespace, the pods that name the network and may not be on it; keeps has their nodes. They count in none of the
	// fields above.
	excluded map[string]int32
	keeps    map[string]bool
}

func newUsage() *usage {
	return &usage{onNode: map[string]int32{}, namespaces: map[string]int32{}, excluded: map[string]int32{}, keeps: map[string]bool{}}
}

// place is where a pod is: node is "" as long as it has none.
type place struct{ namespace, node string }

// podIndex counts the pods of each network as they come and go, so that nobody counts ten thousand because one was made. Any
// goroutine may use it.
type podIndex struct {
	mu   sync.Mutex
	pods map[types.NamespacedName]*indexed
	used map[string]map[place]int32
	// synced is closed when all pods that there were at the beginning are in it.
	synced chan struct{}
	once   sync.Once
}

// indexed is what the index knows of a pod.
type indexed struct {
	annotation string
	networks   []string
	node       string
	uid        types.UID
	// pod is the cache's own while its node has not attached it yet, else nil.
	pod *corev1.Pod
	// told are the networks of which it was told that they have no place for it.
	told []string
}

func newPodIndex() *podIndex {
	return &podIndex{pods: map[types.NamespacedName]*indexed{}, used: map[string]map[place]int32{}, synced: make(chan struct{})}
}

// namedPods is how many pods a sentence names.
const namedPods = 5

// differences are the networks for which a pod makes one: true where there are now pods on a node or in a namespace that had none,
// or none any more, and false where only the counts are others.
type differences map[string]bool

// set takes in a pod as it is now.
func (p *podIndex) set(pod *corev1.Pod) differences {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	before := p.pods[key]
	now := &indexed{annotation: networksAsked(pod), node: pod.Spec.NodeName, uid: pod.UID}
	if pod.Spec.NodeName != "" && pod.Annotations[podstatus.MultusAnnotation] == "" && pod.DeletionTimestamp == nil {
		now.pod = pod
	}
	if before != nil && before.annotation == now.annotation {
		if before.node == now.node { // it counts as it did
			before.pod, before.uid = now.pod, now.uid
			return nil
		}
		now.networks = before.networks
	} else {
		now.networks, _ = tsnnetwork.NetworksOf(now.annotation) // none where somebody gave it the label by hand
	}
	p.pods[key] = now
	changes := differences{}
	p.count(pod.Namespace, before, -1, changes)
	p.count(pod.Namespace, now, 1, changes)
	return changes
}

// remove takes out a pod that is gone.
func (p *podIndex) remove(key types.NamespacedName) differences {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.pods[key]
	delete(p.pods, key)
	changes := differences{}
	p.count(key.Namespace, before, -1, changes)
	return changes
}

func (p *podIndex) count(namespace string, entry *indexed, by int32, changes differences) {
	if entry == nil {
		return
	}
	for _, name := range entry.networks {
		if p.used[name] == nil {
			p.used[name] = map[place]int32{}
		}
		used, at := p.used[name], place{namespace, entry.node}
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
			used.keeps[at.node] = true
			continue
		}
		used.total += count
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

// excluded are the pods that name a network and are in one of these namespaces, by what an Event needs of them.
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

// names are those of a network's pods in the selected namespaces.
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

// waiting are the pods of a network that these nodes have not attached yet. They are the cache's own.
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

// tellOnce tells whether a pod is to be told that a network has no place for it: it is told once, as long as it is on its node.
func (p *podIndex) tellOnce(pod *corev1.Pod, network string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	entry := p.pods[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]
	if entry == nil || slices.Contains(entry.told, network) {
		return false
	}
	entry.told = append(entry.told, network)
	return true
}

// isSynced is called when all pods that there were at the beginning are in the index.
func (p *podIndex) isSynced() { p.once.Do(func() { close(p.synced) }) }

// some names a few of many.
func some(names []string) []string {
	if len(names) <= namedPods {
		return names
	}
	return append(slices.Clone(names[:namedPods]), fmt.Sprintf("and %d more", len(names)-namedPods))
}

// podSource keeps an index up to date by the events of a cache, and has the networks looked at for which they make a
// difference. Unlike controller-runtime's own source it is in step only when it has taken in each pod of the cache.
type podSource struct {
	cache cache.Cache
	// set and remove are the index's, isSynced tells it that it has all pods.
	set          func(pod *corev1.Pod) differences
	remove       func(key types.NamespacedName) differences
	isSynced     func()
	registration toolscache.ResourceEventHandlerRegistration
}

// Start is called by the controller.
func (s *podSource) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	informer, err := s.cache.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return fmt.Errorf("watch the pods: %w", err)
	}
	look := func(changes differences) {
		for name, another := range changes {
			if another {
				queue.AddAfter(named(name), gather)
			} else {
				queue.AddAfter(named(name), gatherCounts)
			}
		}
	}
	s.registration, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { look(s.set(object.(*corev1.Pod))) },
		UpdateFunc: func(_, object any) { look(s.set(object.(*corev1.Pod))) },
		DeleteFunc: func(object any) {
			key, err := toolscache.DeletionHandlingObjectToName(object)
			if err == nil {
				look(s.remove(key.AsNamespacedName()))
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch the pods: %w", err)
	}
	return nil
}

// WaitForSync is called by the controller before it looks at the first network.
func (s *podSource) WaitForSync(ctx context.Context) error {
	if !toolscache.WaitForCacheSync(ctx.Done(), s.registration.HasSynced) {
		return fmt.Errorf("read the pods: %w", ctx.Err())
	}
	s.isSynced()
	return nil
}
