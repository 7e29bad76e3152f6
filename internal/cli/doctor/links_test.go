// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// link is one from a node to another, of which this is said.
func link(name, from, to string, conditions ...metav1.Condition) v1alpha1.TSNLink {
	link := v1alpha1.TSNLink{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	link.Spec.Client = v1alpha1.LinkEnd{Namespace: "default", Pod: "client", Node: from}
	link.Spec.Endpoint = v1alpha1.LinkEnd{Namespace: "default", Pod: "endpoint", Node: to}
	link.Status.Conditions = conditions
	return link
}

func TestLinkFindings(t *testing.T) {
	up := metav1.Condition{Type: v1alpha1.ConditionUp, Status: metav1.ConditionTrue}
	down := metav1.Condition{Type: v1alpha1.ConditionUp, Status: metav1.ConditionFalse, Message: "the other end does not answer"}
	w := well()
	w.links = []v1alpha1.TSNLink{link("good", "a", "b", up), link("bad", "b", "a", down), link("elsewhere", "b", "c", down), link("new", "a", "b")}
	for where, want := range map[string]map[string]string{
		"node":    {"link default/bad": "Up: the other end does not answer", "link default/new": "no agent has reported it"},
		"cluster": {"link default/bad": "Up: ", "link default/new": "no agent", "link default/elsewhere": "Up: "},
	} {
		named := map[string]string{}
		for _, finding := range w.look(t, where) {
			if strings.HasPrefix(finding.About, "link ") && finding.Level == Bad {
				named[finding.About] = finding.Text
			}
		}
		if len(named) != len(want) {
			t.Errorf("%s: %v", where, named)
		}
		for about, sentence := range want {
			if !strings.Contains(named[about], sentence) {
				t.Errorf("%s: of %s it says %q", where, about, named[about])
			}
		}
	}
}
