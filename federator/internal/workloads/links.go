// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/links"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// askedLabels returns the pod labels that a request asks for.
func askedLabels(request *federation.DeployRequest) map[string]string {
	asked := map[string]string{}
	for service, name := range request.Clients {
		asked[tsn.ClientLabelPrefix+service] = name
	}
	for service, prefix := range request.Endpoints {
		asked[tsn.EndpointLabelPrefix+service] = prefix
	}
	return asked
}

// labelAll adds the requested labels to the pods of the objects.
func labelAll(request *federation.DeployRequest, objects []*unstructured.Unstructured) error {
	asked := askedLabels(request)
	withPods := false
	for _, object := range objects {
		withPods = withPods || podMetadata(object) != nil
		if err := labelPods(object, asked); err != nil {
			return err
		}
		if _, err := rolesOf(object); err != nil {
			return err
		}
	}
	if len(asked) > 0 && !withPods {
		return invalid("links are requested, and no object in the manifest has pods")
	}
	return nil
}

// checkServices rejects objects whose pods have labels of services that are not on the clusters.
func (s *Service) checkServices(ctx context.Context, request *federation.DeployRequest, objects []*unstructured.Unstructured) error {
	asked := askedLabels(request)
	var things []func() error
	for _, object := range objects {
		roles, err := rolesOf(object)
		if err != nil {
			return err
		}
		for _, role := range roles {
			things = append(things, func() error {
				known, err := s.checkService(ctx, &role, request.Clusters)
				if _, must := asked[role.Label]; err == nil && must && !known {
					err = invalid("there is no TSNService %s in namespace %s at the hub", role.Service, role.Namespace)
				}
				return err
			})
		}
	}
	return firstError(things...)
}

// labelPods labels the pods of an object. A label with a different value in the manifest is an error.
func labelPods(object *unstructured.Unstructured, asked map[string]string) error {
	path := podMetadata(object)
	if path == nil || len(asked) == 0 {
		return nil
	}
	have, _, err := unstructured.NestedStringMap(object.Object, append(slices.Clone(path), "labels")...)
	if err != nil {
		return invalid("%s has labels of its pods that cannot be read: %v", describeObject(object), err)
	}
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		if other, has := have[key]; has && other != asked[key] {
			return invalid("the pods of %s have label %s with %q in the manifest, and %q was asked for", describeObject(object), key, other, asked[key])
		}
	}
	labels := maps.Clone(asked)
	maps.Copy(labels, have)
	if err := unstructured.SetNestedStringMap(object.Object, labels, append(slices.Clone(path), "labels")...); err != nil {
		return fmt.Errorf("label the pods of %s: %w", describeObject(object), err)
	}
	return nil
}

// rolesOf returns the roles that the labels of an object's pods define.
func rolesOf(object *unstructured.Unstructured) ([]links.Role, error) {
	path := podMetadata(object)
	if path == nil {
		return nil, nil
	}
	labels, _, err := unstructured.NestedStringMap(object.Object, append(slices.Clone(path), "labels")...)
	if err != nil {
		return nil, invalid("%s has labels of its pods that cannot be read: %v", describeObject(object), err)
	}
	roles, wrong := links.ParseRoles(labels, object.GetNamespace())
	for _, labelError := range wrong {
		return nil, invalid("pods of %s: %v", describeObject(object), labelError)
	}
	if err := links.CheckInterfaces(roles, nil); err != nil {
		return nil, invalid("pods of %s: %v", describeObject(object), err)
	}
	return roles, nil
}

// checkService rejects clusters on which a service is not, and reports whether the hub has the service. Other services
// are the clusters' own.
func (s *Service) checkService(ctx context.Context, role *links.Role, clusters []string) (known bool, err error) {
	var service tsn.TSNService
	err = s.Client.Get(ctx, types.NamespacedName{Namespace: role.Namespace, Name: role.Service}, &service)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at service %s/%s: %w", role.Namespace, role.Service, err)
	}
	if only := service.Spec.Clusters; len(only) > 0 {
		if missing := without(clusters, only); len(missing) > 0 {
			return true, invalid("TSNService %s/%s is not on cluster %s: its spec.clusters names %s", role.Namespace, role.Service, strings.Join(missing, ", "), strings.Join(only, ", "))
		}
	}
	return true, nil
}

// checkPolicy rejects clusters that the networks of a workload's pods do not span, or on which their services are not.
func (s *Service) checkPolicy(ctx context.Context, policy *policyv1alpha1.PropagationPolicy, clusters []string) error {
	var objects []*unstructured.Unstructured
	for _, selector := range policy.Spec.ResourceSelectors {
		object := &unstructured.Unstructured{}
		object.SetAPIVersion(selector.APIVersion)
		object.SetKind(selector.Kind)
		err := s.Client.Get(ctx, types.NamespacedName{Namespace: policy.Namespace, Name: selector.Name}, object)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("look at %s %s: %w", selector.Kind, selector.Name, err)
		}
		if err == nil {
			objects = append(objects, object)
		}
	}
	if err := s.checkNetworks(ctx, networksOf(objects), clusters); err != nil {
		return err
	}
	for _, object := range objects {
		roles, err := rolesOf(object)
		if err != nil {
			return err
		}
		for i := range roles {
			if _, err := s.checkService(ctx, &roles[i], clusters); err != nil {
				return err
			}
		}
	}
	return nil
}

// clients returns the objects of a workload whose pods want links.
func (p *progress) clients() []string {
	return p.objectsThat(func(object *unstructured.Unstructured) bool {
		roles, err := rolesOf(object)
		return err == nil && slices.ContainsFunc(roles, func(role links.Role) bool { return role.Client })
	})
}

// awaitedLinks returns which link of a pod in a cluster is missing according to its operator, "" if none is.
func (p *progress) awaitedLinks(names []string, cluster string) string {
	status, has := p.reported(cluster)
	if !has {
		return fmt.Sprintf("cluster %s has not reported whether the pods of %s are linked", cluster, strings.Join(names, ", "))
	}
	linked := 0
	for i := range status.Pods {
		pod := &status.Pods[i]
		for _, link := range pod.Links {
			switch {
			case link.Client && link.Peer == "":
				return fmt.Sprintf("pod %s in cluster %s has no link to service %s yet", pod.Name, cluster, link.Service)
			case link.Client && !link.Up:
				return fmt.Sprintf("the link of pod %s in cluster %s to %s (service %s) is not up", pod.Name, cluster, link.Peer, link.Service)
			case link.Client:
				linked++
			}
		}
	}
	if linked == 0 {
		return fmt.Sprintf("no pod of %s in cluster %s has a link yet", strings.Join(names, ", "), cluster)
	}
	return ""
}
