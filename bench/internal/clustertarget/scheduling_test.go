// SPDX-License-Identifier: Apache-2.0

package clustertarget

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/results"
)

func runOn(path string, talkers int) engine.Run {
	return engine.Run{Key: results.Key{Path: path, CycleNs: time.Millisecond.Nanoseconds()}, Talkers: talkers}
}

func TestSpinningTalkersAreScheduledLikeKtsnd(t *testing.T) {
	const spinning = "--spin 120000ns"
	s := scheduling{spin: 120 * time.Microsecond, fifo: 50, share: 17, denied: map[string]bool{results.PathHostSpin: true}}
	none := s
	none.fifo = 0
	for name, test := range map[string]struct {
		scheduling scheduling
		run        engine.Run
		want       string
	}{
		"awake, with ktsnd's priority":      {s, runOn(results.PathPrimarySpin, 1), spinning + " --fifo 50"},
		"the kernel refuses the priority":   {s, runOn(results.PathHostSpin, 1), spinning},
		"ktsnd has none either":             {none, runOn(results.PathPrimarySpin, 1), spinning},
		"they would take more than is left": {s, runOn(results.PathPrimarySpin, 4), spinning},
		"a talker that sleeps":              {s, runOn(results.PathPrimary, 1), ""},
		"a talker of ktsnd's":               {s, runOn(results.PathTSN, 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(test.scheduling.arguments(test.run), " "); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func TestMissShares(t *testing.T) {
	profile := &engine.Profile{Paths: []string{results.PathPrimarySpin, results.PathPrimary}, Workloads: []engine.Workload{{Name: results.WorkloadPlain},
		{Name: results.WorkloadTalkers}}, Cycles: []time.Duration{time.Millisecond, 10 * time.Millisecond}, Talkers: 4}
	missed := func() []results.Gap {
		target := Target{scheduling: scheduling{spin: 120 * time.Microsecond, fifo: 50, share: 17}}
		target.missShares(profile)
		return target.environment.NotMeasured
	}
	gaps := missed()
	if len(gaps) != 1 || gaps[0].What != "workload talkers on primary-spin under SCHED_FIFO, with a cycle of 1ms" ||
		!strings.Contains(gaps[0].Why, "4 talkers would take 68 % of a processor, and may have 17 %") {
		t.Errorf("%+v", gaps)
	}
	profile.Workloads[1].Paths = []string{results.PathPrimary}
	if gaps := missed(); len(gaps) != 0 {
		t.Errorf("of talkers that sleep %+v", gaps)
	}
}

func TestSpinningPodPrivileges(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{corev1.LabelHostname: "a"}}}
	for path, host := range map[string]bool{results.PathPrimarySpin: false, results.PathHostSpin: true} {
		pod := spinningPod(path, node, "tsnperf:dev", "")
		security := pod.Spec.Containers[0].SecurityContext
		if !slices.Equal(security.Capabilities.Add, []corev1.Capability{"SYS_NICE"}) || !slices.Equal(security.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
			*security.AllowPrivilegeEscalation || len(pod.Spec.Volumes) != 0 || pod.Spec.HostNetwork != host || pod.Name != endsOf(path).talker {
			t.Errorf("%s: %+v", path, pod.Spec)
		}
		if !needPrivilege(map[string]bool{path: true}) {
			t.Errorf("%s: Pod Security would refuse it", path)
		}
	}
	if needPrivilege(map[string]bool{results.PathTSN: true, results.PathPrimary: true}) {
		t.Error("pods that need nothing may have everything")
	}
	for _, pod := range (&connection{}).podsFor(nodes{node, node}, "tsnperf:dev", map[string]bool{results.PathPrimary: true, results.PathHost: true}) {
		if len(pod.Spec.Containers[0].SecurityContext.Capabilities.Add) != 0 || !*pod.Spec.SecurityContext.RunAsNonRoot {
			t.Errorf("%s has more than it needs: %+v", pod.Name, pod.Spec)
		}
	}
}

func TestSpinningPodCgroups(t *testing.T) {
	ktsnd := &corev1.Pod{Spec: corev1.PodSpec{
		Volumes: []corev1.Volume{{Name: "tmp"}, {Name: "cgroup", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: cgroups}}}},
		Containers: []corev1.Container{{Name: ktsndContainer, VolumeMounts: []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"},
			{Name: "cgroup", MountPath: "/host/sys/fs/cgroup"}}}, {Name: "agent"}}}}
	at := cgroupsOf(ktsnd)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelHostname: "a"}}}
	pod := spinningPod(results.PathPrimarySpin, node, "tsnperf:dev", at)
	if at != "/host/sys/fs/cgroup" || len(pod.Spec.Volumes) != 1 || pod.Spec.Volumes[0].HostPath.Path != cgroups ||
		pod.Spec.Containers[0].VolumeMounts[0].MountPath != at {
		t.Errorf("%q, %+v", at, pod.Spec)
	}
	ktsnd.Spec.Volumes = ktsnd.Spec.Volumes[:1]
	if at := cgroupsOf(ktsnd); at != "" || cgroupsOf(nil) != "" {
		t.Errorf("where ktsnd does not need them they are at %q", at)
	}
}
