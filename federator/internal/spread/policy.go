// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"context"
	"fmt"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// FieldOwner is who the hub says has written a field.
const FieldOwner = client.FieldOwner(federation.Manager)

// ForeignError is an object of the name that is needed, which is somebody else's.
type ForeignError struct {
	// Object is what it is called, and For what it was to be made for.
	Object, For string
}

func (e ForeignError) Error() string {
	return e.Object + " was made by somebody else, and stays as it is; remove it, or take another name for the " + e.For
}

// Ours tells whether an object was made by the federator for what a label names. One that is not there yet will be.
func Ours(object client.Object, label, value string) bool {
	return object.GetResourceVersion() == "" || object.GetLabels()[federation.ManagedBy] == federation.Manager && object.GetLabels()[label] == value
}

// Save makes an object, or writes it if it is another than before.
func Save(ctx context.Context, c client.Client, before, object client.Object) error {
	var err error
	switch {
	case object.GetResourceVersion() == "":
		err = c.Create(ctx, object, FieldOwner)
	case !equality.Semantic.DeepEqual(before, object):
		err = c.Update(ctx, object, FieldOwner)
	}
	if err != nil {
		return fmt.Errorf("write %T %s: %w", object, object.GetName(), err)
	}
	return nil
}

// Propagate has Karmada put objects on clusters, of which there must be one: without, Karmada would take all. What is there stays there when
// the hub forgets it.
func Propagate(policy *policyv1alpha1.PropagationSpec, selectors []policyv1alpha1.ResourceSelector, clusters []string, conflict policyv1alpha1.ConflictResolution) {
	policy.ResourceSelectors = selectors
	policy.ConflictResolution = conflict
	policy.PreserveResourcesOnDeletion = ptr.To(true)
	if policy.Placement.ClusterAffinity == nil {
		policy.Placement.ClusterAffinity = &policyv1alpha1.ClusterAffinity{}
	}
	policy.Placement.ClusterAffinity.ClusterNames = clusters
}
