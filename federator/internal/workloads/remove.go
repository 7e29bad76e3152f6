// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

const (
	// releaseTimeout is how long Karmada may take to tell clusters to remove a workload; releasePerObject is added for
	// each of its objects.
	releaseTimeout   = 15 * time.Second
	releasePerObject = 300 * time.Millisecond
	releasePoll      = 100 * time.Millisecond
	// withdrawTimeout limits the attempts to undo a deletion.
	withdrawTimeout = 5 * time.Second
)

// Delete removes a workload from its clusters and from the hub. Clusters keep objects that the hub deletes, so Karmada
// is first told to remove them. Missing rights of the caller are found before anything changes. Delete can be repeated
// after a failure.
func (s *Service) Delete(ctx context.Context, namespace, name string) error {
	policy, err := get(ctx, s.Client, namespace, name)
	if err != nil {
		return err
	}
	if err := s.deleteAll(ctx, policy, client.DryRunAll); err != nil {
		return err
	}
	err = s.announce(ctx, policy)
	switch {
	case apierrors.IsNotFound(err): // it was deleted a moment ago
		return notFound(namespace, name)
	case err != nil:
		return fmt.Errorf("mark workload %s/%s as being deleted: %w", namespace, name, err)
	}
	if err := s.awaitRelease(ctx, policy); err != nil {
		return errors.Join(err, s.withdraw(ctx, policy))
	}
	return s.deleteAll(ctx, policy)
}

// deleteAll deletes the objects of a workload, and then its policy.
func (s *Service) deleteAll(ctx context.Context, policy *policyv1alpha1.PropagationPolicy, options ...client.DeleteOption) error {
	for _, selector := range policy.Spec.ResourceSelectors {
		if err := s.deleteObject(ctx, policy, &selector, options...); err != nil {
			return err
		}
	}
	if err := client.IgnoreNotFound(s.Client.Delete(ctx, policy, options...)); err != nil {
		return fmt.Errorf("remove policy %s/%s: %w", policy.Namespace, policy.Name, err)
	}
	return nil
}

// withdraw undoes the announcement of a deletion before anything was deleted. It continues if the caller disconnects.
func (s *Service) withdraw(ctx context.Context, policy *policyv1alpha1.PropagationPolicy) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
	defer cancel()
	err := s.updatePolicy(ctx, policy, func() {
		delete(policy.Annotations, federation.DeletingAnnotation)
		// A move in progress decides itself what clusters keep.
		policy.Spec.PreserveResourcesOnDeletion = ptr.To(!isMoving(policy))
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("undo the deletion of workload %s/%s: %w", policy.Namespace, policy.Name, err)
	}
	return nil
}

// updatePolicy changes the current version of a policy.
func (s *Service) updatePolicy(ctx context.Context, policy *policyv1alpha1.PropagationPolicy, mutate func()) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		mutate()
		return s.Client.Update(ctx, policy, fieldOwner)
	})
}

// announce records that a workload is being deleted.
func (s *Service) announce(ctx context.Context, policy *policyv1alpha1.PropagationPolicy) error {
	return s.updatePolicy(ctx, policy, func() {
		if policy.Annotations == nil {
			policy.Annotations = map[string]string{}
		}
		if policy.Annotations[federation.DeletingAnnotation] == "" {
			policy.Annotations[federation.DeletingAnnotation] = s.Now().UTC().Format(time.RFC3339)
		}
		policy.Spec.PreserveResourcesOnDeletion = ptr.To(false)
	})
}

func (s *Service) awaitRelease(ctx context.Context, policy *policyv1alpha1.PropagationPolicy) error {
	patience := releaseTimeout + time.Duration(len(policy.Spec.ResourceSelectors))*releasePerObject
	end := time.After(patience)
	for {
		p, err := readProgress(ctx, s.FederatorClient, policy)
		if err != nil {
			return err
		}
		if p.released(placedOn(policy)) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			return hub.Faultf(http.StatusGatewayTimeout, "Karmada has not processed within %v that workload %s/%s is being deleted, and clusters would keep it; nothing was removed: "+
				"check karmada-controller-manager, and delete it again", patience, policy.Namespace, policy.Name)
		case <-time.After(releasePoll):
		}
	}
}

// deleteObject deletes an object of a workload, unless it belongs to another one by now.
func (s *Service) deleteObject(ctx context.Context, policy *policyv1alpha1.PropagationPolicy, selector *policyv1alpha1.ResourceSelector, options ...client.DeleteOption) error {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(selector.APIVersion)
	object.SetKind(selector.Kind)
	err := s.Client.Get(ctx, types.NamespacedName{Namespace: policy.Namespace, Name: selector.Name}, object)
	if err == nil && object.GetLabels()[tsn.WorkloadLabel] == policy.Name {
		options = append(options, client.PropagationPolicy("Background"), client.Preconditions{UID: ptr.To(object.GetUID())})
		err = s.Client.Delete(ctx, object, options...)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove %s %s/%s: %w", selector.Kind, policy.Namespace, selector.Name, err)
	}
	return nil
}
