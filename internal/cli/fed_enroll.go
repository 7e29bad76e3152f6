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
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// enroll makes a key, has the hub sign a certificate for a cluster's agent, and writes both into files.
func enroll(ctx context.Context, client *fedClient, cluster string, files *agentFiles, out io.Writer) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	subject := pkix.Name{CommonName: federation.AgentUser + cluster, Organization: []string{federation.AgentGroup}}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
	if err != nil {
		return fmt.Errorf("ask for a certificate: %w", err)
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

// member is what a kubeconfig says of a cluster.
type member struct{ server, ca, fingerprint, token string }

// kubeconfig is the part of one that is read.
type kubeconfig struct {
	CurrentContext string `yaml:"current-context"`
	Contexts       []struct {
		Name    string `yaml:"name"`
		Context struct {
			Cluster string `yaml:"cluster"`
			User    string `yaml:"user"`
		} `yaml:"context"`
	} `yaml:"contexts"`
	Clusters []struct {
		Name    string `yaml:"name"`
		Cluster struct {
			Server string `yaml:"server"`
			CA     string `yaml:"certificate-authority"`
			CAData string `yaml:"certificate-authority-data"`
		} `yaml:"cluster"`
	} `yaml:"clusters"`
	Users []struct {
		Name string `yaml:"name"`
		User struct {
			Token string `yaml:"token"`
		} `yaml:"user"`
	} `yaml:"users"`
}

// readMember reads the current context of a kubeconfig.
func readMember(file string) (*member, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read how the cluster is reached: %w", err)
	}
	var config kubeconfig
	if err := yaml.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("read how the cluster is reached: %s: %w", file, err)
	}
	var read member
	for _, context := range config.Contexts {
		if context.Name != config.CurrentContext {
			continue
		}
		for _, cluster := range config.Clusters {
			if cluster.Name == context.Context.Cluster {
				read.server = cluster.Cluster.Server
				if read.ca, err = authorityOf(filepath.Dir(file), cluster.Cluster.CAData, cluster.Cluster.CA); err != nil {
					return nil, fmt.Errorf("read the authority in %s: %w", file, err)
				}
			}
		}
		for _, user := range config.Users {
			if user.Name == context.Context.User {
				read.token = user.User.Token
			}
		}
	}
	block, _ := pem.Decode([]byte(read.ca))
	if block == nil {
		return nil, fmt.Errorf("the current context of %s has no certificate of an authority", file)
	}
	sum := sha256.Sum256(block.Bytes)
	read.fingerprint = "sha256:" + hex.EncodeToString(sum[:])
	return &read, nil
}

// authorityOf is a certificate that is in the file, or in another.
func authorityOf(folder, data, file string) (string, error) {
	if data != "" {
		text, err := base64.StdEncoding.DecodeString(data)
		return string(text), err
	}
	if file == "" {
		return "", nil
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(folder, file)
	}
	text, err := os.ReadFile(file)
	return string(text), err
}
