// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/clusters"
	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

type joinInput struct{ Body federation.JoinRequest }

type unjoinInput struct {
	Name  string `path:"name" maxLength:"48" pattern:"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" patternDescription:"small letters, digits and hyphens" doc:"Name of the cluster."`
	Force bool   `query:"force" doc:"Remove the cluster although workloads are on it alone. They stay on it, and belong to it alone."`
}

type certificateInput struct {
	Name string `path:"name" maxLength:"48" pattern:"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" patternDescription:"small letters, digits and hyphens" doc:"Name of the cluster."`
	Body federation.CertificateRequest
}

func (a *API) registerClusters(registry huma.API) {
	tags := []string{"clusters"}
	serve(a, registry, huma.Operation{OperationID: "list-clusters", Method: http.MethodGet, Path: "/api/v1/clusters", Tags: tags, Summary: "List the members"},
		func(ctx context.Context, s *session, _ *struct{}) (*federation.Clusters, error) {
			return s.clusters.List(ctx)
		})
	serve(a, registry, huma.Operation{
		OperationID: "join-cluster", Method: http.MethodPost, Path: "/api/v1/clusters", Tags: tags, Summary: "Make a cluster a member",
		DefaultStatus: http.StatusCreated, Errors: []int{http.StatusConflict},
	}, func(ctx context.Context, s *session, input *joinInput) (*federation.Joined, error) {
		return s.clusters.Join(ctx, &input.Body)
	})
	serve(a, registry, huma.Operation{
		OperationID: "certify-agent", Method: http.MethodPost, Path: "/api/v1/clusters/{name}/certificate", Tags: tags,
		Summary: "Get the certificate of a member's agent signed", Errors: []int{http.StatusGatewayTimeout},
	}, func(ctx context.Context, s *session, input *certificateInput) (*federation.Certificate, error) {
		return s.clusters.Certificate(ctx, input.Name, &input.Body)
	})
	serve(a, registry, huma.Operation{
		OperationID: "unjoin-cluster", Method: http.MethodDelete, Path: "/api/v1/clusters/{name}", Tags: tags, Summary: "Drain and remove a member",
		Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusGatewayTimeout},
	}, unjoin)
}

// unjoin drains a member and removes it. If the member is being removed already, unjoin does not drain it, but waits
// for the removal and reports its progress.
func unjoin(ctx context.Context, s *session, input *unjoinInput) (*federation.Unjoined, error) {
	cluster, err := s.clusters.Get(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	shared, alone, err := s.workloads.On(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	leaving := cluster.DeletionTimestamp != nil
	if len(alone) > 0 && !input.Force && !leaving {
		return nil, hub.Faultf(http.StatusConflict, "workloads are on cluster %s alone: %s; move or delete them, or leave them there with force", input.Name, spread.Names(alone))
	}
	unjoined := &federation.Unjoined{Cluster: input.Name, Drained: []string{}, Left: []string{}}
	if input.Force || leaving {
		unjoined.Left = append(append(unjoined.Left, alone...), shared...)
	} else {
		unjoined.Drained = append(unjoined.Drained, shared...)
		if err := s.workloads.Drain(ctx, input.Name, shared); err != nil {
			return nil, err
		}
	}
	removal, err := s.clusters.Remove(ctx, cluster)
	if err != nil {
		return nil, err
	}
	unjoined.Message = removalMessage(cluster, removal)
	return unjoined, nil
}

// removalMessage describes the result of the removal of a member.
func removalMessage(cluster *v1alpha1.Cluster, removal *clusters.Removal) string {
	text := "cluster " + cluster.Name + " has left"
	if !removal.Left {
		text = fmt.Sprintf("Karmada still removes cluster %s, which has %d of the objects that the hub gave it; the same command waits for it again", cluster.Name, removal.Given)
	}
	if removal.Since != nil {
		text = fmt.Sprintf("cluster %s was being removed already, since %s; %s", cluster.Name, removal.Since.UTC().Format(time.RFC3339), text)
	}
	text += "; what was left on it stays there, and belongs to it alone"
	if removal.Left {
		text += "; " + rightsRemovalHint(cluster.Spec.SyncMode)
	}
	if len(removal.Kept) > 0 {
		text += fmt.Sprintf("; it has not removed its ends of links over clusters: remove there, if it has them, the TSNLinks %s; "+
			"`kubectl delete tsnlinks -A -l %s=%s` removes there all that the hub has made", spread.Names(removal.Kept), tsn.LinkMakerLabel, tsn.MakerFederator)
	}
	return text
}

// rightsRemovalHint returns how to remove the rights that the hub had in a cluster, which the hub itself may not do.
// The account is removed before its policy: without the policy the hub could write any ConfigMap in the namespace of
// KuberneTSN.
func rightsRemovalHint(mode v1alpha1.ClusterSyncMode) string {
	const inNamespaces, everywhere = "serviceaccount,rolebinding,role", "clusterrolebinding,clusterrole,validatingadmissionpolicybinding,validatingadmissionpolicy"
	remove, rights := "remove there", "NAMESPACE.NAME of the account whose token the hub had"
	if mode == v1alpha1.Pull {
		remove, rights = "remove there karmada-agent, by `kubectl delete namespace karmada-system`, and then", federation.AgentRights
	}
	return fmt.Sprintf("%s the rights of the hub: `kubectl delete %s -A -l %s=RIGHTS` and then `kubectl delete %s -l %s=RIGHTS`, where RIGHTS is %s",
		remove, inNamespaces, federation.RightsLabel, everywhere, federation.RightsLabel, rights)
}
