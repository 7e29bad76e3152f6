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

// Version is the version of the API, which is served at the paths /api/v1.
const Version = "1.0.0"

// API serves requests.
type API struct {
	Hub *hub.Hub
	// Memory is the cache of objects of the hub.
	Memory *hub.Memory
	// Server and CA are the address and the authority by which agents of clusters reach the hub.
	Server string
	CA     []byte
	Now    func() time.Time
	// Audit gets a line for each request.
	Audit *slog.Logger
	// Audiences are the accepted audiences of tokens.
	Audiences []string
	// Reviewer returns the user of a token. If it is nil, the hub is asked.
	Reviewer Reviewer

	busy workloads.Busy
}

// Handler returns the handler of the API and of the probes.
func (a *API) Handler() (http.Handler, error) {
	mux := http.NewServeMux()
	a.register(humago.New(mux, config()))
	mux.HandleFunc("GET /healthz", func(writer http.ResponseWriter, _ *http.Request) { answerProbe(writer, nil) })
	mux.HandleFunc("GET /readyz", func(writer http.ResponseWriter, _ *http.Request) { answerProbe(writer, a.Memory.Ready()) })
	reviewer := a.Reviewer
	if reviewer == nil {
		asks, err := a.Hub.Reviewer(reviewsPerSecond, reviewBurst)
		if err != nil {
			return nil, err
		}
		reviewer = hubReviewer{asks, a.Audiences}
	}
	return &front{reviews: newReviews(reviewer, a.Now), next: mux, audit: a.Audit, now: a.Now}, nil
}

func answerProbe(writer http.ResponseWriter, err error) {
	if err != nil {
		writeError(writer, err)
		return
	}
	_, _ = writer.Write([]byte("ok\n")) // the client may be gone
}

func config() huma.Config {
	// An empty list is encoded as [] in requests and responses.
	huma.DefaultArrayNullable = false
	huma.NewError = newError
	config := huma.DefaultConfig("ktsn-federator", Version)
	config.Info.Description = "Members of a federation, and workloads on them. Requests are carried out at the hub as their callers, so that the hub's RBAC " +
		"decides."
	// The documentation pages would load files from other servers, and responses must not name this server's address.
	config.DocsPath, config.SchemasPath, config.CreateHooks = "", "", nil
	config.RejectUnknownQueryParameters = true
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer", Description: "A token of a ServiceAccount of the hub for the audience of the federator, or another that its option --audience admits."},
	}
	config.Security = []map[string][]string{{"bearer": {}}}
	return config
}

// register adds all operations.
func (a *API) register(registry huma.API) {
	a.registerClusters(registry)
	a.registerWorkloads(registry)
	a.registerViews(registry)
	a.registerLinks(registry)
}

// session has the clients and services for one caller.
type session struct {
	client    client.WithWatch
	lister    hub.Lister
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
	lister := &hub.CachedLister{Memory: a.Memory, Caller: acting, User: user.Username}
	workloadService := &workloads.Service{Client: acting, Lister: lister, FederatorClient: a.Hub.Client, Busy: &a.busy, User: user.Username, Now: a.Now}
	return &session{
		client: acting, lister: lister, workloads: workloadService, clusters: &clusters.Service{Client: acting, FederatorClient: a.Hub.Client, User: user, Server: a.Server, CA: a.CA, Now: a.Now},
		pods: &pods.Finder{Lister: lister, Config: config, Workloads: workloadService},
	}, nil
}

// answer is the body of a response.
type answer[T any] struct{ Body *T }

// serve registers an operation that calls handle for a caller.
func serve[I, O any](a *API, registry huma.API, operation huma.Operation, handle func(ctx context.Context, s *session, input *I) (*O, error)) {
	huma.Register(registry, withLimits(operation), func(ctx context.Context, input *I) (*answer[O], error) {
		s, err := a.open(ctx)
		if err != nil {
			return nil, problem(err)
		}
		body, err := handle(ctx, s, input)
		if err != nil {
			return nil, problem(err)
		}
		return &answer[O]{Body: body}, nil
	})
}

// withLimits adds to an operation the limits and errors that all operations have.
func withLimits(operation huma.Operation) huma.Operation {
	// The front has read the body already; a deadline would end watches.
	operation.MaxBodyBytes, operation.BodyReadTimeout = federation.MaxBody, -1
	operation.Errors = append(operation.Errors, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable)
	return operation
}
