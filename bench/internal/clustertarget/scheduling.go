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
	// realtime is next to tsnperf in its image.
	realtime = "/usr/bin/ktsn-realtime"
	// cgroups is the mount point on a node; ktsnd's container has the node's cgroups elsewhere if it needs them.
	cgroups = "/sys/fs/cgroup"
	// ktsndPriority is ktsnd's default SCHED_FIFO priority, for a bench that cannot ask it.
	ktsndPriority = 50
	// sendTime is an upper limit of the processor time of a send and the wake-up before it.
	sendTime = 50 * time.Microsecond
	// kernelShare is the percentage of processor time that the kernel allows for real-time scheduling
	// (sched_rt_runtime_us).
	kernelShare = 95
)

// scheduling is the real-time scheduling of spinning talkers: the same as ktsnd's on their node, for a fair comparison
// of paths.
type scheduling struct {
	// spin is how long they busy-wait before each send.
	spin time.Duration
	// fifo is their SCHED_FIFO priority; 0: ktsnd has none either.
	fifo int
	// share is the percentage of each processor's time that they may use with that priority; divided: the kernel
	// assigns it per cgroup.
	share   int
	divided bool
	// denied are the paths whose talkers' pods do not get a share from the kernel.
	denied map[string]bool
}

// arguments returns the arguments for a talker of a run.
func (s *scheduling) arguments(r engine.Run) []string {
	if !results.Spins(r.Path) {
		return nil
	}
	if s.denied[r.Path] || s.needs(r.Talkers, r.Cycle()) > s.share {
		return traffic.Spin(s.spin, 0)
	}
	return traffic.Spin(s.spin, s.fifo)
}

// needs returns the percentage of a processor's time that busy-waiting talkers need.
func (s *scheduling) needs(talkers int, cycle time.Duration) int {
	awake := time.Duration(talkers) * (s.spin + sendTime)
	return int((100*awake + cycle - 1) / cycle)
}

// priority returns the talkers' priority, 0 if the kernel denies it to any.
func (s *scheduling) priority(paths []string) int {
	if slices.ContainsFunc(paths, func(path string) bool { return !s.denied[path] }) {
		return s.fifo
	}
	return 0
}

// wakeTalkers creates the pods of spinning talkers with ktsnd's scheduling in the cluster.
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

// schedule asks ktsnd for its scheduling. Without ktsnd the defaults are used.
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

// cgroupsOf returns the path of the node's cgroups in ktsnd's container, which has them if the kernel divides real-time
// scheduling among cgroups; empty if not.
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

// spinningPod is the pod of a spinning talker. It may use SCHED_FIFO, but has no other additional right; if ktsnd needs
// the node's cgroups for that, it needs them too.
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

// tryFIFO tests whether a path's talker gets SCHED_FIFO, after assigning its pod a share of the real-time budget if the
// kernel divides it. A talker without is measured as well, and the report says so.
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

// missShares lists the runs whose talkers would exceed their share under SCHED_FIFO and be throttled by the kernel.
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

// spinning returns the paths whose talkers busy-wait before they send.
func spinning(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return !results.Spins(path) })
}
