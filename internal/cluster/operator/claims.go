// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/ipamclaim"
	podhook "github.com/kubernetsn/kubernetsn/internal/cluster/webhook"
	"github.com/kubernetsn/kubernetsn/internal/shared/podstatus"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

const (
	// claimsInterval is how often the leader checks whether the cluster has IPAMClaims, until it has.
	claimsInterval = 10 * time.Second
	// maxClaimTries bounds the addresses that are tried for a claim.
	maxClaimTries = 1 << 16
)

// addClaims adds the controller of IPAMClaims as soon as the cluster has the resource: a watch of a missing one would fail for ever.
func addClaims(m manager.Manager, shared *shared) error {
	return m.Add(manager.RunnableFunc(func(ctx context.Context) error {
		ticker := time.NewTicker(claimsInterval)
		defer ticker.Stop()
		for {
			if _, err := m.GetRESTMapper().RESTMapping(ipamclaim.Kind.GroupKind(), ipamclaim.Version.Version); err == nil {
				return watchClaims(m, shared)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
		}
	}))
}

func watchClaims(m manager.Manager, shared *shared) error {
	networkOfClaim := func(_ context.Context, claim client.Object) []string {
		return []string{claim.(*ipamclaim.IPAMClaim).Spec.Network}
	}
	return ctrl.NewControllerManagedBy(m).Named("ipam-claims").
		For(&v1alpha1.TSNNetwork{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&ipamclaim.IPAMClaim{}, enqueueAfter(0, networkOfClaim)).
		// Subnets of nodes and addresses of pods become free.
		Watches(&v1alpha1.TSNNode{}, enqueueAfter(batchDelay, networksOfNodeState), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.TSNPeers{}, enqueueAfter(batchDelay, networkOfPeers), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Pod{}, enqueueAfter(batchDelay, networksRequested), builder.WithPredicates(requestsAddresses)).
		Watches(&corev1.Namespace{}, enqueueAfter(batchDelay, everyNetwork(m.GetClient())), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Complete(&Claims{Client: m.GetClient(), Live: m.GetAPIReader(), shared: shared, now: time.Now})
}

// Claims gives IPAMClaims static addresses of their networks, and writes which pod holds them. Two claims cannot get the same address because only
// the leader allocates, with a single worker, and reads the claims from the API server before it does.
type Claims struct {
	Client client.Client
	Live   client.Reader
	shared *shared
	now    func() time.Time
}

// Reconcile reconciles the claims of one network.
func (r *Claims) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if err := r.shared.waitReady(ctx); err != nil {
		return reconcile.Result{}, err
	}
	retry, err := r.reconcile(ctx, request.Name)
	if err == nil && retry {
		return reconcile.Result{RequeueAfter: conflictRetryDelay}, nil
	}
	return reconcile.Result{}, err
}

// reconcile writes the statuses that differ. retry means that a claim was changed or deleted meanwhile.
func (r *Claims) reconcile(ctx context.Context, name string) (retry bool, err error) {
	var network v1alpha1.TSNNetwork
	if err := r.Client.Get(ctx, types.NamespacedName{Name: name}, &network); err != nil {
		return false, client.IgnoreNotFound(err) // a claim of another project's network
	}
	// Most events change no claim, which the cache shows without a request.
	changes, err := r.changes(ctx, r.Client, &network)
	if err != nil || len(changes) == 0 {
		return false, err
	}
	if changes, err = r.changes(ctx, r.Live, &network); err != nil {
		return false, err
	}
	var errs error
	for _, change := range changes {
		err := r.writeStatus(ctx, change.claim, change.status)
		switch {
		case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
			retry = true
		case err != nil:
			errs = errors.Join(errs, fmt.Errorf("write the status of IPAMClaim %s: %w", nameOfClaim(change.claim), err))
		}
	}
	return retry, errs
}

// claimChange is a claim with the status that it should have.
type claimChange struct {
	claim  *ipamclaim.IPAMClaim
	status ipamclaim.Status
}

// changes returns the claims of a network whose status differs from the one that they should have. reader reads the claims.
func (r *Claims) changes(ctx context.Context, reader client.Reader, network *v1alpha1.TSNNetwork) (changes []claimChange, err error) {
	var list ipamclaim.List
	if err := reader.List(ctx, &list); ipamclaim.IsMissing(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("list the IPAMClaims: %w", err)
	}
	claims := slices.DeleteFunc(list.Items, func(claim ipamclaim.IPAMClaim) bool { return claim.Spec.Network != network.Name })
	if len(claims) == 0 {
		return nil, nil
	}
	namespaces, err := selectedNamespaces(ctx, r.Client, network)
	if err != nil {
		return nil, err
	}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the pods: %w", err)
	}
	var peers v1alpha1.TSNPeersList
	if err := r.Client.List(ctx, &peers, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the TSNPeers: %w", err)
	}
	allocator := newClaimAllocator(network, r.shared.subnets.forNetwork(network.Name), claims, pods.Items, peers.Items)
	for i := range claims {
		claim := &claims[i]
		if claim.DeletionTimestamp != nil || allocator.isForeign(claim) {
			continue
		}
		if status := allocator.statusOf(claim, namespaces, r.now()); !equality.Semantic.DeepEqual(claim.Status, status) {
			changes = append(changes, claimChange{claim, status})
		}
	}
	return changes, nil
}

// writeStatus writes the whole status, because its fields are required.
func (r *Claims) writeStatus(ctx context.Context, claim *ipamclaim.IPAMClaim, status ipamclaim.Status) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": claim.ResourceVersion}, "status": status})
	if err != nil {
		return err
	}
	return r.Client.Status().Patch(ctx, claim, client.RawPatch(types.MergePatchType, patch))
}

// claimAllocator chooses static addresses that no pod, claim or node of a network has.
type claimAllocator struct {
	network *v1alpha1.TSNNetwork
	static  []netip.Prefix
	subnets map[string]subnet
	// claimed are the claims that have addresses.
	claimed map[netip.Addr]types.NamespacedName
	// users are the namespaces and names of the pods that request addresses, or have them.
	users map[netip.Addr][]string
	// references are the claims to which pods refer, by namespace and name of the pod.
	references map[string]types.NamespacedName
	// owners are the names of the pods that hold claims.
	owners map[types.NamespacedName]string
}

// newClaimAllocator sorts the claims by age: the oldest one keeps an address that several have. The claims are those of the network.
func newClaimAllocator(network *v1alpha1.TSNNetwork, subnets map[string]subnet, claims []ipamclaim.IPAMClaim, pods []corev1.Pod, peers []v1alpha1.TSNPeers) *claimAllocator {
	a := &claimAllocator{network: network, static: tsnnetwork.Static(network), subnets: subnets, claimed: map[netip.Addr]types.NamespacedName{},
		users: map[netip.Addr][]string{}, references: map[string]types.NamespacedName{}, owners: map[types.NamespacedName]string{}}
	slices.SortFunc(claims, func(x, y ipamclaim.IPAMClaim) int {
		return cmp.Or(x.CreationTimestamp.Compare(y.CreationTimestamp.Time), strings.Compare(nameOfClaim(&x).String(), nameOfClaim(&y).String()))
	})
	for i := range claims {
		for _, address := range ipamclaim.Addresses(claims[i].Status.IPs) {
			if _, taken := a.claimed[address]; !taken {
				a.claimed[address] = nameOfClaim(&claims[i])
			}
		}
	}
	ordered := make([]*corev1.Pod, 0, len(pods))
	for i := range pods {
		ordered = append(ordered, &pods[i])
	}
	slices.SortFunc(ordered, func(x, y *corev1.Pod) int {
		return cmp.Or(x.CreationTimestamp.Compare(y.CreationTimestamp.Time), strings.Compare(nameOfPod(x), nameOfPod(y)))
	})
	for _, pod := range ordered {
		if !podstatus.Ended(pod) {
			a.addPod(pod)
		}
	}
	// A pod keeps its address when its annotation is changed.
	for i := range peers {
		if peers[i].Spec.Network != network.Name || peers[i].Spec.Cluster != "" {
			continue
		}
		for j := range peers[i].Spec.Nodes {
			for _, assigned := range peers[i].Spec.Nodes[j].Addresses {
				if address, err := netip.ParseAddr(assigned.Address); err == nil {
					a.users[address] = append(a.users[address], assigned.Pod)
				}
			}
		}
	}
	return a
}

func (a *claimAllocator) addPod(pod *corev1.Pod) {
	for _, address := range podhook.RequestedAddresses(pod, a.network.Name) {
		a.users[address] = append(a.users[address], nameOfPod(pod))
	}
	name := podhook.ClaimOf(pod, a.network.Name)
	if name == "" {
		return
	}
	claim := types.NamespacedName{Namespace: pod.Namespace, Name: name}
	a.references[nameOfPod(pod)] = claim
	if a.owners[claim] == "" {
		a.owners[claim] = pod.Name
	}
}

func nameOfClaim(claim *ipamclaim.IPAMClaim) types.NamespacedName {
	return types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
}

// claimMessage begins the messages of the operator's conditions. Other projects have conditions of the same type.
const claimMessage = "TSNNetwork "

// isForeign reports whether a claim is another project's, whose network has the same name: it has a status that the operator has not written, and
// no static address of the network.
func (a *claimAllocator) isForeign(claim *ipamclaim.IPAMClaim) bool {
	condition := meta.FindStatusCondition(claim.Status.Conditions, ipamclaim.ConditionAllocated)
	switch {
	case condition != nil && strings.HasPrefix(condition.Message, claimMessage):
		return false
	case len(a.static) == 0:
		return len(claim.Status.IPs) > 0 || len(claim.Status.Conditions) > 0
	}
	return a.isOutside(claim)
}

// isOutside reports whether a claim has addresses, and none of them is static.
func (a *claimAllocator) isOutside(claim *ipamclaim.IPAMClaim) bool {
	return len(claim.Status.IPs) > 0 && !slices.ContainsFunc(ipamclaim.Addresses(claim.Status.IPs), func(address netip.Addr) bool {
		return tsnnetwork.Contains(a.static, address)
	})
}

// statusOf returns the status that a claim should have. A claim keeps its addresses.
func (a *claimAllocator) statusOf(claim *ipamclaim.IPAMClaim, namespaces namespaceSet, now time.Time) ipamclaim.Status {
	status := claim.Status.Clone()
	if !a.isOutside(claim) { // the pod that has other addresses is not on this network
		status.OwnerPod = a.owners[nameOfClaim(claim)]
	}
	condition := metav1.Condition{Type: ipamclaim.ConditionAllocated, Status: metav1.ConditionTrue, Reason: ipamclaim.ReasonAllocated,
		ObservedGeneration: claim.Generation, LastTransitionTime: metav1.NewTime(now).Rfc3339Copy()}
	message := "the claim has its addresses"
	var reason string
	var err error
	if len(status.IPs) == 0 {
		status.IPs, reason, err = a.allocate(claim, namespaces)
	} else {
		reason, err = a.check(claim)
	}
	if err != nil {
		condition.Status, condition.Reason, message = metav1.ConditionFalse, reason, err.Error()
	}
	condition.Message = claimMessage + a.network.Name + ": " + message
	meta.SetStatusCondition(&status.Conditions, condition)
	return status
}

// check returns an error, and the reason of the condition, if a pod cannot have the addresses of a claim.
func (a *claimAllocator) check(claim *ipamclaim.IPAMClaim) (reason string, err error) {
	if len(a.static) == 0 {
		return ipamclaim.ReasonNoStaticRange, errNoStaticRange
	}
	for _, address := range ipamclaim.Addresses(claim.Status.IPs) {
		if !tsnnetwork.Contains(a.static, address) {
			return ipamclaim.ReasonUnavailable, fmt.Errorf("address %s (status.ips) is not in the static ranges %v; create the claim again", address, a.static)
		}
		if older := a.claimed[address]; older != nameOfClaim(claim) {
			return ipamclaim.ReasonInUse, fmt.Errorf("address %s (status.ips) is that of the older IPAMClaim %s; create this claim again without a status", address, older)
		}
	}
	return "", nil
}

var errNoStaticRange = errors.New("the network has no static range; set spec.ipv4.static")

// allocate returns an address of each static range, all or none, and otherwise the reason of the condition.
func (a *claimAllocator) allocate(claim *ipamclaim.IPAMClaim, namespaces namespaceSet) (ips []string, reason string, err error) {
	switch {
	case len(a.static) == 0:
		return []string{}, ipamclaim.ReasonNoStaticRange, errNoStaticRange
	case !namespaces.has(claim.Namespace):
		return []string{}, ipamclaim.ReasonNamespace, fmt.Errorf("spec.namespaceSelector does not select namespace %s", claim.Namespace)
	}
	wanted, name := ipamclaim.Addresses(claim.Spec.IPRequests), nameOfClaim(claim)
	for i, address := range wanted {
		if !tsnnetwork.Contains(a.static, address) || !a.free(address, name) {
			return []string{}, ipamclaim.ReasonUnavailable, fmt.Errorf("address %s (spec.ipRequests) is in use or not in the static ranges %v; request another one", address, a.static)
		}
		if slices.ContainsFunc(wanted[:i], func(other netip.Addr) bool { return other.Is4() == address.Is4() }) {
			return []string{}, ipamclaim.ReasonUnavailable, fmt.Errorf("address %s (spec.ipRequests) is the second one of its family; request one of each", address)
		}
	}
	var chosen []netip.Addr
	for _, within := range a.static {
		at := slices.IndexFunc(wanted, func(address netip.Addr) bool { return address.Is4() == within.Addr().Is4() })
		if at >= 0 {
			chosen = append(chosen, wanted[at])
			continue
		}
		address := a.addressOfOwner(within, name)
		if !address.IsValid() {
			address = a.last(within, name)
		}
		if !address.IsValid() {
			return []string{}, ipamclaim.ReasonUnavailable, fmt.Errorf("the static range %s has no free address; delete a claim, or enlarge the range", within)
		}
		chosen = append(chosen, address)
	}
	for _, address := range chosen {
		a.claimed[address] = name
		ips = append(ips, netip.PrefixFrom(address, a.rangeOf(address).Bits()).String())
	}
	return ips, "", nil
}

// addressOfOwner returns the address of the pod that holds a claim: the claim was created again while the pod runs. It is invalid if there is none
// that the claim can have.
func (a *claimAllocator) addressOfOwner(within netip.Prefix, claim types.NamespacedName) netip.Addr {
	owner := claim.Namespace + "/" + a.owners[claim]
	for _, address := range slices.SortedFunc(maps.Keys(a.users), netip.Addr.Compare) {
		if within.Contains(address) && slices.Contains(a.users[address], owner) && a.free(address, claim) {
			return address
		}
	}
	return netip.Addr{}
}

// last returns the last free address of a range: pods request the first ones by number. It is invalid if there is none.
func (a *claimAllocator) last(within netip.Prefix, claim types.NamespacedName) netip.Addr {
	address := lastOf(within)
	for range maxClaimTries {
		if !within.Contains(address) {
			break
		}
		if a.free(address, claim) {
			return address
		}
		address = address.Prev()
	}
	return netip.Addr{}
}

// free reports whether a claim can have an address. It can have that of a pod that refers to it. The first address of the network's range and the
// last one of IPv4 are not host addresses.
func (a *claimAllocator) free(address netip.Addr, claim types.NamespacedName) bool {
	all := a.rangeOf(address)
	if address == all.Addr() || address.Is4() && address == lastOf(all) {
		return false
	}
	if other, taken := a.claimed[address]; taken && other != claim {
		return false
	}
	if slices.ContainsFunc(a.users[address], func(pod string) bool { return a.references[pod] != claim }) {
		return false
	}
	for _, taken := range a.subnets {
		if taken.has(address) {
			return false
		}
	}
	return true
}

// rangeOf returns the network's range of an address.
func (a *claimAllocator) rangeOf(address netip.Addr) netip.Prefix {
	for _, within := range tsnnetwork.Ranges(a.network) {
		if within.Contains(address) {
			return within.Masked()
		}
	}
	return netip.Prefix{}
}

// lastOf returns the last address of a range. The node's packet filter has its own: tsn-cni does not link the packages of Kubernetes' API.
func lastOf(within netip.Prefix) netip.Addr {
	bytes := within.Masked().Addr().AsSlice()
	for bit := within.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 1 << (7 - bit%8)
	}
	address, _ := netip.AddrFromSlice(bytes)
	return address
}
