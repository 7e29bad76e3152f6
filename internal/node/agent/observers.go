// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/csi"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/daemon"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/inspect"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/install"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/metrics"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/sweep"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/watch"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// How often the parts look that nobody wakes.
const (
	pollEvery  = 5 * time.Second
	watchEvery = 10 * time.Second
	// settle is longer than a pod needs to get its network and start its programs.
	settle = 10 * time.Second
	// inspectPatience is a hundred times what a look at a pod's programs takes on an idle node.
	inspectPatience = 5 * time.Second
)

// addSweeper removes what pods left.
func (a *agent) addSweeper() error {
	a.sweeper = &sweep.Sweeper{
		Pods: a.manager.GetClient(), Live: a.manager.GetAPIReader(), Node: a.Node,
		Volumes: a.volumes, Plugin: plugin{a}, Every: a.SweepEvery, Swept: a.metrics.Swept,
		Do: func(ctx context.Context, ask func(context.Context, sweep.Ktsnd) error) error {
			return a.link.Do(ctx, func(ctx context.Context, client *control.Client) error { return ask(ctx, client) })
		},
		Exists: func(path string) bool {
			_, err := os.Stat(path)
			return !errors.Is(err, fs.ErrNotExist)
		},
		Log: a.log.With("part", "sweep"),
	}
	return a.manager.Add(manager.RunnableFunc(a.sweeper.Run))
}

// leave returns when kubelet does not need this agent any more.
func (a *agent) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	began := time.Now()
	err := a.sweeper.AwaitUnmounted(ctx)
	// A kubelet that is late may publish for a pod that is gone, which nobody would unmount any more.
	a.volumes.Close()
	if err == nil {
		err = a.sweeper.AwaitUnmounted(ctx)
	}
	a.log.Info("leaving", "waited", time.Since(began), "error", err)
}

// plugin is tsn-cni as it is installed.
type plugin struct{ *agent }

// List returns what is attached to the node.
func (p plugin) List() ([]attachment.Attached, error) {
	node, err := overlay.Open(p.StateDir, daemon.Patience)
	if err != nil {
		return nil, err
	}
	defer node.Close()
	return attachment.List(p.StateDir, node)
}

// Detach detaches by the configuration that the node has of the network; of one that is gone, what matters is known.
func (p plugin) Detach(ctx context.Context, attached *attachment.Attached) error {
	if attached.OfLinks() {
		return attachment.DetachLinks(ctx, &attachment.LinkOptions{StateDir: p.StateDir, ControlSocket: p.Control, Patience: daemon.Patience}, attached)
	}
	config, err := os.ReadFile(filepath.Join(p.Host, p.ConfDir, attached.Network+".conf"))
	if errors.Is(err, fs.ErrNotExist) {
		// Addresses are given back by container, whatever the range.
		whole := netip.MustParsePrefix("10.0.0.0/8")
		config, err = install.Config(&network.Network{
			Name: attached.Network, VNI: attached.VNI, Port: 4789, Ranges: []network.Range{{Prefix: whole, NodeBits: 24}},
		}, []netip.Prefix{whole})
	}
	if err != nil {
		return fmt.Errorf("configuration of network %s: %w", attached.Network, err)
	}
	return attachment.Detach(&attached.Attachment, config, p.PluginDir)
}

// addPoller asks ktsnd for figures.
func (a *agent) addPoller() error {
	poller := &metrics.Poller{
		Metrics: a.metrics, NameOf: a.nameOf, Relays: a.relays.Status, Every: pollEvery,
		Do: func(ctx context.Context, ask func(context.Context, metrics.Ktsnd) error) error {
			return a.link.Do(ctx, func(ctx context.Context, client *control.Client) error { return ask(ctx, client) })
		},
	}
	return a.manager.Add(manager.RunnableFunc(poller.Run))
}

// nameOf finds one of the node's pods.
func (a *agent) nameOf(ctx context.Context, identity string) (metrics.Name, bool) {
	var pods corev1.PodList
	// What is listed is the cache's own; nobody changes it here.
	if err := a.manager.GetClient().List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return metrics.Name{}, false
	}
	for i := range pods.Items {
		if string(pods.Items[i].UID) == identity {
			return metrics.Name{Namespace: pods.Items[i].Namespace, Pod: pods.Items[i].Name}, true
		}
	}
	return metrics.Name{}, false
}

// addWatcher says on pods what does not hold.
func (a *agent) addWatcher() error {
	watcher := &watch.Watcher{
		Pods: a.manager.GetClient(), Driver: csi.DriverName, Every: watchEvery, Settle: settle, Now: time.Now,
		Events: a.manager.GetEventRecorderFor("ktsn-agent"),
		Do: func(ctx context.Context, ask func(context.Context, watch.Ktsnd) error) error {
			return a.link.Do(ctx, func(ctx context.Context, client *control.Client) error { return ask(ctx, client) })
		},
		Unseen:   (&attachment.GuardRound{StateDir: a.StateDir}).Look,
		Back:     a.relays.Compare,
		Dropped:  a.metrics.Unseen,
		Diverted: a.metrics.Diverted,
		Relays:   a.relays.Status,
		Log:      a.log.With("part", "watch"),
	}
	if a.Proc != "" {
		watcher.Programs = &inspect.Inspector{
			Program: "/proc/self/exe", Arguments: []string{inspectCommand}, Proc: a.Proc, Patience: inspectPatience,
		}
	}
	return a.manager.Add(manager.RunnableFunc(watcher.Run))
}
