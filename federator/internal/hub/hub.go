// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"fmt"
	"net"
	"time"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	inventory "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// dialTimeout limits how long connecting to the hub may take.
const dialTimeout = 10 * time.Second

// Scheme returns the types of all objects that are read and written at the hub.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, v1alpha1.Install, policyv1alpha1.Install, workv1alpha1.Install, workv1alpha2.Install, inventory.AddToScheme,
		tsn.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register the types of the hub: %w", err)
		}
	}
	return scheme, nil
}

// Hub is the hub's API server.
type Hub struct {
	// Client acts as the federator.
	Client client.WithWatch

	config *rest.Config
	scheme *runtime.Scheme
	mapper meta.RESTMapper
}

// Open prepares clients for an API server. It sends no request.
func Open(config *rest.Config) (*Hub, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	// The API server itself divides its capacity among users.
	config.QPS = -1
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("prepare the work with the hub: %w", err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("prepare the work with the hub: %w", err)
	}
	h := &Hub{config: config, scheme: scheme, mapper: mapper}
	h.Client, err = client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: mapper, HTTPClient: httpClient})
	if err != nil {
		return nil, fmt.Errorf("prepare the work with the hub: %w", err)
	}
	return h, nil
}

// Reviewer returns a client for TokenReviews. It has its own connection and rate limit, so that requests of unknown
// clients delay neither the controllers nor the lease.
func (h *Hub) Reviewer(queriesPerSecond float32, burst int) (client.Client, error) {
	config := h.Config()
	config.QPS, config.Burst = queriesPerSecond, burst
	// Equal configurations share transports; a configuration with its own dialer has its own connections.
	if config.Transport == nil {
		config.Dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	reviewer, err := client.New(config, client.Options{Scheme: h.scheme, Mapper: h.mapper})
	if err != nil {
		return nil, fmt.Errorf("prepare the review of tokens: %w", err)
	}
	return reviewer, nil
}

// Config returns the configuration to reach the hub as the federator.
func (h *Hub) Config() *rest.Config { return rest.CopyConfig(h.config) }

// Answers returns an error until the hub has answered once.
func (h *Hub) Answers() error {
	if _, err := h.mapper.RESTMapping(corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind(), corev1.SchemeGroupVersion.Version); err != nil {
		return fmt.Errorf("ask the hub: %w", err)
	}
	return nil
}

// Knows reports whether the hub has a kind.
func (h *Hub) Knows(kind schema.GroupVersionKind) bool {
	_, err := h.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	return err == nil
}
