// SPDX-License-Identifier: Apache-2.0

package clustertarget

import (
	"os"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

func TestDocumentedRole(t *testing.T) {
	text, err := os.ReadFile("../../../examples/bench-role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(text, &role); err != nil {
		t.Fatal(err)
	}
	var given []string
	for _, rule := range role.Rules {
		for _, verb := range rule.Verbs {
			given = append(given, right{verb: verb, group: rule.APIGroups[0], resource: rule.Resources[0]}.String())
		}
	}
	c := &connection{Where: Where{Namespace: "mine", Network: "system/tsn"}}
	var used []string
	for _, right := range slices.Concat(c.needed(true), c.ofTools(true), []right{ofKubelet, ofClocks}, c.ofKtsnd()) {
		right.namespace = ""
		if right.subresource != "" {
			right.resource, right.subresource = right.resource+"/"+right.subresource, ""
		}
		used = append(used, right.String())
	}
	for _, right := range given {
		if !slices.Contains(used, right) {
			t.Errorf("%s is not needed", right)
		}
	}
	for _, right := range used {
		if !slices.Contains(given, right) {
			t.Errorf("%s is missing", right)
		}
	}
}
