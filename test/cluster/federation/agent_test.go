// SPDX-License-Identifier: Apache-2.0

package federation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// agentSystem is the namespace of karmada-agent in a member.
const agentSystem = "karmada-system"

// restartAgent restarts a member's agent with more options. An agent whose hub ended several times in a few minutes
// lists changes only after a minute; a restarted one does so at once.
func (p *place) restartAgent(ctx context.Context, t *testing.T, options ...string) {
	t.Helper()
	deployment, err := p.now(ctx, agentSystem, "karmada-agent")
	if err != nil {
		t.Fatal(err)
	}
	template := &deployment.Spec.Template
	template.Spec.Containers[0].Command = append(template.Spec.Containers[0].Command, options...)
	metav1.SetMetaDataAnnotation(&template.ObjectMeta, "restarted-at", time.Now().String())
	if _, err := p.client.AppsV1().Deployments(agentSystem).Update(ctx, deployment, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, p.runs(agentSystem, "karmada-agent", 1))
}

// clustersPath is the path of the hub's members.
const clustersPath = "/apis/cluster.karmada.io/v1alpha1/clusters"

// agentReads returns a question for await: whether the kubeconfig of a member's agent can read that member at the hub,
// and cannot read Secrets.
func agentReads(file, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		config, err := clientcmd.BuildConfigFromFlags("", file)
		if err != nil {
			return err
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		if _, err := client.Discovery().RESTClient().Get().AbsPath(clustersPath, name).DoRaw(ctx); err != nil {
			return fmt.Errorf("read member %s as its agent: %w", name, err)
		}
		if _, err := client.CoreV1().Secrets("").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the agent of %s reads the Secrets of the hub: %w", name, err)
		}
		return nil
	}
}

// leftNothing returns a question for await: whether a member is gone from the hub, with everything that was created for
// its agent.
func leftNothing(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := hub.client.Discovery().RESTClient().Get().AbsPath(clustersPath, name).DoRaw(ctx)
		role := "system:karmada:" + name + ":agent"
		_, errRole := hub.client.RbacV1().ClusterRoles().Get(ctx, role, metav1.GetOptions{})
		_, errBinding := hub.client.RbacV1().ClusterRoleBindings().Get(ctx, role, metav1.GetOptions{})
		_, errNamespace := hub.client.CoreV1().Namespaces().Get(ctx, "karmada-es-"+name, metav1.GetOptions{})
		for what, err := range map[string]error{"Cluster": err, "ClusterRole": errRole, "ClusterRoleBinding": errBinding, "namespace": errNamespace} {
			if !apierrors.IsNotFound(err) {
				return errors.Join(fmt.Errorf("the %s of member %s is still there", what, name), err)
			}
		}
		return tokenless(ctx, name)
	}
}

// tokenless fails while the bootstrap token of a member's agent exists.
func tokenless(ctx context.Context, name string) error {
	secrets, err := hub.client.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{FieldSelector: "type=bootstrap.kubernetes.io/token"})
	if err != nil {
		return err
	}
	for i := range secrets.Items {
		if strings.HasSuffix(string(secrets.Items[i].Data["auth-extra-groups"]), ":"+name) {
			return fmt.Errorf("the token %s of the agent of %s is still there", secrets.Items[i].Name, name)
		}
	}
	return nil
}
