// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cgroups"
	helmchart "github.com/kubernetsn/kubernetsn/test/cluster/internal/chart"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
)

const (
	// chartSystem is the chart's namespace.
	chartSystem = "kubernetsn-system"
	release     = "kubernetsn"
	// chartNetwork is the network annotation of pods on the chart's network.
	chartNetwork = chartSystem + "/tsn@" + tsnInterface
	csiDriver    = "csi.kubernetsn.io"
)

// chart is installed when a test needs it, and removed when another needs the network without it.
var chart struct {
	installed, failed bool
	// nodesBefore and objectsBefore are the state before the installation, inventory everything that pods could leave.
	nodesBefore map[string]string
	before      map[string]bool
	inventory   map[string]map[string]bool
}

// needChart makes sure that the chart is installed, and no other ktsnd.
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
		noRelease(ctx, t)
		removeTSN(ctx, t)
		chart.nodesBefore, chart.before, chart.inventory = nodeFiles(ctx, t), objects(ctx, t), inventories(ctx, t)
		installChart(ctx, t)
		chart.installed, chart.failed = true, false
	}
	waitForChart(ctx, t)
	return ctx
}

// noRelease removes the traces of a killed test run: first pods in the tests' namespaces, which block the
// uninstallation.
func noRelease(ctx context.Context, t *testing.T) {
	t.Helper()
	namespaces, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, namespace := range namespaces.Items {
		if strings.HasPrefix(namespace.Name, "e2e-") {
			deleteNamespace(t, namespace.Name)
		}
	}
	if output, err := helm(ctx, t, "uninstall", release, "--ignore-not-found", "--wait", "--timeout", "5m"); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
}

// chartValues differ from the defaults as a test cluster requires.
var chartValues = []string{
	// The images by digest, from `make images`.
	"--values", "../../../out/images/values.yaml",
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

func installChart(ctx context.Context, t *testing.T) {
	t.Helper()
	arguments := append([]string{"install", release, chartFolder(t), "--wait", "--timeout", "2m"}, chartValues...)
	if output, err := helm(ctx, t, arguments...); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
}

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

// removeTSN removes what needTSN created, because a node can have only one ktsnd.
func removeTSN(ctx context.Context, t *testing.T) {
	t.Helper()
	err := client.CoreV1().Namespaces().Delete(ctx, system, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return
	}
	if err == nil {
		err = kube.Wait(ctx, func(ctx context.Context) error {
			_, err := client.CoreV1().Namespaces().Get(ctx, system, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("namespace %s is still there (%w)", system, err)
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range under.Nodes {
		if _, err := node.Output(ctx, under.Place(host.Name), nil, "rm", "-rf", "/run/ktsn", "/var/lib/cni/tsn-cni",
			"/var/lib/cni/networks/tsn", "/opt/cni/bin/tsn-cni", configs+"/tsn.conf"); err != nil {
			t.Fatal(err)
		}
	}
	tsnOnce, tsnReady = sync.Once{}, false
}

// removeChart removes the chart, for needTSN.
func removeChart(ctx context.Context, t *testing.T) {
	t.Helper()
	if !chart.installed {
		return
	}
	if output, err := helm(ctx, t, "uninstall", release, "--wait", "--timeout", "5m"); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	chart.installed = false
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
		if podReady(&pod) && pod.DeletionTimestamp == nil {
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
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, host := range under.Nodes {
		err := kube.Wait(ctx, func(ctx context.Context) error {
			_, err := chartPodsOn(ctx, host.Name)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// chartStatus returns the status of the chart's ktsnd on a node.
func chartStatus(ctx context.Context, t *testing.T, host string) ktsndStatus {
	t.Helper()
	var text string
	err := kube.Wait(ctx, func(ctx context.Context) error {
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
	if err != nil {
		t.Fatal(err)
	}
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

// addressOn returns a pod's address on the chart's network.
func addressOn(t *testing.T, pod *corev1.Pod) netip.Addr {
	t.Helper()
	all, err := networkStatuses(pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range all {
		if status.Interface == tsnInterface && len(status.IPs) > 0 {
			return status.IPs[0]
		}
	}
	t.Fatalf("%s has no address on %s", pod.Name, tsnInterface)
	return netip.Addr{}
}
