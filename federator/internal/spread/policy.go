// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"context"
	"fmt"
	"path"
	"reflect"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
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
	return e.Object + " was created by somebody else and is not changed; remove it, or choose another name for the " + e.For
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

// Owner is a network, service or link for which the federator writes policies.
type Owner struct {
	Client client.Client
	// Live reads the policies.
	Live client.Reader
	// Object owns the policies, and Kind is its kind.
	Object client.Object
	Kind   string
	// Label of the policies has the value Value; Word is the word for the owner in messages.
	Label, Value, Word string
}

// Adopt makes an object with a name the owner's, and returns a copy from before. It fails with a ForeignError if somebody
// else has created the object.
func (o *Owner) Adopt(object client.Object, name string) (before client.Object, err error) {
	if !IsOurs(object, o.Label, o.Value) {
		return nil, ForeignError{Object: reflect.TypeOf(object).Elem().Name() + " " + path.Join(o.Object.GetNamespace(), name), For: o.Word}
	}
	before = object.DeepCopyObject().(client.Object)
	if object.GetResourceVersion() == "" {
		object.SetNamespace(o.Object.GetNamespace())
		object.SetName(name)
		object.SetLabels(map[string]string{o.Label: o.Value, federation.ManagedBy: federation.Manager})
	}
	object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: tsn.GroupVersion.String(), Kind: o.Kind, Name: o.Object.GetName(), UID: o.Object.GetUID()}})
	return before, nil
}

// Place writes the policy that places objects on clusters. Clusters among members get the objects once they report the kind; if members
// is empty, all get them at once. A policy without clusters or objects is deleted: Karmada would take all clusters. Clusters keep the
// objects when the hub deletes them.
func (o *Owner) Place(ctx context.Context, policy client.Object, spec *policyv1alpha1.PropagationSpec, name string, selectors []policyv1alpha1.ResourceSelector,
	members []v1alpha1.Cluster, clusters []string, conflict policyv1alpha1.ConflictResolution) error {
	if err := client.IgnoreNotFound(o.Live.Get(ctx, types.NamespacedName{Namespace: o.Object.GetNamespace(), Name: name}, policy)); err != nil {
		return fmt.Errorf("look at policy %s: %w", path.Join(o.Object.GetNamespace(), name), err)
	}
	before, err := o.Adopt(policy, name)
	if err != nil {
		return err
	}
	if len(selectors) > 0 && len(members) > 0 {
		clusters = Placeable(members, selectors[0].Kind, clusters, spec)
	}
	if len(selectors) == 0 || len(clusters) == 0 {
		if policy.GetResourceVersion() == "" {
			return nil
		}
		return client.IgnoreNotFound(o.Client.Delete(ctx, policy))
	}
	spec.ResourceSelectors, spec.ConflictResolution, spec.PreserveResourcesOnDeletion = selectors, conflict, ptr.To(true)
	if spec.Placement.ClusterAffinity == nil {
		spec.Placement.ClusterAffinity = &policyv1alpha1.ClusterAffinity{}
	}
	spec.Placement.ClusterAffinity.ClusterNames = clusters
	return Save(ctx, o.Client, before, policy)
}

// Selector selects an object of KuberneTSN.
func Selector(kind, namespace, name string) policyv1alpha1.ResourceSelector {
	return policyv1alpha1.ResourceSelector{APIVersion: tsn.GroupVersion.String(), Kind: kind, Namespace: namespace, Name: name}
}

// UpdateStatus sets the conditions of an object, and writes the status if it is not the one of before.
func UpdateStatus(ctx context.Context, c client.Client, before, object client.Object, conditions *[]metav1.Condition, word string, findings []Finding, placements []Placement) error {
	for _, condition := range []metav1.Condition{Ready(word, findings, placements), Degraded(findings)} {
		condition.ObservedGeneration = object.GetGeneration()
		meta.SetStatusCondition(conditions, condition)
	}
	if equality.Semantic.DeepEqual(before, object) {
		return nil
	}
	if err := c.Status().Update(ctx, object, FieldOwner); err != nil {
		return fmt.Errorf("write its status: %w", err)
	}
	return nil
}
