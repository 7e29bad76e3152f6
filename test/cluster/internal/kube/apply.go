// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"text/template"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

//go:embed manifests
var manifests embed.FS

// manager is the owner of the fields that Apply sets.
const manager = "ktsn-cluster"

// Applier applies objects as `kubectl apply --server-side` does.
type Applier struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

// NewApplier returns an Applier for a cluster.
func NewApplier(config *rest.Config) (*Applier, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	return &Applier{client: client, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoverer))}, nil
}

// ApplySystem applies the manifests that every cluster has.
func (a *Applier) ApplySystem(ctx context.Context, tag string) error {
	entries, err := manifests.ReadDir("manifests")
	if err != nil {
		return err
	}
	v := map[string]string{
		"Tag": tag, "PodCIDR": plan.PodCIDR, "Uplink": plan.Uplink, "Domain": plan.Domain, "DNSService": plan.DNSService,
	}
	for _, entry := range entries {
		parsed, err := template.New(entry.Name()).Delims("[[", "]]").Option("missingkey=error").
			ParseFS(manifests, "manifests/"+entry.Name())
		if err != nil {
			return fmt.Errorf("manifest %s: %w", entry.Name(), err)
		}
		var text bytes.Buffer
		if err := parsed.Execute(&text, v); err != nil {
			return fmt.Errorf("manifest %s: %w", entry.Name(), err)
		}
		if err := a.Apply(ctx, &text); err != nil {
			return fmt.Errorf("manifest %s: %w", entry.Name(), err)
		}
	}
	return nil
}

// Apply applies a stream of YAML documents. Namespaced objects name their namespace.
func (a *Applier) Apply(ctx context.Context, text io.Reader) error {
	decoder := yaml.NewYAMLOrJSONDecoder(text, 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read manifest: %w", err)
		}
		if len(object.Object) == 0 {
			continue
		}
		if err := a.applyOne(ctx, object); err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
}

// applyPatience bounds how long a new API server, or a new kind of object, may take.
const applyPatience = 30 * time.Second

func (a *Applier) applyOne(ctx context.Context, object *unstructured.Unstructured) error {
	deadline := time.Now().Add(applyPatience)
	for {
		err := a.tryApply(ctx, object)
		if err == nil || !passing(err) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second / 4):
		}
	}
}

// passing reports whether an error may disappear while a cluster starts: a kind is not served yet, or a namespace lacks
// its defaults.
func passing(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err)
}

func (a *Applier) tryApply(ctx context.Context, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		a.mapper.Reset()
		return err
	}
	var client dynamic.ResourceInterface = a.client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		client = a.client.Resource(mapping.Resource).Namespace(object.GetNamespace())
	}
	_, err = client.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: manager, Force: true})
	return err
}
