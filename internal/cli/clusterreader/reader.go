// SPDX-License-Identifier: Apache-2.0

package clusterreader

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// Resources that are read from a cluster.
var (
	Pods        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	Nodes       = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	Namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	Events      = schema.GroupVersionResource{Version: "v1", Resource: "events"}
	CSINodes    = schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "csinodes"}
	Networks    = v1alpha1.GroupVersion.WithResource("tsnnetworks")
	TSNLinks    = v1alpha1.GroupVersion.WithResource("tsnlinks")
	TSNNodes    = v1alpha1.GroupVersion.WithResource("tsnnodes")
	Attachments = schema.GroupVersionResource{Group: "k8s.cni.cncf.io", Version: "v1", Resource: "network-attachment-definitions"}
	Runtimes    = schema.GroupVersionResource{Group: "node.k8s.io", Version: "v1", Resource: "runtimeclasses"}
	Webhooks    = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
)

// Cluster is a connection to an API server.
type Cluster struct {
	Client dynamic.Interface
	// System is the namespace of ktsnd, its agents and the operator.
	System string

	config *rest.Config
}

// DefaultSystem is the chart's namespace.
const DefaultSystem = "kubernetsn-system"

// requestTimeout is the timeout of one request.
const requestTimeout = 15 * time.Second

// ErrNotConfigured is returned if neither an option nor the environment names a cluster.
var ErrNotConfigured = errors.New("no cluster is configured; name a kubeconfig with --kubeconfig or KUBECONFIG")

// Open finds the API server as kubectl does: by a file, else by KUBECONFIG, else by ~/.kube/config; of several clusters
// in it the current one, or that of the context.
func Open(kubeconfig, contextName, system string) (*Cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: contextName}).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, ErrNotConfigured
	case err != nil:
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	config.Timeout = requestTimeout
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("prepare the work with the API server: %w", err)
	}
	return &Cluster{Client: client, System: system, config: config}, nil
}

// Get reads one object into a pointer to its type. Its errors are the API server's.
func (c *Cluster) Get(ctx context.Context, resource schema.GroupVersionResource, namespace, name string, into any) error {
	object, err := c.Client.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into)
}

// page is the number of objects in one request.
const page = 500

// List reads all objects that a selector of labels chooses; fields may be a selector of fields.
func List[T any](ctx context.Context, c *Cluster, resource schema.GroupVersionResource, namespace, labels, fields string) ([]T, error) {
	var all []T
	options := metav1.ListOptions{LabelSelector: labels, FieldSelector: fields, Limit: page}
	for {
		list, err := c.Client.Resource(resource).Namespace(namespace).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			var object T
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &object); err != nil {
				return nil, err
			}
			all = append(all, object)
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return all, nil
		}
	}
}
