// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"embed"
	"fmt"
	"text/template"

	"github.com/kubernetsn/kubernetsn/test/cluster/internal/node"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/plan"
)

// Programs is the folder of Kubernetes' programs on nodes.
const Programs = "/opt/kubernetes/bin"

//go:embed config
var configs embed.FS

// values are the values of the templates in config/.
type values struct {
	Plan *plan.Plan
	Node plan.Node
	// The constants of package plan.
	PodCIDR, ServiceCIDR, DNSService, Domain string
	PauseImage                               string
	// CgroupVersion is 1 or 2: kubelet accepts version 1 only if configured to.
	CgroupVersion int
	// KataHandlers maps handlers of the container runtime to the names of their configurations.
	KataHandlers map[string]string
}

// kataHandlers are a runtime that takes the pod's network interfaces, one that reads its devices from files, and one of
// the first kind that KuberneTSN is not configured for.
var kataHandlers = map[string]string{
	"kata-qemu": "configuration-qemu.toml", "kata-dan": "configuration-dan.toml", "kata-unnamed": "configuration-qemu.toml",
}

// Setup returns the set-up of a node, without programs and plugins, on a machine with cgroups of that version.
func Setup(c *Credentials, host plan.Node, pauseImage string, cgroupVersion int) (node.Setup, error) {
	v := values{
		Plan: c.plan, Node: host, PodCIDR: plan.PodCIDR, ServiceCIDR: plan.ServiceCIDR, DNSService: plan.DNSService,
		Domain: plan.Domain, PauseImage: pauseImage, CgroupVersion: cgroupVersion, KataHandlers: kataHandlers,
	}
	f := files{}
	services := workerServices(host)
	if err := f.worker(c, host); err != nil {
		return node.Setup{}, err
	}
	templates := map[string]string{
		"containerd.toml": "/etc/containerd/config.toml",
		"kubelet.yaml":    "/etc/kubernetes/kubelet.yaml",
		"kube-proxy.yaml": "/etc/kubernetes/kube-proxy.yaml",
	}
	if host == c.plan.ControlPlane() {
		services = append(controlPlaneServices(host), services...)
		if err := f.controlPlane(c); err != nil {
			return node.Setup{}, err
		}
		templates["admission.yaml"] = "/etc/kubernetes/admission.yaml"
	}
	for name, at := range templates {
		text, err := render(name, v)
		if err != nil {
			return node.Setup{}, err
		}
		f.public(at, text)
	}
	return node.Setup{ID: c.plan.ID, Files: f, Services: services}, nil
}

func render(name string, v values) ([]byte, error) {
	parsed, err := template.New(name).Delims("[[", "]]").Option("missingkey=error").ParseFS(configs, "config/"+name)
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", name, err)
	}
	var text bytes.Buffer
	if err := parsed.Execute(&text, v); err != nil {
		return nil, fmt.Errorf("configuration %s: %w", name, err)
	}
	return text.Bytes(), nil
}

func workerServices(host plan.Node) []node.Service {
	return []node.Service{
		{Name: "containerd", Command: []string{"/usr/bin/containerd", "--config=/etc/containerd/config.toml"}},
		{Name: "kubelet", Command: []string{
			Programs + "/kubelet",
			"--config=/etc/kubernetes/kubelet.yaml",
			"--kubeconfig=/etc/kubernetes/kubelet.kubeconfig",
			"--hostname-override=" + host.Name,
			"--node-ip=" + host.Address.String(),
			"--v=2",
		}},
		{Name: "kube-proxy", Command: []string{
			Programs + "/kube-proxy",
			"--config=/etc/kubernetes/kube-proxy.yaml",
			"--hostname-override=" + host.Name,
		}},
	}
}

func controlPlaneServices(host plan.Node) []node.Service {
	return []node.Service{
		etcd(),
		{Name: "kube-apiserver", Command: append(apiServer(host),
			"--enable-admission-plugins=NodeRestriction",
			"--admission-control-config-file=/etc/kubernetes/admission.yaml",
		)},
		{Name: "kube-controller-manager", Command: append(controllerManager(),
			"--allocate-node-cidrs=true", "--cluster-cidr="+plan.PodCIDR,
			"--flex-volume-plugin-dir=/var/lib/kubelet/volumeplugins",
			// A lost node is noticed sooner than by default, so that tests need not wait for it.
			"--node-monitor-grace-period=20s",
		)},
		{Name: "kube-scheduler", Command: []string{
			Programs + "/kube-scheduler",
			"--kubeconfig=/etc/kubernetes/kube-scheduler.kubeconfig",
			"--authentication-kubeconfig=/etc/kubernetes/kube-scheduler.kubeconfig",
			"--authorization-kubeconfig=/etc/kubernetes/kube-scheduler.kubeconfig",
			"--leader-elect=false",
		}},
	}
}

func etcd() node.Service {
	return node.Service{Name: "etcd", Command: []string{
		"/usr/bin/etcd",
		"--data-dir=/var/lib/etcd",
		"--listen-client-urls=https://127.0.0.1:2379",
		"--advertise-client-urls=https://127.0.0.1:2379",
		"--listen-peer-urls=https://127.0.0.1:2380",
		"--initial-advertise-peer-urls=https://127.0.0.1:2380",
		"--initial-cluster=default=https://127.0.0.1:2380",
		"--client-cert-auth", "--peer-client-cert-auth",
		"--trusted-ca-file=" + pkiDir + "etcd-ca.crt", "--peer-trusted-ca-file=" + pkiDir + "etcd-ca.crt",
		"--cert-file=" + pkiDir + "etcd.crt", "--peer-cert-file=" + pkiDir + "etcd.crt",
		"--key-file=" + pkiDir + "etcd.key", "--peer-key-file=" + pkiDir + "etcd.key",
	}}
}

// etcdClient returns the options with which an API server reaches etcd.
func etcdClient() []string {
	return []string{
		"--etcd-servers=https://127.0.0.1:2379",
		"--etcd-cafile=" + pkiDir + "etcd-ca.crt",
		"--etcd-certfile=" + pkiDir + "apiserver-etcd-client.crt",
		"--etcd-keyfile=" + pkiDir + "apiserver-etcd-client.key",
	}
}

// apiServer returns the options that clusters and hubs share.
func apiServer(host plan.Node) []string {
	return append([]string{
		Programs + "/kube-apiserver",
		"--advertise-address=" + host.Address.String(),
		fmt.Sprintf("--secure-port=%d", plan.APIPort),
		"--allow-privileged=true",
		"--authorization-mode=Node,RBAC",
		"--client-ca-file=" + pkiDir + "ca.crt",
		"--tls-cert-file=" + pkiDir + "apiserver.crt", "--tls-private-key-file=" + pkiDir + "apiserver.key",
		"--kubelet-certificate-authority=" + pkiDir + "ca.crt",
		"--kubelet-client-certificate=" + pkiDir + "apiserver-kubelet-client.crt",
		"--kubelet-client-key=" + pkiDir + "apiserver-kubelet-client.key",
		"--kubelet-preferred-address-types=InternalIP",
		"--proxy-client-cert-file=" + pkiDir + "front-proxy-client.crt",
		"--proxy-client-key-file=" + pkiDir + "front-proxy-client.key",
		"--requestheader-client-ca-file=" + pkiDir + "front-proxy-ca.crt",
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--service-account-issuer=https://kubernetes.default.svc." + plan.Domain,
		"--service-account-key-file=" + pkiDir + "sa.pub",
		"--service-account-signing-key-file=" + pkiDir + "sa.key",
		"--service-cluster-ip-range=" + plan.ServiceCIDR,
	}, etcdClient()...)
}

// controllerManager returns the options that clusters and hubs share.
func controllerManager() []string {
	return []string{
		Programs + "/kube-controller-manager",
		"--kubeconfig=/etc/kubernetes/kube-controller-manager.kubeconfig",
		"--authentication-kubeconfig=/etc/kubernetes/kube-controller-manager.kubeconfig",
		"--authorization-kubeconfig=/etc/kubernetes/kube-controller-manager.kubeconfig",
		"--client-ca-file=" + pkiDir + "ca.crt",
		"--cluster-signing-cert-file=" + pkiDir + "ca.crt", "--cluster-signing-key-file=" + pkiDir + "ca.key",
		"--requestheader-client-ca-file=" + pkiDir + "front-proxy-ca.crt",
		"--root-ca-file=" + pkiDir + "ca.crt",
		"--service-account-private-key-file=" + pkiDir + "sa.key",
		"--use-service-account-credentials=true",
		"--leader-elect=false",
	}
}
