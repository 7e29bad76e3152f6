// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

const controlPlane = "node-role.kubernetes.io/control-plane"

// TestChartOperatorAffinity: root on the node of an operator has the cluster's signing key.
func TestChartOperatorAffinity(t *testing.T) {
	placed := func(arguments ...string) *corev1.PodSpec {
		t.Helper()
		objects, err := render(t, arguments...)
		testlab.Must(t, err)
		var deployment appsv1.Deployment
		object(t, objects, "Deployment", "ktsn-operator", &deployment)
		return &deployment.Spec.Template.Spec
	}
	spec := placed()
	preferred := spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	if len(preferred) != 1 || preferred[0].Preference.MatchExpressions[0].Key != controlPlane || len(spec.NodeSelector) != 2 {
		t.Errorf("operators prefer %+v, of nodes %v", preferred, spec.NodeSelector)
	}
	if len(spec.Tolerations) != 1 || spec.Tolerations[0].Key != controlPlane || spec.Tolerations[0].Effect != corev1.TaintEffectNoSchedule {
		t.Errorf("operators tolerate %+v", spec.Tolerations)
	}
	spec = placed("--set-json", `operator={"nodeSelector":{"trusted":"yes"},"tolerations":[],"affinity":{"nodeAffinity":null}}`)
	if spec.NodeSelector["trusted"] != "yes" || spec.NodeSelector["kubernetes.io/os"] != "linux" || len(spec.Tolerations) > 0 || spec.Affinity != nil {
		t.Errorf("operators run on %v, tolerate %+v, prefer %+v", spec.NodeSelector, spec.Tolerations, spec.Affinity)
	}
}

// rights are the verbs of accounts: by account, scope, resource and names of objects, as in a row of the table in docs/security/privileges.md.
type rights map[string]string

func (r rights) add(account, scope, resource, names string, verbs []string) {
	slices.Sort(verbs)
	key := strings.Join([]string{account, scope, resource, names}, " | ")
	r[key] = strings.Join(verbs, ", ")
}

// rightsOf returns the rights that the roles of a rendered chart grant to accounts.
func rightsOf(t *testing.T, objects [][]byte) rights {
	t.Helper()
	rules, granted := map[string][]rbacv1.PolicyRule{}, rights{}
	var bindings []rbacv1.ClusterRoleBinding // a RoleBinding has the same fields
	for _, text := range objects {
		var object struct {
			Kind     string
			Metadata struct{ Name string }
			Rules    []rbacv1.PolicyRule
		}
		testlab.Must(t, yaml.Unmarshal(text, &object))
		switch object.Kind {
		case "Role", "ClusterRole":
			rules[object.Kind+" "+object.Metadata.Name] = object.Rules
		case "RoleBinding", "ClusterRoleBinding":
			var binding rbacv1.ClusterRoleBinding
			testlab.Must(t, yaml.Unmarshal(text, &binding))
			bindings = append(bindings, binding)
		}
	}
	bound := map[string]bool{}
	for i := range bindings {
		scope, role := "namespace", bindings[i].RoleRef.Kind+" "+bindings[i].RoleRef.Name
		if bindings[i].Kind == "ClusterRoleBinding" {
			scope = "cluster"
		}
		bound[role] = true
		for _, subject := range bindings[i].Subjects {
			if subject.Kind != rbacv1.ServiceAccountKind || subject.Namespace != "kubernetsn-system" {
				t.Errorf("%s is given to %+v", role, subject)
			}
			for _, rule := range rules[role] {
				if len(rule.NonResourceURLs) > 0 {
					t.Errorf("%s has rules for %v, which the table has no column for", role, rule.NonResourceURLs)
				}
				for _, group := range rule.APIGroups {
					for _, resource := range rule.Resources {
						granted.add(subject.Name, scope, strings.TrimSuffix(resource+"."+group, "."), strings.Join(rule.ResourceNames, ", "), rule.Verbs)
					}
				}
			}
		}
	}
	for role := range rules {
		if !bound[role] {
			t.Errorf("%s is given to nobody", role)
		}
	}
	return granted
}

// tableOfRights parses the table in docs/security/privileges.md. A row can have several resources.
func tableOfRights(t *testing.T) rights {
	t.Helper()
	text, err := os.ReadFile("../../../docs/security/privileges.md")
	testlab.Must(t, err)
	_, table, ok := strings.Cut(string(text), "| account | in | resources | objects | verbs |\n|---|---|---|---|---|\n")
	if !ok {
		t.Fatal("docs/security/privileges.md has no table of rights")
	}
	granted := rights{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(strings.ReplaceAll(line, "`", "")), "|"), "|")
		if len(cells) != 5 {
			break
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		for resource := range strings.SplitSeq(cells[2], ", ") {
			granted.add(cells[0], cells[1], resource, cells[3], strings.Split(cells[4], ", "))
		}
	}
	return granted
}

// TestChartRightsMatchTable compares the chart's rights with docs/security/privileges.md.
func TestChartRightsMatchTable(t *testing.T) {
	objects, err := render(t, "--set", "kata.handlers.kata-qemu=veth")
	testlab.Must(t, err)
	given, table := rightsOf(t, objects), tableOfRights(t)
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if table[key] != given[key] {
			t.Errorf("the chart gives a right that docs/security/privileges.md has otherwise (%q): %s", table[key], row(key, given[key]))
		}
	}
	for key, verbs := range table {
		if _, has := given[key]; !has {
			t.Errorf("docs/security/privileges.md has a right that the chart does not give: %s", row(key, verbs))
		}
	}
	if objects, err = render(t, "--set", "operator.enabled=false"); err != nil {
		t.Fatal(err)
	}
	for key, verbs := range rightsOf(t, objects) {
		if table[key] != verbs {
			t.Errorf("without the operator the chart gives another right: %s", row(key, verbs))
		}
	}
}

func row(key, verbs string) string { return fmt.Sprintf("| %s | %s |", key, verbs) }
