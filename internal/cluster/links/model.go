// SPDX-License-Identifier: Apache-2.0

package links

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// Pod is a pod with link labels.
type Pod struct {
	Namespace, Name, UID string
	// Cluster is the pod's cluster, if pods of several clusters are linked. spec.prefer uses it.
	Cluster string
	// Node is "" until the pod is scheduled.
	Node   string
	Labels map[string]string
	// Ready is the pod's readiness. Deleting is set while it is being deleted, Ended when its containers have ended for good.
	Ready, Deleting, Ended bool
	// Links is the number of links to the pod that are not in Input.Links.
	Links int32
}

// FullName returns NAMESPACE/NAME.
func (p *Pod) FullName() string { return p.Namespace + "/" + p.Name }

// Node is a node of the cluster.
type Node struct {
	// Address is its tunnel address.
	Address netip.Addr
	// Ready is set if its kubelet is ready.
	Ready bool
	// Unfit is the reason why no link can end there, "" if one can.
	Unfit string
	// MTU is the largest MTU of links' interfaces in bytes, 0 if unknown.
	MTU int32
	// Keys are its keys as signed by its cluster, nil if no link needs encryption.
	Keys *v1alpha1.LinkNodeKeys
}

// Input is the input of Plan, which does not modify it.
type Input struct {
	Services   []v1alpha1.TSNService
	Pods       []Pod
	Nodes      map[string]Node
	Links      []v1alpha1.TSNLink
	Networks   []v1alpha1.TSNNetwork
	Namespaces map[string]map[string]string // labels by name
	// Reserved are the cluster's own ranges.
	Reserved []Reserved
	// Released are recently deleted links, whose VNIs and addresses nodes may still have.
	Released []v1alpha1.TSNLink
	// Failed are pairs of pods whose link did not come up.
	Failed Failures
	Now    time.Time
	// Maker is the maker whose links are planned, the operator by default. Links of other makers are not changed.
	Maker string
	// FirstInterface is the first number of endpoints' interfaces. It differs between makers, so that they need not know each other's links.
	FirstInterface int
}

// Pair is the UIDs of a client and an endpoint.
type Pair struct{ Client, Endpoint string }

// Failures has the time until which each pair is avoided.
type Failures map[Pair]time.Time

// Removal is a link to delete.
type Removal struct {
	Link *v1alpha1.TSNLink
	Why  string
}

// Finding is a message about a service or a pod for its owner.
type Finding struct {
	Reason, Text string
}

// ServicePlan is the status of a service.
type ServicePlan struct {
	// Status has no conditions yet.
	Status v1alpha1.TSNServiceStatus
	// Findings are the differences from the service's spec, the most important first.
	Findings []Finding
}

// Result is the result of Plan.
type Result struct {
	// Delete must be applied before Make: a new link may have the name of a deleted one.
	Delete []Removal
	// Make are new links. Change are links whose routes, names, node addresses or settings change.
	Make, Change []v1alpha1.TSNLink
	// Admitted are links of other makers with an end in the cluster.
	Admitted []Admission
	// Services by namespace and name.
	Services map[Key]*ServicePlan
	// Pods are findings by the pods' UIDs.
	Pods map[string][]Finding
	// Failed is the Input.Failed of the next plan.
	Failed Failures
	// RequeueAfter is when time alone changes the plan, 0 for never.
	RequeueAfter time.Duration
}

// RangeExhausted reports whether a client has no link because no VNI or address is left.
func (r *Result) RangeExhausted() bool {
	for _, service := range r.Services {
		if slices.ContainsFunc(service.Findings, func(finding Finding) bool { return finding.Reason == v1alpha1.ReasonRangeUsedUp }) {
			return true
		}
	}
	return false
}

// Key identifies a service.
type Key = types.NamespacedName

func keyOf(service *v1alpha1.TSNService) Key {
	return Key{Namespace: service.Namespace, Name: service.Name}
}

// byAge sorts services from the oldest to the youngest: the older one wins a conflict.
func byAge(services []v1alpha1.TSNService) []*v1alpha1.TSNService {
	sorted := make([]*v1alpha1.TSNService, len(services))
	for i := range services {
		sorted[i] = &services[i]
	}
	slices.SortFunc(sorted, func(a, b *v1alpha1.TSNService) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return sorted
}

func sortedKeys[Value any](m map[string]Value) []string {
	return slices.Sorted(maps.Keys(m))
}
