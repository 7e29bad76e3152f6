// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// Networks makes true what TSNNetworks ask for.
type Networks struct {
	Client client.Client
	// Live reads past the cache.
	Live   client.Reader
	Events record.EventRecorder
	// NowTAI is the time by which nodes agree, in nanoseconds.
	NowTAI func() int64
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
)

// finding is something that is not as it was asked for.
type finding struct {
	reason, text string
	// blocks pods from being attached somewhere.
	blocks bool
}

// Reconcile looks at one network. What somebody else changed meanwhile is looked at again.
func (r *Networks) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	result, err := r.look(ctx, request)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: againAfter}, nil
	}
	return result, err
}

func (r *Networks) look(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var all v1alpha1.TSNNetworkList
	if err := r.Client.List(ctx, &all); err != nil {
		return reconcile.Result{}, fmt.Errorf("list the networks: %w", err)
	}
	network := find(all.Items, request.Name)
	if network == nil {
		return reconcile.Result{}, nil
	}
	used, err := usageOf(ctx, r.Client, network.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if network.DeletionTimestamp != nil {
		return r.finish(ctx, network, used)
	}
	if err := r.hold(ctx, network); err != nil {
		return reconcile.Result{}, err
	}
	found, err := r.serve(ctx, network, all.Items, used)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(found) > 0 {
		return reconcile.Result{RequeueAfter: retryAfter}, nil
	}
	return reconcile.Result{RequeueAfter: repeatEvery}, nil
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
func (r *Networks) finish(ctx context.Context, network *v1alpha1.TSNNetwork, used *usage) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(network, v1alpha1.Finalizer) {
		return reconcile.Result{}, nil
	}
	if used.total > 0 {
		return reconcile.Result{RequeueAfter: retryAfter}, r.linger(ctx, network, used)
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

// linger keeps a network that was deleted as it is, as long as pods are on it: agents do what the status says, and would take
// peers and schedule away from these pods with it.
func (r *Networks) linger(ctx context.Context, network *v1alpha1.TSNNetwork, used *usage) error {
	text := fmt.Sprintf("it was deleted, and goes when these pods are gone: %s", strings.Join(some(used.pods), ", "))
	found := []finding{{v1alpha1.ReasonInUse, text, true}}
	parts, without, err := r.parts(ctx, network, used)
	if err != nil {
		return err
	}
	if len(without) > 0 {
		found = append(found, r.usedUp(network, used, without))
	}
	return r.tell(ctx, network, used, parts, network.Status.Schedule, found)
}

// serve gives a network what it needs, and says what it could not be given.
func (r *Networks) serve(ctx context.Context, network *v1alpha1.TSNNetwork, all []v1alpha1.TSNNetwork, used *usage) ([]finding, error) {
	var found []finding
	if other, why := conflict(network, all); other != "" {
		found = append(found, finding{v1alpha1.ReasonOverlaps,
			fmt.Sprintf("network %s has %s, and was there first; give this one others", other, why), true})
		if len(network.Status.Nodes) == 0 {
			return found, r.tell(ctx, network, used, nil, nil, found)
		}
	}
	problem, err := attachmentFinding(r.admit(ctx, network, used.namespaces))
	if err != nil {
		return nil, err
	}
	found = append(found, problem...)
	parts, without, err := r.parts(ctx, network, used)
	if err != nil {
		return nil, err
	}
	if len(without) > 0 {
		found = append(found, r.usedUp(network, used, without))
	}
	request, problems := schedule(network, owner(all), r.NowTAI())
	found = append(found, problems...)
	found = append(found, nodeFindings(network, used, parts)...)
	return found, r.tell(ctx, network, used, parts, request, found)
}

// attachmentFinding divides what went wrong with attachments into what a person must mend and the rest.
func attachmentFinding(err error) ([]finding, error) {
	var foreign *foreignError
	var wrong *selectorError
	switch {
	case err == nil:
		return nil, nil
	case errors.As(err, &wrong):
		return []finding{{v1alpha1.ReasonSelectorInvalid, wrong.Error(), true}}, nil
	case errors.Is(err, errMultus):
		return []finding{{v1alpha1.ReasonMultusMissing, err.Error(), true}}, nil
	case errors.As(err, &foreign):
		return []finding{{v1alpha1.ReasonForeignAttachment, foreign.Error(), false}}, nil
	}
	return nil, err
}

// parts divides the network's addresses among the nodes.
func (r *Networks) parts(ctx context.Context, network *v1alpha1.TSNNetwork, used *usage) (parts []v1alpha1.NodeStatus, without []string, err error) {
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes); err != nil {
		return nil, nil, fmt.Errorf("list the nodes: %w", err)
	}
	var exist []string
	for _, node := range nodes.Items {
		exist = append(exist, node.Name)
	}
	return allocateAll(network, exist, used)
}

// usedUp tells the pods on nodes for which there are no addresses.
func (r *Networks) usedUp(network *v1alpha1.TSNNetwork, used *usage, without []string) finding {
	text := fmt.Sprintf("no addresses of network %s are left for the nodes %s; all its parts of /%d are other nodes'. "+
		"Enlarge spec.ipv4.cidr (and spec.ipv6.cidr, if there is one), or place the pods on fewer nodes",
		network.Name, strings.Join(some(without), ", "), network.Spec.IPv4.NodePrefixLength)
	for i := range used.waiting {
		for _, node := range without {
			if used.waiting[i].Spec.NodeName == node {
				r.Events.Event(&used.waiting[i], corev1.EventTypeWarning, v1alpha1.ReasonRangeUsedUp, text)
			}
		}
	}
	return finding{v1alpha1.ReasonRangeUsedUp, text, true}
}
