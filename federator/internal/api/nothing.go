// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"
	"path"

	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
)

// nothingAt says why a request has no operation, nil if it has one. The mux says it in plain text, and sends whoever leaves a name out to
// another path. Which methods a path takes goes into the answer's header. No operation is begun to find out: nobody has said yet for whom.
func nothingAt(writer http.ResponseWriter, mux *http.ServeMux, request *http.Request) error {
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
		writer.Header().Set("Allow", allowed) // which RFC 9110 demands of this status
		return hub.Faultf(answer.status, "there is no %s of %s; it takes %s", spread.Quoted(request.Method), spread.Quoted(request.URL.Path), allowed)
	}
	return hub.Faultf(http.StatusNotFound, "there is nothing at %s; names in a path are not empty, and /openapi.json says which paths there are",
		spread.Quoted(request.URL.Path))
}

// headerOnly takes an answer of which nothing but the header counts.
type headerOnly struct {
	header http.Header
	status int
}

// Header is that of the answer.
func (h *headerOnly) Header() http.Header { return h.header }

// WriteHeader remembers the status.
func (h *headerOnly) WriteHeader(status int) { h.status = status }

// Write forgets the body.
func (h *headerOnly) Write(data []byte) (int, error) { return len(data), nil }
