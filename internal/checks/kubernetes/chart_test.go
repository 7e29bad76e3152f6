// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// renderings are helm options that change the chart's objects or fields.
var renderings = map[string][]string{
	"by default":           nil,
	"without the operator": {"--set", "operator.enabled=false"},
	"with a core of its own and cgroups of version 1": {"--set", "ktsnd.exclusiveCore=true,ktsnd.cgroupV1=true"},
	"with Open vSwitch": {"--set", "uplink.ovs.nodeSelector.switch=ovs,uplink.ovs.device=0000:01:00.0,uplink.ovs.pmdMaxSleep=50us"},
	"with clocks of its own": {"--set", "clock.mode=ptp,clock.ptp.timeStamping=software,clock.ptp.interfaces[0].name=a,clock.ptp.interfaces[0].nodeSelector.clock=a," +
		"clock.ptp.interfaces[0].role=grandmaster,clock.ptp.interfaces[1].name=b,clock.ptp.interfaces[1].nodeSelector.clock=b"},
	"with clocks of network cards": {"--set", "clock.mode=ptp"},
	"with all that a cluster may ask for": {"--set", "agent.inspectPrograms=false,agent.metricsPort=0,multus.namespaces={a,b},namespace.create=false," +
		"openshift.securityContextConstraints=true,image.pullSecrets[0].name=x,nodeSelector.a=b,tolerations[0].operator=Exists,operator.tolerations[0].operator=Exists,podAnnotations.a=b"},
}

// render runs `helm template` for a Kubernetes version, hooks included.
func render(t *testing.T, version string, options []string) []object {
	t.Helper()
	helm, err := filepath.Abs("../../../bin/helm")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(helm); err != nil {
		testlab.Missing(t, "bin/helm is missing; `make helm` builds it")
	}
	command := exec.CommandContext(t.Context(), helm, append([]string{"template", "x", "../../../charts/kubernetsn", "--include-crds", "--kube-version", version + ".0",
		"--set", "image.prefix=registry.example.org/kubernetsn,image.tag=dev"}, options...)...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	text, err := command.Output()
	if err != nil {
		t.Fatal(stderr.String())
	}
	var all []object
	for _, part := range bytes.Split(text, []byte("\n---\n")) {
		if rendered := parse(t, part); rendered != nil {
			all = append(all, rendered)
		}
	}
	return all
}

// parse converts YAML to a JSON object.
func parse(t *testing.T, text []byte) object {
	t.Helper()
	content, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	read, _ := value.(object)
	return read
}

// foreign reports whether a group is not part of Kubernetes.
func foreign(group string) bool {
	return group == "kubernetsn.io" || group == "k8s.cni.cncf.io"
}

func TestChartFitsEachVersion(t *testing.T) {
	described := readDescription(t)
	for name, options := range renderings {
		for _, version := range described.Versions {
			t.Run(name+" "+version, func(t *testing.T) {
				all := render(t, version, options)
				if len(all) < 5 {
					t.Fatalf("the chart has %d objects", len(all))
				}
				for _, rendered := range all {
					checkObject(t, described, version, rendered)
				}
			})
		}
	}
}

// podSpecs returns the specifications of pods in an object.
func podSpecs(value object) (all []object) {
	if _, has := value["containers"].([]any); has {
		all = append(all, value)
	}
	for _, field := range value {
		if inside, ok := field.(object); ok {
			all = append(all, podSpecs(inside)...)
		}
	}
	return all
}

func checkObject(t *testing.T, described *description, version string, checked object) {
	t.Helper()
	group, _, _ := strings.Cut(checked["apiVersion"].(string), "/")
	title := fmt.Sprintf("%v %v", checked["kind"], checked["metadata"])
	if foreign(group) {
		return
	}
	if err := described.problem(version, checked); err != nil {
		t.Errorf("%s: %v", title, err)
	}
	for _, spec := range podSpecs(checked) {
		if nodes, _ := spec["nodeSelector"].(object); nodes["kubernetes.io/arch"] != "amd64" {
			t.Errorf("%s: its pods run on nodes with %v, and the images are for amd64", title, nodes)
		}
	}
	for _, inside := range carried(t, checked) {
		checkObject(t, described, version, inside)
	}
	for _, rule := range rules(t, checked) {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				if foreign(group) {
					continue
				}
				if err := described.unserved(version, group, resource); err != nil {
					t.Errorf("%s gives access: %v", title, err)
				}
			}
		}
	}
}

// carried returns the objects in a ConfigMap, which the chart's programs apply.
func carried(t *testing.T, container object) (all []object) {
	t.Helper()
	data, _ := container["data"].(object)
	for _, value := range data {
		if text, _ := value.(string); container["kind"] == "ConfigMap" && strings.Contains(text, "kind: ") {
			if inside := parse(t, []byte(text)); inside["apiVersion"] != nil {
				all = append(all, inside)
			}
		}
	}
	return all
}

// rule is a rule of a Role or ClusterRole.
type rule struct{ APIGroups, Resources []string }

func rules(t *testing.T, role object) []rule {
	t.Helper()
	if kind := role["kind"]; kind != "Role" && kind != "ClusterRole" {
		return nil
	}
	content, err := json.Marshal(role["rules"])
	if err != nil {
		t.Fatal(err)
	}
	var all []rule
	if err := json.Unmarshal(content, &all); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(r rule) bool { return len(r.Resources) == 0 })
}

func TestProblems(t *testing.T) {
	described := readDescription(t)
	for name, test := range map[string]struct {
		text   string
		refuse []string // versions; nil: none of them
	}{
		"a pod":                     {`{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, resources: {limits: {cpu: 1}}}]}}`, nil},
		"an unknown field":          {`{apiVersion: v1, kind: Pod, spec: {containers: [{name: a, imagePolicy: Never}]}}`, described.Versions},
		"a field of another type":   {`{apiVersion: v1, kind: Pod, spec: {hostNetwork: "yes", containers: [{name: a}]}}`, described.Versions},
		"a missing field":           {`{apiVersion: v1, kind: Pod, spec: {containers: [{image: a}]}}`, described.Versions},
		"a version that is no more": {`{apiVersion: batch/v1beta1, kind: Job}`, described.Versions},
		"a field from 1.34 on":      {`{apiVersion: v1, kind: Pod, spec: {hostnameOverride: a, containers: [{name: a}]}}`, []string{"1.31", "1.32", "1.33"}},
		"a native sidecar":          {`{apiVersion: v1, kind: Pod, spec: {containers: [{name: a}], initContainers: [{name: b, restartPolicy: Always}]}}`, nil},
		"an inline volume of a CSI driver": {`{apiVersion: v1, kind: Pod, spec: {containers: [{name: a}], volumes: [{name: b, csi: {driver: csi.kubernetsn.io}}]}}`,
			nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, version := range described.Versions {
				err := described.problem(version, parse(t, []byte(test.text)))
				if refused := err != nil; refused != slices.Contains(test.refuse, version) {
					t.Errorf("%s: %v", version, err)
				}
			}
		})
	}
	if err := described.unserved("1.31", "apps", "daemonset"); err == nil {
		t.Error("an unknown resource is not found")
	}
	if described.unserved("1.32", "", "pods/resize") == nil && described.unserved("1.31", "", "pods/resize") == nil {
		t.Error("a resource that came later is not found")
	}
}

// TestVersionsHaveNoGap expects the oldest supported version and all later ones.
func TestVersionsHaveNoGap(t *testing.T) {
	versions := readDescription(t).Versions
	for i, version := range versions {
		if want := fmt.Sprintf("1.%d", oldest+i); version != want {
			t.Errorf("version %d is %s, want %s", i, version, want)
		}
	}
	if len(versions) < 7 {
		t.Errorf("versions are only %q", versions)
	}
}

func TestTestClusterHasNewestVersion(t *testing.T) {
	versions := readDescription(t).Versions
	text, err := os.ReadFile("../../../test/cluster/components/kubernetes/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if want := "k8s.io/kubernetes v" + versions[len(versions)-1] + "."; !strings.Contains(string(text), want) {
		t.Errorf("test/cluster/components/kubernetes/go.mod does not require %s*", want)
	}
}
