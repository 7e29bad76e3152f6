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

// CachedLister lists objects from the federator's cache for one caller, so the result can be slightly old. Reading all
// objects of a kind from the hub as JSON for each request took most of the time of a response. Instead, the hub is
// asked for each list whether the caller may read it.
type CachedLister struct {
	Memory Lister
	// Caller acts as the caller, and User is the caller's name.
	Caller client.Client
	User   string
}

// List fills a list, or returns the hub's refusal. The objects belong to the cache and must not be changed. They have
// no order.
func (k *CachedLister) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := k.checkAccess(ctx, list, (&client.ListOptions{}).ApplyOptions(options).Namespace); err != nil {
		return err
	}
	return k.Memory.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...)
}

// checkAccess asks the hub whether the caller may list a kind in a namespace, or in all namespaces. The answer is not
// cached.
func (k *CachedLister) checkAccess(ctx context.Context, list client.ObjectList, namespace string) error {
	resource, err := k.resourceOf(list)
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

// resourceOf returns the resource of a list.
func (k *CachedLister) resourceOf(list client.ObjectList) (schema.GroupVersionResource, error) {
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

// refusal returns the error with which an API server refuses a list.
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
