// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/sse"

	"github.com/kubernetsn/kubernetsn/federator/internal/journal"
	"github.com/kubernetsn/kubernetsn/federator/internal/networks"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

type podsInput struct {
	NamespaceInput

	Workload string `query:"workload" maxLength:"63" pattern:"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" patternDescription:"small letters, digits and hyphens" doc:"Only the pods of the workload with this name."`
}

func (a *API) registerViews(registry huma.API) {
	tags := []string{"views"}
	serve(a, registry, huma.Operation{OperationID: "list-pods", Method: http.MethodGet, Path: "/api/v1/pods", Tags: tags, Summary: "List pods, and the clusters where they run"},
		func(ctx context.Context, s *session, input *podsInput) (*federation.Pods, error) {
			return s.pods.Where(ctx, input.Namespace, input.Workload)
		})
	serve(a, registry, huma.Operation{OperationID: "list-networks", Method: http.MethodGet, Path: "/api/v1/networks", Tags: tags, Summary: "List networks, and the subnets of clusters"},
		func(ctx context.Context, s *session, _ *struct{}) (*federation.Networks, error) {
			return networks.List(ctx, s.lister)
		})
	serve(a, registry, huma.Operation{OperationID: "list-events", Method: http.MethodGet, Path: "/api/v1/events", Tags: tags, Summary: "List events of the hub, newest first"},
		func(ctx context.Context, s *session, input *NamespaceInput) (*federation.Events, error) {
			return journal.Events(ctx, s.client, input.Namespace)
		})
	sse.Register(registry, withLimits(huma.Operation{OperationID: "watch", Method: http.MethodGet, Path: "/api/v1/watch", Tags: tags, Summary: "Watch objects, as server-sent events"}),
		map[string]any{"change": federation.Change{}, "problem": federation.Problem{}}, a.watch)
}

// watch sends changes until the caller disconnects or the hub ends the watch. An error is sent as the last event.
func (a *API) watch(ctx context.Context, input *NamespaceInput, send sse.Sender) {
	s, err := a.open(ctx)
	if err == nil {
		err = journal.Watch(ctx, s.client, input.Namespace, func(change *federation.Change) error { return send.Data(change) })
	}
	if err != nil && ctx.Err() == nil {
		status := statusOf(err)
		_ = send.Data(federation.Problem{Title: http.StatusText(status), Status: status, Detail: err.Error()}) // the caller may be gone
	}
}
