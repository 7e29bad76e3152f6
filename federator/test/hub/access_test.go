// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

func TestRequestsNeedToken(t *testing.T) {
	f := startFederator(t)
	f.refused("", "GET", "/api/v1/clusters", nil, http.StatusUnauthorized, "has no bearer token")
	f.refused("wrong", "GET", "/api/v1/clusters", nil, http.StatusUnauthorized, "does not know the bearer token")
	f.refused(signed(t, -time.Hour), "GET", "/api/v1/clusters", nil, http.StatusUnauthorized, "has expired")
	// The hub knows the user of a good token.
	f.refused(signed(t, time.Hour), "GET", "/api/v1/clusters", nil, http.StatusForbidden, ":early")
	f.refused("wrong", "POST", "/api/v1/workloads", strings.Repeat("x", federation.MaxBody+1), http.StatusUnauthorized)
	eventually(t, "there is a line of it", func() bool { return strings.Contains(f.log.String(), `path=/api/v1/clusters status=401`) })
}

// signed returns a token that the hub's own key signed two hours ago, and that is still valid for some time.
func signed(t *testing.T, yet time.Duration) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(server.ControlPlane.APIServer.CertDir, "sa-signer.key"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		t.Fatalf("the hub's key is a %T", parsed)
	}
	part := func(owner any) string {
		raw, err := json.Marshal(owner)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	var good struct {
		Issuer   string   `json:"iss"`
		Audience []string `json:"aud"`
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: newNamespace(t), Name: "early"}}
	create(t, account)
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(tokenOf(t, account), ".")[1])
	if err == nil {
		err = json.Unmarshal(raw, &good)
	}
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	reported := part(map[string]any{"alg": "ES256"}) + "." + part(map[string]any{
		"iss": good.Issuer, "aud": good.Audience, "sub": "system:serviceaccount:" + account.Namespace + ":" + account.Name,
		"exp": now.Add(yet).Unix(), "iat": now.Add(-2 * time.Hour).Unix(), "nbf": now.Add(-2 * time.Hour).Unix(),
		"kubernetes.io": map[string]any{"namespace": account.Namespace, "serviceaccount": map[string]any{"name": account.Name, "uid": account.UID}},
	})
	sum := sha256.Sum256([]byte(reported))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	const half = 32 // bytes of each number of P-256
	return reported + "." + base64.RawURLEncoding.EncodeToString(append(r.FillBytes(make([]byte, half)), s.FillBytes(make([]byte, half))...))
}

func TestRevokedTokenIsRejected(t *testing.T) {
	f := startFederator(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: newNamespace(t), Name: "leaver"}}
	create(t, account)
	token := tokenOf(t, account)
	f.refused(token, "GET", "/api/v1/clusters", nil, http.StatusForbidden, "leaver")
	if err := admin.Delete(context.Background(), account); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the token is refused", func() bool {
		status, _ := f.call(token, "GET", "/api/v1/clusters", nil, nil)
		return status == http.StatusUnauthorized
	})
}

func TestRightsOfTwoUsers(t *testing.T) {
	f := startFederator(t)
	cluster := newCluster(t, "Push")
	ours, theirs := newNamespace(t), newNamespace(t)
	deployer, viewer := newUser(t, ours, ofWorkload, seesClusters), newUser(t, theirs, ofWorkload, nil)
	request := federation.DeployRequest{Name: "web", Namespace: ours, Manifest: deployment("web"), Clusters: []string{cluster}}
	f.must(deployer, "POST", "/api/v1/workloads", request, nil)
	f.must(deployer, "GET", "/api/v1/workloads?namespace="+ours, nil, nil)

	f.refused(viewer, "POST", "/api/v1/workloads", request, http.StatusForbidden, "cannot get resource")
	eventually(t, "there is a line of what was asked for", func() bool {
		return strings.Contains(f.log.String(), "name=web namespace="+ours+" clusters="+cluster)
	})
	f.refused(viewer, "GET", "/api/v1/workloads?namespace="+ours, nil, http.StatusForbidden, "cannot list resource")
	f.refused(viewer, "GET", "/api/v1/workloads/"+ours+"/web", nil, http.StatusForbidden)
	f.refused(viewer, "DELETE", "/api/v1/workloads/"+ours+"/web", nil, http.StatusForbidden)
	f.refused(viewer, "POST", "/api/v1/workloads/"+ours+"/web/move", federation.MoveRequest{To: []string{cluster}}, http.StatusForbidden)
	f.refused(deployer, "POST", "/api/v1/clusters", federation.JoinRequest{Name: "another", ID: "another"}, http.StatusForbidden)
	f.refused(deployer, "DELETE", "/api/v1/clusters/"+cluster, nil, http.StatusForbidden)
	f.refused(deployer, "GET", "/api/v1/workloads", nil, http.StatusForbidden, "at the cluster scope")
	eventually(t, "there is a line of it, with the user", func() bool {
		return strings.Contains(f.log.String(), "user=system:serviceaccount:"+theirs) && strings.Contains(f.log.String(), "status=403")
	})
}

func TestDeployWithoutRightForKindChangesNothing(t *testing.T) {
	f := startFederator(t)
	cluster, namespace := newCluster(t, "Push"), newNamespace(t)
	user := newUser(t, namespace, ofWorkload, seesClusters)
	secret := "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"
	f.refused(user, "POST", "/api/v1/workloads", federation.DeployRequest{Name: "web", Namespace: namespace, Manifest: configMap("c") + secret, Clusters: []string{cluster}},
		http.StatusForbidden, "Secret s", "secrets")
	var list federation.Workloads
	f.must(user, "GET", "/api/v1/workloads?namespace="+namespace, nil, &list)
	if len(list.Items) != 0 {
		t.Errorf("workloads %v were made", list.Items)
	}
}

func TestTokensNeedAudience(t *testing.T) {
	f := startFederator(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: newNamespace(t), Name: "anna"}}
	create(t, account)
	f.refused(tokenFor(t, account), "GET", "/api/v1/clusters", nil, http.StatusUnauthorized, "another audience", "--audience "+federation.Audience)
	f.refused(tokenFor(t, account, "others"), "GET", "/api/v1/clusters", nil, http.StatusUnauthorized, "another audience")
	token := tokenOf(t, account)
	f.refused(token, "GET", "/api/v1/clusters", nil, http.StatusForbidden, ":anna")
	direct := rest.AnonymousClientConfig(config)
	direct.BearerToken = token
	createdClient, err := client.New(direct, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := createdClient.List(t.Context(), &corev1.NamespaceList{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("at the hub itself the token for the federator gets %v", err)
	}
}

// allowedAs checks whether the federator, with the rights that the chart gives it, may act as a user.
func allowedAs(t *testing.T, federator *rest.Config, user string, groups ...string) error {
	t.Helper()
	as := rest.CopyConfig(federator)
	as.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	createdClient, err := client.New(as, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return createdClient.Create(t.Context(), &authenticationv1.SelfSubjectReview{})
}

func TestImpersonationIsLimited(t *testing.T) {
	needHub(t)
	federator := chartRights(t)
	if err := allowedAs(t, federator, "system:serviceaccount:team:anna"); err != nil {
		t.Errorf("as a ServiceAccount: %v", err)
	}
	for name, test := range map[string][]string{
		"an administrator":                     {"anna", "system:masters"},
		"a ServiceAccount in another group":    {"system:serviceaccount:team:anna", "system:masters"},
		"a program of Kubernetes":              {"system:kube-controller-manager"},
		"a user that the chart does not know":  {"anna@example.org"},
		"a node":                               {"system:node:n1", "system:nodes"},
		"an agent":                             {federation.AgentUser + "east", federation.AgentGroup},
		"a user with a group that it has also": {"anna@example.org", "planners"},
	} {
		if err := allowedAs(t, federator, test[0], test[1:]...); !apierrors.IsForbidden(err) {
			t.Errorf("as %s: %v", name, err)
		}
	}
}
