// SPDX-License-Identifier: Apache-2.0

package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	profiles "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllers "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/api"
	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/federator/internal/inventory"
	"github.com/kubernetsn/kubernetsn/federator/internal/networks"
	"github.com/kubernetsn/kubernetsn/federator/internal/services"
	"github.com/kubernetsn/kubernetsn/federator/internal/workloads"
)

// shutdownTimeout is how long controllers may take to stop.
const shutdownTimeout = 5 * time.Second

// The lease of a federator that was killed expires after leaseDuration; another replica tries to take it every
// leaseRetry. A federator that cannot renew its lease for leaseRenewal exits: a hub that restarts answers sooner.
const (
	leaseDuration = 10 * time.Second
	leaseRenewal  = 8 * time.Second
	leaseRetry    = 2 * time.Second
)

// hubRetry is the interval at which the hub is asked until it answers for the first time.
const hubRetry = 2 * time.Second

// Run serves the API and runs the controllers until ctx ends, or until one of them fails.
func Run(ctx context.Context, options *Options, config *rest.Config, log *slog.Logger) error {
	ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
	reached, err := hub.Open(config)
	if err != nil {
		return err
	}
	memory := &hub.Memory{}
	handler, err := handler(options, reached, memory, log)
	if err != nil {
		return err
	}
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return (&server{options: options, handler: handler}).Start(ctx) })
	both.Go(func() error { return runControllers(ctx, options, reached, memory, log) })
	return both.Wait()
}

// runControllers waits until the hub answers, and runs the controllers.
func runControllers(ctx context.Context, options *Options, reached *hub.Hub, memory *hub.Memory, log *slog.Logger) error {
	err := wait.PollUntilContextCancel(ctx, hubRetry, true, func(context.Context) (bool, error) {
		err := reached.Answers()
		if err != nil {
			log.Error("the controllers wait for the hub", "error", err)
		}
		memory.SetAway(err != nil)
		return err == nil, nil
	})
	if err != nil {
		return nil // ctx has ended
	}
	m, err := newManager(options, reached, memory, log)
	if err != nil {
		return err
	}
	if err := memory.SetCache(ctx, m.GetCache()); err != nil {
		return fmt.Errorf("fill the cache of the hub: %w", err)
	}
	return m.Start(ctx)
}

// newManager returns a manager with all controllers.
func newManager(options *Options, reached *hub.Hub, memory *hub.Memory, log *slog.Logger) (manager.Manager, error) {
	scheme, err := hub.Scheme()
	if err != nil {
		return nil, err
	}
	timeout := shutdownTimeout
	m, err := ctrl.NewManager(reached.Config(), manager.Options{
		Scheme: scheme, Logger: logr.FromSlogHandler(log.Handler()),
		LeaderElection: true, LeaderElectionID: "ktsn-federator", LeaderElectionNamespace: options.Namespace, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: ptr.To(leaseDuration), RenewDeadline: ptr.To(leaseRenewal), RetryPeriod: ptr.To(leaseRetry),
		HealthProbeBindAddress: options.Health, Metrics: metrics.Options{BindAddress: options.Metrics},
		Cache:                   cacheOptions(options, reached),
		GracefulShutdownTimeout: &timeout,
		// Tests run several federators in one process.
		Controller: controllers.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		return nil, fmt.Errorf("prepare the work with the hub: %w", err)
	}
	read := func(*http.Request) error { return memory.Ready() }
	if err := errors.Join(addControllers(m, options, log), m.AddHealthzCheck("alive", healthz.Ping), m.AddReadyzCheck("read", read)); err != nil {
		return nil, err
	}
	return m, nil
}

// cacheOptions limits the cache: of ConfigMaps and profiles it has only the federator's own.
func cacheOptions(options *Options, reached *hub.Hub) cache.Options {
	kept := cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{
				options.Namespace: {FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, tsn.HubHeartbeat)},
			}},
		},
	}
	// A kind that the hub does not have cannot be cached.
	if reached.Knows(profiles.GroupVersion.WithKind("ClusterProfile")) {
		kept.ByObject[&profiles.ClusterProfile{}] = cache.ByObject{Namespaces: map[string]cache.Config{options.Namespace: {}}}
	}
	return kept
}

func handler(options *Options, reached *hub.Hub, memory *hub.Memory, log *slog.Logger) (http.Handler, error) {
	config := reached.Config()
	ca := config.CAData
	if len(ca) == 0 && config.CAFile != "" {
		var err error
		if ca, err = os.ReadFile(config.CAFile); err != nil {
			return nil, fmt.Errorf("read the hub's authority: %w", err)
		}
	}
	served := &api.API{Hub: reached, Memory: memory, Server: cmp.Or(options.HubAddress, config.Host), CA: ca, Audiences: options.Audiences, Now: time.Now,
		Audit: log.With("audit", true)}
	return served.Handler()
}

func addControllers(m manager.Manager, options *Options, log *slog.Logger) error {
	mover := &workloads.Mover{Client: m.GetClient(), Now: time.Now, Log: log}
	stretcher := &networks.Reconciler{Client: m.GetClient(), Live: m.GetAPIReader(), NowTAI: nowTAI, Log: log}
	spreader := &services.Reconciler{
		Client: m.GetClient(), Live: m.GetAPIReader(), Namespace: options.Namespace, Now: time.Now, Events: m.GetEventRecorder("ktsn-federator"), Log: log,
	}
	reflector := &services.Reflector{Client: m.GetClient()}
	publisher := &inventory.Publisher{Client: m.GetClient(), Namespace: options.Namespace, Now: time.Now, Log: log}
	for _, add := range []func(manager.Manager) error{mover.Add, stretcher.Add, spreader.Add, reflector.Add, publisher.Add} {
		if err := add(m); err != nil {
			return err
		}
	}
	return m.Add(heartbeat(m.GetClient(), options.Namespace, log))
}

// nowTAI returns CLOCK_TAI in nanoseconds.
func nowTAI() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_TAI, &now) // every Linux has this clock
	return now.Nano()
}
