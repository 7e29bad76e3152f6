// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"net"
	"strings"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/pki"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// KarmadaPrograms is the folder of Karmada's programs on a hub.
const KarmadaPrograms = "/opt/karmada/bin"

// karmadaNamespace is the namespace in which Karmada's tools look for its parts.
const karmadaNamespace = "karmada-system"

// KarmadaKubeconfig is the kubeconfig for Karmada's own API server.
const KarmadaKubeconfig = "/etc/karmada/karmada.config"

// karmadaServer is a part of Karmada that others reach by the name of a Service. A hub has no DNS and no Service
// network, so /etc/hosts has names and addresses. Karmada's manifests use port 443 for each, so the addresses differ.
type karmadaServer struct{ name, address string }

var (
	aggregatedServer = karmadaServer{"karmada-aggregated-apiserver", "127.0.0.2"}
	webhookServer    = karmadaServer{"karmada-webhook", "127.0.0.3"}
)

func (s karmadaServer) names() []string {
	service := s.name + "." + karmadaNamespace + ".svc"
	return []string{service, service + "." + plan.Domain}
}

func (s karmadaServer) folder() string { return "/etc/karmada/" + s.name }

// HubSetup returns the set-up of a hub, without programs: the part of a control plane that Karmada needs, and Karmada.
func HubSetup(c *Credentials) (node.Setup, error) {
	f := files{}
	if err := f.controlPlane(c); err != nil {
		return node.Setup{}, err
	}
	f.public(pkiDir+"ca.crt", c.cluster.PEM.Certificate)
	text, err := c.Kubeconfig("system:admin", "system:masters")
	if err != nil {
		return node.Setup{}, err
	}
	f.private(KarmadaKubeconfig, text)
	hosts := []string{"127.0.0.1 localhost", "::1 localhost"}
	for _, server := range []karmadaServer{aggregatedServer, webhookServer} {
		pair, err := c.cluster.Issue(pki.Subject{User: server.name, Addresses: []net.IP{net.ParseIP(server.address)}, Names: server.names()})
		if err != nil {
			return node.Setup{}, err
		}
		f.public(server.folder()+"/tls.crt", pair.Certificate)
		f.private(server.folder()+"/tls.key", pair.Key)
		hosts = append(hosts, server.address+" "+strings.Join(server.names(), " "))
	}
	f.public("/etc/hosts", []byte(strings.Join(hosts, "\n")+"\n"))
	return node.Setup{ID: c.plan.ID, Files: f, Services: hubServices(c.plan.ControlPlane())}, nil
}

// hubControllers are the Kubernetes controllers that Karmada's own installation runs: no pods run on a hub.
const hubControllers = "namespace-controller,garbage-collector-controller,serviceaccount-token-controller,ttl-after-finished-controller," +
	"bootstrap-signer-controller,token-cleaner-controller,certificatesigningrequest-cleaner-controller," +
	"certificatesigningrequest-signing-controller,clusterrole-aggregation-controller"

func hubServices(host plan.Node) []node.Service {
	return []node.Service{
		etcd(),
		{Name: "kube-apiserver", Command: append(apiServer(host),
			"--enable-bootstrap-token-auth=true",
			"--disable-admission-plugins=StorageObjectInUseProtection,ServiceAccount",
		)},
		{Name: "kube-controller-manager", Command: append(controllerManager(), "--controllers="+hubControllers)},
		karmadaService("aggregated-apiserver", append(etcdClient(),
			"--authentication-kubeconfig="+KarmadaKubeconfig, "--authorization-kubeconfig="+KarmadaKubeconfig,
			"--tls-cert-file="+aggregatedServer.folder()+"/tls.crt", "--tls-private-key-file="+aggregatedServer.folder()+"/tls.key",
			"--bind-address="+aggregatedServer.address,
		)...),
		karmadaService("controller-manager", "--leader-elect=false", "--metrics-bind-address=127.0.0.1:8081", "--health-probe-bind-address=127.0.0.1:10358"),
		karmadaService("scheduler", "--leader-elect=false", "--metrics-bind-address=127.0.0.1:8082", "--health-probe-bind-address=127.0.0.1:10351"),
		karmadaService("webhook", "--bind-address="+webhookServer.address, "--secure-port=443", "--cert-dir="+webhookServer.folder(),
			"--metrics-bind-address=127.0.0.1:8083", "--health-probe-bind-address=127.0.0.1:8000"),
	}
}

// karmadaService returns a program of Karmada with the options of its own installation.
func karmadaService(program string, options ...string) node.Service {
	return node.Service{
		Name:    "karmada-" + program,
		Command: append([]string{KarmadaPrograms + "/" + program, "--kubeconfig=" + KarmadaKubeconfig, "--v=2"}, options...),
	}
}
