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
	// releasePatience is for how long Karmada may take to hear that clusters shall remove a workload, and releasePerObject how much longer for
	// each of its objects.
	releasePatience  = 15 * time.Second
	releasePerObject = 300 * time.Millisecond
	releasePoll      = 100 * time.Millisecond
	// withdrawPatience is for how long it is tried to take a deletion back.
	withdrawPatience = 5 * time.Second
)

// Delete removes a workload from its clusters and from the hub. Clusters keep what the hub merely forgets, so that Karmada is told first
// that this is meant. What the caller may not delete is found before. Asked again, it completes what was begun.
func (s *Service) Delete(ctx context.Context, namespace, name string) error {
	policy, err := mustFind(ctx, s.Client, namespace, name)
	if err != nil {
		return err
	}
	if err := s.deleteAll(ctx, policy, client.DryRunAll); err != nil {
		return err
	}
	err = s.announce(ctx, policy)
	switch {
	case apierrors.IsNotFound(err): // it went a moment ago
		return absent(namespace, name)
	case err != nil:
		return fmt.Errorf("announce that workload %s/%s goes: %w", namespace, name, err)
	}
	if err := s.awaitRelease(ctx, policy); err != nil {
		return errors.Join(err, s.withdraw(ctx, policy))
	}
	return s.deleteAll(ctx, policy)
}

// deleteAll removes the objects of a workload, and then its policy.
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

// withdraw takes back that a workload goes, of which nothing was removed yet. It is done also when the caller no longer waits.
func (s *Service) withdraw(ctx context.Context, policy *policyv1alpha1.PropagationPolicy) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawPatience)
	defer cancel()
	err := s.change(ctx, policy, func() {
		delete(policy.Annotations, federation.DeletingAnnotation)
		// A move that goes on says itself what clusters keep.
		policy.Spec.PreserveResourcesOnDeletion = ptr.To(!moving(policy))
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("take back that workload %s/%s goes: %w", policy.Namespace, policy.Name, err)
	}
	return nil
}

// change changes a policy as it is now.
func (s *Service) change(ctx context.Context, policy *policyv1alpha1.PropagationPolicy, how func()) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		how()
		return s.Client.Update(ctx, policy, fieldOwner)
	})
}

// announce writes down that a workload goes.
func (s *Service) announce(ctx context.Context, policy *policyv1alpha1.PropagationPolicy) error {
	return s.change(ctx, policy, func() {
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
	patience := releasePatience + time.Duration(len(policy.Spec.ResourceSelectors))*releasePerObject
	end := time.After(patience)
	for {
		p, err := readProgress(ctx, s.Own, policy)
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
			return hub.Faultf(http.StatusGatewayTimeout, "Karmada has not heard within %v that workload %s/%s goes, and clusters would keep it; nothing was removed: "+
				"look at karmada-controller-manager, and delete it again", patience, policy.Namespace, policy.Name)
		case <-time.After(releasePoll):
		}
	}
}

// deleteObject removes an object of a workload, unless it is another's by now.
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
