// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"encoding/json"
	"slices"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Fields are the fields that differ between a cluster and the hub.
type Fields []policyv1alpha1.PlaintextOverrider

// Set sets a field to a value that JSON can encode. JSON Patch's operation add also replaces.
func (f *Fields) Set(path string, value any) {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err) // only values of plain types are set
	}
	*f = append(*f, policyv1alpha1.PlaintextOverrider{Path: path, Operator: policyv1alpha1.OverriderOpAdd, Value: apiextensionsv1.JSON{Raw: raw}})
}

// Remove removes a field.
func (f *Fields) Remove(path string) {
	*f = append(*f, policyv1alpha1.PlaintextOverrider{Path: path, Operator: policyv1alpha1.OverriderOpRemove})
}

// Rule returns the rule that gives a cluster these fields.
func (f Fields) Rule(cluster string) policyv1alpha1.RuleWithCluster {
	return policyv1alpha1.RuleWithCluster{
		TargetCluster: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{cluster}}, Overriders: policyv1alpha1.Overriders{Plaintext: f},
	}
}

// Read reads a value that a rule sets, and reports whether there is one.
func Read(rule *policyv1alpha1.RuleWithCluster, path string, into any) bool {
	all := rule.Overriders.Plaintext
	at := slices.IndexFunc(all, func(override policyv1alpha1.PlaintextOverrider) bool { return override.Path == path })
	return at >= 0 && json.Unmarshal(all[at].Value.Raw, into) == nil
}

// ClusterOf returns the cluster of a rule, "" if it does not have exactly one.
func ClusterOf(rule *policyv1alpha1.RuleWithCluster) string {
	if rule.TargetCluster == nil || len(rule.TargetCluster.ClusterNames) != 1 {
		return ""
	}
	return rule.TargetCluster.ClusterNames[0]
}
