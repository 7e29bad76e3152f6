// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

type deployInput struct{ Body federation.DeployRequest }

// NamespaceInput is the input of operations on a namespace, or on all.
type NamespaceInput struct {
	Namespace string `query:"namespace" maxLength:"63" pattern:"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" patternDescription:"small letters, digits and hyphens" doc:"Only what is in this namespace."`
}

// WorkloadInput names a workload.
type WorkloadInput struct {
	Namespace string `path:"namespace" maxLength:"63" pattern:"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" patternDescription:"small letters, digits and hyphens" doc:"Namespace of the workload."`
	Name      string `path:"name" maxLength:"63" pattern:"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" patternDescription:"small letters, digits and hyphens" doc:"Name of the workload."`
}

type moveInput struct {
	WorkloadInput

	Body federation.MoveRequest
}

func (a *API) registerWorkloads(registry huma.API) {
	tags := []string{"workloads"}
	serve(a, registry, huma.Operation{OperationID: "list-workloads", Method: http.MethodGet, Path: "/api/v1/workloads", Tags: tags, Summary: "List workloads and their state"},
		func(ctx context.Context, s *session, input *NamespaceInput) (*federation.Workloads, error) {
			return s.workloads.List(ctx, input.Namespace)
		})
	serve(a, registry, huma.Operation{
		OperationID: "deploy-workload", Method: http.MethodPost, Path: "/api/v1/workloads", Tags: tags, Summary: "Deploy the objects of a manifest to clusters",
		Errors: []int{http.StatusConflict, http.StatusRequestEntityTooLarge},
	}, func(ctx context.Context, s *session, input *deployInput) (*federation.Workload, error) {
		return s.workloads.Deploy(ctx, &input.Body)
	})
	serve(a, registry, huma.Operation{
		OperationID: "get-workload", Method: http.MethodGet, Path: "/api/v1/workloads/{namespace}/{name}", Tags: tags, Summary: "Get a workload",
		Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, s *session, input *WorkloadInput) (*federation.Workload, error) {
		return s.workloads.Get(ctx, input.Namespace, input.Name)
	})
	huma.Register(registry, withLimits(huma.Operation{
		OperationID: "delete-workload", Method: http.MethodDelete, Path: "/api/v1/workloads/{namespace}/{name}", Tags: tags,
		Summary: "Remove a workload from its clusters", Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusGatewayTimeout},
	}), a.deleteWorkload)
	serve(a, registry, huma.Operation{
		OperationID: "move-workload", Method: http.MethodPost, Path: "/api/v1/workloads/{namespace}/{name}/move", Tags: tags, DefaultStatus: http.StatusAccepted,
		Summary: "Move a workload to other clusters; it stays on the old ones until it is ready", Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, s *session, input *moveInput) (*federation.Workload, error) {
		return s.workloads.Move(ctx, input.Namespace, input.Name, &input.Body)
	})
}

func (a *API) deleteWorkload(ctx context.Context, input *WorkloadInput) (*struct{}, error) {
	s, err := a.open(ctx)
	if err == nil {
		err = s.workloads.Delete(ctx, input.Namespace, input.Name)
	}
	if err != nil {
		return nil, problem(err)
	}
	return nil, nil
}
