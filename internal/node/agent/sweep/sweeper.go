// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/csi"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// Volumes manages the volumes of the node's pods.
type Volumes interface {
	All() ([]csi.Volume, error)
	PodDirs() ([]string, error)
	// Sweep removes volumes, folder and socket of a pod if gone returns true, which it calls with the pod's lock.
	Sweep(ctx context.Context, uid string, gone func(context.Context) (bool, error)) error
}

// Plugin is the network plugin.
type Plugin interface {
	List() ([]attachment.Attached, error)
	Detach(ctx context.Context, attached *attachment.Attached) error
}

// Ktsnd is a connection to the node's ktsnd.
type Ktsnd interface {
	Pods(ctx context.Context) ([]control.Pod, error)
	Endpoints(ctx context.Context) ([]control.AttachedEndpoint, error)
	EndpointDel(ctx context.Context, identity, interfaceName string) error
}

// Sweeper removes the remains of deleted pods.
type Sweeper struct {
	// Pods reads the pods of this node from the cache, Live from the API server by the name of the Node.
	Pods, Live client.Reader
	Node       string
	Volumes    Volumes
	Plugin     Plugin
	Do         func(ctx context.Context, ask func(context.Context, Ktsnd) error) error
	// Exists reports whether a path of a network namespace exists, Occupied whether processes may be in it.
	Exists, Occupied func(path string) bool
	// Every is the time between two sweeps.
	Every time.Duration
	// Swept is called for each removed item with its kind.
	Swept func(what string)
	Log   *slog.Logger

	// missing are the identities without a pod in the last sweep, ended the ports of ended containers.
	missing, ended map[string]bool
}

// Run sweeps until ctx ends.
func (s *Sweeper) Run(ctx context.Context) error {
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.Log.Error("sweep", "error", err)
		}
	}, s.Every)
	return nil
}

// inventory is the state of all pods on the node.
type inventory struct {
	volumes   []csi.Volume
	dirs      []string
	attached  []attachment.Attached
	pods      []control.Pod
	endpoints []control.AttachedEndpoint
}

// Sweep removes the remains of pods that were missing in the last sweep and still are.
func (s *Sweeper) Sweep(ctx context.Context) error {
	// List the items before the pods: otherwise a new pod would seem to be missing.
	items, err := s.list(ctx)
	if err != nil {
		return err
	}
	alive, err := s.alive(ctx, s.Pods)
	if err != nil {
		return err
	}
	ended := map[string]bool{}
	for i := range items.attached {
		attached := &items.attached[i]
		switch {
		case attached.Ended:
			ended[attached.PortName()] = true
		case !alive[attached.Identity] && !attached.Gone && s.Occupied(attached.Netns):
			// A network namespace may contain processes even if the API server does not have the pod.
			alive[attached.Identity] = true
		}
	}
	missing := map[string]bool{}
	for _, identity := range items.identities() {
		if !alive[identity] {
			missing[identity] = true
		}
	}
	gone := func(identity string) bool { return missing[identity] && s.missing[identity] }
	endedAgain := func(port string) bool { return ended[port] && s.ended[port] }
	defer func() { s.missing, s.ended = missing, ended }()
	return errors.Join(s.sweepPods(ctx, items, gone), s.sweepAttachments(ctx, items, gone, endedAgain), s.sweepEndpoints(ctx, items, gone))
}

// confirmed asks the API server itself whether a pod is gone: the cache may be stale after a lost connection.
func (s *Sweeper) confirmed(ctx context.Context, identity string) (bool, error) {
	alive, err := s.alive(ctx, s.Live, s.onNode())
	if err == nil && alive[identity] {
		s.Log.Warn("the API server has a pod that is missing in the cache", "uid", identity)
	}
	return err == nil && !alive[identity], err
}

// onNode selects the pods of this node.
func (s *Sweeper) onNode() client.ListOption { return client.MatchingFields{"spec.nodeName": s.Node} }

func (s *Sweeper) list(ctx context.Context) (*inventory, error) {
	items := &inventory{}
	var err error
	if items.volumes, err = s.Volumes.All(); err != nil {
		return nil, err
	}
	if items.dirs, err = s.Volumes.PodDirs(); err != nil {
		return nil, err
	}
	if items.attached, err = s.Plugin.List(); err != nil {
		return nil, err
	}
	err = s.Do(ctx, func(ctx context.Context, ktsnd Ktsnd) error {
		if items.pods, err = ktsnd.Pods(ctx); err != nil {
			return err
		}
		items.endpoints, err = ktsnd.Endpoints(ctx)
		return err
	})
	return items, err
}

func (h *inventory) identities() []string {
	var identities []string
	for _, volume := range h.volumes {
		identities = append(identities, volume.UID)
	}
	identities = append(identities, h.dirs...)
	for _, attached := range h.attached {
		identities = append(identities, attached.Identity)
	}
	for _, pod := range h.pods {
		identities = append(identities, pod.Identity)
	}
	for _, endpoint := range h.endpoints {
		identities = append(identities, endpoint.Identity)
	}
	return identities
}

// staticUID is the annotation with the UID by which kubelet and runtime know a static pod.
const staticUID = "kubernetes.io/config.hash"

// alive returns the identities of the node's pods.
func (s *Sweeper) alive(ctx context.Context, from client.Reader, options ...client.ListOption) (map[string]bool, error) {
	pods, err := listPods(ctx, from, options...)
	return identitiesOf(pods), err
}

func listPods(ctx context.Context, from client.Reader, options ...client.ListOption) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := from.List(ctx, &pods, options...); err != nil {
		return nil, fmt.Errorf("list the node's pods: %w", err)
	}
	return pods.Items, nil
}

func identitiesOf(pods []corev1.Pod) map[string]bool {
	all := map[string]bool{}
	for i := range pods {
		all[string(pods[i].UID)] = true
		all[pods[i].Annotations[staticUID]] = true
	}
	return all
}

// sweepPods removes volumes, folders and sockets.
func (s *Sweeper) sweepPods(ctx context.Context, items *inventory, gone func(string) bool) error {
	all := map[string]bool{}
	for _, volume := range items.volumes {
		all[volume.UID] = true
	}
	for _, uid := range items.dirs {
		all[uid] = true
	}
	for _, pod := range items.pods {
		if pod.Path != "" {
			all[pod.Identity] = true
		}
	}
	var errs error
	for _, uid := range slices.Sorted(maps.Keys(all)) {
		if gone(uid) {
			isGone := false
			err := s.Volumes.Sweep(ctx, uid, func(ctx context.Context) (_ bool, err error) {
				isGone, err = s.confirmed(ctx, uid)
				return isGone, err
			})
			errs = errors.Join(errs, s.report(isGone, "volume", uid, err))
		}
	}
	return errs
}

// sweepAttachments detaches ended containers. No new container has the same name. Ended containers of an existing
// pod are leftovers of its previous sandboxes.
func (s *Sweeper) sweepAttachments(ctx context.Context, items *inventory, gone, ended func(string) bool) error {
	var errs error
	for i := range items.attached {
		attached := &items.attached[i]
		isGone, err := ended(attached.PortName()), error(nil)
		if !isGone && gone(attached.Identity) {
			isGone, err = s.confirmed(ctx, attached.Identity)
		}
		if isGone {
			err = s.Plugin.Detach(ctx, attached)
		}
		errs = errors.Join(errs, s.report(isGone, "interface", attached.ContainerID+" "+attached.Interface, err))
	}
	return errs
}

// sweepEndpoints removes endpoints from ktsnd that have no record on the node.
func (s *Sweeper) sweepEndpoints(ctx context.Context, items *inventory, gone func(string) bool) error {
	known := map[string]bool{}
	for _, attached := range items.attached {
		known[attached.Identity+" "+attached.Interface] = true
	}
	return s.Do(ctx, func(ctx context.Context, ktsnd Ktsnd) error {
		var errs error
		for _, endpoint := range items.endpoints {
			name := endpoint.Identity + " " + endpoint.Interface
			if gone(endpoint.Identity) && !known[name] && !s.Exists(endpoint.Netns) {
				isGone, err := s.confirmed(ctx, endpoint.Identity)
				if isGone {
					err = ktsnd.EndpointDel(ctx, endpoint.Identity, endpoint.Interface)
				}
				errs = errors.Join(errs, s.report(isGone, "endpoint", name, err))
			}
		}
		return errs
	})
}

// report returns an error, or logs and counts a removed item.
func (s *Sweeper) report(gone bool, kind, name string, err error) error {
	if err != nil {
		return fmt.Errorf("remove %s %s of a pod or sandbox that has ended: %w", kind, name, err)
	}
	if gone {
		s.Log.Info("removed remains of a pod or sandbox that has ended", "kind", kind, "name", name)
		s.Swept(kind)
	}
	return nil
}
