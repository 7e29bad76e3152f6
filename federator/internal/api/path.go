// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"
	"path"

	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
)

// checkPath returns an error if no operation serves the request. The mux itself would respond in plain text, and
// redirect a request with an empty name to another path. The allowed methods are written to the response's header. No
// operation is called, because the caller is not authenticated yet.
func checkPath(writer http.ResponseWriter, mux *http.ServeMux, request *http.Request) error {
	handler, pattern := mux.Handler(request)
	if pattern != "" && path.Clean(request.URL.Path) == request.URL.Path {
		return nil
	}
	answer := &headerOnly{header: http.Header{}}
	if pattern == "" {
		handler.ServeHTTP(answer, request)
	}
	if answer.status == http.StatusMethodNotAllowed {
		allowed := answer.header.Get("Allow")
		writer.Header().Set("Allow", allowed) // required by RFC 9110, section 15.5.6
		return hub.Faultf(answer.status, "there is no %s of %s; it takes %s", spread.Quoted(request.Method), spread.Quoted(request.URL.Path), allowed)
	}
	return hub.Faultf(http.StatusNotFound, "there is nothing at %s; names in a path are not empty, and /openapi.json says which paths there are",
		spread.Quoted(request.URL.Path))
}

// headerOnly records the header and the status of a response and discards the body.
type headerOnly struct {
	header http.Header
	status int
}

// Header returns the header of the response.
func (h *headerOnly) Header() http.Header { return h.header }

// WriteHeader records the status.
func (h *headerOnly) WriteHeader(status int) { h.status = status }

// Write discards the body.
func (h *headerOnly) Write(data []byte) (int, error) { return len(data), nil }
