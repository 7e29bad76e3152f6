// SPDX-License-Identifier: Apache-2.0

//go:build federation

package federation

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/components"
	"github.com/kubernetsn/kubernetsn/test/cluster/internal/kube"
)

// joiner is a cluster that joins and leaves by `ktsn fed`.
type joiner struct {
	*place
	f *federator
}

// newJoiner ends the membership of the last member, which joins again as before when the test ends.
func newJoiner(ctx context.Context, t *testing.T, f *federator) *joiner {
	t.Helper()
	needCharts(t) // rights of an agent are in the namespace of KuberneTSN, too
	j := &joiner{members[len(members)-1], f}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		j.leave(ctx, t)
		j.membership(ctx, t, "join")
	})
	j.leave(ctx, t)
	return j
}

// leave ends the membership, by whatever tool it was begun. Karmada's own tool waits for ever while the federator
// propagates something to all members.
func (j *joiner) leave(ctx context.Context, t *testing.T) {
	t.Helper()
	if _, err := j.f.try(ctx, "unjoin", j.as, "--force"); err != nil && !strings.Contains(err.Error(), "there is no cluster") {
		t.Error(err)
	}
	removeToolRoles(ctx, t, j.as)
	await(ctx, t, leftNothing(j.as))
	j.removeAgent(ctx, t)
}

// removeToolRoles removes the roles that Karmada's tool has created for a member's agent. They stay if the member
// leaves by another tool; the federator's roles are removed automatically.
func removeToolRoles(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	rbac := hub.client.RbacV1()
	every, role, secrets := metav1.DeleteOptions{}, "system:karmada:"+name+":agent", "system:karmada:"+name+":agent-secret"
	existing, err := rbac.ClusterRoles().Get(ctx, role, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && len(existing.OwnerReferences) > 0 {
		return
	}
	for _, err := range []error{
		err, rbac.ClusterRoles().Delete(ctx, role, every), rbac.ClusterRoleBindings().Delete(ctx, role, every),
		rbac.Roles("karmada-cluster").Delete(ctx, secrets, every), rbac.RoleBindings("karmada-cluster").Delete(ctx, secrets, every),
	} {
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
}

// removeAgent removes the objects of an agent's manifest.
func (j *joiner) removeAgent(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, namespace := range []string{agentSystem, "karmada-cluster"} {
		if err := j.client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
	j.removeRights(ctx, t, federation.AgentRights)
	await(ctx, t, kube.KarmadaGone(j.client))
}

// removeRights removes an account's rights in the member, as `ktsn fed unjoin` says. The policy would bind the next
// agent.
func (j *joiner) removeRights(ctx context.Context, t *testing.T, rights string) {
	t.Helper()
	all := metav1.ListOptions{LabelSelector: federation.RightsLabel + "=" + rights}
	for _, kind := range []schema.GroupVersionResource{
		rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings"), rbacv1.SchemeGroupVersion.WithResource("clusterroles"),
		admissionv1.SchemeGroupVersion.WithResource("validatingadmissionpolicybindings"), admissionv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies"),
		corev1.SchemeGroupVersion.WithResource("serviceaccounts"), rbacv1.SchemeGroupVersion.WithResource("rolebindings"), rbacv1.SchemeGroupVersion.WithResource("roles"),
	} {
		list, err := j.dynamic.Resource(kind).List(ctx, all)
		if err != nil {
			t.Error(err)
			continue
		}
		for i := range list.Items {
			object := &list.Items[i]
			err := j.dynamic.Resource(kind).Namespace(object.GetNamespace()).Delete(ctx, object.GetName(), metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
	}
}

// applyFile applies a file that a command has written.
func (j *joiner) applyFile(ctx context.Context, t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	j.apply(ctx, t, string(text))
}

// agentAccount is the agent's account in the manifest that join writes.
const agentAccount = agentSystem + "/karmada-agent-sa"

// worksFor deploys to the member, moves from it and back, and deletes, in a namespace in which an account allows the
// hub to run workloads.
func (j *joiner) worksFor(ctx context.Context, t *testing.T, account string) {
	t.Helper()
	await(ctx, t, kube.MemberReady(hub.client, j.as))
	namespace, other := newNamespace(ctx, t), members[0]
	j.apply(ctx, t, j.f.run(ctx, "rights", "--account", account, "--workload-namespace", namespace))
	j.f.deploy(ctx, namespace, j.place)
	j.f.run(ctx, "move", namespace+"/web", "--to", other.as)
	await(ctx, t, j.gone(namespace))
	j.f.run(ctx, "move", namespace+"/web", "--to", j.as)
	await(ctx, t, other.gone(namespace))
	j.f.run(ctx, "delete", namespace+"/web")
	await(ctx, t, j.gone(namespace))
}

// agentIsForbiddenNothing checks the agent's log for missing rights.
func (j *joiner) agentIsForbiddenNothing(ctx context.Context, t *testing.T) {
	t.Helper()
	pods, err := j.client.CoreV1().Pods(agentSystem).List(ctx, metav1.ListOptions{LabelSelector: "app=karmada-agent"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		log, err := j.client.CoreV1().Pods(agentSystem).GetLogs(pods.Items[i].Name, &corev1.PodLogOptions{}).DoRaw(ctx)
		if err != nil {
			continue // it is gone
		}
		for line := range strings.SplitSeq(string(log), "\n") {
			if strings.Contains(line, "orbidden") {
				t.Errorf("the agent says %.400s", line)
			}
		}
	}
}

// certificate returns the agent's certificate, from the member's Secret.
func (j *joiner) certificate(ctx context.Context) (string, error) {
	secret, err := j.client.CoreV1().Secrets(agentSystem).Get(ctx, "karmada-kubeconfig", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	config, err := clientcmd.Load(secret.Data["karmada-kubeconfig"])
	if err != nil {
		return "", err
	}
	return string(config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo].ClientCertificateData), nil
}

var agentImage = "kubernetsn.io/karmada-agent:" + components.Tag

func TestAgentJoinsByManifest(t *testing.T) {
	ctx, f := needFederator(t)
	j := newJoiner(ctx, t, f)
	manifest := filepath.Join(f.folder, "agent.yaml")
	took(t, "from ktsn fed join to ready", func() {
		f.run(ctx, "join", j.as, "--member-kubeconfig", j.Kubeconfig(), "--label", "site=plant", "--agent-manifest", manifest, "--agent-image", agentImage)
		j.applyFile(ctx, t, manifest)
		await(ctx, t, kube.MemberReady(hub.client, j.as))
	})
	j.worksFor(ctx, t, agentAccount)
	j.agentIsForbiddenNothing(ctx, t)

	t.Run("whose certificate is renewed", func(t *testing.T) {
		before, err := j.certificate(ctx)
		if err != nil {
			t.Fatal(err)
		}
		j.restartAgent(ctx, t, "--cert-rotation-checking-interval=5s", "--cert-rotation-remaining-time-threshold=1")
		took(t, "the agent has another certificate after", func() {
			await(ctx, t, func(ctx context.Context) error {
				now, err := j.certificate(ctx)
				if err == nil && now == before {
					err = errors.New("the agent's certificate is the one that it had")
				}
				return err
			})
		})
		j.restartAgent(ctx, t, "--cert-rotation-remaining-time-threshold=0.2", "--cert-rotation-checking-interval=5m")
		j.worksFor(ctx, t, agentAccount)
		j.agentIsForbiddenNothing(ctx, t)
	})
	t.Run("and gets other credentials", func(t *testing.T) {
		f.run(ctx, "enroll", j.as, "--agent-manifest", manifest, "--agent-image", agentImage)
		j.applyFile(ctx, t, manifest)
		await(ctx, t, j.runs(agentSystem, "karmada-agent", 1))
		j.worksFor(ctx, t, agentAccount)
	})
}

var (
	printedToken = regexp.MustCompile(`(?m)^ +([a-z0-9]{6}\.[a-z0-9]{16})$`)
	// printedRights matches the options of rights in the command that join prints, on its second line.
	printedRights = regexp.MustCompile(`(?m)^ +ktsn fed enroll .* \\\n +(--.+)$`)
)

func TestAgentJoinsByToken(t *testing.T) {
	ctx, f := needFederator(t)
	j := newJoiner(ctx, t, f)
	system, err := j.client.CoreV1().Namespaces().Get(ctx, "kube-system", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	printed := f.run(ctx, "join", j.as, "--id", string(system.UID))
	token, rights := printedToken.FindStringSubmatch(printed), printedRights.FindStringSubmatch(printed)
	if token == nil || rights == nil {
		t.Fatalf("join prints no token or no rights: %s", printed)
	}
	f.write("bootstrap-token", token[1])
	manifest := filepath.Join(f.folder, "agent.yaml")
	enroll := []string{"enroll", j.as, "--token-file", filepath.Join(f.folder, "bootstrap-token"), "--agent-manifest", manifest, "--agent-image", agentImage}
	enroll = append(enroll, strings.Fields(rights[1])...)
	f.run(ctx, enroll...)
	if output, err := f.try(ctx, enroll...); err == nil {
		t.Errorf("the token is good for twice: %s", output)
	}
	if output, err := f.try(ctx, "clusters", "--token-file", filepath.Join(f.folder, "bootstrap-token")); err == nil {
		t.Errorf("by a token for an agent clusters are listed: %s", output)
	}
	j.applyFile(ctx, t, manifest)
	j.worksFor(ctx, t, agentAccount)
	j.agentIsForbiddenNothing(ctx, t)
	t.Run("and leaves with what was left there", func(t *testing.T) { j.leaves(ctx, t) })
}

// leaves unjoins the cluster with a workload that runs only there, in a namespace that Karmada has created.
func (j *joiner) leaves(ctx context.Context, t *testing.T) {
	t.Helper()
	namespace := newNamespace(ctx, t)
	j.apply(ctx, t, j.f.run(ctx, "rights", "--workload-namespace", namespace))
	j.f.deploy(ctx, namespace, j.place)
	before := j.uid(ctx, t, namespace, "web")
	if output, err := j.f.try(ctx, "unjoin", j.as); err == nil {
		t.Errorf("it leaves with a workload: %s", output)
	}
	took(t, "ktsn fed unjoin --force", func() { j.f.run(ctx, "unjoin", j.as, "--force") })
	await(ctx, t, leftNothing(j.as))
	time.Sleep(firstFew) // in which the agent would remove it
	if j.uid(ctx, t, namespace, "web") != before {
		t.Error("the workload that was left is another")
	}
	await(ctx, t, j.runs(namespace, "web", 1))
	if err := j.client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// pushKubeconfig returns a file by which the hub reaches a member as a separate ServiceAccount with limited rights.
func (j *joiner) pushKubeconfig(ctx context.Context, t *testing.T, name string) string {
	t.Helper()
	j.apply(ctx, t, j.f.run(ctx, "rights", "--account", "default/"+name))
	t.Cleanup(func() { j.removeRights(context.WithoutCancel(ctx), t, "default."+name) })
	file := "push-" + name
	j.f.write(file, kubeconfigOf(j.place, j.tokenOf(ctx, t, "default", name)))
	return filepath.Join(j.f.folder, file)
}

// withdraw invalidates a token by deleting its ServiceAccount.
func (j *joiner) withdraw(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	if err := j.client.CoreV1().ServiceAccounts("default").Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

func TestPushTokenIsReplaced(t *testing.T) {
	ctx, f := needFederator(t)
	j := newJoiner(ctx, t, f)
	f.run(ctx, "join", j.as, "--mode", "push", "--member-kubeconfig", j.pushKubeconfig(ctx, t, "push-first"))
	j.worksFor(ctx, t, "default/push-first")
	if output := f.run(ctx, "clusters"); !strings.Contains(output, "matches") {
		t.Errorf("the authority is not said to be the one that was given: %s", output)
	}
	f.run(ctx, "join", j.as, "--mode", "push", "--member-kubeconfig", j.pushKubeconfig(ctx, t, "push-second"))
	j.withdraw(ctx, t, "push-first")
	j.worksFor(ctx, t, "default/push-second")
}
