// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/kubernetsn/kubernetsn/internal/cluster/certificate"
	podhook "github.com/kubernetsn/kubernetsn/internal/cluster/webhook"
	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
)

const (
	shutdownTimeout = 5 * time.Second
	// queriesPerSecond limits requests to the API server. The default of 20 is too low when many namespaces are created at once, or
	// when a thousand nodes switch to another network's schedule.
	queriesPerSecond = 200
	burst            = 400
)

// Run runs the operator until ctx is done.
func Run(ctx context.Context, options *Options, config *rest.Config, nowTAI func() int64, log *slog.Logger) error {
	logger := logr.FromSlogHandler(log.Handler())
	ctrl.SetLogger(logger)
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = queriesPerSecond, burst
	live, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("create the client: %w", err)
	}
	if err := waitForServer(ctx, live, log); err != nil {
		return err
	}
	switched, err := switchedSelector(options.SwitchedNodes)
	if err != nil {
		return err
	}
	lease, err := newLease(options, config)
	if err != nil {
		return err
	}
	certificates := &certificate.Server{Config: certificateConfig(options), Client: live, Log: log}
	timeout := shutdownTimeout
	m, err := ctrl.NewManager(config, manager.Options{
		Scheme: scheme, Logger: logger,
		LeaderElection: true, LeaderElectionID: leaseName, LeaderElectionNamespace: options.Namespace, LeaderElectionResourceLockInterface: lease,
		// The process exits as soon as it is not the leader any more.
		LeaderElectionReleaseOnCancel: true,
		HealthProbeBindAddress:        options.Health,
		Metrics:                       server.Options{BindAddress: options.Metrics},
		Cache:                         Cache(options.Namespace, selectedKeys(switched)...),
		GracefulShutdownTimeout:       &timeout,
		WebhookServer: webhook.NewServer(webhook.Options{Port: options.Port, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
			c.MinVersion = tls.VersionTLS13
			c.GetCertificate = certificates.GetCertificate
		}}}),
	})
	if err != nil {
		return fmt.Errorf("create the client: %w", err)
	}
	if err := addAll(ctx, m, options, live, certificates, nowTAI, log); err != nil {
		return err
	}
	return m.Start(ctx)
}

// serverRetryInterval is the interval between attempts to reach the API server at startup.
const serverRetryInterval = time.Second

// waitForServer waits until the API server answers, for example while a cluster starts. Exiting instead would run into kubelet's
// exponential restart back-off.
func waitForServer(ctx context.Context, live client.Client, log *slog.Logger) error {
	return retry.Until(ctx, serverRetryInterval, func() error {
		_, err := live.RESTMapper().RESTMapping(schema.GroupKind{Kind: "Pod"}, "v1")
		if err != nil {
			log.Warn("the API server does not answer", "error", err)
		}
		return err
	})
}

func certificateConfig(options *Options) certificate.Config {
	name := options.CertificateName
	if name == "" {
		name = options.Service + "." + options.Namespace + ".svc"
	}
	return certificate.Config{
		Secret: types.NamespacedName{Namespace: options.Namespace, Name: options.Secret}, Webhook: options.Webhook, Name: name,
	}
}

func addAll(ctx context.Context, m manager.Manager, options *Options, live client.Client, certificates *certificate.Server,
	nowTAI func() int64, log *slog.Logger) error {
	if err := Add(ctx, m, options, nowTAI); err != nil {
		return err
	}
	renewer := &certificate.Renewer{Config: certificateConfig(options), Client: live, Log: log}
	attachment := &linksAttachment{client: live, namespace: options.Namespace, log: log}
	for _, runnable := range []manager.Runnable{certificates, renewer, attachment} {
		if err := m.Add(runnable); err != nil {
			return err
		}
	}
	m.GetWebhookServer().Register(podhook.Path, &webhook.Admission{Handler: &podhook.Handler{
		Cached: m.GetClient(), Live: m.GetAPIReader(), Kata: options.Kata,
		Links: podhook.Links{Namespace: options.Namespace, Image: options.WaitImage, PullPolicy: corev1.PullPolicy(options.WaitPullPolicy)},
	}})
	if err := m.AddHealthzCheck("alive", healthz.Ping); err != nil {
		return err
	}
	return m.AddReadyzCheck("webhook", m.GetWebhookServer().StartedChecker())
}

const (
	leaseName = "ktsn-operator"
	// renewDeadline is how long the leader tries to renew its lease; controller-runtime uses the same default.
	renewDeadline = 10 * time.Second
)

// newLease returns the lease under the operator's configured name, nil if it has none: then controller-runtime generates a name at each
// start. With a stable name a killed operator leads again as soon as its container restarts, without waiting for the lease to expire.
func newLease(options *Options, config *rest.Config) (resourcelock.Interface, error) {
	if options.Identity == "" {
		return nil, nil
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, options.Namespace, leaseName,
		resourcelock.ResourceLockConfig{Identity: options.Identity}, config, renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("create the leader's lease: %w", err)
	}
	return lock, nil
}

// Main runs the command line and returns the exit status.
func Main(ctx context.Context, arguments []string, stdout, stderr io.Writer) int {
	return commandline.Exit("ktsn-operator", run(ctx, arguments, stdout, stderr), stderr)
}

func run(ctx context.Context, arguments []string, stdout, stderr io.Writer) error {
	if len(arguments) > 0 && arguments[0] == "remove" {
		return remove(ctx, arguments[1:], stdout)
	}
	options, err := Parse(arguments, stdout)
	if err != nil {
		return err
	}
	options.Reserved = ownServices(os.Getenv("KUBERNETES_SERVICE_HOST"), "/etc/resolv.conf")
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("find the API server: %w; the operator runs in a pod with a service account", err)
	}
	return Run(ctx, options, config, clockTAI, slog.New(slog.NewTextHandler(stderr, nil)))
}

// clockTAI returns this node's CLOCK_TAI in nanoseconds. All nodes are synchronised to it.
func clockTAI() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_TAI, &now) // cannot fail on Linux
	return now.Nano()
}
