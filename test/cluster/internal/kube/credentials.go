// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"net"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/pki"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// pkiDir is the nodes' folder for certificates and keys.
const pkiDir = "/etc/kubernetes/pki/"

// Credentials are the authorities of a cluster. They exist only during `up`.
type Credentials struct {
	plan *plan.Plan
	// cluster signs the components' certificates, front the API server's for extension API servers, etcd those of etcd
	// and its client.
	cluster, front, etcd *pki.Authority
}

// NewCredentials creates the authorities.
func NewCredentials(p *plan.Plan) (*Credentials, error) {
	c := &Credentials{plan: p}
	for name, authority := range map[string]**pki.Authority{
		"kubernetes": &c.cluster, "front-proxy": &c.front, "etcd": &c.etcd,
	} {
		created, err := pki.NewAuthority(name)
		if err != nil {
			return nil, err
		}
		*authority = created
	}
	return c, nil
}

// Kubeconfig returns a kubeconfig for a user of the cluster.
func (c *Credentials) Kubeconfig(user string, groups ...string) ([]byte, error) {
	pair, err := c.cluster.Issue(pki.Subject{User: user, Groups: groups})
	if err != nil {
		return nil, err
	}
	name := c.plan.Name
	config := api.NewConfig()
	config.Clusters[name] = &api.Cluster{Server: c.plan.Server(), CertificateAuthorityData: c.cluster.PEM.Certificate}
	config.AuthInfos[user] = &api.AuthInfo{ClientCertificateData: pair.Certificate, ClientKeyData: pair.Key}
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: user}
	config.CurrentContext = name
	text, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("write kubeconfig of %s: %w", user, err)
	}
	return text, nil
}

// files collects the files of a node.
type files map[string]node.File

func (f files) public(path string, content []byte) {
	f[path] = node.File{Content: content, Mode: 0o644}
}
func (f files) private(path string, content []byte) {
	f[path] = node.File{Content: content, Mode: 0o600}
}

// issue adds a certificate and its key to pkiDir, as NAME.crt and NAME.key.
func (f files) issue(name string, authority *pki.Authority, subject pki.Subject) error {
	pair, err := authority.Issue(subject)
	if err != nil {
		return err
	}
	f.public(pkiDir+name+".crt", pair.Certificate)
	f.private(pkiDir+name+".key", pair.Key)
	return nil
}

// kubeconfig adds a kubeconfig to /etc/kubernetes.
func (f files) kubeconfig(c *Credentials, name, user string, groups ...string) error {
	text, err := c.Kubeconfig(user, groups...)
	if err != nil {
		return err
	}
	f.private("/etc/kubernetes/"+name+".kubeconfig", text)
	return nil
}

// controlPlane adds the files that only the control plane's node may have.
func (f files) controlPlane(c *Credentials) error {
	host := c.plan.ControlPlane()
	address := net.IP(host.Address.AsSlice())
	loopback := net.IPv4(127, 0, 0, 1)
	f.private(pkiDir+"ca.key", c.cluster.PEM.Key)
	f.public(pkiDir+"front-proxy-ca.crt", c.front.PEM.Certificate)
	f.public(pkiDir+"etcd-ca.crt", c.etcd.PEM.Certificate)
	private, public, err := pki.NewSigningKey()
	if err != nil {
		return err
	}
	f.private(pkiDir+"sa.key", private)
	f.public(pkiDir+"sa.pub", public)
	for _, issue := range []struct {
		name      string
		authority *pki.Authority
		subject   pki.Subject
	}{
		{"apiserver", c.cluster, pki.Subject{
			User:      "kube-apiserver",
			Addresses: []net.IP{address, loopback, net.ParseIP(plan.APIService)},
			Names: []string{host.Name, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
				"kubernetes.default.svc." + plan.Domain},
		}},
		{"apiserver-kubelet-client", c.cluster, pki.Subject{User: kubeletClient}},
		{"front-proxy-client", c.front, pki.Subject{User: "front-proxy-client"}},
		{"etcd", c.etcd, pki.Subject{User: "etcd", Addresses: []net.IP{loopback}, Names: []string{"localhost"}}},
		{"apiserver-etcd-client", c.etcd, pki.Subject{User: "kube-apiserver-etcd-client"}},
	} {
		if err := f.issue(issue.name, issue.authority, issue.subject); err != nil {
			return err
		}
	}
	for _, user := range []string{"kube-controller-manager", "kube-scheduler"} {
		if err := f.kubeconfig(c, user, "system:"+user); err != nil {
			return err
		}
	}
	return nil
}

// kubeletClient is the user of the API server at kubelets; manifests/rbac.yaml allows it exec and logs.
const kubeletClient = "kube-apiserver-kubelet-client"

// worker adds the files that every node has.
func (f files) worker(c *Credentials, host plan.Node) error {
	f.public(pkiDir+"ca.crt", c.cluster.PEM.Certificate)
	err := f.issue("kubelet", c.cluster, pki.Subject{
		User: "system:node:" + host.Name, Groups: []string{"system:nodes"},
		Addresses: []net.IP{net.IP(host.Address.AsSlice())}, Names: []string{host.Name},
	})
	if err != nil {
		return err
	}
	if err := f.kubeconfig(c, "kubelet", "system:node:"+host.Name, "system:nodes"); err != nil {
		return err
	}
	return f.kubeconfig(c, "kube-proxy", "system:kube-proxy")
}
