// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/clusters"
	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// fieldOwner is who the hub says has written a field.
const fieldOwner = client.FieldOwner(federation.Manager)

// Service answers for one caller.
type Service struct {
	// Client acts as the caller.
	Client client.Client
	// Kept lists for the caller.
	Kept hub.Lister
	// Own acts as the federator. It reads Works, which callers need not know of, and nothing else.
	Own client.Reader
	// Busy are workloads that somebody deploys.
	Busy *Busy
	// User is the caller's name.
	User string
	// Now is the time.
	Now func() time.Time
}

// Deploy puts the objects of a manifest on clusters. All is tried before anything is changed. Asked again, it completes what was begun and
// changes what is different. Of what does not depend on each other the hub is asked side by side.
func (s *Service) Deploy(ctx context.Context, request *federation.DeployRequest) (*federation.Workload, error) {
	namespace := cmp.Or(request.Namespace, "default")
	objects, err := parse(request.Manifest, namespace)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(request, objects); err != nil {
		return nil, err
	}
	createdObjects, err := s.withReport(request.Name, objects)
	if err != nil {
		return nil, err
	}
	wanted := newPolicy(namespace, request.Name, createdObjects, request.Clusters)
	have, err := s.lookBefore(ctx, request, objects, createdObjects, wanted)
	if err != nil {
		return nil, err
	}
	try := func() error { return s.writePolicy(ctx, have, wanted, client.DryRunAll) }
	if err := errors.Join(sideBySide(false, append(s.apply(ctx, createdObjects, client.DryRunAll), try)...)...); err != nil || request.DryRun {
		return describe(wanted, nil), err
	}
	if err := s.carryOut(ctx, have, wanted, createdObjects); err != nil {
		return nil, err
	}
	return s.Get(ctx, namespace, request.Name)
}

// carryOut writes what the hub has said it takes from the caller: who may not deploy a workload keeps nobody else from it. Another replica may be at
// the same, and the one whose policy is there at the end is told nothing of it; all others are.
func (s *Service) carryOut(ctx context.Context, have, wanted *policyv1alpha1.PropagationPolicy, objects []*unstructured.Unstructured) error {
	name := wanted.Namespace + "/" + wanted.Name
	end, free := s.Busy.begin(name)
	if !free {
		return hub.Faultf(http.StatusConflict, "workload %s is being deployed by somebody else; look at it when that has ended, and deploy it again", name)
	}
	defer end()
	if err := s.writePolicy(ctx, have, wanted); err != nil {
		return err
	}
	if err := errors.Join(sideBySide(true, s.apply(ctx, objects)...)...); err != nil {
		return err
	}
	policy, err := find(ctx, s.Client, wanted.Namespace, wanted.Name)
	if err == nil && policy != nil && policy.Annotations[manifestAnnotation] != wanted.Annotations[manifestAnnotation] {
		err = hub.Faultf(http.StatusConflict, "workload %s was deployed by somebody else at the same time, and may have objects of both manifests; deploy it again", name)
	}
	return err
}

// prepare marks the objects.
func (s *Service) prepare(request *federation.DeployRequest, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		if err := s.known(object); err != nil {
			return err
		}
		if err := mark(object, request.Name, request.Networks); err != nil {
			return err
		}
	}
	return labelAll(request, objects)
}

// lookBefore looks for what the request names, and for what the hub has already, and returns the policy that there is.
func (s *Service) lookBefore(ctx context.Context, request *federation.DeployRequest, objects, createdObjects []*unstructured.Unstructured,
	wanted *policyv1alpha1.PropagationPolicy) (have *policyv1alpha1.PropagationPolicy, err error) {
	things := []func() error{
		func() error { return clusters.Require(ctx, s.Client, request.Clusters) },
		func() error { return s.reachServices(ctx, request, objects) },
	}
	for _, name := range request.Networks {
		things = append(things, func() error {
			known, err := s.reaches(ctx, name, request.Clusters)
			if err == nil && !known {
				err = invalid("there is no TSNNetwork %s at the hub", name)
			}
			return err
		})
	}
	things = append(things,
		func() error { return s.allReach(ctx, without(networksOf(objects), request.Networks), request.Clusters) },
		func() (err error) {
			if have, err = find(ctx, s.Client, wanted.Namespace, wanted.Name); err != nil || have == nil {
				return err
			}
			return replaceable(have, wanted)
		},
		func() error { return s.mine(ctx, request.Name, createdObjects) },
	)
	err = firstOf(things...)
	return have, err
}

// known refuses kinds that the hub does not know, or that are not in namespaces.
func (s *Service) known(object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	if kind.Group == tsn.GroupVersion.Group && (kind.Kind == "TSNService" || kind.Kind == "TSNLink") {
		return invalid("%s is not part of a workload: the federator has services and links be on clusters itself; make a TSNService at the hub", called(object))
	}
	mapping, err := s.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	switch {
	case meta.IsNoMatchError(err):
		return invalid("%s: the hub knows no kind %s of %s; install its CustomResourceDefinition there, or correct apiVersion and kind", called(object), object.GetKind(),
			object.GetAPIVersion())
	case err != nil:
		return fmt.Errorf("look for kind %s of %s: %w", object.GetKind(), object.GetAPIVersion(), err)
	case mapping.Scope.Name() != meta.RESTScopeNameNamespace:
		return invalid("%s is in no namespace; make it at the hub, with a ClusterPropagationPolicy of Karmada's", called(object))
	}
	return nil
}

// replaceable refuses to replace a workload by another while something is done with it, or if it would lose objects.
func replaceable(have, wanted *policyv1alpha1.PropagationPolicy) error {
	name := have.Namespace + "/" + have.Name
	if deleting(have) {
		return hub.Faultf(http.StatusConflict, "workload %s is being removed; wait until it is gone, and delete it again if that was interrupted", name)
	}
	if moving(have) {
		return hub.Faultf(http.StatusConflict, "workload %s is moving; wait until it has moved", name)
	}
	var lost []string
	for _, old := range have.Spec.ResourceSelectors {
		exists := false
		for _, object := range wanted.Spec.ResourceSelectors {
			exists = exists || (old.APIVersion == object.APIVersion && old.Kind == object.Kind && old.Name == object.Name)
		}
		if !exists {
			lost = append(lost, old.Kind+" "+old.Name)
		}
	}
	if len(lost) > 0 {
		return hub.Faultf(http.StatusConflict, "workload %s has %s, and the manifest does not; delete the workload first if it shall lose objects", name, strings.Join(lost, ", "))
	}
	if gone := without(placedOn(have), placedOn(wanted)); len(gone) > 0 {
		return hub.Faultf(http.StatusConflict, "workload %s is on %s as well; move it, so that it is not gone from there before it runs elsewhere", name, strings.Join(gone, ", "))
	}
	return nil
}

// mine refuses objects that the hub has already and that are not the workload's: they would be taken from whoever made them, and go with the
// workload.
func (s *Service) mine(ctx context.Context, workload string, objects []*unstructured.Unstructured) error {
	foreign := make([]string, len(objects))
	var things []func() error
	for i, object := range objects {
		things = append(things, func() error {
			have := &metav1.PartialObjectMetadata{}
			have.SetGroupVersionKind(object.GroupVersionKind())
			err := s.Client.Get(ctx, client.ObjectKeyFromObject(object), have)
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("look for %s: %w", called(object), err)
			}
			switch owner := have.Labels[tsn.WorkloadLabel]; {
			case err != nil || owner == workload:
			case owner == "":
				foreign[i] = called(object) + " (of no workload)"
			default:
				foreign[i] = called(object) + " (of workload " + owner + ")"
			}
			return nil
		})
	}
	if err := firstOf(things...); err != nil {
		return err
	}
	foreign = slices.DeleteFunc(foreign, func(name string) bool { return name == "" })
	if len(foreign) > 0 {
		return hub.Faultf(http.StatusConflict, "the hub has %s already; take other names, or delete them first", strings.Join(foreign, ", "))
	}
	return nil
}

// writePolicy makes the policy or changes the one that there is.
func (s *Service) writePolicy(ctx context.Context, have, wanted *policyv1alpha1.PropagationPolicy, options ...client.CreateOption) error {
	var err error
	if have == nil {
		err = s.Client.Create(ctx, wanted.DeepCopy(), append(options, fieldOwner)...)
	} else {
		changed := have.DeepCopy()
		changed.Spec.ResourceSelectors, changed.Spec.PreserveResourcesOnDeletion = wanted.Spec.ResourceSelectors, wanted.Spec.PreserveResourcesOnDeletion
		changed.Spec.ConflictResolution = wanted.Spec.ConflictResolution
		if changed.Annotations == nil {
			changed.Annotations = map[string]string{}
		}
		changed.Annotations[manifestAnnotation] = wanted.Annotations[manifestAnnotation]
		placeOn(changed, placedOn(wanted))
		var updates []client.UpdateOption
		if len(options) > 0 {
			updates = append(updates, client.DryRunAll)
		}
		err = s.Client.Update(ctx, changed, append(updates, fieldOwner)...)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return hub.Faultf(http.StatusConflict, "workload %s/%s was made or changed by somebody else at the same time; look at it, and deploy it again", wanted.Namespace, wanted.Name)
	}
	if err != nil {
		return fmt.Errorf("write policy %s/%s: %w", wanted.Namespace, wanted.Name, err)
	}
	return nil
}

// apply gives each object to the hub. With an option to only try, all that is wrong is found.
func (s *Service) apply(ctx context.Context, objects []*unstructured.Unstructured, options ...client.ApplyOption) []func() error {
	options = append(options, fieldOwner, client.ForceOwnership)
	var all []func() error
	for _, object := range objects {
		all = append(all, func() error {
			// The answer of the hub would be written into it.
			err := s.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), options...)
			if err == nil {
				return nil
			}
			// The hub calls a field that the kind does not have a failure of its own.
			if strings.Contains(err.Error(), "field not declared in schema") {
				err = invalid("%v", err)
			}
			return fmt.Errorf("%s: %w", called(object), err)
		})
	}
	return all
}
