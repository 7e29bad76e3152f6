// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// moved is a workload that is on one cluster, and is to move to another.
type moved struct {
	t                               *testing.T
	f                               *running
	k                               *karmada
	token, workload, two, namespace string
}

func newMoved(t *testing.T) *moved {
	t.Helper()
	return newMovedOf(t, deployment("web"))
}

func newMovedOf(t *testing.T, manifest string) *moved {
	t.Helper()
	m := &moved{t: t, f: startFederator(t), token: newAdmin(t), workload: newCluster(t, "Push"), two: newCluster(t, "Push"), namespace: newNamespace(t)}
	m.k = startKarmada(t, m.namespace, m.workload)
	m.f.must(m.token, "POST", "/api/v1/workloads",
		federation.DeployRequest{Name: "web", Namespace: m.namespace, Manifest: manifest, Clusters: []string{m.workload}}, nil)
	eventually(t, "it is on the first cluster", func() bool { return len(m.k.seen()) > 0 && m.state().Objects[0].Clusters != nil })
	return m
}

func (m *moved) path() string { return "/api/v1/workloads/" + m.namespace + "/web" }

// begin requests the move.
func (m *moved) begin(seconds int32) {
	m.t.Helper()
	m.f.must(m.token, "POST", m.path()+"/move", federation.MoveRequest{To: []string{m.two}, TimeoutSeconds: seconds}, nil)
}

func (m *moved) state() *federation.Workload {
	m.t.Helper()
	var workload federation.Workload
	m.f.must(m.token, "GET", m.path(), nil, &workload)
	return &workload
}

func (m *moved) await(phase string) *federation.Workload {
	m.t.Helper()
	var workload *federation.Workload
	eventually(m.t, "the move is "+phase, func() bool {
		workload = m.state()
		return workload.Move != nil && workload.Move.Phase == phase
	})
	return workload
}

// keepsAgain reports whether the policy says that clusters keep objects that the hub deletes.
func (m *moved) keepsAgain() bool {
	m.t.Helper()
	var policy policyv1alpha1.PropagationPolicy
	get(m.t, m.namespace, "web", &policy)
	return *policy.Spec.PreserveResourcesOnDeletion
}

func TestMovePlacesBeforeItRemoves(t *testing.T) {
	m := newMoved(t)
	m.begin(60)
	eventually(t, "the new cluster is awaited", func() bool {
		workload := m.state()
		return workload.Move.Phase == federation.MovePlacing && strings.Contains(workload.Move.Message, "0 of 2 pods ready in cluster "+m.two)
	})
	if workload := m.state(); !slices.Equal(workload.Clusters, []string{m.workload, m.two}) {
		t.Errorf("it is on %v while the new one is awaited", workload.Clusters)
	}
	m.f.refused(m.token, "POST", m.path()+"/move", federation.MoveRequest{To: []string{m.workload}}, http.StatusConflict, "is moving to "+m.two)
	m.f.refused(m.token, "POST", "/api/v1/workloads",
		federation.DeployRequest{Name: "web", Namespace: m.namespace, Manifest: deployment("web"), Clusters: []string{m.workload, m.two}}, http.StatusConflict, "is moving")
	m.begin(60) // the same move continues
	m.k.heal(m.two)
	currentWorkload := m.await(federation.MoveDone)
	if !slices.Equal(currentWorkload.Clusters, []string{m.two}) || !strings.Contains(currentWorkload.Move.By, "user-") {
		t.Errorf("it is on %v, moved by %q", currentWorkload.Clusters, currentWorkload.Move.By)
	}
	if removed, kept := m.k.became(); !slices.Equal(removed, []string{m.workload}) || len(kept) > 0 {
		t.Errorf("clusters %v removed it, %v kept it", removed, kept)
	}
	if want := []string{"web: " + m.workload, "web: " + m.workload + "," + m.two, "web: " + m.two}; !slices.Equal(m.k.seen(), want) {
		t.Errorf("placed on %v, want %v", m.k.seen(), want)
	}
	if !m.keepsAgain() {
		t.Error("the policy does not preserve any more")
	}
}

func TestFailedMoveIsReverted(t *testing.T) {
	m := newMoved(t)
	m.begin(5)
	workload := m.await(federation.MoveFailed)
	if !slices.Equal(workload.Clusters, []string{m.workload}) || !strings.Contains(workload.Move.Message, "not ready on "+m.two+" within 5s") ||
		!strings.Contains(workload.Move.Message, "it stays on "+m.workload) {
		t.Errorf("it is on %v: %q", workload.Clusters, workload.Move.Message)
	}
	if removed, kept := m.k.became(); !slices.Equal(removed, []string{m.two}) || len(kept) > 0 {
		t.Errorf("clusters %v removed it, %v kept it", removed, kept)
	}
	if !m.keepsAgain() {
		t.Error("the policy does not preserve any more")
	}
	m.k.heal(m.two)
	m.begin(60)
	m.await(federation.MoveDone)
}

// job returns a manifest of a kind whose pods Karmada does not judge.
const job = `apiVersion: batch/v1
kind: Job
metadata: {name: web}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: registry.example.org/main}]}
`

func TestMoveWaitsForPodsOfAnyKind(t *testing.T) {
	m := newMovedOf(t, job)
	m.begin(60)
	awaited := func(words string) {
		t.Helper()
		eventually(t, "what is awaited is told", func() bool {
			workload := m.state()
			return workload.Move.Phase == federation.MovePlacing && strings.Contains(workload.Move.Message, words)
		})
	}
	awaited("cluster " + m.two + " has not reported whether the pods of Job web are ready")
	m.k.say(m.two, `{"total":0,"ready":0}`)
	awaited("Job web has no pods in cluster " + m.two)
	m.k.say(m.two, `{"total":2,"ready":0,"pods":[{"name":"a","phase":"Succeeded","ready":false},{"name":"b","phase":"Pending","ready":false}]}`)
	awaited("1 of 2 pods of Job web are ready in cluster " + m.two)
	m.k.say(m.two, `{"total":2,"ready":1,"pods":[{"name":"a","phase":"Succeeded","ready":false},{"name":"b","phase":"Running","ready":true}]}`)
	m.await(federation.MoveDone)
}

func TestMoveContinuesAfterRestart(t *testing.T) {
	m := newMoved(t)
	m.begin(60)
	m.await(federation.MovePlacing)
	m.f.stop()
	m.k.heal(m.two)
	eventually(t, "it is on both without a federator", func() bool {
		seen := m.k.seen()
		return seen[len(seen)-1] == "web: "+m.workload+","+m.two
	})
	m.f = startFederator(t)
	m.await(federation.MoveDone)
	if removed, kept := m.k.became(); !slices.Equal(removed, []string{m.workload}) || len(kept) > 0 {
		t.Errorf("clusters %v removed it, %v kept it", removed, kept)
	}
}

func TestMoveToUnknownClusterIsRejected(t *testing.T) {
	m := newMoved(t)
	m.f.refused(m.token, "POST", m.path()+"/move", federation.MoveRequest{To: []string{"nowhere"}}, http.StatusUnprocessableEntity, "there is no cluster nowhere")
	m.f.refused(m.token, "POST", m.path()+"x/move", federation.MoveRequest{To: []string{m.two}}, http.StatusNotFound, "there is no workload")
	if workload := m.state(); workload.Move != nil || !slices.Equal(workload.Clusters, []string{m.workload}) {
		t.Errorf("it is on %v, %+v", workload.Clusters, workload.Move)
	}
}
