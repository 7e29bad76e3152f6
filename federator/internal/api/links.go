// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/kubernetsn/kubernetsn/federator/internal/services"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

type linksInput struct {
	NamespaceInput

	Service string `query:"service" maxLength:"30" pattern:"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" patternDescription:"small letters, digits and hyphens" doc:"Only the service with this name and its links."`
}

func (a *API) registerLinks(registry huma.API) {
	serve(a, registry, huma.Operation{
		OperationID: "list-links", Method: http.MethodGet, Path: "/api/v1/links", Tags: []string{"views"},
		Summary: "List services across clusters, and their links",
	}, func(ctx context.Context, s *session, input *linksInput) (*federation.Links, error) {
		return services.List(ctx, s.lister, input.Namespace, input.Service)
	})
}
