// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/objects"
)

const (
	// leaveTimeout limits how long kubelet is served after a stop request; the chart's terminationGracePeriodSeconds is
	// longer than both.
	leaveTimeout = 30 * time.Second
	// shutdownTimeout limits how long parts may take to stop.
	shutdownTimeout = leaveTimeout + 5*time.Second
)

// cacheSyncTimeout is practically infinite: an agent that ended while the API server is away would stop serving kubelet
// and ktsnd.
const cacheSyncTimeout = 365 * 24 * time.Hour

// newManager returns the manager. Its cache holds the node (all nodes if the networks come from a file) and this node's
// pods. It serves health probes and metrics.
func newManager(config *rest.Config, options *Options, platform *Platform, start objects.Start, board *board,
	log *slog.Logger) (manager.Manager, error) {
	ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	nodes := cache.ByObject{Transform: stripNode}
	if options.FromCluster {
		nodes.Field = fields.OneTermEqualSelector(metav1.ObjectNameField, options.Node)
	}
	timeout := shutdownTimeout
	mgr, err := ctrl.NewManager(config, manager.Options{
		Scheme: scheme, Logger: logr.FromSlogHandler(log.Handler()),
		MapperProvider:         func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return newRESTMapper(), nil },
		HealthProbeBindAddress: options.Health,
		Metrics:                server.Options{BindAddress: options.Metrics},
		Cache: cache.Options{
			NewInformer: start.Informer,
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Node{}: nodes,
				&corev1.Pod{}:  {Transform: stripPod, Field: fields.OneTermEqualSelector("spec.nodeName", options.Node)},
			},
		},
		GracefulShutdownTimeout: &timeout,
		Controller:              ctrlconfig.Controller{SkipNameValidation: &platform.Shared, CacheSyncTimeout: cacheSyncTimeout},
	})
	if err != nil {
		return nil, fmt.Errorf("prepare the work with the API server: %w", err)
	}
	if err := mgr.AddHealthzCheck("alive", healthz.Ping); err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("agent", board.check)
}

// newRESTMapper returns a static mapper of the kinds that the agent uses, which saves discovery requests.
func newRESTMapper() meta.RESTMapper {
	restMapper := meta.NewDefaultRESTMapper(nil)
	add := func(group schema.GroupVersion, kind, resource string, scope meta.RESTScope) {
		restMapper.AddSpecific(group.WithKind(kind), group.WithResource(resource), group.WithResource(strings.ToLower(kind)), scope)
	}
	add(corev1.SchemeGroupVersion, "Node", "nodes", meta.RESTScopeRoot)
	add(corev1.SchemeGroupVersion, "Pod", "pods", meta.RESTScopeNamespace)
	add(v1alpha1.GroupVersion, "TSNNode", "tsnnodes", meta.RESTScopeRoot)
	add(v1alpha1.GroupVersion, "TSNNetwork", "tsnnetworks", meta.RESTScopeRoot)
	add(v1alpha1.GroupVersion, "TSNPeers", "tsnpeers", meta.RESTScopeRoot)
	add(v1alpha1.GroupVersion, "TSNLink", "tsnlinks", meta.RESTScopeNamespace)
	return restMapper
}

// stripNode drops the parts of a node that the agent does not read, to save memory.
func stripNode(object any) (any, error) {
	if node, ok := object.(*corev1.Node); ok {
		node.ManagedFields = nil
		node.Status = corev1.NodeStatus{Addresses: node.Status.Addresses}
	}
	return object, nil
}

func stripPod(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields = nil
	}
	return object, nil
}

// nodeChanged ignores a node's heartbeats.
var nodeChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
		return before.Spec.PodCIDR != after.Spec.PodCIDR ||
			!equality.Semantic.DeepEqual(before.Labels, after.Labels) ||
			!equality.Semantic.DeepEqual(before.Annotations, after.Annotations) ||
			!equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses)
	},
}
