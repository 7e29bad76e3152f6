// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"context"
	"fmt"
	"strings"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
)

// checkNetwork rejects clusters that a network does not span, and reports whether the hub has the network. A network
// that does not span clusters may be anywhere.
func (s *Service) checkNetwork(ctx context.Context, name string, clusters []string) (known bool, err error) {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return false, invalid("%q is not a valid name of a TSNNetwork; `ktsn fed networks` lists them", spread.Quoted(name))
	}
	var network tsn.TSNNetwork
	err = s.Client.Get(ctx, types.NamespacedName{Name: name}, &network)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at network %s: %w", name, err)
	}
	if network.Spec.Span == nil || network.Spec.Span.Clusters == nil {
		return true, nil
	}
	chooses, err := metav1.LabelSelectorAsSelector(network.Spec.Span.Clusters)
	if err != nil {
		return true, invalid("TSNNetwork %s has a spec.span.clusters that cannot be read: %v", name, err)
	}
	for _, cluster := range clusters {
		var member v1alpha1.Cluster
		if err := s.Client.Get(ctx, types.NamespacedName{Name: cluster}, &member); err != nil {
			return true, fmt.Errorf("look at cluster %s: %w", cluster, err)
		}
		if !chooses.Matches(labels.Set(member.Labels)) {
			return true, invalid("TSNNetwork %s is not on cluster %s: its spec.span.clusters chooses those with %s", name, cluster, metav1.FormatLabelSelector(network.Spec.Span.Clusters))
		}
	}
	return true, nil
}

// checkNetworks rejects clusters that one of the networks does not span. Networks that the hub does not have may be the
// clusters' own.
func (s *Service) checkNetworks(ctx context.Context, networks, clusters []string) error {
	for _, name := range networks {
		if _, err := s.checkNetwork(ctx, name, clusters); err != nil {
			return err
		}
	}
	return nil
}

// networksOf returns the networks of the objects' pods.
func networksOf(objects []*unstructured.Unstructured) []string {
	var all []string
	for _, object := range objects {
		if at := podMetadata(object); at != nil {
			on, _, _ := unstructured.NestedString(object.Object, append(at, "annotations", tsn.NetworkAnnotation)...)
			all = append(all, on)
		}
	}
	return strings.FieldsFunc(join(all...), func(r rune) bool { return r == ',' })
}
