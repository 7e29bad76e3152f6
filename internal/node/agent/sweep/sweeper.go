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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/csi"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// Volumes are those of the node's pods.
type Volumes interface {
	All() ([]csi.Volume, error)
	PodDirs() ([]string, error)
	// Sweep removes volumes, folder and socket of a pod if gone says so, which it asks while nobody else works on them.
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

// Sweeper looks for what was left.
type Sweeper struct {
	// Pods gives the pods of this node as they were seen last, and Live as they are, by the name of the Node.
	Pods, Live client.Reader
	Node       string
	Volumes    Volumes
	Plugin     Plugin
	Do         func(ctx context.Context, ask func(context.Context, Ktsnd) error) error
	// Exists tells whether a path is there, for network namespaces.
	Exists func(path string) bool
	// Every is the time between two looks.
	Every time.Duration
	// Swept is called for each thing that was removed, with what it was.
	Swept func(what string)
	Log   *slog.Logger

	// missing are the identities that had no pod at the last look.
	missing map[string]bool
}

// Run looks until ctx ends.
func (s *Sweeper) Run(ctx context.Context) error {
	ticks := time.NewTicker(s.Every)
	defer ticks.Stop()
	for {
		if err := s.Look(ctx); err != nil && ctx.Err() == nil {
			s.Log.Error("sweep", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}

// things are what there is on the node, of whatever pods.
type things struct {
	volumes   []csi.Volume
	dirs      []string
	attached  []attachment.Attached
	pods      []control.Pod
	endpoints []control.AttachedEndpoint
}

// Look removes what belongs to pods that were missing at the last look and still are.
func (s *Sweeper) Look(ctx context.Context) error {
	// What there is, is listed before the pods: a pod that comes meanwhile is not taken for missing.
	have, err := s.list(ctx)
	if err != nil {
		return err
	}
	alive, err := s.alive(ctx, s.Pods)
	if err != nil {
		return err
	}
	// As long as a network namespace is there, so may be processes in it, whatever the API server says.
	for _, attached := range have.attached {
		if !attached.Gone {
			alive[attached.Identity] = true
		}
	}
	missing := map[string]bool{}
	for _, identity := range have.identities() {
		if !alive[identity] {
			missing[identity] = true
		}
	}
	gone := func(identity string) bool { return missing[identity] && s.missing[identity] }
	defer func() { s.missing = missing }()
	return errors.Join(s.sweepPods(ctx, have, gone), s.sweepAttachments(ctx, have, gone), s.sweepEndpoints(ctx, have, gone))
}

// confirmed asks the API server itself whether a pod is gone: what is remembered of it here may be long out of date, when
// the connection has failed.
func (s *Sweeper) confirmed(ctx context.Context, identity string) (bool, error) {
	alive, err := s.alive(ctx, s.Live, s.ofNode())
	if err == nil && alive[identity] {
		s.Log.Warn("the API server has a pod that was missing here", "uid", identity)
	}
	return err == nil && !alive[identity], err
}

// ofNode asks for the pods of this node.
func (s *Sweeper) ofNode() client.ListOption { return client.MatchingFields{"spec.nodeName": s.Node} }

func (s *Sweeper) list(ctx context.Context) (*things, error) {
	have := &things{}
	var err error
	if have.volumes, err = s.Volumes.All(); err != nil {
		return nil, err
	}
	if have.dirs, err = s.Volumes.PodDirs(); err != nil {
		return nil, err
	}
	if have.attached, err = s.Plugin.List(); err != nil {
		return nil, err
	}
	err = s.Do(ctx, func(ctx context.Context, ktsnd Ktsnd) error {
		if have.pods, err = ktsnd.Pods(ctx); err != nil {
			return err
		}
		have.endpoints, err = ktsnd.Endpoints(ctx)
		return err
	})
	return have, err
}

func (h *things) identities() []string {
	var all []string
	for _, volume := range h.volumes {
		all = append(all, volume.UID)
	}
	all = append(all, h.dirs...)
	for _, attached := range h.attached {
		all = append(all, attached.Identity)
	}
	for _, pod := range h.pods {
		all = append(all, pod.Identity)
	}
	for _, endpoint := range h.endpoints {
		all = append(all, endpoint.Identity)
	}
	return all
}

// staticUID is the annotation with the UID that kubelet, and so the runtime, knows a static pod by.
const staticUID = "kubernetes.io/config.hash"

// alive are the identities of the node's pods.
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
func (s *Sweeper) sweepPods(ctx context.Context, have *things, gone func(string) bool) error {
	all := map[string]bool{}
	for _, volume := range have.volumes {
		all[volume.UID] = true
	}
	for _, uid := range have.dirs {
		all[uid] = true
	}
	for _, pod := range have.pods {
		if pod.Path != "" {
			all[pod.Identity] = true
		}
	}
	var failed error
	for _, uid := range slices.Sorted(maps.Keys(all)) {
		if gone(uid) {
			is := false
			err := s.Volumes.Sweep(ctx, uid, func(ctx context.Context) (_ bool, err error) {
				is, err = s.confirmed(ctx, uid)
				return is, err
			})
			failed = errors.Join(failed, s.done(is, "volume", uid, err))
		}
	}
	return failed
}

// sweepAttachments removes what a container's end has left, which no new one has: containers have names of their own.
func (s *Sweeper) sweepAttachments(ctx context.Context, have *things, gone func(string) bool) error {
	var all error
	for _, attached := range have.attached {
		if attached.Gone && gone(attached.Identity) {
			is, err := s.confirmed(ctx, attached.Identity)
			if is {
				err = s.Plugin.Detach(ctx, &attached)
			}
			all = errors.Join(all, s.done(is, "interface", attached.ContainerID+" "+attached.Interface, err))
		}
	}
	return all
}

// sweepEndpoints makes ktsnd forget interfaces that nobody on the node remembers.
func (s *Sweeper) sweepEndpoints(ctx context.Context, have *things, gone func(string) bool) error {
	known := map[string]bool{}
	for _, attached := range have.attached {
		known[attached.Identity+" "+attached.Interface] = true
	}
	return s.Do(ctx, func(ctx context.Context, ktsnd Ktsnd) error {
		var all error
		for _, endpoint := range have.endpoints {
			name := endpoint.Identity + " " + endpoint.Interface
			if gone(endpoint.Identity) && !known[name] && !s.Exists(endpoint.Netns) {
				is, err := s.confirmed(ctx, endpoint.Identity)
				if is {
					err = ktsnd.EndpointDel(ctx, endpoint.Identity, endpoint.Interface)
				}
				all = errors.Join(all, s.done(is, "endpoint", name, err))
			}
		}
		return all
	})
}

// done says what became of a thing, which was removed if the pod was found to be gone.
func (s *Sweeper) done(gone bool, what, which string, err error) error {
	if err != nil {
		return fmt.Errorf("remove %s %s, which no pod has any more: %w", what, which, err)
	}
	if gone {
		s.Log.Info("removed what no pod has any more", "what", what, "which", which)
		s.Swept(what)
	}
	return nil
}
