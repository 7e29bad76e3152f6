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

// fieldOwner is the field manager of the federator's writes.
const fieldOwner = client.FieldOwner(federation.Manager)

// Service serves one caller.
type Service struct {
	// Client acts as the caller.
	Client client.Client
	// Lister lists for the caller.
	Lister hub.Lister
	// FederatorClient acts as the federator. It only reads Works, for which callers need no rights.
	FederatorClient client.Reader
	// Busy are the workloads that are being deployed.
	Busy *Busy
	// User is the caller's name.
	User string
	Now  func() time.Time
}

// Deploy places the objects of a manifest on clusters. A dry run of everything comes first. It can be repeated after a
// failure, and applies changes of the manifest. Independent requests to the hub are sent concurrently.
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
	existing, err := s.checkBefore(ctx, request, objects, createdObjects, wanted)
	if err != nil {
		return nil, err
	}
	try := func() error { return s.writePolicy(ctx, existing, wanted, client.DryRunAll) }
	if err := errors.Join(runConcurrently(false, append(s.apply(ctx, createdObjects, client.DryRunAll), try)...)...); err != nil || request.DryRun {
		return describe(wanted, nil), err
	}
	if err := s.applyAll(ctx, existing, wanted, createdObjects); err != nil {
		return nil, err
	}
	return s.Get(ctx, namespace, request.Name)
}

// applyAll writes the objects after a successful dry run, so that a caller without the right to deploy a workload
// blocks nobody else. Another replica may deploy the same workload; the caller whose policy wins gets no error, all
// others do.
func (s *Service) applyAll(ctx context.Context, existing, wanted *policyv1alpha1.PropagationPolicy, objects []*unstructured.Unstructured) error {
	name := wanted.Namespace + "/" + wanted.Name
	end, free := s.Busy.begin(name)
	if !free {
		return hub.Faultf(http.StatusConflict, "workload %s is being deployed by somebody else; look at it when that has ended, and deploy it again", name)
	}
	defer end()
	if err := s.writePolicy(ctx, existing, wanted); err != nil {
		return err
	}
	if err := errors.Join(runConcurrently(true, s.apply(ctx, objects)...)...); err != nil {
		return err
	}
	policy, err := find(ctx, s.Client, wanted.Namespace, wanted.Name)
	if err == nil && policy != nil && policy.Annotations[manifestAnnotation] != wanted.Annotations[manifestAnnotation] {
		err = hub.Faultf(http.StatusConflict, "workload %s was deployed by somebody else at the same time, and may have objects of both manifests; deploy it again", name)
	}
	return err
}

// prepare labels the objects.
func (s *Service) prepare(request *federation.DeployRequest, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		if err := s.checkKind(object); err != nil {
			return err
		}
		if err := mark(object, request.Name, request.Networks); err != nil {
			return err
		}
	}
	return labelAll(request, objects)
}

// checkBefore checks that the named networks, services and clusters exist, and what exists at the hub already. It
// returns the existing policy.
func (s *Service) checkBefore(ctx context.Context, request *federation.DeployRequest, objects, createdObjects []*unstructured.Unstructured,
	wanted *policyv1alpha1.PropagationPolicy) (have *policyv1alpha1.PropagationPolicy, err error) {
	things := []func() error{
		func() error { return clusters.Require(ctx, s.Client, request.Clusters) },
		func() error { return s.checkServices(ctx, request, objects) },
	}
	for _, name := range request.Networks {
		things = append(things, func() error {
			known, err := s.checkNetwork(ctx, name, request.Clusters)
			if err == nil && !known {
				err = invalid("there is no TSNNetwork %s at the hub", name)
			}
			return err
		})
	}
	things = append(things,
		func() error {
			return s.checkNetworks(ctx, without(networksOf(objects), request.Networks), request.Clusters)
		},
		func() (err error) {
			if have, err = find(ctx, s.Client, wanted.Namespace, wanted.Name); err != nil || have == nil {
				return err
			}
			return checkReplaceable(have, wanted)
		},
		func() error { return s.checkOwnership(ctx, request.Name, createdObjects) },
	)
	err = firstError(things...)
	return have, err
}

// checkKind rejects kinds that the hub does not have, or that are not namespaced.
func (s *Service) checkKind(object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	if kind.Group == tsn.GroupVersion.Group && (kind.Kind == "TSNService" || kind.Kind == "TSNLink") {
		return invalid("%s is not part of a workload: the federator has services and links be on clusters itself; make a TSNService at the hub", describeObject(object))
	}
	mapping, err := s.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	switch {
	case meta.IsNoMatchError(err):
		return invalid("%s: the hub knows no kind %s of %s; install its CustomResourceDefinition there, or correct apiVersion and kind", describeObject(object), object.GetKind(),
			object.GetAPIVersion())
	case err != nil:
		return fmt.Errorf("look for kind %s of %s: %w", object.GetKind(), object.GetAPIVersion(), err)
	case mapping.Scope.Name() != meta.RESTScopeNameNamespace:
		return invalid("%s is in no namespace; make it at the hub, with a ClusterPropagationPolicy of Karmada's", describeObject(object))
	}
	return nil
}

// checkReplaceable refuses to replace a workload that is moving or being removed, or that would lose objects.
func checkReplaceable(existing, wanted *policyv1alpha1.PropagationPolicy) error {
	name := existing.Namespace + "/" + existing.Name
	if isDeleting(existing) {
		return hub.Faultf(http.StatusConflict, "workload %s is being removed; wait until it is gone, and delete it again if that was interrupted", name)
	}
	if isMoving(existing) {
		return hub.Faultf(http.StatusConflict, "workload %s is moving; wait until it has moved", name)
	}
	var lost []string
	for _, old := range existing.Spec.ResourceSelectors {
		if !slices.ContainsFunc(wanted.Spec.ResourceSelectors, func(object policyv1alpha1.ResourceSelector) bool {
			return old.APIVersion == object.APIVersion && old.Kind == object.Kind && old.Name == object.Name
		}) {
			lost = append(lost, old.Kind+" "+old.Name)
		}
	}
	if len(lost) > 0 {
		return hub.Faultf(http.StatusConflict, "workload %s has %s, and the manifest does not; delete the workload first if it shall lose objects", name, strings.Join(lost, ", "))
	}
	if gone := without(placedOn(existing), placedOn(wanted)); len(gone) > 0 {
		return hub.Faultf(http.StatusConflict, "workload %s is on %s as well; move it, so that it is not gone from there before it runs elsewhere", name, strings.Join(gone, ", "))
	}
	return nil
}

// checkOwnership rejects objects that exist at the hub and do not belong to the workload: they would be taken from
// their owner, and deleted with the workload.
func (s *Service) checkOwnership(ctx context.Context, workload string, objects []*unstructured.Unstructured) error {
	foreign := make([]string, len(objects))
	var things []func() error
	for i, object := range objects {
		things = append(things, func() error {
			have := &metav1.PartialObjectMetadata{}
			have.SetGroupVersionKind(object.GroupVersionKind())
			err := s.Client.Get(ctx, client.ObjectKeyFromObject(object), have)
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("look for %s: %w", describeObject(object), err)
			}
			switch owner := have.Labels[tsn.WorkloadLabel]; {
			case err != nil || owner == workload:
			case owner == "":
				foreign[i] = describeObject(object) + " (of no workload)"
			default:
				foreign[i] = describeObject(object) + " (of workload " + owner + ")"
			}
			return nil
		})
	}
	if err := firstError(things...); err != nil {
		return err
	}
	foreign = slices.DeleteFunc(foreign, func(name string) bool { return name == "" })
	if len(foreign) > 0 {
		return hub.Faultf(http.StatusConflict, "the hub has %s already; take other names, or delete them first", strings.Join(foreign, ", "))
	}
	return nil
}

// writePolicy creates or updates the policy.
func (s *Service) writePolicy(ctx context.Context, existing, wanted *policyv1alpha1.PropagationPolicy, options ...client.CreateOption) error {
	var err error
	if existing == nil {
		err = s.Client.Create(ctx, wanted.DeepCopy(), append(options, fieldOwner)...)
	} else {
		changed := existing.DeepCopy()
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

// apply applies each object at the hub. With the option for a dry run it only finds errors.
func (s *Service) apply(ctx context.Context, objects []*unstructured.Unstructured, options ...client.ApplyOption) []func() error {
	options = append(options, fieldOwner, client.ForceOwnership)
	var all []func() error
	for _, object := range objects {
		all = append(all, func() error {
			// Apply overwrites its argument with the hub's answer.
			err := s.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), options...)
			if err == nil {
				return nil
			}
			// The hub reports a field that the kind does not have as an internal error.
			if strings.Contains(err.Error(), "field not declared in schema") {
				err = invalid("%v", err)
			}
			return fmt.Errorf("%s: %w", describeObject(object), err)
		})
	}
	return all
}
