// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Lister lists objects.
type Lister interface {
	List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error
}

// Kept lists for one caller what the federator keeps of the hub in memory, and so may be a moment old. The hub would send all objects of
// a kind as JSON for each request, of which most of the time of an answer went into reading. What it is asked for each list instead
// is whether the caller may have it.
type Kept struct {
	Memory Lister
	// Caller acts as the caller, and User is the caller's name.
	Caller client.Client
	User   string
}

// List fills a list, or returns the hub's refusal. Objects belong to the memory: nobody may change them. They have no order.
func (k *Kept) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := k.may(ctx, list, (&client.ListOptions{}).ApplyOptions(options).Namespace); err != nil {
		return err
	}
	return k.Memory.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...)
}

// may asks the hub, as the caller, whether the caller may list a kind in a namespace, or in all. The answer is not kept.
func (k *Kept) may(ctx context.Context, list client.ObjectList, namespace string) error {
	resource, err := k.resource(list)
	if err != nil {
		return err
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "list", Group: resource.Group, Version: resource.Version, Resource: resource.Resource, Namespace: namespace,
		},
	}}
	if err := k.Caller.Create(ctx, review); err != nil {
		return fmt.Errorf("ask the hub what %s may list: %w", k.User, err)
	}
	if review.Status.Allowed {
		return nil
	}
	return refusal(k.User, resource.GroupResource(), namespace, review.Status.Reason)
}

// resource is what a list is of.
func (k *Kept) resource(list client.ObjectList) (schema.GroupVersionResource, error) {
	kind, err := apiutil.GVKForObject(list, k.Caller.Scheme())
	if err != nil {
		return schema.GroupVersionResource{}, fmt.Errorf("list objects of the hub: %w", err)
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	mapping, err := k.Caller.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return schema.GroupVersionResource{}, fmt.Errorf("list objects of the hub: %w", err)
	}
	return mapping.Resource, nil
}

// refusal is in the words in which an API server refuses a list.
func refusal(user string, resource schema.GroupResource, namespace, reason string) error {
	where := "at the cluster scope"
	if namespace != "" {
		where = fmt.Sprintf("in the namespace %q", namespace)
	}
	if reason != "" {
		where += ": " + reason
	}
	sentence := fmt.Sprintf("User %q cannot list resource %q in API group %q %s", user, resource.Resource, resource.Group, where)
	return apierrors.NewForbidden(resource, "", errors.New(sentence))
}
