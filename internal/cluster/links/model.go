// SPDX-License-Identifier: Apache-2.0

package links

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// Pod is one with labels of links.
type Pod struct {
	Namespace, Name, UID string
	// Cluster is that of the pod, where pods of several are linked. Preference counts it.
	Cluster string
	// Node is "" before the pod has one.
	Node   string
	Labels map[string]string
	// Ready tells whether it serves, Going whether it is being deleted, Ended whether its containers have ended for good.
	Ready, Going, Ended bool
	// Links is how many lead to the pod that are not among Input.Links.
	Links int32
}

// Full is the pod's name with its namespace.
func (p *Pod) Full() string { return p.Namespace + "/" + p.Name }

// Node is where pods run.
type Node struct {
	// Address is where its tunnels end.
	Address netip.Addr
	// Ready tells whether its kubelet answers.
	Ready bool
	// Unfit says why no link can end there, "" if one can.
	Unfit string
	// MTU is the most that interfaces of links can have, 0: not known.
	MTU int32
	// Keys are what its cluster says of its keys, nil where no link asks for encryption.
	Keys *v1alpha1.LinkNodeKeys
}

// Input is what there is. Plan changes nothing of it.
type Input struct {
	Services   []v1alpha1.TSNService
	Pods       []Pod
	Nodes      map[string]Node
	Links      []v1alpha1.TSNLink
	Networks   []v1alpha1.TSNNetwork
	Namespaces map[string]map[string]string // labels by name
	// Reserved are ranges of the cluster's own.
	Reserved []Reserved
	// Released are links that were deleted a moment ago, whose numbers and addresses nodes may still have.
	Released []v1alpha1.TSNLink
	// Failed are pairs of pods between which a link did not come up, and until when that counts.
	Failed Failures
	Now    time.Time
	// Maker is whose links are planned, the operator's by default. Those of another stay as they are.
	Maker string
	// FirstInterface is the first number of endpoints' interfaces. Makers have different ones, so that neither need know of the other's links.
	FirstInterface int
}

// Pair is a client and an endpoint by their UIDs.
type Pair struct{ Client, Endpoint string }

// Failures says of pairs until when they are no good choice.
type Failures map[Pair]time.Time

// Removal is a link that goes.
type Removal struct {
	Link *v1alpha1.TSNLink
	Why  string
}

// Finding is something about a service, or about a pod, that its owner is told.
type Finding struct {
	Reason, Text string
}

// ServicePlan is what is said of a service.
type ServicePlan struct {
	// Status has all but the conditions.
	Status v1alpha1.TSNServiceStatus
	// Found is why the service is not as it was asked for; the first is the most important.
	Found []Finding
}

// Result is a plan.
type Result struct {
	// Delete comes before Make: a link of one name may take the place of another.
	Delete []Removal
	// Make are new links, and Change those that are as they should be but for routes, names and addresses of nodes.
	Make, Change []v1alpha1.TSNLink
	// Admitted are links of others that have an end in the cluster.
	Admitted []Admission
	// Services by namespace and name.
	Services map[Key]*ServicePlan
	// Pods are sentences, by the pods' UIDs.
	Pods map[string][]Finding
	// Failed is what Input.Failed shall be the next time.
	Failed Failures
	// Again is when time alone changes the plan, 0 for never.
	Again time.Duration
}

// UsedUp tells whether a client has no link because a range has no number or address left.
func (r *Result) UsedUp() bool {
	for _, service := range r.Services {
		if slices.ContainsFunc(service.Found, func(finding Finding) bool { return finding.Reason == v1alpha1.ReasonRangeUsedUp }) {
			return true
		}
	}
	return false
}

// Key names a service.
type Key struct{ Namespace, Name string }

func (k Key) String() string { return k.Namespace + "/" + k.Name }

func keyOf(service *v1alpha1.TSNService) Key { return Key{service.Namespace, service.Name} }

// byAge sorts services from the oldest to the youngest: who was there first keeps what two want.
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

func sortedKeys[Value any](objects map[string]Value) []string {
	return slices.Sorted(maps.Keys(objects))
}

func compareTexts(pairs ...string) int {
	for i := 0; i+1 < len(pairs); i += 2 {
		if got := strings.Compare(pairs[i], pairs[i+1]); got != 0 {
			return got
		}
	}
	return 0
}
