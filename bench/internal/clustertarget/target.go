// SPDX-License-Identifier: Apache-2.0

// Package clustertarget performs the runs of a bench in a Kubernetes cluster: in pods on two nodes, in a namespace of
// their own, it starts the application (tsnperf) run by run.
//
//	tsn      talker-tsn, libktsn, the node's ktsnd  -> VXLAN, the tsn network of the other node -> listener
//	primary  talker                                 -> the network that each pod has            -> listener
//	host     talker-host                            -> the nodes' own network                   -> listener-host
//
// While messages are sent, only talker and listener run on the nodes: the bench reads the usage of nodes and pods from
// their kubelets, between runs.
//
// The files: connect and permissions (access to the cluster), location (nodes, network, image), namespace and pods
// (what is created and removed), exec (a program in a pod), clock (the difference of the nodes' clocks), run and
// companions (one run), usage (usage of nodes and pods), target (Target).
package clustertarget

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/traffic"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
)

// Target performs runs. It implements engine.Target. It is not safe for concurrent use.
type Target struct {
	*connection
	on          nodes
	pods        map[string]*corev1.Pod
	pinning     engine.Pinning
	scheduling  scheduling
	environment engine.Environment
	host        results.Host
	clocks      comparison
	// oneClock: both nodes have the same clock. Otherwise ends have the sources of information about each clock, the
	// talkers' first, and readings their last reports.
	oneClock bool
	ends     [2]end
	readings [2]reading
	// maxClockError is the profile's; 0: none. clockEvery is the interval of reading the clocks, settle how long they
	// may take.
	maxClockError, clockEvery, settle time.Duration
	// ktsnd is the pod of the talkers' node, nil if it cannot be asked.
	ktsnd *corev1.Pod
	// asksKtsnd: the user may ask it.
	asksKtsnd bool
	// kubelets: they can be asked; asked is when they were.
	kubelets bool
	asked    time.Time
	// namespaces are additional namespaces whose pods' usage is read, besides the bench's and that of the tsn network.
	namespaces []string
	// lastRunID distinguishes the messages of runs.
	lastRunID uint32
}

// Open creates the pods, or leaves nothing behind. Close removes them. say reports what was removed before.
func Open(ctx context.Context, where Where, profile *engine.Profile, say func(string)) (_ *Target, err error) {
	if err := checkNetworkName(where.Network); err != nil {
		return nil, err
	}
	c, err := connect(where)
	if err != nil {
		return nil, err
	}
	l := &Target{connection: c, pinning: given(profile.Pinning), maxClockError: profile.MaxClockError, clockEvery: readClocksEvery,
		settle: settleTime}
	paths := map[string]bool{}
	for _, path := range profile.Paths {
		paths[path] = true
	}
	if err := l.look(ctx, paths); err != nil {
		return nil, err
	}
	if err := l.lookForClocks(ctx); err != nil {
		return nil, err
	}
	if err := c.makeNamespace(ctx, needPrivilege(paths), say); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.removeNamespace(context.WithoutCancel(ctx)))
		}
	}()
	if l.pods, err = c.startPods(ctx, c.podsFor(l.on, l.Image, paths)); err != nil {
		return nil, err
	}
	if err := l.awaitKtsnd(ctx); err != nil {
		return nil, err
	}
	if err := l.wakeTalkers(ctx, profile); err != nil {
		return nil, err
	}
	if err := l.measureClocks(ctx); err != nil {
		return nil, err
	}
	if err := l.lookForBothKtsnds(ctx); err != nil {
		return nil, err
	}
	if err := l.checkClocks(ctx); err != nil {
		return nil, err
	}
	l.describe(profile)
	return l, nil
}

// given ignores processors of other machines, unless a profile names them.
func given(wanted engine.Pinning) engine.Pinning {
	if wanted.Mode == engine.PinGiven {
		return wanted
	}
	return engine.Pinning{Mode: engine.PinNone, Sender: traffic.NotPinned, Listener: traffic.NotPinned}
}

// look examines the cluster, and changes nothing.
func (l *Target) look(ctx context.Context, paths map[string]bool) error {
	text, err := l.core.Get().AbsPath("/version").DoRaw(ctx)
	if err != nil {
		return l.explain("ask the cluster for its version", err)
	}
	var version version.Info
	if err := json.Unmarshal(text, &version); err != nil {
		return l.explain("ask the cluster for its version", err)
	}
	if err := l.checkRights(ctx, paths[results.PathTSN]); err != nil {
		return err
	}
	if l.on, err = l.chooseNodes(ctx); err != nil {
		return err
	}
	if paths[results.PathTSN] {
		if err := l.checkNetwork(ctx); err != nil {
			return err
		}
	}
	info := l.on.talkers.Status.NodeInfo
	l.host = results.Host{
		Date:     time.Now().UTC().Truncate(time.Second),
		Kernel:   info.KernelVersion + " " + info.Architecture,
		CPUModel: fmt.Sprintf("Kubernetes %s, %s (talkers) and %s (listeners)", version.GitVersion, l.on.talkers.Name, l.on.listeners.Name),
		Cores:    int(l.on.talkers.Status.Capacity.Cpu().Value()),
	}
	return l.lookFurther(ctx, paths[results.PathTSN])
}

// lookFurther finds optional parts.
func (l *Target) lookFurther(ctx context.Context, tsn bool) error {
	lacking, err := l.lacking(ctx, ofKubelet)
	if err != nil {
		return err
	}
	l.kubelets = len(lacking) == 0
	if !l.kubelets {
		l.miss("processor time and memory of nodes and pods", "the user may not "+lacking[0])
	}
	var ofChart *corev1.Pod
	if tsn {
		if ofChart, err = l.lookForChart(ctx); err != nil {
			return err
		}
	}
	if l.Image == "" {
		l.Image = defaultImage
		if ofChart != nil {
			l.Image = imageOf(ofChart)
		}
	}
	return nil
}

// lookForChart finds what path tsn needs before the pods: ktsnd, or the operator, which starts ktsnd for pods on a
// TSNNetwork. It returns the pod of either, nil if the user may not ask.
func (l *Target) lookForChart(ctx context.Context) (*corev1.Pod, error) {
	lacking, err := l.lacking(ctx, l.ofKtsnd()...)
	if err != nil {
		return nil, err
	}
	if l.asksKtsnd = len(lacking) == 0; !l.asksKtsnd {
		l.miss("what ktsnd counts as late", "the user may not "+strings.Join(lacking, ", "))
		return nil, nil
	}
	if !l.annotated {
		if l.ktsnd, err = l.findKtsnd(ctx, l.on.talkers.Name); err == nil && l.ktsnd == nil {
			err = l.noKtsnd()
		}
		return l.ktsnd, err
	}
	operator, err := l.findPod(ctx, "the operator", metav1.ListOptions{LabelSelector: operatorPods})
	if err == nil && operator == nil {
		err = fmt.Errorf("no operator is ready in namespace %s, so no pod can be on TSNNetwork %s; `kubectl get pods -n %s` shows why; "+
			"if the chart is in another namespace, give it with --network NAMESPACE/%s", l.networkNamespace(), l.networkName(),
			l.networkNamespace(), l.networkName())
	}
	return operator, err
}

func (l *Target) noKtsnd() error {
	return fmt.Errorf("no ktsnd is ready on node %s, so path tsn cannot be measured; `kubectl get pods -n %s` shows why, or leave the path out",
		l.on.talkers.Name, l.networkNamespace())
}

// awaitKtsnd finds ktsnd if it starts together with the pods.
func (l *Target) awaitKtsnd(ctx context.Context) error {
	if !l.asksKtsnd || !l.annotated {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, ktsndTimeout)
	defer cancel()
	for {
		var err error
		if l.ktsnd, err = l.findKtsnd(ctx, l.on.talkers.Name); err != nil || l.ktsnd != nil {
			return err
		}
		if err := retry.Pause(waiting, pollEvery); ctx.Err() != nil {
			return err
		} else if err != nil {
			return l.noKtsnd()
		}
	}
}

func (l *Target) miss(what, why string) {
	l.environment.NotMeasured = append(l.environment.NotMeasured, results.Gap{What: what, Why: why})
}

// describe describes the location of the measurement.
func (l *Target) describe(profile *engine.Profile) {
	e := &l.environment
	e.SenderCPU, e.ListenerCPU = l.pinning.Sender, l.pinning.Listener
	e.TalkerSpinNs, e.TalkerPriority = l.scheduling.spin.Nanoseconds(), l.scheduling.priority(spinning(profile.Paths))
	e.LeadNs = traffic.LeadOfPlain(profile).Nanoseconds()
	e.Programs = map[string]string{}
	for _, pod := range l.pods {
		e.Programs["image of tsnperf"] = imageID(pod, container)
	}
	if l.ktsnd != nil {
		e.Programs["image of ktsnd"] = imageID(l.ktsnd, ktsndContainer)
	}
	e.Clock = l.describeClocks()
	e.Warnings = []string{}
	if warning := l.clocks.last.warning(); warning != "" {
		e.Warnings = append(e.Warnings, warning)
	}
	l.miss("the wire, and when ktsnd released each message", "a bench in a cluster has pods only, which see neither; early is what "+
		"arrived before its time, the error of the clocks granted")
	if profile.Pinning.Mode == engine.PinAuto {
		l.miss("talkers and listeners on processors of their own", "the profile names none (`pinning`), and the kubelet's settings hold")
	}
}

func imageID(pod *corev1.Pod, container string) string {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == container {
			return status.ImageID[strings.LastIndex(status.ImageID, ":")+1:]
		}
	}
	return ""
}

// Host is the talkers' node.
func (l *Target) Host() (results.Host, error) { return l.host, nil }

// Prepare compares the nodes' clocks again if the last comparison is old. The cluster itself needs no preparation.
func (l *Target) Prepare(ctx context.Context, _ engine.Setting) error {
	if time.Since(l.clocks.at) < compareEvery {
		return nil
	}
	if err := l.measureClocks(ctx); err != nil {
		return err
	}
	if err := l.readBoth(ctx); err != nil {
		return err
	}
	l.environment.Clock = l.describeClocks()
	return nil
}

// describeClocks describes the comparison by messages, and the estimate of each clock.
func (l *Target) describeClocks() results.Clock {
	if l.oneClock {
		return l.clocks.last.describeOne(l.on)
	}
	clock := l.clocks.describe()
	clock.About += aboutEnds(l.ends, l.readings)
	return clock
}

// Environment is the cluster's.
func (l *Target) Environment() engine.Environment {
	environment := l.environment
	environment.Warnings, environment.NotMeasured = slices.Clone(environment.Warnings), slices.Clone(environment.NotMeasured)
	return environment
}

// Close removes everything.
func (l *Target) Close(ctx context.Context) error {
	return l.removeNamespace(context.WithoutCancel(ctx))
}
