// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"fmt"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/clusters"
	"github.com/kubernetsn/kubernetsn/federator/internal/networks"
	"github.com/kubernetsn/kubernetsn/federator/internal/services"
	"github.com/kubernetsn/kubernetsn/federator/internal/workloads"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// Watch calls report for each existing cluster, workload, network and link between clusters, and for each change of
// one, until the hub ends one of the watches or ctx ends. It fails at once if the caller may not watch all four kinds.
func Watch(ctx context.Context, c client.WithWatch, namespace string, report func(*federation.Change) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watches []watch.Interface
	defer func() {
		for _, watching := range watches {
			watching.Stop()
		}
	}()
	for _, list := range []client.ObjectList{&v1alpha1.ClusterList{}, &policyv1alpha1.PropagationPolicyList{}, &tsn.TSNNetworkList{}, &tsn.TSNLinkList{}} {
		var options []client.ListOption
		switch list.(type) {
		case *policyv1alpha1.PropagationPolicyList:
			options = []client.ListOption{client.InNamespace(namespace), client.HasLabels{tsn.WorkloadLabel}}
		case *tsn.TSNLinkList:
			options = []client.ListOption{client.InNamespace(namespace)}
		}
		watching, err := startWatch(ctx, c, list, options, report)
		if err != nil {
			return err
		}
		watches = append(watches, watching)
	}
	events, ended := make(chan watch.Event), make(chan struct{}, len(watches))
	for _, watching := range watches {
		go forward(ctx, watching, events, ended)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ended:
			return nil
		case event := <-events:
			if err := deliver(event, report); err != nil {
				return err
			}
		}
	}
}

// startWatch reports the existing objects of a kind and starts a watch from their version. A watch without a version
// would wait for the next change of the kind on an API server with an etcd before 3.5.
func startWatch(ctx context.Context, c client.WithWatch, list client.ObjectList, options []client.ListOption, report func(*federation.Change) error) (watch.Interface, error) {
	if err := c.List(ctx, list, options...); err != nil {
		return nil, fmt.Errorf("look at the hub: %w", err)
	}
	err := meta.EachListItem(list, func(object runtime.Object) error {
		return deliver(watch.Event{Type: watch.Added, Object: object}, report)
	})
	if err != nil {
		return nil, err
	}
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}}
	watching, err := c.Watch(ctx, list, append(options, from)...)
	if err != nil {
		return nil, fmt.Errorf("watch the hub: %w", err)
	}
	return watching, nil
}

// forward passes on the events of one watch, and signals its end.
func forward(ctx context.Context, watching watch.Interface, events chan<- watch.Event, ended chan<- struct{}) {
	for event := range watching.ResultChan() {
		select {
		case events <- event:
		case <-ctx.Done():
			return
		}
	}
	ended <- struct{}{}
}

// deliver reports a change. It fails if the watch has failed.
func deliver(event watch.Event, send func(*federation.Change) error) error {
	if event.Type == watch.Error {
		return fmt.Errorf("watch the hub: %w", apierrors.FromObject(event.Object))
	}
	if change := describe(event); change != nil {
		return send(change)
	}
	return nil
}

// describe returns the change of an event, nil if there is none.
func describe(event watch.Event) *federation.Change {
	change := &federation.Change{}
	switch event.Type {
	case watch.Added:
		change.Change = "Added"
	case watch.Modified:
		change.Change = "Modified"
	case watch.Deleted:
		change.Change = "Deleted"
	default:
		return nil
	}
	switch object := event.Object.(type) {
	case *v1alpha1.Cluster:
		cluster := clusters.Describe(object, federation.PinUnknown)
		change.Kind, change.Name, change.Cluster = "Cluster", object.Name, &cluster
	case *policyv1alpha1.PropagationPolicy:
		change.Kind, change.Namespace, change.Name, change.Workload = "Workload", object.Namespace, object.Name, workloads.Describe(object)
	case *tsn.TSNNetwork:
		change.Kind, change.Name, change.Network = "Network", object.Name, networks.Describe(object)
	case *tsn.TSNLink:
		link := services.Describe(object)
		change.Kind, change.Namespace, change.Name, change.Link = "Link", object.Namespace, object.Name, &link
	default:
		return nil
	}
	return change
}
