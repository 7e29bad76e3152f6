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
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/csi"
	"github.com/kubernetsn/kubernetsn/internal/node/attachment"
	"github.com/kubernetsn/kubernetsn/internal/node/relay"
	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/shared/errortext"
	"github.com/kubernetsn/kubernetsn/internal/shared/podstatus"
)

// Ktsnd is a connection to the node's ktsnd.
type Ktsnd interface {
	Pods(ctx context.Context) ([]control.Pod, error)
}

// Programs inspects the programs of a pod.
type Programs interface {
	// Without returns a message for each program of the pod that was started with libktsn.so and has not loaded it.
	Without(ctx context.Context, uid string) ([]string, error)
}

// Watcher checks the pods.
type Watcher struct {
	// Pods reads the pods of this node.
	Pods client.Reader
	// Driver is the name of the CSI driver.
	Driver   string
	Do       func(ctx context.Context, ask func(context.Context, Ktsnd) error) error
	Programs Programs // nil: do not inspect programs
	// Guards restores the filters of the pods' interfaces and returns their counters; may be nil.
	Guards func() ([]attachment.Guarded, error)
	// Restored is called after a filter was restored.
	Restored func()
	// Dropped counts messages that a filter dropped.
	Dropped func(namespace, pod string, more uint64)
	// Diverted counts frames that the node's end of a pod's interface did not give to the relay, by result.
	Diverted func(namespace, pod, result string, more uint64)
	// Relays returns the status of relays; may be nil.
	Relays func() []relay.Status
	Events record.EventRecorder
	Every  time.Duration
	// Settle is how long a pod runs before it is checked.
	Settle time.Duration
	Now    func() time.Time
	Log    *slog.Logger

	// failed has the last logged error by subject.
	failed map[string]string
	// reported are the problems with an Event that still hold.
	reported map[problem]bool
	// inspected are the pods whose programs were inspected, by UID and containers.
	inspected map[string]bool
	// counted are the counters of each interface at the last check, by result.
	counted map[string]map[string]uint64
}

// problem identifies a problem of a pod.
type problem struct{ uid, reason, detail string }

// Run checks the pods until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		if err := w.Check(ctx); ctx.Err() == nil {
			w.logFailure("pods", err)
		}
	}, w.Every)
	return nil
}

// logFailure logs a failed check, once per error.
func (w *Watcher) logFailure(subject string, err error) {
	if err == nil {
		delete(w.failed, subject)
		return
	}
	if w.failed == nil {
		w.failed = map[string]string{}
	}
	if w.failed[subject] != err.Error() {
		w.Log.Warn("cannot check "+subject, "error", errortext.OneLine(err))
	}
	w.failed[subject] = err.Error()
}

// Check checks all pods once.
func (w *Watcher) Check(ctx context.Context) error {
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
	holds, inspected, present := map[problem]bool{}, map[string]bool{}, map[string]bool{}
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
			without = w.programFindings(ctx, pod, inspected)
		}
		for _, f := range slices.Concat(w.podFindings(pod, served), without, droppedFindings(interfaces), lostFindings(interfaces), relayFindings(relays[string(pod.UID)])) {
			key := problem{string(pod.UID), f.reason, f.detail}
			holds[key] = true
			if !w.reported[key] {
				w.Events.Event(pod, corev1.EventTypeWarning, f.reason, f.message)
			}
		}
	}
	w.reported, w.inspected, w.counted = holds, inspected, counted
	// Forget deleted pods.
	maps.DeleteFunc(w.failed, func(subject, _ string) bool { return subject != "pods" && subject != unseenPart && !present[subject] })
	return nil
}

// settled reports whether all containers of the pod have been running for a while.
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

// finding is a problem with its message.
type finding struct{ reason, detail, message string }

// podFindings checks that the pod has both interface and volume, and its limits.
func (w *Watcher) podFindings(pod *corev1.Pod, served map[string]control.Pod) []finding {
	has, known := served[string(pod.UID)]
	volume := csi.InPod(pod, w.Driver)
	var findings []finding
	switch {
	case volume && (!known || has.Endpoints == 0) && podstatus.Attached(pod) == nil: // otherwise Attached reports it
		findings = append(findings, finding{ReasonNoInterface, "", "The pod has a volume of " + w.Driver + " but no interface on a network of " +
			"KuberneTSN, so its timed messages go nowhere; name a network in the annotation k8s.v1.cni.cncf.io/networks"})
	case !volume && has.Endpoints > 0 && preloads(pod):
		findings = append(findings, finding{ReasonNoVolume, "", "A container preloads libktsn.so, but the pod has no volume of " + w.Driver +
			" to take it from, so its timed messages do not leave; add the volume and mount it at /run/ktsn"})
	}
	for _, usage := range []struct {
		name       string
		has, limit uint64
		field      string
	}{
		{"processes", has.Processes, has.Limits.Processes, "processes"},
		{"timed sockets", has.Sockets, has.Limits.Sockets, "sockets"},
		{"bytes of rings", has.RingMemoryBytes, has.Limits.RingMemoryBytes, "memory"},
		{"messages under way", has.Pending, has.Limits.Pending, "pending"},
	} {
		if usage.limit > 0 && usage.has >= usage.limit {
			findings = append(findings, finding{ReasonLimit, usage.name, fmt.Sprintf("The pod has %d of %d %s, and gets no more of ktsnd; the limit is spec.limits.%s of a "+
				"TSNNetwork of it, else ktsnd's option --pod-%s (value ktsnd.extraArgs of the chart)", usage.has, usage.limit, usage.name, usage.field, usage.field)})
		}
	}
	return findings
}

// preloads reports whether a container's environment preloads the library.
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

// libraryName is the library's file name in any folder.
const libraryName = "libktsn.so"

// programFindings inspects the programs of a pod once per start of a container. The findings hold until the next start.
func (w *Watcher) programFindings(ctx context.Context, pod *corev1.Pod, inspected map[string]bool) []finding {
	if w.Programs == nil || !csi.InPod(pod, w.Driver) {
		return nil
	}
	parts := []string{string(pod.UID)}
	for _, container := range pod.Status.ContainerStatuses {
		parts = append(parts, container.ContainerID)
	}
	key := strings.Join(parts, " ")
	if w.inspected[key] {
		inspected[key] = true
		return w.keptFindings(pod)
	}
	messages, err := w.Programs.Without(ctx, string(pod.UID))
	w.logFailure(programsOf(pod), err)
	inspected[key] = err == nil // otherwise retry
	var findings []finding
	for _, message := range messages {
		findings = append(findings, finding{ReasonProgram, message, message})
	}
	return findings
}

func programsOf(pod *corev1.Pod) string { return "programs of pod " + pod.Namespace + "/" + pod.Name }

func (w *Watcher) keptFindings(pod *corev1.Pod) []finding {
	var findings []finding
	for p := range w.reported {
		if p.uid == string(pod.UID) && p.reason == ReasonProgram {
			findings = append(findings, finding{p.reason, p.detail, p.detail})
		}
	}
	return findings
}
