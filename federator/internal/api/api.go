// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/federator/internal/clusters"
	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/federator/internal/pods"
	"github.com/kubernetsn/kubernetsn/federator/internal/workloads"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// Version of the API: that of the paths /api/v1.
const Version = "1.0.0"

// API answers requests.
type API struct {
	Hub *hub.Hub
	// Memory is what is kept of the hub.
	Memory *hub.Memory
	// Server and CA are how agents of clusters reach the hub.
	Server string
	CA     []byte
	Now    func() time.Time
	// Audit has a line for each request.
	Audit *slog.Logger
	// Audiences are those of the tokens that are accepted.
	Audiences []string
	// Reviewer tells whose a token is; nil: the hub does.
	Reviewer Reviewer

	busy workloads.Busy
}

// Handler is all of it.
func (a *API) Handler() (http.Handler, error) {
	mux := http.NewServeMux()
	a.register(humago.New(mux, config()))
	mux.HandleFunc("GET /healthz", func(writer http.ResponseWriter, _ *http.Request) { probed(writer, nil) })
	mux.HandleFunc("GET /readyz", func(writer http.ResponseWriter, _ *http.Request) { probed(writer, a.Memory.Ready()) })
	reviewer := a.Reviewer
	if reviewer == nil {
		asks, err := a.Hub.Reviewer(reviewsPerSecond, reviewBurst)
		if err != nil {
			return nil, err
		}
		reviewer = hubReviewer{asks, a.Audiences}
	}
	return &front{reviews: newReviews(reviewer, a.Now), behind: mux, audit: a.Audit, now: a.Now}, nil
}

// probed answers a probe.
func probed(writer http.ResponseWriter, err error) {
	if err != nil {
		refuse(writer, err)
		return
	}
	_, _ = writer.Write([]byte("ok\n")) // to who may be gone
}

func config() huma.Config {
	// A list without members is [], in requests and answers.
	huma.DefaultArrayNullable = false
	huma.NewError = newError
	config := huma.DefaultConfig("ktsn-federator", Version)
	config.Info.Description = "Clusters that act together: who is a member, what runs where, and how it moves. All is done at the hub as whoever sends the request, and " +
		"the hub's RBAC decides."
	// The pages that show the document would come from elsewhere, and answers shall not name this server's address.
	config.DocsPath, config.SchemasPath, config.CreateHooks = "", "", nil
	config.RejectUnknownQueryParameters = true
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer", Description: "A token of a ServiceAccount of the hub for the audience of the federator, or another that its option --audience admits."},
	}
	config.Security = []map[string][]string{{"bearer": {}}}
	return config
}

// register makes all operations.
func (a *API) register(to huma.API) {
	a.registerClusters(to)
	a.registerWorkloads(to)
	a.registerViews(to)
	a.registerLinks(to)
}

// Document is the OpenAPI document, which depends on nothing but the types.
func Document() ([]byte, error) {
	mux := http.NewServeMux()
	api := humago.New(mux, config())
	(&API{}).register(api)
	return api.OpenAPI().MarshalJSON()
}

// session is what is needed to serve one caller.
type session struct {
	client    client.WithWatch
	kept      hub.Lister
	clusters  *clusters.Service
	workloads *workloads.Service
	pods      *pods.Finder
}

func (a *API) open(ctx context.Context) (*session, error) {
	user := caller(ctx)
	config, err := a.Hub.Impersonated(user)
	if err != nil {
		return nil, err
	}
	acting, err := a.Hub.As(user)
	if err != nil {
		return nil, err
	}
	kept := &hub.Kept{Memory: a.Memory, Caller: acting, User: user.Username}
	w := &workloads.Service{Client: acting, Kept: kept, Own: a.Hub.Own, Busy: &a.busy, User: user.Username, Now: a.Now}
	return &session{
		client: acting, kept: kept, workloads: w, clusters: &clusters.Service{Client: acting, Own: a.Hub.Own, User: user, Server: a.Server, CA: a.CA, Now: a.Now},
		pods: &pods.Finder{Kept: kept, Config: config, Workloads: w},
	}, nil
}

// answer is the body of an answer.
type answer[T any] struct{ Body *T }

// serve makes an operation of a function that serves a caller.
func serve[I, O any](a *API, to huma.API, operation huma.Operation, do func(ctx context.Context, s *session, input *I) (*O, error)) {
	huma.Register(to, bounded(operation), func(ctx context.Context, input *I) (*answer[O], error) {
		s, err := a.open(ctx)
		if err != nil {
			return nil, problem(err)
		}
		body, err := do(ctx, s, input)
		if err != nil {
			return nil, problem(err)
		}
		return &answer[O]{Body: body}, nil
	})
}

// bounded is an operation with what all have.
func bounded(operation huma.Operation) huma.Operation {
	// The front has read the body; a deadline would end what is watched.
	operation.MaxBodyBytes, operation.BodyReadTimeout = federation.MaxBody, -1
	operation.Errors = append(operation.Errors, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable)
	return operation
}
