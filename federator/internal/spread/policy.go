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

// FieldOwner is the field manager of the federator's writes.
const FieldOwner = client.FieldOwner(federation.Manager)

// ForeignError is returned if an object with the needed name was created by somebody else.
type ForeignError struct {
	// Object names the existing object, For the object that needs the name.
	Object, For string
}

func (e ForeignError) Error() string {
	return e.Object + " was made by somebody else, and stays as it is; remove it, or take another name for the " + e.For
}

// IsOurs reports whether the federator created an object for the value of a label. A new object counts as the
// federator's.
func IsOurs(object client.Object, label, value string) bool {
	return object.GetResourceVersion() == "" || object.GetLabels()[federation.ManagedBy] == federation.Manager && object.GetLabels()[label] == value
}

// Save creates an object, or updates it if it has changed.
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

// Propagate sets the clusters of a policy. At least one is required: without any, Karmada would take all. Clusters keep
// the objects when the hub deletes them.
func Propagate(policy *policyv1alpha1.PropagationSpec, selectors []policyv1alpha1.ResourceSelector, clusters []string, conflict policyv1alpha1.ConflictResolution) {
	policy.ResourceSelectors = selectors
	policy.ConflictResolution = conflict
	policy.PreserveResourcesOnDeletion = ptr.To(true)
	if policy.Placement.ClusterAffinity == nil {
		policy.Placement.ClusterAffinity = &policyv1alpha1.ClusterAffinity{}
	}
	policy.Placement.ClusterAffinity.ClusterNames = clusters
}
