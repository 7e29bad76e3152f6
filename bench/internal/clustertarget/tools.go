// SPDX-License-Identifier: Apache-2.0

package clustertarget

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kubernetsn/kubernetsn/bench/internal/engine"
	"github.com/kubernetsn/kubernetsn/bench/internal/testbed"
	"github.com/kubernetsn/kubernetsn/bench/internal/traffic"
	"github.com/kubernetsn/kubernetsn/bench/results"
	"github.com/kubernetsn/kubernetsn/internal/shared/retry"
)

// Tools is a testbed.Testbed of pods with other programs: one on the first node, and any number on the second. Paths
// primary and tsn use the same pods, which have both networks; path host uses pods in the nodes' network. It is not
// safe for concurrent use.
type Tools struct {
	*Target
	paths map[string]bool
	// started are the pods by name.
	started map[string]*corev1.Pod
	// given are the addresses of the tsn network's Service.
	given []netip.Addr
}

const (
	// toolsImage is the name of the image, and of the container in each pod.
	toolsImage = "nettools"
	env        = "/usr/bin/env"
	// member is the label that a headless Service selects.
	member = "kubernetsn.io/bench-peers"
	// settleTimeout is how long DNS may take to return all pods of a Service.
	settleTimeout = time.Minute
	// grace is how long a stopped program may take to end.
	grace = 20 * time.Second
	// pingGroups lets everybody send echo requests in the pod's network namespace.
	pingGroups = "net.ipv4.ping_group_range"
	// namespaces of components of the default network, whose pods' usage is read as well.
	flannelNamespace, systemNamespace = "kube-flannel", "kube-system"
	// flannelBackend is Flannel's annotation of a node.
	flannelBackend = "flannel.alpha.coreos.com/backend-type"
)

// OpenTools creates namespace and Services; pods are created when they are needed.
func OpenTools(ctx context.Context, where Where, profile *engine.Profile, say func(string)) (_ *Tools, err error) {
	if err := checkNetworkName(where.Network); err != nil {
		return nil, err
	}
	c, err := connect(where)
	if err != nil {
		return nil, err
	}
	t := &Tools{Target: &Target{connection: c, pinning: engine.Pinning{Sender: traffic.NotPinned, Listener: traffic.NotPinned}}, paths: map[string]bool{},
		started: map[string]*corev1.Pod{}}
	for _, path := range profile.Paths {
		t.paths[path] = true
	}
	if err := t.checkToolsRights(ctx); err != nil {
		return nil, err
	}
	if err := t.look(ctx, t.paths); err != nil {
		return nil, err
	}
	if where.Image == "" {
		t.Image = strings.Replace(t.Image, "/tsnperf:", "/"+toolsImage+":", 1)
	}
	if backend := t.on.talkers.Annotations[flannelBackend]; backend != "" {
		t.host.CPUModel += ", primary network: Flannel with backend " + backend
	}
	t.namespaces = []string{flannelNamespace, systemNamespace}
	t.environment = engine.Environment{SenderCPU: traffic.NotPinned, ListenerCPU: traffic.NotPinned, Programs: map[string]string{"image": t.Image},
		Warnings: []string{}, NotMeasured: t.environment.NotMeasured}
	t.miss("what a program took of processors and memory, case by case", "kubelets look each ten seconds or so; over the whole bench it is below")
	if err := c.makeNamespace(ctx, t.paths[testbed.Host], say); err != nil {
		return nil, err
	}
	if err := t.makeServices(ctx); err != nil {
		return nil, errors.Join(err, c.removeNamespace(context.WithoutCancel(ctx)))
	}
	return t, nil
}

// checkToolsRights fails if the user may not create the objects by which peers are found; the other rights are those of
// every bench.
func (t *Tools) checkToolsRights(ctx context.Context) error {
	lacking, err := t.lacking(ctx, t.ofTools(t.paths[testbed.TSN])...)
	if err != nil || len(lacking) == 0 {
		return err
	}
	return t.refuse(lacking)
}

// serviceOf returns the headless Service whose name resolves to the pods of a path.
func serviceOf(path string) string { return "peers-" + path }

// makeServices creates a Service for each path. No selector knows the pods' addresses on the tsn network, so its
// endpoints are written.
func (t *Tools) makeServices(ctx context.Context) error {
	for path := range t.paths {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: serviceOf(path), Labels: map[string]string{managedBy: manager}},
			Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true,
				Ports: []corev1.ServicePort{{Name: "discovery", Port: 7400, Protocol: corev1.ProtocolUDP, TargetPort: intstr.FromInt32(7400)}}}}
		if path != testbed.TSN {
			service.Spec.Selector = map[string]string{member: path}
		}
		if err := t.core.Post().Namespace(t.Namespace).Resource("services").Body(service).Do(ctx).Error(); err != nil {
			return t.explain("make Service "+service.Name, err)
		}
	}
	return nil
}

// Prepare does nothing: a cluster needs no preparation.
func (t *Tools) Prepare(context.Context, engine.Setting) error { return nil }

// Perform is for cases of experiments only.
func (t *Tools) Perform(context.Context, engine.Run) (*engine.Outcome, error) {
	return nil, errors.New("there are no messages between these pods, only cases of experiments")
}

// family returns which pods a path uses: path host has its own.
func family(path string) string {
	if path == testbed.Host {
		return testbed.Host
	}
	return testbed.Primary
}

func nearName(path string) string { return "near-" + family(path) }
func farName(path string, number int) string {
	return "far-" + family(path) + "-" + strconv.Itoa(number+1)
}

// Ends creates the pods that do not exist yet.
func (t *Tools) Ends(ctx context.Context, path string, _, far int) (testbed.End, []testbed.End, error) {
	var missing []*corev1.Pod
	want := func(name string, node *corev1.Node) {
		if t.started[name] == nil {
			missing = append(missing, t.toolsPod(name, path, node))
		}
	}
	want(nearName(path), t.on.talkers)
	for number := range far {
		want(farName(path, number), t.on.listeners)
	}
	started, err := t.startPods(ctx, missing)
	if err != nil {
		return nil, nil, err
	}
	for name, pod := range started {
		t.started[name] = pod
	}
	near, err := t.end(nearName(path), path)
	if err != nil {
		return nil, nil, err
	}
	var all []testbed.End
	for number := range far {
		end, err := t.end(farName(path, number), path)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, end)
	}
	return near, all, nil
}

// toolsPod waits for programs to be started in it.
func (t *Tools) toolsPod(name, path string, node *corev1.Node) *corev1.Pod {
	pod := plainPod(name, node, t.Image)
	pod.Labels[member] = family(path)
	only := &pod.Spec.Containers[0]
	only.Name, only.Command = toolsImage, []string{"/usr/bin/sleep", "infinity"}
	if path == testbed.Host {
		pod.Spec.HostNetwork, pod.Spec.DNSPolicy = true, corev1.DNSClusterFirstWithHostNet
		// A node's own settings are not changed, so ping needs the right itself.
		pod.Spec.SecurityContext.RunAsNonRoot, pod.Spec.SecurityContext.RunAsUser = nil, pointer(int64(0))
		only.SecurityContext.Capabilities.Add = []corev1.Capability{"NET_RAW"}
		return pod
	}
	pod.Spec.SecurityContext.Sysctls = []corev1.Sysctl{{Name: pingGroups, Value: "0 2147483647"}}
	if t.paths[testbed.TSN] {
		if !t.annotated {
			withLibrary(pod)
		}
		t.onNetwork(pod)
	}
	return pod
}

func (t *Tools) end(name, path string) (*podEnd, error) {
	pod := t.started[name]
	address, err := addressOf(pod, path)
	if err != nil {
		return nil, err
	}
	return &podEnd{tools: t, pod: pod, path: path, address: address}, nil
}

// Find makes the near end ask the cluster's DNS for its peers, by the name of a headless Service, until all are
// returned.
func (t *Tools) Find(ctx context.Context, path string, near testbed.End, far []testbed.End) ([]netip.Addr, error) {
	from := near.(*podEnd)
	wanted := []netip.Addr{near.Address()}
	for _, end := range far {
		if !slices.Contains(wanted, end.Address()) {
			wanted = append(wanted, end.Address())
		}
	}
	if path == testbed.TSN {
		if err := t.giveEndpoints(ctx, wanted); err != nil {
			return nil, err
		}
	}
	name := serviceOf(path) + "." + t.Namespace + ".svc"
	for begin := time.Now(); ; {
		output, err := t.run(ctx, "getent", from.pod, toolsImage, env, "-u", "LD_PRELOAD", "/usr/bin/getent", "ahostsv4", name)
		known := addresses(output)
		if !slices.ContainsFunc(wanted, func(address netip.Addr) bool { return !slices.Contains(known, address) }) {
			return known, nil
		}
		if time.Since(begin) > settleTimeout {
			return nil, fmt.Errorf("the cluster's DNS says of %s %v after %v, and %v should be among them (%w)", name, known, settleTimeout, wanted,
				errors.Join(err, errNotAll))
		}
		if err := retry.Pause(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

var errNotAll = errors.New("not all of its pods")

// addresses reads getent's output, each address once.
func addresses(output string) []netip.Addr {
	var all []netip.Addr
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if address, err := netip.ParseAddr(fields[0]); err == nil && !slices.Contains(all, address) {
			all = append(all, address)
		}
	}
	return all
}

// giveEndpoints writes the pods' addresses on the tsn network into its Service.
func (t *Tools) giveEndpoints(ctx context.Context, addresses []netip.Addr) error {
	name := serviceOf(testbed.TSN)
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{managedBy: manager,
		discoveryv1.LabelServiceName: name, discoveryv1.LabelManagedBy: manager}}, AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: pointer("discovery"), Port: pointer(int32(7400)), Protocol: pointer(corev1.ProtocolUDP)}}}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address.String()},
			Conditions: discoveryv1.EndpointConditions{Ready: pointer(true)}})
	}
	if slices.Equal(t.given, addresses) {
		return nil
	}
	var err error
	if t.given == nil {
		err = t.discovery.Post().Namespace(t.Namespace).Resource("endpointslices").Body(slice).Do(ctx).Error()
	} else {
		err = t.discovery.Put().Namespace(t.Namespace).Resource("endpointslices").Name(name).Body(slice).Do(ctx).Error()
	}
	if err != nil {
		return t.explain("give the Service of the tsn network its endpoints", err)
	}
	t.given = addresses
	return nil
}

// Watch observes nothing case by case.
func (t *Tools) Watch(context.Context) (func() (map[string]float64, error), error) {
	return func() (map[string]float64, error) { return nil, nil }, nil
}

// Usage reads the usage of nodes and pods, if it is time to.
func (t *Tools) Usage(ctx context.Context) ([]results.UsageSample, error) { return t.usage(ctx) }

// podEnd is an end of a path.
type podEnd struct {
	tools   *Tools
	pod     *corev1.Pod
	path    string
	address netip.Addr
}

func (e *podEnd) Address() netip.Addr { return e.address }

// MTU is unknown from outside.
func (e *podEnd) MTU() int { return 0 }

// Start starts a program in the pod.
func (e *podEnd) Start(ctx context.Context, command *testbed.Command) (testbed.Program, error) {
	line := []string{env}
	if e.path != testbed.TSN {
		line = append(line, "-u", "LD_PRELOAD")
	}
	line = slices.Concat(line, command.Environment, []string{command.Program}, command.Arguments)
	program, err := e.tools.start(ctx, command.Name, e.pod, toolsImage, line...)
	if err != nil {
		return nil, err
	}
	return &podProgram{end: e, command: *command, started: program}, nil
}

// podProgram is a program in a pod.
type podProgram struct {
	end     *podEnd
	command testbed.Command
	started *started
}

func (p *podProgram) Wait(ctx context.Context) (string, error) {
	err := p.started.wait(ctx)
	select {
	case <-p.started.done:
	default:
		_, errStop := p.Stop()
		return "", errors.Join(err, errStop)
	}
	output := p.started.stdout.String() + p.started.stderr.String()
	if err != nil && strings.Contains(output, "env:") && strings.Contains(output, "No such file or directory") {
		err = fmt.Errorf("image %s has no %s; name one that has it with --image", p.end.tools.Image, p.command.Program)
	}
	return output, err
}

// Stop ends all programs of that name in the pod: there are no others.
func (p *podProgram) Stop() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	select {
	case <-p.started.done:
	default:
		// The program may have just ended; otherwise the next wait fails.
		_, _ = p.end.tools.run(ctx, "pkill", p.end.pod, toolsImage, env, "-u", "LD_PRELOAD", "/usr/bin/pkill", "-x", p.command.Program)
		select {
		case <-p.started.done:
		case <-ctx.Done():
			return "", fmt.Errorf("%s in pod %s did not end within %v", p.command.Name, p.end.pod.Name, grace)
		}
	}
	return p.started.stdout.String() + p.started.stderr.String(), nil
}
