// SPDX-License-Identifier: Apache-2.0

package clustertarget

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// right is a permission in the cluster.
type right struct {
	verb, group, resource, subresource, namespace string
}

func (r right) String() string {
	text := r.verb + " " + r.resource
	if r.subresource != "" {
		text += "/" + r.subresource
	}
	if r.group != "" {
		text += "." + r.group
	}
	if r.namespace != "" {
		text += " in namespace " + r.namespace
	}
	return text
}

// needed are the rights without which a bench is impossible.
func (c *connection) needed(tsn bool) []right {
	all := []right{
		{verb: "get", resource: "namespaces"},
		{verb: "create", resource: "namespaces"},
		{verb: "delete", resource: "namespaces"},
		{verb: "list", resource: "nodes"},
		{verb: "create", resource: "pods", namespace: c.Namespace},
		{verb: "get", resource: "pods", namespace: c.Namespace},
		{verb: "list", resource: "events", namespace: c.Namespace},
		{verb: "create", resource: "pods", subresource: "exec", namespace: c.Namespace},
	}
	if tsn {
		all = append(all, right{verb: "get", group: v1alpha1.GroupVersion.Group, resource: networkResource},
			right{verb: "get", group: attachmentGroup, resource: attachmentResource, namespace: c.networkNamespace()})
	}
	return all
}

// Rights without which something is not measured.
var ofKubelet = right{verb: "get", resource: "nodes", subresource: "proxy"}

func (c *connection) ofKtsnd() []right {
	return []right{{verb: "list", resource: "pods", namespace: c.networkNamespace()},
		{verb: "create", resource: "pods", subresource: "exec", namespace: c.networkNamespace()}}
}

// ofTools are the rights for experiments with other programs, whose peers are found by the names of Services.
func (c *connection) ofTools(tsn bool) []right {
	all := []right{{verb: "create", resource: "services", namespace: c.Namespace}}
	if tsn {
		for _, verb := range []string{"create", "update"} {
			all = append(all, right{verb: verb, group: discoveryv1.GroupName, resource: "endpointslices", namespace: c.Namespace})
		}
	}
	return all
}

// lacking asks the cluster which rights the user does not have.
func (c *connection) lacking(ctx context.Context, rights ...right) ([]string, error) {
	var all []string
	for _, right := range rights {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: right.verb, Group: right.group, Resource: right.resource,
				Subresource: right.subresource, Namespace: right.namespace}}}
		answer := &authorizationv1.SelfSubjectAccessReview{}
		if err := c.authorization.Post().Resource("selfsubjectaccessreviews").Body(review).Do(ctx).Into(answer); err != nil {
			return nil, c.explain("ask the cluster what is allowed", err)
		}
		if !answer.Status.Allowed {
			all = append(all, right.String())
		}
	}
	return all, nil
}

// checkRights fails if the user lacks a right that a bench needs.
func (c *connection) checkRights(ctx context.Context, tsn bool) error {
	lacking, err := c.lacking(ctx, c.needed(tsn)...)
	if err != nil || len(lacking) == 0 {
		return err
	}
	return c.refuse(lacking)
}

func (c *connection) refuse(lacking []string) error {
	return fmt.Errorf("the user of %s may not %s; have a role made with these rights (examples/bench-role.yaml has all), or name another "+
		"--context", c.Kubeconfig, strings.Join(lacking, ", "))
}
