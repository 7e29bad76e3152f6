// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// rolled returns how many pods a DaemonSet may have too many and too few during an upgrade.
func rolled(daemons *appsv1.DaemonSet) string {
	either := func(intOrString *intstr.IntOrString) string {
		if intOrString == nil {
			return "0"
		}
		return intOrString.String()
	}
	rolling := daemons.Spec.UpdateStrategy.RollingUpdate
	return fmt.Sprintf("%s more, %s less", either(rolling.MaxSurge), either(rolling.MaxUnavailable))
}

// A node without a spare processor or card cannot run two ktsnd; no node runs two agents.
func TestChartUpdateStrategy(t *testing.T) {
	const single = "0 more, 1 less"
	for name, test := range map[string]struct {
		values        string
		ktsnd, agents string
	}{
		"by default":             {"agent.metricsPort=0", "1 more, 0 less", single},
		"many nodes at once":     {"maxSurge=10%,maxUnavailable=5", "10% more, 0 less", "0 more, 5 less"},
		"with a core of ktsnd's": {"ktsnd.exclusiveCore=true", single, single},
		"with a card for one":    {"ktsnd.surge=false", single, single},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := render(t, "--set", "uplink.ovs.nodeSelector.switch=ovs,uplink.ovs.device=card", "--set", test.values)
			testlab.Must(t, err)
			for daemons, want := range map[string]string{"ktsnd": test.ktsnd, "ktsnd-ovs": test.ktsnd, "ktsn-agent": test.agents, "ktsn-agent-ovs": test.agents} {
				if strategy := rolled(daemonSet(t, objects, daemons)); strategy != want {
					t.Errorf("%s may have %s, want %s", daemons, strategy, want)
				}
			}
		})
	}
}

// Two ktsnd are on a node during an upgrade: each probe must check its own pod, even after a restart of the container.
func TestChartProbes(t *testing.T) {
	objects, err := render(t, "--set", "uplink.ovs.nodeSelector.switch=ovs,uplink.ovs.device=card")
	testlab.Must(t, err)
	for _, name := range []string{"ktsnd", "ktsnd-ovs"} {
		spec := &daemonSet(t, objects, name).Spec.Template.Spec
		ktsnd := containerOf(t, spec, "ktsnd")
		dir := mountedAt(t, spec, ktsnd, "instance")
		for _, want := range []string{"--take-over", "--instance-dir=" + dir, "--instance-name=$(POD_NAME)"} {
			if !slices.Contains(ktsnd.Args, want) {
				t.Errorf("%s is called with %q, without %s", name, ktsnd.Args, want)
			}
		}
		for probe, asks := range map[*corev1.Probe]string{ktsnd.ReadinessProbe: "serving", ktsnd.LivenessProbe: "alive", ktsnd.StartupProbe: "alive"} {
			if text := strings.Join(probe.Exec.Command, " "); text != "/usr/bin/ktsn probe --instance-dir "+dir+" "+asks {
				t.Errorf("%s is asked by %q, want %s", name, text, asks)
			}
		}
	}
}

// mountedAt returns where a container mounts an emptyDir.
func mountedAt(t *testing.T, spec *corev1.PodSpec, container *corev1.Container, name string) string {
	t.Helper()
	volume := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	mount := slices.IndexFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == name })
	if volume < 0 || mount < 0 || spec.Volumes[volume].EmptyDir == nil {
		t.Fatalf("%s has no folder %s that lives as long as the pod", container.Name, name)
	}
	return container.VolumeMounts[mount].MountPath
}

// The removal may delete the chart's DaemonSets, and knows the labels of their pods.
func TestChartRemovalKnowsDaemonSets(t *testing.T) {
	objects, err := render(t, "--set", "clock.mode=ptp,uplink.ovs.nodeSelector.switch=ovs,uplink.ovs.device=card")
	testlab.Must(t, err)
	may := strings.Join(removableDaemonSets(t, objects), ",")
	if may != defaultDaemonSets {
		t.Errorf("it removes %s, and may remove %s", defaultDaemonSets, may)
	}
	for _, name := range strings.Split(may, ",") {
		if !selects(t, defaultSelector, daemonSet(t, objects, name).Spec.Template.Labels) {
			t.Errorf("%s does not select the pods of %s", defaultSelector, name)
		}
	}
	var operator appsv1.Deployment
	object(t, objects, "Deployment", "ktsn-operator", &operator)
	if selects(t, defaultSelector, operator.Spec.Template.Labels) {
		t.Errorf("%s selects operators", defaultSelector)
	}
}

// removableDaemonSets returns the DaemonSets that the account of the removal may delete.
func removableDaemonSets(t *testing.T, objects [][]byte) []string {
	t.Helper()
	var role rbacv1.Role
	object(t, objects, "Role", "ktsn-removal", &role)
	at := slices.IndexFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, "daemonsets") })
	if at < 0 {
		t.Fatalf("it may %v", role.Rules)
	}
	return role.Rules[at].ResourceNames
}

func selects(t *testing.T, selector string, set map[string]string) bool {
	t.Helper()
	parsed, err := labels.Parse(selector)
	testlab.Must(t, err)
	return parsed.Matches(labels.Set(set))
}
