// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

type fakeKtsnd []control.Pod

func (f *fakeKtsnd) Pods(context.Context) ([]control.Pod, error) { return *f, nil }

type fakePrograms struct {
	sentences []string
	looks     int
	refuse    error
}

func (f *fakePrograms) Without(context.Context, string) ([]string, error) {
	f.looks++
	return f.sentences, f.refuse
}

var began = time.Unix(1000000, 0)

func runningPod(volume bool, preload string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "uid"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Env: []corev1.EnvVar{{Name: "LD_PRELOAD", Value: preload}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "c", ContainerID: "one", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(began)}},
		}}},
	}
	if volume {
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "csi.kubernetsn.io"}}}}
	}
	return pod
}

func newWatcher(pod *corev1.Pod, ktsnd *fakeKtsnd, programs Programs) (*Watcher, *record.FakeRecorder) {
	events := record.NewFakeRecorder(10)
	return &Watcher{
		Pods: fake.NewClientBuilder().WithObjects(pod).Build(), Driver: "csi.kubernetsn.io", Programs: programs, Events: events,
		Do:     func(ctx context.Context, ask func(context.Context, Ktsnd) error) error { return ask(ctx, ktsnd) },
		Settle: 10 * time.Second, Now: func() time.Time { return began.Add(11 * time.Second) }, Log: slog.New(slog.DiscardHandler),
	}, events
}

func next(events *record.FakeRecorder) string {
	select {
	case text := <-events.Events:
		return text
	default:
		return ""
	}
}

func TestEvents(t *testing.T) {
	for name, test := range map[string]struct {
		pod      *corev1.Pod
		ktsnd    fakeKtsnd
		programs []string
		want     string
	}{
		"nothing of a pod that has all":       {runningPod(true, "/run/ktsn/libktsn.so"), fakeKtsnd{{Identity: "uid", Path: "/x", Endpoints: 1}}, nil, ""},
		"nothing of a pod that wants none":    {runningPod(false, ""), fakeKtsnd{}, nil, ""},
		"nothing of a pod that only receives": {runningPod(false, ""), fakeKtsnd{{Identity: "uid", Endpoints: 1}}, nil, ""},
		"a volume without a network": {runningPod(true, ""), fakeKtsnd{{Identity: "uid", Path: "/x"}}, nil,
			"Warning TSNInterfaceMissing The pod has a volume of csi.kubernetsn.io but no interface"},
		"the library without a volume": {runningPod(false, "/run/ktsn/libktsn.so"), fakeKtsnd{{Identity: "uid", Endpoints: 1}}, nil,
			"Warning TSNVolumeMissing A container preloads libktsn.so"},
		"a limit": {runningPod(true, ""), fakeKtsnd{{Identity: "uid", Endpoints: 1, Sockets: 8, Limits: control.PodLimits{Sockets: 8}}}, nil,
			"Warning TSNLimitReached The pod has 8 of 8 timed sockets"},
		"a static program": {runningPod(true, ""), fakeKtsnd{{Identity: "uid", Endpoints: 1}}, []string{"Program /x is static"},
			"Warning TSNProgramNotCaught Program /x is static"},
	} {
		t.Run(name, func(t *testing.T) {
			programs := &fakePrograms{sentences: test.programs}
			w, events := newWatcher(test.pod, &test.ktsnd, programs)
			for range 3 {
				testlab.Must(t, w.Check(t.Context()))
			}
			if got := next(events); !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
				t.Errorf("said %q, want %q", got, test.want)
			}
			if got := next(events); got != "" {
				t.Errorf("said again: %q", got)
			}
			if programs.looks > 1 {
				t.Errorf("looked %d times at the same programs", programs.looks)
			}
		})
	}
}

func TestEventIsRepeatedWhenProblemReturns(t *testing.T) {
	ktsnd := fakeKtsnd{{Identity: "uid", Endpoints: 1, Sockets: 8, Limits: control.PodLimits{Sockets: 8}}}
	w, events := newWatcher(runningPod(true, ""), &ktsnd, nil)
	for _, has := range []uint64{8, 8, 3, 8} {
		ktsnd[0].Sockets = has
		testlab.Must(t, w.Check(t.Context()))
	}
	if first, second, third := next(events), next(events), next(events); first == "" || second == "" || third != "" {
		t.Errorf("said %q, %q, %q", first, second, third)
	}
}

func TestNewPodIsNotChecked(t *testing.T) {
	w, events := newWatcher(runningPod(true, ""), &fakeKtsnd{}, nil)
	w.Now = func() time.Time { return began.Add(9 * time.Second) }
	testlab.Must(t, w.Check(t.Context()))
	if got := next(events); got != "" {
		t.Errorf("said %q", got)
	}
}

func TestFailedInspectionIsRetriedAndLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	programs := &fakePrograms{sentences: []string{"Program /x is static"}, refuse: errors.New("process 7: permission denied")}
	w, events := newWatcher(runningPod(true, ""), &fakeKtsnd{{Identity: "uid", Endpoints: 1}}, programs)
	w.Log = slog.New(slog.NewTextHandler(&log, nil))
	for range 3 {
		testlab.Must(t, w.Check(t.Context()))
	}
	if programs.looks != 3 || strings.Count(log.String(), "cannot check programs of pod default/p") != 1 {
		t.Errorf("looked %d times, and logged %q", programs.looks, log.String())
	}
	programs.refuse = nil
	for range 2 {
		testlab.Must(t, w.Check(t.Context()))
	}
	if programs.looks != 4 || len(w.failed) > 0 {
		t.Errorf("looked %d times, and still complains of %v", programs.looks, w.failed)
	}
	if first, second := next(events), next(events); !strings.Contains(first, "Program /x is static") || second != "" {
		t.Errorf("said %q, %q", first, second)
	}
}

func TestCheckReturnsError(t *testing.T) {
	var log bytes.Buffer
	w, _ := newWatcher(runningPod(true, ""), &fakeKtsnd{}, nil)
	w.Log, w.Every = slog.New(slog.NewTextHandler(&log, nil)), time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := 0
	w.Do = func(context.Context, func(context.Context, Ktsnd) error) error {
		if asked++; asked == 10 {
			cancel()
		}
		return errors.New("ktsnd does not answer")
	}
	if err := w.Run(ctx); err != nil || strings.Count(log.String(), "ktsnd does not answer") != 1 {
		t.Errorf("%v; logged %q", err, log.String())
	}
}
