// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// sign does once what the hub's controllers do with a request for the certificate of a cluster's agent, and what an
// administrator does before if the request is to be approved. A request that is not approved is not signed.
func sign(t *testing.T, cluster string, approve bool) <-chan []byte {
	t.Helper()
	signed := make(chan []byte, 1)
	certificate := []byte(first(authority(t)))
	once := func(request *certificatesv1.CertificateSigningRequest) bool {
		if approve {
			request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
				Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test", LastUpdateTime: metav1.Now()}}
			_ = admin.SubResource("approval").Update(t.Context(), request)
		}
		if len(request.Status.Conditions) == 0 {
			return false
		}
		request.Status.Certificate = certificate
		return admin.Status().Update(t.Context(), request) == nil
	}
	go func() {
		for range 100 {
			var list certificatesv1.CertificateSigningRequestList
			_ = admin.List(t.Context(), &list) // or in the next round
			for i := range list.Items {
				if strings.HasPrefix(list.Items[i].Name, "ktsn-agent-"+cluster+"-") && once(&list.Items[i]) {
					signed <- certificate
					return
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		signed <- nil
	}()
	return signed
}

func TestHubSignsAgentCertificate(t *testing.T) {
	f, token, name := startFederator(t), newAdmin(t), unique("agent")
	path := "/api/v1/clusters/" + name + "/certificate"
	f.refused(token, "POST", path, federation.CertificateRequest{Request: "none"}, http.StatusUnprocessableEntity, "not a certificate signing request in PEM")
	f.refused(token, "POST", path, federation.CertificateRequest{Request: request(t, "system:admin", "system:masters")}, http.StatusUnprocessableEntity,
		`request is for CN "system:admin"`)
	f.refused(token, "POST", path, federation.CertificateRequest{Request: request(t, "system:karmada:agent:other", federation.AgentGroup)}, http.StatusUnprocessableEntity)
	f.refused(newUser(t, newNamespace(t), nil, nil), "POST", path, federation.CertificateRequest{Request: request(t, "system:karmada:agent:"+name, federation.AgentGroup)},
		http.StatusForbidden, "certificatesigningrequests")

	for name, approve := range map[string]bool{name: false, unique("agent"): true} {
		user := token
		if approve {
			user = newUser(t, newNamespace(t), nil, []rbacv1.PolicyRule{{
				APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create", "get"}}})
		}
		isSigned(t, f, user, name, approve)
	}
}

// isSigned gets the certificate of an agent signed; the user or an administrator approves it.
func isSigned(t *testing.T, f *running, token, name string, approve bool) {
	t.Helper()
	path := "/api/v1/clusters/" + name + "/certificate"
	signed := sign(t, name, approve)
	var got federation.Certificate
	f.must(token, "POST", path, federation.CertificateRequest{Request: request(t, "system:karmada:agent:"+name, federation.AgentGroup)}, &got)
	if want := <-signed; want == nil || !bytes.Equal([]byte(got.Certificate), want) || got.Server == "" || got.CA == "" {
		t.Errorf("got %+v", got)
	}
}

func TestBootstrapTokenIsForOneCertificate(t *testing.T) {
	f, token, name, other := startFederator(t), newAdmin(t), unique("enrolled"), newCluster(t, "Pull")
	var joined federation.Joined
	f.must(token, "POST", "/api/v1/clusters", federation.JoinRequest{Name: name, ID: name}, &joined)
	bootstrap := joined.Bootstrap.Token
	id, _, _ := strings.Cut(bootstrap, ".")
	var kept corev1.Secret
	get(t, "kube-system", "bootstrap-token-"+id, &kept)
	if _, signs := kept.Data["usage-bootstrap-signing"]; signs || len(kept.OwnerReferences) != 1 || kept.OwnerReferences[0].Name != name {
		t.Errorf("the token has %d keys, and goes with %v", len(kept.Data), kept.OwnerReferences)
	}
	ask := func(cluster string) federation.CertificateRequest {
		return federation.CertificateRequest{Request: request(t, "system:karmada:agent:"+cluster, federation.AgentGroup)}
	}
	f.refused(bootstrap, "POST", "/api/v1/clusters/"+other+"/certificate", ask(other), http.StatusForbidden, "the token is for the agent of cluster "+name)
	f.refused(bootstrap, "GET", "/api/v1/clusters", nil, http.StatusForbidden)
	signed := sign(t, name, false)
	var got federation.Certificate
	f.must(bootstrap, "POST", "/api/v1/clusters/"+name+"/certificate", ask(name), &got)
	if want := <-signed; want == nil || !bytes.Equal([]byte(got.Certificate), want) {
		t.Errorf("got %+v", got)
	}
	if err := admin.Get(t.Context(), types.NamespacedName{Namespace: "kube-system", Name: kept.Name}, &kept); !apierrors.IsNotFound(err) {
		t.Errorf("the token is there: %v", err)
	}
	// The hub may accept the token for some seconds more.
	if status, problem := f.call(bootstrap, "POST", "/api/v1/clusters/"+name+"/certificate", ask(name), nil); status != http.StatusForbidden && status != http.StatusUnauthorized {
		t.Errorf("with the token again: %d %s", status, problem)
	}
}
