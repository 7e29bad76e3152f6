// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// asAgent returns a client with the certificate of a cluster's agent.
func asAgent(t *testing.T, cluster string) *kubernetes.Clientset {
	t.Helper()
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{UserName: federation.AgentUser + cluster, Groups: []string{federation.AgentGroup}}
	clientset, err := kubernetes.NewForConfig(as)
	if err != nil {
		t.Fatal(err)
	}
	return clientset
}

// leads reports whether an agent becomes the leader of its replicas in time.
func leads(t *testing.T, agent *kubernetes.Clientset, cluster string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	led := false
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: "karmada-cluster", Name: "karmada-agent-" + cluster}, Client: agent.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: "replica"}},
		LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: time.Second / 2,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { led = true; cancel() }, OnStoppedLeading: func() {}},
	})
	return led
}

func TestAgentRenewsLeasesButCreatesNone(t *testing.T) {
	f, token, name, later := startFederator(t), newAdmin(t), unique("agent"), unique("later")
	f.must(token, "POST", "/api/v1/clusters", federation.JoinRequest{Name: name, ID: name}, nil)
	agent := asAgent(t, name)
	leases := agent.CoordinationV1().Leases("karmada-cluster")
	for _, lease := range []string{later, "karmada-agent-" + later, name, "another"} {
		createdLease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: lease}}
		if _, err := leases.Create(t.Context(), createdLease, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("the agent creates Lease %s: %v", lease, err)
		}
	}
	if !leads(t, agent, name) {
		t.Error("the agent does not become the leader of its replicas")
	}
	beat, err := leases.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Karmada counts a renewal if its time is later than the previous one.
	now := metav1.NewMicroTime(time.Now())
	if !beat.Spec.RenewTime.Before(&now) || len(beat.OwnerReferences) != 1 || beat.OwnerReferences[0].Name != name {
		t.Errorf("the Lease of the heartbeat is %+v", beat)
	}
	beat.Spec.RenewTime, beat.Spec.HolderIdentity = &now, &name
	if _, err := leases.Update(t.Context(), beat, metav1.UpdateOptions{}); err != nil {
		t.Errorf("the agent renews its heartbeat: %v", err)
	}
	// Repeating the join leaves the Leases of a member unchanged.
	f.must(token, "POST", "/api/v1/clusters", federation.JoinRequest{Name: name, ID: name}, nil)
	if again, err := leases.Get(t.Context(), name, metav1.GetOptions{}); err != nil || again.UID != beat.UID {
		t.Errorf("after another join the Lease is %+v: %v", again, err)
	}
}

func TestJoinReplacesForeignLeases(t *testing.T) {
	f, token, name := startFederator(t), newAdmin(t), unique("agent")
	f.must(token, "POST", "/api/v1/clusters", federation.JoinRequest{Name: unique("first"), ID: name + "-first"}, nil) // creates the namespace
	taken := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-cluster", Name: "karmada-agent-" + name}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("stranger"), LeaseDurationSeconds: ptr.To[int32](2147483647), RenewTime: ptr.To(metav1.NewMicroTime(time.Now()))}}
	create(t, taken)
	f.must(token, "POST", "/api/v1/clusters", federation.JoinRequest{Name: name, ID: name}, nil)
	if !leads(t, asAgent(t, name), name) {
		t.Error("the agent waits for a stranger's Lease")
	}
}
