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

// Links has pods of the cluster linked as its TSNServices say. All services are looked at together: links share numbers, and a pod may
// be in several.
type Links struct {
	Client client.Client
	Events record.EventRecorder
	// Switched selects the nodes whose uplink is Open vSwitch's, nil: there are none.
	Switched labels.Selector
	shared   *shared

	// The fields below belong to the controller's single worker.

	now    func() time.Time
	ledger *linkledger.Ledger
	ranges clusterRanges
	failed links.Failures
	// pace bounds how often a service's status is written.
	pace *pace
	// said are the sentences of which there has been an Event, by the UIDs of pods and services.
	said map[string]map[string]bool
	// reportedClaims are, by node, the messages of the Events about addresses that a node reports and a service keeps.
	reportedClaims map[string]string
	// raised says of services that they ask for less encryption than the cluster's minimum.
	raised map[links.Key]string
	// rest is until when no plan is made, so that plans take a part of a processor only.
	rest time.Time
}

// releasedName is that of the ConfigMap with the numbers that links had a moment ago.
const releasedName = "kubernetsn-released-links"

func newLinks(shared *shared, cluster client.Client, namespace string, events record.EventRecorder, switched labels.Selector) *Links {
	released := &linkledger.Store{Client: cluster, Live: shared.live, At: types.NamespacedName{Namespace: namespace, Name: releasedName}, Owner: fieldOwner}
	return &Links{Client: cluster, Events: events, Switched: switched, shared: shared, now: time.Now, ledger: linkledger.New(released, time.Now), failed: links.Failures{},
		pace: newPace(time.Now), said: map[string]map[string]bool{}}
}

// restFactor is how much longer than a plan took no other one is made.
const restFactor = 4

// Reconcile looks at all services.
func (r *Links) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	if wait := r.rest.Sub(r.now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	began := r.now()
	in, err := r.input(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	plan := links.Plan(in)
	r.rest = r.now().Add(restFactor * r.now().Sub(began))
	r.failed = plan.Failed
	errLinks := errors.Join(r.carryOut(ctx, in, plan), r.admit(ctx, plan.Admitted))
	again, errStatus := r.tell(ctx, in, plan)
	err = errors.Join(errLinks, errStatus, r.tellKeys(ctx, in, plan))
	if isStale(err) {
		return reconcile.Result{RequeueAfter: againAfter}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	again = sooner(again, plan.Again)
	if encrypts(in) {
		again = sooner(again, lookForRollEvery)
	}
	if plan.UsedUp() {
		again = sooner(again, r.ledger.Frees())
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// isStale tells whether something was otherwise than the cache knew.
func isStale(err error) bool {
	return err != nil && (apierrors.IsConflict(err) || apierrors.IsInvalid(err) || apierrors.IsAlreadyExists(err) || gone(err))
}
