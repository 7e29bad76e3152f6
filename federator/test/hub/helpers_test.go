// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tsn "github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/federator/internal/program"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// running is a running federator.
type running struct {
	t       *testing.T
	address string
	log     *lines
	stop    func()
}

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(data)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// startFederator runs a federator until the test ends.
func startFederator(t *testing.T) *running {
	t.Helper()
	needHub(t)
	return startFederatorOf(t, config)
}

// startFederatorOf runs a federator for a hub, which may be unreachable.
func startFederatorOf(t *testing.T, config *rest.Config) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	addresses := make(chan net.Addr, 1)
	ended := make(chan error, 1)
	r := &running{t: t, log: &lines{}}
	options := &program.Options{
		Listen: "127.0.0.1:0", Namespace: system, Audiences: []string{federation.Audience}, Health: "0", Metrics: "0", OnListen: func(address net.Addr) { addresses <- address },
	}
	go func() {
		defer close(ended)
		ended <- program.Run(ctx, options, config, slog.New(slog.NewTextHandler(r.log, nil)))
	}()
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("the federator ended with %v", err)
			}
		})
	}
	t.Cleanup(r.stop)
	select {
	case address := <-addresses:
		r.address = "http://" + address.String()
	case err := <-ended:
		t.Fatalf("the federator did not start: %v", err)
	case <-time.After(30 * time.Second):
		t.Fatal("the federator does not listen")
	}
	return r
}

// call sends a request and returns the status. into is filled with the response; problem is the error message.
func (r *running) call(token, method, path string, body, into any) (status int, problem string) {
	r.t.Helper()
	var text io.Reader
	switch body := body.(type) {
	case nil:
	case string:
		text = strings.NewReader(body)
	default:
		raw, err := json.Marshal(body)
		if err != nil {
			r.t.Fatal(err)
		}
		text = bytes.NewReader(raw)
	}
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.address+path, text)
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if answer.StatusCode >= 400 {
		var problem federation.Problem
		if err := json.Unmarshal(raw, &problem); err != nil {
			r.t.Fatalf("%s %s: %d with a body that is no problem: %s", method, path, answer.StatusCode, raw)
		}
		for _, detail := range problem.Errors {
			problem.Detail += "; " + detail.Location + ": " + detail.Message
		}
		return answer.StatusCode, problem.Detail
	}
	if into != nil {
		if err := json.Unmarshal(raw, into); err != nil {
			r.t.Fatalf("%s %s: %v in %s", method, path, err, raw)
		}
	}
	return answer.StatusCode, ""
}

// must is call for a request that must succeed.
func (r *running) must(token, method, path string, body, into any) {
	r.t.Helper()
	if status, problem := r.call(token, method, path, body, into); problem != "" {
		r.t.Fatalf("%s %s: %d %s", method, path, status, problem)
	}
}

// refused is call for a request that must be rejected with a status and a message.
func (r *running) refused(token, method, path string, body any, want int, words ...string) {
	r.t.Helper()
	status, problem := r.call(token, method, path, body, nil)
	if status != want {
		r.t.Errorf("%s %s: %d %q, want %d", method, path, status, problem, want)
	}
	for _, word := range words {
		if !strings.Contains(problem, word) {
			r.t.Errorf("%s %s: %q has no %q", method, path, problem, word)
		}
	}
}

// counter numbers names, so that they are unique.
var counter = make(chan int)

func init() {
	go func() {
		for i := 1; ; i++ {
			counter <- i
		}
	}()
}

func unique(word string) string { return fmt.Sprintf("%s-%d", word, <-counter) }

// newNamespace creates a namespace.
func newNamespace(t *testing.T) string {
	t.Helper()
	name := unique("space")
	create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	return name
}

func create(t *testing.T, object client.Object) {
	t.Helper()
	if err := admin.Create(context.Background(), object); err != nil {
		t.Fatal(err)
	}
}

// newCluster creates a ready member that reports the kinds of the chart. It is removed with the test.
func newCluster(t *testing.T, mode v1alpha1.ClusterSyncMode) string {
	t.Helper()
	name := unique("member")
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ClusterSpec{SyncMode: mode}}
	create(t, cluster)
	t.Cleanup(func() { _ = client.IgnoreNotFound(admin.Delete(context.Background(), cluster)) })
	cluster.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ClusterConditionReady, Status: metav1.ConditionTrue, Reason: "ClusterReady", LastTransitionTime: metav1.Now()}}
	cluster.Status.APIEnablements = reportedKinds("TSNLink", "TSNNetwork", "TSNPeers", "TSNService", "TSNWorkload")
	if err := admin.Status().Update(context.Background(), cluster); err != nil {
		t.Fatal(err)
	}
	create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "karmada-es-" + name}})
	return name
}

// reportedKinds returns kinds of KuberneTSN as a cluster reports them.
func reportedKinds(kinds ...string) []v1alpha1.APIEnablement {
	reported := v1alpha1.APIEnablement{GroupVersion: tsn.GroupVersion.String(), Resources: []v1alpha1.APIResource{}}
	for _, kind := range kinds {
		reported.Resources = append(reported.Resources, v1alpha1.APIResource{Name: strings.ToLower(kind), Kind: kind})
	}
	return []v1alpha1.APIEnablement{reported}
}

// newUser creates a user with rules in a namespace and in the whole hub, and returns a token.
func newUser(t *testing.T, namespace string, inNamespace, everywhere []rbacv1.PolicyRule) string {
	t.Helper()
	name := unique("user")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	create(t, account)
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}}
	if inNamespace != nil {
		create(t, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: inNamespace})
		create(t, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}})
	}
	if everywhere != nil {
		create(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: everywhere})
		create(t, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}})
	}
	return tokenOf(t, account)
}

// tokenOf returns a token of an account for the federator.
func tokenOf(t *testing.T, account *corev1.ServiceAccount) string {
	t.Helper()
	return tokenFor(t, account, federation.Audience)
}

// tokenFor returns a token of an account for audiences; without any, for the API server of the hub.
func tokenFor(t *testing.T, account *corev1.ServiceAccount, audiences ...string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600), Audiences: audiences}}
	if err := admin.SubResource("token").Create(context.Background(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// Rights of users in tests.
var (
	all        = []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
	ofWorkload = []rbacv1.PolicyRule{
		{APIGroups: []string{"policy.karmada.io"}, Resources: []string{"propagationpolicies"}, Verbs: []string{"*"}},
		{APIGroups: []string{"work.karmada.io"}, Resources: []string{"resourcebindings"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{"", "apps", "kubernetsn.io"}, Resources: []string{"deployments", "configmaps", "tsnworkloads"}, Verbs: []string{"*"}},
	}
	seesClusters = []rbacv1.PolicyRule{{APIGroups: []string{"cluster.karmada.io"}, Resources: []string{"clusters"}, Verbs: []string{"get", "list", "watch"}}}
)

// newAdmin creates a user with all rights.
func newAdmin(t *testing.T) string {
	t.Helper()
	return newUser(t, newNamespace(t), nil, all)
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, matches func() bool) {
	t.Helper()
	end := time.Now().Add(20 * time.Second)
	for !matches() {
		if time.Now().After(end) {
			t.Fatalf("waited 20 s in vain until %s", what)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// deployment returns a manifest of a Deployment.
func deployment(name string) string {
	return `apiVersion: apps/v1
kind: Deployment
metadata: {name: ` + name + `}
spec:
  replicas: 2
  selector: {matchLabels: {app: ` + name + `}}
  template:
    metadata: {labels: {app: ` + name + `}}
    spec: {containers: [{name: main, image: registry.example.org/main}]}
`
}

// configMap returns a manifest of a ConfigMap.
func configMap(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {a: b}\n"
}
