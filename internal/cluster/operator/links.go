// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubernetsn/kubernetsn/internal/cluster/linkledger"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
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
