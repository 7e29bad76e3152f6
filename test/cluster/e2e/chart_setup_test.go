// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cgroups"
	helmchart "github.com/kubernetsn/kubernetsn/test/cluster/internal/chart"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
)

const (
	// chartSystem is the chart's namespace.
	chartSystem = "kubernetsn-system"
	release     = "kubernetsn"
	// tsnInterface is a pod's interface on the chart's network.
	tsnInterface = "tsn0"
	// chartNetwork is the network annotation of pods on the chart's network.
	chartNetwork = chartSystem + "/tsn@" + tsnInterface
	csiDriver    = "csi.kubernetsn.io"
)

// chart is installed when a test needs it, and removed when another installs it in its own way.
var chart struct {
	installed, failed bool
	before            clusterState
}

// needChart makes sure that the chart is installed.
func needChart(t *testing.T) context.Context {
	t.Helper()
	return withChart(needTwoNodes(t), t)
}

// withChart is needChart for clusters that may have a single node.
func withChart(ctx context.Context, t *testing.T) context.Context {
	t.Helper()
	testlab.Program(t, "helm")
	if chart.failed {
		t.Fatal("the chart could not be installed, see above")
	}
	if !chart.installed {
		chart.failed = true
		removeChart(ctx, t)
		chart.before = currentState(ctx, t)
		installChart(ctx, t)
		chart.installed, chart.failed = true, false
	}
	waitForChart(ctx, t)
	return ctx
}

// removeChart removes the chart, also that of a killed test run: first pods in the tests' namespaces, which block the
// uninstallation.
func removeChart(ctx context.Context, t *testing.T) {
	t.Helper()
	namespaces, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, namespace := range namespaces.Items {
		if strings.HasPrefix(namespace.Name, "e2e-") || namespace.Name == examplesNamespace {
			deleteNamespace(t, namespace.Name)
		}
	}
	mustHelm(ctx, t, "uninstall", release, "--ignore-not-found", "--wait", "--timeout", "5m")
	chart.installed = false
}

// withRelease installs the chart with other values until the test ends. The test can call uninstall, which fails unless
// everything is then as before.
func withRelease(ctx context.Context, t *testing.T, values ...string) (before clusterState, uninstall func(*testing.T)) {
	t.Helper()
	testlab.Program(t, "helm")
	removeChart(ctx, t)
	before = currentState(ctx, t)
	uninstalled := false
	installChart(ctx, t, values...)
	t.Cleanup(func() {
		if !uninstalled {
			output, err := helm(context.WithoutCancel(ctx), t, "uninstall", release, "--wait", "--timeout", "3m")
			t.Logf("removed after a failure: %v %s", err, output)
		}
	})
	return before, func(t *testing.T) {
		t.Helper()
		mustHelm(ctx, t, "uninstall", release, "--wait", "--timeout", "5m")
		uninstalled = true
		before.isRestored(ctx, t)
	}
}

// withOperator is withRelease with the operator.
func withOperator(ctx context.Context, t *testing.T, more ...string) (uninstall func(*testing.T)) {
	t.Helper()
	_, uninstall = withRelease(ctx, t, slices.Concat(operatorValues, more)...)
	return uninstall
}

// chartValues differ from the defaults as a test cluster requires. They name the images by digest, from `make images`.
var chartValues = slices.Concat([]string{"--values", "../../../out/images/values.yaml"}, clusterValues)

// clusterValues are chartValues without the images.
var clusterValues = []string{
	// Networks are configured by values, unless a test uses the operator.
	"--set", "operator.enabled=false",
	"--set", "image.pullPolicy=Never",
	"--set", "agent.sweepEvery=3s",
	// The nodes share the machine's cgroups, and its real-time budget if the kernel divides it: during an upgrade two
	// ktsnd on a node need it.
	"--set", fmt.Sprintf("ktsnd.cgroupV1=%v,ktsnd.realtimeShare=18", cgroups.RealtimeDivided()),
	// Measured talkers run there, too, and listeners on the other processor. The limit is low enough for a test to
	// reach.
	"--set-json", fmt.Sprintf(`ktsnd.extraArgs=["--cpu","0","--pod-processes","%d"]`, podProcesses),
}

// podProcesses is how many programs of a pod ktsnd serves at once.
const podProcesses = 4

func installChart(ctx context.Context, t *testing.T, values ...string) {
	t.Helper()
	mustHelm(ctx, t, slices.Concat([]string{"install", release, chartFolder(t), "--wait", "--timeout", "2m"}, chartValues, values)...)
}

// upgradeChart upgrades the chart to its values and more, and waits until its pods are ready.
func upgradeChart(ctx context.Context, t *testing.T, more ...string) {
	t.Helper()
	mustHelm(ctx, t, slices.Concat([]string{"upgrade", release, chartFolder(t), "--wait", "--timeout", "3m"}, chartValues, more)...)
	waitForChart(ctx, t)
}

// operatorValues add the operator to chartValues.
var operatorValues = []string{"--set", "operator.enabled=true", "--set", "operator.linger=2s"}

func chartFolder(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../../charts/kubernetsn")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// helm runs helm with the rights of the cluster's administrator.
func helm(ctx context.Context, t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	return helmchart.Helm(ctx, testlab.Program(t, "helm"), under.Kubeconfig(), arguments...)
}

func mustHelm(ctx context.Context, t *testing.T, arguments ...string) {
	t.Helper()
	if output, err := helm(ctx, t, arguments...); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
}

// These components of the chart run on each node; the values are those of their labels.
const (
	ktsndPods = "ktsnd"
	agentPods = "agent"
)

// chartPodOn returns the ready pod of a component on a node. If there are two ktsnd, it returns the one that serves.
func chartPodOn(ctx context.Context, component, host string) (*corev1.Pod, error) {
	pods, err := client.CoreV1().Pods(chartSystem).List(ctx, metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/component=" + component, FieldSelector: "spec.nodeName=" + host,
	})
	if err != nil {
		return nil, err
	}
	for _, pod := range pods.Items {
		if kube.Ready(&pod) && pod.DeletionTimestamp == nil {
			return &pod, nil
		}
	}
	return nil, fmt.Errorf("%s is not ready on %s: %s", component, host, whyNotReady(pods.Items))
}

// chartPodsOn returns the pods of both components on a node.
func chartPodsOn(ctx context.Context, host string) ([]*corev1.Pod, error) {
	var all []*corev1.Pod
	for _, component := range []string{ktsndPods, agentPods} {
		pod, err := chartPodOn(ctx, component, host)
		if err != nil {
			return nil, err
		}
		all = append(all, pod)
	}
	return all, nil
}

func whyNotReady(pods []corev1.Pod) string {
	var all []string
	for _, pod := range pods {
		for _, container := range pod.Status.ContainerStatuses {
			all = append(all, fmt.Sprintf("%s/%s ready %v, started %d times again", pod.Name, container.Name, container.Ready, container.RestartCount))
		}
	}
	return strings.Join(all, "; ")
}

func waitForChart(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, host := range under.Nodes {
		await(ctx, t, func(ctx context.Context) error {
			_, err := chartPodsOn(ctx, host.Name)
			return err
		})
	}
}

// chartStatus returns the status of the chart's ktsnd on a node.
func chartStatus(ctx context.Context, t *testing.T, host string) ktsndStatus {
	t.Helper()
	var text string
	await(ctx, t, func(ctx context.Context) error {
		pod, err := chartPodOn(ctx, ktsndPods, host)
		if err != nil {
			return err
		}
		var stderr string
		text, stderr, err = run(ctx, pod, "ktsnd", "/usr/bin/ktsn", "status", "-o", "json")
		if err != nil {
			return fmt.Errorf("%w: %s", err, stderr)
		}
		return nil
	})
	return parseStatus(t, text)
}

// timed adds everything that a user would write by hand to a pod: the network, and for each container the library and
// the socket.
func timed(pod *corev1.Pod) *corev1.Pod {
	pod = withVolume(pod)
	pod.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": chartNetwork}
	return pod
}

func withVolume(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "ktsn", VolumeSource: corev1.VolumeSource{
		CSI: &corev1.CSIVolumeSource{Driver: csiDriver},
	}})
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		container.Env = append(container.Env, corev1.EnvVar{Name: "LD_PRELOAD", Value: "/run/ktsn/libktsn.so"})
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "ktsn", MountPath: "/run/ktsn"})
	}
	return pod
}

// waiting returns a pod with tsnperf that idles until a test runs commands in it.
func waiting(name, host string) *corev1.Pod {
	pod := agnhost(name, host)
	container := &pod.Spec.Containers[0]
	container.Name, container.Image, container.ReadinessProbe = "tsnperf", "localhost/kubernetsn/tsnperf:dev", nil
	container.Args = []string{"listener", "--bind", "127.0.0.1:9999", "--block", "--first-timeout", "0", "--quiet"}
	return pod
}

// attachmentOf returns a pod's interface, as Multus reports it.
func attachmentOf(t *testing.T, pod *corev1.Pod, name string) kube.Attachment {
	t.Helper()
	all, err := kube.Attachments(pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, attachment := range all {
		if attachment.Interface == name && len(attachment.IPs) > 0 {
			return attachment
		}
	}
	t.Fatalf("%s has no interface %s with an address: %+v", pod.Name, name, all)
	return kube.Attachment{}
}

// addressOn returns a pod's address on the chart's network.
func addressOn(t *testing.T, pod *corev1.Pod) netip.Addr {
	t.Helper()
	return attachmentOf(t, pod, tsnInterface).IPs[0]
}

// inKtsnd runs ktsn in a pod of ktsnd.
func inKtsnd(ctx context.Context, t *testing.T, pod *corev1.Pod, arguments ...string) string {
	t.Helper()
	stdout, stderr, err := run(ctx, pod, "ktsnd", append([]string{"/usr/bin/ktsn"}, arguments...)...)
	if err != nil {
		t.Fatalf("ktsn %q on %s: %v: %s", arguments, pod.Spec.NodeName, err, stderr)
	}
	return stdout
}

// ktsndStatus is the part of ktsnd's status that the tests use.
type ktsndStatus struct {
	Uplink            string            `json:"uplink"`
	Interface         string            `json:"interface"`
	LocalAddress      string            `json:"local-address"`
	Scheduler         string            `json:"scheduler"`
	SchedulerPriority int               `json:"scheduler-priority"`
	CPU               int               `json:"cpu"`
	SpinNs            int64             `json:"spin-ns"`
	ProcessorTimeNs   int64             `json:"processor-time-ns"`
	Endpoints         int               `json:"endpoints"`
	Sockets           int               `json:"sockets"`
	Peers             int               `json:"peers"`
	Flows             int               `json:"flows"`
	Counters          map[string]uint64 `json:"counters"`
}

func parseStatus(t *testing.T, text string) ktsndStatus {
	t.Helper()
	var state struct {
		Status ktsndStatus `json:"status"`
	}
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		t.Fatal(err)
	}
	return state.Status
}
