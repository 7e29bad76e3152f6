// SPDX-License-Identifier: Apache-2.0

package federation

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wire "github.com/kubernetsn/kubernetsn/internal/shared/federation"
	"github.com/kubernetsn/kubernetsn/internal/testlab"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/chart"
)

// federator is ktsn-federator running next to the hub, with exactly the rights that its chart grants.
type federator struct {
	t       *testing.T
	folder  string
	address string
	process *exec.Cmd
	// ended is closed when the process has ended.
	ended chan struct{}
}

// needFederator returns a running federator, which ends with the test.
func needFederator(t *testing.T) (context.Context, *federator) {
	t.Helper()
	ctx := needFederation(t)
	manifests, err := chart.Helm(ctx, testlab.Program(t, "helm"), hub.Kubeconfig(), "template", "federator", folder(t, "charts/federator"), "--kube-version", "1.34.0",
		"--set", "program.enabled=false")
	if err != nil {
		t.Fatalf("%v: %s", err, manifests)
	}
	hub.apply(ctx, t, manifests)
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &federator{t: t, folder: t.TempDir(), address: port.Addr().String()}
	port.Close()
	f.write("hub.conf", kubeconfigOf(hub, hub.tokenOf(ctx, t, "kubernetsn-system", "ktsn-federator")))
	f.write("token", operatorToken(ctx, t))
	f.write("fed.yaml", "server: http://"+f.address+"\ntokenFile: "+filepath.Join(f.folder, "token")+"\n")
	f.start()
	t.Cleanup(func() {
		f.stop()
		if t.Failed() {
			t.Log(f.log())
		}
	})
	f.awaitAnswer(ctx)
	return ctx, f
}

// awaitAnswer waits until the federator answers.
func (f *federator) awaitAnswer(ctx context.Context) {
	f.t.Helper()
	await(ctx, f.t, func(context.Context) error {
		_, err := f.try(ctx, "clusters")
		return err
	})
}

func (f *federator) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.folder, name), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// start starts the federator; it can be called again.
func (f *federator) start() {
	f.t.Helper()
	f.process = exec.Command(testlab.Program(f.t, "ktsn-federator"), "--kubeconfig", filepath.Join(f.folder, "hub.conf"), "--listen", f.address,
		"--health-address", "127.0.0.1:0", "--metrics-address", "0")
	f.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a killed test leaves none, which would hold the lease
	log, err := os.OpenFile(f.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		f.t.Fatal(err)
	}
	defer log.Close()
	f.process.Stdout, f.process.Stderr = log, log
	if err := f.process.Start(); err != nil {
		f.t.Fatal(err)
	}
	process, ended := f.process, make(chan struct{})
	f.ended = ended
	go func() {
		defer close(ended)
		_ = process.Wait() // it is killed, or its log says why
	}()
}

func (f *federator) logFile() string { return filepath.Join(f.folder, "log") }

// log returns the output so far.
func (f *federator) log() string {
	f.t.Helper()
	text, err := os.ReadFile(f.logFile())
	if err != nil {
		f.t.Fatal(err)
	}
	return string(text)
}

// kill kills the federator, as the OOM killer would.
func (f *federator) kill() {
	_ = f.process.Process.Kill() // it may have ended
	<-f.ended
}

// stop terminates the federator, so that the next need not wait for its lease.
func (f *federator) stop() {
	_ = f.process.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-f.ended:
	case <-time.After(firstFew):
		f.t.Error("the federator does not end")
		f.kill()
	}
}

// startIfEnded restarts the federator if it has ended by itself, as kubelet does, and waits until it answers.
func (f *federator) startIfEnded(ctx context.Context) {
	f.t.Helper()
	select {
	case <-f.ended:
		f.t.Log("the federator had ended")
		f.start()
		f.awaitAnswer(ctx)
	default:
	}
}

// try runs a command of `ktsn fed`.
func (f *federator) try(ctx context.Context, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, testlab.Program(f.t, "ktsn"), append([]string{"fed", "--config", filepath.Join(f.folder, "fed.yaml")}, arguments...)...)
	output, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("ktsn fed %s: %w: %s", strings.Join(arguments, " "), err, output)
	}
	return string(output), err
}

func (f *federator) run(ctx context.Context, arguments ...string) string {
	f.t.Helper()
	output, err := f.try(ctx, arguments...)
	if err != nil {
		f.t.Fatal(err)
	}
	return output
}

// tokenOf returns a ServiceAccount's token for audiences, without any for the API server.
func (p *place) tokenOf(ctx context.Context, t *testing.T, namespace, name string, audiences ...string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	token, err := p.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}

// operatorToken returns the token of a user with all rights at the hub.
func operatorToken(ctx context.Context, t *testing.T) string {
	t.Helper()
	const namespace, name = "default", "federation-operator"
	_, err := hub.client.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err == nil || apierrors.IsAlreadyExists(err) {
		_, err = hub.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}},
		}, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	return hub.tokenOf(ctx, t, namespace, name, wire.Audience)
}

// kubeconfigOf returns a kubeconfig for the hub or a member with a token.
func kubeconfigOf(p *place, token string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "it",
"clusters": [{"name": "it", "cluster": {"server": %q, "certificate-authority-data": %q}}],
"users": [{"name": "somebody", "user": {"token": %q}}],
"contexts": [{"name": "it", "context": {"cluster": "it", "user": "somebody"}}]}
`, p.config.Host, base64.StdEncoding.EncodeToString(p.config.CAData), token)
}

// deploy deploys to a member and waits until the Deployment runs there.
func (f *federator) deploy(ctx context.Context, namespace string, on *place) {
	f.t.Helper()
	f.write("web.yaml", deployment(namespace, "web", 1))
	took(f.t, "from ktsn fed deploy to running", func() {
		f.run(ctx, "deploy", namespace+"/web", "-f", filepath.Join(f.folder, "web.yaml"), "--clusters", on.as)
		await(ctx, f.t, on.runs(namespace, "web", 1))
	})
	f.t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		if _, err := f.try(ctx, "delete", namespace+"/web"); err != nil && !strings.Contains(err.Error(), "there is no workload") {
			f.t.Error(err)
		}
	})
}

// gone returns a question for await: whether a member no longer has the workload's Deployment.
func (p *place) gone(namespace string) func(context.Context) error {
	return p.without(namespace, "web")
}

// neverNone counts, until it is stopped, how often no member has a ready pod.
func neverNone(ctx context.Context, namespace string) (stop func() (looks, none int)) {
	ctx, cancel := context.WithCancel(ctx)
	var looks, none int
	var ended sync.WaitGroup
	ended.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			// The member that is asked later may have lost its pod in between, so both are asked once more.
			ready := false
			for _, member := range append(members[:2:2], members[:2]...) {
				deployment, err := member.now(ctx, namespace, "web")
				ready = ready || err == nil && deployment.Status.ReadyReplicas > 0
			}
			if ctx.Err() != nil {
				return
			}
			looks++
			if !ready {
				none++
			}
		}
	})
	return func() (int, int) { cancel(); ended.Wait(); return looks, none }
}

func TestDeployMoveDelete(t *testing.T) {
	ctx, f := needFederator(t)
	namespace, from, to := newNamespace(ctx, t), members[0], members[1]
	f.deploy(ctx, namespace, from)
	stop := neverNone(ctx, namespace)
	took(t, "move", func() { f.run(ctx, "move", namespace+"/web", "--to", to.as) })
	if looks, none := stop(); none > 0 || looks == 0 {
		t.Errorf("%d of %d times no pod was ready", none, looks)
	}
	await(ctx, t, to.runs(namespace, "web", 1))
	await(ctx, t, from.gone(namespace))
	if output := f.run(ctx, "where", namespace+"/web"); !strings.Contains(output, to.as) || strings.Contains(output, from.as) {
		t.Errorf("it is said to be at %s", output)
	}
	f.run(ctx, "delete", namespace+"/web")
	await(ctx, t, to.gone(namespace))
}

func TestMoveSurvivesKilledFederator(t *testing.T) {
	ctx, f := needFederator(t)
	namespace, from, to := newNamespace(ctx, t), members[0], members[1]
	f.deploy(ctx, namespace, from)
	await(ctx, t, func(context.Context) error {
		if strings.Contains(f.log(), `msg="Starting workers" controller=moves`) {
			return nil
		}
		return errors.New("the federator does not lead yet")
	})
	f.run(ctx, "move", namespace+"/web", "--to", to.as, "--wait=false")
	f.kill()
	await(ctx, t, to.runs(namespace, "web", 1))
	if _, err := from.now(ctx, namespace, "web"); err != nil {
		t.Errorf("without a federator %s has lost it: %v", from.as, err)
	}
	stop := neverNone(ctx, namespace)
	f.start()
	took(t, "another federator carries the move on after", func() { await(ctx, t, from.gone(namespace)) })
	if looks, none := stop(); none > 0 || looks == 0 {
		t.Errorf("%d of %d times no pod was ready", none, looks)
	}
	await(ctx, t, func(ctx context.Context) error {
		output, err := f.try(ctx, "move", namespace+"/web", "--to", to.as)
		if err == nil && !strings.Contains(output, "done") {
			err = errors.New(output)
		}
		return err
	})
}

func TestFailedMoveIsReverted(t *testing.T) {
	ctx, f := needFederator(t)
	namespace, from, to := newNamespace(ctx, t), members[0], members[1]
	f.deploy(ctx, namespace, from)
	// A namespace without room for pods.
	to.apply(ctx, t, fmt.Sprintf("apiVersion: v1\nkind: ResourceQuota\nmetadata: {namespace: %s, name: none}\nspec: {hard: {pods: '0'}}\n", namespace))
	output, err := f.try(ctx, "move", namespace+"/web", "--to", to.as, "--timeout", "8s")
	if err == nil || !strings.Contains(output, "it stays on "+from.as) {
		t.Errorf("said %s: %v", output, err)
	}
	await(ctx, t, from.runs(namespace, "web", 1))
	await(ctx, t, to.gone(namespace))
}
