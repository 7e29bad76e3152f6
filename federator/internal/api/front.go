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

// front stands before the API: it bounds requests, finds out who asks, and writes a line for each request.
type front struct {
	reviews *reviews
	behind  *http.ServeMux
	audit   *slog.Logger
	now     func() time.Time
}

// open are paths that tell nothing of the hub.
var open = map[string]bool{"/openapi.json": true, "/openapi.yaml": true, "/healthz": true, "/readyz": true}

// ServeHTTP answers a request.
func (f *front) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	if open[request.URL.Path] {
		f.behind.ServeHTTP(writer, request)
		return
	}
	seen := &observed{ResponseWriter: writer}
	// Also of a request that ends in a panic there is a line.
	defer f.note(seen, request, f.now())
	f.serve(seen, request)
}

// note writes a line of what was asked for and what became of it. The query has names and no secrets.
func (f *front) note(seen *observed, request *http.Request, began time.Time) {
	fields := []any{"user", seen.user, "method", spread.Quoted(request.Method), "path", spread.Quoted(request.URL.Path), "status", seen.status, "from", request.RemoteAddr,
		"milliseconds", f.now().Sub(began).Milliseconds()}
	if request.URL.RawQuery != "" {
		fields = append(fields, "query", spread.Quoted(request.URL.RawQuery))
	}
	f.audit.Info("request", append(fields, seen.subject.fields()...)...)
}

func (f *front) serve(writer *observed, request *http.Request) {
	user, err := identify(request, f.reviews)
	if err != nil {
		refuse(writer, err)
		return
	}
	writer.user = user.Username
	body, err := bound(request)
	if err != nil {
		refuse(writer, err)
		return
	}
	writer.subject = subjectOf(body)
	if err := nothingAt(writer, f.behind, request); err != nil {
		refuse(writer, err)
		return
	}
	// The request has been read; what is watched may take as long as it likes.
	_ = http.NewResponseController(writer).SetReadDeadline(time.Time{})
	f.behind.ServeHTTP(writer, request.WithContext(context.WithValue(request.Context(), userKey{}, *user)))
}

// subject is what a request says that it is about, where its path does not.
type subject struct {
	Name      string   `json:"name"`
	Namespace string   `json:"namespace"`
	Clusters  []string `json:"clusters"`
	To        []string `json:"to"`
}

// subjectOf reads it, if the body can be read.
func subjectOf(body []byte) (result subject) {
	_ = json.Unmarshal(body, &result) // the API says what is wrong
	return result
}

// fields are those for a line, without what is empty.
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

// bound reads the body of a request, unless it is too large.
func bound(request *http.Request) ([]byte, error) {
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

// refuse answers a request that does not reach the API.
func refuse(writer http.ResponseWriter, err error) {
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
	_ = json.NewEncoder(writer).Encode(answer) // to a client that may be gone
}

// observed remembers who asked for what, and the status of the answer.
type observed struct {
	http.ResponseWriter

	user    string
	subject subject
	status  int
}

// WriteHeader remembers the status.
func (o *observed) WriteHeader(status int) {
	if o.status == 0 {
		o.status = status
	}
	o.ResponseWriter.WriteHeader(status)
}

// Write answers with 200 if no status was written.
func (o *observed) Write(data []byte) (int, error) {
	if o.status == 0 {
		o.status = http.StatusOK
	}
	return o.ResponseWriter.Write(data)
}

// Unwrap is for http.ResponseController.
func (o *observed) Unwrap() http.ResponseWriter { return o.ResponseWriter }
