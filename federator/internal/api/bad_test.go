// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"

	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// acceptAll accepts every token.
type acceptAll struct{}

func (acceptAll) Review(context.Context, string) (*authenticationv1.UserInfo, error) {
	return &authenticationv1.UserInfo{Username: "anybody"}, nil
}

// requestCounter counts requests to a hub, and fails all.
type requestCounter struct{ count int }

func (a *requestCounter) RoundTrip(*http.Request) (*http.Response, error) {
	a.count++
	return nil, context.DeadlineExceeded
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// newHandlerWithoutHub returns the API of a federator whose hub must not get requests.
func newHandlerWithoutHub(t *testing.T) (http.Handler, *requestCounter) {
	t.Helper()
	counter := &requestCounter{}
	hubClient, err := hub.Open(&rest.Config{Host: "https://hub.example.org", Transport: counter})
	if err != nil {
		t.Fatal(err)
	}
	api := &API{Hub: hubClient, Now: time.Now, Audit: discard(), Reviewer: acceptAll{}}
	handler, err := api.Handler()
	if err != nil {
		t.Fatal(err)
	}
	return handler, counter
}

func send(handler http.Handler, method, path, body string) (status int, text string) {
	request := httptest.NewRequest(method, path, strings.NewReader(body))
	request.Header.Set("Authorization", "Bearer token")
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	if (answer.Code == http.StatusMethodNotAllowed) != (answer.Header().Get("Allow") != "") {
		return answer.Code, "Allow: " + answer.Header().Get("Allow")
	}
	var problem federation.Problem
	if json.Unmarshal(answer.Body.Bytes(), &problem) != nil || problem.Detail == "" {
		return answer.Code, "NO PROBLEM: " + answer.Body.String()
	}
	for _, detail := range problem.Errors {
		problem.Detail += "; " + detail.Location + ": " + detail.Message
	}
	return answer.Code, problem.Detail
}

func TestInvalidRequestsDoNotReachHub(t *testing.T) {
	long := strings.Repeat("a", 70)
	const web = "/api/v1/workloads/default/web"
	for name, test := range map[string]struct {
		method, path, body string
		status             int
		says               string
	}{
		"a list":                         {"POST", "/api/v1/workloads", "[]", 422, "the request does not fit /openapi.json; correct what is named; body: expected object"},
		"a text":                         {"POST", "/api/v1/workloads", `"web"`, 422, "object"},
		"a number":                       {"POST", "/api/v1/clusters", "7", 422, "object"},
		"null":                           {"POST", "/api/v1/clusters", "null", 422, "object"},
		"nothing":                        {"POST", "/api/v1/clusters", "", 400, "body"},
		"half of an object":              {"POST", "/api/v1/clusters", `{"name":"a"`, 400, "unexpected"},
		"an object and more":             {"POST", "/api/v1/clusters", `{"name":"a","id":"b"} x`, 400, "invalid character"},
		"a field of another type":        {"POST", "/api/v1/clusters", `{"name":7}`, 422, "body.name: expected string"},
		"an unknown field":               {"POST", web + "/move", `{"to":["a"],"force":true}`, 422, "body.force: unexpected property"},
		"an unknown query":               {"GET", "/api/v1/workloads?name=web", "", 422, "name"},
		"a cluster with a slash":         {"DELETE", "/api/v1/clusters/a%2Fb", "", 422, "path.name"},
		"a cluster with dots":            {"DELETE", "/api/v1/clusters/%2E%2E", "", 404, "there is nothing"},
		"a cluster without a name":       {"DELETE", "/api/v1/clusters/", "", 404, "there is nothing"},
		"a cluster with a long name":     {"DELETE", "/api/v1/clusters/" + long, "", 422, "path.name"},
		"a workload with a slash":        {"GET", "/api/v1/workloads/default/a%2Fb", "", 422, "path.name"},
		"a workload with a long name":    {"POST", "/api/v1/workloads/default/" + long + "/move", `{"to":["a"]}`, 422, "path.name"},
		"a workload without a namespace": {"GET", "/api/v1/workloads//web", "", 404, "there is nothing"},
		"a namespace with a slash":       {"GET", "/api/v1/workloads/a%2Fb/web", "", 422, "path.namespace"},
		"a namespace of a query":         {"GET", "/api/v1/pods?namespace=a%2Fb", "", 422, "query.namespace"},
		"a deployment without a name":    {"POST", "/api/v1/workloads", `{"name":"","manifest":"a","clusters":["a"]}`, 422, "body.name"},
		"a deployment into no namespace": {"POST", "/api/v1/workloads", `{"name":"a","namespace":"a/b","manifest":"a","clusters":["a"]}`, 422, "body.namespace"},
		"a deployment on one twice":      {"POST", "/api/v1/workloads", `{"name":"a","manifest":"a","clusters":["a","a"]}`, 422, "body.clusters"},
		"a move to nowhere":              {"POST", web + "/move", `{"to":[]}`, 422, "body.to"},
		"a move in no time":              {"POST", web + "/move", `{"to":["a"],"timeoutSeconds":1}`, 422, "body.timeoutSeconds"},
		"a move that takes an age":       {"POST", web + "/move", `{"to":["a"],"timeoutSeconds":99999999999}`, 422, "body.timeoutSeconds"},
		"what there is not":              {"GET", "/api/v2/workloads", "", 404, "there is nothing at /api/v2/workloads"},
		"what cannot be done":            {"PUT", web, "{}", 405, "PUT"},
		"a body that is too large":       {"POST", "/api/v1/workloads", strings.Repeat("x", federation.MaxBody+1), 413, "divide the manifest"},
	} {
		t.Run(name, func(t *testing.T) {
			handler, hub := newHandlerWithoutHub(t)
			status, text := send(handler, test.method, test.path, test.body)
			t.Logf("%d %s", status, text)
			if status != test.status || !strings.Contains(text, test.says) {
				t.Errorf("%d %.300q, want %d with %q", status, text, test.status, test.says)
			}
			if hub.count > 0 {
				t.Errorf("the hub was asked %d times", hub.count)
			}
		})
	}
}

// TestPolicyIsRemovedLast checks the kinds of `kubectl delete`, which removes them in the given order.
func TestPolicyIsRemovedLast(t *testing.T) {
	kinds := regexp.MustCompile("`kubectl delete ([a-z,]+) -")
	for _, mode := range []v1alpha1.ClusterSyncMode{v1alpha1.Push, v1alpha1.Pull} {
		text := rightsRemovalHint(mode)
		var removed []string
		for _, command := range kinds.FindAllStringSubmatch(text, -1) {
			removed = append(removed, strings.Split(command[1], ",")...)
		}
		if len(removed) != 7 || removed[0] != "serviceaccount" || slices.Index(removed, "validatingadmissionpolicybinding") != 5 {
			t.Errorf("with mode %s the kinds are removed in the order %v, want the account first and the policy last: %s", mode, removed, text)
		}
	}
}
