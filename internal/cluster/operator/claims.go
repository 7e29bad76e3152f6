// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
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
		Watches(&corev1.Pod{}, enqueueAfter(batchDelay, networksRequested), builder.WithPredicates(requestsAddresses)).
		Watches(&corev1.Namespace{}, enqueueAfter(batchDelay, everyNetwork(m.GetClient())), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Complete(&Claims{Client: m.GetClient(), Live: m.GetAPIReader(), shared: shared, now: time.Now})
}

// Claims gives IPAMClaims static addresses of their networks, and writes which pod holds them. It has a single worker, and reads the claims from the
// API server: by a cache that is late, two could get the same address.
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
	err := r.reconcile(ctx, request.Name)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: conflictRetryDelay}, nil
	}
	return reconcile.Result{}, err
}

func (r *Claims) reconcile(ctx context.Context, name string) error {
	var network v1alpha1.TSNNetwork
	if err := r.Client.Get(ctx, types.NamespacedName{Name: name}, &network); err != nil {
		return client.IgnoreNotFound(err) // a claim of another project's network
	}
	var claims ipamclaim.List
	if err := r.Live.List(ctx, &claims); ipamclaim.IsMissing(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("list the IPAMClaims: %w", err)
	}
	namespaces, err := selectedNamespaces(ctx, r.Client, &network)
	if err != nil {
		return err
	}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the pods: %w", err)
	}
	allocator := newClaimAllocator(&network, r.shared.subnets.forNetwork(name), claims.Items, pods.Items)
	for i := range claims.Items {
		claim := &claims.Items[i]
		if claim.Spec.Network != name || claim.DeletionTimestamp != nil {
			continue
		}
		if err := r.writeStatus(ctx, claim, allocator.statusOf(claim, namespaces, r.now())); err != nil {
			return fmt.Errorf("write the status of IPAMClaim %s/%s: %w", claim.Namespace, claim.Name, err)
		}
	}
	return nil
}

// writeStatus writes the whole status, because its fields are required.
func (r *Claims) writeStatus(ctx context.Context, claim *ipamclaim.IPAMClaim, status ipamclaim.Status) error {
	if equality.Semantic.DeepEqual(claim.Status, status) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": claim.ResourceVersion}, "status": status})
	if err != nil {
		return err
	}
	return r.Client.Status().Patch(ctx, claim, client.RawPatch(types.MergePatchType, patch))
}

// claimAllocator chooses static addresses that no pod, claim or node of a network has.
type claimAllocator struct {
	network *v1alpha1.TSNNetwork
	subnets map[string]subnet
	// used are the addresses of claims and pods.
	used map[netip.Addr]bool
	// owners are the names of the pods that refer to claims.
	owners map[types.NamespacedName]string
}

func newClaimAllocator(network *v1alpha1.TSNNetwork, subnets map[string]subnet, claims []ipamclaim.IPAMClaim, pods []corev1.Pod) *claimAllocator {
	a := &claimAllocator{network: network, subnets: subnets, used: map[netip.Addr]bool{}, owners: map[types.NamespacedName]string{}}
	for i := range claims {
		if claims[i].Spec.Network == network.Name {
			for _, address := range ipamclaim.Addresses(claims[i].Status.IPs) {
				a.used[address] = true
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
		if podstatus.Ended(pod) {
			continue
		}
		for _, address := range podhook.RequestedAddresses(pod, network.Name) {
			a.used[address] = true
		}
		if name := podhook.ClaimOf(pod, network.Name); name != "" {
			if key := (types.NamespacedName{Namespace: pod.Namespace, Name: name}); a.owners[key] == "" {
				a.owners[key] = pod.Name
			}
		}
	}
	return a
}

// statusOf returns the status that a claim should have. A claim keeps its addresses.
func (a *claimAllocator) statusOf(claim *ipamclaim.IPAMClaim, namespaces namespaceSet, now time.Time) ipamclaim.Status {
	status := claim.Status.Clone()
	status.OwnerPod = a.owners[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}]
	condition := metav1.Condition{Type: ipamclaim.ConditionAllocated, Status: metav1.ConditionTrue, Reason: ipamclaim.ReasonAllocated,
		Message: "the claim has its addresses", ObservedGeneration: claim.Generation, LastTransitionTime: metav1.NewTime(now).Rfc3339Copy()}
	if len(status.IPs) == 0 {
		var reason string
		var err error
		if status.IPs, reason, err = a.allocate(claim, namespaces); err != nil {
			condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, reason, err.Error()
		}
	}
	meta.SetStatusCondition(&status.Conditions, condition)
	return status
}

// allocate returns an address of each static range, all or none, and otherwise the reason of the condition.
func (a *claimAllocator) allocate(claim *ipamclaim.IPAMClaim, namespaces namespaceSet) (ips []string, reason string, err error) {
	static := tsnnetwork.Static(a.network)
	switch {
	case len(static) == 0:
		return []string{}, ipamclaim.ReasonNoStaticRange, fmt.Errorf("TSNNetwork %s has no static range (spec.ipv4.static)", a.network.Name)
	case !namespaces.has(claim.Namespace):
		return []string{}, ipamclaim.ReasonNamespace, fmt.Errorf("spec.namespaceSelector of TSNNetwork %s does not select namespace %s", a.network.Name, claim.Namespace)
	}
	wanted := ipamclaim.Addresses(claim.Spec.IPRequests)
	for _, address := range wanted {
		if !tsnnetwork.Contains(static, address) || !a.free(address) {
			return []string{}, ipamclaim.ReasonUnavailable, fmt.Errorf("address %s (spec.ipRequests) is not in the static ranges %v, or in use", address, static)
		}
	}
	var chosen []netip.Addr
	for _, within := range static {
		at := slices.IndexFunc(wanted, func(address netip.Addr) bool { return address.Is4() == within.Addr().Is4() })
		if at >= 0 {
			chosen = append(chosen, wanted[at])
			continue
		}
		address := a.last(within)
		if !address.IsValid() {
			return []string{}, ipamclaim.ReasonUnavailable, fmt.Errorf("the static range %s of TSNNetwork %s has no free address", within, a.network.Name)
		}
		chosen = append(chosen, address)
	}
	for _, address := range chosen {
		a.used[address] = true
		ips = append(ips, netip.PrefixFrom(address, a.rangeOf(address).Bits()).String())
	}
	return ips, "", nil
}

// last returns the last free address of a range: pods request the first ones by number. It is invalid if there is none.
func (a *claimAllocator) last(within netip.Prefix) netip.Addr {
	address := lastOf(within)
	for range maxClaimTries {
		if !within.Contains(address) {
			break
		}
		if a.free(address) {
			return address
		}
		address = address.Prev()
	}
	return netip.Addr{}
}

// free reports whether a claim can have an address. The first one of the network's range and the last one of IPv4 are none of a host.
func (a *claimAllocator) free(address netip.Addr) bool {
	all := a.rangeOf(address)
	if a.used[address] || address == all.Addr() || address.Is4() && address == lastOf(all) {
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

// lastOf returns the last address of a range.
func lastOf(within netip.Prefix) netip.Addr {
	bytes := within.Masked().Addr().AsSlice()
	for bit := within.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 1 << (7 - bit%8)
	}
	address, _ := netip.AddrFromSlice(bytes)
	return address
}
