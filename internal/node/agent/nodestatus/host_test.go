// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/hostcheck"
)

func TestHostReady(t *testing.T) {
	l := newLab(t, &v1alpha1.TSNNetwork{ObjectMeta: metav1.ObjectMeta{Name: "tsn"}})
	dropped := hostcheck.Finding{Reason: hostcheck.ReasonTunnelDropped, Breaks: true, Text: "dropped", Remedy: "accept"}
	note := hostcheck.Finding{Reason: hostcheck.ReasonQdisc, Text: "fq", Remedy: "other"}
	long := hostcheck.Finding{Reason: hostcheck.ReasonReversePath, Breaks: true, Text: strings.Repeat("x", 2000)}
	var status v1alpha1.TSNNodeStatus
	for _, step := range []struct {
		name     string
		findings []hostcheck.Finding
		failure  error
		status   metav1.ConditionStatus
		reason   string
		notes    int
	}{
		{"unknown", nil, nil, "", "", 0},
		{"none", []hostcheck.Finding{}, nil, metav1.ConditionTrue, v1alpha1.ReasonAsAsked, 0},
		{"one that stops traffic", []hostcheck.Finding{note, dropped}, nil, metav1.ConditionFalse, hostcheck.ReasonTunnelDropped, 1},
		{"unknown again", nil, nil, metav1.ConditionFalse, hostcheck.ReasonTunnelDropped, 1},
		{"a long one", []hostcheck.Finding{dropped, long}, nil, metav1.ConditionFalse, hostcheck.ReasonTunnelDropped, 0},
		{"a note", []hostcheck.Finding{note}, nil, metav1.ConditionTrue, v1alpha1.ReasonAsAsked, 1},
		{"not checked", []hostcheck.Finding{note}, errors.New("no answer"), metav1.ConditionUnknown, v1alpha1.ReasonHostUnchecked, 1},
		{"not all checked", []hostcheck.Finding{dropped}, errors.New("no answer"), metav1.ConditionFalse, hostcheck.ReasonTunnelDropped, 0},
	} {
		l.host, l.hostFailure = step.findings, step.failure
		before := status
		l.setHost(&status, &before)
		if len(status.HostFindings) != step.notes {
			t.Errorf("%s: notes %v", step.name, status.HostFindings)
		}
		condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionHostReady)
		switch {
		case condition == nil:
			if step.status != "" {
				t.Errorf("%s: no condition", step.name)
			}
		case condition.Status != step.status || condition.Reason != step.reason || len(condition.Message) > 1024:
			t.Errorf("%s: %+v", step.name, condition)
		}
	}
}
