// SPDX-License-Identifier: Apache-2.0

package federation

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/chart"
)

// federatorNamespace is the federator's namespace at the hub, and KuberneTSN's in members.
const federatorNamespace = "kubernetsn-system"

// ofProgram selects the program's pods.
var ofProgram = metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=federator"}

// selfSigned returns a certificate for an address, and its key.
func selfSigned(t *testing.T, address net.IP) (certificate, key []byte) {
	t.Helper()
	pair, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ktsn-federator"}, IPAddresses: []net.IP{address},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &pair.PublicKey, pair)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(pair)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

// ensureSecret creates or updates a Secret.
func (p *place) ensureSecret(ctx context.Context, t *testing.T, secret *corev1.Secret) {
	t.Helper()
	secrets := p.client.CoreV1().Secrets(secret.Namespace)
	_, err := secrets.Create(ctx, secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := secrets.Delete(context.WithoutCancel(ctx), secret.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// installProgram installs the program's part of the chart until the test ends, and returns its port on the nodes.
func (p *place) installProgram(ctx context.Context, t *testing.T, certificate, key []byte) (port int32) {
	t.Helper()
	archive := filepath.Join(folder(t, "out/images"), "ktsn-federator.tar")
	if err := p.Load(ctx, archive, p.Nodes...); err != nil {
		t.Fatal(err)
	}
	p.ensureSecret(ctx, t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: federatorNamespace, Name: "ktsn-hub"},
		StringData: map[string]string{"kubeconfig": kubeconfigOf(hub, hub.tokenOf(ctx, t, federatorNamespace, "ktsn-federator"))},
	})
	p.ensureSecret(ctx, t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: federatorNamespace, Name: "ktsn-tls"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key},
	})
	helm := func(ctx context.Context, arguments ...string) {
		if output, err := chart.Helm(ctx, testlab.Program(t, "helm"), p.Kubeconfig(), arguments...); err != nil {
			t.Errorf("%v: %s", err, output)
		}
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		if t.Failed() {
			t.Log(p.programSaid(ctx))
		}
		helm(ctx, "uninstall", "federator", "--wait")
		await(ctx, t, p.endedProgram) // pods go after what helm waits for
	})
	took(t, "helm install until it is ready", func() {
		helm(ctx, "install", "federator", folder(t, "charts/federator"), "--wait", "--timeout", "2m",
			"--values", filepath.Join(folder(t, "out/images"), "values.yaml"), "--set", "image.pullPolicy=Never,hub.enabled=false,namespace.create=false",
			"--set", "program.kubeconfigSecret=ktsn-hub,program.tlsSecret=ktsn-tls,program.service.type=NodePort")
	})
	if t.Failed() {
		t.FailNow() // helm has said why
	}
	service, err := p.client.CoreV1().Services(federatorNamespace).Get(ctx, "ktsn-federator", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return service.Spec.Ports[0].NodePort
}

// programSaid returns the log of its pods, or why there is none.
func (p *place) programSaid(ctx context.Context) string {
	pods := p.client.CoreV1().Pods(federatorNamespace)
	list, err := pods.List(ctx, ofProgram)
	if err != nil {
		return err.Error()
	}
	var all strings.Builder
	for i := range list.Items {
		log, err := pods.GetLogs(list.Items[i].Name, &corev1.PodLogOptions{}).DoRaw(ctx)
		fmt.Fprintf(&all, "pod %s (%v):\n%s\n", list.Items[i].Name, err, log)
	}
	return all.String()
}

// endedProgram fails while a pod of the program exists. A terminating pod answers until the end, with its own
// certificate.
func (p *place) endedProgram(ctx context.Context) error {
	pods, err := p.client.CoreV1().Pods(federatorNamespace).List(ctx, ofProgram)
	if err == nil && len(pods.Items) > 0 {
		err = fmt.Errorf("pod %s is still there", pods.Items[0].Name)
	}
	return err
}

// forwarded returns a question for await: whether connections to a node's port reach a pod. kube-proxy forwards them
// shortly after the pod is ready.
func forwarded(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return connection.Close()
	}
}

// TestFederatorInPods runs it in a member. Usually it runs in the cluster of Karmada's programs, which does not
// exist here.
func TestFederatorInPods(t *testing.T) {
	needCharts(t)
	ctx, f := needFederator(t)
	f.stop() // the hub has what the chart makes there
	host := members[0]
	address := host.ControlPlane().Address
	certificate, key := selfSigned(t, address.AsSlice())
	at := netip.AddrPortFrom(address, uint16(host.installProgram(ctx, t, certificate, key))).String()
	f.write("ca.pem", string(certificate))
	f.write("fed.yaml", fmt.Sprintf("server: https://%s\nca: %s\ntokenFile: %s\n", at, filepath.Join(f.folder, "ca.pem"), filepath.Join(f.folder, "token")))
	took(t, "kube-proxy forwards to it after another", func() { await(ctx, t, forwarded(at)) })
	f.run(ctx, "where") // of what a pod has read of the hub before it was ready
	for _, member := range members {
		if output := f.run(ctx, "clusters"); !strings.Contains(output, member.as) {
			t.Errorf("it lists %s", output)
		}
	}
	namespace := newNamespace(ctx, t)
	f.deploy(ctx, namespace, host)
	f.run(ctx, "move", namespace+"/web", "--to", members[1].as)
	f.run(ctx, "delete", namespace+"/web")
	await(ctx, t, members[1].gone(namespace))
}
