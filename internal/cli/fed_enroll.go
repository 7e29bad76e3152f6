// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubernetsn/kubernetsn/internal/cli/clusterreader"
	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// enroll creates a key, lets the hub sign a certificate for a cluster's agent, and writes both into files.
func enroll(ctx context.Context, client *fedClient, cluster string, files *agentFiles, out io.Writer) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("create a key: %w", err)
	}
	subject := pkix.Name{CommonName: federation.AgentUser + cluster, Organization: []string{federation.AgentGroup}}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
	if err != nil {
		return fmt.Errorf("create the request for a certificate: %w", err)
	}
	keyBytes, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("write the key: %w", err)
	}
	asked := federation.CertificateRequest{Request: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}))}
	var signed federation.Certificate
	if err := client.do(ctx, http.MethodPost, "/api/v1/clusters/"+url.PathEscape(cluster)+"/certificate", asked, &signed); err != nil {
		return err
	}
	text, err := agentKubeconfig(cluster, &signed, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyBytes}))
	if err != nil {
		return err
	}
	if err := files.write(cluster, text); err != nil {
		return err
	}
	files.print(out, cluster)
	return nil
}

// member is a cluster as a kubeconfig describes it.
type member struct{ server, ca, fingerprint, token string }

// readMember reads the current context of a kubeconfig.
func readMember(file string) (*member, error) {
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err == nil {
		err = rest.LoadTLSFiles(config)
	}
	if err != nil {
		return nil, fmt.Errorf("read how to reach the cluster: %w", err)
	}
	block, _ := pem.Decode(config.CAData)
	if block == nil {
		return nil, fmt.Errorf("the current context of %s has no certificate of an authority", file)
	}
	sum := sha256.Sum256(block.Bytes)
	return &member{config.Host, string(config.CAData), "sha256:" + hex.EncodeToString(sum[:]), strings.TrimSpace(config.BearerToken)}, nil
}

// readMemberID reads the UID of a cluster's namespace kube-system, by which its agent identifies the cluster.
func readMemberID(ctx context.Context, kubeconfig string) (string, error) {
	var namespace corev1.Namespace
	cluster, err := clusterreader.Open(kubeconfig, "", "")
	if err == nil {
		err = cluster.Get(ctx, clusterreader.Namespaces, "", "kube-system", &namespace)
	}
	if err != nil {
		return "", fmt.Errorf("read the ID of the cluster of %s: %w; or set --id to the output of `kubectl get namespace kube-system "+
			"-o jsonpath={.metadata.uid}` there", kubeconfig, err)
	}
	return string(namespace.UID), nil
}
