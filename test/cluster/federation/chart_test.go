// SPDX-License-Identifier: Apache-2.0

package federation

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/cgroups"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/chart"
)

const chartRelease = "kubernetsn"

// charts installs the chart only once.
var charts struct {
	sync.Once
	complete bool
}

// needCharts makes sure that the project's chart, with the operator, is installed in all members.
func needCharts(t *testing.T) context.Context {
	t.Helper()
	ctx := needFederation(t)
	charts.Do(func() {
		for _, member := range members {
			member.installChart(ctx, t)
		}
		charts.complete = true
	})
	if !charts.complete {
		t.Fatal("the chart could not be installed, see above")
	}
	return ctx
}

// installChart installs this working copy's chart and the images of `make images`, in place of any release.
func (p *place) installChart(ctx context.Context, t *testing.T, values ...string) {
	t.Helper()
	images := folder(t, "out/images")
	archives, err := filepath.Glob(filepath.Join(images, "*.tar"))
	if err != nil || len(archives) == 0 {
		testlab.Missing(t, "there are no images in "+images+"; run `make images`")
	}
	for _, archive := range archives {
		if err := p.Load(ctx, archive, p.Nodes...); err != nil {
			t.Fatal(err)
		}
	}
	arguments := append([]string{
		"upgrade", "--install", chartRelease, folder(t, "charts/kubernetsn"), "--wait", "--timeout", "3m",
		"--values", filepath.Join(images, "values.yaml"),
		"--set", "image.pullPolicy=Never,operator.enabled=true",
		"--set", fmt.Sprintf("ktsnd.cgroupV1=%v", p.hasRealtime(t)),
	}, values...)
	if output, err := chart.Helm(ctx, testlab.Program(t, "helm"), p.Kubeconfig(), arguments...); err != nil {
		t.Fatalf("%s: %v: %s", p.Name, err, output)
	}
}

// hasRealtime reports whether threads of the cluster need a budget for real-time priority.
func (p *place) hasRealtime(t *testing.T) bool {
	t.Helper()
	if !cgroups.RealtimeDivided() {
		return false
	}
	budget, err := cgroups.Realtime(p.Cgroup())
	if err != nil {
		t.Fatal(err)
	}
	return budget > 0
}

// folder returns the path of a folder of the working copy.
func folder(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../..", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

const aNetwork = `
apiVersion: kubernetsn.io/v1alpha1
kind: TSNNetwork
metadata: {name: federation}
spec: {vni: 77, ipv4: {cidr: 10.77.0.0/16}}
`

func TestPodsAreOnClusterNetworks(t *testing.T) {
	ctx := needCharts(t)
	for _, member := range members {
		member.apply(ctx, t, aNetwork)
		t.Cleanup(func() {
			networks := member.dynamic.Resource(v1alpha1.GroupVersion.WithResource("tsnnetworks"))
			if err := networks.Delete(context.WithoutCancel(ctx), "federation", metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	namespace := newNamespace(ctx, t)
	annotated := strings.Replace(deployment(namespace, "timed", 1), "labels: {app: timed}}\n    spec",
		"labels: {app: timed}, annotations: {kubernetsn.io/network: federation}}\n    spec", 1)
	hub.apply(ctx, t, annotated+everywhere(namespace, "timed"))
	for _, member := range members {
		await(ctx, t, member.runs(namespace, "timed", 1))
		pod := member.pods(ctx, t, namespace, "timed")[0]
		attached := pod.Annotations["k8s.v1.cni.cncf.io/network-status"]
		if !strings.Contains(attached, `"10.77.`) {
			t.Errorf("%s: the pod is attached to %s, want an address of 10.77.0.0/16, too", member.as, attached)
		}
		t.Logf("%s: the pod has %s, and %s", member.as, pod.Status.PodIP, strings.Join(strings.Fields(attached), " "))
	}
}
