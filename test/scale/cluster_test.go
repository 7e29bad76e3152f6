// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cluster/webhook"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/internal/testlab/process"
	"github.com/kubernetsn/kubernetsn/test/apiserver"
)

const (
	system = "kubernetsn-system"
	linger = time.Minute
	// networkName is the network that all pods are on.
	networkName = "plant"
	// startPatience is for API server and etcd on a machine that does much else.
	startPatience = 3 * time.Minute
)

var scheme = runtime.NewScheme()

func init() {
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
}

// cluster is API server and etcd, and the processes that use them.
type cluster struct {
	dir    string
	server *envtest.Environment
	config *rest.Config
	admin  client.Client
	part   partConfig

	operator, agents *process.Process
}

// newCluster starts API server and etcd, with what the chart makes before its pods run.
func newCluster(ctx context.Context, t *testing.T) *cluster {
	t.Helper()
	testlab.Root(t)
	server, err := apiserver.New("../../charts/kubernetsn/files", "../operator/testdata")
	if err != nil {
		testlab.Missing(t, err.Error())
	}
	const helm = "../../bin/helm"
	if _, err := os.Stat(helm); err != nil {
		testlab.Missing(t, "bin/helm is missing; `make helm` builds it")
	}
	dir, err := os.MkdirTemp("", "scale") // short, for the paths of sockets
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := &cluster{dir: dir, server: server}
	// These folders outlast a power cut.
	server.ControlPlane.APIServer.CertDir, server.ControlPlane.Etcd.DataDir = folder(t, dir, "certificates"), folder(t, dir, "etcd")
	server.ControlPlaneStartTimeout = startPatience
	// Without a route to anywhere it would not know its own address.
	server.ControlPlane.APIServer.Configure().Set("advertise-address", "192.0.2.1")
	t.Cleanup(c.stopServer)
	c.config, err = server.Start()
	must(t, err)
	c.config.QPS, c.config.Burst = 1000, 1000
	c.admin, err = client.New(c.config, client.Options{Scheme: scheme})
	must(t, err)
	port, err := freePort(ctx)
	must(t, err)
	c.part = partConfig{Dir: dir, Host: c.config.Host, CA: c.config.CAData, Port: port}
	must(t, c.applyChart(ctx, helm))
	for _, name := range []string{"tsn-cni", "libktsn.so"} {
		must(t, os.WriteFile(filepath.Join(folder(t, dir, "programs"), name), []byte("played\n"), 0o600))
	}
	c.part.Token, err = c.token(ctx, "ktsn-operator", nil)
	must(t, err)
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func folder(t testing.TB, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	must(t, os.MkdirAll(path, 0o700))
	return path
}

func freePort(ctx context.Context) (int, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// applyChart makes all that the chart renders but what runs as pods and the definitions, which are there.
func (c *cluster) applyChart(ctx context.Context, helm string) error {
	text, err := exec.CommandContext(ctx, helm, "template", "x", "../../charts/kubernetsn", "--no-hooks", "--kube-version", "1.34.0",
		"--set", "image.prefix=registry.example.org/kubernetsn,image.tag=dev").Output()
	if err != nil {
		return fmt.Errorf("render the chart: %w", err)
	}
	var objects []*unstructured.Unstructured
	for part := range bytes.SplitSeq(text, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(part, object); err != nil {
			return err
		}
		switch object.GetKind() {
		case "", "CustomResourceDefinition", "Deployment", "DaemonSet", "PodDisruptionBudget":
			continue
		case "Namespace": // before what is in it
			if err := c.admin.Create(ctx, object); err != nil {
				return err
			}
			continue
		case "MutatingWebhookConfiguration":
			if err := c.pointWebhook(object); err != nil {
				return err
			}
		}
		objects = append(objects, object)
	}
	for _, object := range objects {
		if err := c.admin.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("make %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// pointWebhook gives the webhook an address instead of a Service.
func (c *cluster) pointWebhook(object *unstructured.Unstructured) error {
	webhooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
	if err != nil {
		return err
	}
	for _, hook := range webhooks {
		hook.(map[string]any)["clientConfig"] = map[string]any{"url": fmt.Sprintf("https://localhost:%d%s", c.part.Port, webhook.Path)}
	}
	return unstructured.SetNestedSlice(object.Object, webhooks, "webhooks")
}

// token is one of a service account, of a pod if there is one.
func (c *cluster) token(ctx context.Context, account string, pod *corev1.Pod) (string, error) {
	seconds := int64(24 * 3600)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	}
	serviceAccount := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account, Namespace: system}}
	if err := c.admin.SubResource("token").Create(ctx, serviceAccount, request); err != nil {
		return "", fmt.Errorf("make a token of %s: %w", account, err)
	}
	return request.Status.Token, nil
}

// start runs a part in a process of its own.
func (c *cluster) start(role string) (*process.Process, error) {
	text, err := json.Marshal(c.part)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(c.dir, "part.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, err
	}
	command := exec.Command("/proc/self/exe")
	command.Env = append(os.Environ(), roleVariable+"="+role, configVariable+"="+path)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return process.Start(here{}, role, command)
}

// here starts a program in this namespace.
type here struct{}

func (here) Start(command *exec.Cmd) error { return command.Start() }

func (c *cluster) startOperator(t testing.TB) {
	t.Helper()
	var err error
	c.operator, err = c.start(roleOperator)
	must(t, err)
	t.Cleanup(func() { kill(c.operator) })
}

// operatorGone says why the operator's process has ended by itself, nil while it runs.
func (c *cluster) operatorGone() error {
	if c.operator == nil {
		return nil
	}
	select {
	case <-c.operator.Done():
		return c.operator.Ended()
	default:
		return nil
	}
}

func (c *cluster) startAgents(t testing.TB) {
	t.Helper()
	var err error
	c.agents, err = c.start(roleAgents)
	must(t, err)
	t.Cleanup(func() { kill(c.agents) })
}

// kill ends a process as a power cut does.
func kill(p *process.Process) {
	_ = syscall.Kill(p.PID(), syscall.SIGKILL) // fails only where it has ended
	<-p.Done()
}

// child finds the process of API server or etcd.
func (c *cluster) child(name string) (pid int, err error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has just ended
		}
		rest, after, isStat := strings.Cut(string(text), ") ")
		fields := strings.Fields(after)
		if isStat && strings.HasSuffix(rest, "("+name) && len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) && fields[0] != "Z" {
			return strconv.Atoi(filepath.Base(filepath.Dir(path)))
		}
	}
	return 0, fmt.Errorf("no %s runs", name)
}

// cutServer ends API server and etcd as a power cut does.
func (c *cluster) cutServer() error {
	var all error
	for _, name := range []string{"kube-apiserver", "etcd"} {
		pid, err := c.child(name)
		if err == nil {
			err = syscall.Kill(pid, syscall.SIGKILL)
		}
		all = errors.Join(all, err)
	}
	return errors.Join(all, ignoreKilled(c.server.ControlPlane.APIServer.Stop()), ignoreKilled(c.server.ControlPlane.Etcd.Stop()))
}

func ignoreKilled(err error) error {
	if err != nil && strings.Contains(err.Error(), "already finished") {
		return nil
	}
	return err
}

// startServer starts them again, with what etcd has.
func (c *cluster) startServer() error {
	if err := c.server.ControlPlane.Etcd.Start(); err != nil {
		return fmt.Errorf("start etcd again: %w", err)
	}
	if err := c.server.ControlPlane.APIServer.Start(); err != nil {
		return fmt.Errorf("start the API server again: %w", err)
	}
	return nil
}

// stopServer does not wait for the watches to end, which nobody reads any more.
func (c *cluster) stopServer() {
	_ = c.cutServer() // what is not there need not be ended
	_ = c.server.Stop()
}
