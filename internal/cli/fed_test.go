// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// federator is one that answers what a test says, and remembers what it was asked.
type federator struct {
	*httptest.Server

	asked []string
	files fedFiles
}

// fedFiles are files of the command line.
type fedFiles struct{ config, ca, token, folder string }

func newFederator(t *testing.T, answers map[string]any) *federator {
	t.Helper()
	f := &federator{}
	f.Server = httptest.NewTLSServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		line := request.Method + " " + request.URL.String()
		f.asked = append(f.asked, strings.TrimSpace(line+" "+string(body)))
		writer.Header().Set("Content-Type", "application/json")
		answer, known := answers[line]
		problem, ok := answer.(federation.Problem)
		switch {
		case request.Header.Get("Authorization") != "Bearer secret" && request.Header.Get("Authorization") != "Bearer boot.strap":
			problem, ok = federation.Problem{Status: 401, Detail: "the hub does not know the bearer token"}, true
		case !known:
			problem, ok = federation.Problem{Status: 404, Detail: "nothing is known of " + line}, true
		}
		if ok {
			writer.Header().Set("Content-Type", "application/problem+json")
			writer.WriteHeader(problem.Status)
			answer = problem
		}
		if text, matches := answer.(string); matches {
			fmt.Fprint(writer, text)
			return
		}
		_ = json.NewEncoder(writer).Encode(answer)
	}))
	t.Cleanup(f.Close)
	f.files.folder = t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(f.files.folder, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	f.files.ca = write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw})))
	f.files.token = write("token", "secret\n")
	f.files.config = write("fed.yaml", "server: "+f.URL+"\nca: "+f.files.ca+"\ntokenFile: "+f.files.token+"\n")
	return f
}

// run is a command line of `ktsn fed`.
func (f *federator) run(t *testing.T, arguments ...string) (status int, stdout, stderr string) {
	t.Helper()
	return ktsn(t, append([]string{"fed", "--config", f.files.config}, arguments...)...)
}

var (
	two  = int32(2)
	some = federation.Workload{Namespace: "default", Name: "web", Clusters: []string{"a", "b"}, Objects: []federation.Object{{Kind: "Deployment", Name: "web"}}}
)

func TestFedCommands(t *testing.T) {
	answers := map[string]any{
		"GET /api/v1/clusters": federation.Clusters{Items: []federation.Cluster{
			{Name: "a", Mode: "Pull", Ready: "False", Message: "away", Nodes: 2, NodesReady: 1, Pin: "Matches", Labels: map[string]string{"y": "2", "x": "1"}}}},
		"POST /api/v1/workloads": some,
		"GET /api/v1/pods?namespace=default&workload=web": federation.Pods{
			Items: []federation.Pod{{Workload: "default/web", Cluster: "a", Name: "web-1", Node: "n", Addresses: []string{"10.0.0.1"},
				Containers: []federation.Container{{Name: "main", State: "Running"}}, Networks: []federation.PodOnTSN{{Network: "line", Addresses: []string{"10.42.0.2"}}},
				Links: []federation.PodLink{{Service: "bus", Interface: "bus0", Peer: "b/default/plc", Up: true}, {Service: "store", Interface: "st0"}}}},
			Unseen: []federation.Unseen{{Workload: "default/web", Cluster: "b", Replicas: &two, Ready: &two, Reason: "not reached"}}},
		"GET /api/v1/links?namespace=default&service=bus": federation.Links{
			Services: []federation.Service{{Namespace: "default", Name: "bus", Endpoints: 2, Clients: 3, Linked: 1,
				Conditions: []federation.Condition{{Type: "Degraded", Status: "True", Message: "of cluster c are not linked"}}}},
			Items: []federation.Link{{Namespace: "default", Name: "bus-1", Service: "bus", VNI: 0xff0000, Client: federation.LinkEnd{Cluster: "a", Namespace: "default", Pod: "arm"},
				Endpoint:   federation.LinkEnd{Cluster: "b", Namespace: "default", Pod: "plc"},
				Conditions: []federation.Condition{{Type: "EndpointPlugged", Status: "False", Message: "it has no room"}}},
				{Namespace: "default", Name: "bus-2", Service: "bus", Up: true, Conditions: []federation.Condition{{Type: "ClientPlugged", Status: "True", Message: "encrypted"},
					{Type: "EndpointPlugged", Status: "True", Message: "in clear"}}}}},
		"GET /api/v1/networks": federation.Networks{Items: []federation.Network{{Name: "line", VNI: 7, IPv4: "10.42.0.0/16",
			Clusters: []federation.NetworkOnCluster{{Cluster: "a", IPv4: "10.42.0.0/20", Applied: true, Nodes: 3, MTU: 1450}}}}},
		"GET /api/v1/events?namespace=default": federation.Events{Items: []federation.Event{
			{At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), First: time.Date(2026, 1, 2, 2, 0, 0, 0, time.UTC), Count: 3, Type: "Warning", Namespace: "default",
				Object: "Work/x", Reason: "Failed", Message: "two\nlines"},
			{At: time.Date(2026, 1, 2, 1, 0, 0, 0, time.UTC), Count: 1, Type: "Normal", Object: "Cluster/a", Reason: "Once"}}},
		"DELETE /api/v1/workloads/default/web": "",
		"DELETE /api/v1/clusters/a?force=true": federation.Unjoined{Cluster: "a", Left: []string{"default/web"}, Message: "it goes"},
		"POST /api/v1/workloads/default/web/move": func() federation.Workload {
			moved := some
			moved.Move = &federation.Move{Phase: federation.MoveDone}
			return moved
		}(),
		"GET /api/v1/watch": "event: change\ndata: {\"change\":\"Added\",\"kind\":\"Cluster\",\"name\":\"a\",\"cluster\":{\"ready\":\"True\"}}\n\n" +
			"event: problem\ndata: {\"status\":403,\"detail\":\"not allowed\"}\n\n",
	}
	for name, test := range map[string]struct {
		arguments []string
		asked     string
		status    int
		says      []string
	}{
		"clusters": {[]string{"clusters"}, "GET /api/v1/clusters", 0, []string{"a", "Pull", "False", "1/2", "matches", "x=1,y=2", "away"}},
		"in JSON":  {[]string{"clusters", "-o", "json"}, "GET /api/v1/clusters", 0, []string{`"pin": "Matches"`}},
		"where": {[]string{"where", "default/web"}, "GET /api/v1/pods?namespace=default&workload=web", 0, []string{"main", "Running", "web-1", "line 10.42.0.2", "2 of 2 pods ready", "not reached",
			"bus bus0 to b/default/plc; store st0 (waits for it)"}},
		"links": {[]string{"links", "bus", "-n", "default"}, "GET /api/v1/links?namespace=default&service=bus", 0, []string{"service default/bus: 2 endpoints, 1 of 3 clients linked",
			"Degraded: True, of cluster c", "default/bus", "a/default/arm", "b/default/plc", "no: it has no room", "16711680", "yes: client: encrypted; endpoint: in clear"}},
		"networks":      {[]string{"networks"}, "GET /api/v1/networks", 0, []string{"network line: VNI 7, 10.42.0.0/16", "10.42.0.0/20", "1450"}},
		"events":        {[]string{"events", "-n", "default"}, "GET /api/v1/events?namespace=default", 0, []string{"default Work/x", "two lines", "2026-01-02 03:04:05 (x3 over 1h4m5s)", "2026-01-02 01:00:00   "}},
		"delete":        {[]string{"delete", "default/web"}, "DELETE /api/v1/workloads/default/web", 0, []string{"is being removed"}},
		"unjoin":        {[]string{"unjoin", "a", "--force"}, "DELETE /api/v1/clusters/a?force=true", 0, []string{"left on it: default/web", "it goes"}},
		"move":          {[]string{"move", "default/web", "--to", "b,c", "--timeout", "1m"}, `POST /api/v1/workloads/default/web/move {"to":["b","c"],"timeoutSeconds":60}`, 0, []string{"done"}},
		"watch":         {[]string{"watch"}, "GET /api/v1/watch", 1, []string{"added cluster a: ready True", "ends the watch: not allowed"}},
		"what is not":   {[]string{"where", "other"}, "GET /api/v1/pods?namespace=other", 1, []string{"nothing is known of"}},
		"a namespace":   {[]string{"delete", "web"}, "", 2, []string{"write NAMESPACE/NAME"}},
		"no manifest":   {[]string{"deploy", "default/web", "--clusters", "a"}, "", 2, []string{"give -f and --clusters"}},
		"no cluster":    {[]string{"move", "default/web"}, "", 2, []string{"give --to"}},
		"a mode":        {[]string{"join", "a", "--mode", "both"}, "", 2, []string{"write pull or push"}},
		"a format":      {[]string{"clusters", "-o", "xml"}, "", 2, []string{"xml"}},
		"no id":         {[]string{"join", "a"}, "", 2, []string{"needs --member-kubeconfig or --id"}},
		"no kubeconfig": {[]string{"join", "a", "--mode", "push"}, "", 2, []string{"needs --member-kubeconfig"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFederator(t, answers)
			status, stdout, stderr := f.run(t, test.arguments...)
			if status != test.status {
				t.Errorf("exit status %d, want %d; %s", status, test.status, stderr)
			}
			if got := strings.Join(f.asked, "\n"); got != test.asked {
				t.Errorf("asked %q, want %q", got, test.asked)
			}
			for _, words := range test.says {
				if !strings.Contains(stdout+stderr, words) {
					t.Errorf("said %q and %q, without %q", stdout, stderr, words)
				}
			}
		})
	}
}

func TestFedRetriesBusyFederator(t *testing.T) {
	var bodies []string
	busy := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		bodies = append(bodies, string(body))
		if len(bodies) < 3 {
			writer.Header().Set("Retry-After", "0")
			writer.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	t.Cleanup(busy.Close)
	client, err := newFedClient(busy.URL, "", "secret")
	if err != nil {
		t.Fatal(err)
	}
	if err := client.do(t.Context(), http.MethodPost, "/", "x", nil); err != nil || strings.Join(bodies, " ") != `"x" "x" "x"` {
		t.Errorf("asked with %q: %v", bodies, err)
	}
}

func TestFedDeploySendsManifest(t *testing.T) {
	f := newFederator(t, map[string]any{"POST /api/v1/workloads": some})
	file := filepath.Join(f.files.folder, "web.yaml")
	if err := os.WriteFile(file, []byte("kind: Deployment\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := f.run(t, "deploy", "default/web", "-f", file, "--clusters", "a,b", "--network", "line")
	want := `POST /api/v1/workloads {"name":"web","namespace":"default","manifest":"kind: Deployment\n","clusters":["a","b"],"networks":["line"]}`
	if status != 0 || strings.Join(f.asked, "\n") != want || !strings.Contains(stdout, "workload default/web is on a, b: 1 objects") {
		t.Errorf("status %d, asked %q, said %q %q", status, f.asked, stdout, stderr)
	}
	if err := os.WriteFile(file, make([]byte, federation.MaxBody+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := f.run(t, "deploy", "default/web", "-f", file, "--clusters", "a"); status != 1 || !strings.Contains(stderr, "divide it") {
		t.Errorf("status %d, said %q", status, stderr)
	}
}

func TestFedDeployReportsProblems(t *testing.T) {
	const problem = "document 2 of the manifest is not valid YAML: line 1: did not find expected ',' or ']'"
	f := newFederator(t, map[string]any{
		"POST /api/v1/workloads": federation.Problem{Status: 422, Detail: problem},
		"GET /api/v1/events":     federation.Events{Items: []federation.Event{{Object: "Work/x", Message: "up\x1b[2J\u009bdown"}}},
		"GET /api/v1/clusters":   federation.Problem{Status: 403, Detail: "not\x1b[31m you"},
	})
	write := func(name, text string) string {
		file := filepath.Join(f.files.folder, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	wrong, large := write("wrong.yaml", "kind: A\n---\n[\n"), write("large.yaml", strings.Repeat("#", federation.MaxBody+1))
	for name, test := range map[string]struct {
		arguments []string
		says      string
	}{
		"of a manifest":             {[]string{"deploy", "default/web", "-f", wrong, "--clusters", "a"}, wrong + " for workload default/web: " + problem},
		"of one that is too large":  {[]string{"deploy", "default/web", "-f", large, "--clusters", "a"}, large + ": the manifest is larger than 1048576 bytes; divide it"},
		"of one that is not":        {[]string{"deploy", "default/web", "-f", wrong + "s", "--clusters", "a"}, wrong + "s: no such file"},
		"of a configuration":        {[]string{"--config", write("fed2.yaml", "sever: https://a\n"), "clusters"}, "fed2.yaml, whose keys are server, ca, token and tokenFile: "},
		"of an empty configuration": {[]string{"--config", write("fed3.yaml", ""), "clusters"}, "no federator is given; set --server, or --config"},
		"of no workload":            {[]string{"move", "default/a/b", "--to", "a"}, `"default/a/b" is not a workload; write NAMESPACE/NAME`},
		"with what terminals obey":  {[]string{"clusters"}, "not [31m you"},
	} {
		t.Run(name, func(t *testing.T) {
			status, _, stderr := f.run(t, test.arguments...)
			if status == 0 || !strings.Contains(stderr, test.says) {
				t.Errorf("status %d, said %q, want %q in it", status, stderr, test.says)
			}
		})
	}
	if _, stdout, _ := f.run(t, "events"); !strings.Contains(stdout, "up [2J down") {
		t.Errorf("a terminal would obey %q", stdout)
	}
}

func TestFedProtectsToken(t *testing.T) {
	f := newFederator(t, nil)
	for name, test := range map[string]struct {
		arguments []string
		says      string
	}{
		"no server":           {[]string{"--token-file", f.files.token}, "no federator is given"},
		"no token":            {[]string{"--server", f.URL}, "no token is given"},
		"plain HTTP":          {[]string{"--server", "http://192.0.2.1", "--token", "secret"}, "unencrypted"},
		"no address":          {[]string{"--server", "federator", "--token", "secret"}, "is not an address"},
		"another authority":   {[]string{"--server", f.URL, "--token", "secret"}, "certificate"},
		"no authority at all": {[]string{"--server", f.URL, "--token", "secret", "--ca", f.files.token}, "no certificate in PEM"},
		"a wrong token":       {[]string{"--server", f.URL, "--token", "wrong", "--ca", f.files.ca}, "does not know the bearer token"},
	} {
		t.Run(name, func(t *testing.T) {
			status, _, stderr := ktsn(t, append([]string{"fed", "clusters"}, test.arguments...)...)
			if status == 0 || !strings.Contains(stderr, test.says) {
				t.Errorf("status %d, said %q, want %q in it", status, stderr, test.says)
			}
		})
	}
}

func TestFedJoin(t *testing.T) {
	f := newFederator(t, map[string]any{
		"GET /api/v1/namespaces/kube-system?timeout=15s": map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"uid": "0-1-2"}},
		"POST /api/v1/clusters":                          federation.Joined{Bootstrap: &federation.Bootstrap{Token: "boot.strap"}},
		"POST /api/v1/clusters/a/certificate":            federation.Certificate{Server: "https://hub", CA: "authority", Certificate: "signed"},
	})
	ca, err := os.ReadFile(f.files.ca)
	if err != nil {
		t.Fatal(err)
	}
	member, agent := filepath.Join(f.files.folder, "member"), filepath.Join(f.files.folder, "agent")
	text := "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: '" + f.URL + "', certificate-authority-data: " +
		base64.StdEncoding.EncodeToString(ca) + "}}]\nusers: [{name: u, user: {token: secret}}]\n"
	if err := os.WriteFile(member, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	// An existing file is replaced, and is never readable by others.
	if err := os.WriteFile(agent, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if status, stdout, stderr := f.run(t, "join", "a", "--member-kubeconfig", member, "--label", "site=x", "--agent-kubeconfig", agent); status != 0 || !strings.Contains(stdout, "--report-secrets=None") || !strings.Contains(stdout, "certRotation") {
		t.Fatalf("status %d, said %q and %q", status, stdout, stderr)
	}
	if strings.Contains(f.asked[1], "secret") || !strings.Contains(f.asked[1], `"fingerprint":"sha256:`) || !strings.Contains(f.asked[1], `"labels":{"site":"x"}`) ||
		!strings.Contains(f.asked[1], `"id":"0-1-2"`) {
		t.Errorf("asked %q", f.asked[1])
	}
	var asked federation.CertificateRequest
	if err := json.Unmarshal([]byte(f.asked[2][strings.Index(f.asked[2], "{"):]), &asked); err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(asked.Request))
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || request.Subject.CommonName != "system:karmada:agent:a" || request.Subject.Organization[0] != "system:karmada:agents" {
		t.Errorf("asked for %v: %v", request.Subject, err)
	}
	written, err := os.ReadFile(agent)
	if err != nil || !strings.Contains(string(written), base64.StdEncoding.EncodeToString([]byte("signed"))) || !strings.Contains(string(written), "client-key-data") {
		t.Errorf("wrote %s: %v", written, err)
	}
	if info, err := os.Stat(agent); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v: %v", info.Mode(), err)
	}
	checkAgentManifest(t, f, filepath.Join(f.files.folder, "manifest"))
	if status, _, stderr := f.run(t, "join", "a", "--member-kubeconfig", member, "--mode", "push"); status != 0 || !strings.Contains(f.asked[len(f.asked)-1], `"token":"secret"`) {
		t.Errorf("status %d, said %q, asked %q", status, stderr, f.asked[len(f.asked)-1])
	}
}

// checkAgentManifest has a manifest written of an agent, with its credentials and an image of one's own.
func checkAgentManifest(t *testing.T, f *federator, file string) {
	t.Helper()
	if status, stdout, stderr := f.run(t, "enroll", "a", "--agent-manifest", file, "--agent-image", "registry/agent: 1", "--agent-rights", "limited"); status != 0 || !strings.Contains(stdout, "kubectl apply -f "+file) {
		t.Fatalf("status %d, said %q and %q", status, stdout, stderr)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]map[string]any{}
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var object map[string]any
		if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		kinds[object["kind"].(string)] = object
	}
	credentials, err := base64.StdEncoding.DecodeString(kinds["Secret"]["data"].(map[string]any)["karmada-kubeconfig"].(string))
	if err != nil || !strings.Contains(string(credentials), "client-key-data") {
		t.Errorf("the Secret has %s: %v", credentials, err)
	}
	for _, words := range []string{`image: "registry/agent: 1"`, "--cluster-name=a\n", "--report-secrets=None\n", "certRotation\n"} {
		if !strings.Contains(string(text), words) {
			t.Errorf("the manifest is without %q", words)
		}
	}
	if len(kinds) != 10 {
		t.Errorf("the manifest has %d kinds", len(kinds))
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v: %v", info.Mode(), err)
	}
	if status, _, stderr := f.run(t, "enroll", "a"); status != 2 || !strings.Contains(stderr, "set --agent-manifest or --agent-kubeconfig") {
		t.Errorf("without a file: status %d, said %q", status, stderr)
	}
}

// TestFedEnrollKeepsRights is about a member whose agent has rights: a manifest without any leaves them as they are.
func TestFedEnrollKeepsRights(t *testing.T) {
	f := newFederator(t, map[string]any{
		"POST /api/v1/clusters":               federation.Joined{Bootstrap: &federation.Bootstrap{Token: "boot.strap"}},
		"POST /api/v1/clusters/a/certificate": federation.Certificate{Server: "https://hub", CA: "authority", Certificate: "signed"},
	})
	file := filepath.Join(f.files.folder, "manifest")
	for name, test := range map[string]struct {
		options []string
		kinds   string
		says    string
	}{
		"none":       {nil, "Namespace Secret Deployment", "does not change the agent's rights in the cluster"},
		"a kind":     {[]string{"--workload-kind", "ingresses.networking.k8s.io"}, "ClusterRole", "has no namespace in which the hub may run workloads"},
		"namespaces": {[]string{"--workload-namespace", "plant,lab"}, "ClusterRole", "in the namespaces plant, lab, of"},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := f.run(t, append([]string{"enroll", "a", "--agent-manifest", file}, test.options...)...)
			if status != 0 || !strings.Contains(stdout, test.says) {
				t.Fatalf("status %d, said %q and %q, want %q in it", status, stdout, stderr, test.says)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var kinds []string
			for _, line := range strings.Split(string(text), "\n") {
				if kind, ok := strings.CutPrefix(line, "kind: "); ok {
					kinds = append(kinds, kind)
				}
			}
			if all := strings.Join(kinds, " "); all != test.kinds && !strings.Contains(all, test.kinds+" ") {
				t.Errorf("the manifest has %s, want %s", all, test.kinds)
			}
		})
	}
	// The token is good for one certificate.
	asked := len(f.asked)
	if status, _, stderr := f.run(t, "enroll", "a", "--agent-manifest", file, "--workload-namespace", "Plant"); status != 2 || len(f.asked) != asked {
		t.Errorf("with a wrong name status %d, said %q, asked %q", status, stderr, f.asked[asked:])
	}
	// For a first manifest, which has rights.
	for options, want := range map[string]string{"": "--agent-rights limited", "--workload-namespace=plant,lab": "--workload-namespace plant,lab"} {
		_, stdout, stderr := f.run(t, append([]string{"join", "a", "--id", "x"}, strings.Fields(options)...)...)
		if !strings.Contains(stdout, "--agent-manifest karmada-agent.yaml \\\n        "+want+"\n") {
			t.Errorf("join %s says %q and %q, want %q in it", options, stdout, stderr, want)
		}
		status, _, stderr := f.run(t, append([]string{"enroll", "a", "--agent-manifest", file}, strings.Fields(want)...)...)
		if text, err := os.ReadFile(file); status != 0 || err != nil || !strings.Contains(string(text), "kind: ServiceAccount\n") {
			t.Errorf("enroll %s: status %d, said %q, wrote %s: %v", want, status, stderr, text, err)
		}
	}
}

// TestFedRightsKeepWorkloads applies rights on top of others, as kubectl does: an object replaces that of the same name.
func TestFedRightsKeepWorkloads(t *testing.T) {
	const first = "--workload-namespace=plant --workload-kind=ingresses.networking.k8s.io"
	for again, keeps := range map[string]string{
		"": "ingresses", "--pod-security=restricted": "ingresses", "--workload-kind=leases.coordination.k8s.io": "leases", "--workload-namespace=lab": "deployments",
	} {
		objects := map[string]string{}
		for _, options := range []string{first, again} {
			status, text, stderr := ktsn(t, append([]string{"fed", "rights"}, strings.Fields(options)...)...)
			if status != 0 {
				t.Fatal(stderr)
			}
			for _, object := range strings.Split(text, "\n---\n") {
				_, key, _ := strings.Cut(object, "\nkind: ")
				key, _, _ = strings.Cut(key, ", labels:")
				objects[key] = object
			}
		}
		reads, writes := objects["ClusterRole\nmetadata: {name: karmada-agent-kinds"], objects["ClusterRole\nmetadata: {name: karmada-agent-workloads"]
		for _, kind := range []string{"deployments", keeps} {
			if !strings.Contains(reads, kind) || !strings.Contains(writes, kind) {
				t.Errorf("after `%s` the hub reads by %s and writes by %s, want %s in both", again, reads, writes, kind)
			}
		}
		for _, binding := range []string{"ClusterRoleBinding\nmetadata: {name: karmada-agent-kinds", "RoleBinding\nmetadata: {namespace: plant, name: karmada-agent-workloads"} {
			if objects[binding] == "" {
				t.Errorf("after `%s` there is no %s", again, binding)
			}
		}
	}
}

func TestFedRightsNames(t *testing.T) {
	for account, want := range map[string]string{
		"": "karmada-agent", "karmada-system/hub": "karmada-system.hub", "default/hub": "default.hub", "default/view": "default.view", "default/karmada-agent": "default.karmada-agent",
	} {
		arguments := []string{"fed", "rights", "--workload-namespace", "plant"}
		if account != "" {
			arguments = append(arguments, "--account", account)
		}
		status, text, stderr := ktsn(t, arguments...)
		if status != 0 {
			t.Fatal(stderr)
		}
		label := "labels: {" + federation.RightsLabel + ": " + want + "}"
		for _, part := range strings.Split(text, "\n---\n") {
			if !strings.Contains(part, "kind: Namespace\n") && !strings.Contains(part, label) {
				t.Errorf("account %q: %s has no %s", account, part, label)
			}
		}
		if name := "kind: ClusterRole\nmetadata: {name: " + want + ","; !strings.Contains(text, name) {
			t.Errorf("account %q: the rights have no %q", account, name)
		}
	}
	for option, says := range map[string]string{
		"--account=hub": "write NAMESPACE/NAME", "--account=a/b/c": "write NAMESPACE/NAME", "--account=a/" + strings.Repeat("x", 63): "take a shorter name",
		"--workload-namespace=plant, lab": `--workload-namespace " lab" is not a name`, "--system-namespace=A": `--system-namespace "A" is not a name`,
		"--workload-kind=A/B": `--workload-kind "A/B" is not a kind`,
	} {
		if status, _, stderr := ktsn(t, "fed", "rights", option); status != 2 || !strings.Contains(stderr, says) {
			t.Errorf("%s: status %d, said %q, want %q in it", option, status, stderr, says)
		}
	}
}
