// SPDX-License-Identifier: Apache-2.0

package clustertarget

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/traffic"
	"github.com/kubernetsn/kubernetsn/bench/results"
)

const (
	// realtime is beside tsnperf in its image.
	realtime = "/usr/bin/ktsn-realtime"
	// cgroups is where a node has them; ktsnd's container has them at another place where it needs them.
	cgroups = "/sys/fs/cgroup"
	// ktsndPriority is the SCHED_FIFO priority that ktsnd asks for, for a bench that has none to ask.
	ktsndPriority = 50
	// sendTime is more than a send and the wake-up before it take of a processor.
	sendTime = 50 * time.Microsecond
	// kernelShare is the percent of each processor's time that the kernel leaves to real-time scheduling (sched_rt_runtime_us).
	kernelShare = 95
)

// scheduling is what keeps the talkers of paths that spin in time: what ktsnd of their node has, so that a comparison with it is
// one of paths.
type scheduling struct {
	// spin is how long before each send they are awake.
	spin time.Duration
	// fifo is their priority of SCHED_FIFO; 0: ktsnd has none either.
	fifo int
	// share is the percent of each processor's time that they may have with that priority; divided tells that the kernel bestows
	// it on cgroups, each its own.
	share   int
	divided bool
	// denied are the paths on whose talkers' pods the kernel does not bestow it.
	denied map[string]bool
}

// arguments tell a talker of a run.
func (s *scheduling) arguments(r engine.Run) []string {
	if !results.Spins(r.Path) {
		return nil
	}
	if s.denied[r.Path] || s.needs(r.Talkers, r.Cycle()) > s.share {
		return traffic.Spin(s.spin, 0)
	}
	return traffic.Spin(s.spin, s.fifo)
}

// needs is the percent of a processor's time that talkers take which are awake before each send.
func (s *scheduling) needs(talkers int, cycle time.Duration) int {
	awake := time.Duration(talkers) * (s.spin + sendTime)
	return int((100*awake + cycle - 1) / cycle)
}

// priority is that of the talkers, 0 where the kernel bestows none on any.
func (s *scheduling) priority(paths []string) int {
	if slices.ContainsFunc(paths, func(path string) bool { return !s.denied[path] }) {
		return s.fifo
	}
	return 0
}

// wakeTalkers makes the pods of talkers that spin, as the cluster's ktsnd is found to be scheduled.
func (l *Target) wakeTalkers(ctx context.Context, profile *engine.Profile) error {
	paths := spinning(profile.Paths)
	if err := l.schedule(ctx, profile); err != nil || len(paths) == 0 {
		return err
	}
	if l.scheduling.spin == 0 {
		return fmt.Errorf("ktsnd on node %s sleeps until a departure (its option --spin is 0), and a talker on path %s would until it sends; leave the "+
			"path out, or have ktsnd be awake before", l.on.talkers.Name, paths[0])
	}
	hostCgroups := cgroupsOf(l.ktsnd)
	var pods []*corev1.Pod
	for _, path := range paths {
		pods = append(pods, spinningPod(path, l.on.talkers, l.Image, hostCgroups))
	}
	started, err := l.startPods(ctx, pods)
	if err != nil {
		return err
	}
	maps.Copy(l.pods, started)
	if l.scheduling.fifo == 0 {
		return nil
	}
	l.scheduling.share, l.scheduling.denied, l.scheduling.divided = kernelShare, map[string]bool{}, hostCgroups != ""
	if l.scheduling.divided {
		l.scheduling.share = min(kernelShare, l.scheduling.needs(1, slices.Min(profile.Cycles)))
	}
	for _, path := range paths {
		if err := l.tryFIFO(ctx, path); err != nil {
			return err
		}
	}
	l.missShares(profile)
	return nil
}

// schedule asks ktsnd how it is scheduled. A bench without one has its defaults.
func (l *Target) schedule(ctx context.Context, profile *engine.Profile) error {
	l.scheduling = scheduling{spin: profile.Spin, fifo: ktsndPriority}
	if l.ktsnd == nil {
		if l.asksKtsnd || !slices.ContainsFunc(profile.Paths, results.ThroughKtsnd) || !slices.ContainsFunc(profile.Paths, results.Spins) {
			return nil
		}
		l.miss("whether talkers that spin are scheduled as ktsnd is", fmt.Sprintf("ktsnd could not be asked; they have its defaults, awake for %v "+
			"before each send with SCHED_FIFO priority %d", l.scheduling.spin, l.scheduling.fifo))
		return nil
	}
	status, err := l.askKtsnd(ctx, l.ktsnd)
	if err != nil {
		return err
	}
	e := &l.environment
	e.KtsndVersion, e.SpinNs = status.KtsndVersion, status.SpinNs
	e.Scheduler, e.SchedulerPriority = status.Scheduler, status.SchedulerPriority
	l.scheduling.spin, l.scheduling.fifo = time.Duration(status.SpinNs), status.FIFOPriority()
	return nil
}

// cgroupsOf is where the node's cgroups are in ktsnd's container, which has them where the kernel divides real-time scheduling among
// them; empty: it has not.
func cgroupsOf(ktsnd *corev1.Pod) string {
	if ktsnd == nil {
		return ""
	}
	for _, volume := range ktsnd.Spec.Volumes {
		if volume.HostPath == nil || volume.HostPath.Path != cgroups {
			continue
		}
		for _, container := range ktsnd.Spec.Containers {
			for _, mount := range container.VolumeMounts {
				if container.Name == ktsndContainer && mount.Name == volume.Name {
					return mount.MountPath
				}
			}
		}
	}
	return ""
}

// spinningPod is that of the talker of a path that spins. It may use SCHED_FIFO, and nothing else that others may not; where ktsnd
// needs the node's cgroups for that, so does it.
func spinningPod(path string, node *corev1.Node, image, hostCgroups string) *corev1.Pod {
	pod := plainPod(endsOf(path).talker, node, image)
	pod.Spec.HostNetwork = onHost(path)
	// A capability is for root only, unless a file has it.
	pod.Spec.SecurityContext.RunAsNonRoot, pod.Spec.SecurityContext.RunAsUser = nil, pointer(int64(0))
	only := &pod.Spec.Containers[0]
	only.SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_NICE"}
	if hostCgroups != "" {
		pod.Spec.Volumes = []corev1.Volume{{Name: "cgroup", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: cgroups}}}}
		only.VolumeMounts = []corev1.VolumeMount{{Name: "cgroup", MountPath: hostCgroups}}
	}
	return pod
}

// tryFIFO finds out whether the kernel bestows SCHED_FIFO on a path's talker, after its pod has got a share of the real-time budget
// where the kernel divides that. A talker without is measured all the same, and the report says so.
func (l *Target) tryFIFO(ctx context.Context, path string) error {
	command := []string{program, "talker", "--quiet", "--no-txtime", "--to", "127.0.0.1:9", "--count", "1", "--fifo", strconv.Itoa(l.scheduling.fifo)}
	if l.scheduling.divided {
		command = append([]string{realtime, "--share", strconv.Itoa(l.scheduling.share), "--"}, command...)
	}
	_, err := l.run(ctx, "tsnperf talker", l.pods[endsOf(path).talker], container, command...)
	if err == nil {
		return nil
	}
	if !strings.Contains(err.Error(), "SCHED_FIFO") {
		return err
	}
	l.scheduling.denied[path] = true
	l.miss("path "+path+" with a talker under SCHED_FIFO, as ktsnd is", "its talker had ordinary priority: "+err.Error())
	return nil
}

// missShares names the runs whose talkers would take more than they may have under SCHED_FIFO, and be stopped by the kernel.
func (l *Target) missShares(profile *engine.Profile) {
	for _, workload := range profile.Workloads {
		talkers, whose := 1, "one talker"
		if workload.Name == results.WorkloadTalkers {
			talkers, whose = profile.Talkers, fmt.Sprintf("%d talkers", profile.Talkers)
		}
		paths := spinning(profile.Paths)
		if len(workload.Paths) > 0 {
			paths = spinning(workload.Paths)
		}
		for _, cycle := range profile.Cycles {
			needs := l.scheduling.needs(talkers, cycle)
			if len(paths) == 0 || needs <= l.scheduling.share {
				continue
			}
			l.miss(fmt.Sprintf("workload %s on %s under SCHED_FIFO, with a cycle of %v", workload.Name, strings.Join(paths, " and "), cycle),
				fmt.Sprintf("%s would take %d %% of a processor, and may have %d %%; that is why they had ordinary priority", whose, needs,
					l.scheduling.share))
		}
	}
}

// spinning are those of some paths whose talkers are awake before they send.
func spinning(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return !results.Spins(path) })
}
