// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/csi"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/relay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// Ktsnd is a connection to the node's ktsnd.
type Ktsnd interface {
	Pods(ctx context.Context) ([]control.Pod, error)
}

// Programs looks at the programs of a pod.
type Programs interface {
	// Without returns a sentence for each program of the pod that was started with libktsn.so and is without it.
	Without(ctx context.Context, uid string) ([]string, error)
}

// Watcher looks at the pods.
type Watcher struct {
	// Pods gives the pods of this node.
	Pods client.Reader
	// Driver is the name of the CSI driver.
	Driver   string
	Do       func(ctx context.Context, ask func(context.Context, Ktsnd) error) error
	Programs Programs // nil: look at no programs
	// Unseen makes sure of the filters of the pods' interfaces and reads what these did not let out; nil: look at none.
	Unseen func() ([]attachment.Guarded, error)
	// Back is called when a program was missing and has been put back.
	Back func()
	// Dropped counts that for a pod.
	Dropped func(namespace, pod string, more uint64)
	// Diverted counts what the node's end of a pod's interface did besides giving frames to the relay, by what it did.
	Diverted func(namespace, pod, result string, more uint64)
	// Relays says how the relays of captured interfaces are; nil: look at none.
	Relays func() []relay.Status
	Events record.EventRecorder
	Every  time.Duration
	// Settle is how long a pod runs before it is looked at.
	Settle time.Duration
	Now    func() time.Time
	Log    *slog.Logger

	// failed is what could not be looked at, and why, as it was logged last.
	failed map[string]string
	// said is what holds of which pod since an Event said so.
	said map[complaint]bool
	// looked is which containers' programs were looked at.
	looked map[string]bool
	// counted is what each interface had not let out at the last look, and its node's end not given to the relay, by result.
	counted map[string]map[string]uint64
}

// complaint is something about a pod.
type complaint struct{ uid, reason, about string }

// Run looks until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	ticks := time.NewTicker(w.Every)
	defer ticks.Stop()
	for {
		if err := w.Look(ctx); ctx.Err() == nil {
			w.complain("pods", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}

// complain logs what cannot be looked at, once as long as it is for the same reason.
func (w *Watcher) complain(what string, err error) {
	if err == nil {
		delete(w.failed, what)
		return
	}
	if w.failed == nil {
		w.failed = map[string]string{}
	}
	if w.failed[what] != err.Error() {
		w.Log.Warn("cannot look at "+what, "error", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	w.failed[what] = err.Error()
}

// Look looks at all pods once.
func (w *Watcher) Look(ctx context.Context) error {
	var pods corev1.PodList
	if err := w.Pods.List(ctx, &pods); err != nil {
		return fmt.Errorf("list the node's pods: %w", err)
	}
	served := map[string]control.Pod{}
	err := w.Do(ctx, func(ctx context.Context, ktsnd Ktsnd) error {
		all, err := ktsnd.Pods(ctx)
		for _, pod := range all {
			served[pod.Identity] = pod
		}
		return err
	})
	if err != nil {
		return err
	}
	guarded, counted := w.guarded(), map[string]map[string]uint64{}
	relays := w.relays()
	holds, looked, present := map[complaint]bool{}, map[string]bool{}, map[string]bool{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		present[programsOf(pod)] = true
		interfaces := guarded[string(pod.UID)]
		w.count(pod, interfaces, counted)
		if !w.settled(pod) {
			continue
		}
		var without []finding
		if !captured(interfaces) {
			without = w.programs(ctx, pod, looked)
		}
		for _, found := range slices.Concat(w.halves(pod, served), without, dropped(interfaces), lost(interfaces), troubled(relays[string(pod.UID)])) {
			key := complaint{string(pod.UID), found.reason, found.about}
			holds[key] = true
			if !w.said[key] {
				w.Events.Event(pod, corev1.EventTypeWarning, found.reason, found.sentence)
			}
		}
	}
	w.said, w.looked, w.counted = holds, looked, counted
	// Of pods that are gone.
	maps.DeleteFunc(w.failed, func(what, _ string) bool { return what != "pods" && what != unseenPart && !present[what] })
	return nil
}

// settled tells whether all of the pod's containers have been running for a while.
func (w *Watcher) settled(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil || len(pod.Status.ContainerStatuses) == 0 {
		return false
	}
	for _, container := range pod.Status.ContainerStatuses {
		running := container.State.Running
		if running == nil || w.Now().Sub(running.StartedAt.Time) < w.Settle {
			return false
		}
	}
	return true
}

// finding is a complaint with its sentence.
type finding struct{ reason, about, sentence string }

// halves looks whether what the pod asks for is there, and how much of it is used.
func (w *Watcher) halves(pod *corev1.Pod, served map[string]control.Pod) []finding {
	has, known := served[string(pod.UID)]
	volume := csi.InPod(pod, w.Driver)
	var findings []finding
	switch {
	case volume && (!known || has.Endpoints == 0):
		findings = append(findings, finding{ReasonNoInterface, "", "The pod has a volume of " + w.Driver + " but no interface on a network of " +
			"KuberneTSN, so its timed messages go nowhere; name a network in the annotation k8s.v1.cni.cncf.io/networks"})
	case !volume && has.Endpoints > 0 && preloads(pod):
		findings = append(findings, finding{ReasonNoVolume, "", "A container preloads libktsn.so, but the pod has no volume of " + w.Driver +
			" to take it from, so its timed messages do not leave; add the volume and mount it at /run/ktsn"})
	}
	for _, one := range []struct {
		name       string
		has, limit uint64
		field      string
	}{
		{"processes", has.Processes, has.Limits.Processes, "processes"},
		{"timed sockets", has.Sockets, has.Limits.Sockets, "sockets"},
		{"bytes of rings", has.RingMemoryBytes, has.Limits.RingMemoryBytes, "memory"},
		{"messages under way", has.Pending, has.Limits.Pending, "pending"},
	} {
		if one.limit > 0 && one.has >= one.limit {
			findings = append(findings, finding{ReasonLimit, one.name, fmt.Sprintf("The pod has %d of %d %s, and gets no more of ktsnd; the limit is spec.limits.%s of a "+
				"TSNNetwork of it, else ktsnd's option --pod-%s (value ktsnd.extraArgs of the chart)", one.has, one.limit, one.name, one.field, one.field)})
		}
	}
	return findings
}

// preloads tells whether the pod's author says that a container preloads the library.
func preloads(pod *corev1.Pod) bool {
	for i := range pod.Spec.Containers {
		for _, variable := range pod.Spec.Containers[i].Env {
			if variable.Name == "LD_PRELOAD" && strings.Contains(variable.Value, libraryName) {
				return true
			}
		}
	}
	return false
}

// libraryName is what the library is called wherever it lies.
const libraryName = "libktsn.so"

// programs looks at the programs of a pod, once for each start of one of its containers. What was found then holds until
// the next start.
func (w *Watcher) programs(ctx context.Context, pod *corev1.Pod, looked map[string]bool) []finding {
	if w.Programs == nil || !csi.InPod(pod, w.Driver) {
		return nil
	}
	parts := []string{string(pod.UID)}
	for _, container := range pod.Status.ContainerStatuses {
		parts = append(parts, container.ContainerID)
	}
	key := strings.Join(parts, " ")
	if w.looked[key] {
		looked[key] = true
		return w.stillHolds(pod)
	}
	sentences, err := w.Programs.Without(ctx, string(pod.UID))
	w.complain(programsOf(pod), err)
	looked[key] = err == nil // else again the next time
	var findings []finding
	for _, sentence := range sentences {
		findings = append(findings, finding{ReasonProgram, sentence, sentence})
	}
	return findings
}

func programsOf(pod *corev1.Pod) string { return "programs of pod " + pod.Namespace + "/" + pod.Name }

func (w *Watcher) stillHolds(pod *corev1.Pod) []finding {
	var findings []finding
	for said := range w.said {
		if said.uid == string(pod.UID) && said.reason == ReasonProgram {
			findings = append(findings, finding{said.reason, said.about, said.about})
		}
	}
	return findings
}
