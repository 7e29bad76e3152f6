// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"fmt"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// agentRoles returns the rights of a cluster's agent at the hub, under the names that `karmadactl register` gives them.
// They are narrower: the agent does not create or change Clusters, because the hub creates its Cluster, and writes no
// Secrets. Karmada's API server accepts changes of the whole Cluster together with its status, so this protects against
// mistakes of an agent, not against malice.
func agentRoles(cluster string) []client.Object {
	name := fmt.Sprintf("system:karmada:%s:agent", cluster)
	local := []string{cluster}
	return []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"cluster.karmada.io"}, Resources: []string{"clusters"}, ResourceNames: local, Verbs: []string{"get", "delete"}},
			{APIGroups: []string{"cluster.karmada.io"}, Resources: []string{"clusters"}, Verbs: []string{"list", "watch"}},
			{APIGroups: []string{"cluster.karmada.io"}, Resources: []string{"clusters/status"}, ResourceNames: local, Verbs: []string{"update"}},
			{APIGroups: []string{"config.karmada.io"}, Resources: []string{"resourceinterpreterwebhookconfigurations", "resourceinterpretercustomizations"},
				Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
			{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"get", "create"}},
			{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"list", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"patch", "create", "update"}},
		}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: reference("ClusterRole", name), Subjects: agent(cluster)},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: hub.ExecutionNamespace(cluster), Name: name + "-work"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"work.karmada.io"}, Resources: []string{"works"}, Verbs: []string{"get", "create", "list", "watch", "update", "delete"}},
			{APIGroups: []string{"work.karmada.io"}, Resources: []string{"works/status"}, Verbs: []string{"patch", "update"}},
		}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: hub.ExecutionNamespace(cluster), Name: name + "-work"},
			RoleRef: reference("Role", name+"-work"), Subjects: agent(cluster)},
		// The heartbeat and the leader election of the agent. In shared namespaces it could take the leases of the
		// hub's own programs. RBAC cannot limit `create` to names: with that verb an agent could take the leases of
		// clusters that have not joined yet.
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: hub.ClusterNamespace, Name: name + "-lease"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: agentLeases(cluster), Verbs: []string{"get", "update"}},
		}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: hub.ClusterNamespace, Name: name + "-lease"},
			RoleRef: reference("Role", name+"-lease"), Subjects: agent(cluster)},
	}
}

// agentLeases returns the names of the Leases of a cluster's agent: the heartbeat, and the leader election of its
// replicas.
func agentLeases(cluster string) []string { return []string{cluster, "karmada-agent-" + cluster} }

func reference(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

func agent(cluster string) []rbacv1.Subject {
	return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: federation.AgentUser + cluster}}
}

// ensureRoles creates the roles. The Cluster owns them; they are removed after its agent has cleaned up.
func (s *Service) ensureRoles(ctx context.Context, cluster *v1alpha1.Cluster) error {
	for _, object := range agentRoles(cluster.Name) {
		object.SetLabels(map[string]string{hub.SystemLabel: hub.SystemValue, federation.ManagedBy: federation.Manager})
		object.SetOwnerReferences(ownedBy(cluster))
		err := s.Client.Create(ctx, object)
		if apierrors.IsAlreadyExists(err) {
			err = s.Client.Update(ctx, object)
		}
		if err != nil {
			return fmt.Errorf("create the roles of the agent of cluster %s: %w", cluster.Name, err)
		}
	}
	return s.ensureLeases(ctx, cluster)
}

// ensureLeases creates the Leases that the agent may only read and update. A Lease of the same name that does not
// belong to this Cluster is replaced, because the agent would wait for its holder. It must not be called for a member
// whose agent runs.
func (s *Service) ensureLeases(ctx context.Context, cluster *v1alpha1.Cluster) error {
	for _, name := range agentLeases(cluster.Name) {
		// Karmada compares the times of two renewals, and never counts one that follows a Lease without a time.
		wanted := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: hub.ClusterNamespace, Name: name, OwnerReferences: ownedBy(cluster),
				Labels: map[string]string{hub.SystemLabel: hub.SystemValue, federation.ManagedBy: federation.Manager}},
			Spec: coordinationv1.LeaseSpec{RenewTime: ptr.To(metav1.NewMicroTime(s.Now()))},
		}
		err := s.Client.Create(ctx, wanted.DeepCopy())
		if apierrors.IsAlreadyExists(err) {
			err = s.replaceLease(ctx, wanted)
		}
		if err != nil {
			return fmt.Errorf("create Lease %s of the agent of cluster %s: %w", name, cluster.Name, err)
		}
	}
	return nil
}

// replaceLease replaces a Lease, unless it has the same owner already.
func (s *Service) replaceLease(ctx context.Context, wanted *coordinationv1.Lease) error {
	existing := &coordinationv1.Lease{}
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(wanted), existing); err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(existing.OwnerReferences, wanted.OwnerReferences) {
		return nil
	}
	if err := client.IgnoreNotFound(s.Client.Delete(ctx, existing)); err != nil {
		return err
	}
	return s.Client.Create(ctx, wanted)
}
