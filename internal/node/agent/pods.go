// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/csi"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/daemon"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/inspect"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/install"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/metrics"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/sweep"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/watch"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/cni"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/node/relay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
	"github.com/kubernetsn/kubernetsn/internal/shared/tsnnetwork"
)

const (
	pollInterval  = 5 * time.Second
	watchInterval = 10 * time.Second
	// changesInterval is the time between two checks whether pods were attached or detached.
	changesInterval = 500 * time.Millisecond
	// podSettleTime is longer than a pod needs to get its network and start its programs.
	podSettleTime = 10 * time.Second
	// inspectTimeout is a hundred times the duration of an inspection on an idle node.
	inspectTimeout = 5 * time.Second
	// configurationTimeout limits the wait for a network's configuration, which operator and agent need a second or two for.
	configurationTimeout  = 15 * time.Second
	configurationInterval = 100 * time.Millisecond
)

// newRelays adds the supervisor of the relays, one per captured interface.
func newRelays(c *core, kubeletLeft <-chan struct{}) (*relay.Supervisor, error) {
	node, err := overlay.Open(c.StateDir, daemon.LockTimeout)
	if err != nil {
		return nil, err
	}
	relays := relay.New(c.StateDir, node, c.Relays, c.log.With("part", "relays"))
	return relays, c.manager.Add(manager.RunnableFunc(func(ctx context.Context) error {
		defer node.Close()
		// Pods need the relays until another agent takes over, so they run while kubelet is still served.
		relayCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
		defer stop()
		go func() {
			<-ctx.Done()
			<-kubeletLeft
			stop()
		}()
		return relays.Run(relayCtx)
	}))
}

// newSweeper adds the sweeper, which removes the remains of deleted pods.
func newSweeper(c *core, volumes *csi.Volumes) (*sweep.Sweeper, error) {
	sweeper := &sweep.Sweeper{
		Pods: c.manager.GetClient(), Live: c.manager.GetAPIReader(), Node: c.Node,
		Volumes: volumes, Plugin: plugin{c.Options}, Every: c.SweepEvery, Swept: c.metrics.Swept,
		Do: ask(c, func(k *control.Client) sweep.Ktsnd { return k }),
		Exists: func(path string) bool {
			_, err := os.Stat(path)
			return !errors.Is(err, fs.ErrNotExist)
		},
		Occupied: func(path string) bool { return occupied(c.Proc, path) },
		Log:      c.log.With("part", "sweep"),
	}
	return sweeper, c.manager.Add(manager.RunnableFunc(sweeper.Run))
}

// occupied reports whether a process of the node is in a network namespace, or may be.
func occupied(proc, path string) bool {
	namespace, err := os.Stat(path)
	if proc == "" || err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	processes, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "ns", "net"))
	if err != nil || len(processes) == 0 {
		return true
	}
	for _, process := range processes {
		other, err := os.Stat(process)
		if err == nil && os.SameFile(namespace, other) || err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			return true
		}
	}
	return false
}

// plugin detaches pods in the same way as tsn-cni.
type plugin struct{ *Options }

// List returns the node's attachments.
func (p plugin) List() ([]attachment.Attached, error) {
	node, err := overlay.Open(p.StateDir, daemon.LockTimeout)
	if err != nil {
		return nil, err
	}
	defer node.Close()
	return attachment.List(p.StateDir, node)
}

// Detach detaches with the network's configuration on the node, or with a substitute if that was removed.
func (p plugin) Detach(ctx context.Context, attached *attachment.Attached) error {
	if attached.OfLinks() {
		return attachment.DetachLinks(ctx, linkOptions(p.Options), attached)
	}
	config, err := os.ReadFile(filepath.Join(p.Host, p.ConfDir, attached.Network+".conf"))
	if errors.Is(err, fs.ErrNotExist) {
		// Addresses are released by container, so any range will do.
		whole := netip.MustParsePrefix("10.0.0.0/8")
		config, err = install.Config(&network.Network{
			Name: attached.Network, VNI: attached.VNI, Port: network.DefaultPort, Ranges: []network.Range{{Prefix: whole, NodeBits: 24}},
		}, []netip.Prefix{whole})
	}
	if err != nil {
		return fmt.Errorf("configuration of network %s: %w", attached.Network, err)
	}
	return cni.Detach(&attached.Attachment, config, p.PluginDir)
}

// addCSI adds the server for kubelet, which closes kubeletLeft when it stops serving.
func addCSI(c *core, volumes *csi.Volumes, sweeper *sweep.Sweeper, kubeletLeft chan<- struct{}) error {
	log := c.log.With("part", partKubelet)
	server := &csi.Server{
		Driver: &csi.Driver{
			Node: c.Node, Version: c.Version, PodsDir: filepath.Join(c.Kubelet, "pods"), Volumes: volumes, Log: log,
			Ready: func() bool { return c.board.get(partKtsnd) == nil }, Await: c.awaitConfigurations,
		},
		Endpoint: c.endpoint(), Registry: c.registry(), Log: log,
		Registered: func(err error) { c.board.set(partKubelet, err) },
		Leave:      func(ctx context.Context) { leave(ctx, volumes, sweeper, c.log) },
	}
	return c.manager.Add(manager.RunnableFunc(func(ctx context.Context) error {
		defer close(kubeletLeft)
		return server.Run(ctx)
	}))
}

// awaitConfigurations waits until the node has the configurations of the pod's networks: kubelet makes the sandbox once the volumes are
// published, and repeats a failed one only after ten seconds or more. It gives up after a while, so that the sandbox shows what is missing.
func (c *core) awaitConfigurations(ctx context.Context, volume *csi.Volume) {
	ctx, cancel := context.WithTimeout(ctx, configurationTimeout)
	defer cancel()
	err := retry.Until(ctx, configurationInterval, func() error {
		return checkConfigurations(ctx, c.manager.GetClient(), filepath.Join(c.Host, c.ConfDir), volume)
	})
	if err != nil {
		c.log.Warn("the networks of a pod are not configured", "pod", volume.Namespace+"/"+volume.Pod, "error", err)
	}
}

// checkConfigurations returns an error if a network of a volume's pod has no configuration in confDir.
func checkConfigurations(ctx context.Context, pods client.Reader, confDir string, volume *csi.Volume) error {
	pod := &corev1.Pod{}
	err := pods.Get(ctx, types.NamespacedName{Namespace: volume.Namespace, Name: volume.Pod}, pod, client.UnsafeDisableDeepCopy)
	if err == nil && string(pod.UID) != volume.UID {
		err = errors.New("another pod has its name")
	}
	if err != nil {
		return fmt.Errorf("find the pod: %w", err)
	}
	networks, _ := tsnnetwork.NetworksOf(pod.Annotations[v1alpha1.NetworkAnnotation]) // none without the annotation
	for _, name := range networks {
		if _, err := os.Stat(filepath.Join(confDir, name+".conf")); err != nil {
			return fmt.Errorf("find the configuration of network %s: %w", name, err)
		}
	}
	return nil
}

// leave waits until kubelet does not need this agent any more.
func leave(ctx context.Context, volumes *csi.Volumes, sweeper *sweep.Sweeper, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	start := time.Now()
	err := sweeper.AwaitUnmounted(ctx)
	// kubelet may still publish a volume for a deleted pod, which nobody would unmount.
	volumes.Close()
	if err == nil {
		err = sweeper.AwaitUnmounted(ctx)
	}
	log.Info("kubelet is not served any more", "waited", time.Since(start), "error", err)
}

// addPoller adds the poller, which reads ktsnd's counters.
func addPoller(c *core, relays *relay.Supervisor) error {
	poller := &metrics.Poller{
		Metrics: c.metrics, NameOf: c.podName, Relays: relays.Status, Every: pollInterval,
		Do: ask(c, func(k *control.Client) metrics.Ktsnd { return k }),
	}
	return c.manager.Add(manager.RunnableFunc(poller.Run))
}

// podName returns the name of the node's pod with this UID.
func (c *core) podName(ctx context.Context, uid string) (metrics.Name, bool) {
	var pods corev1.PodList
	// The objects belong to the cache and are not modified.
	if err := c.manager.GetClient().List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return metrics.Name{}, false
	}
	for i := range pods.Items {
		if string(pods.Items[i].UID) == uid {
			return metrics.Name{Namespace: pods.Items[i].Namespace, Pod: pods.Items[i].Name}, true
		}
	}
	return metrics.Name{}, false
}

// addWatcher adds the watcher, which creates Events on pods that do not get what they request.
func addWatcher(c *core, relays *relay.Supervisor) error {
	watcher := &watch.Watcher{
		Pods: c.manager.GetClient(), Driver: csi.DriverName, Every: watchInterval, Settle: podSettleTime, Now: time.Now,
		Events:   c.manager.GetEventRecorderFor("ktsn-agent"),
		Do:       ask(c, func(k *control.Client) watch.Ktsnd { return k }),
		Guards:   (&attachment.GuardRound{StateDir: c.StateDir}).Run,
		Restored: relays.Compare,
		Dropped:  c.metrics.Unseen,
		Diverted: c.metrics.Diverted,
		Relays:   relays.Status,
		Log:      c.log.With("part", "watch"),
	}
	if c.Proc != "" {
		watcher.Programs = &inspect.Inspector{
			Program: "/proc/self/exe", Arguments: []string{inspectCommand}, Proc: c.Proc, Timeout: inspectTimeout,
		}
	}
	return c.manager.Add(manager.RunnableFunc(watcher.Run))
}

// addAttached adds the controller that sets the condition kubernetsn.io/attached of the node's pods.
func addAttached(c *core) error {
	r := &watch.Attached{
		Client: c.manager.GetClient(), Interfaces: plugin{c.Options}.List, Events: c.manager.GetEventRecorderFor("ktsn-agent"), Now: time.Now,
	}
	changes := &attachment.Changes{StateDir: c.StateDir}
	err := c.manager.Add(every(changesInterval, func() {
		if changes.Any() {
			c.queue.wake(concernAttached)
		}
	}))
	if err != nil {
		return err
	}
	onNetwork := predicate.NewPredicateFuncs(func(pod client.Object) bool { return pod.GetAnnotations()[v1alpha1.NetworkAnnotation] != "" })
	return ctrl.NewControllerManagedBy(c.manager).Named("attached").
		Watches(&corev1.Pod{}, wholeNode, builder.WithPredicates(onNetwork)).
		WatchesRawSource(c.queue.source(concernAttached)).
		Complete(r)
}
