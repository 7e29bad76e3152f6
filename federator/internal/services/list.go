// SPDX-License-Identifier: Apache-2.0

package services

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// List returns the services and links of a namespace, or of all namespaces; of one service, or of all.
func List(ctx context.Context, c hub.Lister, namespace, service string) (*federation.Links, error) {
	var services tsn.TSNServiceList
	if err := c.List(ctx, &services, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list the services: %w", err)
	}
	var links tsn.TSNLinkList
	if err := c.List(ctx, &links, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list the links: %w", err)
	}
	all := &federation.Links{Services: []federation.Service{}, Items: []federation.Link{}}
	for i := range services.Items {
		if candidate := &services.Items[i]; service == "" || candidate.Name == service {
			all.Services = append(all.Services, federation.Service{
				Namespace: candidate.Namespace, Name: candidate.Name, Endpoints: candidate.Status.Endpoints, Clients: candidate.Status.Clients, Linked: candidate.Status.Linked,
				Conditions: spread.APIConditions(candidate.Status.Conditions),
			})
		}
	}
	for i := range links.Items {
		if service == "" || links.Items[i].Spec.Service == service {
			all.Items = append(all.Items, Describe(&links.Items[i]))
		}
	}
	slices.SortFunc(all.Services, func(a, b federation.Service) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	slices.SortFunc(all.Items, func(a, b federation.Link) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Service, b.Service), cmp.Compare(a.Hop, b.Hop), strings.Compare(a.Name, b.Name))
	})
	return all, nil
}

// Describe returns a link as the API shows it.
func Describe(link *tsn.TSNLink) federation.Link {
	currentLink := federation.Link{
		Namespace: link.Namespace, Name: link.Name, Service: link.Spec.Service, Hop: link.Spec.Hop, VNI: link.Spec.VNI,
		MTU: link.Status.MeasuredMTU, Encryption: link.Spec.Encryption, Up: meta.IsStatusConditionTrue(link.Status.Conditions, tsn.ConditionUp),
		Client: describeEnd(&link.Spec.Client), Endpoint: describeEnd(&link.Spec.Endpoint), Conditions: spread.APIConditions(link.Status.Conditions),
	}
	if link.Status.Since != nil {
		since := link.Status.Since.UTC().Truncate(time.Microsecond)
		currentLink.Since = &since
	}
	return currentLink
}

func describeEnd(end *tsn.LinkEnd) federation.LinkEnd {
	return federation.LinkEnd{
		Cluster: end.Cluster, Namespace: end.Namespace, Pod: end.Pod, Node: end.Node, Interface: end.Interface, Addresses: slices.Clone(end.Addresses),
	}
}
