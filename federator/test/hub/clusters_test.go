// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// authority returns the certificate of a cluster's authority in PEM, and its fingerprint.
func authority(t *testing.T) (text, fingerprint string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour), IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(der)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), "sha256:" + hex.EncodeToString(sum[:])
}

// request returns a certificate signing request.
func request(t *testing.T, name string, groups ...string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name, Organization: groups}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

func TestJoinInPullMode(t *testing.T) {
	f, token, name := startFederator(t), newAdmin(t), unique("joiner")
	_, pinned := authority(t)
	_, another := authority(t)
	want := federation.JoinRequest{Name: name, ID: "id-of-" + name, Fingerprint: pinned, Labels: map[string]string{"site": "a"}, Region: "north"}
	var joined federation.Joined
	f.must(token, "POST", "/api/v1/clusters", want, &joined)
	if joined.Cluster.Mode != federation.Pull || joined.Cluster.Fingerprint != pinned || joined.Cluster.Ready != "Unknown" || joined.Cluster.Labels["site"] != "a" {
		t.Errorf("joined %+v", joined.Cluster)
	}
	if joined.Bootstrap == nil || joined.Bootstrap.Server != config.Host || !strings.Contains(joined.Bootstrap.CA, "BEGIN CERTIFICATE") || time.Until(joined.Bootstrap.ExpiresAt) > time.Hour {
		t.Fatalf("the agent gets %+v", joined.Bootstrap)
	}
	id, secret, _ := strings.Cut(joined.Bootstrap.Token, ".")
	var kept corev1.Secret
	get(t, "kube-system", "bootstrap-token-"+id, &kept)
	if string(kept.Data["token-secret"]) != secret || string(kept.Data["usage-bootstrap-authentication"]) != "true" || kept.Type != "bootstrap.kubernetes.io/token" {
		t.Errorf("the token is kept as %s with %d keys", kept.Type, len(kept.Data))
	}
	var binding rbacv1.ClusterRoleBinding
	get(t, "", "system:karmada:"+name+":agent", &binding)
	if binding.Subjects[0].Name != "system:karmada:agent:"+name || binding.OwnerReferences[0].Name != name || binding.OwnerReferences[0].Kind != "Cluster" {
		t.Errorf("the agent's rights are %+v", binding)
	}
	for _, rule := range roleOf(t, name).Rules {
		if slices.Contains(rule.Resources, "clusters") && (slices.Contains(rule.Verbs, "update") || slices.Contains(rule.Verbs, "patch") || slices.Contains(rule.Verbs, "create")) {
			t.Errorf("the agent may %v %v", rule.Verbs, rule.Resources)
		}
	}
	get(t, "karmada-es-"+name, "system:karmada:"+name+":agent-work", &rbacv1.Role{})

	f.must(token, "POST", "/api/v1/clusters", want, nil) // gets another token
	want.Fingerprint = another
	f.refused(token, "POST", "/api/v1/clusters", want, http.StatusConflict, "is a member with authority "+pinned)
	f.refused(token, "POST", "/api/v1/clusters", federation.JoinRequest{Name: name, Mode: "Push", Endpoint: "https://192.0.2.1", Token: "t", CA: first(authority(t))},
		http.StatusConflict, "is a member in mode Pull")
	var cluster v1alpha1.Cluster
	get(t, "", name, &cluster)
	// The agent of a cluster starts only if one member has both its name and its id.
	if cluster.Spec.ID != "id-of-"+name {
		t.Errorf("its id is %q", cluster.Spec.ID)
	}
	cluster.Status.KubernetesVersion = "v1.34.0"
	if err := admin.Status().Update(t.Context(), &cluster); err != nil {
		t.Fatal(err)
	}
	want.Fingerprint = pinned
	f.refused(token, "POST", "/api/v1/clusters", want, http.StatusConflict, "its agent has reported")
	want.ID = "another"
	f.refused(token, "POST", "/api/v1/clusters", want, http.StatusConflict, "is the one with id id-of-"+name)
	want.Name, want.ID = unique("twin"), "id-of-"+name
	f.refused(token, "POST", "/api/v1/clusters", want, http.StatusConflict, "is a member already, by the name "+name)
}

// roleOf returns the rights of a cluster's agent at the whole hub.
func roleOf(t *testing.T, cluster string) *rbacv1.ClusterRole {
	t.Helper()
	var role rbacv1.ClusterRole
	get(t, "", "system:karmada:"+cluster+":agent", &role)
	return &role
}

func first(text, _ string) string { return text }

func TestInvalidJoinIsRejected(t *testing.T) {
	f, token := startFederator(t), newAdmin(t)
	ca, _ := authority(t)
	other, fingerprint := authority(t)
	push := federation.JoinRequest{Name: "wrong", Mode: "Push", Endpoint: "https://192.0.2.1:6443", CA: ca, Token: "t"}
	for name, test := range map[string]struct {
		change func(*federation.JoinRequest)
		words  string
	}{
		"a name":                  {func(r *federation.JoinRequest) { r.Name = "Wrong" }, "small letters, digits and hyphens"},
		"a mode":                  {func(r *federation.JoinRequest) { r.Mode = "Both" }, "mode"},
		"an address":              {func(r *federation.JoinRequest) { r.Endpoint = "192.0.2.1" }, "is not the address of an API server"},
		"no token":                {func(r *federation.JoinRequest) { r.Token = "" }, "token is missing"},
		"no authority":            {func(r *federation.JoinRequest) { r.CA = "none" }, "ca is not a certificate in PEM"},
		"two authorities":         {func(r *federation.JoinRequest) { r.CA += other }, "ca has 2 certificates"},
		"another authority":       {func(r *federation.JoinRequest) { r.Fingerprint = fingerprint }, "not the authority that was meant"},
		"no fingerprint":          {func(r *federation.JoinRequest) { r.Fingerprint = "sha1:00" }, "sha256: and 64 hexadecimal digits"},
		"no id with Pull":         {func(r *federation.JoinRequest) { *r = federation.JoinRequest{Name: "wrong", Mode: "Pull"} }, "id is missing"},
		"credentials with Pull":   {func(r *federation.JoinRequest) { r.Mode = "Pull" }, "shall not have its credentials"},
		"a label that cannot be":  {func(r *federation.JoinRequest) { r.Labels = map[string]string{"a b": "c"} }, "a b"},
		"a name that is too long": {func(r *federation.JoinRequest) { r.Name = strings.Repeat("a", 49) }, "48"},
	} {
		t.Run(name, func(t *testing.T) {
			request := push
			test.change(&request)
			status, problem := f.call(token, "POST", "/api/v1/clusters", request, nil)
			if status != http.StatusUnprocessableEntity || !strings.Contains(problem, test.words) {
				t.Errorf("%d %q, want 422 with %q", status, problem, test.words)
			}
		})
	}
	if err := admin.Get(t.Context(), types.NamespacedName{Name: "wrong"}, &v1alpha1.Cluster{}); !apierrors.IsNotFound(err) {
		t.Errorf("the cluster is there: %v", err)
	}
}

func TestAuthorityIsCompared(t *testing.T) {
	f, token, name := startFederator(t), newAdmin(t), unique("pusher")
	ca, pinned := authority(t)
	f.must(token, "POST", "/api/v1/clusters", federation.JoinRequest{Name: name, Mode: "Push", Endpoint: "https://192.0.2.1:6443", CA: ca, Token: "secret"}, nil)
	read := func(token string) federation.Cluster {
		t.Helper()
		var list federation.Clusters
		f.must(token, "GET", "/api/v1/clusters", nil, &list)
		return list.Items[slices.IndexFunc(list.Items, func(c federation.Cluster) bool { return c.Name == name })]
	}
	if got := read(token); got.Pin != federation.PinMatches || got.Fingerprint != pinned {
		t.Errorf("told %+v", got)
	}
	if got := read(newUser(t, newNamespace(t), nil, seesClusters)); got.Pin != federation.PinUnknown {
		t.Errorf("who may not read the credentials is told %q", got.Pin)
	}
	var kept corev1.Secret
	get(t, "karmada-cluster", name, &kept)
	kept.Data["caBundle"] = []byte(first(authority(t)))
	if err := admin.Update(t.Context(), &kept); err != nil {
		t.Fatal(err)
	}
	if got := read(token); got.Pin != federation.PinDiffers {
		t.Errorf("with another authority told %q", got.Pin)
	}
	// Credentials are rotated by joining again.
	f.must(token, "POST", "/api/v1/clusters", federation.JoinRequest{Name: name, Mode: "Push", Endpoint: "https://192.0.2.1:6443", CA: ca, Token: "newer"}, nil)
	get(t, "karmada-cluster", name, &kept)
	if string(kept.Data["token"]) != "newer" || read(token).Pin != federation.PinMatches {
		t.Errorf("the token is %q", kept.Data["token"])
	}
	if len(kept.OwnerReferences) != 1 || kept.OwnerReferences[0].Kind != "Cluster" {
		t.Errorf("Secret %s goes with %v", name, kept.OwnerReferences)
	}
}

func TestProxyIsOptional(t *testing.T) {
	f, token, ca := startFederator(t), newAdmin(t), first(authority(t))
	for name, proxy := range map[string]bool{unique("direct"): false, unique("proxied"): true} {
		request := federation.JoinRequest{Name: name, Mode: "Push", Endpoint: "https://192.0.2.1:6443", CA: ca, Token: "first", Proxy: proxy}
		f.must(token, "POST", "/api/v1/clusters", request, nil)
		request.Token, request.Proxy = "second", false
		f.must(token, "POST", "/api/v1/clusters", request, nil)
		var cluster v1alpha1.Cluster
		get(t, "", name, &cluster)
		var kept corev1.Secret
		err := admin.Get(t.Context(), types.NamespacedName{Namespace: "karmada-cluster", Name: name + "-impersonator"}, &kept)
		if proxy {
			if err != nil || cluster.Spec.ImpersonatorSecretRef == nil || string(kept.Data["token"]) != "second" || len(kept.OwnerReferences) != 1 {
				t.Errorf("with a proxy the Secret is %v with %d owners, and named by %v", err, len(kept.OwnerReferences), cluster.Spec.ImpersonatorSecretRef)
			}
		} else if !apierrors.IsNotFound(err) || cluster.Spec.ImpersonatorSecretRef != nil {
			t.Errorf("without a proxy the Secret is %v, and named by %v", err, cluster.Spec.ImpersonatorSecretRef)
		}
	}
}

func TestUnjoinWithLocalWorkloadsNeedsForce(t *testing.T) {
	f, token, item, two, namespace := startFederator(t), newAdmin(t), newCluster(t, "Push"), newCluster(t, "Push"), newNamespace(t)
	k := startKarmada(t, namespace, item, two)
	deploy := func(name string, clusters ...string) {
		t.Helper()
		f.must(token, "POST", "/api/v1/workloads", federation.DeployRequest{Name: name, Namespace: namespace, Manifest: deployment(name), Clusters: clusters}, nil)
	}
	deploy("both", item, two)
	deploy("alone", item)
	f.refused(token, "DELETE", "/api/v1/clusters/nowhere", nil, http.StatusNotFound, "there is no cluster nowhere")
	f.refused(token, "DELETE", "/api/v1/clusters/"+item, nil, http.StatusConflict, "on cluster "+item+" alone: "+namespace+"/alone")
	f.must(token, "DELETE", "/api/v1/workloads/"+namespace+"/alone", nil, nil)
	var left federation.Unjoined
	f.must(token, "DELETE", "/api/v1/clusters/"+item, nil, &left)
	if !slices.Equal(left.Drained, []string{namespace + "/both"}) || len(left.Left) > 0 {
		t.Errorf("left %+v", left)
	}
	if err := admin.Get(t.Context(), types.NamespacedName{Name: item}, &v1alpha1.Cluster{}); !apierrors.IsNotFound(err) {
		t.Errorf("the cluster is there: %v", err)
	}
	var workload federation.Workload
	f.must(token, "GET", "/api/v1/workloads/"+namespace+"/both", nil, &workload)
	if removed, kept := k.became(); !slices.Equal(workload.Clusters, []string{two}) || !slices.Equal(removed, []string{item}) || len(kept) > 0 {
		t.Errorf("it is on %v; %v removed it, %v kept it", workload.Clusters, removed, kept)
	}
	f.must(token, "DELETE", "/api/v1/clusters/"+two+"?force=true", nil, &left)
	if !slices.Equal(left.Left, []string{namespace + "/both"}) {
		t.Errorf("left %+v", left)
	}
}
