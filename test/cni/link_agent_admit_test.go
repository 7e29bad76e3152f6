// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// changed changes a link, as the API server has it.
func (l *tsnLinks) changed(name types.NamespacedName, change func(*v1alpha1.TSNLink)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l.objects[name])
}

// admit is what the operator says of a link.
func (l *tsnLinks) admit(name types.NamespacedName, status metav1.ConditionStatus, message string) {
	l.changed(name, func(link *v1alpha1.TSNLink) {
		meta.SetStatusCondition(&link.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionAdmitted, Status: status, Reason: "Test", Message: message,
			ObservedGeneration: link.Generation})
	})
}

func TestHubLinkIsPluggedWhileAdmitted(t *testing.T) {
	t.Parallel()
	lab := newAgentsLab(t)
	client := lab.sandbox(t, lab.a)
	before := lab.a.inventory(t, client)
	object := lab.object("shop-1-hub", newLinked(client, lab.sandbox(t, lab.b), linkVNI))
	object.Labels = map[string]string{v1alpha1.LinkMakerLabel: v1alpha1.MakerFederator}
	lab.links.set(object)
	link := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
	eventually(t, "it waits to be told", func() bool {
		condition := lab.await(t, link, v1alpha1.ConditionClientPlugged, metav1.ConditionFalse)
		return strings.Contains(condition.Message, "has not said yet whether the pods of this cluster have asked for the link")
	})
	lab.links.admit(link, metav1.ConditionTrue, "")
	lab.await(t, link, v1alpha1.ConditionUp, metav1.ConditionTrue)
	lab.links.changed(link, func(link *v1alpha1.TSNLink) { link.Generation++ }) // until that is looked at, the link stays
	lab.links.admit(link, metav1.ConditionFalse, "pod p has no label")
	condition := lab.await(t, link, v1alpha1.ConditionClientPlugged, metav1.ConditionFalse)
	if !strings.Contains(condition.Message, "not what pods of this cluster have asked for: pod p has no label") {
		t.Errorf("it says %q", condition.Message)
	}
	eventually(t, "it is unplugged", func() bool { return len(lab.a.inventory(t, client)) == len(before) })
	checkSame(t, "after the refusal", before, lab.a.inventory(t, client))
	lab.links.admit(link, metav1.ConditionTrue, "")
	lab.await(t, link, v1alpha1.ConditionUp, metav1.ConditionTrue)
}
