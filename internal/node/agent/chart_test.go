// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/metrics"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/network"
	"github.com/kubernetsn/kubernetsn/internal/node/agent/privilege"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// render renders the chart with helm, one document per object.
func render(t *testing.T, arguments ...string) ([][]byte, error) {
	t.Helper()
	helm, err := filepath.Abs("../../../bin/helm")
	testlab.Must(t, err)
	if _, err := os.Stat(helm); err != nil {
		testlab.Missing(t, "bin/helm is missing; `make helm` builds it")
	}
	all := append([]string{"template", "x", "../../../charts/kubernetsn", "--kube-version", "1.34.0", "--set",
		"image.prefix=registry.example.org/kubernetsn,image.tag=dev"}, arguments...)
	command := exec.CommandContext(t.Context(), helm, all...)
	var buffer bytes.Buffer
	command.Stderr = &buffer
	text, err := command.Output()
	if err != nil {
		return nil, errors.New(buffer.String())
	}
	return bytes.Split(text, []byte("\n---\n")), nil
}

// object decodes the object of a kind and name into target.
func object(t *testing.T, objects [][]byte, kind, name string, target any) {
	t.Helper()
	for _, text := range objects {
		var about corev1.ObjectReference
		var named struct{ Metadata struct{ Name string } }
		if yaml.Unmarshal(text, &about) != nil || yaml.Unmarshal(text, &named) != nil || about.Kind != kind || named.Metadata.Name != name {
			continue
		}
		if err := yaml.UnmarshalStrict(text, target); err != nil {
			t.Fatalf("%s %s: %v", kind, name, err)
		}
		return
	}
	t.Fatalf("the chart has no %s %s", kind, name)
}

// TestChartInlineVolume: OpenShift admits inline volumes in restricted namespaces by this label only.
func TestChartInlineVolume(t *testing.T) {
	objects, err := render(t)
	testlab.Must(t, err)
	var driver storagev1.CSIDriver
	object(t, objects, "CSIDriver", v1alpha1.CSIDriver, &driver)
	if got := driver.Labels["security.openshift.io/csi-ephemeral-volume-profile"]; got != "restricted" {
		t.Errorf("the profile of its volumes is %q", got)
	}
}

// TestChartOpenShift checks that the accounts of all pods with rights on a node are bound to the constraints that admit them.
func TestChartOpenShift(t *testing.T) {
	settings := []string{"--set", "clock.mode=ptp,uplink.ovs.nodeSelector.switch=ovs,uplink.ovs.device=0000:01:00.0"}
	without, err := render(t, settings...)
	testlab.Must(t, err)
	if bytes.Contains(bytes.Join(without, nil), []byte("system:openshift")) {
		t.Error("by default, the chart has objects for OpenShift")
	}
	objects, err := render(t, append(settings, "--set", "openshift.securityContextConstraints=true")...)
	testlab.Must(t, err)
	var privileged, nonroot rbacv1.RoleBinding
	object(t, objects, "RoleBinding", "kubernetsn-scc-privileged", &privileged)
	object(t, objects, "RoleBinding", "ktsn-removal-scc-nonroot", &nonroot)
	if privileged.RoleRef.Name != "system:openshift:scc:privileged" || nonroot.RoleRef.Name != "system:openshift:scc:nonroot-v2" {
		t.Errorf("the roles are %+v and %+v", privileged.RoleRef, nonroot.RoleRef)
	}
	admitted := func(binding *rbacv1.RoleBinding, about string, spec *corev1.PodSpec) {
		account := rbacv1.Subject{Kind: "ServiceAccount", Name: cmp.Or(spec.ServiceAccountName, "default"), Namespace: binding.Namespace}
		if !slices.Contains(binding.Subjects, account) {
			t.Errorf("%s: %s has no account of %+v", about, account.Name, binding.Subjects)
		}
	}
	for _, name := range []string{"ktsnd", "ktsn-agent", "ktsnd-ovs", "ktsn-agent-ovs", "ktsn-clock"} {
		admitted(&privileged, name, &daemonSet(t, objects, name).Spec.Template.Spec)
	}
	admitted(&privileged, "the pod that cleans a node", &cleaningPod(t, objects).Spec)
	var job batchv1.Job
	object(t, objects, "Job", "ktsn-removal", &job)
	admitted(&nonroot, job.Name, &job.Spec.Template.Spec)
}

func TestChartAgentOptions(t *testing.T) {
	for name, arguments := range map[string][]string{
		"by default":               nil,
		"with everything changed":  {"--set", "agent.metricsPort=0,agent.inspectPrograms=false,kubeletDir=/k,pluginDir=/p,multus.confDir=/c,agent.sweepEvery=5m,tunnelChecksumOffload=Disable,agent.unmanagedDevices=Install"},
		"with a core of ktsnd's":   {"--set", "ktsnd.exclusiveCore=true"},
		"with cgroups of before":   {"--set", "ktsnd.cgroupV1=true"},
		"with two networks and v6": {"--set-json", `networks=[{"name":"a","vni":1,"ranges":[{"cidr":"10.0.0.0/16"},{"cidr":"fd00::/48"}]},{"name":"b","vni":2,"mtu":1400,"capture":"All","ranges":[{"cidr":"10.1.0.0/16","nodePrefixLength":26}]}]`},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := render(t, append(arguments, "--set", "operator.enabled=false")...)
			testlab.Must(t, err)
			spec := &daemonSet(t, objects, "ktsn-agent").Spec.Template.Spec
			options, err := Parse(containerOf(t, spec, "agent").Args, io.Discard)
			changed := name == "with everything changed"
			if err != nil || options.NoChecksumOffload != changed || (options.Etc == "/host/etc") != changed || mounts(spec, "/etc", options.Etc) != changed {
				t.Errorf("the agent reads %+v, %v", options, err)
			}
			checkMounts(t, spec)
			spec = &daemonSet(t, objects, "ktsnd").Spec.Template.Spec
			checkMounts(t, spec)
			if privileged := containerOf(t, spec, "ktsnd").SecurityContext.Privileged; privileged != nil && *privileged {
				t.Error("ktsnd is privileged")
			}
			var config corev1.ConfigMap
			object(t, objects, "ConfigMap", "networks", &config)
			path := filepath.Join(t.TempDir(), "networks.yaml")
			testlab.Must(t, os.WriteFile(path, []byte(config.Data["networks.yaml"]), 0o600))
			if networks, err := (network.File{Path: path}).Networks(t.Context()); err != nil || len(networks) == 0 {
				t.Errorf("the agent reads %v, %v", networks, err)
			}
			cleaner := &cleaningPod(t, objects).Spec
			checkMounts(t, cleaner)
			if !slices.Contains(cleaner.Containers[0].Args, "--etc=/host/etc") || !mounts(cleaner, "/etc", "/host/etc") {
				t.Error("the pod that cleans a node does not see its /etc")
			}
		})
	}
}

// mounts reports whether the first container has a folder of the node at a path, writable.
func mounts(spec *corev1.PodSpec, folder, path string) bool {
	return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool {
		return v.HostPath != nil && v.HostPath.Path == folder && slices.ContainsFunc(spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == v.Name && m.MountPath == path && !m.ReadOnly
		})
	})
}

// checkMounts fails the test unless each mount has its volume.
func checkMounts(t *testing.T, spec *corev1.PodSpec) {
	t.Helper()
	for _, container := range spec.Containers {
		for _, mount := range container.VolumeMounts {
			if !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name }) {
				t.Errorf("container %s mounts %s, which is no volume", container.Name, mount.Name)
			}
		}
	}
}

// daemonSet returns a DaemonSet of the chart.
func daemonSet(t *testing.T, objects [][]byte, name string) *appsv1.DaemonSet {
	t.Helper()
	read := &appsv1.DaemonSet{}
	object(t, objects, "DaemonSet", name, read)
	return read
}

// Nodes with Open vSwitch have separate DaemonSets; no node runs both.
func TestChartOpenVSwitchNodes(t *testing.T) {
	objects, err := render(t, "--set", `uplink.ovs.nodeSelector.switch=ovs,uplink.ovs.device=0000:01:00.0,uplink.ovs.pmdCPUs=2\,3,uplink.ovs.pmdMaxSleep=50us,`+
		"uplink.ovs.prefixLength=20,uplink.ovs.runDir=/run/o,uplink.ovs.dpdkExtra=--no-pci")
	testlab.Must(t, err)
	for _, name := range []string{"ktsnd", "ktsn-agent"} {
		checkApart(t, daemonSet(t, objects, name), daemonSet(t, objects, name+"-ovs"))
	}
	agent := containerOf(t, &daemonSet(t, objects, "ktsn-agent-ovs").Spec.Template.Spec, "agent")
	ktsnd := containerOf(t, &daemonSet(t, objects, "ktsnd-ovs").Spec.Template.Spec, "ktsnd")
	if text := strings.Join(ktsnd.Args, " "); !strings.HasSuffix(text, " --interface br-phy --uplink ovs --ring-memory 512") || !strings.HasPrefix(agent.Image, "registry.example.org/kubernetsn/ktsn-agent-ovs:") {
		t.Errorf("ktsnd is called with %q, and the agent's image is %s", ktsnd.Args, agent.Image)
	}
	if text := strings.Join(ktsnd.Command, " "); !strings.HasSuffix(text, " --await br-phy -- /usr/bin/ktsnd") || ktsnd.StartupProbe.FailureThreshold < 10000 {
		t.Errorf("ktsnd is started by %q, and kubelet does not wait for it: %v", text, ktsnd.StartupProbe)
	}
	if direct := containerOf(t, &daemonSet(t, objects, "ktsnd").Spec.Template.Spec, "ktsnd"); slices.Contains(direct.Command, "--await") ||
		direct.StartupProbe.FailureThreshold > 100 {
		t.Errorf("the other ktsnd is started by %q, and kubelet waits for it: %v", direct.Command, direct.StartupProbe)
	}
	options, err := Parse(agent.Args, io.Discard)
	testlab.Must(t, err)
	if o := options.OVS; o == nil || o.plan.Device != "0000:01:00.0" || !slices.Equal(o.plan.PMDCPUs, []int{2, 3}) || o.plan.PMDMaxSleep != 50*time.Microsecond ||
		o.prefixBits != 20 || o.runDir != "/run/o" || o.plan.DPDKExtra != "--no-pci" {
		t.Errorf("it reads %+v", o)
	}
	if !slices.Contains(options.privileges(), privilege.NetRaw) {
		t.Error("it cannot say where the tunnel's address is")
	}
	plain, err := Parse(containerOf(t, &daemonSet(t, objects, "ktsn-agent").Spec.Template.Spec, "agent").Args, io.Discard)
	if err != nil || plain.OVS != nil {
		t.Errorf("the other one reads %+v, %v", plain, err)
	}
	cleaner := corev1.ConfigMap{}
	object(t, objects, "ConfigMap", "removal", &cleaner)
	if pod := cleaner.Data["pod.yaml"]; !strings.Contains(pod, "ktsn-agent-ovs:") || !strings.Contains(pod, "--ovs-run-dir=/run/o") || !strings.Contains(pod, "NET_RAW") {
		t.Errorf("what cleans a node is\n%s", pod)
	}
	if _, err := render(t, "--set", "uplink.ovs.nodeSelector.switch=ovs"); err == nil || !strings.Contains(err.Error(), "uplink.ovs: give device or interface") {
		t.Errorf("without a network card: %v", err)
	}
	if _, err := render(t, "--set", "uplink.ovs.device=card"); err == nil || !strings.Contains(err.Error(), "uplink.ovs: give nodeSelector") {
		t.Errorf("a card without nodes: %v", err)
	}
}

// checkApart fails the test unless one DaemonSet is for nodes with Open vSwitch and the other for all others.
func checkApart(t *testing.T, others, switched *appsv1.DaemonSet) {
	t.Helper()
	spec := &switched.Spec.Template.Spec
	if spec.NodeSelector["switch"] != "ovs" || spec.NodeSelector["kubernetsn.io/active"] != "true" || spec.Affinity != nil {
		t.Errorf("%s is for %v, %v", switched.Name, spec.NodeSelector, spec.Affinity)
	}
	checkMounts(t, spec)
	plain := &others.Spec.Template.Spec
	term := plain.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(term) != 1 || fmt.Sprint(term[0].MatchExpressions) != "[{switch NotIn [ovs]}]" || plain.NodeSelector["switch"] != "" {
		t.Errorf("%s is for %v", others.Name, term)
	}
	selector, err := metav1.LabelSelectorAsSelector(switched.Spec.Selector)
	testlab.Must(t, err)
	if selector.Matches(labels.Set(others.Spec.Template.Labels)) || !selector.Matches(labels.Set(switched.Spec.Template.Labels)) {
		t.Errorf("%s selects %v", switched.Name, selector)
	}
}

// The cleaning pod gets Open vSwitch's sockets in any folder, and neither sockets nor rights on nodes without Open vSwitch.
func TestChartCleaningPodOpenVSwitch(t *testing.T) {
	const node = "uplink.ovs.nodeSelector.switch=ovs,uplink.ovs.device=card"
	for name, test := range map[string]struct {
		values  string
		mounted []string
		rights  int
	}{
		"below /run":     {node, []string{"/run"}, 3},
		"elsewhere":      {node + ",uplink.ovs.runDir=/var/lib/ovs/run", []string{"/run", "/var/lib/ovs/run"}, 3},
		"where is none":  {"uplink.ovs.runDir=/var/lib/ovs/run", []string{"/run"}, 2},
		"by another way": {node + ",uplink.ovs.runDir=/var/run/openvswitch", []string{"/run"}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := render(t, "--set", test.values)
			testlab.Must(t, err)
			pod := cleaningPod(t, objects)
			checkMounts(t, &pod.Spec)
			var mounted []string
			for _, mount := range containerOf(t, &pod.Spec, "clean").VolumeMounts {
				if mount.Name == "run" || mount.Name == "switch" {
					mounted = append(mounted, mount.MountPath)
				}
			}
			if !slices.Equal(mounted, test.mounted) {
				t.Errorf("it sees %q, want %q", mounted, test.mounted)
			}
			if rights := containerOf(t, &pod.Spec, "clean").SecurityContext.Capabilities.Add; len(rights) != test.rights {
				t.Errorf("it has %v", rights)
			}
		})
	}
}

// A single processor is a YAML number, and may be 0.
func TestChartPMDCPUs(t *testing.T) {
	for value, want := range map[string][]int{"pmdCPUs=0": {0}, "pmdCPUs=3": {3}, `pmdCPUs=2\,3`: {2, 3}, "pmdCPUs=": nil, "pmdCPUs=null": nil} {
		objects, err := render(t, "--set", "uplink.ovs.nodeSelector.switch=ovs,uplink.ovs.device=card,uplink.ovs."+value)
		if err != nil {
			t.Errorf("%s: %v", value, err)
			continue
		}
		options, err := Parse(containerOf(t, &daemonSet(t, objects, "ktsn-agent-ovs").Spec.Template.Spec, "agent").Args, io.Discard)
		if err != nil || !slices.Equal(options.OVS.plan.PMDCPUs, want) {
			t.Errorf("%s: the agent reads %+v, %v", value, options.OVS, err)
		}
	}
}

// cleaningPod returns the pod that the uninstall hook starts on a node, parsed as by the hook.
func cleaningPod(t *testing.T, objects [][]byte) *corev1.Pod {
	t.Helper()
	cleaner := corev1.ConfigMap{}
	object(t, objects, "ConfigMap", "removal", &cleaner)
	path := filepath.Join(t.TempDir(), "pod.yaml")
	testlab.Must(t, os.WriteFile(path, []byte(cleaner.Data["pod.yaml"]), 0o600))
	pod, err := readPod(path)
	testlab.Must(t, err)
	return pod
}

func containerOf(t *testing.T, spec *corev1.PodSpec, name string) *corev1.Container {
	t.Helper()
	at := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == name })
	if at < 0 {
		t.Fatalf("there is no container %s", name)
	}
	return &spec.Containers[at]
}

// Otherwise kubelet would kill the agent while it waits.
func TestChartAgentGracePeriod(t *testing.T) {
	objects, err := render(t)
	testlab.Must(t, err)
	grace := time.Duration(*daemonSet(t, objects, "ktsn-agent").Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	if leaveTimeout >= shutdownTimeout || shutdownTimeout >= grace {
		t.Errorf("kubelet gives %v, parts get %v, and kubelet is served for %v", grace, shutdownTimeout, leaveTimeout)
	}
}

// Otherwise the Job would end before it reports the error, or its pod could not be scheduled.
func TestChartRemovalTimeout(t *testing.T) {
	objects, err := render(t, "--set-json", `operator.tolerations=[{"key":"ours","operator":"Exists"}]`, "--set", "removal.timeoutSeconds=200")
	testlab.Must(t, err)
	var operator appsv1.Deployment
	object(t, objects, "Deployment", "ktsn-operator", &operator)
	for name, has := range map[string]time.Duration{"ktsn-removal": 200 * time.Second, "ktsn-operator-removal": time.Minute} {
		var job batchv1.Job
		object(t, objects, "Job", name, &job)
		spec := &job.Spec.Template.Spec
		if arguments := containerOf(t, spec, "remove").Args; name == "ktsn-removal" && !slices.Contains(arguments, "--timeout="+"200s") {
			t.Errorf("%s is called with %q", name, arguments)
		}
		if deadline := time.Duration(*job.Spec.ActiveDeadlineSeconds) * time.Second; deadline < has+30*time.Second {
			t.Errorf("%s has %v for its pod to start, and for the %v that the work may take", name, deadline, has)
		}
		if !maps.Equal(spec.NodeSelector, operator.Spec.Template.Spec.NodeSelector) || len(spec.NodeSelector) == 0 || len(spec.Tolerations) != 1 {
			t.Errorf("%s goes to %v, and tolerates %v", name, spec.NodeSelector, spec.Tolerations)
		}
	}
}

func TestChartExclusiveCore(t *testing.T) {
	objects, err := render(t, "--set", "ktsnd.exclusiveCore=true")
	testlab.Must(t, err)
	containers := daemonSet(t, objects, "ktsnd").Spec.Template.Spec.Containers
	for _, resource := range []corev1.ResourceName{"cpu", "memory"} {
		request, limit := containers[0].Resources.Requests[resource], containers[0].Resources.Limits[resource]
		if request.IsZero() || request.Cmp(limit) != 0 {
			t.Errorf("%s is %s of %s; they must be the same", resource, request.String(), limit.String())
		}
	}
	if cpu := containers[0].Resources.Limits.Cpu().String(); len(containers) != 1 || cpu != "1" {
		t.Errorf("the first of %d containers gets %s of a processor, want 1", len(containers), cpu)
	}
}

// A ktsnd that is out of memory is killed with every pod's timed messages: the memory limit covers the limits of all pods.
func TestChartKtsndMemory(t *testing.T) {
	for name, test := range map[string]struct {
		arguments []string
		rings     string
		limit     string
	}{
		"by default":                {nil, "512", "1Gi"},
		"with more for rings":       {[]string{"--set", "ktsnd.ringMemoryMiB=2048"}, "2048", "2944Mi"},
		"with more for the rest":    {[]string{"--set", "ktsnd.ownMemoryMiB=1024"}, "512", "1664Mi"},
		"with a core of ktsnd's":    {[]string{"--set", "ktsnd.exclusiveCore=true,ktsnd.ringMemoryMiB=64"}, "64", "464Mi"},
		"with a limit of processor": {[]string{"--set", "ktsnd.resources.limits.cpu=2"}, "512", "1Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := render(t, test.arguments...)
			testlab.Must(t, err)
			ktsnd := containerOf(t, &daemonSet(t, objects, "ktsnd").Spec.Template.Spec, "ktsnd")
			at := slices.Index(ktsnd.Args, "--ring-memory")
			if at < 0 || ktsnd.Args[at+1] != test.rings {
				t.Errorf("ktsnd is called with %v, want --ring-memory %s", ktsnd.Args, test.rings)
			}
			if limit := ktsnd.Resources.Limits.Memory().String(); limit != test.limit {
				t.Errorf("ktsnd may have %s, want %s", limit, test.limit)
			}
		})
	}
}

func TestChartRemovalHooks(t *testing.T) {
	objects, err := render(t)
	testlab.Must(t, err)
	names := map[string]bool{}
	for _, text := range objects {
		var about struct {
			Kind     string
			Metadata metav1.ObjectMeta
		}
		testlab.Must(t, yaml.Unmarshal(text, &about))
		if !strings.Contains(about.Metadata.Name, "removal") {
			continue
		}
		names[about.Kind] = true
		policy := about.Metadata.Annotations["helm.sh/hook-delete-policy"]
		if about.Metadata.Annotations["helm.sh/hook"] != "pre-delete" || !strings.Contains(policy, "hook-succeeded") ||
			about.Kind != "Job" && !strings.Contains(policy, "hook-failed") {
			t.Errorf("%s %s stays: %v", about.Kind, about.Metadata.Name, about.Metadata.Annotations)
		}
	}
	for _, kind := range []string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ConfigMap", "Job"} {
		if !names[kind] {
			t.Errorf("there is no %s of the removal", kind)
		}
	}
}

// test/operator tests the content of the policy with an API server.
func TestChartAdmissionPolicy(t *testing.T) {
	objects, err := render(t)
	testlab.Must(t, err)
	var policy admissionv1.ValidatingAdmissionPolicy
	var binding admissionv1.ValidatingAdmissionPolicyBinding
	object(t, objects, "ValidatingAdmissionPolicy", "kubernetsn-pods", &policy)
	object(t, objects, "ValidatingAdmissionPolicyBinding", "kubernetsn-pods", &binding)
	// As ordinary objects of the chart they are there before any pod is annotated, and helm removes them.
	if len(policy.Annotations)+len(binding.Annotations) > 0 {
		t.Errorf("they are hooks: %v, %v", policy.Annotations, binding.Annotations)
	}
	denies := slices.Equal(binding.Spec.ValidationActions, []admissionv1.ValidationAction{admissionv1.Deny})
	if !denies || binding.Spec.PolicyName != policy.Name || binding.Spec.MatchResources != nil {
		t.Errorf("the binding is %+v", binding.Spec)
	}
	// It concerns pods of ours only, and has a name for each: that of the label, that of the annotation.
	conditions := policy.Spec.MatchConditions
	if len(conditions) != 1 || !strings.Contains(conditions[0].Expression, "'"+v1alpha1.PodLabel+"'") ||
		!strings.Contains(conditions[0].Expression, "'"+v1alpha1.NetworkAnnotation+"'") {
		t.Errorf("it concerns %+v", conditions)
	}
	without, err := render(t, "--set", "operator.enabled=false")
	testlab.Must(t, err)
	if bytes.Contains(bytes.Join(without, nil), []byte("ValidatingAdmissionPolicy")) {
		t.Error("there is a policy without the operator, whose label and annotation they keep, or which they hold")
	}
	for _, name := range []string{"kubernetsn-webhook", "kubernetsn-attachments", "kubernetsn-networks", "kubernetsn-node-label", "kubernetsn-nodes", "kubernetsn-cluster-keys", "kubernetsn-peers",
		"kubernetsn-node-keys", "kubernetsn-admitted", "kubernetsn-links-of-operator", "kubernetsn-peers-of-operator", "kubernetsn-node-addresses",
		"kubernetsn-services"} {
		object(t, objects, "ValidatingAdmissionPolicy", name, &admissionv1.ValidatingAdmissionPolicy{})
		object(t, objects, "ValidatingAdmissionPolicyBinding", name, &binding)
		if !slices.Equal(binding.Spec.ValidationActions, []admissionv1.ValidationAction{admissionv1.Deny}) || binding.Spec.PolicyName != name {
			t.Errorf("the binding of %s is %+v", name, binding.Spec)
		}
	}
}

func TestChartCgroupMounts(t *testing.T) {
	for value, want := range map[string]bool{"false": false, "true": true} {
		objects, err := render(t, "--set", "ktsnd.cgroupV1="+value)
		testlab.Must(t, err)
		got := slices.ContainsFunc(daemonSet(t, objects, "ktsnd").Spec.Template.Spec.Volumes, func(v corev1.Volume) bool {
			return v.HostPath != nil && strings.HasPrefix(v.HostPath.Path, "/sys/fs/cgroup")
		})
		if got != want {
			t.Errorf("ktsnd.cgroupV1=%s: the cgroups are mounted: %v", value, got)
		}
	}
}

// Kata mounts the root filesystems and volumes of its pods below /run/kata-containers.
func TestChartKataMounts(t *testing.T) {
	const dans, others = "/run/kata-containers/dans", "/run/kata-containers/others"
	for value, want := range map[string][]string{
		"":                             nil,
		"kata.handlers.kata-qemu=veth": nil,
		"kata.handlers.a=" + dans + ",kata.handlers.b=veth,kata.handlers.c=" + dans + ",kata.handlers.d=" + others: {dans, others},
	} {
		objects, err := render(t, "--set", value)
		testlab.Must(t, err)
		pod := &daemonSet(t, objects, "ktsnd").Spec.Template.Spec
		var mounted, ofHost []string
		for _, mount := range pod.Containers[0].VolumeMounts {
			if !strings.HasPrefix(mount.MountPath, "/run/kata") {
				continue
			}
			mounted = append(mounted, mount.MountPath)
			if propagation := mount.MountPropagation; !mount.ReadOnly || propagation == nil || *propagation != corev1.MountPropagationHostToContainer {
				t.Errorf("%q: without what is unmounted on the node it keeps that: %+v", value, mount)
			}
		}
		for _, volume := range pod.Volumes {
			if volume.HostPath != nil && strings.HasPrefix(volume.HostPath.Path, "/run/kata") {
				ofHost = append(ofHost, volume.HostPath.Path)
			}
		}
		if !slices.Equal(mounted, want) || !slices.Equal(ofHost, want) {
			t.Errorf("%q: of the node's folders %q are mounted at %q, want %q", value, ofHost, mounted, want)
		}
	}
}

func TestChartAgentCapabilities(t *testing.T) {
	objects, err := render(t)
	testlab.Must(t, err)
	var role rbacv1.ClusterRole
	object(t, objects, "ClusterRole", "kubernetsn:ktsn-agent", &role)
	var text []string
	for _, rule := range role.Rules {
		text = append(text, fmt.Sprint(rule.APIGroups, rule.Resources, rule.Verbs))
	}
	want := []string{"[] [nodes] [list watch]", "[] [pods] [list watch]", "[] [events] [create patch]"}
	if !slices.Equal(text, want) {
		t.Errorf("it may %q, want %q", text, want)
	}
}

func TestChartRejectsInvalidValues(t *testing.T) {
	for value, sentence := range map[string]string{
		"uplnk.interface=eth1":                          "uplnk",
		"uplink.interface=":                             "/uplink/interface",
		"networks[0].vni=0":                             "/networks/0",
		"networks[0].mtu=100":                           "/networks/0/mtu",
		"networks[0].capture=all":                       "/networks/0/capture",
		"image.pullPolicy=Sometimes":                    "/image/pullPolicy",
		"image.prefix=a b":                              "/image/prefix",
		"image.prefix=registry/":                        "/image/prefix",
		"image.tag=v1:2":                                "/image/tag",
		"image.prefix=":                                 "image.prefix: say where nodes find the images",
		"image.tag=":                                    "image.digests: say which images these are",
		"image.digests.ktsnd=sha256:12":                 "/image/digests/ktsnd",
		"ktsnd.realtimeShare=200":                       "/ktsnd/realtimeShare",
		"ktsnd.resources.limits.memory=1Gi":             "/ktsnd/resources/limits/memory",
		"ktsnd.extraArgs[0]=--ring-memory":              "/ktsnd/extraArgs/0",
		"ktsnd.extraArgs[0]=--instance-name":            "/ktsnd/extraArgs/0",
		"ktsnd.surge=maybe":                             "/ktsnd/surge",
		"maxSurge=0":                                    "/maxSurge",
		"maxSurge=none":                                 "/maxSurge",
		"maxUnavailable=0":                              "/maxUnavailable",
		"maxUnavailable=none":                           "/maxUnavailable",
		"ktsnd.ringMemoryMiB=0":                         "/ktsnd/ringMemoryMiB",
		"ktsnd.ownMemoryMiB=10":                         "/ktsnd/ownMemoryMiB",
		"ktsnd.ownMemoryMiB=null":                       "missing property 'ownMemoryMiB'",
		"ktsnd.cgroupV1=maybe":                          "/ktsnd/cgroupV1",
		"podAnnotations.number=1":                       "/podAnnotations/number",
		"agent.sweepEvery=often":                        "/agent/sweepEvery",
		"uplink.ovs.pmdCPUs=all":                        "/uplink/ovs/pmdCPUs",
		"uplink.ovs.pmdCPUs=-1":                         "/uplink/ovs/pmdCPUs",
		"uplink.ovs.device=1,uplink.ovs.prefixLength=0": "/uplink/ovs/prefixLength",
		"kubeletDir=var/lib/kubelet":                    "/kubeletDir",
		"agent.unmanagedDevices=Yes":                    "/agent/unmanagedDevices",
		"tunnelChecksumOffload=off":                     "/tunnelChecksumOffload",
		"removal.timeoutSeconds=89":                     "/removal/timeoutSeconds",
		"namespace.name=Kubernetes_1":                   "/namespace/name",
		"clock.mode=ntp":                                "/clock/mode",
		"clock.ptp.domain=128":                          "/clock/ptp/domain",
		"clock.ptp.profile=g8275":                       "/clock/ptp/profile",
		"clock.ptp.transport=UDPv6":                     "/clock/ptp/transport",
		"clock.ptp.servo=ntpshm":                        "/clock/ptp/servo",
		"clock.ptp.timeStamping=both":                   "/clock/ptp/timeStamping",
		"clock.ptp.utcOffset=1":                         "/clock/ptp/utcOffset",
		"clock.ptp.priority1=256":                       "/clock/ptp/priority1",
		"clock.ptp.extraConfig.tx_timestamp_timeout=10": "/clock/ptp/extraConfig/tx_timestamp_timeout",
		"clock.ptp.interfaces[0].role=guest":            "/clock/ptp/interfaces/0/role",
		"clock.ptp.interfaces[0].interface=a/b":         "/clock/ptp/interfaces/0/interface",
		"clock.ptp.interfaces[0].name=A":                "/clock/ptp/interfaces/0/name",
	} {
		if _, err := render(t, "--set", value); err == nil || !strings.Contains(err.Error(), sentence) {
			t.Errorf("%s: %v, want %q in it", value, err, sentence)
		}
	}
}

// Digests protect nodes against a compromised registry.
func TestChartImageDigests(t *testing.T) {
	names := []string{"ktsnd", "ktsn-agent", "ktsn-agent-ovs", "ktsn-operator", "ktsn-clock"}
	var digests []string
	for i, name := range names {
		digests = append(digests, fmt.Sprintf("image.digests.%s=sha256:%064d", name, i))
	}
	const ovs = "clock.mode=ptp,uplink.ovs.nodeSelector.switch=ovs,uplink.ovs.device=card"
	objects, err := render(t, "--set", ovs+","+strings.Join(digests, ","))
	testlab.Must(t, err)
	images := regexp.MustCompile(`(?m)^ *image: (.*)$`).FindAllSubmatch(bytes.Join(objects, nil), -1)
	if len(images) < 9 {
		t.Fatalf("%d images are named", len(images))
	}
	for _, image := range images {
		if !regexp.MustCompile(`^registry\.example\.org/kubernetsn/[a-z-]+@sha256:0{63}[0-4]$`).Match(image[1]) {
			t.Errorf("an image is named %s", image[1])
		}
	}
	if _, err := render(t, "--set", ovs+","+strings.Join(digests[1:], ",")); err == nil || !strings.Contains(err.Error(), "the digest of ktsnd is missing") {
		t.Errorf("without one digest: %v", err)
	}
}

func TestChartRemovalOfOperator(t *testing.T) {
	without := []string{"--set", "operator.enabled=false"}
	upgrade := slices.Concat(without, []string{"--is-upgrade", "--api-versions", "kubernetsn.io/v1alpha1/TSNNetwork"})
	for _, arguments := range [][]string{without, slices.Concat(without, []string{"--is-upgrade"}), upgrade[2:]} {
		if _, err := render(t, arguments...); err != nil {
			t.Errorf("%v: %v", arguments, err)
		}
	}
	if _, err := render(t, upgrade...); err == nil || !strings.Contains(err.Error(), "remove these first, while it runs") {
		t.Errorf("got %v", err)
	}
}

func TestParseErrors(t *testing.T) {
	for line, sentence := range map[string]string{
		"":                           "--node is missing",
		"--node n --sweep-every 1ms": "--sweep-every 1ms: give at least 1s",
		"--node n --control run/x":   `--control "run/x": give an absolute path`,
		"--node n more":              `"more" is too much`,
		"--nod n":                    "-nod",
		"remove --timeout soon":      "invalid value",
		"--node n --ovs-device 1 --ovs-interface 2": "give one of them",
		"--node n --ovs-device 1 --ovs-pmd-cpus x":  `--ovs-pmd-cpus "x": give processors`,
		"clean-node more":                           `"more" is too much`,
		"remove --networks /nowhere/x":              "read the networks",
	} {
		var buffer bytes.Buffer
		status := Main(t.Context(), strings.Fields(line), io.Discard, &buffer)
		if status == 0 || !strings.Contains(buffer.String(), sentence) || strings.Count(buffer.String(), "\n") != 1 {
			t.Errorf("%q: status %d, %q; want %q", line, status, buffer.String(), sentence)
		}
	}
	var help bytes.Buffer
	if status := Main(t.Context(), []string{"--help"}, &help, io.Discard); status != 0 || !strings.Contains(help.String(), "-sweep-every") {
		t.Errorf("--help: %d, %q", status, help.String())
	}
}

// TestChartDashboardMetrics compares the dashboard's queries with the agent's metrics.
func TestChartDashboardMetrics(t *testing.T) {
	objects, err := render(t, "--set", "dashboard.enabled=true")
	testlab.Must(t, err)
	var config corev1.ConfigMap
	object(t, objects, "ConfigMap", "grafana-dashboard", &config)
	text := config.Data["kubernetsn.json"]
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(text), &board); err != nil || len(board.Panels) == 0 {
		t.Fatalf("%d panels, %v", len(board.Panels), err)
	}
	registry := prometheus.NewRegistry()
	if _, err := metrics.New(registry); err != nil {
		t.Fatal(err)
	}
	described := make(chan *prometheus.Desc, 100)
	registry.Describe(described)
	close(described)
	var known strings.Builder
	for desc := range described {
		known.WriteString(desc.String())
	}
	names := regexp.MustCompile(`ktsn_[a-z_]+`)
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			for _, name := range names.FindAllString(target.Expr, -1) {
				if !strings.Contains(known.String(), `"`+strings.TrimSuffix(name, "_bucket")+`"`) {
					t.Errorf("panel %s asks for %s, which there is not", panel.Title, name)
				}
			}
		}
	}
}
