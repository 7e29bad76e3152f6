// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/linkledger"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
	"github.com/kubernetsn/kubernetsn/internal/shared/podstatus"
)

// Links reconciles the TSNLinks of all TSNServices together: links share VNIs, and a pod may be in several services.
type Links struct {
	Client client.Client
	Events record.EventRecorder
	// Switched selects the nodes whose uplink is an Open vSwitch bridge; nil selects none.
	Switched labels.Selector
	shared   *shared

	// The fields below belong to the controller's single worker.

	now    func() time.Time
	ledger *linkledger.Ledger
	ranges clusterRanges
	failed links.Failures
	// pace limits how often a service's status is written.
	pace *pace
	// reported are the reasons for which there was an Event, by the UIDs of pods and services.
	reported map[string]map[string]bool
	// reportedClaims are, by node, the messages of the Events about addresses that a node reports and a service keeps.
	reportedClaims map[string]string
	// raised has the messages of services whose encryption was raised to the cluster's minimum.
	raised map[links.Key]string
	// nextPlan is the earliest time of the next plan, so that plans take only a fraction of a processor.
	nextPlan time.Time
}

// releasedName is the ConfigMap with recently released VNIs and addresses of links.
const releasedName = "kubernetsn-released-links"

func newLinks(shared *shared, cluster client.Client, namespace string, events record.EventRecorder, switched labels.Selector) *Links {
	released := &linkledger.Store{Client: cluster, Live: shared.live, At: types.NamespacedName{Namespace: namespace, Name: releasedName}, Owner: fieldOwner}
	return &Links{Client: cluster, Events: events, Switched: switched, shared: shared, now: time.Now, ledger: linkledger.New(released, time.Now), failed: links.Failures{},
		pace: newPace(time.Now), reported: map[string]map[string]bool{}}
}

// planCostFactor is the pause after a plan, as a multiple of the time that the plan took.
const planCostFactor = 4

// Reconcile plans and writes the links of all services.
func (r *Links) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	if wait := r.nextPlan.Sub(r.now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	start := r.now()
	in, err := r.collectInput(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	plan := links.Plan(in)
	r.nextPlan = r.now().Add(planCostFactor * r.now().Sub(start))
	r.failed = plan.Failed
	linksErr := errors.Join(r.applyPlan(ctx, in, plan), r.updateAdmissions(ctx, plan.Admitted))
	requeueAfter, statusErr := r.updateStatus(ctx, in, plan)
	err = errors.Join(linksErr, statusErr, r.updateNodeKeys(ctx, in, plan))
	if isStale(err) {
		return reconcile.Result{RequeueAfter: conflictRetryDelay}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	requeueAfter = earlier(requeueAfter, plan.RequeueAfter)
	if needsEncryption(in) {
		requeueAfter = earlier(requeueAfter, rollCheckInterval)
	}
	if plan.RangeExhausted() {
		requeueAfter = earlier(requeueAfter, r.ledger.NextFree())
	}
	return reconcile.Result{RequeueAfter: requeueAfter}, nil
}

// isStale reports whether err may be due to a stale cache.
func isStale(err error) bool {
	return err != nil && (apierrors.IsConflict(err) || apierrors.IsInvalid(err) || apierrors.IsAlreadyExists(err) || namespaceGone(err))
}

// linkBatchDelay collects events before a plan. It is short because a client's containers wait for its link; the frequency of plans is
// limited by their cost (planCostFactor).
const linkBatchDelay = 10 * time.Millisecond

// addLinks adds the controller. It has a single request for all services.
func addLinks(m manager.Manager, shared *shared, namespace string, switched labels.Selector, reserved []links.Reserved) error {
	enqueue := enqueueAfter(linkBatchDelay, func(context.Context, client.Object) []string { return []string{"all"} })
	r := newLinks(shared, m.GetClient(), namespace, m.GetEventRecorderFor("ktsn-operator"), switched)
	r.ranges.container = reserved
	return ctrl.NewControllerManagedBy(m).Named("links").
		Watches(&v1alpha1.TSNService{}, enqueue, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.TSNLink{}, enqueue, builder.WithPredicates(linkledger.PlanChanged)).
		Watches(&corev1.Pod{}, enqueue, builder.WithPredicates(podLinks)).
		Watches(&corev1.Node{}, enqueue, builder.WithPredicates(predicate.Or[client.Object](nodeAddressChanged, nodeReadinessChanged))).
		Watches(&v1alpha1.TSNNode{}, enqueue, builder.WithPredicates(predicate.Or[client.Object](mtuChanged, keysChanged))).
		Watches(&v1alpha1.TSNNetwork{}, enqueue, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Namespace{}, enqueue, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Complete(r)
}

// switchedSelector parses option --switched-nodes; "" returns nil.
func switchedSelector(text string) (labels.Selector, error) {
	if text == "" {
		return nil, nil
	}
	selector, err := labels.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("--switched-nodes %q is no selector of labels: %w", text, err)
	}
	return selector, nil
}

// selectedKeys returns the label keys of a selector.
func selectedKeys(selector labels.Selector) []string {
	if selector == nil {
		return nil
	}
	var keys []string
	requirements, _ := selector.Requirements()
	for _, requirement := range requirements {
		keys = append(keys, requirement.Key())
	}
	return keys
}

// podLinks ignores pods without link labels, and updates that do not affect a plan.
var podLinks = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return links.HasLinkLabel(e.Object.GetLabels()) },
	DeleteFunc: func(event.DeleteEvent) bool { return true }, // a pod that has lost its labels may still be at the end of a link
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
		if !links.HasLinkLabel(before.Labels) && !links.HasLinkLabel(after.Labels) {
			return false
		}
		return before.UID != after.UID || !maps.Equal(before.Labels, after.Labels) || before.Spec.NodeName != after.Spec.NodeName ||
			podstatus.Ready(before) != podstatus.Ready(after) || podstatus.Ended(before) != podstatus.Ended(after) ||
			(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil)
	},
}

// nodeReadinessChanged ignores updates of a node that change neither its readiness nor its labels.
var nodeReadinessChanged = changed(func(before, after *corev1.Node) bool {
	return nodeReady(before) != nodeReady(after) || !maps.Equal(before.Labels, after.Labels)
})

// mtuChanged ignores updates of a TSNNode that do not change the MTU of interfaces.
var mtuChanged = fieldChanged(smallestMTU)
