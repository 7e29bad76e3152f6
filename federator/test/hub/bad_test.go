// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

func TestInvalidNamesAreRejected(t *testing.T) {
	f := startFederator(t)
	token, cluster, namespace := newAdmin(t), newCluster(t, "Push"), newNamespace(t)
	good := federation.DeployRequest{Name: "web", Namespace: namespace, Manifest: configMap("a"), Clusters: []string{cluster}}
	for name, test := range map[string]struct {
		change func(*federation.DeployRequest)
		words  string
	}{
		"no name of a cluster":        {func(r *federation.DeployRequest) { r.Clusters = []string{cluster, ""} }, `"" is not a valid name of a cluster`},
		"a cluster with a slash":      {func(r *federation.DeployRequest) { r.Clusters = []string{"a/b"} }, `"a/b" is not a valid name of a cluster; ` + "`ktsn fed clusters` lists them"},
		"a long name of a cluster":    {func(r *federation.DeployRequest) { r.Clusters = []string{strings.Repeat("a", 5000)} }, "and 4500 more characters"},
		"a network with a slash":      {func(r *federation.DeployRequest) { r.Networks = []string{"a/b"} }, `"a/b" is not a valid name of a TSNNetwork`},
		"an object with a slash":      {func(r *federation.DeployRequest) { r.Manifest = configMap("a/b") }, `ConfigMap in document 1 of the manifest has the metadata.name "a/b"`},
		"an object with a wrong name": {func(r *federation.DeployRequest) { r.Manifest = configMap("UPPER") }, "ConfigMap UPPER: "},
		"five hundred objects":        {func(r *federation.DeployRequest) { r.Manifest = configMaps(500) }, "the manifest has 500 objects; a workload has at most 100"},
		"a kind of the whole cluster": {func(r *federation.DeployRequest) { r.Manifest = clusterRole }, "ClusterRole a is in no namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			request := good
			test.change(&request)
			f.refused(token, "POST", "/api/v1/workloads", request, http.StatusUnprocessableEntity, test.words)
			f.refused(token, "GET", "/api/v1/workloads/"+namespace+"/web", nil, http.StatusNotFound, "there is no workload")
		})
	}
}

const clusterRole = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\n"

// configMaps returns a manifest with a number of objects.
func configMaps(count int) string {
	var all strings.Builder
	for range count {
		all.WriteString("---\n" + configMap(unique("c")))
	}
	return all.String()
}

func TestMoveToSameClusterIsRejected(t *testing.T) {
	m := newMoved(t)
	m.f.refused(m.token, "POST", m.path()+"/move", federation.MoveRequest{To: []string{m.workload}}, http.StatusConflict,
		"workload "+m.namespace+"/web is on "+m.workload+" already, and nowhere else; name the clusters that shall have it instead")
	if workload := m.state(); workload.Move != nil || !slices.Equal(workload.Clusters, []string{m.workload}) {
		t.Errorf("it is on %v, %+v", workload.Clusters, workload.Move)
	}
	m.begin(60)
	m.k.heal(m.two)
	done := m.await(federation.MoveDone)
	m.begin(60) // a caller that lost the response may repeat the request
	if again := m.state(); again.Move.Phase != federation.MoveDone || !again.Move.StartedAt.Equal(done.Move.StartedAt) {
		t.Errorf("a move that is over began again: %+v", again.Move)
	}
}

func TestClusterOutsideServiceGetsNoLinks(t *testing.T) {
	s := newServed(t, 2, nil)
	stranger, on := newCluster(t, v1alpha1.Pull), s.clusters
	s.clusters = append(slices.Clone(on), stranger)
	s.report(map[string]tsn.TSNServiceStatus{
		on[0]: wants(s.want("arm", "192.0.2.1")), on[1]: offers(s.offer("plc", "192.0.2.2")), stranger: wants(s.want("thief", "192.0.2.3")),
	})
	link := s.linked("arm", "plc")
	s.stays(&link)
	if _, has := s.links()["thief"]; has {
		t.Error("a pod of a cluster that spec.clusters does not name has a link")
	}
	request := federation.DeployRequest{Name: "w", Namespace: s.namespace, Manifest: deployment("w"), Clusters: []string{stranger}, Clients: map[string]string{s.service: "bus0"}}
	s.f.refused(s.token, "POST", "/api/v1/workloads", request, http.StatusUnprocessableEntity,
		"TSNService "+s.namespace+"/"+s.service+" is not on cluster "+stranger+": its spec.clusters names "+strings.Join(on, ", "))
}

// mortal is a connection to a hub that stops after users have written some objects. The federator's own requests are
// not counted.
type mortal struct {
	to http.RoundTripper
	// left is how many objects users can still write; then the hub stops, with the last one written and not answered,
	// or not written.
	left     *atomic.Int64
	answered bool
}

// RoundTrip forwards requests until the hub stops.
func (m *mortal) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Header.Get("Impersonate-User") == "" {
		return m.to.RoundTrip(request)
	}
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	writes := request.Method != http.MethodGet && request.URL.Query().Get("dryRun") == "" && !strings.HasSuffix(request.URL.Path, "reviews")
	if !writes {
		if m.left.Load() < 0 {
			return nil, refused
		}
		return m.to.RoundTrip(request)
	}
	left := m.left.Add(-1)
	if left >= 0 {
		return m.to.RoundTrip(request)
	}
	if left == -1 && m.answered {
		answer, err := m.to.RoundTrip(request)
		if err == nil {
			_ = answer.Body.Close()
		}
		return nil, io.ErrUnexpectedEOF
	}
	return nil, refused
}

// forever is more than any test writes.
const forever = 1 << 40

// dies sends a request to a hub that stops after each of the objects that it writes, and then to one that works. begin
// prepares the request.
func dies(t *testing.T, begin func(f *running) (do func() (int, string), matches func())) {
	t.Helper()
	for _, answered := range []bool{false, true} {
		left := &atomic.Int64{}
		left.Store(forever)
		mortally := rest.CopyConfig(config)
		mortally.Wrap(func(to http.RoundTripper) http.RoundTripper { return &mortal{to, left, answered} })
		f := startFederatorOf(t, mortally)
		for after := int64(0); ; after++ {
			do, matches := begin(f)
			left.Store(after)
			status, text := do()
			died := left.Load() < 0
			left.Store(forever)
			if !died {
				matches()
				break
			}
			if status != http.StatusServiceUnavailable || !strings.Contains(text, "the hub does not answer; ask again when it does, which completes what was begun") {
				t.Errorf("dead after %d objects: %d %q", after, status, text)
			}
			if status, reported := do(); reported != "" {
				t.Fatalf("the same again, after %d objects: %d %s", after, status, reported)
			}
			matches()
		}
	}
}

func TestDeployCompletesAfterHubFailure(t *testing.T) {
	needHub(t)
	token, cluster, namespace := newAdmin(t), newCluster(t, "Push"), newNamespace(t)
	dies(t, func(f *running) (func() (int, string), func()) {
		name := unique("web")
		request := federation.DeployRequest{Name: name, Namespace: namespace, Manifest: configMap(name) + "---\n" + configMap(name+"-b"), Clusters: []string{cluster}}
		do := func() (int, string) { return f.call(token, "POST", "/api/v1/workloads", request, nil) }
		return do, func() {
			get(t, namespace, name, &corev1.ConfigMap{})
			get(t, namespace, name+"-b", &corev1.ConfigMap{})
			f.must(token, "GET", "/api/v1/workloads/"+namespace+"/"+name, nil, nil)
		}
	})
}

func TestJoinCompletesAfterHubFailure(t *testing.T) {
	needHub(t)
	token := newAdmin(t)
	dies(t, func(f *running) (func() (int, string), func()) {
		name := unique("joiner")
		request := federation.JoinRequest{Name: name, ID: "id-of-" + name}
		t.Cleanup(func() {
			_ = admin.Delete(context.Background(), &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}})
		})
		do := func() (int, string) { return f.call(token, "POST", "/api/v1/clusters", request, nil) }
		return do, func() {
			get(t, "", name, &v1alpha1.Cluster{})
			roleOf(t, name)
		}
	})
}

func TestMoveCompletesAfterHubFailure(t *testing.T) {
	m := newMoved(t)
	m.f.stop() // another federator carries out the move
	m.k.heal(m.two)
	to, from := m.two, m.workload
	dies(t, func(f *running) (func() (int, string), func()) {
		m.f = f
		request := federation.MoveRequest{To: []string{to}}
		m.k.heal(to)
		do := func() (int, string) { return f.call(m.token, "POST", m.path()+"/move", request, nil) }
		return do, func() {
			t.Helper()
			eventually(t, "it has moved to "+to, func() bool {
				workload := m.state()
				return workload.Move != nil && workload.Move.Phase == federation.MoveDone && slices.Equal(workload.Clusters, []string{to})
			})
			to, from = from, to
		}
	})
}
