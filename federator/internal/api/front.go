// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/federator/internal/spread"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// front limits requests, authenticates their callers and logs each request before it passes them to the API.
type front struct {
	reviews *reviews
	next    *http.ServeMux
	audit   *slog.Logger
	now     func() time.Time
}

// open are paths that are served without authentication and tell nothing of the hub.
var open = map[string]bool{"/openapi.json": true, "/openapi.yaml": true, "/healthz": true, "/readyz": true}

func (f *front) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	if open[request.URL.Path] {
		f.next.ServeHTTP(writer, request)
		return
	}
	seen := &responseRecorder{ResponseWriter: writer}
	// A request that ends in a panic is logged as well.
	defer f.logRequest(seen, request, f.now())
	f.serve(seen, request)
}

// logRequest logs a request and its result. The query contains names and no secrets.
func (f *front) logRequest(seen *responseRecorder, request *http.Request, began time.Time) {
	fields := []any{"user", seen.user, "method", spread.Quoted(request.Method), "path", spread.Quoted(request.URL.Path), "status", seen.status, "from", request.RemoteAddr,
		"milliseconds", f.now().Sub(began).Milliseconds()}
	if request.URL.RawQuery != "" {
		fields = append(fields, "query", spread.Quoted(request.URL.RawQuery))
	}
	f.audit.Info("request", append(fields, seen.subject.fields()...)...)
}

func (f *front) serve(writer *responseRecorder, request *http.Request) {
	user, err := identify(request, f.reviews)
	if err != nil {
		writeError(writer, err)
		return
	}
	writer.user = user.Username
	body, err := readBody(request)
	if err != nil {
		writeError(writer, err)
		return
	}
	writer.subject = subjectOf(body)
	if err := checkPath(writer, f.next, request); err != nil {
		writeError(writer, err)
		return
	}
	// The request has been read; a watch has no deadline.
	_ = http.NewResponseController(writer).SetReadDeadline(time.Time{})
	f.next.ServeHTTP(writer, request.WithContext(context.WithValue(request.Context(), userKey{}, *user)))
}

// subject is the object that a request is about, if the path does not name it.
type subject struct {
	Name      string   `json:"name"`
	Namespace string   `json:"namespace"`
	Clusters  []string `json:"clusters"`
	To        []string `json:"to"`
}

// subjectOf reads the subject from a body, if the body is valid.
func subjectOf(body []byte) (result subject) {
	_ = json.Unmarshal(body, &result) // the API says what is wrong
	return result
}

// fields returns the fields for the log, without empty ones.
func (s *subject) fields() []any {
	var all []any
	for _, row := range []struct{ key, value string }{
		{"name", s.Name}, {"namespace", s.Namespace}, {"clusters", strings.Join(s.Clusters, ",")}, {"to", strings.Join(s.To, ",")},
	} {
		if row.value != "" {
			all = append(all, row.key, spread.Quoted(row.value))
		}
	}
	return all
}

// readBody reads the body of a request. It fails if the body is too large.
func readBody(request *http.Request) ([]byte, error) {
	if request.ContentLength > federation.MaxBody {
		return nil, tooLarge()
	}
	body, err := io.ReadAll(io.LimitReader(request.Body, federation.MaxBody+1))
	switch {
	case err != nil:
		return nil, hub.Faultf(http.StatusBadRequest, "the request cannot be read: %v", err)
	case len(body) > federation.MaxBody:
		return nil, tooLarge()
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	return body, nil
}

func tooLarge() error {
	return hub.Faultf(http.StatusRequestEntityTooLarge, "the request is larger than %d bytes; divide the manifest among several workloads", federation.MaxBody)
}

// writeError responds to a request that does not reach the API.
func writeError(writer http.ResponseWriter, err error) {
	var answer *huma.ErrorModel
	if !errors.As(problem(err), &answer) {
		answer = &huma.ErrorModel{Status: http.StatusInternalServerError, Detail: err.Error()}
	}
	if answer.Status == http.StatusUnauthorized {
		writer.Header().Set("WWW-Authenticate", "Bearer")
	}
	if answer.Status == http.StatusTooManyRequests {
		writer.Header().Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
	}
	writer.Header().Set("Content-Type", "application/problem+json")
	writer.WriteHeader(answer.Status)
	_ = json.NewEncoder(writer).Encode(answer) // the client may be gone
}

// responseRecorder records the caller and the status of the response.
type responseRecorder struct {
	http.ResponseWriter

	user    string
	subject subject
	status  int
}

// WriteHeader records the status.
func (o *responseRecorder) WriteHeader(status int) {
	if o.status == 0 {
		o.status = status
	}
	o.ResponseWriter.WriteHeader(status)
}

// Write records status 200 if no status was written.
func (o *responseRecorder) Write(data []byte) (int, error) {
	if o.status == 0 {
		o.status = http.StatusOK
	}
	return o.ResponseWriter.Write(data)
}

// Unwrap serves http.ResponseController.
func (o *responseRecorder) Unwrap() http.ResponseWriter { return o.ResponseWriter }
